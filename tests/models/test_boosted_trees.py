"""Boosted trees as arrays are those of scikit-learn; wide tables ask the columns that tell."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier

from caribou.models import boosted_trees
from caribou.models.boosted_trees import COLUMNS, LEAVES, BoostedTrees, telling_columns

RNG = np.random.default_rng(0)
X = RNG.random((900, 5)).astype(np.float32)
STEPS = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.4)).astype(np.int64)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_arrays_say_what_scikit_learn_says(classes: int) -> None:
    labels = STEPS + (X[:, 2] > 0.8) * (classes - 2) * (STEPS == 1)
    model = HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=LEAVES, random_state=0).fit(X[:600], labels[:600])
    trees = BoostedTrees(classes, arrays=boosted_trees._arrays(model, np.arange(5)))
    assert np.allclose(softmax(trees.decision_function(X[600:]), axis=1), model.predict_proba(X[600:]), atol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_trees_of_wide_tables_ask_the_columns_that_tell(form: type) -> None:
    rng = np.random.default_rng(4)
    words = (rng.random((1200, 300)) < 0.1).astype(np.float32)
    labels = rng.integers(3, size=1200)
    words[np.arange(1200), 7 + 11 * labels] = 1  # columns 7, 18 and 29 tell
    x = form(words)
    assert set(telling_columns(x, labels, 3, 3)) == {7, 18, 29}
    trees = BoostedTrees(3).fit(x[:1000], labels[:1000])
    asked = set(np.unique(trees.arrays["feature"]))
    assert {7, 18, 29} <= asked <= set(telling_columns(x[:1000], labels[:1000], 3, COLUMNS))
    assert (trees.decision_function(x[1000:]).argmax(axis=1) == labels[1000:]).mean() > 0.9
