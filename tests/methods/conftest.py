"""Quick public steps, and an attack for every Gaussian method: replay one transcript on a neighbour, add up what moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from caribou.audit.noise_replay import Recording, ReplayedNoise, cost_of
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import edge_method
from caribou.models.classifier import ClassifierConfig
from caribou.privacy.budget import Budget
from caribou.privacy.events import gaussian_mu
from caribou.randomness import Streams


@pytest.fixture
def transcript_mu() -> Callable[..., list[float]]:
    """mu of the log-likelihood ratio of one transcript: sqrt(sum over steps of ||value - value'||^2 / std^2).

    The first fit records what every step released. On the neighbour each step releases the same (`ReplayedNoise`), so that both
    worlds take the same path, and only what the private data does to the values is left. The sum may not exceed the budget's mu.
    """

    def attack(method: Any, graph: Graph, neighbours: list[Graph], budget: Budget, seed: int = 0) -> list[float]:
        plan = method.plan(graph.sizes(budget.unit), budget)
        found, first = [], Recording()
        method.fit(plan, graph, Streams(seed), ReplayedNoise(NoiseSource.seeded(seed), first))
        for neighbour in neighbours:
            assert neighbour.sizes(budget.unit) == graph.sizes(budget.unit), "the plan depends on the private graph"
            second = Recording()
            method.fit(plan, neighbour, Streams(seed), ReplayedNoise(NoiseSource.seeded(seed), second, first))
            assert first.drawn == second.drawn, "the noise depends on the private graph"
            found.append(gaussian_mu(cost_of(first.moved(second))) or 0.0)
        return found

    return attack


@pytest.fixture
def quick_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classification modules in a few epochs: for tests of what is released before them."""
    monkeypatch.setattr(edge_method, "ClassifierConfig", lambda hidden: ClassifierConfig(hidden=hidden, epochs=2))
