"""The engine on disk: the bytes of the engine in memory, whatever the blocks and column tiles."""

from __future__ import annotations

import numpy as np
import pytest

from caribou.engines.blocks import Layout
from caribou.engines.rounds import steps_of
from caribou.errors import CaribouError
from engines_support import CAP, COLUMNS, NODES, Tables, calibrated_for, last_state, local, on_disk


@pytest.mark.parametrize(("unit", "cap"), [("edge", None), ("node", CAP)])
def test_blocks_threads_disk_and_tiles_give_the_same_bytes(tables: Tables, unit: str, cap: int | None) -> None:
    first = local(tables, "a", unit, cap)
    assert np.array_equal(first, local(tables, "b", unit, cap, shift=10, workers=1))
    for name, layout in (("disk", Layout(NODES, COLUMNS, 11)), ("tiles", Layout(NODES, COLUMNS, 10, 11))):
        files = tables.blocked(name, layout, cap=cap)
        found = last_state(on_disk(files, sum_rows=2048), files, calibrated_for(unit, cap))
        assert np.array_equal(first, found), name


def test_the_noise_of_a_round_serves_one_state(tables: Tables) -> None:
    files = tables.blocked("a", Layout(NODES, COLUMNS, 11))
    runner, step = on_disk(files), steps_of(calibrated_for("edge"))[0]
    sums = [runner.round(step, np.zeros(COLUMNS), lambda *_: None) for _ in range(2)]  # a repetition is no second value
    assert np.array_equal(*sums)
    files.state("round-0").write(0, 2 * files.state("round-0").read(0, 1))
    with pytest.raises(CaribouError, match="round 1 must be asked as before"):
        runner.round(step, np.zeros(COLUMNS), lambda *_: None)


def test_another_key_gives_another_state(tables: Tables) -> None:
    files = tables.blocked("a", Layout(NODES, COLUMNS, 11))
    states = [last_state(on_disk(files, seed), files, calibrated_for("edge")) for seed in (1, 2)]
    assert np.abs(states[0] - states[1]).max() > 0.01
