"""Ridge regression: the closed forms are those of fits made from the start, in blocks as at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from caribou.models import ridge
from caribou.models.ridge import FOLDS, PENALTIES, fit_ridge, spectrum

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 6)).astype(np.float32)
LABELS = (X[:, 0] + 0.7 * RNG.standard_normal(90) > 0).astype(np.int64) + (X[:, 1] > 1)
TRAIN = RNG.permutation(70)
C = 3


def plain(rows: np.ndarray, penalty: float) -> np.ndarray:
    """The weights by the normal equations, with the class shares of all training rows."""
    targets = np.eye(C)[LABELS] - np.bincount(LABELS[TRAIN], minlength=C) / len(TRAIN)
    x = X[rows].astype(np.float64)
    return np.linalg.solve(x.T @ x + penalty * np.eye(6), x.T @ targets[rows])


def test_weights_and_scores_are_those_of_fits_from_the_start() -> None:
    fit = fit_ridge(lambda rows: torch.from_numpy(X[rows]), 90, TRAIN, LABELS, C)
    assert np.allclose(fit.weights, plain(TRAIN, fit.penalty), atol=1e-5)
    assert np.allclose(fit.scores[70:], X[70:] @ plain(TRAIN, fit.penalty), atol=1e-5)
    for k in range(FOLDS):
        others = np.concatenate([TRAIN[j::FOLDS] for j in range(FOLDS) if j != k])
        fold = TRAIN[k::FOLDS]
        assert np.allclose(fit.scores[fold], X[fold] @ plain(others, fit.penalty), atol=1e-5)


def test_the_penalty_has_the_least_leave_one_out_error() -> None:
    targets = np.eye(C)[LABELS] - np.bincount(LABELS[TRAIN], minlength=C) / len(TRAIN)

    def error(penalty: float) -> float:
        return sum(float(((targets[i] - X[i] @ plain(TRAIN[i != TRAIN], penalty)) ** 2).sum()) for i in TRAIN.tolist())

    fit = fit_ridge(lambda rows: torch.from_numpy(X[rows]), 90, TRAIN, LABELS, C)
    assert fit.penalty == min(PENALTIES, key=error)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit_ridge(lambda rows: torch.from_numpy(X[rows]), 90, TRAIN, LABELS, C)
    monkeypatch.setattr(ridge, "BLOCK", 7)
    monkeypatch.setattr(ridge, "KEPT", 0)
    parts = fit_ridge(lambda rows: torch.from_numpy(X[rows]), 90, TRAIN, LABELS, C)
    assert parts.penalty == whole.penalty
    assert np.allclose(parts.scores, whole.scores, atol=1e-4)


def test_a_row_s_own_label_does_not_reach_its_score() -> None:
    """Where rows tell nothing, scores out of fold tell nothing either. Leave-one-out scores would give every label away."""
    x, labels = np.ones((400, 1), np.float32), np.random.default_rng(1).integers(2, size=400)
    scores = fit_ridge(lambda rows: torch.from_numpy(x[rows]), 400, np.arange(400), labels, 2).scores[:, 1]
    assert len(np.unique(scores.round(9))) <= FOLDS
    centred = [labels[k::FOLDS].mean() for k in range(FOLDS)]
    assert abs(np.corrcoef(scores, labels)[0, 1]) <= np.std(centred) / labels.std() + 1e-6


def test_a_gram_matrix_of_any_rank_has_a_spectrum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows of many columns: hundreds of eigenvalues are 0, and divide and conquer in single precision may give up."""

    def gives_up(_: torch.Tensor) -> None:
        raise torch.linalg.LinAlgError("failed to converge")

    phi = torch.from_numpy(np.repeat(RNG.standard_normal((4, 60)), 3, axis=0))
    gram = phi.T @ phi
    for patched in (False, True):
        if patched:
            monkeypatch.setattr(torch.linalg, "eigh", gives_up)
        values, vectors = spectrum(gram)
        assert torch.all(values.diff() >= 0)
        assert torch.allclose(vectors @ torch.diag(values) @ vectors.T, gram.float(), atol=1e-3)
        assert int((values > 1e-2).sum()) == 4
