"""Lower bounds on epsilon and mu from outcomes of an attack, each at a stated confidence. No bound is an estimate."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special, stats

from caribou._validate import integer, open_unit_interval, unit_interval
from caribou.errors import InputError

CONFIDENCE = 0.999
"""Of a single bound, unless told otherwise."""


Count = Any
"""A count, or an array of counts: of several tests on the same runs."""
Rate = Any
"""A rate, or what follows from it: a number, or an array of them."""


@lru_cache(maxsize=64)
def _all_limits(runs: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Limits of a rate after 0 .. runs hits, each wrong with probability at most ``level`` (Clopper and Pearson 1934)."""
    hits = np.arange(1, runs + 1)
    low = np.concatenate([[0.0], stats.beta.ppf(level, hits, runs - hits + 1)])
    return low, 1 - low[::-1]


def pessimistic_rates(false: Count, true: Count, runs: int, confidence: float) -> tuple[Rate, Rate]:
    """The largest false and the smallest true positive rate that the counts allow, together at ``confidence``.

    >>> fpr, tpr = pessimistic_rates(0, 100, 100, confidence=0.9)
    >>> print(round(fpr, 4), round(tpr, 4))
    0.0295 0.9705
    """
    low, high = _all_limits(runs, (1 - open_unit_interval(confidence=confidence)) / 2)
    return high[false], low[true]


# -- of two rates --------------------------------------------------------------------------------------------------


def epsilon_of_rates(fpr: Rate, tpr: Rate, delta: float) -> Rate:
    """log((TPR - delta) / FPR), which is at most epsilon for every test of an (epsilon, delta)-DP mechanism; at least 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return _at_least_zero(np.log(np.maximum(tpr - delta, 0)) - np.log(fpr))


def mu_of_rates(fpr: Rate, tpr: Rate) -> Rate:
    """Phi^-1(TPR) - Phi^-1(FPR), at most mu for every test of a mu-GDP mechanism (Dong, Roth and Su 2022); at least 0."""
    with np.errstate(invalid="ignore"):
        return _at_least_zero(special.ndtri(tpr) - special.ndtri(fpr))


def _at_least_zero(size: Rate) -> Rate:
    """A test that is never right shows nothing, also if it is never wrong."""
    return np.maximum(np.nan_to_num(size, nan=0.0, posinf=math.inf), 0.0)


def epsilon_bound(false: Count, true: Count, runs: int, delta: float, confidence: float = CONFIDENCE) -> Rate:
    """epsilon >= log((TPR - delta) / FPR) for every test, with the pessimistic limit of each rate.

    ``false`` of ``runs`` runs without the edge (or node) and ``true`` of ``runs`` runs with it were recognised as with it.
    Assumes: the test was chosen without looking at these runs.
    """
    return epsilon_of_rates(*pessimistic_rates(false, true, runs, confidence), delta)


def mu_bound(false: Count, true: Count, runs: int, confidence: float = CONFIDENCE) -> Rate:
    """mu >= Phi^-1(TPR) - Phi^-1(FPR) for every test, with the pessimistic limit of each rate. Assumes: as `epsilon_bound`.

    >>> mu_bound(np.array([20, 90]), np.array([180, 90]), 200, confidence=0.95).round(2).tolist()
    [2.07, 0.0]
    """
    return mu_of_rates(*pessimistic_rates(false, true, runs, confidence))


# -- of one run with many canaries ---------------------------------------------------------------------------------

TradeOff = Callable[[float], float]
"""A trade-off curve, read backwards: from a true positive rate to the smallest false positive rate that any test has beside it.

