"""The figures behind the planner's page: all of them, at every position of its controls, computed by the library.

A page cannot import Python, and a second calculus in JavaScript would have to be believed, too. So each control has a few
positions, among them what was asked for, and `tables` holds what the library says at each. The page shows these figures and
computes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from caribou.privacy.accounting import attack_rate
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.depth import degree_curve, plan_rows
from caribou.privacy.events import EpsilonDelta, Event, Gaussian
from caribou.privacy.months import monthly_plans
from caribou.privacy.plan import attack_success, curve_degrees
from caribou.privacy.sensitivity import Bounds, Sensitivity, declared_bounds, layer_sensitivity

EPSILONS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0)
HOPS = (1, 2, 3, 4, 8, 16, 32, 64, 128)
CONTRACTIONS = (0.5, 0.8, 0.9, 0.95, 1.0)
MONTHS = (1, 12, 24)
DECLARED: Mapping[PrivacyUnit, tuple[dict[str, int], ...]] = {
    PrivacyUnit.EDGE: tuple({"degree_floor": floor} for floor in (0, 5, 10, 20, 50, 100)),
    PrivacyUnit.NODE: (
        {},
        {"declared_degree": 20},
        {"declared_degree": 100},
        {"degree_cap": 10},
        {"degree_cap": 20},
        {"degree_cap": 50},
    ),
}
"""What is declared about degrees, to choose from; everything else has its default."""
RATES = tuple(float(f"{10 ** (-3 + k / 20):.4g}") for k in range(61))
"""Shares of false alarms, from 1 in 1000 to all."""
KINDS = ("gaussian", "pure")


@dataclass(frozen=True)
class Grid:
    """The positions of the controls. ``delta``, ``alpha1``, ``nodes`` and ``rdp_order`` are the same on the whole page.

    >>> grid = Grid.around(Budget(5.0), declared_bounds("edge", nodes=1000), hops=(8,))
    >>> grid.epsilons[7:10], [b.degree_floor for b in grid.bounds[PrivacyUnit.EDGE]][:2]
    ((4.0, 5.0, 6.0), [0, 5])
    """

    delta: float
    alpha1: float
    rdp_order: float
    epsilons: tuple[float, ...]
    hops: tuple[int, ...]
    contractions: tuple[float, ...]
    bounds: Mapping[PrivacyUnit, tuple[Bounds, ...]]
    months: tuple[int, ...]

    @classmethod
    def around(
        cls,
        budget: Budget,
        bounds: Bounds,
        *,
        hops: Sequence[int] = (),
        contraction: float = 0.9,
        alpha1: float = 1.0,
        months: int = 12,
        rdp_order: float = 6.0,
        usual_nodes: int = 1000,
    ) -> Grid:
        """The usual positions, and those of a plan among them. ``usual_nodes``: at node level, where no number is declared."""
        nodes = {PrivacyUnit.EDGE: bounds.nodes, PrivacyUnit.NODE: bounds.nodes or usual_nodes}
        choices = {
            unit: [
                declared_bounds(unit, nodes=nodes[unit], **given)
                for given in DECLARED[unit]
                if _fits(given, nodes[unit])
            ]
            for unit in DECLARED
        }
        if bounds not in choices[budget.unit]:
            choices[budget.unit].append(bounds)
        return cls(
            budget.delta,
            alpha1,
            rdp_order,
            _with(EPSILONS, budget.epsilon),
            _with(HOPS, *hops),
            _with(CONTRACTIONS, contraction),
            {unit: tuple(sorted(set(found), key=_order)) for unit, found in choices.items()},
            _with(MONTHS, months),
        )

    def budget(self, epsilon: float, unit: PrivacyUnit = PrivacyUnit.EDGE) -> Budget:
        """A budget of the page."""
        return Budget(epsilon, self.delta, unit)

    def sensitivity(self, unit: PrivacyUnit, bounds: Bounds, contraction: float) -> Sensitivity:
        """Of one step of the contractive layer."""
        return layer_sensitivity(unit, contraction=contraction, alpha1=self.alpha1, beta=0.0, bounds=bounds)

    @property
    def degrees(self) -> list[int]:
        """Of a node, for the curve by degree."""
        found = self.bounds[PrivacyUnit.NODE]
        return sorted({d for bounds in found for d in curve_degrees(bounds.nodes, bounds.covered_degree)})


def _with(usual: Iterable[Any], *own: Any) -> tuple[Any, ...]:
    return tuple(sorted({*usual, *own}))


def _fits(given: Mapping[str, int], nodes: int | None) -> bool:
    """Whether a node can have so many neighbours."""
    return nodes is None or all(value < nodes for value in given.values())


def _order(bounds: Bounds) -> tuple[int, int, int]:
    return bounds.degree_cap or 0, bounds.declared_degree or 0, bounds.degree_floor


def bounds_words(unit: PrivacyUnit, bounds: Bounds) -> str:
    """What is declared about degrees, for a list to choose from.

    >>> bounds_words(PrivacyUnit.NODE, declared_bounds("node", nodes=1000, degree_cap=20))
    'cap 20, floor 20: headline up to 20 neighbours'
    """
    if unit is PrivacyUnit.EDGE:
        return f"floor {bounds.degree_floor}" if bounds.degree_floor else "no floor"
    cap = "no cap" if bounds.degree_cap is None else f"cap {bounds.degree_cap}"
    everyone = not bounds.cuts and bounds.covered_degree >= bounds.largest_degree
    whom = "every node" if everyone else f"headline up to {bounds.covered_degree} neighbours"
    return f"{cap}, floor {bounds.degree_floor}: {whom}"


# -- the tables -----------------------------------------------------------------------------------------------------


def tables(grid: Grid) -> dict[str, Any]:
    """Every figure of the page, as plain JSON values in the order of the positions; figures have five digits.

    ``budgets``: by epsilon. ``layers``: by unit, declaration and contraction; in each ``noise``: by epsilon, then a list per
    accounting (convergent exact, linear exact, convergent RDP, linear RDP) by hops, and ``by_degree``: by epsilon and degree.
    """
    return {
        "rates": RATES,
        "degrees": grid.degrees,
        "budgets": [_budget(grid, epsilon) for epsilon in grid.epsilons],
        "layers": {
            unit.value: [[_layer(grid, unit, bounds, C) for C in grid.contractions] for bounds in choices]
            for unit, choices in grid.bounds.items()
        },
    }


def _short(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def _event(kind: str, budget: Budget) -> Event:
    """A release that spends the whole budget."""
    return Gaussian(1 / budget_mu(budget)) if kind == "gaussian" else EpsilonDelta(budget.epsilon)


def _budget(grid: Grid, epsilon: float) -> dict[str, Any]:
    budget = grid.budget(epsilon)
    return {
        "mu": budget_mu(budget),
        "attack": {kind: _attack(kind, budget) for kind in KINDS},
        "months": {
            unit.value: [
                [
                    [plan.way, *_short((plan.first, plan.later, plan.presence, plan.replacement))]
                    for plan in monthly_plans(grid.budget(epsilon, unit), months)
                ]
                for months in grid.months
            ]
            for unit in PrivacyUnit
        },
    }


def _attack(kind: str, budget: Budget) -> dict[str, Any]:
    """What an attacker finds by share of false alarms, and what noise of the other kind with the same budget would allow."""
    found = attack_success([_event(kind, budget)], budget.delta, RATES)
    stated = attack_success([_event(kind, budget)], budget.delta)
    other = [
        attack_rate(epsilon=budget.epsilon, delta=budget.delta, false_positive_rate=rate, gaussian=kind == "pure")
        if rate < 1
        else 1.0
        for rate in RATES
    ]
    lines = {question: _short(rates.values()) for question, rates in found.items()}
    return {**lines, "other": _short(other), "stated": stated}


def _layer(grid: Grid, unit: PrivacyUnit, bounds: Bounds, contraction: float) -> dict[str, Any]:
    step = grid.sensitivity(unit, bounds, contraction)
    rows = [plan_rows(grid.budget(e, unit), step, list(grid.hops), grid.rdp_order) for e in grid.epsilons]
    noise = [
        [
            _short(row.noise_std for row in found),
            _short(row.linear_gdp_noise_multiplier * row.sensitivity for row in found),
            _short(row.rdp_noise_multiplier * row.sensitivity for row in found),
            _short(row.linear_noise_multiplier * row.sensitivity for row in found),
        ]
        for found in rows
    ]
    layer = {"sensitivity": step.value, "kappa": _short(row.kappa for row in rows[0]), "noise": noise}
    if unit is PrivacyUnit.NODE:
        curves = [degree_curve(grid.budget(e, unit), step, grid.degrees) for e in grid.epsilons]
        layer["by_degree"] = [_short(epsilon for _, epsilon in curve) for curve in curves]
    return layer
