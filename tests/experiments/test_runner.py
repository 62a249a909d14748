"""Runs that are killed and resumed give the records of a run that was left alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from caribou.experiments.records import FAILED, OK, read, result_file
from caribou.experiments.runner import _outcome, run_cells

CARIBOU = Path(sys.executable).with_name("caribou")
TABLE = """
title = "A table"
kind = "train"
[[grid]]
method = ["mlp-dp", "caribou-inf", "gap-ndp"]
dataset = ["csbm:nodes=80", "chain-s"]
epsilon = [8]
seeds = 1
[scale.smoke]
"""
UNSTABLE = {"seconds", "cpu_seconds", "peak_mb", "peak_mb_before"}


def caribou_run(folder: Path, *words: str) -> subprocess.Popen[str]:
    (folder / "table.toml").write_text(TABLE)
    arguments = [str(CARIBOU), "run", "table.toml", "--scale", "smoke", *words]
    return subprocess.Popen(
        arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def stable(folder: Path) -> dict[str, dict]:
    records, problems = read(folder, "table")
    assert not problems
    assert len({r.key for r in records}) == len(records), "a cell was measured twice"
    return {
        r.key: {name: value for name, value in r.measures.items() if name not in UNSTABLE} | {"error": r.error}
        for r in records
        if r.status == OK
    }


def test_a_killed_run_is_resumed_without_loss_or_repetition(tmp_path: Path) -> None:
    whole = caribou_run(tmp_path, "--out", "whole")
    output, errors = whole.communicate(timeout=300)
    # caribou-inf is not private: epsilon 8 is refused, recorded, and the other cells go on
    assert whole.returncode == 4, errors
    assert "4 cells measured, 2 failed" in output
    killed = caribou_run(tmp_path, "--out", "parts")
    file = result_file(tmp_path / "parts", "table")
    while killed.poll() is None and not (file.exists() and file.read_text().count("\n") >= 2):
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    before = file.read_text()
    again = caribou_run(tmp_path, "--out", "parts")
    assert "or give --resume" in again.communicate(timeout=60)[1]
    assert again.returncode == 2
    resumed = caribou_run(tmp_path, "--out", "parts", "--resume")
    _, errors = resumed.communicate(timeout=300)
    assert resumed.returncode == 4, errors
    assert file.read_text().startswith(before)
    expected = stable(tmp_path / "whole")
    assert len(expected) == 4
    failures = [r for r in read(tmp_path / "parts", "table")[0] if r.status == FAILED]
    assert {r.error for r in failures} == {"epsilon must be inf for caribou-inf, which is not private, got 8"}
    records, problems = read(tmp_path / "parts", "table")
    assert not problems
    successes = {
        r.key: {name: value for name, value in r.measures.items() if name not in UNSTABLE} | {"error": r.error}
        for r in records
        if r.status == OK
    }
    assert successes == expected
    assert sum(r.status == OK for r in records) == 4, "a cell was measured twice"


def test_a_process_that_is_killed_is_a_failure() -> None:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=os._exit, args=(9,))
    process.start()
    theirs.close()
    assert _outcome(ours, process) == (FAILED, {}, "the process ended with code 9")


def test_a_cell_that_cannot_be_measured_is_recorded() -> None:
    cells = [{"kind": "train", "method": "mlp-dp", "dataset": "nowhere", "epsilon": 8, "seed": 0}, {"kind": "nonsense"}]
    records = list(run_cells("table", cells, jobs=2, data_dir=None))
    assert {r.status for r in records} == {FAILED}
    errors = {r.cell["kind"]: r.error for r in records}
    assert "kind must be one of" in errors["nonsense"]
    assert "nowhere" in errors["train"]
