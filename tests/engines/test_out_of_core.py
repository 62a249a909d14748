"""The engine on disk: the bytes of the engine in memory, whatever the blocks and column tiles."""

from __future__ import annotations

import numpy as np
import pytest

from caribou.engines.blocks import Layout
from caribou.engines.out_of_core import OutOfCoreRunner
from caribou.mechanisms.noise_source import BlockNoise
from engines_support import CAP, COLUMNS, NODES, Tables, calibrated_for, last_state, local


@pytest.mark.parametrize(("unit", "cap"), [("edge", None), ("node", CAP)])
def test_blocks_threads_disk_and_tiles_give_the_same_bytes(tables: Tables, unit: str, cap: int | None) -> None:
    first = local(tables, "a", unit, cap)
    assert np.array_equal(first, local(tables, "b", unit, cap, shift=10, workers=1))
    for name, layout in (("disk", Layout(NODES, COLUMNS, 11)), ("tiles", Layout(NODES, COLUMNS, 10, 11))):
        files = tables.blocked(name, layout, cap=cap)
        runner = OutOfCoreRunner(files, BlockNoise.seeded(5), residual=True, sum_rows=2048)
        assert np.array_equal(first, last_state(runner, files, calibrated_for(unit, cap))), name


def test_another_key_gives_another_state(tables: Tables) -> None:
    files = tables.blocked("a", Layout(NODES, COLUMNS, 11))
    states = [
        last_state(
            OutOfCoreRunner(files, BlockNoise.seeded(seed), residual=True, sum_rows=1), files, calibrated_for("edge")
        )
        for seed in (1, 2)
    ]
    assert np.abs(states[0] - states[1]).max() > 0.01
