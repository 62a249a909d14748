"""Cross-fitting: nobody is scored by a model that has seen them, and folds have their share of every class."""

from __future__ import annotations

import numpy as np
import pytest

from caribou.models.cross_fitting import cross_fitted


class Remembers:
    """Says of every row whether it was fitted on it, and how many rows of each class it has seen."""

    def fit(self, x: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> None:
        self.seen, self.counts, self.weights = set(x.ravel().tolist()), np.bincount(y, minlength=4), sample_weight

    def decision_function(self, x: np.ndarray) -> np.ndarray:
        return np.array([[row in self.seen, *self.counts] for row in x.ravel().tolist()], dtype=float)


@pytest.mark.parametrize(("rows", "folds"), [(100, 5), (6, 3), (3, 8)])
def test_no_row_is_scored_by_a_model_that_was_fitted_on_it(rows: int, folds: int) -> None:
    labels = np.random.default_rng(0).integers(4, size=rows)
    models, scores = cross_fitted(Remembers, np.arange(rows)[:, None], labels, folds, np.arange(float(rows)))
    assert len(models) == min(folds, rows)
    assert not scores[:, 0].any()
    counts = np.array([model.counts for model in models])
    assert (counts.max(axis=0) - counts.min(axis=0)).max() <= 1, "every fold has its share of every class"
    for model in models:
        assert model.weights.tolist() == sorted(model.seen), "weights are those of the rows"
