"""The fit is the optimum of its penalised likelihood, and a column of no variance is harmless."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from caribou.models.softmax_regression import SoftmaxRegression, fit_softmax_regression


def objective(weights: np.ndarray, z: np.ndarray, labels: np.ndarray, ridge: float) -> float:
    logs = log_softmax(z @ weights[:-1] + weights[-1], axis=1)
    return float(-logs[np.arange(len(labels)), labels].mean() + ridge / 2 * (weights[:-1] ** 2).sum())


def weights(model: SoftmaxRegression) -> np.ndarray:
    """A above b, [d + 1, C]."""
    fitted = model.model[-1]
    found = np.vstack([fitted.coef_.T, fitted.intercept_])
    return np.hstack([-found / 2, found / 2]) if found.shape[1] == 1 else found


def test_no_step_in_any_direction_improves_the_optimum() -> None:
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((60, 4)) * [1, 5, 0.1, 2] + 3, rng.integers(3, size=60)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    for classes in (3, 2):
        y = np.minimum(labels, classes - 1)
        found = weights(fit_softmax_regression(x, y, classes, ridge=0.05))
        best = objective(found, z, y, 0.05)
        for _ in range(50):
            assert objective(found + 0.05 * rng.standard_normal(found.shape), z, y, 0.05) > best


def test_a_constant_column_changes_nothing() -> None:
    rng = np.random.default_rng(2)
    x, labels = rng.standard_normal((40, 2)), rng.integers(2, size=40)
    plain = fit_softmax_regression(x, labels, 2)(x)
    wide = np.hstack([x, np.full((40, 1), 7.0)])
    assert fit_softmax_regression(wide, labels, 2)(wide) == pytest.approx(plain, abs=1e-4)
    assert plain.sum(axis=1) == pytest.approx(1)
