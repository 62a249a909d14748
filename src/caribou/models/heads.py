"""Heads: how the prior and the evidence of released counts become class scores. Fitted on calibration nodes only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from caribou.errors import InputError
from caribou.models.threads import one_thread

KNOTS = (-3.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
RIDGES = (3.0, 0.03, 0.003)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about each node. prior: log probabilities, evidence: log likelihoods, counts: votes; all [n, C]."""

    prior: np.ndarray
    evidence: np.ndarray
    counts: np.ndarray

    @classmethod
    def of_prior(cls, prior: np.ndarray) -> Evidence:
        """Nothing but the prior is known."""
        return cls(prior, np.zeros_like(prior), np.zeros_like(prior))

    def rows(self, index: np.ndarray) -> Evidence:
        """The rows of some nodes."""
        return Evidence(self.prior[index], self.evidence[index], self.counts[index])

    def plus(self, evidence: np.ndarray, counts: np.ndarray) -> Evidence:
        """More evidence on top."""
        return Evidence(self.prior, self.evidence + evidence, self.counts + counts)


class Head(Protocol):
    """Class scores from what is known. [n rows of Evidence] -> [n, C]."""

    def __call__(self, known: Evidence) -> np.ndarray: ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved run; `head_from_arrays` is the inverse."""
        ...


Fit = Callable[[Evidence, np.ndarray], Head]
"""Known rows and their labels -> head."""


@dataclass(frozen=True, eq=False)
class PriorHead:
    """a log p + bias: calibrates the encoder and ignores the release. theta: [1 + C]."""

    theta: np.ndarray

    def __call__(self, known: Evidence) -> np.ndarray:
        return self.theta[0] * known.prior + self.theta[1:]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays."""
        return {"prior.theta": self.theta}


