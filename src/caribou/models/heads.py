"""Heads: class scores from the prior and the evidence of released counts. They are fitted on calibration nodes only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

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
        parts = _ridge_parts(known, self.centre, self.spread)
        return _ridge_scores(torch.from_numpy(self.theta), parts).numpy()

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
    C = prior.shape[1]
    x, y, weight = torch.from_numpy(prior), torch.from_numpy(labels), _by_class(objective, labels, C)

    def loss(t: Tensor) -> Tensor:
        penalty = 1e-3 * (t[1:] ** 2).sum() + (t[0] - 1) ** 2 / (2 * len(y))
        return torch.nn.functional.cross_entropy(t[0] * x + t[1:], y, weight=weight) + penalty

    return PriorHead(_minimise(loss, torch.cat([torch.ones(1), torch.zeros(C)])))


def fit_bayes_head(known: Evidence, labels: np.ndarray, objective: Objective = USUAL) -> BayesHead:
    """a prior + b evidence + bias by penalised cross-entropy, pulled towards a = 1, b = 1/2. labels: [n]."""
    C = known.prior.shape[1]
    y, n, weight = torch.from_numpy(labels), len(labels), _by_class(objective, labels, C)
    prior, evidence = torch.from_numpy(known.prior), torch.from_numpy(known.evidence)

    def loss(t: Tensor) -> Tensor:
        penalty = 1e-3 * (t[2:] ** 2).sum() + ((t[0] - 1) ** 2 + (t[1] - 0.5) ** 2) / (2 * n)
        scores = t[0] * prior + t[1] * evidence + t[2:]
        return torch.nn.functional.cross_entropy(scores, y, weight=weight) + penalty

    return BayesHead(_minimise(loss, torch.cat([torch.tensor([1.0, 0.5]), torch.zeros(C)])))


def fit_ridge_head(known: Evidence, labels: np.ndarray, ridge: float, objective: Objective = USUAL) -> RidgeHead:
    """The Bayes head plus splines of the counts and a linear map of prior and counts, whose squares ``ridge`` / 2 penalises.

    labels: [n].
    """
    C, k = known.prior.shape[1], len(KNOTS)
    y, n, weight = torch.from_numpy(labels), len(labels), _by_class(objective, labels, C)
    columns = _columns(known)
    centre, spread = columns.mean(axis=0), np.maximum(columns.std(axis=0), 1e-6)
    fixed = _ridge_parts(known, centre, spread)

    def loss(t: Tensor) -> Tensor:
        penalty = 1e-3 * (t[2 : 2 + C] ** 2).sum() + ((t[0] - 1) ** 2 + (t[1] - 0.5) ** 2) / (2 * n)
        penalty = penalty + 1e-3 * (t[2 + C : 2 + C + k] ** 2).sum()
        penalty = penalty + ridge / 2 * (t[2 + C + k :] ** 2).sum()
        return torch.nn.functional.cross_entropy(_ridge_scores(t, fixed), y, weight=weight) + penalty

    start = torch.cat([torch.tensor([1.0, 0.5]), torch.zeros(C + k + columns.shape[1] * C)])
    return RidgeHead(_minimise(loss, start), centre, spread)


def _ridge_parts(e: Evidence, centre: np.ndarray, spread: np.ndarray) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    wide = torch.from_numpy((_columns(e) - centre) / spread)
    return torch.from_numpy(e.prior), torch.from_numpy(e.evidence), torch.from_numpy(_splines(e.counts)), wide


def _ridge_scores(theta: Tensor, parts: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
    lp, ll, splines, wide = parts
    C, k = lp.shape[1], len(KNOTS)
    out = theta[0] * lp + theta[1] * ll + theta[2 : 2 + C]
    out = out + splines @ theta[2 + C : 2 + C + k]
    return out + wide @ theta[2 + C + k :].reshape(-1, C)


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


def _by_class(objective: Objective, labels: np.ndarray, classes: int) -> Tensor | None:
    """The weight of every class in a loss; None where all nodes count the same. [n] -> [C]"""
    weights = objective.class_weights(labels, classes)
    return None if weights is None else torch.from_numpy(weights)


def cross_entropies(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """-log softmax at the label, per row. [n, C], [n] -> [n].

    >>> cross_entropies(np.zeros((1, 4)), np.array([2])).round(4).tolist()            # log 4
    [1.3863]
    """
    return torch.nn.functional.cross_entropy(
        torch.from_numpy(scores), torch.from_numpy(labels), reduction="none"
    ).numpy()


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


@one_thread()
def _minimise(loss: Callable[[Tensor], Tensor], start: Tensor) -> np.ndarray:
    """L-BFGS in double precision: the heads are convex, so this is their optimum."""
    shape = start.shape

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.from_numpy(flat).reshape(shape).requires_grad_()
        value = loss(theta)
        (gradient,) = torch.autograd.grad(value, theta)
        return float(value.detach()), gradient.numpy().ravel()

    options = {"maxiter": 120, "ftol": 1e-10, "gtol": 1e-7}
    found = minimize(value_and_gradient, start.double().numpy().ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x).reshape(shape)
