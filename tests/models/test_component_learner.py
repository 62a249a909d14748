"""Networks on principal components: out of fold, weighted by class, and the same after they were saved."""

from __future__ import annotations

import numpy as np
import torch

from caribou.models.component_learner import ComponentLearner, components, fit_component_learner

RNG = np.random.default_rng(0)
X = torch.from_numpy((RNG.standard_normal((900, 6)) / np.sqrt(6)).astype(np.float32))
DIRECTIONS = np.ascontiguousarray(np.linalg.qr(RNG.standard_normal((6, 6)))[0][:, :4].astype(np.float32))
Z = components(X, DIRECTIONS)
BENT = (Z[:, 0] * Z[:, 1] > 0).long().numpy()


def test_it_learns_what_bends_and_says_the_same_from_arrays() -> None:
    learner, scores = fit_component_learner(Z, DIRECTIONS, np.arange(700), BENT, 2, np.random.default_rng(1))
    again = ComponentLearner.from_arrays(learner.to_arrays()).scores(X[700:])
    assert np.allclose(again, scores[700:], atol=1e-4)
    assert (scores.argmax(axis=1) == BENT)[700:].mean() > 0.85


def test_labelled_rows_do_not_know_their_labels() -> None:
    labels = np.random.default_rng(2).integers(2, size=900)
    _, scores = fit_component_learner(Z, DIRECTIONS, np.arange(900), labels, 2, np.random.default_rng(1))
    assert abs((scores.argmax(axis=1) == labels).mean() - 0.5) < 0.06


def test_the_seed_decides_and_labels_of_others_are_not_read() -> None:
    hidden = np.where(np.arange(900) < 700, BENT, -1)
    first, second = (
        fit_component_learner(Z, DIRECTIONS, np.arange(700), labels, 2, np.random.default_rng(1))[1]
        for labels in (BENT, hidden)
    )
    assert np.array_equal(first, second)


def test_a_class_that_counts_more_is_said_more_often() -> None:
    labels = (np.random.default_rng(3).random(900) < 0.2).astype(int)
    shares = [
        fit_component_learner(Z, DIRECTIONS, np.arange(900), labels, 2, np.random.default_rng(1), weights)[1]
        .argmax(axis=1)
        .mean()
        for weights in (None, np.array([0.6, 2.5]))
    ]
    assert shares[1] > shares[0] + 0.2
