"""Learners of the prior: they learn what they are for, know no label out of fold, and are the same from their arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier

from caribou.mechanisms.bounded_rows import unit_length
from caribou.models import learners
from caribou.models.learners import (
    COLUMNS,
    LEAVES,
    BoostedTrees,
    Learner,
    Linear,
    NearestRows,
    Network,
    cross_fitted,
    leading_directions,
    telling_columns,
)

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((900, 4)) / 2).astype(np.float32)
ROTATION = np.linalg.qr(RNG.standard_normal((4, 4)))[0].astype(np.float32)
STRAIGHT, BENT = (X[:, 0] > X[:, 1]).astype(int), (X[:, 0] * X[:, 1] > 0).astype(int)
LABELS = RNG.integers(3, size=900)


def words(labels: np.ndarray) -> sp.csr_array:
    """Rows of length 1: eight words each, half of them from the words of the class."""
    rng, x = np.random.default_rng(1), np.zeros((len(labels), 200))
    for row, label in enumerate(labels):
        x[row, rng.choice(200, 4, replace=False)] = 1
        x[row, 20 * label + rng.choice(20, 4, replace=False)] = 1
    return sp.csr_array(unit_length(x).astype(np.float32))


WORDS = words(LABELS)
LEARNERS: dict[str, tuple[Callable[[], Learner], np.ndarray | sp.csr_array, np.ndarray]] = {
    "linear": (lambda: Linear(2), X, STRAIGHT),
    "linear of words": (lambda: Linear(3), WORDS, LABELS),
    "large network": (lambda: Network(2, hidden=(32, 32), epochs=30), X, BENT),
    "network": (lambda: Network(2, directions=ROTATION, epochs=30), X, BENT),
    "network of words": (lambda: Network(3, directions=leading_directions(WORDS, 16, 0)), WORDS, LABELS),
    "trees": (lambda: BoostedTrees(2), X, BENT),
    "trees of words": (lambda: BoostedTrees(3), WORDS, LABELS),
    "nearest": (lambda: NearestRows(3), WORDS, LABELS),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_it_learns_and_its_arrays_say_the_same(name: str) -> None:
    make, x, y = LEARNERS[name]
    models, scores = cross_fitted(make, x[:700], y[:700], 3)
    learner = type(models[0]).joined(models, x[:700], y[:700])
    found = learner.decision_function(x[700:])
    assert (scores.argmax(axis=1) == y[:700]).mean() > 0.8
    assert (found.argmax(axis=1) == y[700:]).mean() > 0.8
    again = type(learner)(learner.classes, arrays=learner.arrays).decision_function(x[700:])
    assert again == pytest.approx(found, abs=1e-4)
    if not isinstance(learner, NearestRows):
        mean = np.mean([model.decision_function(x[700:]) for model in models], axis=0)
        assert found == pytest.approx(mean, abs=1e-4), "the joined model is the mean of the models"
    assert np.array_equal(cross_fitted(make, x[:700], y[:700], 3)[1], scores), "the seed decides"


@pytest.mark.parametrize("name", LEARNERS)
def test_labelled_rows_do_not_know_their_labels(name: str) -> None:
    make, x, _ = LEARNERS[name]
    classes = make().fit(x[:90], LEARNERS[name][2][:90]).decision_function(x[:1]).shape[1]
    noise = np.random.default_rng(2).integers(classes, size=900)
    _, scores = cross_fitted(make, x, noise, 3)
    assert abs((scores.argmax(axis=1) == noise).mean() - 1 / classes) < 0.07


@pytest.mark.parametrize("name", ["linear", "network", "trees"])
def test_a_class_that_counts_more_is_said_more_often(name: str) -> None:
    make, x, _ = LEARNERS[name]
    labels = (np.random.default_rng(3).random(900) < 0.2).astype(int)
    weights = np.where(labels == 1, 4.0, 1.0)
    said = [make().fit(x, labels, weight).decision_function(x).argmax(axis=1).mean() for weight in (None, weights)]
    assert said[1] > said[0] + 0.2


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 0, 2, 2], [2, 2, 2, 2], [0, 1, 3, 3]])
@pytest.mark.parametrize("kind", [Linear, Network])
def test_a_class_without_a_row_is_said_last(kind: type[Learner], labels: list[int]) -> None:
    scores = kind(4).fit(X[:4], np.array(labels)).decision_function(X)
    absent = [k for k in range(4) if k not in labels]
    assert (scores[:, absent].max(axis=1) < scores.max(axis=1)).all()


def test_nearest_rows_are_the_formula_and_a_row_without_words_gets_the_class_shares() -> None:
    rows, x = WORDS[:40], sp.csr_array(sp.vstack([WORDS[40:45], sp.csr_array((1, 200), dtype=np.float32)]))
    found = NearestRows(3).fit(rows, LABELS[:40]).decision_function(x)
    shares = np.bincount(LABELS[:40], minlength=3) / 40
    for k, own in enumerate((x @ rows.T).toarray().astype(np.float64)):
        best = np.argsort(-own, kind="stable")[: NearestRows.nearest]
        weights = np.exp(NearestRows.sharpness * own[best]) - 1
        sums = np.bincount(LABELS[best], weights, minlength=3) + NearestRows.shares_weight * shares
        assert np.exp(found[k]) == pytest.approx(sums / sums.sum(), rel=0.05)
    assert np.exp(found[-1]) == pytest.approx(shares)


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


@pytest.mark.parametrize("make", [lambda: Linear(2), lambda: Network(2), lambda: Network(2, hidden=(8, 4))])
def test_a_fold_without_the_other_class_has_a_model_as_the_others_have(make: Callable[[], Learner]) -> None:
    """One row of a class: the fold that leaves it out knows one class only."""
    y = np.array([0, 0, 0, 0, 1])
    models, _ = cross_fitted(make, X[:5], y, 5)
    joined = type(models[0]).joined(models, X[:5], y)
    assert np.isfinite(joined.decision_function(X[:9])).all()


TABLE = np.random.default_rng(0).random((900, 5)).astype(np.float32)
STEPS = ((TABLE[:, 0] > 0.5) ^ (TABLE[:, 1] > 0.4)).astype(np.int64)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_arrays_say_what_scikit_learn_says(classes: int) -> None:
    labels = STEPS + (TABLE[:, 2] > 0.8) * (classes - 2) * (STEPS == 1)
    model = HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=LEAVES, random_state=0).fit(
        TABLE[:600], labels[:600]
    )
    trees = BoostedTrees(classes, arrays=learners._arrays(model, np.arange(5)))
    assert np.allclose(
        softmax(trees.decision_function(TABLE[600:]), axis=1), model.predict_proba(TABLE[600:]), atol=1e-6
    )


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
