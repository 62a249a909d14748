"""Discriminants between two tables of runs: scores that are fitted on some runs, and one threshold that others choose."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from caribou.audit.transcripts import Layout, Runs, finite
from caribou.errors import InputError

FITTED = (
    "mean projection",
    "clear projection",
    "discriminant of the transcript",
    "likelihood ratio of fitted Gaussians",
    "likelihood ratio of fitted Laplace noise",
    "energy",
    "discriminant",
)
MAX_CORRELATED = 200
"""Columns up to which correlations between entries of a transcript are estimated."""
MAX_PARTNERS = 2000
"""Columns up to which pairs of columns with the same noise are looked for."""
SAME_NOISE = 0.999
"""The correlation of two columns within a world from which on they are taken to have one noise."""
NO_VARIANCE = 1e-10
"""Relative to the largest: directions with less variance count as if they had so much. A shift along them decides by itself."""
THRESHOLDS = 41


@dataclass(frozen=True)
class Test:
    """Says "with" where sign (score - threshold) > 0; ``second``: "with" means the second world, else the first."""

    __test__ = False  # not a test of pytest

    column: int
    threshold: float
    sign: int
    second: bool

    def describe(self, names: tuple[str, ...]) -> str:
        """In words."""
        side = ">" if self.sign > 0 else "<"
        return f"{names[self.column]} {side} {self.threshold:.6g} says {'second' if self.second else 'first'} graph"


@dataclass(frozen=True, eq=False)
class Partners:
    """Columns that have one noise: x_i - slope x_j is free of it, whatever else is too wide to estimate.

    Noise that is used twice, in two parameters or in two releases, hides nothing of such a difference.
    """

    first: np.ndarray
    second: np.ndarray
    slope: np.ndarray

    @staticmethod
    def of(a: np.ndarray, b: np.ndarray) -> Partners:
        """For every column the earlier one with which it goes together best within both worlds, if that is nearly exactly."""
        nothing = Partners(np.arange(0), np.arange(0), np.zeros(0))
        if not 2 <= a.shape[1] <= MAX_PARTNERS or len(a) < 4:
            return nothing
        within = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)])
        norms = np.linalg.norm(within, axis=0)
        alive = np.flatnonzero(norms > 1e-9 * (1 + np.abs(a).max(axis=0)))
        if len(alive) < 2:
            return nothing
        unit = within[:, alive] / norms[alive]
        together = np.tril(unit.T @ unit, -1)
        best = np.abs(together).argmax(axis=1)
        found = np.flatnonzero(np.abs(together[np.arange(len(alive)), best]) >= SAME_NOISE)
        first, second = alive[found], alive[best[found]]
        slope = together[found, best[found]] * norms[first] / norms[second]
        made = Partners(first, second, slope)
        left = np.concatenate([made._differences(x) for x in (a, b)])
        telling = np.ptp(left, axis=0) > 1e-9 * norms[first] if len(found) else np.zeros(0, dtype=bool)
        return Partners(first[telling], second[telling], slope[telling])

    def _differences(self, x: np.ndarray) -> np.ndarray:
        return x[:, self.first] - self.slope * x[:, self.second]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The columns, and behind them the differences. [runs, columns + partners]"""
        return np.concatenate([x, self._differences(x)], axis=1) if len(self.first) else x


@dataclass(frozen=True, eq=False)
class Discriminants:
    """Fitted scores. A call gives one column per score: the adversary's own, statistics, and the fitted ones.

    ``given``: those of the ``names`` that were not fitted. ``table``: from runs to the entries that vary. ``fitted``: from these
    entries and the given scores to the fitted ones. ``entries``: how many vary. ``uncorrelated``: the same, if they were too many
    for their correlations, else 0.
    """

    names: tuple[str, ...]
    given: tuple[str, ...]
    table: Callable[[Runs], np.ndarray]
    fitted: Callable[[np.ndarray, np.ndarray], Sequence[np.ndarray]]
    entries: int
    uncorrelated: int

    def __call__(self, runs: Runs) -> np.ndarray:
        """[runs, columns]"""
        scores = runs.columns(self.given)
        return finite(np.column_stack([scores, *self.fitted(self.table(runs), scores)]))


