"""Weights of the public seed: shapes, distribution, and nothing but the generator that is given."""

from __future__ import annotations

import numpy as np
import pytest

from caribou.models.public_weights import random_directions, unit_weights
from descent_support import std_is_rejected


@pytest.mark.parametrize(
    ("draw", "shape", "std"), [(random_directions, (300, 100), 1.0), (unit_weights, (100, 300), 300**-0.5)]
)
def test_they_are_normal_with_the_stated_std(draw, shape: tuple[int, int], std: float) -> None:
    weights = draw(300, 100, np.random.default_rng(0))
    assert weights.shape == shape
    for factor, rejected in ((1.0, False), (1.05, True), (0.95, True)):
        assert std_is_rejected(weights.ravel(), factor * std) == rejected


@pytest.mark.parametrize("draw", [random_directions, unit_weights])
def test_they_follow_from_the_generator_alone(draw) -> None:
    one, two, other = (draw(6, 4, np.random.default_rng(s)) for s in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)
