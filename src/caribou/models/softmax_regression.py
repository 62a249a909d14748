"""Softmax regression with a ridge: the linear head of downstream tasks, on public labels and released columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

RIDGE = 0.01
"""Penalty per row: strong enough for columns that are mostly noise."""
STEPS = 500


@dataclass(frozen=True, eq=False)
class SoftmaxRegression:
    """softmax(z A + b) with z the columns, standardised as they were in the fit.

    Args:
        weights: A above b, [d + 1, C].
        centre: [d], means of the columns.
        spread: [d], their standard deviations; 1 for a column that is constant.
    """

    weights: np.ndarray
    centre: np.ndarray
    spread: np.ndarray

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        """Class probabilities. [m, d] -> [m, C]"""
        z = (columns - self.centre) / self.spread
        return np.asarray(softmax(z @ self.weights[:-1] + self.weights[-1], axis=1))


def fit_softmax_regression(
    columns: np.ndarray,
    labels: np.ndarray,
    classes: int,
    ridge: float = RIDGE,
    *,
    standardise: bool = True,
    weights: np.ndarray | None = None,
) -> SoftmaxRegression:
    """Minimise mean cross-entropy + ridge / 2 ||A||^2 by L-BFGS. The problem is convex, so the start does not matter.

    Args:
        columns: [m, d].
        labels: [m], classes in [0, C).
        classes: C.
        ridge: strength of the penalty; the bias b pays none.
        standardise: every column by its own mean and standard deviation; false: columns are taken as they are.
        weights: [m], of the rows in the loss, 1 in the mean; None: all are 1.

    Returns:
        The fitted model.

    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> fit_softmax_regression(x, np.array([0, 0, 1, 1]), 2)(x).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    centre, spread = np.zeros(columns.shape[1]), np.ones(columns.shape[1])
    if standardise:
        centre, spread = columns.mean(axis=0), columns.std(axis=0)
        spread = np.where(spread > 1e-12, spread, 1.0)
    z = np.hstack([(columns - centre) / spread, np.ones((len(columns), 1))])
    targets = np.eye(classes)[labels]
    each = np.ones((len(z), 1)) if weights is None else weights[:, None]
    shape = (z.shape[1], classes)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(shape)
        logs = log_softmax(z @ theta, axis=1)
        penalised = np.vstack([theta[:-1], np.zeros(classes)])
        value = -(each * targets * logs).sum() / len(z) + ridge / 2 * (penalised**2).sum()
        return float(value), (z.T @ (each * (np.exp(logs) - targets)) / len(z) + ridge * penalised).ravel()

    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return SoftmaxRegression(found.x.reshape(shape), centre, spread)


def fit_by_parts(
    parts: Sequence[np.ndarray], labels: np.ndarray, classes: int, ridge: float, *, weights: np.ndarray | None = None
) -> SoftmaxRegression:
    """A softmax regression on several learners' scores with one weight per learner: softmax(sum_l a_l (z_l A_l + b_l) + b).

    A_l and b_l are the regression on the scores of learner l alone; then a and b are fitted. With L learners and C classes that
    is C^2 numbers at a time, where one regression on all of them has L C^2, too many where there are many classes.

    Args:
        parts: [m, C_l] each, the scores of the learners, out of fold.
        labels: [m], classes in [0, C).
        classes: C.
        ridge: as in `fit_softmax_regression`, of every A_l.
        weights: [m], of the rows in the loss, 1 in the mean; None: all are 1.

    Returns:
        One regression on all columns side by side, which is what the formula is.
    """
    fits = [fit_softmax_regression(part, labels, classes, ridge, weights=weights) for part in parts]
    logits = np.stack(
        [((p - f.centre) / f.spread) @ f.weights[:-1] + f.weights[-1] for p, f in zip(parts, fits, strict=True)]
    )
    targets = np.eye(classes)[labels]
    each = np.ones((len(labels), 1)) if weights is None else weights[:, None]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        logs = log_softmax(np.tensordot(flat[: len(parts)], logits, axes=1) + flat[len(parts) :], axis=1)
        errors = each * (np.exp(logs) - targets) / len(labels)
        return float(-(each * targets * logs).sum() / len(labels)), np.concatenate(
            [np.tensordot(logits, errors, axes=2), errors.sum(axis=0)]
        )

    start = np.concatenate([np.full(len(parts), 1 / len(parts)), np.zeros(classes)])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    a, b = found[: len(parts)], found[len(parts) :]
    bias = b + sum(a[k] * fit.weights[-1] for k, fit in enumerate(fits))
    return SoftmaxRegression(
        np.vstack([*(a[k] * fit.weights[:-1] for k, fit in enumerate(fits)), bias]),
        np.concatenate([fit.centre for fit in fits]),
        np.concatenate([fit.spread for fit in fits]),
    )
