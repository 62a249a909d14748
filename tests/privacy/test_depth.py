"""What depth costs: the rows against their closed forms, the paper's table, and what is the same at one hop."""

from __future__ import annotations

import math

import pytest

from caribou.errors import InputError
from caribou.privacy.accounting import gdp_epsilon, gdp_mu
from caribou.privacy.budget import Budget
from caribou.privacy.depth import degree_curve, plan_rows
from caribou.privacy.sensitivity import Bounds, convergence_factor, layer_sensitivity

SENSITIVITY = layer_sensitivity("edge", contraction=0.9, alpha1=1.0, beta=0.0, bounds=Bounds(degree_floor=10))


def test_rows_follow_from_mu_and_kappa() -> None:
    budget = Budget(4.0, 1e-5)
    rows = plan_rows(budget, SENSITIVITY, [1, 4, 64], columns=16)
    mu = gdp_mu(epsilon=4.0, delta=1e-5)
    for row in rows:
        kappa = convergence_factor(hops=row.hops, contraction=0.9)
        assert row.noise_multiplier == pytest.approx(math.sqrt(kappa) / mu, rel=1e-9)
        assert row.linear_gdp_noise_multiplier == pytest.approx(math.sqrt(row.hops) / mu, rel=1e-9)
        assert row.noise_std == pytest.approx(SENSITIVITY.value * row.noise_multiplier)
        assert row.noise_length == pytest.approx(4 * row.noise_std)
        # the noise of the row is worth the budget, by the bound of Theorem 1
        spent = gdp_epsilon(mu=SENSITIVITY.value * math.sqrt(kappa) / row.noise_std, delta=1e-5)
        assert spent == pytest.approx(4.0, rel=1e-6)
    assert [row.hops for row in rows] == [1, 4, 64]
    assert plan_rows(budget, SENSITIVITY, [1])[0].noise_length is None


def test_one_hop_costs_the_same_under_convergent_and_linear_composition() -> None:
    (row,) = plan_rows(Budget(4.0, 1e-5), SENSITIVITY, [1])
    assert row.kappa == 1
    assert row.noise_multiplier == pytest.approx(row.linear_gdp_noise_multiplier)
    assert row.rdp_noise_multiplier == pytest.approx(row.linear_noise_multiplier)


def test_the_papers_table_and_the_order_that_it_fixes() -> None:
    """CARIBOU paper, noise table: Delta = 1, C_L = 0.9, epsilon = 4, delta = 1e-3, order 6."""
    rows = plan_rows(Budget(4.0, 1e-3), SENSITIVITY, [1, 128])
    assert rows[0].rdp_noise_multiplier == pytest.approx(1.07, abs=0.005)
    assert (rows[1].rdp_noise_multiplier, rows[1].linear_noise_multiplier) == (
        pytest.approx(4.67, abs=0.005),
        pytest.approx(12.11, abs=0.005),
    )
    assert all(r.noise_multiplier < r.rdp_best_noise_multiplier <= r.rdp_noise_multiplier for r in rows)
    (small,) = plan_rows(Budget(0.5, 1e-5), SENSITIVITY, [2])
    assert small.rdp_fixed_noise_multiplier is None, "order 6 is infeasible here"
    assert small.rdp_noise_multiplier == small.rdp_best_noise_multiplier
    assert small.rdp_order > 6


def test_depth_needs_hops_of_at_least_one() -> None:
    with pytest.raises(InputError, match="hops must be a whole number >= 1, got 0"):
        plan_rows(Budget(1.0), SENSITIVITY, [0])


def test_the_curve_by_degree_meets_the_headline_at_the_declared_degree() -> None:
    bounds = Bounds(degree_floor=20, nodes=500, declared_degree=30)
    layer = layer_sensitivity("node", contraction=0.9, alpha1=1.0, beta=0.0, bounds=bounds)
    curve = dict(degree_curve(Budget(3.0, 1e-6, "node"), layer))
    assert list(curve) == [0, 1, 2, 5, 10, 20, 30, 50, 100, 499]
    assert curve[30] == pytest.approx(3.0, rel=1e-6)
    assert curve[0] < curve[20] < 3.0 < curve[50] < curve[499]
