"""Boosted trees as arrays are those of scikit-learn, out of fold and deterministic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier

from caribou.models import boosted_trees
from caribou.models.boosted_trees import BoostedTrees, fit_boosted_trees

RNG = np.random.default_rng(0)
X = RNG.random((900, 5)).astype(np.float32)
STEPS = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.4)).astype(np.int64)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_arrays_say_what_scikit_learn_says(classes: int) -> None:
    labels = STEPS + (X[:, 2] > 0.8) * (classes - 2) * (STEPS == 1)
    model = HistGradientBoostingClassifier(max_iter=8, random_state=0).fit(X[:600], labels[:600])
    scores = boosted_trees._arrays([model]).scores(X[600:])
    assert np.allclose(softmax(scores, axis=1), model.predict_proba(X[600:]), atol=1e-6)


def test_it_learns_steps_out_of_fold_and_is_the_same_from_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_trees, "TREES", 30)
    train = np.random.default_rng(1).permutation(700)
    (trees, scores), (_, again) = (fit_boosted_trees(X, train, STEPS, 2, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(scores, again)
    assert (scores.argmax(axis=1) == STEPS).mean() > 0.95
    assert np.allclose(BoostedTrees.from_arrays(trees.to_arrays()).scores(X[700:]), scores[700:])
    noise = np.random.default_rng(2).integers(2, size=900)
    _, scores = fit_boosted_trees(X, np.arange(900), noise, 2, np.random.default_rng(3))
    assert abs((scores.argmax(axis=1) == noise).mean() - 0.5) < 0.07
