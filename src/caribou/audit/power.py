"""The runs of a game: how many it takes to reject the claim of a mechanism that leaks twice as much, and in which blocks.

Runs come in blocks that double. The game chooses its test anew before every block, on all earlier runs, and judges the block at
its own share of the error. By the union bound all judgements together hold at the stated confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import special, stats

from caribou.audit.claims import Claim

BLOCKS = 4
MIN_SHOWN = 12
"""Runs per graph below which chance decides which pair shows most."""
FACTOR = 2.0
"""An audit must be able to see a mechanism that leaks this many times what it claims."""
POWER = 0.9
CHOOSING_A_TEST = 1.5
CHOOSING_A_PAIR = 4 / 3
"""How many times the runs of the best test it takes if earlier runs choose the test, and the pair out of several.

Measured, not derived: docs/decisions.md.
"""
GRID = 201
"""Values between those that Laplace noise makes likeliest in either world; each is a threshold."""
MIN_SEEN = 1.0
"""Of a claim of zero, which has no double: the epsilon that the runs must be able to see."""
MAX_RUNS = 10**7
"""More are not feasible."""


Rates = tuple[float, float]
"""False and true positive rate of a test."""


def runs_for_power(claim: Claim, confidence: float, pairs: int = 1, rates: Rates | None = None) -> int | None:
    """Runs per graph that reject a claim with probability POWER by a test with these ``rates``; None: not feasible.

    Without rates: by the best test of a mechanism that leaks FACTOR times as much (`leaking`). The number is multiplied by what
    it costs to choose a test, and one of ``pairs``.
    """
    best = _smallest(lambda runs: power(claim, runs, confidence, rates) >= POWER)
    if best is None:
        return None
    return _two_digits(best * CHOOSING_A_TEST * (CHOOSING_A_PAIR if pairs > 1 else 1.0))


def power(claim: Claim, runs: int, confidence: float, rates: Rates | None = None) -> float:
    """The probability that so many ``runs`` reject the claim, as in `runs_for_power`: of the best test, on the last block."""
    judged = block_sizes(runs)[-1]
    level = 1 - error_shares(BLOCKS - 1)[-1] * (1 - confidence)
    return _power(claim, judged, level, rates)


@lru_cache(maxsize=4096)
def _power(claim: Claim, judged: int, level: float, rates: Rates | None) -> float:
    surest = ((1 - level) / 2) ** (1 / judged)  # the limits of rates after all or none of the runs
    if claim.leak(1 - surest, surest) <= claim.size:
        return 0.0
    fpr, tpr = leaking(claim) if rates is None else np.array(rates)[:, None]
    false, true = (stats.binom.ppf(q, judged, rate).astype(int) for q, rate in ((POWER, fpr), (1 - POWER, tpr)))
    best = int(claim.proven(false, true, judged, level).argmax())
    return _rejection_rate(claim, float(fpr[best]), float(tpr[best]), judged, level)


def leaking(claim: Claim) -> tuple[np.ndarray, np.ndarray]:
    """False and true positive rates of the tests of a mechanism that leaks FACTOR times as much: one per threshold.

    For mu-GDP: Gaussians at distance FACTOR mu. Otherwise: FACTOR epsilon by Laplace noise on two values, each of which moves by
    1. So do the counts at both ends of an edge, and neither of them shows all of it.
    """
    if claim.kind == "mu":
        half = FACTOR * claim.size / 2
        shift = np.linspace(0, half, 21)
        return special.ndtr(-half - shift), special.ndtr(half - shift)
    each = min(FACTOR * claim.size or MIN_SEEN, 700.0) / 2
    x = np.linspace(0, 1, GRID)
    below = (1 - np.exp(-each * x) / 2, np.exp(-each * (1 - x)) / 2)  # P[value <= x] without and with
    masses = [np.diff(cdf, prepend=0, append=1)[::-1] for cdf in below]
    fpr, tpr = (np.minimum(np.cumsum(np.convolve(mass, mass)), 1.0) for mass in masses)  # thresholds of their sum
    return fpr, tpr


def _rejection_rate(claim: Claim, fpr: float, tpr: float, judged: int, level: float) -> float:
    """P[proven > size] for two binomial counts: the smallest true count that rejects the claim, for each likely false count."""
    low, high = (int(stats.binom.ppf(q, judged, fpr)) for q in (1e-4, 1 - 1e-4))
    step = max(1, (high - low) // 40)
    total = weight = 0.0
    for false in range(low, high + 1, step):
        p = float(stats.binom.pmf(false, judged, fpr))
        total += p * float(stats.binom.sf(needed_hits(claim, false, judged, level) - 1, judged, tpr))
        weight += p
    return total / weight if weight > 0 else 0.0


def needed_hits(claim: Claim, false: int, judged: int, level: float) -> int:
    """The smallest number of true positives that rejects the claim beside ``false`` false ones; judged + 1 if none does."""
    proven = claim.proven(np.full(judged + 1, false), np.arange(judged + 1), judged, level)
    return int(np.searchsorted(proven > claim.size, True))


def rarest_seen(claim: Claim, judged: int, confidence: float) -> float:
    """How often an event must happen to reject the claim on ``judged`` runs; a rarer one is not seen.

    Of an event that never happens in one of the two worlds, so that it alone rejects any claim: the smallest true count k that
    proves more than the claim beside no false one, over the runs. For a pure claim that is about 4 e^epsilon / judged.
    """
    return min(1.0, needed_hits(claim, 0, judged, confidence) / judged)


def _smallest(enough: Callable[[int], bool]) -> int | None:
    """The smallest number of runs, to two digits, that is enough; None if MAX_RUNS are not."""
    high = 80
    while not enough(high):
        high *= 2
        if high > MAX_RUNS:
            return None
    low = high // 2
    while high - low > max(8, low // 50):
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return _two_digits(high)


def _two_digits(runs: float) -> int:
    """Rounded up."""
    unit = 10 ** max(0, len(str(int(runs))) - 2)
    return unit * math.ceil(runs / unit - 1e-9)


# -- blocks and heats ------------------------------------------------------------------------------------------------


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
