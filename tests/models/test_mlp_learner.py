"""The MLP of tall tables: out of fold, and the same after it was saved."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from caribou.models.mlp_learner import MlpLearner, fit_mlp_learner

pytestmark = pytest.mark.usefixtures("short_training")
RNG = np.random.default_rng(0)
X = torch.from_numpy(RNG.standard_normal((600, 4)).astype(np.float32))


def test_it_learns_and_says_the_same_from_arrays() -> None:
    labels = (X[:, 0] * X[:, 1] > 0).long().numpy()
    learner, scores = fit_mlp_learner(X.__getitem__, 600, np.arange(450), labels, 2, np.random.default_rng(1))
    again = MlpLearner.from_arrays(learner.to_arrays()).scores(X[450:])
    assert np.allclose(again, scores[450:], atol=1e-5)
    assert (scores.argmax(axis=1) == labels)[450:].mean() > 0.8


def test_labelled_rows_do_not_know_their_labels() -> None:
    labels = np.random.default_rng(2).integers(2, size=600)
    _, scores = fit_mlp_learner(X.__getitem__, 600, np.arange(600), labels, 2, np.random.default_rng(1))
    assert abs((scores.argmax(axis=1) == labels).mean() - 0.5) < 0.08
