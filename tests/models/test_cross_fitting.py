"""Cross-fitting: nobody is scored by a model that has seen them, and folds have their share of every class."""

from __future__ import annotations

import numpy as np

from caribou.models.cross_fitting import by_class, cross_fitted


def test_no_row_is_scored_by_a_model_that_was_fitted_on_it() -> None:
    train = np.array([7, 1, 4, 2, 9, 5])
    models, scores = cross_fitted(
        lambda rows, fold: set(rows.tolist()),
        lambda seen, rows: np.array([[row in seen, len(seen)] for row in rows.tolist()], dtype=float).reshape(-1, 2),
        10,
        train,
        3,
    )
    assert len(models) == 3
    assert not scores[:, 0].any()
    assert (scores[:, 1] == 4).all()


def test_every_fold_has_its_share_of_every_class() -> None:
    labels = np.random.default_rng(0).integers(4, size=100)
    order = by_class(np.random.default_rng(1).permutation(100), labels)
    counts = np.array([np.bincount(labels[order[k::5]], minlength=4) for k in range(5)])
    assert (counts.max(axis=0) - counts.min(axis=0)).max() <= 1
