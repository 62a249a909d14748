"""Probabilities of randomized response on pairs: what they cost exactly, what is expected of them, and how a budget is split."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
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


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 8.0, 44.0, 800.0])
def test_the_exact_cost_never_exceeds_the_promise(rule: Callable[..., PairResponse], epsilon: float) -> None:
    rng = np.random.default_rng(3)
    for nodes in (2, 3, 10, 2708, 10**6):
        pairs = pair_count(nodes)
        for edges in {0, 1, pairs // 2, pairs, *(int(pairs * share) for share in rng.random(5) ** 4)}:
            response = rule(epsilon=epsilon, edges=edges, nodes=nodes)
            assert response.epsilon <= epsilon
            assert response.make_one <= response.keep_one
            # as many edges as before are expected, but for ordinary randomized response on dense graphs and the grid
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


def test_the_budget_is_split_and_never_exceeded() -> None:
    for epsilon in (0.1, 1.0, 3.3, 16.0):
        for share in (0.01, 0.1, 1 / 3):
            plan = split_pair_budget(Budget(epsilon), share)
            assert plan.count + plan.pairs <= epsilon
            assert plan.count + plan.pairs == pytest.approx(epsilon, rel=1e-9)


def test_errors_have_numbers() -> None:
    with pytest.raises(InputError, match="edges must be at most the 3 pairs of 3 nodes, got 4"):
        asymmetric_response(epsilon=1.0, edges=4, nodes=3)
    with pytest.raises(InputError, match=r"keep_one must be a multiple of 2\^-64"):
        PairResponse(1e-10, 0.0)
    with pytest.raises(InputError, match="count_share"):
        split_pair_budget(Budget(1.0), 1.0)
    with pytest.raises(InputError, match="epsilon"):
        laplace_threshold_response(epsilon=-1.0, edges=1, nodes=3)