@dataclass(frozen=True, eq=False)
class BayesHead:
    """a prior + b evidence + bias. theta: [2 + C]."""

    theta: np.ndarray

    def __call__(self, known: Evidence) -> np.ndarray:
        return self.theta[0] * known.prior + self.theta[1] * known.evidence + self.theta[2:]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays."""
        return {"bayes.theta": self.theta}


@dataclass(frozen=True, eq=False)
class RidgeHead:
    """The Bayes head plus splines of the counts (shared over classes) and a linear map of standardised prior and counts."""

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


def fit_prior_head(prior: np.ndarray, labels: np.ndarray) -> PriorHead:
    """a log p + bias: calibrates the encoder."""
    C = prior.shape[1]
    x, y = torch.from_numpy(prior), torch.from_numpy(labels)

    def loss(t: Tensor) -> Tensor:
        penalty = 1e-3 * (t[1:] ** 2).sum() + (t[0] - 1) ** 2 / (2 * len(y))
        return torch.nn.functional.cross_entropy(t[0] * x + t[1:], y) + penalty

    return PriorHead(_minimise(loss, torch.cat([torch.ones(1), torch.zeros(C)])))


def fit_bayes_head(known: Evidence, labels: np.ndarray) -> BayesHead:
    """a prior + b evidence + bias, pulled towards a = 1, b = 1/2."""
    C = known.prior.shape[1]
    y, n = torch.from_numpy(labels), len(labels)
    prior, evidence = torch.from_numpy(known.prior), torch.from_numpy(known.evidence)

    def loss(t: Tensor) -> Tensor:
        penalty = 1e-3 * (t[2:] ** 2).sum() + ((t[0] - 1) ** 2 + (t[1] - 0.5) ** 2) / (2 * n)
        return torch.nn.functional.cross_entropy(t[0] * prior + t[1] * evidence + t[2:], y) + penalty

    return BayesHead(_minimise(loss, torch.cat([torch.tensor([1.0, 0.5]), torch.zeros(C)])))


def fit_ridge_head(known: Evidence, labels: np.ndarray, ridge: float) -> RidgeHead:
    """The Bayes head plus splines of the counts and a linear map of prior and counts with a ridge."""
    C, k = known.prior.shape[1], len(KNOTS)
    y, n = torch.from_numpy(labels), len(labels)
    columns = _columns(known)
    centre, spread = columns.mean(axis=0), np.maximum(columns.std(axis=0), 1e-6)
    fixed = _ridge_parts(known, centre, spread)

    def loss(t: Tensor) -> Tensor:
        penalty = 1e-3 * (t[2 : 2 + C] ** 2).sum() + ((t[0] - 1) ** 2 + (t[1] - 0.5) ** 2) / (2 * n)
        penalty = penalty + 1e-3 * (t[2 + C : 2 + C + k] ** 2).sum()
        penalty = penalty + ridge / 2 * (t[2 + C + k :] ** 2).sum()
        return torch.nn.functional.cross_entropy(_ridge_scores(t, fixed), y) + penalty

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
    known: Evidence, labels: np.ndarray, prior_head: PriorHead, rng: np.random.Generator, folds: int = 4
) -> tuple[Head, np.ndarray]:
    """As `choose_head`, with every candidate judged on rows that it was not fitted on; then fitted on all of them.

    Returns the head and its out-of-fold scores, which say how good it is. [n, C].
    """
    if len(labels) < folds:  # nobody to judge by
        return prior_head, prior_head(known)
    fold = rng.permutation(len(labels)) % folds
    fits = _kinds()
    scores = np.zeros((len(fits), *known.prior.shape))
    for k in range(folds):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        for j, fit in enumerate(fits):
            scores[j, outside] = fit(known.rows(inside), labels[inside])(known.rows(outside))
    candidates = [*scores, scores.mean(axis=0), prior_head(known)]
    best = _first_unless_clearly_better([cross_entropies(candidate, labels) for candidate in candidates])
    if best == len(fits) + 1:
        return prior_head, candidates[best]
    if best == len(fits):
        return fit_average_head(known, labels), candidates[best]
    return fits[best](known, labels), candidates[best]


def _first_unless_clearly_better(losses: Sequence[np.ndarray]) -> int:
    """0, unless the least mean loss beats the first by more than one paired standard error."""
    best = int(np.argmin([loss.mean() for loss in losses]))
    gain = losses[0] - losses[best]
    return best if gain.mean() > gain.std() / np.sqrt(len(gain)) else 0


def choose_head(
    known: Evidence, labels: np.ndarray, validation: Evidence, validation_labels: np.ndarray, prior_head: PriorHead
) -> tuple[Head, Fit]:
    """The Bayes head, unless the best candidate beats it on validation by more than one paired standard error.

    Returns the head and how to fit its kind again, on more rows.
    """
    kinds = _kinds()
    fitted = [fit(known, labels) for fit in kinds]
    if len(validation_labels) == 0:
        return fitted[0], kinds[0]
    candidates: list[Head] = [*fitted, AverageHead(tuple(fitted)), prior_head]
    fits: list[Fit] = [*kinds, fit_average_head, lambda e, y: prior_head]
    losses = [cross_entropies(head(validation), validation_labels) for head in candidates]
    best = _first_unless_clearly_better(losses)
    return candidates[best], fits[best]


def fit_average_head(known: Evidence, labels: np.ndarray) -> AverageHead:
    """The Bayes head and all ridge heads, averaged."""
    return AverageHead(tuple(fit(known, labels) for fit in _kinds()))


def _kinds() -> list[Fit]:
    return [fit_bayes_head, *(partial(fit_ridge_head, ridge=ridge) for ridge in RIDGES)]


def cross_entropies(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """-log softmax at the label, per row."""
    return torch.nn.functional.cross_entropy(
        torch.from_numpy(scores), torch.from_numpy(labels), reduction="none"
    ).numpy()


def _columns(e: Evidence) -> np.ndarray:
    return np.concatenate([e.prior, e.counts, np.clip(e.counts, -1, 4)], axis=1)


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
    theta = start.double().clone().requires_grad_()
    optimizer = torch.optim.LBFGS([theta], max_iter=120, line_search_fn="strong_wolfe", tolerance_change=1e-8)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(theta)
        value.backward()
        return value

    optimizer.step(closure)
    return theta.detach().numpy()
