"""The confusion matrix of released predictions, with discrete Laplace noise on every count (docs/privacy.md, Theorem 14)."""

from __future__ import annotations

import numpy as np

from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.metrics import ConfusionMatrix
from caribou.privacy.sensitivity import confusion_sensitivity


def noisy_confusion(matrix: ConfusionMatrix, epsilon: float, noise: NoiseSource) -> np.ndarray:
    """Every count with discrete Laplace noise of parameter epsilon / sensitivity. [C, C], int64, may be negative

    Args:
        matrix: whole counts of test nodes, each counted once. Private.
        epsilon: what a test node pays.
        noise: where the noise comes from.

    Formal guarantee: epsilon-DP for a test node, given the releases that the predictions were computed from, if every prediction
    is a function of these and of the data of its own node (docs/privacy.md, Theorem 14). Any other node pays nothing.

    >>> noisy_confusion(ConfusionMatrix(np.array([[9, 1], [2, 8]])), 30.0, NoiseSource.seeded(0)).tolist()
    [[9, 1], [2, 8]]
    """
    if not np.issubdtype(matrix.counts.dtype, np.integer):
        raise InputError(f"counts must be whole numbers, got {matrix.counts.dtype}")
    counts = matrix.counts.astype(np.int64)
    return noise.add_discrete_laplace(counts, epsilon=epsilon / confusion_sensitivity())
