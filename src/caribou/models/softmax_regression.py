"""Softmax regression with a ridge: the linear head of downstream tasks, on public labels and released columns."""

from __future__ import annotations

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
) -> SoftmaxRegression:
    """Minimise mean cross-entropy + ridge / 2 ||A||^2 by L-BFGS. The problem is convex, so the start does not matter.

    Args:
        columns: [m, d].
        labels: [m], classes in [0, C).
        classes: C.
        ridge: strength of the penalty; the bias b pays none.
        standardise: every column by its own mean and standard deviation; false: columns are taken as they are.

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
    shape = (z.shape[1], classes)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(shape)
        logs = log_softmax(z @ theta, axis=1)
        penalised = np.vstack([theta[:-1], np.zeros(classes)])
        value = -(targets * logs).sum() / len(z) + ridge / 2 * (penalised**2).sum()
        return float(value), (z.T @ (np.exp(logs) - targets) / len(z) + ridge * penalised).ravel()

    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return SoftmaxRegression(found.x.reshape(shape), centre, spread)
