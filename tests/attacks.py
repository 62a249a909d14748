"""Distinguishing games: what an adversary proves about epsilon from the outputs of two worlds. Used by tests only.

A game is played many times in two neighbouring worlds. Every run is reduced to a row of scores. The runs are dealt into three
parts: on the first, projections are fitted; on the second, one score, one threshold and one direction are chosen; on the third
that single test is judged. So the confidence of the verdict needs no correction for the search.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from scipy import stats

CONFIDENCE = 0.999
PARTS = (0.2, 0.5)
"""Where the fitting part and the choosing part end."""


@dataclass(frozen=True)
class Proven:
    """Lower bounds at 99.9 %: ``epsilon`` at the claimed delta, ``mu`` if the claim is mu-GDP; and the scores that won."""

    epsilon: float
    mu: float
    by: tuple[str, str]


# -- bounds --------------------------------------------------------------------------------------------------------


def rate_limits(hits: int, runs: int, level: float) -> tuple[float, float]:
    """Clopper and Pearson's limits of a rate, each wrong with probability at most ``level``."""
    low, high = _all_limits(runs, level)
    return float(low[hits]), float(high[hits])


@lru_cache
def _all_limits(runs: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The limits for 0 .. runs hits."""
    hits = np.arange(1, runs + 1)
    low = np.concatenate([[0.0], stats.beta.ppf(level, hits, runs - hits + 1)])
    return low, 1 - low[::-1]


def epsilon_bound(false: int, true: int, runs: int, delta: float, confidence: float = CONFIDENCE) -> float:
    """epsilon >= log((TPR - delta) / FPR) for every test, with the pessimistic limit of each rate."""
    level = (1 - confidence) / 2
    fpr, tpr = rate_limits(false, runs, level)[1], rate_limits(true, runs, level)[0]
    return max(0.0, math.log((tpr - delta) / fpr)) if tpr > delta else 0.0


def mu_bound(false: int, true: int, runs: int, confidence: float = CONFIDENCE) -> float:
    """mu >= Phi^-1(TPR) - Phi^-1(FPR) for every test, with the pessimistic limit of each rate."""
    level = (1 - confidence) / 2
    fpr, tpr = rate_limits(false, runs, level)[1], rate_limits(true, runs, level)[0]
    if tpr <= 0 or fpr >= 1:
        return 0.0
    return max(0.0, NormalDist().inv_cdf(tpr) - NormalDist().inv_cdf(fpr))


# -- scores --------------------------------------------------------------------------------------------------------


def fitted_projections(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Directions fitted on runs of both worlds: the standardised difference of the means, all of it and its clear part."""
    spread = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 2)
    steady = spread <= 1e-12 * (1 + np.abs(a.mean(axis=0)) + np.abs(b.mean(axis=0)))
    gap = b.mean(axis=0) - a.mean(axis=0)
    scale = np.where(steady, 1.0, spread)
    t = gap / scale * math.sqrt(len(a) / 2)
    t[steady] = 0.0
    return np.stack([t / scale, np.where(np.abs(t) > 3, t, 0) / scale], axis=1)


