"""Lower bounds on epsilon and mu from outcomes of an attack, each at a stated confidence. No bound is an estimate."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from scipy import special, stats

from caribou._validate import integer, open_unit_interval, unit_interval
from caribou.errors import InputError

CONFIDENCE = 0.999
"""Of a single bound, unless told otherwise."""


def rate_limits(hits: int, runs: int, level: float) -> tuple[float, float]:
    """Limits of a rate after ``hits`` of ``runs``, each wrong with probability at most ``level`` (Clopper and Pearson 1934).

    >>> low, high = rate_limits(0, 100, 0.05)
    >>> low, round(high, 4)
    (0.0, 0.0295)
    """
    low, high = _all_limits(runs, level)
    return float(low[hits]), float(high[hits])


@lru_cache(maxsize=64)
def _all_limits(runs: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The limits for 0 .. runs hits."""
    hits = np.arange(1, runs + 1)
    low = np.concatenate([[0.0], stats.beta.ppf(level, hits, runs - hits + 1)])
    return low, 1 - low[::-1]


def pessimistic_rates(false: int, true: int, runs: int, confidence: float) -> tuple[float, float]:
    """The largest false and the smallest true positive rate that the counts allow, together at ``confidence``."""
    level = (1 - open_unit_interval(confidence=confidence)) / 2
    return rate_limits(false, runs, level)[1], rate_limits(true, runs, level)[0]


# -- of two rates --------------------------------------------------------------------------------------------------


def epsilon_of_rates(fpr: float, tpr: float, delta: float) -> float:
    """log((TPR - delta) / FPR), which is at most epsilon for every test of an (epsilon, delta)-DP mechanism; at least 0."""
    if tpr <= delta:
        return 0.0
    return math.inf if fpr <= 0 else max(0.0, math.log((tpr - delta) / fpr))


def mu_of_rates(fpr: float, tpr: float) -> float:
    """Phi^-1(TPR) - Phi^-1(FPR), at most mu for every test of a mu-GDP mechanism (Dong, Roth and Su 2022); at least 0."""
    if tpr <= 0 or fpr >= 1:
        return 0.0
    if fpr <= 0 or tpr >= 1:
        return math.inf
    return max(0.0, NormalDist().inv_cdf(tpr) - NormalDist().inv_cdf(fpr))


def epsilon_bound(false: int, true: int, runs: int, delta: float, confidence: float = CONFIDENCE) -> float:
    """epsilon >= log((TPR - delta) / FPR) for every test, with the pessimistic limit of each rate.

    ``false`` of ``runs`` runs without the edge (or node) and ``true`` of ``runs`` runs with it were recognised as with it.
    Assumes: the test was chosen without looking at these runs.
    """
    return epsilon_of_rates(*pessimistic_rates(false, true, runs, confidence), delta)


def mu_bound(false: int, true: int, runs: int, confidence: float = CONFIDENCE) -> float:
    """mu >= Phi^-1(TPR) - Phi^-1(FPR) for every test, with the pessimistic limit of each rate. Assumes: as `epsilon_bound`.

    >>> round(mu_bound(20, 180, 200, confidence=0.95), 2)
    2.07
    """
    return mu_of_rates(*pessimistic_rates(false, true, runs, confidence))


def many_bounds(
    false: np.ndarray, true: np.ndarray, runs: int, *, delta: float | None, confidence: float
) -> np.ndarray:
    """`mu_bound` (delta = None) or `epsilon_bound` of many tests on the same runs, to choose one of them. [tests]"""
    low, high = _all_limits(runs, (1 - confidence) / 2)
    fpr, tpr = high[false], low[true]
    with np.errstate(divide="ignore", invalid="ignore"):
        if delta is None:
            sizes = special.ndtri(tpr) - special.ndtri(fpr)
        else:
            sizes = np.log(np.maximum(tpr - delta, 0)) - np.log(fpr)
    return np.maximum(np.nan_to_num(sizes, nan=0.0, neginf=0.0), 0.0)


# -- of one run with many canaries ---------------------------------------------------------------------------------


def one_run_p_value(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The largest probability of ``correct`` or more right guesses among ``guesses`` if the mechanism is (epsilon, delta)-DP.

    Each of m canaries is in the data by a fair membership bit of its own; the auditor guesses r of the bits after one run. With
    q = e^eps / (1 + e^eps) and B ~ Binomial(r, q),

        P[correct >= v] <= P[B >= v] + 2 m delta max_(1 <= i <= v) P[v - i <= B < v] / i

    (Steinke, Nasr and Jagielski 2023, "Privacy auditing with one training run").
    """
    v, r, m = (
        integer(at_least=0, correct=correct),
        integer(at_least=0, guesses=guesses),
        integer(at_least=0, canaries=canaries),
    )
    if not v <= r <= m:
        raise InputError(f"correct <= guesses <= canaries must hold, got {v}, {r}, {m}")
    q = 1 / (1 + math.exp(-epsilon))
    beyond = float(stats.binom.sf(v - 1, r, q))
    if delta == 0 or v == 0:
        return min(1.0, beyond)
    below = np.cumsum(stats.binom.pmf(np.arange(v - 1, -1, -1), r, q)) / np.arange(1, v + 1)
    return min(1.0, beyond + 2 * m * unit_interval(delta=delta) * float(below.max()))


def one_run_bound(correct: int, guesses: int, canaries: int, delta: float, confidence: float = CONFIDENCE) -> float:
    """The largest epsilon that one run rejects: every smaller one has `one_run_p_value` <= 1 - confidence.

    >>> round(one_run_bound(95, 100, 1000, 0.0, 0.95), 2)
    2.17
    """
    level = 1 - open_unit_interval(confidence=confidence)
    low, high = 0.0, 1.0
    if one_run_p_value(correct, guesses, canaries, 0.0, delta) > level:
        return 0.0
    while one_run_p_value(correct, guesses, canaries, high, delta) <= level:
        low, high = high, 2 * high
    while high - low > 1e-6:
        middle = (low + high) / 2
        if one_run_p_value(correct, guesses, canaries, middle, delta) <= level:
            low = middle
        else:
            high = middle
    return low
