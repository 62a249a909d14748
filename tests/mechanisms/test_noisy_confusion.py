"""A noisy confusion matrix: one node moves one count by one, the noise is worth its epsilon, and less of it is rejected."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.noisy_confusion import noisy_confusion
from caribou.metrics import ConfusionMatrix
from caribou.privacy.sensitivity import confusion_sensitivity


def test_one_node_moves_one_count_by_one_over_all_small_tables() -> None:
    """All labels (unknown included) and predictions of three test nodes in two classes; each of them blank in turn."""
    moved = set()
    for labels in itertools.product((-1, 0, 1), repeat=3):
        for predicted in itertools.product((0, 1), repeat=3):
            whole = ConfusionMatrix.of(np.array(predicted), np.array(labels), 2).counts
            for node in range(3):
                blank = np.array(labels)
                blank[node] = -1
                for other in (0, 1):  # what a blank node would be predicted as does not matter: it is not counted
                    guess = np.array(predicted)
                    guess[node] = other
                    moved.add(int(np.abs(whole - ConfusionMatrix.of(guess, blank, 2).counts).sum()))
    assert moved == {0, 1}
    assert max(moved) == confusion_sensitivity()


def proven_epsilon(epsilon: float, trials: int = 200_000) -> float:
    """Many counts of 0 and of 1, the world without and with the node: how much likelier it is to be at least 1."""
    size = math.isqrt(trials)
    hits = [
        int((noisy_confusion(ConfusionMatrix(np.full((size, size), count)), epsilon, NoiseSource.secure()) >= 1).sum())
        for count in (0, 1)
    ]
    level, total = 1e-6, size * size
    fpr = stats.beta.ppf(1 - level, hits[0] + 1, total - hits[0])
    tpr = stats.beta.ppf(level, hits[1], total - hits[1] + 1)
    return math.log(tpr / fpr)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_likelihood_ratio_attack_reaches_the_claim_and_not_more(epsilon: float) -> None:
    assert 0.9 * epsilon < proven_epsilon(epsilon) <= epsilon


def test_noise_for_half_a_count_is_rejected() -> None:
    """Known bad: noise of parameter 2 epsilon."""
    assert proven_epsilon(2 * 1.0) > 1.5 * 1.0


def test_counts_are_whole_and_the_noise_is_new() -> None:
    matrix = ConfusionMatrix(np.array([[5, 0], [1, 4]]))
    noise = NoiseSource.seeded(0)
    first, second = (noisy_confusion(matrix, 0.2, noise) for _ in range(2))
    assert first.dtype == np.int64
    assert not np.array_equal(first, second)
    with pytest.raises(InputError, match="counts must be whole numbers, got float64"):
        noisy_confusion(ConfusionMatrix(np.eye(2)), 1.0, noise)