def discriminant(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Fisher's direction for a few scores."""
    pooled = np.atleast_2d(np.cov(a.T) + np.cov(b.T)) / 2
    return np.linalg.pinv(pooled, rcond=1e-9, hermitian=True) @ (b.mean(axis=0) - a.mean(axis=0))


def equality_statistics(view: Mapping[str, np.ndarray]) -> dict[str, float]:
    """What noise should hide and its absence shows: equal rows, zeros, and the shape of everything that is handed out."""
    equal, zeros = 0, 0
    for array in view.values():
        if array.dtype.kind == "f":
            zeros += int((array == 0).sum())
        if array.ndim == 2 and array.dtype.kind == "f" and 2 <= len(array) <= 64:
            gaps = np.abs(array[:, None, :] - array[None, :, :]).max(axis=2, initial=0.0)
            alike = gaps <= 1e-10 * (1 + np.abs(array).max(initial=0.0))
            informative = np.abs(array).max(axis=1, initial=0.0) > 0
            equal += int(np.triu(alike & informative[:, None], 1).sum())
    size = sum(array.size for array in view.values())
    return {"equal rows": float(equal), "zeros": float(zeros), "entries": float(size), "arrays": float(len(view))}


def table(runs: Sequence[Mapping[str, float]]) -> np.ndarray:
    """Named scores as rows; every run must have the same names."""
    return np.array([list(run.values()) for run in runs], dtype=np.float64)


def flat_views(worlds: Sequence[Sequence[Mapping[str, np.ndarray]]]) -> list[np.ndarray]:
    """Views as rows of numbers: the arrays that have one shape in all runs of both worlds."""
    everything = [view for world in worlds for view in world]
    names = [
        name
        for name in everything[0]
        if all(name in view and view[name].shape == everything[0][name].shape for view in everything)
    ]
    return [
        np.array([np.concatenate([np.ravel(view[name]).astype(np.float64) for name in names]) for view in world])
        for world in worlds
    ]


# -- the verdict ---------------------------------------------------------------------------------------------------


def prove(
    scores: tuple[Sequence[Mapping[str, float]], Sequence[Mapping[str, float]]],
    views: tuple[Sequence[Mapping[str, np.ndarray]], Sequence[Mapping[str, np.ndarray]]],
    *,
    delta: float,
) -> Proven:
    """The largest epsilon and mu that the runs of two worlds prove. ``scores``: the adversary's own; ``views``: all it saw."""
    names = list(scores[0][0])
    own = [table(world) for world in scores]
    whole = flat_views(views)
    statistics = [[equality_statistics(view) for view in world] for world in views]
    runs = min(len(world) for world in own)
    first, second = (round(share * runs) for share in PARTS)
    projections = fitted_projections(whole[0][:first], whole[1][:first])
    combined = [np.concatenate([o, w @ projections], axis=1) for o, w in zip(own, whole, strict=True)]
    own_direction = discriminant(own[0][:first], own[1][:first])
    columns = []
    for o, c, s in zip(own, combined, statistics, strict=True):
        columns.append(np.concatenate([c, (o @ own_direction)[:, None], table(s)], axis=1))
    names += ["projection", "clear projection", "discriminant", *statistics[0][0]]
    a, b = (c[first:second] for c in columns)
    tests = list(_tests(a, b))
    judged_a, judged_b = (c[second:runs] for c in columns)
    n = runs - second
    best: dict[str, tuple[float, str]] = {}
    for kind in ("epsilon", "mu"):

        def bound(false: int, true: int, size: int, kind: str = kind) -> float:
            return epsilon_bound(false, true, size, delta) if kind == "epsilon" else mu_bound(false, true, size)

        chosen = max(tests, key=lambda test: bound(*_hits(a, b, test), len(a)))
        best[kind] = (bound(*_hits(judged_a, judged_b, chosen), n), names[chosen[0]])
    return Proven(best["epsilon"][0], best["mu"][0], (best["epsilon"][1], best["mu"][1]))


Test = tuple[int, float, int, bool]
"""Column, threshold, sign (+1: above), and whether the second world is the one to be recognised."""


def _tests(a: np.ndarray, b: np.ndarray) -> list[Test]:
    out: list[Test] = []
    for column in range(a.shape[1]):
        values = np.unique(np.concatenate([a[:, column], b[:, column]]))
        if len(values) < 2:
            continue
        middles = (values[1:] + values[:-1]) / 2
        some = middles[np.unique(np.linspace(0, len(middles) - 1, 41).round().astype(int))]
        out += [(column, float(t), sign, second) for t in some for sign in (1, -1) for second in (True, False)]
    return out or [(0, 0.0, 1, True)]


def _hits(a: np.ndarray, b: np.ndarray, test: Test) -> tuple[int, int]:
    column, threshold, sign, second = test
    in_a, in_b = (int((sign * (x[:, column] - threshold) > 0).sum()) for x in (a, b))
    return (in_a, in_b) if second else (in_b, in_a)
