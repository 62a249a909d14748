"""``python -m reproduction.choose`` as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from reproduction.search import read_trials
from reproduction.tuned import read_settings
from typer.testing import CliRunner

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
