"""``caribou run --list``; what a run does is tested in tests/experiments/test_runner.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from caribou.cli import app
from caribou.errors import InputError

ROOT = Path(__file__).parents[2]


def failure(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["run", *arguments])
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def test_outside_the_source_tree_the_folder_and_the_way_to_it_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = failure("--list")
    assert f"got '{tmp_path}/experiments', which is no folder" in words
    assert "source tree" in words
    assert "or give PATH/experiments" in words
    assert "which has none" in failure("--list", str(tmp_path))
    assert "or give PATH/experiments" in failure("edge-accuracy.toml")


def test_experiments_of_another_folder_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["run", "--list", str(ROOT / "experiments")])
    assert result.exit_code == 0, result.output
    assert "edge-accuracy" in result.stdout
    (tmp_path / "broken.toml").write_text("title = [")
    assert "experiment must be TOML" in failure("--list", str(tmp_path))
