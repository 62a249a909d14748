"""One run with many canaries: a target without noise is rejected, a sound one is not, and the known part is subtracted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from caribou.audit.claims import Claim
from caribou.audit.onerun import canary_scores, one_run, plant, table_changes, with_canaries
from caribou.datasets import load
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import perturbed_pairs
from caribou.privacy.accounting import gdp_epsilon
from caribou.privacy.events import Gaussian
from caribou.privacy.pair_response import PairResponse

GRAPH = load("csbm:nodes=400", seed=1)
PURE = Claim(1.0, 0.0)


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


@dataclass(frozen=True)
class Means:
    """Codes of classes, averaged over a node and its neighbours, without noise: an edge shows most between lonely nodes."""

    def __call__(self, graph: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        codes = np.eye(graph.num_classes)[np.maximum(graph.labels, 0)]
        return {"means": (codes + graph.adjacency(np.float64) @ codes) / (1 + graph.degrees)[:, None]}


def test_canaries_are_placed_where_an_edge_shows_most() -> None:
    """Farther than at random, on average over the canaries: fewer neighbours, and ends of different classes."""
    count, rng = 40, np.random.default_rng(0)

    def moved(base: Graph, pairs: np.ndarray) -> float:
        change = table_changes(*(Means()(g, None) for g in (base, with_canaries(base, pairs))), GRAPH.num_nodes)
        return float(np.linalg.norm(change["means"][pairs.ravel()], axis=1).mean())

    base, placed = plant(GRAPH, count, rng)
    others = np.setdiff1d(np.arange(GRAPH.num_nodes), GRAPH.split.train)
    random = np.stack([rng.choice(part, count, replace=False) for part in (GRAPH.split.train, others)])
    random = random[:, [not base.has_edge(int(u), int(v)) for u, v in random.T]]
    assert moved(base, placed) > 1.3 * moved(base, random)
    assert (GRAPH.labels[placed[0]] != GRAPH.labels[placed[1]]).mean() > 0.7


def test_the_change_of_an_edge_is_seen_under_the_same_noise() -> None:
    base, pairs = plant(GRAPH, 20, np.random.default_rng(1))
    runs = [Counts(1.0)(graph, NoiseSource.seeded(3)) for graph in (base, with_canaries(base, pairs))]
    change = table_changes(*runs, GRAPH.num_nodes)["sums"]
    assert np.allclose(np.abs(change[pairs.ravel()]).sum(axis=1), 1, atol=1e-6)
    untouched = np.setdiff1d(np.arange(GRAPH.num_nodes), pairs)
    assert np.allclose(change[untouched], 0, atol=1e-6)
    scores = canary_scores(runs[1], pairs, GRAPH, {"sums": change})
    assert "sums, along its change" in scores
    assert table_changes({}, runs[1], GRAPH.num_nodes) == {}


def test_without_noise_every_membership_bit_is_known_and_with_noise_few_are() -> None:
    claim = gaussian(5.0)
    exact = one_run(Counts(1e-6), GRAPH, claim)
    assert exact.correct == exact.guesses
    assert exact.epsilon_by_rates > 3
    assert exact.leak > 1.4
    assert exact.rejects_claim
    sound = one_run(Counts(5.0), GRAPH, claim)
    assert sound.leak < claim.size
    assert not sound.rejects_claim
    assert one_run(Counts(5.0), GRAPH, claim).correct == sound.correct, "the same seed, the same run"


def test_the_curve_of_a_gaussian_claim_proves_more_than_its_epsilon_and_delta() -> None:
    """From the same guesses, and not more than the claim."""
    for std in [0.7, 1.4]:
        claim = gaussian(std)
        runs = [one_run(Counts(std), GRAPH, claim, seed=seed) for seed in range(4)]
        assert sum(run.rejects_claim for run in runs) <= 1
        assert np.mean([run.leak for run in runs]) > 0.2 * claim.size
        assert np.mean([run.epsilon_lower for run in runs]) > 1.5 * np.mean([run.epsilon_by_rates for run in runs])


def gaussian(std: float) -> Claim:
    """What noise of this deviation promises: one edge moves the counts by sqrt(2)."""
    mu = math.sqrt(2) / std
    return Claim(gdp_epsilon(mu=mu, delta=1e-5), 1e-5, events=(Gaussian(1 / mu),))


def test_randomized_response_proves_most_of_its_epsilon_and_not_more() -> None:
    for epsilon in [1.0, 3.0]:
        proven = [
            one_run(PerturbedGraph(epsilon), GRAPH, Claim(epsilon, 0.0), seed=seed).epsilon_lower for seed in range(5)
        ]
        assert sum(bound > epsilon for bound in proven) <= 1
        assert np.mean(proven) > 0.5 * epsilon


def test_any_number_of_canaries_will_do_from_two_on() -> None:
    for count in (2, 3, 12, 13):
        for seed in range(3):
            found = one_run(Counts(1e-6), GRAPH, PURE, canaries=count, seed=seed)
            assert found.canaries == count
            assert 2 <= found.guesses <= count
            assert found.epsilon_lower >= 0


def test_a_target_without_tables_is_refused() -> None:
    with pytest.raises(InputError, match="one row per node"):
        one_run(lambda graph, noise: {"total": np.array(3.0)}, GRAPH, PURE)
    with pytest.raises(InputError, match="room for two canary edges"):
        one_run(Counts(1.0), GRAPH, PURE, canaries=1)
    unlabelled = Graph.from_edges(np.zeros((4, 1)), [[0], [1]])
    with pytest.raises(InputError, match="labels and a split"):
        plant(unlabelled, 1, np.random.default_rng(0))
