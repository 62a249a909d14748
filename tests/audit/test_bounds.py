"""Lower bounds: golden values, coverage by exact enumeration and by simulation, and the one-run bound against simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from caribou.audit.bounds import (
    curve_bound,
    curve_p_value,
    epsilon_bound,
    gaussian_trade_off,
    mu_bound,
    one_run_bound,
    one_run_p_value,
    pessimistic_rates,
)
from caribou.errors import InputError
from caribou.privacy.accounting import gdp_epsilon


def test_limits_are_those_of_clopper_and_pearson() -> None:
    assert pessimistic_rates(3, 3, 20, 0.95) == (
        pytest.approx(0.378927, abs=1e-6),  # Newcombe 1998, exact
        pytest.approx(0.032071, abs=1e-6),
    )
    assert pessimistic_rates(0, 0, 10, 0.9) == (pytest.approx(1 - 0.05**0.1), 0.0)
    assert pessimistic_rates(10, 10, 10, 0.9) == (1.0, pytest.approx(0.05**0.1))


def test_limits_cover_exactly() -> None:
    """All outcomes enumerated: each limit is wrong with probability at most the level, and not much less often."""
    for rate in [0.003, 0.1, 0.5, 0.97]:
        for level in [0.05, 0.005]:
            n = 400
            hits = np.arange(n + 1)
            p = stats.binom.pmf(hits, n, rate)
            high, low = pessimistic_rates(hits, hits, n, 1 - 2 * level)
            too_high, too_low = p[low > rate].sum(), p[high < rate].sum()
            assert too_high <= level * (1 + 1e-9)
            assert too_low <= level * (1 + 1e-9)
            assert max(too_high, too_low) > 0.3 * level or rate == 0.003


def test_mu_bound_covers_for_every_threshold() -> None:
    for mu in [0.3, 1.0, 2.5]:
        rng = np.random.default_rng(7)
        t = rng.uniform(-1, 1 + mu, 2000)
        false, true = rng.binomial(300, stats.norm.sf(t)), rng.binomial(300, stats.norm.sf(t - mu))
        wrong = (mu_bound(false, true, 300, confidence=0.9) > mu).sum()
        assert wrong <= 2000 * 0.1 + 3 * math.sqrt(2000 * 0.09)


def test_epsilon_bound_covers_randomized_response() -> None:
    """Where the bound is attained: the rates are e^eps / (1 + e^eps) and its complement."""
    rng, epsilon = np.random.default_rng(8), 1.0
    p = 1 / (1 + math.exp(-epsilon))
    false, true = rng.binomial(500, 1 - p, 2000), rng.binomial(500, p, 2000)
    bounds = epsilon_bound(false, true, 500, 0.0, confidence=0.9)
    assert (bounds > epsilon).mean() <= 0.1
    assert bounds.mean() > 0.75 * epsilon


def test_bounds_are_finite_where_a_rate_cannot_be_ruled_out_and_zero_where_nothing_is_shown() -> None:
    """At the ends of the counts: a test that is never right proves nothing, and none proves infinity."""
    false, true = np.array([0, 3, 50, 100, 0, 100]), np.array([100, 60, 50, 0, 0, 100])
    for each in (mu_bound(false, true, 100), epsilon_bound(false, true, 100, 0.01), epsilon_bound(false, true, 100, 0)):
        assert (each[:2] > 0).all()
        assert np.isfinite(each).all()
        assert each[2:].tolist() == [0, 0, 0, 0]


def direct_p_value(v: int, r: int, m: int, epsilon: float, delta: float) -> float:
    """The formula of the paper, term by term."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    pmf = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    alpha = max((sum(pmf[max(0, v - i) : v]) / i for i in range(1, v + 1)), default=0.0)
    return min(1.0, sum(pmf[v:]) + 2 * m * delta * alpha)


def test_one_run_p_value_is_the_formula() -> None:
    for v, r, m in [(0, 0, 5), (3, 10, 10), (10, 10, 40), (18, 20, 100)]:
        for delta in [0.0, 1e-3]:
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


# -- by the trade-off curve of a claim -----------------------------------------------------------------------------


def test_the_curve_of_a_gaussian_claim_proves_more_than_its_epsilon_and_delta() -> None:
    """78 of 90 guesses about 450 canaries: epsilon >= 1.34 by (epsilon, delta), mu >= 0.55 by the curve, which is 2.22."""
    assert one_run_bound(78, 90, 450, 1e-5, 0.95) == pytest.approx(1.34, abs=0.01)
    mu = curve_bound(78, 90, 450, gaussian_trade_off, 0.95)
    assert gdp_epsilon(mu=mu, delta=1e-5) == pytest.approx(2.22, abs=0.01)
    assert curve_p_value(78, 90, 450, gaussian_trade_off(mu)) <= 0.05 * 1.001
    assert curve_p_value(78, 90, 450, gaussian_trade_off(mu + 1e-3)) > 0.05


