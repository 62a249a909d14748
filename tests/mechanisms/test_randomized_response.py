"""Randomized response on pairs: the distribution of whole graphs, what one pair betrays, and what published variants betray."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

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
from caribou.privacy.budget import Budget
from caribou.privacy.pair_response import (
    PairResponse,
    asymmetric_response,
    laplace_threshold,
    laplace_threshold_response,
    pair_count,
    split_pair_budget,
)

RULES = [asymmetric_response, laplace_threshold_response]
DRAWS = 30_000


def graph_of(nodes: int, edges: list[tuple[int, int]]) -> Graph:
    return Graph.from_edges(np.zeros((nodes, 1)), np.array(edges, dtype=np.int64).reshape(-1, 2).T)


def drawn_graphs(graph: Graph, response: PairResponse, draws: int = DRAWS) -> np.ndarray:
    """How often each graph came out, numbered by the bits of its pairs."""
    noise = NoiseSource.secure()
    counts = np.zeros(2 ** pair_count(graph.num_nodes), dtype=np.int64)
    for _ in range(draws):
        u, v = perturbed_pairs(graph, response, noise)
        counts[int((1 << (v * (v - 1) // 2 + u)).sum())] += 1
    return counts


def claimed_probabilities(graph: Graph, response: PairResponse) -> np.ndarray:
    """Of every graph: the product over all pairs."""
    edges = set(pair_numbers(graph).tolist())
    ones = [response.keep_one if k in edges else response.make_one for k in range(pair_count(graph.num_nodes))]
    every = itertools.product((0, 1), repeat=len(ones))
    return np.array([math.prod(p if bit else 1 - p for p, bit in zip(ones, bits[::-1], strict=True)) for bits in every])


def p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """Chi-square over cells with enough expected draws; the rest is one cell."""
    large = expected >= 10
    o, e = observed[large], expected[large]
    if not large.all():
        o, e = np.append(o, observed[~large].sum()), np.append(e, expected[~large].sum())
    keep = e > 0
    return float(stats.chi2.sf(((o[keep] - e[keep]) ** 2 / e[keep]).sum(), keep.sum() - 1))


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


def test_binomial_numbers_have_their_distribution() -> None:
    noise = NoiseSource.secure()
    for trials, p in ((7, 0.25), (60, 0.5), (60, 2.0**-5), (1_000_000, 2.0**-17)):
        sample = np.array([noise.binomial(trials, probability=p) for _ in range(4000)])
        cells = np.arange(min(trials, 60) + 1)
        expected = 4000 * stats.binom.pmf(cells, trials, p)
        assert p_value(np.bincount(sample, minlength=len(cells))[: len(cells)], expected) > 1e-6
        off = 4000 * stats.binom.pmf(cells, trials, min(1, 1.2 * p))
        assert p_value(np.bincount(sample, minlength=len(cells))[: len(cells)], off) < 1e-6
    large = np.array([noise.binomial(10**10, probability=2.0**-20) for _ in range(300)])
    deviations = (large - 10**10 * 2.0**-20) / math.sqrt(10**10 * 2.0**-20)
    assert stats.kstest(deviations, "norm").pvalue > 1e-6
    assert noise.binomial(9, probability=0.0) == 0
    assert noise.binomial(9, probability=1.0) == 9
    assert noise.binomial(0, probability=0.5) == 0


def test_the_weights_of_the_binomial_are_right_to_the_stated_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against exact fractions: the total variation is below 2^-100."""
    from caribou.mechanisms import samplers as module

    seen: list[int] = []
    monkeypatch.setattr(module, "uniform_below", lambda stream, bound: seen.append(bound) or 0)
    trials, p = 300, Fraction(1, 8)
    lowest = NoiseSource.keyed(bytes(32)).binomial(trials, probability=float(p))
    total = seen[0]
    numbers: list[int] = []
    for threshold in range(lowest, trials + 1):  # the cumulative weights, found by bisection on the uniform number
        low, high = 0, total
        while low < high:
            middle = (low + high) // 2
            monkeypatch.setattr(module, "uniform_below", lambda stream, bound, m=middle: m)
            if NoiseSource.keyed(bytes(32)).binomial(trials, probability=float(p)) > threshold:
                high = middle
            else:
                low = middle + 1
        numbers.append(low)
        if threshold > lowest + 6:
            break
    exact = [math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]
    below = sum(exact[:lowest], Fraction(0))
    for k, cumulative in enumerate(numbers):
        below += exact[lowest + k]
        assert abs(Fraction(cumulative, total) - below) < Fraction(1, 2**100)


