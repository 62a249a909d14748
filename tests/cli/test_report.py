"""``caribou report``: one's own records get tables, the paper's experiments get the paper's, whatever the folder."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from caribou.experiments.grid import read_experiment
from caribou.experiments.records import OK, Record, append
from cli_support import caribou

STUDY = """
title = "My study"
kind = "train"
[[grid]]
method = ["mlp-dp", "gap-ndp"]
dataset = ["mine", "other"]
epsilon = [2, 8]
seeds = 3
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(*arguments: str) -> str:
    return caribou("report", *arguments).stdout


def headings(folder: str) -> list[str]:
    return re.findall(r'<h2 id="([^"]+)"', Path(folder, "index.html").read_text())


def measured(file: Path, scale: str = "laptop") -> None:
    for k, cell in enumerate(read_experiment(file).cells(scale)):
        append("records", Record(file.stem, cell, OK, {"test_accuracy": 0.5 + k % 30 / 100, "cpu_seconds": 1.5}))


def test_one_s_own_grid_and_records_give_a_report() -> None:
    file = Path("study.toml")
    file.write_text(STUDY)
    measured(file)
    assert "24 records, 1 of 1 experiments" in call("records", "--out", "report")
    assert headings("report") == ["study"], "nothing of the paper is on it"
    table = csv.DictReader(Path("report/study-table.csv").read_text().splitlines())
    rows = {(row["group"], row["method"]): row for row in table}
    # the first cells of the grid: seeds 0 to 2 of mlp-dp on mine at epsilon 2
    assert rows["ε = 2", "mlp-dp"]["mine"] == "51.0"
    assert float(rows["ε = 2", "mlp-dp"]["mine (half width)"]) == 2.5
    assert {file.suffix for file in Path("report").iterdir()} == {".html", ".csv", ".tex", ".svg", ".png"}
    assert ">study<" in Path("report/index.html").read_text()
    call("records", "--out", "report", "--experiments", ".")
    assert ">My study<" in Path("report/index.html").read_text()
