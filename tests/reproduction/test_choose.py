"""``python -m reproduction.choose`` as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from reproduction.search import read_trials
from reproduction.tuned import read_settings
from typer.testing import CliRunner

from caribou.errors import CaribouError
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


def call(*arguments: str) -> str:
    result = CliRunner().invoke(choose.app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def failure(*arguments: str) -> str:
    result = CliRunner().invoke(choose.app, list(arguments))
    assert isinstance(result.exception, CaribouError), result.output
    return str(result.exception)


def test_settings_are_chosen_stored_and_used(places: list[str], tmp_path: Path) -> None:
    text = call("--dataset", DATA, "--epsilon", "8", "--epsilon", "2", "--seeds", "2", *places)
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
    again = call("mlp-dp", "--dataset", DATA, "--epsilon", "8", "--seeds", "2", *places)
    assert again == text.splitlines(keepends=True)[0]
    assert read_trials(file) == trials
    assert read_settings(tmp_path / "s.toml") == entries


def test_without_fits_the_file_is_what_the_trials_say(places: list[str], tmp_path: Path) -> None:
    """Complete trials decide; what was not searched, or not to its end, is written as such."""
    common = ["--dataset", DATA, "--epsilon", "8", "--epsilon", "2", "--seeds", "1"]
    call("mlp-dp", *common[:4], "--seeds", "1", *places)
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


def test_wrong_words(places: list[str]) -> None:
    assert "methods must have a search space" in failure("sage-edp", "--dataset", DATA, *places)
    assert "dataset must be one of" in failure("mlp-dp", "--dataset", "kora", *places)
    assert "epsilon must be" in failure("mlp-dp", "--dataset", DATA, "--epsilon", "-1", *places)
