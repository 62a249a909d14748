"""``python -m reproduction.choose`` and ``caribou train --settings`` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from reproduction.search import read_trials
from typer import Typer
from typer.testing import CliRunner

from caribou.cli import app
from caribou.errors import CaribouError
from caribou.experiments import reproduction
from caribou.experiments.hyperparameters import TunedSettings, read_settings, write_settings
from reproduction import choose

DATA = "csbm:nodes=150"
pytestmark = pytest.mark.usefixtures("quick_learning")


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    spaces = tmp_path / "spaces"
    spaces.mkdir()
    (spaces / "mlp-dp.toml").write_text("clip = [0.3, 0.1]\n")
    (spaces / "gap-inf.toml").write_text('hops = ["default", 1]\n')
    return ["--spaces", str(spaces), "--trials", str(tmp_path / "trials"), "--settings", str(tmp_path / "s.toml")]


def _program(arguments: tuple[str, ...]) -> tuple[Typer, list[str]]:
    """The search is a program of its own, training a command of the package."""
    return (choose.app, list(arguments[1:])) if arguments[0] == "choose" else (app, list(arguments))


def call(*arguments: str) -> str:
    result = CliRunner().invoke(*_program(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def failure(*arguments: str) -> str:
    result = CliRunner().invoke(*_program(arguments))
    assert isinstance(result.exception, CaribouError), result.output
    return str(result.exception)


def test_settings_are_chosen_stored_and_used(places: list[str], tmp_path: Path) -> None:
    text = call("choose", "--dataset", DATA, "--epsilon", "8", "--epsilon", "2", "--seeds", "2", *places)
    assert [line.split(":")[0] + ":" + line.split(":")[1] for line in text.splitlines()] == [
        f"mlp-dp on {DATA} at epsilon = 8",
        f"mlp-dp on {DATA} at epsilon = 2",
        f"gap-inf on {DATA} at epsilon = inf",
    ]
    entries = read_settings(tmp_path / "s.toml")
    assert {(e.method, e.epsilon, e.tried, e.seeds) for e in entries} == {
        ("mlp-dp", 8.0, 2, (0, 1)),
        ("mlp-dp", 2.0, 2, (0, 1)),
        ("gap-inf", float("inf"), 2, (0, 1)),
    }
    file = tmp_path / "trials" / "csbm_nodes=150.jsonl"
    trials = read_trials(file)
    assert len(trials) == 3 * 2 * 2
    again = call("choose", "mlp-dp", "--dataset", DATA, "--epsilon", "8", "--seeds", "2", *places)
    assert again == text.splitlines(keepends=True)[0]
    assert read_trials(file) == trials
    assert read_settings(tmp_path / "s.toml") == entries


def test_without_fits_the_file_is_what_the_trials_say(places: list[str], tmp_path: Path) -> None:
    """Complete trials decide; what was not searched, or not to its end, is written as such."""
    common = ["choose", "--dataset", DATA, "--epsilon", "8", "--epsilon", "2", "--seeds", "1"]
    call("choose", "mlp-dp", *common[1:5], "--seeds", "1", *places)
    (searched,) = read_settings(tmp_path / "s.toml")
    (tmp_path / "s.toml").unlink()
    file = tmp_path / "trials" / "csbm_nodes=150.jsonl"
    before = file.read_bytes()
    call(*common, "--no-fits", *places)
    entries = read_settings(tmp_path / "s.toml")
    others = [(e.method, e.epsilon, e.tried) for e in entries if e != searched]
    assert searched in entries
    assert others == [("gap-inf", float("inf"), 0), ("mlp-dp", 2.0, 0)]
    assert file.read_bytes() == before
    file.write_bytes(before[: before.index(b"\n") + 1])  # one of its two trials
    call(*common, "--no-fits", *places)
    assert all(entry.tried == 0 for entry in read_settings(tmp_path / "s.toml"))


def test_training_with_chosen_settings(tmp_path: Path) -> None:
    file = str(tmp_path / "s.toml")
    entries = [TunedSettings("mlp-dp", DATA, 8.0, {"clip": 0.1, "shrinkage": 0.7}, 0.5, 0.4, 2, (0,), "0.1.0")]
    write_settings(file, entries)
    common = ["train", "mlp-dp", "--dataset", DATA, "--seeds", "1", "--settings", file]
    document = json.loads(call(*common, "--epsilon", "8", "--set", "clip=0.25", "--json"))
    used = document["certificate"]["public_parameters"]
    assert (used["clip"], used["shrinkage"]) == (0.25, 0.7)
    words = failure(*common, "--epsilon", "4")
    assert "entry for mlp-dp" in words
    assert "at epsilon = 8" in words
    graph = tmp_path / "graph.npz"
    graph.write_bytes(b"")
    assert "settings must go with --dataset" in failure("train", "mlp-dp", "--graph", str(graph), "--settings", file)
    assert "can be read" in failure("train", "mlp-dp", "--dataset", DATA, "--settings", str(tmp_path / "none.toml"))


def test_wrong_words(places: list[str]) -> None:
    assert "methods must have a search space" in failure("choose", "sage-edp", "--dataset", DATA, *places)
    assert "dataset must be one of" in failure("choose", "mlp-dp", "--dataset", "kora", *places)
    assert "epsilon must be" in failure("choose", "mlp-dp", "--dataset", DATA, "--epsilon", "-1", *places)


def test_outside_the_source_tree_it_is_said_where_was_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduction, "_starts", lambda: (tmp_path, tmp_path / "site-packages" / "caribou"))
    words = failure("choose", "mlp-dp", "--dataset", DATA)
    assert f"no folder reproduction/ was found from '{tmp_path}' upward" in words
    assert "source tree" in words
    assert "which does not exist" in failure(
        "choose", "--dataset", DATA, "--spaces", "none", "--trials", "t", "--settings", "s"
    )
    assert list(tmp_path.iterdir()) == []
