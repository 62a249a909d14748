"""Heads: class scores from the prior and the evidence of released counts. They are fitted on calibration nodes only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize

from caribou.models.objective import USUAL, Objective

KNOTS = (-3.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
"""Counts at which the splines of the ridge head bend."""
RIDGES = (3.0, 0.03, 0.003)
"""Strengths of the ridge among which a head is chosen."""
FOLDS = 4
"""Folds of `choose_head_by_folds`."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about each node.

    Args:
        prior: [n, C], log probabilities without the release.
        evidence: [n, C], log likelihoods of what was released about the node.
        counts: [n, C], the votes, or sums of messages, that it received.
        codes: [n, M], how often it received each of M symbols that are no classes; None: there are none.

    >>> Evidence.of_prior(np.log(np.array([[0.9, 0.1]]))).counts.tolist()
    [[0.0, 0.0]]
    """

    prior: np.ndarray
    evidence: np.ndarray
    counts: np.ndarray
    codes: np.ndarray | None = None

    @classmethod
    def of_prior(cls, prior: np.ndarray) -> Evidence:
        """Nothing but the prior is known. [n, C]."""
        return cls(prior, np.zeros_like(prior), np.zeros_like(prior))

    def rows(self, index: np.ndarray) -> Evidence:
        """The rows of some nodes. [m] -> m rows."""
        codes = None if self.codes is None else self.codes[index]
        return Evidence(self.prior[index], self.evidence[index], self.counts[index], codes)

    def plus(self, evidence: np.ndarray, counts: np.ndarray) -> Evidence:
        """The sum with further evidence, [n, C], and counts, [n, C]."""
        return Evidence(self.prior, self.evidence + evidence, self.counts + counts, self.codes)


@dataclass(frozen=True, eq=False)
class Head:
    """Class scores from what is known: a prior + b evidence + bias. With a centre also splines of the counts, which all classes
    share, and a linear map of standardised prior, counts and codes.

    Args:
        theta: (a, b, splines [len(KNOTS)], bias [C], linear map [p, C] in rows), one vector; without a centre (a, b, bias).
        centre: [p], means of prior, counts, clipped counts, and of codes and clipped codes, if there are any; None: no map.
        spread: [p], their standard deviations.

    >>> known = Evidence(np.array([[-1.0, -3.0]]), np.array([[0.0, -4.0]]), np.array([[6.0, 2.0]]))
    >>> Head(np.array([1.0, 0.5, 0.0, 0.0]))(known).tolist()
    [[-1.0, -5.0]]
    """

    theta: np.ndarray
    centre: np.ndarray | None = None
    spread: np.ndarray | None = None

    def __call__(self, known: Evidence) -> np.ndarray:
        """[n, C]"""
        return _Terms.of(known, self.centre, self.spread).scores(self.theta)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model: ``Head(**arrays)`` is the inverse."""
        return {name: array for name, array in vars(self).items() if array is not None}


Fit = Callable[[Evidence, np.ndarray], Head]
"""Evidence of n nodes and their labels, [n] -> head."""


def fit_prior_head(prior: np.ndarray, labels: np.ndarray, objective: Objective = USUAL) -> Head:
    """a log p + bias by penalised cross-entropy, pulled towards a = 1: it ignores the release. prior: log p, [n, C]; labels: [n].

    >>> prior = np.log(np.array([[0.6, 0.4], [0.4, 0.6]] * 20))                       # right every time, and unsure
    >>> bool(fit_prior_head(prior, np.array([0, 1] * 20)).theta[0] > 1)               # so it is made surer
    True
    """
    return Head(np.insert(fit_weights([prior], labels, objective, start=(1.0,)), 1, 0.0))


def fit_bayes_head(known: Evidence, labels: np.ndarray, objective: Objective = USUAL) -> Head:
    """a prior + b evidence + bias by penalised cross-entropy, pulled towards a = 1, b = 1/2. labels: [n]."""
    return Head(fit_weights([known.prior, known.evidence], labels, objective, start=(1.0, 0.5)))


