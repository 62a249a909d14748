"""Floors of accuracy on Cora, well below what is measured; `test_votes_edge` has those of votes-edp."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest

import caribou as cb
from caribou.estimators import Model

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
    # node-level fits are quick and vary by several points with their noise: five on each of three splits
    splits, fits = (3, 5) if method.endswith("ndp") else (1, 1)
    graphs = [cb.datasets.load("cora", seed=seed) for seed in range(splits)]
    scores = [Model(method, budget, **settings).fit(graph).score("test") for graph in graphs for _ in range(fits)]
    assert sum(scores) / len(scores) >= floor
