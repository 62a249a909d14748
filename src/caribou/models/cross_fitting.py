"""Cross-fitting: every labelled row is scored by a model that was not fitted on it, all other rows by the mean of the models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

Fit = TypeVar("Fit")


def by_class(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The rows class after class, in their order otherwise: dealt out in turn, every fold has its share of every class.

    >>> by_class(np.array([3, 0, 2, 1]), np.array([1, 0, 1, 0])).tolist()
    [3, 1, 0, 2]
    """
    return rows[np.argsort(labels[rows], kind="stable")]


def cross_fitted(
    fit: Callable[[np.ndarray, int], Fit],
    scores: Callable[[Fit, np.ndarray], np.ndarray],
    count: int,
    train: np.ndarray,
    folds: int,
) -> tuple[list[Fit], np.ndarray]:
    """The models of the folds, and the scores of all rows, [n, C].

    Args:
        fit: numbers of rows and the number of the fold that they leave out -> a model.
        scores: a model and numbers of rows, [m] -> their scores, [m, C].
        count: n, how many rows there are.
        train: [m], numbers of the labelled rows; every ``folds``-th is in the same fold.
        folds: how many models are fitted, at least 2.

    >>> labels = np.array([1.0, 2.0, 3.0, 4.0, 0.0])
    >>> means = cross_fitted(
    ...     lambda rows, _: labels[rows].mean(), lambda mean, rows: np.full((len(rows), 1), mean), 5, np.arange(4), 2
    ... )
    >>> means[0], means[1].ravel().tolist()
    ([np.float64(3.0), np.float64(2.0)], [3.0, 2.0, 3.0, 2.0, 2.5])
    """
    fold = np.full(count, -1)
    fold[train] = np.arange(len(train)) % folds
    others = np.flatnonzero(fold < 0)
    models, parts, rest = [], [], []
    for k in range(folds):
        model = fit(train[fold[train] != k], k)
        models.append(model)
        parts.append(scores(model, np.flatnonzero(fold == k)))
        rest.append(scores(model, others))
    found = np.empty((count, parts[0].shape[1]))
    found[others] = np.mean(rest, axis=0)
    for k, part in enumerate(parts):
        found[fold == k] = part
    return models, found
