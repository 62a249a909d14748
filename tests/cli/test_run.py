"""``caribou run``: which file a name means, and the list of experiments; a whole run is in tests/experiments/test_runner.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from caribou.errors import InputError
from caribou.experiments import reproduction, runner
from caribou.experiments.records import OK, Record, read
from cli_support import caribou, refusal

PAPER = Path(__file__).parents[2] / "reproduction"
TABLE = """
title = "A table"
kind = "train"
[[grid]]
method = "mlp-dp"
dataset = "csbm:nodes=80"
epsilon = 8
seeds = 1
"""


def call(*arguments: str) -> str:
    return caribou("run", *arguments).stdout


def failure(*arguments: str) -> str:
    return refusal("run", *arguments)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As for who has the package alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduction, "_starts", lambda: (tmp_path, tmp_path / "site-packages" / "caribou"))
    return tmp_path


@pytest.mark.parametrize("words", [["--list"], ["edge-accuracy"], ["edge-accuracy.toml", "--scale", "smoke"]])
def test_outside_the_source_tree_it_is_said_where_was_looked(words: list[str], outside: Path) -> None:
    message = failure(*words)
    assert "comes with the source tree, not with the package" in message
    assert f"from '{outside}' upward or from '{outside}/site-packages/caribou' upward" in message
    assert "or give the path" in message


def test_a_folder_without_experiments(outside: Path) -> None:
    assert "which has none" in failure("--list", str(outside))
    assert "which is no folder" in failure("--list", str(outside / "none"))
    (outside / "broken.toml").write_text("title = [")
    assert "experiment must be TOML" in failure("--list", str(outside))


def test_the_paper_s_experiments_are_listed_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the package lies in the source tree
    assert "edge-accuracy" in call("--list")
    assert call("--list", str(PAPER / "experiments")) == call("--list")


@pytest.mark.parametrize("given", ["failure", "failure.toml", "experiments/failure.toml"])
def test_an_experiment_of_the_paper_is_found_by_its_name(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reproduction.experiment_file(given) == PAPER / "experiments" / "failure.toml"
    message = failure(given)
    assert "must have no records of failure yet, or give --resume" in message
    assert str(PAPER / "results") in message
    with pytest.raises(InputError, match=r"got 'nothing', which is no file and no name of an experiment in"):
        reproduction.experiment_file("nothing")


def test_a_file_of_one_s_own_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("failure.toml").write_text(TABLE)
    assert reproduction.experiment_file("failure.toml") == Path("failure.toml")


def test_records_of_one_s_own_go_to_results_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(experiment, cells, **_):
        return [Record(experiment, cell, OK, {"test_accuracy": 0.5}) for cell in cells]

    monkeypatch.setattr(runner, "run_cells", measured)
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(TABLE)
    assert "records: results/mine.jsonl" in call("mine.toml")
    assert [r.cell["method"] for r in read("results", "mine")[0]] == ["mlp-dp"]
    assert "must have no records of mine yet, or give --resume" in failure("mine.toml")
    assert "0 cells measured, 0 failed, 1 were done before" in call("mine.toml", "--resume")