def fit_ridge_head(known: Evidence, labels: np.ndarray, ridge: float, objective: Objective = USUAL) -> Head:
    """The Bayes head plus splines of the counts and a linear map of prior and counts, whose squares ``ridge`` / 2 penalises.

    labels: [n].
    """
    columns = _columns(known)
    centre, spread = columns.mean(axis=0), np.maximum(columns.std(axis=0), 1e-6)
    theta = _fitted(_Terms.of(known, centre, spread), labels, objective, start=(1.0, 0.5), ridge=ridge)
    return Head(theta, centre, spread)


def fit_average_head(known: Evidence, labels: np.ndarray, objective: Objective = USUAL) -> Head:
    """The mean of the Bayes head and all ridge heads, each fitted on the same rows: scores are linear in theta. labels: [n]."""
    first, *others = (fit(known, labels) for fit in _kinds(objective))
    bayes = np.zeros_like(others[0].theta)
    C = known.prior.shape[1]
    bayes[:2], bayes[2 + len(KNOTS) : 2 + len(KNOTS) + C] = first.theta[:2], first.theta[2:]
    return Head(np.mean([bayes, *(head.theta for head in others)], axis=0), others[0].centre, others[0].spread)


def fit_weights(
    parts: Sequence[np.ndarray], labels: np.ndarray, objective: Objective = USUAL, *, start: Sequence[float]
) -> np.ndarray:
    """(a, bias) of the scores sum_j a_j parts_j + bias by penalised cross-entropy, pulled towards ``start``. -> [J + C]

    Args:
        parts: [n, C] each.
        labels: [n].
        objective: how much each class counts.
        start: of a.
    """
    terms = _Terms(np.stack(parts, axis=2), np.ones((len(labels), 1)))
    return _fitted(terms, labels, objective, start=start)


def choose_head_by_folds(
    known: Evidence,
    labels: np.ndarray,
    prior_head: Head,
    rng: np.random.Generator,
    objective: Objective = USUAL,
) -> tuple[Head, np.ndarray]:
    """The Bayes head, unless the best candidate beats it by more than one paired standard error on rows left out of its fit.

    The chosen kind is then fitted on all rows.

    Args:
        known: what is known about the calibration nodes.
        labels: [n], of the calibration nodes. With fewer than FOLDS of them ``prior_head`` is taken.
        prior_head: the candidate that ignores the release.
        rng: draws the folds.
        objective: what is best, and how much each class counts.

    Returns:
        The head, and its out-of-fold scores, [n, C].
    """
    if len(labels) < FOLDS:
        return prior_head, prior_head(known)
    fold = rng.permutation(len(labels)) % FOLDS
    fits = _kinds(objective)
    scores = np.zeros((len(fits), *known.prior.shape))
    for k in range(FOLDS):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        for j, fit in enumerate(fits):
            scores[j, outside] = fit(known.rows(inside), labels[inside])(known.rows(outside))
    candidates = [*scores, scores.mean(axis=0), prior_head(known)]
    best = objective.best(candidates, labels)
    if best == len(fits) + 1:
        return prior_head, candidates[best]
    if best == len(fits):
        return fit_average_head(known, labels, objective), candidates[best]
    return fits[best](known, labels), candidates[best]


def _kinds(objective: Objective) -> list[Fit]:
    ridges = (partial(fit_ridge_head, objective=objective, ridge=ridge) for ridge in RIDGES)
    return [partial(fit_bayes_head, objective=objective), *ridges]


def _columns(e: Evidence) -> np.ndarray:
    columns = [e.prior, e.counts, np.clip(e.counts, -1, 4)]
    if e.codes is not None:
        columns += [e.codes, np.clip(e.codes, -1, 4)]
    return np.concatenate(columns, axis=1)


