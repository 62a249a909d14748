"""Runs that are killed and resumed give the records of a run that was left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from caribou.experiments.records import FAILED, OK, read, result_file
from caribou.experiments.runner import run_cells

CARIBOU = Path(sys.executable).with_name("caribou")
TABLE = """
title = "A table"
kind = "noise"
[[grid]]
epsilon = [1, 2, 4]
delta = [1e-5, 2]
hops = [1, 8]
contraction = 0.9
"""
"""Computed, not fitted; a delta of 2 is refused."""
UNSTABLE = {"seconds", "cpu_seconds", "peak_mb", "peak_mb_before"}


def caribou_run(folder: Path, *words: str) -> subprocess.Popen[str]:
    (folder / "table.toml").write_text(TABLE)
    arguments = [str(CARIBOU), "run", "table.toml", *words]
    return subprocess.Popen(
        arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def outcomes(folder: Path) -> list[tuple]:
    records, problems = read(folder, "table")
    assert not problems
    return sorted(
        (r.key, r.status, r.error, [value for name, value in r.measures.items() if name not in UNSTABLE])
        for r in records
    )


def test_a_killed_run_is_resumed_without_loss_or_repetition(tmp_path: Path) -> None:
    whole = caribou_run(tmp_path, "--out", "whole")
    output, errors = whole.communicate(timeout=300)
    assert whole.returncode == 4, errors
    assert "6 cells measured, 6 failed" in output
    killed = caribou_run(tmp_path, "--out", "parts")
    file = result_file(tmp_path / "parts", "table")
    while killed.poll() is None and not (file.exists() and file.read_text().count("\n") >= 2):
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    before = file.read_text()
    resumed = caribou_run(tmp_path, "--out", "parts", "--resume")
    _, errors = resumed.communicate(timeout=300)
    assert resumed.returncode == 4, errors
    assert file.read_text().startswith(before)
    expected, found = outcomes(tmp_path / "whole"), outcomes(tmp_path / "parts")
    assert [o for o in found if o[1] == OK] == [o for o in expected if o[1] == OK], "each cell was measured once"
    assert {o[2] for o in found if o[1] == FAILED} == {"delta must be in the open interval (0, 1), got 2"}


def test_a_cell_that_cannot_be_measured_is_recorded() -> None:
    cells = [{"kind": "train", "method": "mlp-dp", "dataset": "nowhere", "epsilon": 8, "seed": 0}, {"kind": "nonsense"}]
    records = list(run_cells("table", cells, jobs=2, data_dir=None))
    assert {r.status for r in records} == {FAILED}
    errors = {r.cell["kind"]: r.error for r in records}
    assert "kind must be one of" in errors["nonsense"]
    assert "nowhere" in errors["train"]
