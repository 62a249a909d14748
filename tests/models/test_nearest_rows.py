"""Nearest rows: the formula, scores out of fold, rows without words, and the same after they were saved."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from caribou.mechanisms.bounded_rows import unit_length
from caribou.models import nearest_rows
from caribou.models.nearest_rows import NearestRows, fit_nearest_rows


def words(labels: np.ndarray, rng: np.random.Generator, columns: int = 200) -> sp.csr_array:
    """Rows of length 1: eight words each, half of them from the words of the class (if classes have any)."""
    x = np.zeros((len(labels), columns))
    for row, label in enumerate(labels):
        x[row, rng.choice(columns, 4, replace=False)] = 1
        x[row, 20 * label + rng.choice(20, 4, replace=False)] = 1
    return sp.csr_array(unit_length(x).astype(np.float32))


def test_scores_are_the_formula() -> None:
    rng = np.random.default_rng(0)
    rows, x = (sp.csr_array(unit_length(rng.random((m, 6)) ** 3).astype(np.float32)) for m in (40, 5))
    labels = rng.integers(3, size=40)
    found = NearestRows(rows, labels, 3).scores(x)
    for k, own in enumerate((x @ rows.T).toarray().astype(np.float64)):
        best = np.argsort(-own)[: nearest_rows.NEAREST]
        weights = np.exp(nearest_rows.SHARPNESS * own[best]) - 1
        shares = np.bincount(labels, minlength=3) / 40
        sums = np.bincount(labels[best], weights, minlength=3) + nearest_rows.PRIOR_WEIGHT * shares
        assert np.allclose(np.exp(found[k]), sums / sums.sum(), rtol=1e-3)


def test_it_learns_words_out_of_fold_and_is_the_same_from_arrays() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=600)
    x = words(labels, rng)
    hidden = np.where(np.arange(600) < 400, labels, -1)
    learner, scores = fit_nearest_rows(x.__getitem__, 600, rng.permutation(400), hidden, 3)
    assert (scores.argmax(axis=1) == labels)[400:].mean() > 0.9
    assert (scores.argmax(axis=1) == labels)[:400].mean() > 0.9
    assert np.allclose(NearestRows.from_arrays(learner.to_arrays()).scores(x[400:]), scores[400:])


def test_labelled_rows_do_not_know_their_labels() -> None:
    rng = np.random.default_rng(2)
    x, noise = words(rng.integers(3, size=900), rng), rng.integers(2, size=900)
    learner, scores = fit_nearest_rows(x.__getitem__, 900, rng.permutation(900), noise, 2)
    assert abs((scores.argmax(axis=1) == noise).mean() - 0.5) < 0.06
    assert (learner.scores(x).argmax(axis=1) == noise[np.arange(900)]).mean() > 0.9, (
        "the labels can be seen without folds"
    )


def test_rows_without_words_get_the_class_shares() -> None:
    rng = np.random.default_rng(3)
    labels = np.array([0] * 30 + [1] * 10)
    learner = NearestRows(words(labels, rng), labels, 2)
    assert np.allclose(np.exp(learner.scores(sp.csr_array((2, 200), dtype=np.float32))), [[0.75, 0.25]] * 2)
