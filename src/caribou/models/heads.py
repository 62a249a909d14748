"""Heads: class scores from the prior and the evidence of released counts. They are fitted on calibration nodes only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from caribou.errors import InputError
from caribou.models.objective import USUAL, Objective
from caribou.models.threads import one_thread

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


class Head(Protocol):
    """Class scores from what is known. Evidence of n nodes -> [n, C]."""

    def __call__(self, known: Evidence) -> np.ndarray: ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model; `head_from_arrays` is the inverse."""
        ...


Fit = Callable[[Evidence, np.ndarray], Head]
"""Evidence of n nodes and their labels, [n] -> head."""


@dataclass(frozen=True, eq=False)
class PriorHead:
    """a log p + bias: calibrates the encoder and ignores the release. theta: (a, bias), [1 + C].

    >>> PriorHead(np.array([2.0, 0.0, 1.0]))(Evidence.of_prior(np.array([[-1.0, -3.0]]))).tolist()
    [[-2.0, -5.0]]
    """

    theta: np.ndarray

    def __call__(self, known: Evidence) -> np.ndarray:
        return self.theta[0] * known.prior + self.theta[1:]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays."""
        return {"prior.theta": self.theta}


@dataclass(frozen=True, eq=False)
class BayesHead:
    """a prior + b evidence + bias. theta: (a, b, bias), [2 + C].

    >>> known = Evidence(np.array([[-1.0, -3.0]]), np.array([[0.0, -4.0]]), np.array([[6.0, 2.0]]))
    >>> BayesHead(np.array([1.0, 0.5, 0.0, 0.0]))(known).tolist()
    [[-1.0, -5.0]]
    """

    theta: np.ndarray

    def __call__(self, known: Evidence) -> np.ndarray:
        return self.theta[0] * known.prior + self.theta[1] * known.evidence + self.theta[2:]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays."""
        return {"bayes.theta": self.theta}


@dataclass(frozen=True, eq=False)
class RidgeHead:
    """The Bayes head plus splines of the counts (shared over classes) and a linear map of standardised prior, counts and codes.

    Args:
        theta: weights of prior and evidence, bias [C], splines [len(KNOTS)], linear map [3 C + 2 M, C] in rows; one vector.
        centre: [3 C + 2 M], means of prior, counts, clipped counts, and of codes and clipped codes, if there are any.
        spread: [3 C + 2 M], their standard deviations.
    """

    theta: np.ndarray
    centre: np.ndarray
    spread: np.ndarray

    def __call__(self, known: Evidence) -> np.ndarray:
        return _ridge_terms(known, self.centre, self.spread).scores(self.theta)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays."""
        return {"ridge.theta": self.theta, "ridge.centre": self.centre, "ridge.spread": self.spread}


@dataclass(frozen=True, eq=False)
class AverageHead:
    """The mean of the scores of several heads."""

    heads: tuple[Head, ...]

    def __call__(self, known: Evidence) -> np.ndarray:
        return np.mean([head(known) for head in self.heads], axis=0)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays."""
        return {
            f"average.{i}.{name}": array
            for i, head in enumerate(self.heads)
            for name, array in head.to_arrays().items()
        }


def head_from_arrays(arrays: Mapping[str, np.ndarray]) -> Head:
    """The inverse of `Head.to_arrays`."""
    kinds = {name.split(".")[0] for name in arrays}
    if kinds == {"average"}:
        numbers = sorted({int(name.split(".")[1]) for name in arrays})
        parts = [{n.split(".", 2)[2]: a for n, a in arrays.items() if int(n.split(".")[1]) == i} for i in numbers]
        return AverageHead(tuple(head_from_arrays(part) for part in parts))
    if kinds == {"prior"}:
        return PriorHead(arrays["prior.theta"])
    if kinds == {"bayes"}:
        return BayesHead(arrays["bayes.theta"])
    if kinds == {"ridge"}:
        return RidgeHead(arrays["ridge.theta"], arrays["ridge.centre"], arrays["ridge.spread"])
    raise InputError(f"head must be of one kind (prior, bayes, ridge, average), got {sorted(kinds)}")


def fit_prior_head(prior: np.ndarray, labels: np.ndarray, objective: Objective = USUAL) -> PriorHead:
    """a log p + bias by penalised cross-entropy, pulled towards a = 1. prior: log p, [n, C]; labels: [n].

    >>> prior = np.log(np.array([[0.6, 0.4], [0.4, 0.6]] * 20))                       # right every time, and unsure
    >>> bool(fit_prior_head(prior, np.array([0, 1] * 20)).theta[0] > 1)               # so it is made surer
    True
    """
    return PriorHead(_fitted(_Terms((prior,)), labels, objective, start=(1.0,)))


def fit_bayes_head(known: Evidence, labels: np.ndarray, objective: Objective = USUAL) -> BayesHead:
    """a prior + b evidence + bias by penalised cross-entropy, pulled towards a = 1, b = 1/2. labels: [n]."""
    return BayesHead(_fitted(_Terms((known.prior, known.evidence)), labels, objective, start=(1.0, 0.5)))


def fit_ridge_head(known: Evidence, labels: np.ndarray, ridge: float, objective: Objective = USUAL) -> RidgeHead:
    """The Bayes head plus splines of the counts and a linear map of prior and counts, whose squares ``ridge`` / 2 penalises.

    labels: [n].
    """
    columns = _columns(known)
    centre, spread = columns.mean(axis=0), np.maximum(columns.std(axis=0), 1e-6)
    terms = _ridge_terms(known, centre, spread)
    return RidgeHead(_fitted(terms, labels, objective, start=(1.0, 0.5), ridge=ridge), centre, spread)


