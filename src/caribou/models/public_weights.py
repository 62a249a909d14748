"""Weights that are drawn from a public seed, before any data is read."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator


def random_directions(columns: int, count: int, generator: Generator) -> np.ndarray:
    """Standard normal directions of random features (`caribou.models.features.with_random_features`). -> [columns, count].

    >>> random_directions(3, 5, np.random.default_rng(0)).shape
    (3, 5)
    """
    return generator.standard_normal((columns, count))


def unit_weights(inputs: int, outputs: int, generator: Generator) -> np.ndarray:
    """Initial weights of a layer that keeps the size of its inputs, N(0, 1/inputs). -> [outputs, inputs].

    >>> unit_weights(16, 3, np.random.default_rng(0)).shape
    (3, 16)
    """
    return generator.standard_normal((outputs, inputs)) / math.sqrt(max(inputs, 1))