def test_integers_are_uniform_and_bernoulli_draws_are_exact() -> None:
    noise = NoiseSource.secure()
    sample = noise.integers(60_000, below=6)
    assert p_value(np.bincount(sample, minlength=6), np.full(6, 10_000.0)) > 1e-6
    assert noise.bernoulli(5, probability=1.0).all()
    assert not noise.bernoulli(5, probability=0.0).any()
    heads = noise.bernoulli(200_000, probability=0.25).sum()
    assert abs(heads - 50_000) < 6 * math.sqrt(200_000 * 0.1875)
    with pytest.raises(InputError, match=r"probability must be a multiple of 2\^-64"):
        noise.bernoulli(5, probability=1e-10)
    with pytest.raises(InputError, match=r"probability must be in \[0, 1\]"):
        noise.binomial(5, probability=1.5)


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


def test_deterministic_per_key_and_the_graph_is_unchanged() -> None:
    graph = graph_of(40, [(i, i + 1) for i in range(39)])
    before = (graph.indices.tobytes(), graph.indptr.tobytes())
    response = asymmetric_response(epsilon=2.0, edges=39, nodes=40)
    first, second, third = (perturbed_pairs(graph, response, NoiseSource.seeded(s)) for s in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, third)
    assert before == (graph.indices.tobytes(), graph.indptr.tobytes())


