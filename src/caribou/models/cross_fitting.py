"""Cross-fitting: every labelled row is scored by a model that was not fitted on it. The one loop for all learners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Model = TypeVar("Model")


def cross_fitted(
    make: Callable[[], Model],
    x: Any,
    y: np.ndarray,
    folds: int,
    sample_weight: np.ndarray | None = None,
    scores: Callable[[Model, Any], np.ndarray] = lambda model, x: model.decision_function(x),  # type: ignore[attr-defined]
) -> tuple[list[Model], np.ndarray]:
    """The models of the folds, and the scores of the rows out of fold, [m, C].

    Rows are dealt out class after class: every fold has its share of every class.

    Args:
        make: a new model with ``fit(x, y, sample_weight)``.
        x: [m, d], the labelled rows, in random order.
        y: [m], their classes.
        folds: how many models are fitted, at least 2; no more than rows.
        sample_weight: [m], of the rows in the loss; None: all are 1.
        scores: of a model, for some rows.

    >>> from sklearn.dummy import DummyRegressor
    >>> models, found = cross_fitted(
    ...     DummyRegressor, np.zeros((4, 1)), np.array([1.0, 2.0, 3.0, 4.0]), 2, scores=lambda m, x: m.predict(x)[:, None]
    ... )
    >>> found.ravel().tolist()
    [3.0, 2.0, 3.0, 2.0]
    """
    fold = np.empty(len(y), dtype=np.int64)
    fold[np.argsort(y, kind="stable")] = np.arange(len(y)) % min(folds, len(y))
    models: list[Model] = []
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for k in range(fold.max() + 1):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        weight = () if sample_weight is None else (sample_weight[inside],)
        model = make()
        model.fit(x[inside], y[inside], *weight)  # type: ignore[attr-defined]
        models.append(model)
        parts.append((outside, scores(model, x[outside])))
    found = np.empty((len(y), parts[0][1].shape[1]))
    for outside, part in parts:
        found[outside] = part
    return models, found