For a curve f of false negative over false positive rates it is y -> f^-1(1 - y): convex, increasing, never above y.
"""


def gaussian_trade_off(mu: float) -> TradeOff:
    """Phi(Phi^-1(TPR) - mu), the curve of mu-GDP (Dong, Roth and Su 2022)."""
    return lambda tpr: float(special.ndtr(special.ndtri(min(tpr, 1.0)) - mu))


def needed_mass(tail: float, correct: int, guesses: int, canaries: int, trade_off: TradeOff) -> float:
    """The least probability of all outcomes together if ``correct`` or more guesses are right with probability ``tail``.

    Above 1 there is no such mechanism. Each of m canaries is in the data by a fair membership bit of its own; after one run the
    auditor guesses r of the bits, and p_i is the probability that i of them are right. Flip the bit of one canary: a right guess
    becomes a wrong one, and the others stay. So for every canary "this guess is right, and at least i are" is an event of the
    world with the bit, and "this guess is wrong, and at least i - 1 are right" is the same event of the other world. Averaged
    over canaries (the curve is convex), with

        R_i = sum_(j >= i) p_j j / m,   H_i = sum_(j >= i) p_j (r - j) / m,

    H_(i-1) >= trade_off(R_i) for every i. Given P[at least v right] = tail, both sums are least if all of the tail lies on v;
    from there on down every p_i is the least that the inequality allows, and R_0 + H_0 = (r / m) sum p_i (Mahloujifar, Melis and
    Chaudhuri 2024, "Auditing f-differential privacy in one run").
    """
    v, r, m = _checked_counts(correct, guesses, canaries)
    right, wrong = v * tail / m, (r - v) * tail / m
    for i in range(v - 1, -1, -1):
        least = max(wrong, trade_off(right))
        right += i / (r - i) * (least - wrong)
        wrong = least
    return (right + wrong) * m / r if r else tail


def curve_p_value(correct: int, guesses: int, canaries: int, trade_off: TradeOff) -> float:
    """The largest probability of ``correct`` or more right guesses among ``guesses`` under a trade-off curve.

    Rounded up. The largest tail whose `needed_mass` is at most 1.

    >>> round(curve_p_value(78, 90, 450, gaussian_trade_off(0.55)), 3)
    0.05
    """
    low, high = 0.0, 1.0
    if needed_mass(1.0, correct, guesses, canaries, trade_off) <= 1:
        return 1.0
    while high - low > 1e-3 * high and high > 1e-12:
        middle = (low + high) / 2
        if needed_mass(middle, correct, guesses, canaries, trade_off) <= 1:
            low = middle
        else:
            high = middle
    return high


def curve_bound(
    correct: int, guesses: int, canaries: int, curve: Callable[[float], TradeOff], confidence: float = CONFIDENCE
) -> float:
    """The largest parameter of a family of curves that one run rejects: of mu-GDP, ``curve`` is `gaussian_trade_off`.

    >>> round(curve_bound(78, 90, 450, gaussian_trade_off, 0.95), 3)
    0.551
    """
    level = 1 - open_unit_interval(confidence=confidence)
    return _largest(lambda size: needed_mass(level, correct, guesses, canaries, curve(size)) > 1)


def one_run_p_value(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The largest probability of ``correct`` or more right guesses among ``guesses`` if the mechanism is (epsilon, delta)-DP.

    Each of m canaries is in the data by a fair membership bit of its own; the auditor guesses r of the bits after one run. With
    q = e^eps / (1 + e^eps) and B ~ Binomial(r, q),

        P[correct >= v] <= P[B >= v] + 2 m delta max_(1 <= i <= v) P[v - i <= B < v] / i

    (Steinke, Nasr and Jagielski 2023, "Privacy auditing with one training run"). With delta = 0 it is attained, so that no curve
    of a pure claim says more.
    """
    v, r, m = _checked_counts(correct, guesses, canaries)
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
    return _largest(lambda epsilon: one_run_p_value(correct, guesses, canaries, epsilon, delta) <= level)


def _checked_counts(correct: int, guesses: int, canaries: int) -> tuple[int, int, int]:
    v, r, m = (
        integer(at_least=0, correct=correct),
        integer(at_least=0, guesses=guesses),
        integer(at_least=0, canaries=canaries),
    )
    if not v <= r <= m:
        raise InputError(f"correct <= guesses <= canaries must hold, got {v}, {r}, {m}")
    return v, r, m


def _largest(rejected: Callable[[float], bool]) -> float:
    """The largest size that is rejected; 0 if none is. Assumes: whatever is smaller than a rejected size is rejected."""
    low, high = 0.0, 1.0
    if not rejected(0.0):
        return 0.0
    while rejected(high):
        low, high = high, 2 * high
    while high - low > 1e-6:
        middle = (low + high) / 2
        if rejected(middle):
            low = middle
        else:
            high = middle
    return low
