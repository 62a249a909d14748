"""Randomized response on pairs: the distribution of whole graphs, what one pair betrays, and what published variants betray."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from attack_support import p_value, proven_epsilon, side_by_side
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import (
    MOST_PAIRS,
    noisy_edge_count,
    pair_numbers,
    pairs_of_numbers,
    perturbed_pairs,
    require_room,
)
from caribou.privacy.accounting import randomized_response_epsilon
from caribou.privacy.pair_response import (
    PairResponse,
    asymmetric_response,
    laplace_threshold_response,
    pair_count,
)

RULES = [asymmetric_response, laplace_threshold_response]
DRAWS = 30_000


def graph_of(nodes: int, edges: list[tuple[int, int]]) -> Graph:
    return Graph.from_edges(np.zeros((nodes, 1)), np.array(edges, dtype=np.int64).reshape(-1, 2).T)


def drawn_graphs(graph: Graph, response: PairResponse, draws: int = DRAWS, copies: int = 20) -> np.ndarray:
    """How often each graph came out, numbered by the bits of its pairs: many copies side by side, asked again and again.

    Pairs are answered independently, so those between copies can be left out.
    """
    noise, many, n = NoiseSource.secure(), side_by_side(graph, copies), graph.num_nodes
    counts = np.zeros(2 ** pair_count(n), dtype=np.int64)
    for _ in range(draws // copies):
        u, v = perturbed_pairs(many, response, noise)
        inside = u // n == v // n
        u, v, copy = u[inside] % n, v[inside] % n, u[inside] // n
        numbers = np.bincount(copy, weights=1 << (v * (v - 1) // 2 + u), minlength=copies).astype(int)
        counts += np.bincount(numbers, minlength=len(counts))
    return counts


def claimed_probabilities(graph: Graph, response: PairResponse) -> np.ndarray:
    """Of every graph: the product over all pairs."""
    edges = set(pair_numbers(graph).tolist())
    ones = [response.keep_one if k in edges else response.make_one for k in range(pair_count(graph.num_nodes))]
    every = itertools.product((0, 1), repeat=len(ones))
    return np.array([math.prod(p if bit else 1 - p for p, bit in zip(ones, bits[::-1], strict=True)) for bits in every])


# -- the sampler ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "edges"), [(3, [(0, 1)]), (3, [(0, 1), (0, 2), (1, 2)]), (4, [(0, 1), (1, 3)]), (4, [])]
)
def test_every_graph_has_its_claimed_probability(nodes: int, edges: list[tuple[int, int]]) -> None:
    graph, response = graph_of(nodes, edges), PairResponse(0.75, 0.25)
    observed = drawn_graphs(graph, response, 5_000)
    assert p_value(observed, 5_000 * claimed_probabilities(graph, response)) > 1e-6


def test_five_percent_off_is_rejected() -> None:
    graph, response = graph_of(3, [(0, 1)]), PairResponse(0.75, 0.25)
    observed = drawn_graphs(graph, response)
    assert p_value(observed, DRAWS * claimed_probabilities(graph, response)) > 1e-6
    for keep, make in ((0.75, 0.265625), (0.75, 0.234375), (0.7109375, 0.25), (0.7890625, 0.25)):
        assert p_value(observed, DRAWS * claimed_probabilities(graph, PairResponse(keep, make))) < 1e-4


@pytest.mark.parametrize("rule", RULES)
def test_the_calibrated_probabilities_are_those_that_are_used(rule: Callable[..., PairResponse]) -> None:
    graph = graph_of(4, [(0, 1), (1, 3)])
    response = rule(epsilon=1.2, edges=2, nodes=4)
    observed = drawn_graphs(graph, response, 5_000)
    assert p_value(observed, 5_000 * claimed_probabilities(graph, response)) > 1e-6


def test_numbers_of_pairs_are_a_bijection() -> None:
    numbers = np.arange(pair_count(300))
    u, v = pairs_of_numbers(numbers)
    assert ((u >= 0) & (u < v) & (v < 300)).all()
    assert np.array_equal(v * (v - 1) // 2 + u, numbers)
    huge = pair_count(10**7) - 1 - np.arange(5)
    u, v = pairs_of_numbers(huge)
    assert np.array_equal(v * (v - 1) // 2 + u, huge)
    assert v[0] == 10**7 - 1


def test_no_array_of_all_pairs_is_made() -> None:
    """50,000 nodes have 1.25e9 pairs: a bit for each would take 149 MiB, a byte 1.2 GiB."""
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(np.zeros((50_000, 1)), rng.integers(0, 50_000, (2, 100_000)))
    response = asymmetric_response(epsilon=1.0, edges=100_000, nodes=50_000)
    tracemalloc.start()
    pairs = perturbed_pairs(graph, response, NoiseSource.secure())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20
    assert abs(pairs.shape[1] - 100_000) < 6 * math.sqrt(100_000)
    assert (pairs[0] < pairs[1]).all()
    assert len(np.unique(pairs[1] * (pairs[1] - 1) // 2 + pairs[0])) == pairs.shape[1]


# -- what it costs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_likelihood_ratio_attack_reaches_the_claim_and_not_more(
    rule: Callable[..., PairResponse], epsilon: float
) -> None:
    """All pairs of 700 nodes, joined or not, answered independently: one of the answers has a likelihood ratio of e^epsilon."""
    response = rule(epsilon=epsilon, edges=2, nodes=4)
    trials, level = pair_count(700), 1e-4
    noise = NoiseSource.secure()
    worlds = [np.zeros((2, 0), dtype=np.int64), pairs_of_numbers(np.arange(trials))]
    graphs = [Graph.from_edges(np.zeros((700, 1)), edges) for edges in worlds]
    hits = [perturbed_pairs(graph, response, noise).shape[1] for graph in graphs]
    events = ((hits[0], hits[1]), (trials - hits[1], trials - hits[0]))
    proven = max(proven_epsilon(event, trials, level) for event in events)
    assert 0.9 * response.epsilon < proven <= epsilon


def test_the_edge_count_is_private_and_clamped() -> None:
    noise = NoiseSource.secure()
    graph, other = graph_of(30, [(0, 1), (1, 2)]), graph_of(30, [(0, 1)])
    draws, epsilon = 10_000, 1.0
    counts = [
        np.array([noisy_edge_count(g, epsilon=epsilon, noise=noise) for _ in range(draws)]) for g in (graph, other)
    ]
    assert all(c.min() == 0 for c in counts)
    rates = [(c >= 2).mean() for c in counts]
    assert math.log(rates[0] / rates[1]) == pytest.approx(epsilon, abs=0.1)
    assert noisy_edge_count(graph_of(2, [(0, 1)]), epsilon=1e-3, noise=noise) in (0, 1)
    assert noisy_edge_count(graph, epsilon=math.inf, noise=noise) == 2


# -- published flaws -----------------------------------------------------------------------------------------------


def test_directed_entries_drawn_one_by_one_cost_twice_as_much() -> None:
    """The published draw: both directions of a pair by draws of their own. The attack proves far more than epsilon."""
    epsilon, draws = 1.0, 200_000
    p = 1 / (1 + math.exp(-epsilon))
    rng = np.random.default_rng(5)
    both = [((rng.random((draws, 2)) < probability).all(axis=1)).sum() for probability in (1 - p, p)]
    assert proven_epsilon((both[0], both[1]), draws) > 1.8 * epsilon


def test_a_density_per_chunk_with_the_sensitivity_of_the_whole_is_rejected() -> None:
    """Noise for 1 / n^2 on a density that one entry moves by 1 / (500 n): n / 500 times too little."""
    n, chunk, epsilon, draws = 2708, 500, 0.1, 100_000
    rng = np.random.default_rng(6)
    step = 1 / (chunk * n)
    released = [count * step + rng.laplace(scale=1 / n**2 / epsilon, size=draws) for count in (0, 1)]
    hits = [int((r > step).sum()) for r in released]
    assert proven_epsilon((hits[0], hits[1]), draws) > 4 * epsilon
    # here: one count for the whole graph, moved by 1 by one undirected edge
    assert randomized_response_epsilon(keep_one=0.75, make_one=0.25) == pytest.approx(math.log(3))


# -- errors --------------------------------------------------------------------------------------------------------


def test_errors_have_numbers() -> None:
    dense = asymmetric_response(epsilon=0.1, edges=10**8, nodes=10**5)
    with pytest.raises(InputError, match=r"at most 20,000,000 edges, got 100,000,000 expected.*GiB.*max_edges"):
        require_room(dense, edges=10**8, nodes=10**5)
    require_room(dense, edges=MOST_PAIRS // 2, nodes=2708)
