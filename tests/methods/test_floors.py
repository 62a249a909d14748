"""Floors of accuracy on Cora, well below what is measured; `test_votes_edge` has those of votes-edp."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest

import caribou as cb
from caribou.models import Model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("CARIBOU_DATA" not in os.environ, reason="needs the folder of data set files: set CARIBOU_DATA"),
]


@pytest.mark.parametrize(
    ("method", "epsilon", "settings", "floor"),
    [
        ("caribou-edp", 16.0, {}, 0.82),
        ("caribou-inf", math.inf, {}, 0.85),
        ("votes-ndp", 1.0, {"declared_average_degree": 4}, 0.55),
        ("votes-ndp", 8.0, {"declared_average_degree": 4}, 0.75),
    ],
)
def test_floors_on_cora(method: str, epsilon: float, settings: dict[str, Any], floor: float) -> None:
    budget = cb.Budget(epsilon, 1e-5, "node" if method.endswith("ndp") else "edge")
    model = Model(method, budget, **settings).fit(cb.datasets.load("cora", seed=0))
    assert model.score("test") >= floor
