"""Counts over neighbours: one edge moves a stage by exactly two, the noise is worth its epsilon, and half of it is rejected."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

from attack_support import (
    disjoint_pairs,
    one_edge_apart,
    proven_epsilon,
    require_discrete_laplace,
    small_graphs_one_edge_apart,
)
from caribou.errors import CaribouError, InputError
from caribou.graph import Graph
from caribou.machine import memory
from caribou.mechanisms.neighbour_counts import NoisyNeighbourCounts, neighbour_counts
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.calibration import CalibratedCounts
from caribou.privacy.sensitivity import neighbour_count_sensitivity
from graph_families import graph_of


def test_one_edge_moves_the_counts_by_exactly_two_over_all_small_graphs() -> None:
    """All graphs with up to 5 nodes, all their pairs, joined or not, and classes of every kind: equal, all different, random."""
    rng = np.random.default_rng(0)
    bound, tried = neighbour_count_sensitivity(), 0
    for u, v, graph, other in small_graphs_one_edge_apart():
        n = graph.num_nodes
        for predicted in (np.zeros(n, dtype=int), np.arange(n), *rng.integers(0, 3, (4, n))):
            moved = np.abs(neighbour_counts(graph, predicted, 5) - neighbour_counts(other, predicted, 5))
            assert moved.sum() == bound == 2
            assert (moved[u, predicted[v]], moved[v, predicted[u]]) == (1, 1)
            tried += 1
    assert tried > 2000


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_whole_transcript_moves_by_two_per_stage_whatever_is_asked(stages: int) -> None:
    rng = np.random.default_rng(stages)
    graph = graph_of(nx.gnp_random_graph(9, 0.4, seed=stages))
    script = rng.integers(0, 4, (stages, 9))

    def transcript(g: Graph) -> np.ndarray:
        counts = NoisyNeighbourCounts(g, 4, CalibratedCounts(stages, math.inf), NoiseSource.secure())
        return np.stack([counts.ask(predicted) for predicted in script])

    for _, _, other in one_edge_apart(graph):
        moved = np.abs(transcript(graph) - transcript(other))
        assert moved.sum() == 2 * stages
        # what all stages cost together, at the parameter of the noise
        calibrated = CalibratedCounts(stages, 3.0)
        assert moved.sum() * calibrated.noise_epsilon <= 3.0 * (1 + 1e-15)
        assert moved.sum() * calibrated.noise_epsilon > 3.0 * (1 - 1e-12)


def test_a_literal_stage() -> None:
    """Path 0 - 1 - 2 - 3 with classes 0, 1, 1, 0, counted in both directions."""
    counts = neighbour_counts(graph_of(nx.path_graph(4)), np.array([0, 1, 1, 0]), 3)
    assert counts.tolist() == [[0, 1, 0], [1, 1, 0], [1, 1, 0], [0, 1, 0]]
    assert counts.dtype == np.int64


def proven(calibrated: CalibratedCounts, pairs: int = 60_000) -> float:
    """Many disjoint pairs, joined or not: how much likelier it is that no count of a pair is below 1, with confidence."""
    predicted = np.arange(2 * pairs) % 2
    hits = []
    for joined in (False, True):
        counts = NoisyNeighbourCounts(disjoint_pairs(pairs, joined), 2, calibrated, NoiseSource.secure())
        answers = [counts.ask(predicted) for _ in range(calibrated.stages)]
        # node 2 i has class 0 and counts its neighbour under class 1; node 2 i + 1 the other way round
        received = np.stack([count for a in answers for count in (a[::2, 1], a[1::2, 0])])
        hits.append(int((received >= 1).all(axis=0).sum()))
    return proven_epsilon((hits[0], hits[1]), pairs)


@pytest.mark.parametrize(("stages", "epsilon"), [(1, 1.0), (1, 2.0), (2, 2.0)])
def test_likelihood_ratio_attack_reaches_the_claim_and_not_more(stages: int, epsilon: float) -> None:
    assert 0.85 * epsilon < proven(CalibratedCounts(stages, epsilon)) <= epsilon


@pytest.mark.parametrize(("stages", "epsilon"), [(1, 1.0), (2, 2.0)])
def test_noise_for_one_direction_is_rejected(stages: int, epsilon: float) -> None:
    """Known bad: noise for a count that moves by 1 leaves out the other end of the edge, and costs twice the claim."""
    one_direction = CalibratedCounts(stages, neighbour_count_sensitivity() * epsilon)
    assert one_direction.noise_epsilon == epsilon / stages
    assert proven(one_direction) > 1.5 * epsilon


def test_stages_that_each_have_the_whole_budget_are_rejected() -> None:
    """Known bad: two stages with the noise of one."""
    assert proven(CalibratedCounts(2, 2 * 1.0)) > 1.5 * 1.0


def test_noise_of_the_release_is_discrete_laplace() -> None:
    n, epsilon = 50_000, 1.4
    empty = Graph.from_edges(np.zeros((n, 1)), np.zeros((2, 0), dtype=int))
    counts = NoisyNeighbourCounts(empty, 2, CalibratedCounts(1, epsilon), NoiseSource.secure())
    noise = counts.ask(np.zeros(n, dtype=int))
    assert noise.dtype == np.int64
    require_discrete_laplace(noise, epsilon / 2)


def test_it_answers_as_often_as_its_noise_was_calibrated_for() -> None:
    graph = graph_of(nx.path_graph(3))
    counts = NoisyNeighbourCounts(graph, 2, CalibratedCounts(2, 1.0), NoiseSource.seeded(0))
    first, second = (counts.ask(np.zeros(3, dtype=int)) for _ in range(2))
    assert not np.array_equal(first, second), "the noise of a stage must be new"
    with pytest.raises(CaribouError, match="stages must be at most 2"):
        counts.ask(np.zeros(3, dtype=int))


def test_bad_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(nx.path_graph(3))
    counts = NoisyNeighbourCounts(graph, 2, CalibratedCounts(1, 1.0), NoiseSource.secure())
    for bad in (np.zeros(2, dtype=int), np.zeros(3), np.zeros((3, 1), dtype=int)):
        with pytest.raises(InputError, match="predicted must be 3 classes"):
            counts.ask(bad)
    for bad in (np.array([0, 1, 2]), np.array([-1, 0, 1])):
        with pytest.raises(InputError, match=r"predicted must be a class in 0\.\.1"):
            counts.ask(bad)
    assert counts.asked == 0, "a refused question is not an answer"
    monkeypatch.setattr(memory, "machine_memory", lambda: 2**5)
    with pytest.raises(InputError, match="1 noisy counts of 3 nodes in 2 classes must fit into memory"):
        NoisyNeighbourCounts(graph, 2, CalibratedCounts(1, 1.0), NoiseSource.secure())
