"""A year of releases: what is planned is what a ledger accepts, and not more."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from caribou.errors import BudgetExceeded, InputError
from caribou.privacy.accounting import gdp_epsilon, gdp_mu
from caribou.privacy.budget import Budget
from caribou.privacy.events import EpsilonDelta, Event, Gaussian
from caribou.privacy.ledger import Ledger
from caribou.privacy.months import monthly_plans


def event(way: str, epsilon: float) -> Event:
    if "pure" in way or "extend" in way:
        return EpsilonDelta(epsilon)
    return Gaussian(1 / gdp_mu(epsilon=epsilon, delta=1e-5))


@pytest.mark.parametrize("unit", ["edge", "node"])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_a_ledger_accepts_every_planned_year_and_nothing_beyond(unit: str, epsilon: float, tmp_path: Path) -> None:
    budget = Budget(epsilon, unit=unit)
    for number, plan in enumerate(monthly_plans(budget, 12)):
        ledger = Ledger(tmp_path / f"{number}.sqlite")
        ledger.set_budget("people", budget)
        paid = [plan.first] + [plan.later] * (11 if plan.later else 0)
        for release in paid:
            ledger.charge("people", unit, [event(plan.way, release)], description=plan.way)
        spent = ledger.total("people", unit).epsilon_spent
        assert spent == pytest.approx(plan.presence, rel=1e-9)
        assert spent == pytest.approx(epsilon, rel=1e-3)
        with pytest.raises(BudgetExceeded):
            ledger.charge("people", unit, [event(plan.way, 0.05)], description="a thirteenth")


def test_two_steps_cost_twice_mu_or_twice_epsilon() -> None:
    edge = {plan.way: plan for plan in monthly_plans(Budget(2), 12)}
    assert edge["fit once, extend"].replacement == pytest.approx(4.0, rel=1e-3)
    node = monthly_plans(Budget(2, unit="node"), 12)[0]
    assert node.replacement == pytest.approx(gdp_epsilon(mu=2 * gdp_mu(epsilon=2, delta=1e-5), delta=1e-5), rel=1e-6)


def test_extending_leaves_each_month_what_a_year_has() -> None:
    edge = {plan.way: plan for plan in monthly_plans(Budget(8), 12)}
    assert (edge["fit once, extend"].first, edge["fit once, extend"].later) == (8.0, 0.0)
    assert edge["fit anew, pure noise"].first < 1
    assert edge["fit anew, Gaussian noise"].first < 2.1
    assert "extend" not in " ".join(plan.way for plan in monthly_plans(Budget(8, unit="node"), 12))


def test_one_month_is_one_release() -> None:
    for unit in ("edge", "node"):
        assert {plan.first for plan in monthly_plans(Budget(3, unit=unit), 1)} == {3.0}


def test_refusals() -> None:
    with pytest.raises(InputError, match="months must be"):
        monthly_plans(Budget(8), 0)
    with pytest.raises(InputError, match="first_share must be"):
        monthly_plans(Budget(8), 12, 1.5)
    with pytest.raises(InputError, match="epsilon must be finite"):
        monthly_plans(Budget(math.inf), 12)
