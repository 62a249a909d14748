"""A noisy confusion matrix: one node moves one count by one, the noise is worth its epsilon, and less of it is rejected."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from attack_support import proven_epsilon
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


def proven(epsilon: float, size: int = 250) -> float:
    """Many counts of 0 and of 1, the world without and with the node: how much likelier it is to be at least 1."""
    worlds = [ConfusionMatrix(np.full((size, size), count)) for count in (0, 1)]
    without, with_node = (int((noisy_confusion(w, epsilon, NoiseSource.secure()) >= 1).sum()) for w in worlds)
    return proven_epsilon((without, with_node), size * size)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_likelihood_ratio_attack_reaches_the_claim_and_not_more(epsilon: float) -> None:
    assert 0.9 * epsilon < proven(epsilon) <= epsilon


def test_noise_for_half_a_count_is_rejected() -> None:
    """Known bad: noise of parameter 2 epsilon."""
    assert proven(2 * 1.0) > 1.5 * 1.0


def test_counts_are_whole_and_the_noise_is_new() -> None:
    matrix = ConfusionMatrix(np.array([[5, 0], [1, 4]]))
    noise = NoiseSource.seeded(0)
    first, second = (noisy_confusion(matrix, 0.2, noise) for _ in range(2))
    assert first.dtype == np.int64
    assert not np.array_equal(first, second)
    with pytest.raises(InputError, match="counts must be whole numbers, got float64"):
        noisy_confusion(ConfusionMatrix(np.eye(2)), 1.0, noise)
