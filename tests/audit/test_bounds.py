"""Lower bounds: golden values, coverage by exact enumeration and by simulation, and the one-run bound against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from caribou.audit.bounds import (
    epsilon_bound,
    many_bounds,
    mu_bound,
    one_run_bound,
    one_run_p_value,
    pessimistic_rates,
    rate_limits,
)
from caribou.errors import InputError


def test_limits_are_those_of_clopper_and_pearson() -> None:
    low, high = rate_limits(3, 20, 0.025)
    assert (low, high) == (pytest.approx(0.032071, abs=1e-6), pytest.approx(0.378927, abs=1e-6))  # Newcombe 1998, exact
    assert rate_limits(0, 10, 0.05) == (0.0, pytest.approx(1 - 0.05**0.1))
    assert rate_limits(10, 10, 0.05)[1] == 1.0


@pytest.mark.parametrize("rate", [0.003, 0.1, 0.5, 0.97])
@pytest.mark.parametrize("level", [0.05, 0.005])
def test_limits_cover_exactly(rate: float, level: float) -> None:
    """All outcomes enumerated: each limit is wrong with probability at most the level, and not much less often."""
    n = 400
    hits = np.arange(n + 1)
    p = stats.binom.pmf(hits, n, rate)
    limits = np.array([rate_limits(int(h), n, level) for h in hits])
    too_high, too_low = p[limits[:, 0] > rate].sum(), p[limits[:, 1] < rate].sum()
    assert too_high <= level * (1 + 1e-9)
    assert too_low <= level * (1 + 1e-9)
    assert max(too_high, too_low) > 0.3 * level or rate == 0.003


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_mu_bound_covers_for_every_threshold(mu: float) -> None:
    rng = np.random.default_rng(7)
    wrong = 0
    for _ in range(2000):
        t = rng.uniform(-1, 1 + mu)
        false, true = rng.binomial(300, stats.norm.sf(t)), rng.binomial(300, stats.norm.sf(t - mu))
        wrong += mu_bound(int(false), int(true), 300, confidence=0.9) > mu
    assert wrong <= 2000 * 0.1 + 3 * math.sqrt(2000 * 0.09)


def test_epsilon_bound_covers_randomized_response() -> None:
    """Where the bound is attained: the rates are e^eps / (1 + e^eps) and its complement."""
    rng, epsilon = np.random.default_rng(8), 1.0
    p = 1 / (1 + math.exp(-epsilon))
    false, true = rng.binomial(500, 1 - p, 2000), rng.binomial(500, p, 2000)
    bounds = np.array(
        [epsilon_bound(int(f), int(t), 500, 0.0, confidence=0.9) for f, t in zip(false, true, strict=True)]
    )
    assert (bounds > epsilon).mean() <= 0.1
    assert bounds.mean() > 0.75 * epsilon


def test_pessimistic_rates_lie_on_the_safe_side() -> None:
    false, true = pessimistic_rates(10, 50, 100, 0.95)
    assert 0.1 < false == pytest.approx(rate_limits(10, 100, 0.025)[1])
    assert 0.5 > true == pytest.approx(rate_limits(50, 100, 0.025)[0])


def test_bounds_of_many_tests_are_those_of_each() -> None:
    false, true = np.array([0, 3, 50, 100]), np.array([100, 60, 50, 0])
    for delta in (None, 0.0, 0.01):
        each = many_bounds(false, true, 100, delta=delta, confidence=0.95)
        for k in range(4):
            counts = (int(false[k]), int(true[k]), 100)
            single = mu_bound(*counts, 0.95) if delta is None else epsilon_bound(*counts, delta, 0.95)
            assert each[k] == pytest.approx(single, abs=1e-9)


def direct_p_value(v: int, r: int, m: int, epsilon: float, delta: float) -> float:
    """The formula of the paper, term by term."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    pmf = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    alpha = max((sum(pmf[max(0, v - i) : v]) / i for i in range(1, v + 1)), default=0.0)
    return min(1.0, sum(pmf[v:]) + 2 * m * delta * alpha)


@pytest.mark.parametrize(("v", "r", "m"), [(0, 0, 5), (3, 10, 10), (10, 10, 40), (18, 20, 100)])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_one_run_p_value_is_the_formula(v: int, r: int, m: int, delta: float) -> None:
    for epsilon in (0.0, 0.7, 3.0):
        assert one_run_p_value(v, r, m, epsilon, delta) == pytest.approx(
            direct_p_value(v, r, m, epsilon, delta), abs=1e-12
        )


def test_one_run_bound_is_where_the_p_value_crosses_the_level() -> None:
    bound = one_run_bound(90, 100, 500, 1e-6, confidence=0.95)
    assert one_run_p_value(90, 100, 500, bound, 1e-6) <= 0.05 < one_run_p_value(90, 100, 500, bound + 1e-4, 1e-6)
    assert one_run_bound(50, 100, 500, 1e-6, confidence=0.95) == 0.0
    assert one_run_bound(90, 100, 500, 1e-2, confidence=0.95) < bound
    with pytest.raises(InputError, match="correct <= guesses <= canaries"):
        one_run_p_value(5, 4, 10, 1.0, 0.0)


def test_one_run_bound_covers_randomized_response_of_all_canaries() -> None:
    """Every membership bit is told truly with probability e^eps / (1 + e^eps): the case in which the theorem is attained."""
    rng, epsilon = np.random.default_rng(9), 1.5
    correct = rng.binomial(200, 1 / (1 + math.exp(-epsilon)), 1000)
    known = {int(v): one_run_bound(int(v), 200, 200, 0.0, confidence=0.9) for v in np.unique(correct)}
    bounds = np.array([known[int(v)] for v in correct])
    assert (bounds > epsilon).mean() <= 0.1 + 3 * math.sqrt(0.09 / 1000)
    assert bounds.mean() > 0.75 * epsilon