# -- what it costs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 3.0, 8.0, 16.0, 44.0, 800.0])
def test_the_exact_cost_never_exceeds_the_promise(rule: Callable[..., PairResponse], epsilon: float) -> None:
    rng = np.random.default_rng(3)
    for nodes in (2, 3, 10, 2708, 10**6):
        pairs = pair_count(nodes)
        for edges in {0, 1, pairs // 2, pairs, *(int(pairs * share) for share in rng.random(5) ** 4)}:
            response = rule(epsilon=epsilon, edges=edges, nodes=nodes)
            assert response.epsilon <= epsilon
            assert response.make_one <= response.keep_one
            # as many edges as before are expected, but for ordinary randomized response on dense graphs and the coins' grid
            if rule is laplace_threshold_response or 2 * edges < pairs:
                expected = response.expected_pairs(edges=edges, nodes=nodes)
                assert expected == pytest.approx(edges, rel=1e-6, abs=1e-6)


def test_asymmetric_response_uses_the_whole_promise_on_sparse_graphs() -> None:
    for epsilon in (0.1, 1.0, 4.0, 16.0):
        response = asymmetric_response(epsilon=epsilon, edges=5278, nodes=2708)
        assert response.epsilon == pytest.approx(epsilon, rel=1e-6)
        p = 1 / (1 + math.exp(-epsilon))
        d = 5278 / pair_count(2708)
        q = d / (2 * p * d - p - d + 1)
        assert response.keep_one == pytest.approx(p * q, rel=1e-9)
        assert response.make_one == pytest.approx((1 - p) * q, rel=1e-9)


def test_lapgraph_is_the_same_on_sparse_graphs_and_worse_beyond() -> None:
    edges, nodes = 5278, 2708
    turning = math.log((pair_count(nodes) - edges) / edges)
    for epsilon in (0.5, 2.0, 0.99 * turning):
        one, other = (rule(epsilon=epsilon, edges=edges, nodes=nodes) for rule in RULES)
        assert other.keep_one == pytest.approx(one.keep_one, rel=1e-9)
        assert other.make_one == pytest.approx(one.make_one, rel=1e-9)
    for epsilon in (1.05 * turning, 12.0, 16.0):
        one, other = (rule(epsilon=epsilon, edges=edges, nodes=nodes) for rule in RULES)
        assert other.keep_one < one.keep_one
        assert other.make_one > one.make_one


def test_the_laplace_probabilities_are_those_of_noise_and_threshold() -> None:
    """Against drawn Laplace noise, in all three branches of the threshold."""
    noise = NoiseSource.secure()
    draws = 200_000
    for epsilon, edges, nodes in ((1.0, 20, 40), (4.0, 100, 40), (0.5, 700, 40)):
        t = laplace_threshold(epsilon=epsilon, edges=edges, nodes=nodes)
        response = laplace_threshold_response(epsilon=epsilon, edges=edges, nodes=nodes)
        cells = noise.laplace((draws,), scale=1 / epsilon)
        for value, p in ((1, response.keep_one), (0, response.make_one)):
            assert abs((value + cells > t).mean() - p) < 6 * math.sqrt(p * (1 - p) / draws) + 1e-12
    branches = [laplace_threshold(epsilon=e, edges=T, nodes=40) for e, T in ((1.0, 20), (4.0, 100), (0.5, 700))]
    assert branches[0] > 1 > branches[1] > 0 > branches[2]


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
    proven = 0.0
    for often, seldom in ((hits[1], hits[0]), (trials - hits[0], trials - hits[1])):
        tpr = stats.beta.ppf(level, often, trials - often + 1)
        fpr = stats.beta.ppf(1 - level, seldom + 1, trials - seldom)
        proven = max(proven, math.log(tpr / fpr))
    assert 0.9 * response.epsilon < proven <= epsilon


def test_the_edge_count_is_private_and_clamped() -> None:
    noise = NoiseSource.secure()
    graph, other = graph_of(30, [(0, 1), (1, 2)]), graph_of(30, [(0, 1)])
    draws, epsilon = 20_000, 1.0
    counts = [
        np.array([noisy_edge_count(g, epsilon=epsilon, noise=noise) for _ in range(draws)]) for g in (graph, other)
    ]
    assert all(c.min() == 0 for c in counts)
    rates = [(c >= 2).mean() for c in counts]
    assert math.log(rates[0] / rates[1]) == pytest.approx(epsilon, abs=0.06)
    assert noisy_edge_count(graph_of(2, [(0, 1)]), epsilon=1e-3, noise=noise) in (0, 1)
    assert noisy_edge_count(graph, epsilon=math.inf, noise=noise) == 2


def test_the_budget_is_split_and_never_exceeded() -> None:
    for epsilon in (0.1, 1.0, 3.3, 16.0):
        for share in (0.01, 0.1, 1 / 3):
            plan = split_pair_budget(Budget(epsilon), share)
            assert plan.count + plan.pairs <= epsilon
            assert plan.count + plan.pairs == pytest.approx(epsilon, rel=1e-9)


# -- published flaws -----------------------------------------------------------------------------------------------


def test_directed_entries_drawn_one_by_one_cost_twice_as_much() -> None:
    """The published draw: both directions of a pair by coins of their own. The attack proves far more than epsilon."""
    epsilon, draws = 1.0, 200_000
    p = 1 / (1 + math.exp(-epsilon))
    rng = np.random.default_rng(5)
    both = [((rng.random((draws, 2)) < probability).all(axis=1)).sum() for probability in (1 - p, p)]
    fpr = stats.beta.ppf(1 - 1e-6, both[0] + 1, draws - both[0])
    tpr = stats.beta.ppf(1e-6, both[1], draws - both[1] + 1)
    assert math.log(tpr / fpr) > 1.8 * epsilon


def test_a_density_per_chunk_with_the_sensitivity_of_the_whole_is_rejected() -> None:
    """Noise for 1 / n^2 on a density that one entry moves by 1 / (500 n): n / 500 times too little."""
    n, chunk, epsilon, draws = 2708, 500, 0.1, 100_000
    rng = np.random.default_rng(6)
    step = 1 / (chunk * n)
    released = [count * step + rng.laplace(scale=1 / n**2 / epsilon, size=draws) for count in (0, 1)]
    hits = [int((r > step).sum()) for r in released]
    fpr = stats.beta.ppf(1 - 1e-6, hits[0] + 1, draws - hits[0])
    tpr = stats.beta.ppf(1e-6, hits[1], draws - hits[1] + 1)
    assert math.log(tpr / fpr) > 4 * epsilon
    # here: one count for the whole graph, moved by 1 by one undirected edge
    assert randomized_response_epsilon(keep_one=0.75, make_one=0.25) == pytest.approx(math.log(3))


# -- errors --------------------------------------------------------------------------------------------------------


def test_errors_have_numbers() -> None:
    dense = asymmetric_response(epsilon=0.1, edges=10**8, nodes=10**5)
    with pytest.raises(InputError, match=r"at most 20,000,000 edges, got 100,000,000 expected.*GiB.*max_edges"):
        require_room(dense, edges=10**8, nodes=10**5)
    require_room(dense, edges=MOST_PAIRS // 2, nodes=2708)
    with pytest.raises(InputError, match="edges must be at most the 3 pairs of 3 nodes, got 4"):
        asymmetric_response(epsilon=1.0, edges=4, nodes=3)
    with pytest.raises(InputError, match=r"keep_one must be a multiple of 2\^-64"):
        PairResponse(1e-10, 0.0)
    with pytest.raises(InputError, match="count_share"):
        split_pair_budget(Budget(1.0), 1.0)
    with pytest.raises(InputError, match="epsilon"):
        laplace_threshold_response(epsilon=-1.0, edges=1, nodes=3)