def exact_curve(table: np.ndarray, bits: int) -> list[tuple[float, float]]:
    """(epsilon, delta(epsilon)) of a finite mechanism at every likelihood ratio of its neighbours. [2^bits, outputs]"""
    pairs = [(u, u ^ (1 << k)) for u in range(2**bits) for k in range(bits)]
    ratios = np.concatenate([np.log(table[u] / table[w]) for u, w in pairs])
    epsilons = np.unique(np.concatenate([[0.0], ratios[ratios > 0]]))
    return [
        (float(e), max(float(np.maximum(table[u] - math.exp(e) * table[w], 0).sum()) for u, w in pairs))
        for e in epsilons
    ]


def trade_off_of_points(points: list[tuple[float, float]]) -> Callable[[float], float]:
    """The curve of a mechanism that is (epsilon, delta)-DP for every one of these points.

    FPR >= e^-eps (TPR - delta) and 1 - FPR <= e^eps (1 - TPR) + delta (Kairouz, Oh and Viswanath 2015).
    """
    slopes = [(math.exp(-epsilon), math.exp(epsilon), delta) for epsilon, delta in points]
    return lambda tpr: max(
        0.0, *(max(low * (tpr - delta), 1 - delta - high * (1 - tpr)) for low, high, delta in slopes)
    )


def best_chance(table: np.ndarray, bits: int, guesses: int, correct: int) -> float:
    """P[at least ``correct`` of ``guesses`` are right] of the best adversary, who chooses which bits to guess."""
    truth = (np.arange(2**bits)[:, None] >> np.arange(bits)) & 1
    answers = [a for a in itertools.product((0, 1, -1), repeat=bits) if sum(g >= 0 for g in a) == guesses]
    right = np.array([((truth == np.array(a)) & (np.array(a) >= 0)).sum(axis=1) >= correct for a in answers])
    return float((right.astype(float) @ table / 2**bits).max(axis=0).sum())


def test_no_mechanism_and_no_adversary_exceed_the_p_value_of_its_own_curve() -> None:
    """Brute force: random mechanisms that use up their own curve, revealing ones among them, and all ways to guess."""
    for bits in [2, 3]:
        rng, close = np.random.default_rng(bits), 0.0
        for k in range(60):
            table = rng.dirichlet(np.full(4, rng.choice([0.1, 0.5, 3.0])), 2**bits) + 1e-6
            if k % 4 == 0:  # a mechanism that tells all with a small probability
                table = np.concatenate([0.9 * table, 0.1 * np.eye(2**bits) + 1e-9], axis=1)
            table /= table.sum(axis=1, keepdims=True)
            curve = trade_off_of_points(exact_curve(table, bits))
            for guesses in range(1, bits + 1):
                for correct in range(1, guesses + 1):
                    chance = best_chance(table, bits, guesses, correct)
                    bound = curve_p_value(correct, guesses, bits, curve)
                    assert chance <= bound * (1 + 1e-9)
                    close = max(close, chance / bound if bound < 1 else 0.0)
        assert close > 0.8, "the bound is nearly attained somewhere"


def surest_right(scores: np.ndarray, present: np.ndarray, each: int) -> np.ndarray:
    """Right guesses if the highest and as many lowest scores are guessed. [runs, m] -> [runs]"""
    order = np.argsort(scores, axis=1)
    low, high = (np.take_along_axis(present, part, axis=1) for part in (order[:, :each], order[:, -each:]))
    return (~low).sum(axis=1) + high.sum(axis=1)


def test_gaussian_claims_that_are_used_up_are_rarely_rejected() -> None:
    """A released value per canary; the sum of all bits; and both, each with half of the budget."""
    for mu in [0.3, 1.0, 2.0]:
        rng, m, runs = np.random.default_rng(11), 120, 400
        present = rng.random((runs, m)) < 0.5
        own = mu * present + rng.standard_normal((runs, m))
        total = mu * (present.sum(axis=1) - m / 2)[:, None]
        shared = np.sign(total + rng.standard_normal((runs, 1)))
        half = mu * present + math.sqrt(2) * rng.standard_normal((runs, m))
        half += np.sign(total + math.sqrt(2) * rng.standard_normal((runs, 1))) * 1e-3
        for scores in (own, half):
            for each in (3, 15, 60):
                correct = surest_right(scores, present, each)
                known = {int(v): curve_bound(int(v), 2 * each, m, gaussian_trade_off, 0.95) for v in np.unique(correct)}
                rejected = np.mean([known[int(v)] > mu for v in correct])
                assert rejected <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
        right = (present == (shared > 0)).sum(axis=1)  # the sum is one number, and tells on which side most bits are
        known = {int(v): curve_bound(int(v), m, m, gaussian_trade_off, 0.95) for v in np.unique(right)}
        assert np.mean([known[int(v)] > mu for v in right]) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


def test_most_of_a_gaussian_claim_is_proven_by_one_run() -> None:
    rng, mu, m = np.random.default_rng(12), 2.0, 1000
    present = rng.random((20, m)) < 0.5
    correct = surest_right(mu * present + rng.standard_normal((20, m)), present, 100)
    proven = [curve_bound(int(v), 200, m, gaussian_trade_off, 0.95) for v in correct]
    assert np.mean(proven) > 0.6 * mu
    loose = [one_run_bound(int(v), 200, m, 1e-5, 0.95) for v in correct]
    assert np.mean([gdp_epsilon(mu=p, delta=1e-5) for p in proven]) > 1.5 * np.mean(loose)
