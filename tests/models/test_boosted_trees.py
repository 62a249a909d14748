"""Boosted trees as arrays are those of scikit-learn, out of fold and deterministic."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier

from caribou.models import boosted_trees
from caribou.models.boosted_trees import BoostedTrees, Growth, fit_boosted_trees, telling_columns

RNG = np.random.default_rng(0)
X = RNG.random((900, 5)).astype(np.float32)
STEPS = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.4)).astype(np.int64)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_arrays_say_what_scikit_learn_says(classes: int) -> None:
    labels = STEPS + (X[:, 2] > 0.8) * (classes - 2) * (STEPS == 1)
    model = HistGradientBoostingClassifier(max_iter=8, random_state=0).fit(X[:600], labels[:600])
    scores = boosted_trees._arrays(model, np.arange(5)).scores(X[600:])
    assert np.allclose(softmax(scores, axis=1), model.predict_proba(X[600:]), atol=1e-6)


def test_it_learns_steps_out_of_fold_and_is_the_same_from_arrays() -> None:
    train = np.random.default_rng(1).permutation(700)

    def fitted(train: np.ndarray, labels: np.ndarray) -> tuple[BoostedTrees, np.ndarray]:
        return fit_boosted_trees(
            X.__getitem__, 900, train, labels, 2, np.random.default_rng(3), growth=Growth(steps=30)
        )

    (trees, scores), (_, again) = (fitted(train, STEPS) for _ in range(2))
    assert np.array_equal(scores, again)
    assert (scores.argmax(axis=1) == STEPS).mean() > 0.95
    assert np.allclose(BoostedTrees.from_arrays(trees.to_arrays()).scores(X[700:]), scores[700:])
    noise = np.random.default_rng(2).integers(2, size=900)
    _, scores = fitted(np.arange(900), noise)
    assert abs((scores.argmax(axis=1) == noise).mean() - 0.5) < 0.07


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_trees_of_wide_tables_ask_the_columns_that_tell(form: type) -> None:
    rng = np.random.default_rng(4)
    words = (rng.random((1200, 300)) < 0.1).astype(np.float32)
    labels = rng.integers(3, size=1200)
    words[np.arange(1200), 7 + 11 * labels] = 1  # columns 7, 18 and 29 tell
    x = form(words)
    assert set(telling_columns(x, labels, 3, 3)) == {7, 18, 29}
    growth = Growth.of_wide(3)
    trees, scores = fit_boosted_trees(
        x.__getitem__, 1200, np.arange(1000), labels, 3, np.random.default_rng(3), growth=growth
    )
    assert {7, 18, 29} <= set(trees.columns)
    assert len(trees.columns) <= growth.folds * growth.columns
    assert (scores.argmax(axis=1) == labels).mean() > 0.9
    assert np.allclose(BoostedTrees.from_arrays(trees.to_arrays()).scores(x[1000:]), scores[1000:])


def test_columns_are_chosen_without_the_rows_that_are_scored() -> None:
    rng = np.random.default_rng(5)
    x, noise = rng.standard_normal((600, 2000)).astype(np.float32), rng.integers(2, size=600)
    growth = Growth.of_wide(2)
    _, scores = fit_boosted_trees(x.__getitem__, 600, np.arange(600), noise, 2, np.random.default_rng(3), growth=growth)
    # columns chosen on all rows would be right about far more than half of them
    assert abs((scores.argmax(axis=1) == noise).mean() - 0.5) < 0.07
