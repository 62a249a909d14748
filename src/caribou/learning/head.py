"""Heads: how the prior and the evidence of released counts become class scores. Fitted on calibration nodes only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

KNOTS = (-3.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
RIDGES = (3.0, 0.03, 0.003)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known about each node. prior: log probabilities, evidence: log likelihoods, counts: votes; all [n, C]."""

    prior: np.ndarray
    evidence: np.ndarray
    counts: np.ndarray

    def rows(self, index: np.ndarray) -> Evidence:
        """The rows of some nodes."""
        return Evidence(self.prior[index], self.evidence[index], self.counts[index])

    def plus(self, evidence: np.ndarray, counts: np.ndarray) -> Evidence:
        """More evidence on top."""
        return Evidence(self.prior, self.evidence + evidence, self.counts + counts)


Head = Callable[[Evidence], np.ndarray]
Fit = Callable[[Evidence, np.ndarray], Head]
"""Known rows and their labels -> head."""


def fit_prior_head(prior: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """a log p + bias: calibrates the encoder. Returns the map from log probabilities to scores."""
    C = prior.shape[1]
    x, y = torch.from_numpy(prior), torch.from_numpy(labels)

    def scores(theta: Tensor, lp: Tensor) -> Tensor:
        return theta[0] * lp + theta[1:]

    theta = _minimise(
        lambda t: (
            torch.nn.functional.cross_entropy(scores(t, x), y)
            + 1e-3 * (t[1:] ** 2).sum()
            + (t[0] - 1) ** 2 / (2 * len(y))
        ),
        torch.cat([torch.ones(1), torch.zeros(C)]),
    )
    return lambda lp: scores(theta, torch.from_numpy(lp)).numpy()


def fit_bayes_head(known: Evidence, labels: np.ndarray) -> Head:
    """a prior + b evidence + bias, pulled towards a = 1, b = 1/2."""
    C = known.prior.shape[1]
    y, n = torch.from_numpy(labels), len(labels)

    def scores(theta: Tensor, e: Evidence) -> Tensor:
        return theta[0] * torch.from_numpy(e.prior) + theta[1] * torch.from_numpy(e.evidence) + theta[2:]

    def loss(t: Tensor) -> Tensor:
        penalty = 1e-3 * (t[2:] ** 2).sum() + ((t[0] - 1) ** 2 + (t[1] - 0.5) ** 2) / (2 * n)
        return torch.nn.functional.cross_entropy(scores(t, known), y) + penalty

    theta = _minimise(loss, torch.cat([torch.tensor([1.0, 0.5]), torch.zeros(C)]))
    return lambda e: scores(theta, e).numpy()


def fit_ridge_head(known: Evidence, labels: np.ndarray, ridge: float) -> Head:
    """The Bayes head plus splines of the counts (shared over classes) and a linear map of prior and counts with a ridge."""
    C = known.prior.shape[1]
    y, n = torch.from_numpy(labels), len(labels)
    columns = _columns(known)
    centre, spread = columns.mean(axis=0), np.maximum(columns.std(axis=0), 1e-6)
    k = len(KNOTS)

    def parts(e: Evidence) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        wide = torch.from_numpy((_columns(e) - centre) / spread)
        return torch.from_numpy(e.prior), torch.from_numpy(e.evidence), torch.from_numpy(_splines(e.counts)), wide

    def scores(theta: Tensor, p: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
        lp, ll, splines, wide = p
        out = theta[0] * lp + theta[1] * ll + theta[2 : 2 + C]
        out = out + splines @ theta[2 + C : 2 + C + k]
        return out + wide @ theta[2 + C + k :].reshape(-1, C)

    fixed = parts(known)

    def loss(t: Tensor) -> Tensor:
        penalty = 1e-3 * (t[2 : 2 + C] ** 2).sum() + ((t[0] - 1) ** 2 + (t[1] - 0.5) ** 2) / (2 * n)
        penalty = penalty + 1e-3 * (t[2 + C : 2 + C + k] ** 2).sum()
        penalty = penalty + ridge / 2 * (t[2 + C + k :] ** 2).sum()
        return torch.nn.functional.cross_entropy(scores(t, fixed), y) + penalty

    start = torch.cat([torch.tensor([1.0, 0.5]), torch.zeros(C + k + columns.shape[1] * C)])
    theta = _minimise(loss, start)
    return lambda e: scores(theta, parts(e)).numpy()


def choose_head(
    known: Evidence, labels: np.ndarray, validation: Evidence, validation_labels: np.ndarray, prior_head: Head
) -> tuple[Head, Fit]:
    """The Bayes head, unless the best candidate beats it on validation by more than one paired standard error.

    Returns the head and how to fit its kind again, on more rows.
    """
    kinds: list[Fit] = [fit_bayes_head, *(partial(fit_ridge_head, ridge=ridge) for ridge in RIDGES)]
    fitted = [fit(known, labels) for fit in kinds]
    if len(validation_labels) == 0:
        return fitted[0], kinds[0]

    def fit_average(e: Evidence, y: np.ndarray) -> Head:
        return average_head([fit(e, y) for fit in kinds])

    candidates = [*fitted[1:], average_head(fitted), prior_head]
    fits: list[Fit] = [*kinds[1:], fit_average, lambda e, y: prior_head]
    losses = cross_entropies(fitted[0](validation), validation_labels)
    others = [cross_entropies(head(validation), validation_labels) for head in candidates]
    best = int(np.argmin([loss.mean() for loss in others]))
    gain = losses - others[best]
    if gain.mean() > gain.std() / np.sqrt(len(gain)):
        return candidates[best], fits[best]
    return fitted[0], kinds[0]


def average_head(heads: Sequence[Head]) -> Head:
    """The mean of the scores of several heads."""
    return lambda e: np.mean([head(e) for head in heads], axis=0)


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


def _minimise(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """L-BFGS in double precision: the heads are convex, so this is their optimum."""
    theta = start.double().clone().requires_grad_()
    optimizer = torch.optim.LBFGS([theta], max_iter=120, line_search_fn="strong_wolfe", tolerance_change=1e-8)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(theta)
        value.backward()
        return value

    optimizer.step(closure)
    return theta.detach()
