"""The method lpgnet-edp: counts help, replay on a neighbour moves each stage by two, certificates, another graph, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from baseline_support import GRAPH, accuracy, some_edges
from caribou import methods
from caribou.graph import Graph
from caribou.mechanisms.neighbour_counts import neighbour_counts
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Fitted, edge_method
from caribou.methods.lpgnet import LpgNet
from caribou.models.classifier import ClassifierConfig
from caribou.models.encoder import Encoder
from caribou.privacy.budget import Budget
from caribou.randomness import Streams

pytestmark = pytest.mark.usefixtures("quick_learning", "kept_encoder")


@pytest.fixture
def quick_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLPs of the stages in a few epochs: for tests of what is released."""
    monkeypatch.setattr(edge_method, "ClassifierConfig", lambda hidden: ClassifierConfig(hidden=4, epochs=2))


def fit(method: LpgNet, epsilon: float, graph: Graph = GRAPH, noise: int | None = 1) -> Fitted:
    source = NoiseSource.secure() if noise is None else NoiseSource.seeded(noise)
    return methods.fit(method, graph, Budget(epsilon), Streams(0), source)


def test_counts_help_and_say_more_with_a_larger_budget() -> None:
    good, poor = (fit(LpgNet(stages=1), epsilon) for epsilon in (8.0, 0.05))
    features = Encoder.from_arrays(good.weights).probabilities(GRAPH.features)
    assert accuracy(good.probabilities) > accuracy(poor.probabilities) + 0.05
    assert accuracy(good.probabilities) > accuracy(features) + 0.05


@pytest.mark.usefixtures("quick_stages")
def test_the_second_stage_counts_what_the_first_predicted() -> None:
    """Without noise: the classes of stage 1 are the encoder's, those of stage 2 are the first MLP's."""
    two = fit(LpgNet(stages=2), math.inf)
    one = fit(LpgNet(stages=1), math.inf)
    start = Encoder.from_arrays(two.weights).probabilities(GRAPH.features).argmax(axis=1)
    assert np.array_equal(two.released["counts_1"], neighbour_counts(GRAPH, start, 3))
    again = one.probabilities.argmax(axis=1)
    assert not np.array_equal(start, again)
    assert np.array_equal(two.released["counts_2"], neighbour_counts(GRAPH, again, 3))
    assert two.certificate.status == "no privacy"


@pytest.mark.usefixtures("quick_stages")
@pytest.mark.parametrize("stages", [1, 2])
def test_replaying_a_fit_on_a_neighbouring_graph_spends_epsilon_exactly(
    stages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both worlds release the same, so what is left is what the edge does to the counts under the noise: a times L1."""
    method, budget = LpgNet(stages=stages), Budget(3.0)
    plan = method.plan(GRAPH.sizes(budget.unit), budget)
    recorded: list[tuple[np.ndarray, np.ndarray, float]] = []
    original = NoiseSource.add_discrete_laplace

    def record(self: NoiseSource, counts: np.ndarray, *, epsilon: float) -> np.ndarray:
        released = original(self, counts, epsilon=epsilon)
        recorded.append((counts, released, epsilon))
        return released

    monkeypatch.setattr(NoiseSource, "add_discrete_laplace", record)
    first = method.fit(plan, GRAPH, Streams(0), NoiseSource.seeded(0))
    assert len(recorded) == stages
    for neighbour in some_edges(GRAPH, 6):
        assert method.plan(neighbour.sizes(budget.unit), budget) == plan
        steps, spent = iter(recorded), 0.0

        def replay(self: NoiseSource, counts: np.ndarray, *, epsilon: float) -> np.ndarray:
            nonlocal spent
            there, released, same = next(steps)  # noqa: B023
            assert epsilon == same, "the noise depends on the private graph"
            spent += epsilon * float(np.abs(counts - there).sum())
            return released

        monkeypatch.setattr(NoiseSource, "add_discrete_laplace", replay)
        second = method.fit(plan, neighbour, Streams(0), NoiseSource.seeded(0))
        assert next(steps, None) is None, "the number of releases depends on the private graph"
        assert spent == pytest.approx(budget.epsilon, rel=1e-12)
        for name, array in {**first.released, **first.weights}.items():
            other = {**second.released, **second.weights}[name]
            assert np.array_equal(array, other), f"{name} reads an edge beside the noise"
