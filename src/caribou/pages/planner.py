"""The planner: what a budget buys, before any data is touched. Numbers in Python, and a page on which they can be compared.

>>> import caribou as cb
>>> plan = cb.plan(4, hops=[1, 8, 64], degree_floor=20)
>>> [round(row.noise_multiplier, 2) for row in plan.rows]
[1.08, 2.97, 4.71]
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from caribou._validate import MAX_ROUNDS, integer, one_of
from caribou.errors import InputError
from caribou.machine.notebook import html_table
from caribou.methods.catalogue import METHODS, resolve
from caribou.pages.base import render, write_page
from caribou.pages.palette import MARKERS
from caribou.privacy.accounting import PAPER_RDP_ORDER
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.depth import PlanRow, degree_curve, plan_rows
from caribou.privacy.months import MonthlyPlan, monthly_plans
from caribou.privacy.sensitivity import Bounds, Sensitivity, declared_bounds, layer_sensitivity

DEFAULT_HOPS = (1, 2, 4, 8, 16, 32, 64, 128)

NOISE = {name: info.noise for name, info in METHODS.items() if info.noise is not None}
"""What a whole release with a method's default settings is: mu-GDP, or pure epsilon-DP. Others have no curve in closed form."""

USUAL_NODES = 1000
"""Of a page where no number of nodes is declared: it needs one for node level."""