def _ridge_terms(e: Evidence, centre: np.ndarray, spread: np.ndarray) -> _Terms:
    return _Terms((e.prior, e.evidence), _splines(e.counts), (_columns(e) - centre) / spread)


def choose_head_by_folds(
    known: Evidence,
    labels: np.ndarray,
    prior_head: PriorHead,
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
    best = _best_candidate(candidates, labels, objective)
    if best == len(fits) + 1:
        return prior_head, candidates[best]
    if best == len(fits):
        return fit_average_head(known, labels, objective), candidates[best]
    return fits[best](known, labels), candidates[best]


def _best_candidate(candidates: list[np.ndarray], labels: np.ndarray, objective: Objective) -> int:
    """The number of the best of several class scores, [n, C] each, by cross-entropy or by the metric of the objective."""
    if objective.metric is not None:
        return objective.first_unless_clearly_better(candidates, labels)
    return _first_unless_clearly_better([cross_entropies(scores, labels) for scores in candidates])


def _first_unless_clearly_better(losses: Sequence[np.ndarray]) -> int:
    """0, unless the least mean loss beats the first by more than one paired standard error."""
    best = int(np.argmin([loss.mean() for loss in losses]))
    gain = losses[0] - losses[best]
    return best if gain.mean() > gain.std() / np.sqrt(len(gain)) else 0


def fit_average_head(known: Evidence, labels: np.ndarray, objective: Objective = USUAL) -> AverageHead:
    """The mean of the Bayes head and all ridge heads, each fitted on the same rows. labels: [n]."""
    return AverageHead(tuple(fit(known, labels) for fit in _kinds(objective)))


def _kinds(objective: Objective) -> list[Fit]:
    ridges = (partial(fit_ridge_head, objective=objective, ridge=ridge) for ridge in RIDGES)
    return [partial(fit_bayes_head, objective=objective), *ridges]


def cross_entropies(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """-log softmax at the label, per row. [n, C], [n] -> [n].

    >>> cross_entropies(np.zeros((1, 4)), np.array([2])).round(4).tolist()            # log 4
    [1.3863]
    """
    losses: np.ndarray = -log_softmax(scores, axis=1)[np.arange(len(labels)), labels]
    return losses


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
    """What the scores of a head are made of: sum_j a_j Z_j + bias + splines w + wide M, linear in theta = (a, bias, w, M).

    Args:
        weighted: Z_j, [n, C] each.
        splines: [n, C, k], shared by all classes; none by default.
        wide: [n, p], of a linear map [p, C]; none by default.
    """

    def __init__(
        self, weighted: Sequence[np.ndarray], splines: np.ndarray | None = None, wide: np.ndarray | None = None
    ) -> None:
        n, C = weighted[0].shape
        self.shape, self.count = (n, C), len(weighted)
        shared = [part[:, :, None] for part in weighted] + ([] if splines is None else [splines])
        self._shared = np.concatenate(shared, axis=2).reshape(n * C, -1)  # one product for all of them
        self._wide = np.empty((n, 0)) if wide is None else wide

    @property
    def width(self) -> int:
        """Numbers of theta."""
        return self._shared.shape[1] + self.shape[1] * (1 + self._wide.shape[1])

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """[width] -> [n, C]"""
        C, own = self.shape[1], self._of_shared
        found = (self._shared @ theta[own]).reshape(self.shape) + theta[self.count : self.count + C]
        return np.asarray(found + self._wide @ theta[self._map :].reshape(-1, C))

    def gradient(self, slopes: np.ndarray) -> np.ndarray:
        """Of sum(slopes * scores). [n, C] -> [width]"""
        found = np.empty(self.width)
        found[self._of_shared] = slopes.ravel() @ self._shared
        found[self.count : self.count + self.shape[1]] = slopes.sum(axis=0)
        found[self._map :] = (self._wide.T @ slopes).ravel()
        return found

    def penalties(self, ridge: float) -> np.ndarray:
        """Of half the squared distance from the start: 1 / n for a, 0.002 for bias and splines, ``ridge`` for the map. [width]"""
        found = np.full(self.width, 2e-3)
        found[: self.count], found[self._map :] = 1 / self.shape[0], ridge
        return found

    @property
    def _of_shared(self) -> np.ndarray:
        """Places of a and w in theta."""
        return np.r_[: self.count, self.count + self.shape[1] : self._map]

    @property
    def _map(self) -> int:
        """The place of M in theta."""
        return self._shared.shape[1] + self.shape[1]


def _fitted(
    terms: _Terms, labels: np.ndarray, objective: Objective, *, start: Sequence[float], ridge: float = 0.0
) -> np.ndarray:
    """theta of the least cross-entropy + sum_j penalty_j (theta_j - start_j)^2 / 2; ``start``: of a, 0 for all else."""
    n, C = terms.shape
    each = objective.class_weights(labels, C)
    weights = np.full(n, 1 / n) if each is None else each[labels] / each[labels].sum()
    targets, penalties = np.eye(C)[labels], terms.penalties(ridge)
    begin = np.zeros(terms.width)
    begin[: len(start)] = start

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        logs = log_softmax(terms.scores(theta), axis=1)
        away = theta - begin
        value = -(weights @ (targets * logs).sum(axis=1)) + penalties @ away**2 / 2
        return float(value), terms.gradient(weights[:, None] * (np.exp(logs) - targets)) + penalties * away

    return _minimise(loss, begin)


@one_thread()
def _minimise(loss: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray) -> np.ndarray:
    """L-BFGS on a loss with its gradient: the heads are convex, so this is their optimum."""
    options = {"maxiter": 120, "ftol": 1e-10, "gtol": 1e-7}
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x)
