"""The engine in memory: the bytes do not depend on its threads, and an error of one of them ends the round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from caribou.engines import local as module
from caribou.engines.blocks import Layout
from caribou.engines.local import LocalRunner
from caribou.engines.preparation import sums_of_start
from caribou.engines.rounds import mean_of, steps_of
from caribou.errors import CaribouError
from engines_support import COLUMNS, NODES, Tables, calibrated_for, in_memory, last_state


def runner_of(tables: Tables, name: str, workers: int) -> tuple[LocalRunner, object]:
    files = tables.blocked(name, Layout(NODES, COLUMNS, 10))
    return in_memory(files, 1, workers), files


def test_threads_change_nothing_and_progress_counts_every_block_once(tables: Tables) -> None:
    states = []
    for workers in (1, 3):
        runner, files = runner_of(tables, f"w{workers}", workers)
        states.append(last_state(runner, files, calibrated_for("edge")))
    assert np.array_equal(*states)
    seen: list[tuple[int, int, int]] = []
    step = replace(steps_of(calibrated_for("edge"))[0], number=4)
    runner.round(step, mean_of(sums_of_start(files), NODES, step), lambda *found: seen.append(found))
    assert [(number, done) for number, done, _ in seen] == [(4, k + 1) for k in range(5)]
    entries = [total for _, _, total in seen]
    assert entries == sorted(entries)
    assert entries[-1] == sum(files.read(index).entries for index in range(5))


def test_an_error_in_a_block_is_raised_and_the_state_stays(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, files = runner_of(tables, "a", 2)
    runner.start(files.state("round-0").shards())
    before = np.concatenate([rows.copy() for rows in runner.shards()])
    monkeypatch.setattr(module, "advance", lambda *_: (_ for _ in ()).throw(MemoryError("no room")))
    step = steps_of(calibrated_for("edge"))[0]
    with pytest.raises(MemoryError, match="no room"):
        runner.round(step, np.zeros(COLUMNS), lambda *_: None)
    assert np.array_equal(np.concatenate(list(runner.shards())), before)


def test_the_noise_of_a_round_serves_one_state(tables: Tables) -> None:
    """Round 1 on two states: what the caller could subtract are the two values without noise."""
    runner, files = runner_of(tables, "a", 1)
    first, second = steps_of(calibrated_for("edge"))[:2]
    runner.start(files.state("round-0").shards())
    runner.round(first, np.zeros(COLUMNS), lambda *_: None)
    with pytest.raises(CaribouError, match="round 1 must be asked as before"):
        runner.round(first, np.zeros(COLUMNS), lambda *_: None)
    runner.start(2 * rows for rows in files.state("round-0").shards())
    with pytest.raises(CaribouError, match="round 1 must be asked as before"):
        runner.round(first, np.zeros(COLUMNS), lambda *_: None)
    runner.round(second, np.zeros(COLUMNS), lambda *_: None)