def _splines(counts: np.ndarray) -> np.ndarray:
    """Hat functions of each count at the knots (constant outside). [n, C] -> [n, C, knots]."""
    knots = np.array(KNOTS)
    x = np.clip(counts, knots[0], knots[-1])
    right = np.clip(np.searchsorted(knots, x, side="right"), 1, len(knots) - 1)
    low, high = knots[right - 1], knots[right]
    share = (x - low) / (high - low)
    out = np.zeros((*counts.shape, len(knots)))
    np.put_along_axis(out, right[..., None] - 1, (1 - share)[..., None], axis=2)
    np.put_along_axis(out, right[..., None], share[..., None], axis=2)
    return out


class _Terms:
    """What scores are linear in, with coefficients theta: weights [s], which all classes share, and a map [1 + p, C] of rows.

    Args:
        shared: [n, C, s].
        rows: [n, 1 + p], the first column 1, for the bias.
    """

    def __init__(self, shared: np.ndarray, rows: np.ndarray) -> None:
        self.shape, self.count = shared.shape[:2], shared.shape[2]
        self._shared, self._rows = shared.reshape(-1, self.count), rows

    @classmethod
    def of(cls, known: Evidence, centre: np.ndarray | None = None, spread: np.ndarray | None = None) -> _Terms:
        """The terms of a head."""
        shared, rows = np.stack([known.prior, known.evidence], axis=2), np.ones((len(known.prior), 1))
        if centre is None:
            return cls(shared, rows)
        wide = np.hstack([rows, (_columns(known) - centre) / spread])
        return cls(np.concatenate([shared, _splines(known.counts)], axis=2), wide)

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """[width] -> [n, C]"""
        own = (self._shared @ theta[: self.count]).reshape(self.shape)
        return np.asarray(own + self._rows @ theta[self.count :].reshape(-1, self.shape[1]))

    def gradient(self, slopes: np.ndarray) -> np.ndarray:
        """Of sum(slopes * scores). [n, C] -> [width]"""
        return np.concatenate([slopes.ravel() @ self._shared, (self._rows.T @ slopes).ravel()])

    def penalties(self, weighted: int, ridge: float) -> np.ndarray:
        """Of half the squared distance from the start: 1 / n for the first weights, 0.002 for splines and bias, ``ridge`` for
        the rest of the map. [width]"""
        n, C = self.shape
        found = np.full(self.count + self._rows.shape[1] * C, 2e-3)
        found[:weighted], found[self.count + C :] = 1 / n, ridge
        return found


def _fitted(
    terms: _Terms, labels: np.ndarray, objective: Objective, *, start: Sequence[float], ridge: float = 0.0
) -> np.ndarray:
    """theta of the least cross-entropy + sum_j penalty_j (theta_j - start_j)^2 / 2; ``start``: of a, 0 for all else."""
    n, C = terms.shape
    each = objective.class_weights(labels, C)
    weights = np.full(n, 1 / n) if each is None else each[labels] / each[labels].sum()
    targets, penalties = np.eye(C)[labels], terms.penalties(len(start), ridge)
    begin = np.zeros(len(penalties))
    begin[: len(start)] = start

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        logs = terms.scores(theta)
        logs -= logs.max(axis=1, keepdims=True)
        logs -= np.log(
            np.exp(logs).sum(axis=1, keepdims=True)
        )  # SciPy's log_softmax takes four times as long on few rows
        away = theta - begin
        value = -(weights @ (targets * logs).sum(axis=1)) + penalties @ away**2 / 2
        return float(value), terms.gradient(weights[:, None] * (np.exp(logs) - targets)) + penalties * away

    return _minimise(loss, begin)


def _minimise(loss: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray) -> np.ndarray:
    """L-BFGS on a loss with its gradient: the heads are convex, so this is their optimum."""
    options = {"maxiter": 120, "ftol": 1e-10, "gtol": 1e-7}
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x)
