"""The schedule of a distinguishing game: blocks of runs, each block's share of the error, and heats that choose a pair.

Runs come in blocks that double. The game chooses its test anew before every block, on all earlier runs, and judges the block at
its own share of the error. By the union bound all judgements together hold at the stated confidence.
"""

from __future__ import annotations

MIN_RUNS = 40
BLOCKS = 4
MIN_SHOWN = 12
"""Runs per graph below which chance decides which pair shows most."""


def block_sizes(runs: int) -> list[int]:
    """1/8, 1/8, 1/4 and 1/2 of the runs.

    >>> block_sizes(2000)
    [250, 250, 500, 1000]
    """
    sizes = [runs // 2 ** (BLOCKS - 1)] + [runs // 2**k for k in range(BLOCKS - 1, 0, -1)]
    return [*sizes[:-1], runs - sum(sizes[:-1])]


def first_block(runs: int) -> int:
    """Runs of the first block, which is never judged."""
    return block_sizes(runs)[0]


def error_shares(blocks: int) -> list[float]:
    """How the error is spent: half of it on the last and largest block, the rest in the same way on the ones before.

    >>> error_shares(3)
    [0.25, 0.25, 0.5]
    """
    return [2.0 ** -(blocks - 1)] + [2.0 ** -(blocks - k) for k in range(1, blocks)]


def heats(pairs: int, first: int) -> list[tuple[int, int]]:
    """How many pairs are left, and how many runs each of them gets, until one pair has had the whole first block.

    Every heat drops half of the pairs. A heat has a quarter of the first block, but at least 12 runs.

    >>> heats(8, 250), heats(8, 20), heats(1, 20)
    ([(8, 62), (4, 62), (2, 126)], [(8, 12), (4, 8)], [(1, 20)])
    """
    out, done = [], 0
    while pairs > 1 and done < first:
        size = first - done if pairs == 2 else min(first - done, max(MIN_SHOWN, first // 4))
        out.append((pairs, size))
        done += size
        pairs = (pairs + 1) // 2
    return [*out, (1, first - done)] if done < first else out


def planned_runs(pairs: int, runs: int) -> int:
    """Runs of a whole game on both graphs, the heats of ``pairs`` pairs included, if nothing stops it early.

    >>> planned_runs(1, 2000), planned_runs(8, 2000)
    (4000, 5492)
    """
    first = first_block(runs)
    return 2 * (sum(left * size for left, size in heats(pairs, first)) + runs - first)
