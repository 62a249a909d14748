"""Runs side by side: as many independent runs of the real mechanism, with the noise that a certificate states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from caribou.audit.batched_mechanisms import (
    BatchedCounts,
    BatchedPropagation,
    BatchedResponse,
    BatchedSums,
    BatchedVotes,
    certified_mechanism,
)
from caribou.audit.pairs import Pair, star_graphs, worst_pairs
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.mechanisms.edge_votes import VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.sage import perturb
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedCounts
from caribou.privacy.pair_response import (
    PairResponse,
    asymmetric_response,
    laplace_threshold_response,
    split_pair_budget,
)
from caribou.privacy.sensitivity import Bounds
from caribou.release import release

RUNS = 4000


def test_propagation_has_the_law_that_the_likelihood_ratio_assumes() -> None:
    """Mean and covariance of many runs, small enough that nothing is projected."""
    for hops in [1, 3]:
        without, joined = star_graphs(2)
        start = np.linspace(-0.3, 0.3, 6)[:, None]
        mechanism = BatchedPropagation(ContractiveGraphLayer(0.9, beta=0.5), Bounds(degree_floor=2), hops, 0.01, start)
        state = mechanism.many(joined, RUNS, NoiseSource.seeded(1))["state"]
        mean, V = mechanism._law(joined)
        assert np.abs(state.mean(axis=0) - mean).max() < 5 * 0.02 / np.sqrt(RUNS)
        assert np.abs(np.cov(state[:, :, 0].T) - V).max() < 0.1 * V.max()
        assert not np.allclose(mechanism._law(without)[0], mean)


def test_runs_are_independent_and_follow_from_the_noise() -> None:
    mechanism = BatchedPropagation(ContractiveGraphLayer(0.9), Bounds(degree_floor=2), 1, 0.01, np.zeros((6, 2)))
    graph = star_graphs(2)[0]
    one, again = (mechanism.many(graph, 50, NoiseSource.seeded(3))["state"] for _ in range(2))
    assert np.array_equal(one, again)
    assert len(np.unique(one[:, 0, 0])) == 50
    assert abs(np.corrcoef(one[:-1, 0, 0], one[1:, 0, 0])[0, 1]) < 0.5
    with pytest.raises(InputError, match="alpha1 must be 1"):
        BatchedPropagation(ContractiveGraphLayer(0.9, alpha1=0.5), Bounds(), 1, 0.1, np.zeros((6, 2)))


def outcomes(count: np.ndarray, bits: np.ndarray) -> Counter[tuple[float, ...]]:
    return Counter(map(tuple, np.concatenate([count, bits], axis=1).tolist()))


def p_value(a: Counter[tuple[float, ...]], b: Counter[tuple[float, ...]]) -> float:
    """Of equal laws, by a chi-square test; outcomes with few runs are one class."""
    rows = np.array([[a[key], b[key]] for key in {*a, *b}])
    rare = rows.sum(axis=1) < 20
    table = np.concatenate([rows[~rare], rows[rare].sum(axis=0, keepdims=True)])
    return float(stats.chi2_contingency(table[table.sum(axis=1) > 0]).pvalue)


@pytest.mark.parametrize("rule", [asymmetric_response, laplace_threshold_response])
def test_batched_responses_have_the_law_of_the_perturbed_graph(rule: Callable[..., PairResponse]) -> None:
    """Count and adjacency together, on a path of three nodes, against `perturb` run by run; another epsilon is told apart."""
    path = Graph.from_edges(np.zeros((3, 1)), [[0, 1], [1, 2]])
    pairs, noise = split_pair_budget(Budget(1.5), 0.3), NoiseSource.seeded(8)
    runs = 1500
    counts, bits = np.zeros((runs, 1)), np.zeros((runs, 3))
    for run in range(runs):
        found = perturb(path, pairs, noise.stream(f"run {run}"), rule, max_edges=None)
        counts[run], (u, v) = found.count, found.pairs
        bits[run, v * (v - 1) // 2 + u] = 1
    one_by_one = outcomes(counts, bits)
    for epsilon, same in ((1.5, True), (0.9, False), (2.4, False)):
        batch = BatchedResponse(Budget(epsilon), rule, 0.3).many(path, runs, NoiseSource.seeded(9))
        assert (p_value(one_by_one, outcomes(batch["edge_count"], batch["bits"])) > 1e-3) == same, epsilon


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
    assert pair.batch_scores is not None
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


def test_the_likelihood_ratio_of_counts_is_at_most_epsilon_and_reaches_it() -> None:
    pair = Pair("two nodes", *star_graphs(0), PrivacyUnit.EDGE)
    counts = BatchedCounts(CalibratedCounts(2, 3.0), np.array([0, 1]))
    ratio = counts.likelihood_ratio(pair)(counts.many(pair.joined, RUNS, NoiseSource.seeded(1)))["likelihood ratio"]
    assert (ratio.min(), ratio.max()) == (pytest.approx(-3.0), pytest.approx(3.0))
