"""The schedule of a game: blocks and errors add up, and every run that is planned is played."""

from __future__ import annotations

from itertools import pairwise

import pytest

from caribou.audit.schedule import (
    MIN_RUNS,
    MIN_SHOWN,
    block_sizes,
    error_shares,
    first_block,
    heats,
    planned_runs,
)


def test_blocks_and_errors_add_up() -> None:
    for runs in (40, 41, 999, 2000, 12345):
        assert sum(block_sizes(runs)) == runs
        assert min(block_sizes(runs)) >= 5
    for blocks in (1, 2, 3, 5):
        assert len(error_shares(blocks)) == blocks
        assert sum(error_shares(blocks)) == pytest.approx(1.0)


def test_heats_drop_half_of_the_pairs_and_one_pair_gets_the_whole_first_block() -> None:
    for pairs in [1, 2, 3, 8, 9]:
        for first in [5, 12, 20, 250, 5000]:
            planned = heats(pairs, first)
            assert sum(size for _, size in planned) == first
            assert [left for left, _ in planned] == sorted((left for left, _ in planned), reverse=True)
            assert planned[0][0] == pairs
            assert all(after >= before / 2 for (before, _), (after, _) in pairwise(planned))
            assert all(
                size >= min(MIN_SHOWN, first - sum(s for _, s in planned[:k])) for k, (_, size) in enumerate(planned)
            )


def test_planned_runs_are_those_of_all_heats_and_blocks() -> None:
    for pairs in (1, 2, 8):
        for runs in (MIN_RUNS, 400, 2001):
            chosen = sum(left * size for left, size in heats(pairs, first_block(runs)))
            assert planned_runs(pairs, runs) == 2 * (chosen + sum(block_sizes(runs)[1:]))