def usual_where_missing(x: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Entries that are infinite or NaN say nothing here; their number is a score of its own. [runs, entries]"""
    return np.where(np.isfinite(x), x, usual)


def _usual(x: np.ndarray) -> np.ndarray:
    """The median of the finite entries of each column, 0 if there are none. [entries]"""
    out = np.zeros(x.shape[1])
    whole = np.isfinite(x).all(axis=0)
    out[whole] = np.median(x[:, whole], axis=0)
    for column in np.flatnonzero(~whole):
        values = x[np.isfinite(x[:, column]), column]
        out[column] = np.median(values) if len(values) else 0.0
    return out


def fit_discriminants(a: Runs, b: Runs) -> Discriminants:
    """Scores fitted on runs of both worlds: standardised difference of means, Fisher's direction, Gaussian likelihood ratio."""
    layout = Layout.of((a, b))
    given = tuple(dict.fromkeys((*a.names, *b.names)))
    seen = [layout(a), layout(b)]
    usual = _usual(np.concatenate(seen))
    filled = [usual_where_missing(x, usual) for x in seen]
    partners = Partners.of(*filled)
    whole = [partners(x) for x in filled]
    keep = np.flatnonzero(np.ptp(np.concatenate(whole), axis=0) > 0)
    xa, xb = (x[:, keep] for x in whole)
    own = discriminant(a.columns(given), b.columns(given))
    linear = np.column_stack(
        [fitted_projections(xa, xb), discriminant(xa, xb) if correlated(xa) else np.zeros(len(keep))]
    )
    means = (xa.mean(axis=0), xb.mean(axis=0))
    pooled = (xa.var(axis=0) + xb.var(axis=0)) / 2
    floor = 1e-12 * (1 + means[0] ** 2 + means[1] ** 2)
    variances = [_shrunk_variance(x.var(axis=0), pooled, len(x)) + floor for x in (xa, xb)]
    medians = (np.median(xa, axis=0), np.median(xb, axis=0))
    scale = (np.abs(xa - medians[0]).mean(axis=0) + np.abs(xb - medians[1]).mean(axis=0)) / 2 + np.sqrt(floor)
    per_scale = (linear[:, 1] != 0) / scale  # of Laplace noise, where the worlds clearly differ

    def table(runs: Runs) -> np.ndarray:
        return partners(usual_where_missing(layout(runs), usual))[:, keep]

    def log_density(x: np.ndarray, world: int) -> np.ndarray:
        return -((x - means[world]) ** 2 / (2 * variances[world]) + np.log(variances[world]) / 2).sum(axis=1)

    def fitted(x: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, ...]:
        laplace = (np.abs(x - medians[0]) - np.abs(x - medians[1])) @ per_scale
        energy = ((x - sum(means) / 2) ** 2 / (sum(variances) / 2)).sum(axis=1)
        return x @ linear, log_density(x, 1) - log_density(x, 0), laplace, energy, scores @ own

    uncorrelated = 0 if correlated(xa) else len(keep)
    return Discriminants((*given, *FITTED), given, table, fitted, len(keep), uncorrelated)


def _shrunk_variance(own: np.ndarray, pooled: np.ndarray, runs: int) -> np.ndarray:
    """The world's own variance where it clearly differs from the pooled one (4 standard errors), else the pooled one."""
    error = pooled * math.sqrt(2 / max(runs, 2))
    return np.where(np.abs(own - pooled) > 4 * error, own, pooled)


def fitted_projections(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The standardised difference of the means, all of it and its clear part. [entries, 2]"""
    spread = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 2)
    steady = spread <= 1e-12 * (1 + np.abs(a.mean(axis=0)) + np.abs(b.mean(axis=0)))
    gap = b.mean(axis=0) - a.mean(axis=0)
    scale = np.where(steady, 1.0, spread)
    t = gap / scale * math.sqrt(len(a) / 2)
    t[steady] = 0.0  # constant in each world: the likelihood ratio of fitted Gaussians decides by it alone
    return np.stack([t / scale, np.where(np.abs(t) > 3, t, 0) / scale], axis=1)


def correlated(x: np.ndarray) -> bool:
    """Whether there are runs enough to estimate how columns go together. [runs, columns]"""
    return x.shape[1] <= min(MAX_CORRELATED, len(x) // 2)


def discriminant(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Fisher's direction: the pooled covariance's inverse times the difference of the means. [columns]

    A direction in which nothing varies is not left out: if the means differ along it, it tells the worlds apart by itself.
    """
    if a.shape[1] == 0:
        return np.zeros(0)
    scale = np.sqrt(a.var(axis=0) + b.var(axis=0))
    scale = np.where(scale > 0, scale, 1.0)
    pooled = np.atleast_2d(np.cov((a / scale).T) + np.cov((b / scale).T)) / 2
    gap = (b.mean(axis=0) - a.mean(axis=0)) / scale
    sizes, directions = np.linalg.eigh(pooled)
    sizes = np.maximum(sizes, NO_VARIANCE * max(sizes[-1], 1.0))
    return np.asarray((directions @ ((directions.T @ gap) / sizes)) / scale)


# -- one threshold -------------------------------------------------------------------------------------------------


def best_test(a: np.ndarray, b: np.ndarray, bounds: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Test:
    """The test with the largest bound, over all columns, some thresholds, both signs and both directions. [runs, columns] each

    ``bounds``: from false and true counts of many tests to their bounds.
    """
    tests: list[tuple[int, int, bool, np.ndarray]] = []
    false: list[np.ndarray] = []
    true: list[np.ndarray] = []
    for column in range(a.shape[1]):
        values = np.array(thresholds(a[:, column], b[:, column]))
        above = [len(x) - np.searchsorted(np.sort(x[:, column]), values, side="right") for x in (a, b)]
        for sign, (in_a, in_b) in ((1, above), (-1, [len(a) - above[0], len(b) - above[1]])):
            for second in (True, False):
                tests.append((column, sign, second, values))
                false.append(in_a if second else in_b)
                true.append(in_b if second else in_a)
    if not sum(map(len, false)):
        return Test(0, 0.0, 1, True)
    place = int(bounds(np.concatenate(false), np.concatenate(true)).argmax())
    for column, sign, second, values in tests:
        if place < len(values):
            return Test(column, float(values[place]), sign, second)
        place -= len(values)
    raise InputError(f"bounds must return one bound for each of {sum(map(len, false))} tests, got more")


def thresholds(a: np.ndarray, b: np.ndarray) -> list[float]:
    """Midpoints between values: evenly by rank, and closer towards both ends, where tests with few false alarms are."""
    values = np.unique(np.concatenate([a, b]))
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return []
    middles = (values[1:] + values[:-1]) / 2
    ends = 2 ** np.arange(0, max(1, int(math.log2(len(middles) + 1))))
    ranks = np.concatenate([np.linspace(0, len(middles) - 1, THRESHOLDS).round(), ends - 1, len(middles) - ends])
    return [float(t) for t in middles[np.unique(np.clip(ranks, 0, len(middles) - 1).astype(int))]]


def hits(a: np.ndarray, b: np.ndarray, test: Test) -> tuple[int, int]:
    """Runs that the test recognises: falsely, truly."""
    in_a, in_b = (int((test.sign * (x[:, test.column] - test.threshold) > 0).sum()) for x in (a, b))
    return (in_a, in_b) if test.second else (in_b, in_a)
