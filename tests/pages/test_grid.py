"""The figures behind the planner's page are those of the library, at every position of its controls."""

from __future__ import annotations

import pytest

from caribou.pages import grid
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.depth import degree_curve, plan_rows
from caribou.privacy.events import EpsilonDelta, Gaussian
from caribou.privacy.months import monthly_plans
from caribou.privacy.plan import attack_success
from caribou.privacy.sensitivity import declared_bounds, layer_sensitivity


def test_the_figures_of_the_grid_are_those_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every position: a table whose order is mixed up is found out."""
    for name, few in {"EPSILONS": (0.5,), "MONTHS": (3,), "CONTRACTIONS": (0.5, 1.0)}.items():
        monkeypatch.setattr(grid, name, few)
    asked = grid.Grid.around(
        Budget(2.0, 1e-6, "node"), declared_bounds("node", nodes=300, degree_floor=30), hops=(5,), alpha1=0.8, months=7
    )
    found = grid.tables(asked)
    assert (asked.epsilons, asked.months, 5 in asked.hops) == ((0.5, 2.0), (3, 7), True)
    for e, epsilon in enumerate(asked.epsilons):
        figures = found["budgets"][e]
        for unit in PrivacyUnit:
            budget = Budget(epsilon, 1e-6, unit)
            for m, months in enumerate(asked.months):
                plans = monthly_plans(budget, months)
                assert [way[0] for way in figures["months"][unit.value][m]] == [plan.way for plan in plans]
                assert [way[2] for way in figures["months"][unit.value][m]] == pytest.approx(
                    [p.later for p in plans], 1e-4
                )
            for b, bounds in enumerate(asked.bounds[unit]):
                for c, contraction in enumerate(asked.contractions):
                    layer = found["layers"][unit.value][b][c]
                    step = layer_sensitivity(unit, contraction=contraction, alpha1=0.8, beta=0.0, bounds=bounds)
                    rows = plan_rows(budget, step, list(asked.hops))
                    assert layer["noise"][e][0] == pytest.approx([row.noise_std for row in rows], 1e-4)
                    assert layer["kappa"] == pytest.approx([row.kappa for row in rows], 1e-4)
                    if unit is PrivacyUnit.NODE:
                        curve = dict(zip(found["degrees"], layer["by_degree"][e], strict=True))
                        for degree, value in degree_curve(budget, step):
                            assert curve[degree] == pytest.approx(value, 1e-4)
        mu = budget_mu(Budget(epsilon, 1e-6))
        for kind, event in (("gaussian", Gaussian(1 / mu)), ("pure", EpsilonDelta(epsilon))):
            assert figures["attack"][kind]["stated"] == attack_success([event], 1e-6)


def test_every_declaration_of_the_lists_holds_for_any_number_of_nodes() -> None:
    for nodes in (1, 2, 5, 30, None):
        for unit in PrivacyUnit:
            bounds = declared_bounds(unit, nodes=nodes, degree_cap=7 if unit is PrivacyUnit.NODE else None)
            asked = grid.Grid.around(Budget(1.0, unit=unit), bounds)
            words = [grid.bounds_words(unit, found) for found in asked.bounds[unit]]
            assert len(set(words)) == len(words)
            assert bounds in asked.bounds[unit]
