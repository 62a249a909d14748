"""Quick public steps, and an attack for every Gaussian method: replay one transcript on a neighbour, add up what moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import edge_method
from caribou.models.classifier import ClassifierConfig
from caribou.privacy.budget import Budget
from caribou.randomness import Streams


@pytest.fixture
def transcript_mu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """mu of the log-likelihood ratio of one transcript: sqrt(sum over steps of ||value - value'||^2 / std^2).

    The first fit records what every step released. On the neighbour each step releases the same, so that both worlds take the
    same path, and only what the private data does to the values is left. The sum may not exceed the budget's mu.
    """

    def attack(method: Any, graph: Graph, neighbours: list[Graph], budget: Budget, seed: int = 0) -> list[float]:
        recorded: list[tuple[np.ndarray, np.ndarray, float]] = []
        original = NoiseSource.add_gaussian

        def record(self: NoiseSource, value: np.ndarray, *, std: float) -> np.ndarray:
            released = original(self, value, std=std)
            recorded.append((value.copy(), released, std))
            return released

        monkeypatch.setattr(NoiseSource, "add_gaussian", record)
        plan = method.plan(graph.sizes(budget.unit), budget)
        method.fit(plan, graph, Streams(seed), NoiseSource.seeded(seed))
        found = []
        for neighbour in neighbours:
            assert neighbour.sizes(budget.unit) == graph.sizes(budget.unit), "the plan depends on the private graph"
            steps = iter(recorded)
            total = 0.0

            def replay(self: NoiseSource, value: np.ndarray, *, std: float) -> np.ndarray:
                nonlocal total
                there, released, same_std = next(steps)  # noqa: B023
                assert std == same_std, "the noise depends on the private graph"
                total += float(((value - there) ** 2).sum()) / std**2
                return released

            monkeypatch.setattr(NoiseSource, "add_gaussian", replay)
            method.fit(plan, neighbour, Streams(seed), NoiseSource.seeded(seed))
            assert next(steps, None) is None, "the number of releases depends on the private graph"
            found.append(total**0.5)
        monkeypatch.setattr(NoiseSource, "add_gaussian", original)
        return found

    return attack


@pytest.fixture
def quick_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classification modules in a few epochs: for tests of what is released before them."""
    monkeypatch.setattr(edge_method, "ClassifierConfig", lambda hidden: ClassifierConfig(hidden=hidden, epochs=2))