@dataclass(frozen=True)
class Plan:
    """What a budget buys with the contractive layer, from declared values alone.

    Args:
        budget: epsilon, delta and unit.
        sensitivity: of one step, with its theorem and the declared bounds.
        rows: the cost of each depth.
        rdp_order: of the paper's accounting.
        epsilon_by_degree: what a node of each degree gets, in every graph; empty at edge level.
        attack_rate, at_fpr: the risk that the budget follows from; None where epsilon was given.

    >>> found = plan(2, unit="node", nodes=1000, hops=[4])
    >>> found.sensitivity.bounds.degree_floor, round(found.rows[0].noise_std, 2)
    (64, 4.51)
    """

    budget: Budget
    sensitivity: Sensitivity
    rows: tuple[PlanRow, ...]
    rdp_order: float = PAPER_RDP_ORDER
    epsilon_by_degree: tuple[tuple[int, float], ...] = ()
    attack_rate: float | None = None
    at_fpr: float = 0.01

    def months(self, count: int = 12, first_share: float = 0.5) -> tuple[MonthlyPlan, ...]:
        """The ways to make a release in every month within the budget (`caribou.privacy.months.monthly_plans`).

        >>> round(plan(8).months(12)[1].later, 3)
        0.667
        """
        return monthly_plans(self.budget, count, first_share)

    @property
    def risk(self) -> dict[str, float] | None:
        """The largest epsilon at which an attacker finds at most the given rate: of a Gaussian release, and of any."""
        if self.attack_rate is None:
            return None
        rate, fpr, delta = self.attack_rate, self.at_fpr, self.budget.delta
        return {
            "gaussian": Budget.for_risk(rate, fpr, delta=delta, gaussian=True).epsilon,
            "any": Budget.for_risk(rate, fpr, delta=delta).epsilon,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said besides, in sentences."""
        notes = [] if self.risk is None else [risk_words(self.attack_rate, self.at_fpr, self.risk)]
        loud = [str(row.hops) for row in self.rows if row.noise_length is not None and row.noise_length > 1]
        if loud:
            notes.append(
                f"At K = {', '.join(loud)} the noise of a row is longer than any signal (1): use fewer columns, fewer hops "
                "or a larger degree floor."
            )
        if self.rows[0].rdp_fixed_noise_multiplier is None:
            notes.append(
                f"Order {self.rdp_order:g} leaves nothing at this epsilon and delta; RDP and linear composition use the best "
                f"order, {self.rows[0].rdp_order:.2f}."
            )
        if self.budget.unit is PrivacyUnit.NODE:
            notes.append(
                "Node level: this is the price of propagation alone, if it got the whole budget; training encoder and "
                "classifier costs more."
            )
        notes.append(
            "A release adds the bound on its rounding error (for 10^6 entries about 1e-4 of the noise or less)."
        )
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        bounds, chosen = self.sensitivity.bounds, {}
        if self.risk is not None:
            chosen = {"attack_rate": self.attack_rate, "at_fpr": self.at_fpr, "epsilon_for_risk": self.risk}
        return {
            "unit": self.budget.unit.value,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "contraction": self.sensitivity.contraction,
            "alpha1": dict(self.sensitivity.parameters)["alpha1"],
            "degree_floor": bounds.degree_floor,
            "degree_cap": bounds.degree_cap,
            "declared_degree": bounds.declared_degree,
            "nodes": bounds.nodes,
            "epsilon_by_degree": [list(point) for point in self.epsilon_by_degree],
            "theorem": self.sensitivity.theorem,
            "rows": [asdict(row) for row in self.rows],
            "notes": list(self.notes),
            **chosen,
        }

    def _repr_html_(self) -> str:
        rows = [
            (row.hops, f"{row.kappa:.3f}", f"{row.noise_std:.3g}", f"{row.linear_gdp_noise_multiplier:.3g}")
            for row in self.rows
        ]
        return html_table(str(self.budget), rows, ("K", "kappa", "std", "x linear"))

    def html(self, path: str | os.PathLike[str], *, method: str | None = None, months: int = 12) -> None:
        """Write the planner, one HTML file that needs no network and no server, with this plan as its first setting.

        Args:
            path: the file; one that is there is replaced.
            method: chosen at first, by family or full name; None: votes.
            months: shown at first.
        """
        write_page(path, lambda: page(self, method, months))


def plan(
    epsilon: float | None = None,
    delta: float | None = None,
    unit: PrivacyUnit | str = PrivacyUnit.EDGE,
    *,
    attack_rate: float | None = None,
    at_fpr: float = 0.01,
    hops: Sequence[int] = DEFAULT_HOPS,
    contraction: float = 0.9,
    alpha1: float = 1.0,
    degree_floor: int | None = None,
    degree_cap: int | None = None,
    declared_degree: int | None = None,
    nodes: int | None = None,
    columns: int | None = None,
    rdp_order: float = PAPER_RDP_ORDER,
) -> Plan:
    """What depth costs, and what a budget means, before any data is touched.

    Args:
        epsilon, delta: the budget; 4 and the default delta if neither epsilon nor a rate is given.
        unit: "edge" or "node".
        attack_rate: instead of epsilon, the share that an attacker may find at most at the share ``at_fpr`` of false alarms.
        at_fpr: see there.
        hops: depths K.
        contraction: C_L in (0, 1].
        alpha1: weight of the neighbours; the rest goes to the mean.
        degree_floor, degree_cap, declared_degree, nodes: what is declared about the graph (`caribou.Bounds`). Cap and declared
            degree are of node level.
        columns: of the state; adds the expected length of one row of noise.
        rdp_order: of the paper's accounting.

    Returns:
        A `Plan`: ``rows``, ``months()``, and ``html(path)`` for a page to move everything on.

    >>> plan(unit="node", nodes=2708, hops=[2]).epsilon_by_degree[-1][0]
    2707
    """
    unit = PrivacyUnit.parse(unit)
    budget = planned_budget(epsilon, delta, unit, attack_rate, at_fpr)
    if not budget.is_private:
        raise InputError("epsilon must be finite to plan noise (inf means no privacy, hence no noise), got inf")
    if not (rdp_order > 1 and math.isfinite(rdp_order)):
        raise InputError(f"rdp_order must be a finite number > 1, got {rdp_order!r}")
    if columns is not None:
        integer(at_least=1, columns=columns)
    node = unit is PrivacyUnit.NODE
    bounds = declared_bounds(
        unit,
        nodes=nodes,
        degree_floor=degree_floor,
        degree_cap=degree_cap if node else None,
        declared_degree=declared_degree if node else None,
    )
    sensitivity = layer_sensitivity(unit, contraction=contraction, alpha1=alpha1, beta=0.0, bounds=bounds)
    depths = sorted({integer(at_least=1, hops=K) for K in hops})
    if not depths:
        raise InputError("hops must be whole numbers >= 1, got none")
    rows = tuple(plan_rows(budget, sensitivity, depths, rdp_order, columns))
    curve = degree_curve(budget, sensitivity) if node else ()
    return Plan(budget, sensitivity, rows, rdp_order, curve, attack_rate, at_fpr)


def planned_budget(
    epsilon: float | None, delta: float | None, unit: PrivacyUnit | str, attack_rate: float | None, at_fpr: float
) -> Budget:
    """The budget of a plan: as it is given, or what follows from the most that an attacker may find."""
    if attack_rate is None:
        return Budget(4.0 if epsilon is None else epsilon, delta, unit)
    if epsilon is not None:
        raise InputError(f"attack_rate must not go with --epsilon, which follows from it, got {attack_rate!r}")
    return Budget.for_risk(attack_rate, at_fpr, delta=delta, unit=unit, gaussian=True)


def risk_words(rate: float | None, fpr: float, risk: dict[str, float]) -> str:
    """The advice in one sentence."""
    return (
        f"An attacker who may be wrong {100 * fpr:g} times in 100 finds at most {100 * (rate or 0):g} of 100 at epsilon = "
        f"{risk['gaussian']:.3g} with Gaussian noise (planned here), and at epsilon = {risk['any']:.3g} with any mechanism, "
        "such as votes-edp."
    )


# -- the page ------------------------------------------------------------------------------------------------------


def page(plan: Plan, method: str | None = None, months: int = 12) -> str:
    """The planner as one HTML text."""
    from caribou.pages.grid import Grid, bounds_words, tables

    unit, bounds = plan.budget.unit, plan.sensitivity.bounds
    method = resolve("votes" if method is None else method, unit)
    one_of(tuple(name for name in NOISE if METHODS[name].unit is unit), method=method)
    integer(at_least=1, at_most=MAX_ROUNDS, months=months)
    nodes = USUAL_NODES if bounds.nodes is None else bounds.nodes
    hops = plan.rows[-1].hops if len(plan.rows) == 1 else 8
    grid = Grid.around(
        plan.budget,
        bounds,
        hops=(hops,),
        contraction=plan.sensitivity.contraction,
        alpha1=dict(plan.sensitivity.parameters)["alpha1"],
        months=months,
        rdp_order=plan.rdp_order,
        usual_nodes=nodes,
    )
    chosen: dict[str, tuple[Sequence[float], float]] = {
        "epsilon": (grid.epsilons, plan.budget.epsilon),
        "hops": (grid.hops, hops),
        "contraction": (grid.contractions, plan.sensitivity.contraction),
        "months": (grid.months, months),
        "t": (grid.degrees, max(degree for degree in grid.degrees if degree <= 20)),
    }
    positions = {name: values for name, (values, _) in chosen.items()}
    first = {name: values.index(value) for name, (values, value) in chosen.items()}
    data = {
        **tables(grid),
        "positions": positions,
        "markers": MARKERS,
        "methods": {name: [METHODS[name].unit.value, noise, METHODS[name].controls] for name, noise in NOISE.items()},
        "delta": grid.delta,
        "alpha1": grid.alpha1,
        "nodes": nodes,
        "bounds": {u.value: [_declared(b, nodes) for b in choices] for u, choices in grid.bounds.items()},
    }
    return render(
        "planner.html",
        title="CARIBOU: planner",
        scripts=("page.js", "charts.js", "planner.js"),
        data=data,
        first={**first, "unit": unit.value, "method": method, "bounds": grid.bounds[unit].index(bounds)},
        positions=positions,
        choices={u: [bounds_words(u, bounds) for bounds in grid.bounds[u]] for u in PrivacyUnit},
        methods={u: [name for name in NOISE if METHODS[name].unit is u] for u in PrivacyUnit},
        fixed=grid,
        nodes=nodes,
    )


def _declared(bounds: Bounds, nodes: int) -> dict[str, Any]:
    """What a command is given for these bounds, and up to which degree the headline holds."""
    given = {
        "degree_floor": bounds.degree_floor,
        "degree_cap": bounds.degree_cap,
        "declared_degree": bounds.declared_degree,
    }
    covered = nodes - 1 if bounds.nodes is None and not bounds.cuts else bounds.covered_degree
    return {"given": {name: value for name, value in given.items() if value is not None}, "covered": covered}
