"""Metrics: against scipy's Mann-Whitney test, and definitions by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from caribou.audit.metrics import (
    allowed_rates,
    area_interval,
    true_positive_rate,
)
from caribou.metrics import Scored, area_under_curve, average_precision
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.events import EpsilonDelta, Gaussian, NonPrivate


def normal(members: int, others: int, shift: float, seed: int = 0) -> Scored:
    rng = np.random.default_rng(seed)
    scores = np.concatenate([shift + rng.standard_normal(members), rng.standard_normal(others)])
    return Scored(scores, np.arange(members + others) < members)


def test_equal_scores_say_nothing() -> None:
    blind = Scored(np.zeros(1000), np.arange(1000) < 10)
    assert area_under_curve(blind) == 0.5
    assert average_precision(blind) == pytest.approx(0.01)
    assert [true_positive_rate(blind, rate) for rate in (0.001, 0.1, 1.0)] == [0, 0, 1]


def test_true_positive_rate_is_measured_not_interpolated() -> None:
    scored = Scored([5.0, 4.0, 3.0, 2.0, 1.0], [True, False, True, False, False])
    assert true_positive_rate(scored, 0.0) == 0.5
    assert true_positive_rate(scored, 0.33) == 0.5
    assert true_positive_rate(scored, 1 / 3) == 1.0


def test_interval_covers_the_true_area() -> None:
    """Gaussians at distance 1: AUC = Phi(1 / sqrt 2). At 95 % an interval misses in about one of 20 samples, not in half."""
    truth = float(stats.norm.cdf(1 / math.sqrt(2)))
    intervals = [area_interval(normal(40, 60, 1.0, seed)) for seed in range(400)]
    missed = np.mean([not low <= truth <= high for low, high in intervals])
    assert 0.01 < missed < 0.09
    assert all(0 <= low < high <= 1 for low, high in intervals)


def test_interval_of_a_perfect_attack_has_a_width() -> None:
    low, high = area_interval(normal(30, 50, 100.0))
    assert (low, high) == (pytest.approx(0.025 ** (1 / 30)), 1.0)
    assert area_interval(normal(30, 50, -100.0)) == (0.0, pytest.approx(1 - 0.025 ** (1 / 30)))


EDGE, NODE = Budget(1.0, 1e-5, "edge"), Budget(1.0, 1e-5, "node")


def test_what_certificates_allow() -> None:
    for budget in (EDGE, NODE):
        gaussian = allowed_rates([Gaussian(0.5)], budget, budget.unit)
        assert gaussian[0.01] == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.01) + 2))
        assert allowed_rates([EpsilonDelta(1.0)], budget, budget.unit)[0.01] == pytest.approx(math.e * 0.01)
        nothing = allowed_rates([], budget, budget.unit)
        assert nothing == {0.001: 0.001, 0.01: 0.01, 0.1: 0.1}, "nothing was released: guessing only"
        for events in ([NonPrivate()], None):
            assert set(allowed_rates(events, budget, budget.unit).values()) == {1.0}


def test_an_edge_is_two_steps_between_node_neighbours() -> None:
    """Gaussians: two steps of mu are one of 2 mu."""
    twice = stats.norm.cdf(stats.norm.ppf(0.01) + 2 * 0.5)
    assert allowed_rates([Gaussian(2.0)], NODE, PrivacyUnit.EDGE)[0.01] == pytest.approx(twice)
    assert set(allowed_rates([NonPrivate()], NODE, PrivacyUnit.EDGE).values()) == {1.0}
    about_nodes = allowed_rates([Gaussian(2.0)], EDGE, PrivacyUnit.NODE)
    assert set(about_nodes.values()) == {1.0}, "edge-level privacy promises nothing about nodes"
