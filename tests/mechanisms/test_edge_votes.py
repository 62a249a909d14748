"""Votes: one edge moves one entry of the whole transcript by one, whatever is asked; and the noise is worth its epsilon."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from caribou.errors import CaribouError, InputError
from caribou.graph import Graph
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.arithmetic import grid_spacing
from caribou.privacy.events import Gaussian

Stage = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def graph_of(nxg: nx.Graph) -> Graph:
    edges = np.array(list(nxg.edges), dtype=np.int64).reshape(-1, 2).T
    return Graph.from_edges(np.zeros((nxg.number_of_nodes(), 1)), edges)


def random_script(n: int, classes: int, rng: np.random.Generator) -> list[Stage]:
    """Stages as a method might ask them: disjoint sets of new nodes, any ranks, messages and receivers."""
    stage_of = rng.integers(0, 5, n)  # 4 = never
    return [
        (stage_of == t, rng.integers(0, 3, n).astype(float), rng.integers(0, classes, n), rng.random(n) < 0.8)
        for t in range(4)
    ]


def transcript(graph: Graph, script: list[Stage], classes: int) -> np.ndarray:
    box = NoisyCounts(graph, classes, VoteBudget(math.inf), NoiseSource.secure())
    return np.stack([box.ask(*stage) for stage in script])


def test_one_edge_moves_one_entry_by_one_over_all_small_graphs() -> None:
    rng = np.random.default_rng(0)
    touched = 0
    for nxg in nx.graph_atlas_g():
        n = nxg.number_of_nodes()
        if not 2 <= n <= 5:
            continue
        graph = graph_of(nxg)
        for u, v in itertools.combinations(range(n), 2):
            other = graph.without_edge(u, v) if graph.has_edge(u, v) else graph.with_edge(u, v)
            script = random_script(n, 3, rng)
            moved = np.abs(transcript(graph, script, 3) - transcript(other, script, 3))
            assert moved.sum() in (0, 1)
            touched += int(moved.sum())
    assert touched > 100, "the scripts ask too little for this test to mean anything"


def test_pairs_of_all_stages_are_disjoint() -> None:
    """On the complete graph every pair that is asked shows; over all stages none shows twice."""
    rng = np.random.default_rng(1)
    n = 9
    graph = graph_of(nx.complete_graph(n))
    for _ in range(50):
        script = random_script(n, 2, rng)
        asked: set[frozenset[int]] = set()
        for u, v in itertools.combinations(range(n), 2):
            moved = np.abs(transcript(graph, script, 2) - transcript(graph.without_edge(u, v), script, 2)).sum(
                axis=(1, 2)
            )
            assert (moved > 0).sum() <= 1
            if moved.any():
                asked.add(frozenset((u, v)))
        assert transcript(graph, script, 2).sum() == len(asked)


def test_a_node_cannot_send_twice() -> None:
    box = NoisyCounts(graph_of(nx.path_graph(3)), 2, VoteBudget(1.0), NoiseSource.secure())
    new = np.array([True, False, False])
    box.ask(new, np.zeros(3), np.zeros(3, dtype=int))
    with pytest.raises(CaribouError, match=r"never sent before.*node 0"):
        box.ask(new, np.zeros(3), np.zeros(3, dtype=int))


def test_a_literal_stage() -> None:
    """Path 0 - 1 - 2 - 3: 0 and 1 are new, 0 before 1; 2 and 3 receive, 3 has no new neighbour."""
    box = NoisyCounts(graph_of(nx.path_graph(4)), 2, VoteBudget(math.inf), NoiseSource.secure())
    new = np.array([True, True, False, False])
    counts = box.ask(new, np.array([0.0, 1.0, 9.0, 9.0]), np.array([1, 0, 0, 0]))
    assert counts.tolist() == [[0, 0], [0, 1], [1, 0], [0, 0]]
    later = box.ask(~new, np.zeros(4), np.array([0, 0, 1, 1]))
    assert later.tolist() == [[0, 0], [0, 0], [0, 0], [0, 1]], "nodes that were new never receive again"


def pairs_graph(pairs: int, joined: bool) -> Graph:
    edges = np.stack([2 * np.arange(pairs), 2 * np.arange(pairs) + 1]) if joined else np.zeros((2, 0), dtype=int)
    return Graph.from_edges(np.zeros((2 * pairs, 1)), edges)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_likelihood_ratio_attack_reaches_the_claim_and_not_more(epsilon: float) -> None:
    """Many disjoint pairs, joined or not: the event "count >= 1" has probability ratio e^epsilon."""
    pairs = 200_000
    new = np.arange(2 * pairs) % 2 == 0
    hits = []
    for joined in (False, True):
        box = NoisyCounts(pairs_graph(pairs, joined), 1, VoteBudget(epsilon), NoiseSource.secure())
        counts = box.ask(new, np.zeros(2 * pairs), np.zeros(2 * pairs, dtype=int))[1::2, 0]
        hits.append(int((counts >= 1).sum()))
    level = 1e-6
    fpr = stats.beta.ppf(1 - level, hits[0] + 1, pairs - hits[0])
    tpr = stats.beta.ppf(level, hits[1], pairs - hits[1] + 1)
    proven = math.log(tpr / fpr)
    assert 0.9 * epsilon < proven <= epsilon


def test_noise_of_the_release_is_discrete_laplace() -> None:
    n, epsilon = 50_000, 0.7
    box = NoisyCounts(
        Graph.from_edges(np.zeros((n, 1)), np.zeros((2, 0), dtype=int)), 2, VoteBudget(epsilon), NoiseSource.secure()
    )
    counts = box.ask(np.zeros(n, dtype=bool), np.zeros(n), np.zeros(n, dtype=int))
    assert counts.var() == pytest.approx(box.budget.noise_variance, rel=0.05)
    assert abs(counts.mean()) < 6 * math.sqrt(box.budget.noise_variance / counts.size)
    a = math.exp(-epsilon)
    expected = (1 - a) / (1 + a)
    share = (counts == 0).mean()
    deviation = math.sqrt(expected * (1 - expected) / counts.size)
    assert abs(share - expected) < 6 * deviation
    for wrong in (0.95, 1.05):
        b = math.exp(-wrong * epsilon)
        assert abs(share - (1 - b) / (1 + b)) > 6 * deviation, "5 % off must be rejected"


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_likelihood_ratio_attack_on_gaussian_votes_reaches_mu_and_not_more(mu: float) -> None:
    """The best test between two Gaussians: Phi^-1(TPR) - Phi^-1(FPR) = mu at every threshold."""
    pairs = 200_000
    new = np.arange(2 * pairs) % 2 == 0
    hits = []
    for joined in (False, True):
        box = NoisyCounts(pairs_graph(pairs, joined), 1, VoteBudget.gaussian(mu), NoiseSource.secure())
        counts = box.ask(new, np.zeros(2 * pairs), np.zeros(2 * pairs, dtype=int))[1::2, 0]
        hits.append(int((counts >= 0.5).sum()))
    level = 1e-6
    fpr = stats.beta.ppf(1 - level, hits[0] + 1, pairs - hits[0])
    tpr = stats.beta.ppf(level, hits[1], pairs - hits[1] + 1)
    proven = stats.norm.ppf(tpr) - stats.norm.ppf(fpr)
    assert 0.9 * mu < proven <= mu


def test_noise_of_the_release_is_gaussian_of_std_one_over_mu() -> None:
    n, mu = 50_000, 0.7
    empty = Graph.from_edges(np.zeros((n, 1)), np.zeros((2, 0), dtype=int))
    box = NoisyCounts(empty, 2, VoteBudget.gaussian(mu), NoiseSource.secure())
    noise = box.ask(np.zeros(n, dtype=bool), np.zeros(n), np.zeros(n, dtype=int)).ravel()
    assert box.budget.noise_variance == pytest.approx(1 / mu**2)
    assert stats.kstest(noise * mu, "norm").pvalue > 1e-6
    for wrong in (0.95, 1.05):
        assert stats.kstest(noise * mu * wrong, "norm").pvalue < 1e-6, "5 % off must be rejected"


def test_gaussian_votes_lie_on_the_grid_of_their_noise() -> None:
    """Integers are multiples of the grid, so the low bits of a released count say nothing about the count."""
    budget = VoteBudget.gaussian(0.3)
    grid = grid_spacing(noise_std=budget.noise_std)
    box = NoisyCounts(pairs_graph(500, True), 1, budget, NoiseSource.secure())
    counts = box.ask(np.arange(1000) % 2 == 0, np.zeros(1000), np.zeros(1000, dtype=int))
    assert np.array_equal(counts / grid, np.rint(counts / grid))
    assert (1 / grid).is_integer()
    assert (counts[::2] != 0).any(), "new nodes may hear each other, so their rows carry noise as well"


def test_the_cost_of_gaussian_votes_composes_in_squares() -> None:
    assert VoteBudget.gaussian(0.5).event == Gaussian(2.0)
    both = [VoteBudget.gaussian(0.6).event, Gaussian(1 / 0.8)]
    assert epsilon_of(both, 1e-5) == pytest.approx(epsilon_of([Gaussian(1.0)], 1e-5), rel=1e-4)
    assert math.isinf(epsilon_of([VoteBudget.gaussian(math.inf).event], 1e-5))


def test_cost_is_epsilon_at_any_depth() -> None:
    assert epsilon_of([VoteBudget(1.5).event], 1e-9) == pytest.approx(1.5, abs=1e-7)
    assert math.isinf(epsilon_of([VoteBudget(math.inf).event], 1e-5))


def test_bad_questions() -> None:
    box = NoisyCounts(graph_of(nx.path_graph(3)), 2, VoteBudget(1.0), NoiseSource.secure())
    good = (np.zeros(3, dtype=bool), np.zeros(3), np.zeros(3, dtype=int))
    with pytest.raises(InputError, match="new must be 3 booleans"):
        box.ask(np.zeros(2, dtype=bool), *good[1:])
    with pytest.raises(InputError, match="rank must be"):
        box.ask(np.ones(3, dtype=bool), np.full(3, np.nan), good[2])
    with pytest.raises(InputError, match=r"message must be a class in 0\.\.1"):
        box.ask(np.ones(3, dtype=bool), good[1], np.full(3, 2))
    with pytest.raises(InputError, match="epsilon must be"):
        VoteBudget(-1.0)
    with pytest.raises(InputError, match="mu must be"):
        VoteBudget.gaussian(0.0)
    with pytest.raises(InputError, match="mu must be inf with a finite epsilon"):
        VoteBudget(1.0, 1.0)
    for mu in (2.0**-30, 2.0**40):
        with pytest.raises(InputError, match="mu must be between"):
            NoisyCounts(graph_of(nx.path_graph(3)), 2, VoteBudget.gaussian(mu), NoiseSource.secure())
