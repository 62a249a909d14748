"""Runs side by side: as many independent runs of the real mechanism, with the noise that a certificate states."""

from __future__ import annotations

import numpy as np
import pytest

from caribou.audit.batched_mechanisms import (
    BatchedCounts,
    BatchedPropagation,
    BatchedSums,
    BatchedVotes,
    RepeatedResponse,
    certified_mechanism,
)
from caribou.audit.pairs import star_graphs, worst_pairs
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.mechanisms.edge_votes import VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import CalibratedCounts
from caribou.privacy.pair_response import asymmetric_response, split_pair_budget
from caribou.privacy.sensitivity import Bounds
from caribou.release import release

RUNS = 4000


def law(mechanism: BatchedPropagation, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """m_(k+1) = C_L W m_k + beta X^(0), V_(k+1) = C_L^2 W V_k W' + noise_std^2 I, while no projection cuts."""
    W = normalize(graph, mechanism.bounds, np.random.default_rng(0)).matrix.to_dense().numpy()
    mean, V = mechanism.start, np.zeros_like(W)
    for _ in range(mechanism.hops):
        mean = mechanism.layer.contraction * W @ mean + mechanism.layer.beta * mechanism.start
        V = mechanism.layer.contraction**2 * W @ V @ W.T + mechanism.noise_std**2 * np.eye(len(W))
    return mean, V


def test_propagation_has_the_law_of_its_recursion() -> None:
    """Mean and covariance of many runs, small enough that nothing is projected."""
    for hops in [1, 3]:
        without, joined = star_graphs(2)
        start = np.linspace(-0.3, 0.3, 6)[:, None]
        mechanism = BatchedPropagation(ContractiveGraphLayer(0.9, beta=0.5), Bounds(degree_floor=2), hops, 0.01, start)
        state = mechanism.many(joined, RUNS, NoiseSource.seeded(1))["state"]
        mean, V = law(mechanism, joined)
        assert np.abs(state.mean(axis=0) - mean).max() < 5 * 0.02 / np.sqrt(RUNS)
        assert np.abs(np.cov(state[:, :, 0].T) - V).max() < 0.1 * V.max()
        assert not np.allclose(law(mechanism, without)[0], mean)


def test_runs_are_independent_and_follow_from_the_noise() -> None:
    mechanism = BatchedPropagation(ContractiveGraphLayer(0.9), Bounds(degree_floor=2), 1, 0.01, np.zeros((6, 2)))
    graph = star_graphs(2)[0]
    one, again = (mechanism.many(graph, 50, NoiseSource.seeded(3))["state"] for _ in range(2))
    assert np.array_equal(one, again)
    assert len(np.unique(one[:, 0, 0])) == 50
    assert abs(np.corrcoef(one[:-1, 0, 0], one[1:, 0, 0])[0, 1]) < 0.5
    with pytest.raises(InputError, match="alpha1 must be 1"):
        BatchedPropagation(ContractiveGraphLayer(0.9, alpha1=0.5), Bounds(), 1, 0.1, np.zeros((6, 2)))


def test_a_certificate_gives_its_own_mechanism() -> None:
    graph = worst_pairs("edge")[0].without
    layer, bounds = ContractiveGraphLayer(0.8, beta=0.2), Bounds(degree_floor=3)
    certificate = release(graph, layer, hops=4, budget=Budget(2), bounds=bounds).certificate
    mechanism, pair = certified_mechanism(certificate)
    assert mechanism.hops == 4
    assert mechanism.layer.beta == 0.2
    assert mechanism.noise_std == certificate.mechanisms[0].details["noise_std"]
    z = mechanism.many(pair.without, RUNS, NoiseSource.seeded(0))["state"]
    assert len(z) == RUNS
    node = release(graph, layer, hops=1, budget=Budget(2, unit="node"), bounds=Bounds(degree_cap=3)).certificate
    assert certified_mechanism(node) is None


def test_sums_votes_and_counts_move_by_what_an_edge_does() -> None:
    without, joined = star_graphs(0)
    sums = BatchedSums(1, 2.0, np.array([[1.0], [-1.0]]))
    a, b = (sums.many(g, RUNS, NoiseSource.seeded(5))["sums_1"].mean(axis=0) for g in (without, joined))
    assert np.allclose((b - a).ravel(), [-1, 1], atol=1e-6)
    votes = BatchedVotes(VoteBudget(3.0))
    a, b = (votes.many(g, RUNS, NoiseSource.seeded(6))["stage_1"].mean(axis=0) for g in (without, joined))
    assert np.allclose(b - a, [[0, 0], [1, 0]])
    counts = BatchedCounts(CalibratedCounts(2, 3.0), np.array([0, 1]))
    for stage in ("counts_1", "counts_2"):
        a, b = (counts.many(g, RUNS, NoiseSource.seeded(7))[stage].mean(axis=0) for g in (without, joined))
        assert np.allclose(b - a, [[0, 1], [1, 0]])


def test_responses_keep_a_pair_by_the_law_of_its_count() -> None:
    """On a path of three nodes: each bit of a pair is 1 as often as the released count of the run says."""
    path = Graph.from_edges(np.zeros((3, 1)), [[0, 1], [1, 2]])
    shares = split_pair_budget(Budget(1.5), 0.3)
    found = RepeatedResponse(shares, asymmetric_response).many(path, RUNS, NoiseSource.seeded(9))
    assert found["edge_count"].shape == (RUNS, 1)
    for count in (1, 2, 3):
        some = found["bits"][found["edge_count"][:, 0] == count]  # of the pairs 01, 02, 12
        response = asymmetric_response(epsilon=shares.pairs, edges=count, nodes=3)
        expected = np.array([response.keep_one, response.make_one, response.keep_one])
        assert np.abs(some.mean(axis=0) - expected).max() < 4 * 0.5 / np.sqrt(len(some))
