"""The exponential mechanism over candidates that validation nodes judge."""

from __future__ import annotations

import math

import numpy as np

from caribou.mechanisms.noise_source import NoiseSource


def choose(
    candidates: list[np.ndarray], labels: np.ndarray, *, declared: int, epsilon: float, noise: NoiseSource, default: int
) -> int:
    """The place k of the chosen candidate, with probability proportional to e^(epsilon correct_k); logits [validation nodes, C].

    Formal guarantee: epsilon-DP for validation nodes. A node adds 0 or 1 to every candidate's count, all in the same
    direction, so the factor 1/2 of the general mechanism is not needed (McSherry and Talwar 2007, monotone scores). If
    ``declared``, the public number of validation nodes, is 0, the default is taken. epsilon = inf draws nothing.
    """
    if declared == 0:
        return default
    correct = [int((logits.argmax(axis=1) == labels).sum()) for logits in candidates]
    if math.isinf(epsilon):
        return correct.index(max(correct))
    return noise.choice(correct, epsilon=epsilon)
