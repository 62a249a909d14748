"""Learners of the prior: they learn what they are for, know no label out of fold, and are the same from their arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from caribou.mechanisms.bounded_rows import unit_length
from caribou.models.boosted_trees import BoostedTrees
from caribou.models.cross_fitting import cross_fitted
from caribou.models.learners import GaussianKernel, Learner, Linear, NearestRows, Network, gaussian_kernel

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
    "kernel": (lambda: GaussianKernel(2, X[:80]), X, BENT),
    "large network": (lambda: Network(2, 0, (32, 32)), X, BENT),
    "network": (lambda: Network(2, 0, (64,), directions=ROTATION), X, BENT),
    "trees": (lambda: BoostedTrees(2), X, BENT),
    "trees of words": (lambda: BoostedTrees(3, wide=True), WORDS, LABELS),
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
    again = type(models[0]).from_arrays(learner.to_arrays()).decision_function(x[700:])
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


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 0, 2, 2], [2, 2, 2, 2]])
def test_a_class_without_a_row_is_said_last(labels: list[int]) -> None:
    scores = Linear(4).fit(X[:4], np.array(labels)).decision_function(X)
    absent = [k for k in range(4) if k not in labels]
    assert (scores[:, absent].max(axis=1) < scores.max(axis=1)).all()


def test_the_kernel_is_ridge_regression_on_its_columns() -> None:
    """The closed form against the normal equations of kernel ridge regression, with the landmarks' Gram matrix as penalty."""
    learner = GaussianKernel(2, X[:20]).fit(X[:300], BENT[:300])
    columns, gram = (gaussian_kernel(rows, X[:20], 0.5).double().numpy() for rows in (X[:300], X[:20]))
    expected = np.exp(-0.5 * ((X[:300, None] - X[None, :20]) ** 2).sum(axis=2))
    assert columns == pytest.approx(expected, abs=1e-5)
    targets = np.eye(2)[BENT[:300]] - np.bincount(BENT[:300]) / 300
    solved = np.linalg.solve(columns.T @ columns + 0.1 * (gram + 1e-3 * np.eye(20)), columns.T @ targets)
    assert learner.decision_function(X[300:]) == pytest.approx(
        gaussian_kernel(X[300:], X[:20], 0.5).numpy() @ solved, abs=2e-2
    )


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
