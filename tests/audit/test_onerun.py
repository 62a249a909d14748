"""One run with many canaries: a target without noise is rejected, a sound one is not, and the known part is subtracted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from caribou.audit.onerun import one_run, plant, with_canaries
from caribou.datasets import load
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import perturbed_pairs
from caribou.privacy.pair_response import PairResponse

GRAPH = load("csbm:nodes=400", seed=1)


@dataclass(frozen=True)
class Counts:
    """Neighbours per class, with Gaussian noise."""

    std: float

    def __call__(self, graph: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        sums = graph.adjacency(np.float64) @ np.eye(graph.num_classes)[np.maximum(graph.labels, 0)]
        return {"sums": noise.add_gaussian(sums, std=self.std)}


@dataclass(frozen=True)
class PerturbedGraph:
    """Randomized response on every pair."""

    epsilon: float

    def __call__(self, graph: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        p = math.floor(2**32 / (1 + math.exp(-self.epsilon))) / 2**32
        return {"edges": perturbed_pairs(graph, PairResponse(p, 1 - p), noise)}


def test_canaries_share_no_node_and_are_not_in_the_base() -> None:
    base, pairs = plant(GRAPH, 50, np.random.default_rng(0))
    assert pairs.shape == (2, 50)
    assert len(np.unique(pairs)) == 100
    assert np.isin(pairs[0], GRAPH.split.train).all()
    assert not any(base.has_edge(int(u), int(v)) for u, v in pairs.T)
    assert with_canaries(base, pairs).num_edges == base.num_edges + 50
    assert GRAPH.num_edges >= base.num_edges


def test_without_noise_every_membership_bit_is_known_and_with_noise_few_are() -> None:
    exact = one_run(Counts(1e-6), GRAPH, delta=1e-5)
    assert exact.correct == exact.guesses
    assert exact.epsilon_lower > 3
    sound = one_run(Counts(5.0), GRAPH, delta=1e-5)  # sqrt(2)-sensitivity: mu = 0.28, epsilon = 1.06
    assert sound.epsilon_lower < 1.06
    assert one_run(Counts(5.0), GRAPH, delta=1e-5).correct == sound.correct, "the same seed, the same run"


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_randomized_response_proves_most_of_its_epsilon_and_not_more(epsilon: float) -> None:
    proven = [one_run(PerturbedGraph(epsilon), GRAPH, delta=0.0, seed=seed).epsilon_lower for seed in range(5)]
    assert sum(bound > epsilon for bound in proven) <= 1
    assert np.mean(proven) > 0.5 * epsilon


@pytest.mark.parametrize("count", [2, 3, 7, 11, 12, 13])
def test_any_number_of_canaries_will_do_from_two_on(count: int) -> None:
    for seed in range(3):
        found = one_run(Counts(1e-6), GRAPH, delta=0.0, canaries=count, seed=seed)
        assert found.canaries == count
        assert 2 <= found.guesses <= count
        assert found.epsilon_lower >= 0


def test_equal_membership_bits_have_no_curve_but_a_bound() -> None:
    found = [one_run(Counts(1.0), GRAPH, delta=0.0, canaries=2, seed=seed) for seed in range(8)]
    assert any(each.scored is None for each in found)
    assert any(each.scored is not None for each in found)


def test_one_canary_is_refused() -> None:
    with pytest.raises(InputError, match="room for two canary edges"):
        one_run(Counts(1.0), GRAPH, delta=0.0, canaries=1)


def test_a_target_without_tables_is_refused() -> None:
    with pytest.raises(InputError, match="one row per node"):
        one_run(lambda graph, noise: {"total": np.array(3.0)}, GRAPH, delta=0.0)
    unlabelled = Graph.from_edges(np.zeros((4, 1)), [[0], [1]])
    with pytest.raises(InputError, match="labels and a split"):
        plant(unlabelled, 1, np.random.default_rng(0))
