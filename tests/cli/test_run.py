"""``caribou run``: which file a name means, and the list of experiments; a whole run is in tests/experiments/test_runner.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from caribou.experiments import runner
from caribou.experiments.records import OK, Record, read
from cli_support import caribou, refusal

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
