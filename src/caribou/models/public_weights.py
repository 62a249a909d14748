"""Weights that are drawn from public coins and never trained, or trained later. Nothing here sees data."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator


def random_directions(columns: int, count: int, generator: Generator) -> np.ndarray:
    """Standard normal directions of random features. [columns, count]."""
    return generator.standard_normal((columns, count))


def last_layer(hidden: int, classes: int, generator: Generator) -> np.ndarray:
    """Initial weights of a last layer, N(0, 1/hidden). [classes, hidden]."""
    return generator.standard_normal((classes, hidden)) / math.sqrt(hidden)
