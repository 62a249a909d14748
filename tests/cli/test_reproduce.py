"""``caribou reproduce``: the missing cells are run once, the table stands beside the paper's, page and files are written."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from caribou.experiments import runner
from caribou.experiments.records import FAILED, OK, Record, read
from cli_support import caribou


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(*arguments: str, code: int = 0) -> str:
    return caribou("reproduce", *arguments, code=code).stdout


def invented(monkeypatch: pytest.MonkeyPatch, *, failing: str = "") -> list[dict]:
    """Cells are measured without a fit; returns those that were asked for."""
    asked: list[dict] = []

    def measured(experiment, cells, **_):
        asked.extend(cells)
        for cell in cells:
            failed = cell.get("method") == failing
            many = {name: [0.5] * len(cell.get("sweep", ())) for name in ("test_accuracies", "val_accuracies")}
            measures = many if "sweep" in cell else {"test_accuracy": 0.625, "cpu_seconds": 2.0}
            yield Record(experiment, cell, FAILED, error="why") if failed else Record(experiment, cell, OK, measures)

    monkeypatch.setattr(runner, "run_cells", measured)
    return asked


def test_noise_from_nothing_to_the_page() -> None:
    """Computed, not fitted: the real runner takes seconds."""
    shown = call("noise", "--out", "out")
    assert "noise: 48 of 48 cells are missing; about 1 s, 2 at a time" in shown
    assert "noise-depth: 48 cells measured, 0 failed, 0 were done before" in shown
    assert re.search(r"K = 128.*?12\.11", shown, re.DOTALL)
    assert "paper 12.11" in shown
    assert len(read("out/results", "noise-depth")[0]) == 48
    files = {path.name for path in Path("out").iterdir()}
    table = {"noise.csv", "noise.tex"}
    assert files == {"index.html", "results", *table, *(f"noise-figure.{kind}" for kind in ("csv", "svg", "png"))}
    page = Path("out/index.html").read_text()
    assert re.findall(r'<h2 id="([^"]+)"', page) == ["noise"], "that item alone"
    drawn = list(csv.DictReader(Path("out/noise-figure.csv").read_text().splitlines()))
    assert {"linear, paper", "caribou, paper", "caribou, exact"} <= {row["line"] for row in drawn}
    again = call("noise", "--out", "out")
    assert "noise: all 48 cells have records in out/results" in again
    assert len(read("out/results", "noise-depth")[0]) == 48, "nothing is measured twice"


def test_failed_cells_are_shown_and_are_code_4(monkeypatch: pytest.MonkeyPatch) -> None:
    invented(monkeypatch, failing="gap-edp")
    shown = call("failure", "--scale", "smoke", "--out", "out", code=4)
    assert "failure: 2 cells measured, 2 missing (records: out/results)" in shown
    assert "Failed cells: why" in Path("out/index.html").read_text()
