"""``caribou plan``: what depth costs, before any data is touched. Numbers only; no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from caribou.cli.command import as_json, command, option, record
from caribou.cli.options import DELTA, LayerOptions
from caribou.cli.output import print_json, print_line, print_table
from caribou.errors import InputError
from caribou.pages.planner import DEFAULT_HOPS, planned_budget
from caribou.pages.planner import plan as make_plan
from caribou.privacy.accounting import PAPER_RDP_ORDER
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.depth import PlanRow
from caribou.privacy.sensitivity import Sensitivity

HOPS = ",".join(map(str, DEFAULT_HOPS))


@record
class PlanOptions:
    """What caribou plan takes."""

    unit: str = option("What is protected: edge or node.", default="edge")
    epsilon: float | None = option("Total epsilon (default: 4).")
    attack_rate: float | None = option("Instead of --epsilon: the share that an attacker may find at most.")
    at_fpr: float = option(
        "The share of false alarms at which the attacker may find so many.", default=0.01, needs="--attack-rate"
    )
    delta: float | None = DELTA
    hops: str = option("Depths K, separated by commas.", default=HOPS)
    layer: LayerOptions
    nodes: int | None = option("Number of nodes n (node level).")
    columns: int | None = option("Columns d of the state: adds the expected length of the noise of one row.")
    rdp_order: float = option("Fixed order of the paper's Renyi accounting.", default=PAPER_RDP_ORDER)
    months: int | None = option(
        "Plan so many monthly releases about the same people within one epsilon, instead of depth."
    )
    first_share: float = option(
        "The fit's share of epsilon, where later months are predicted with less.", default=0.5, needs="--months"
    )
    html: Path | None = option("Write the planner to this file: a page that needs no network, with controls to move.")
    method: str | None = option("The method that is chosen at first.", needs="--html")
    as_json: bool = as_json()


@command
def plan(given: PlanOptions) -> None:
    """Show what depth costs: sensitivity, kappa, mu and noise for each number of hops.

    Compares exact GDP of the convergent bound (ours), the paper's Renyi accounting and linear composition. Touches no data. With
    --months: the ways to make a release every month within --epsilon, by the ledger's own composition. With --html: a page on
    which other values can be tried.

    Example: caribou plan --unit edge --epsilon 4 --delta 1e-5 --hops 1,4,16,64 --contraction 0.9 --degree-floor 10
    """
    if given.months is not None and given.html is None:
        budget = planned_budget(given.epsilon, given.delta, given.unit, given.attack_rate, given.at_fpr)
        _months(budget, given.months, given.first_share, given.as_json)
        return
    plan = make_plan(
        given.epsilon,
        given.delta,
        given.unit,
        attack_rate=given.attack_rate,
        at_fpr=given.at_fpr,
        hops=parse_hops(given.hops),
        **asdict(given.layer),
        nodes=given.nodes,
        columns=given.columns,
        rdp_order=given.rdp_order,
    )
    notes = list(plan.notes)
    if given.layer.degree_cap is not None and plan.budget.unit is PrivacyUnit.EDGE:
        notes.insert(len(notes) - 1, "The degree cap has no effect at edge level.")
    if given.html is not None:
        plan.html(given.html, method=given.method, months=given.months or 12)
    if given.as_json:
        print_json({**plan.to_dict(), "notes": notes})
        return
    print_line((str(plan.budget), "bold"))
    print_line(_layer_words(plan.sensitivity))
    print_line(f"sensitivity {plan.sensitivity.value:.4g}, mu = {plan.rows[0].mu:.4g}")
    _print_depths(plan.rows, given.rdp_order)
    curve = plan.epsilon_by_degree
    if curve and curve[0][1] != curve[-1][1]:
        covered = plan.sensitivity.bounds.covered_degree
        caption = f"epsilon of a node by its degree, in every graph; the headline holds up to degree {covered}"
        titles, epsilons = ["degree", *(str(d) for d, _ in curve)], ["epsilon", *(f"{e:.3g}" for _, e in curve)]
        print_table(titles, [epsilons], caption, numbers=True)
    for note in notes:
        print_line((note, "dim"))
    if given.html is not None:
        print_line(f"saved {given.html}")


def _months(budget: Budget, months: int, first_share: float, as_json: bool) -> None:
    """The table of `caribou.privacy.months`."""
    from caribou.privacy.months import monthly_plans

    plans = monthly_plans(budget, months, first_share)
    if as_json:
        numbers = {"unit": budget.unit.value, "epsilon": budget.epsilon, "delta": budget.delta, "months": months}
        print_json({**numbers, "plans": [asdict(plan) for plan in plans]})
        return
    rows = []
    for plan in plans:
        later = "nothing" if plan.later == 0 else f"{plan.later:.3g}"
        figures = (f"{plan.first:.3g}", later, f"{plan.presence:.3g}", f"{plan.replacement:.3g}")
        rows.append((f"{plan.way} ({plan.methods})", *figures))
    print_line((f"{budget}, {months} months", "bold"))
    titles = ("every month", "first", "later", "all: presence", "all: replacement")
    print_table(titles, rows, "epsilon of one release, and of all of them together", numbers=True)


def parse_hops(text: str) -> list[int]:
    """``1,2,4`` as numbers; anything else is an error that shows the text."""
    if not all(part.strip().isdecimal() and int(part) >= 1 for part in text.split(",")):
        raise InputError(f"hops must be whole numbers >= 1 separated by commas, got {text!r}")
    return [int(part) for part in text.split(",")]


def _layer_words(sensitivity: Sensitivity) -> str:
    b, alpha1 = sensitivity.bounds, dict(sensitivity.parameters)["alpha1"]
    cap = "" if b.degree_cap is None else f", degree cap {b.degree_cap}"
    return f"C_L = {sensitivity.contraction:g}, alpha1 = {alpha1:g}, degree floor {b.degree_floor}{cap}"


def _print_depths(rows: Sequence[PlanRow], rdp_order: float) -> None:
    caption = "std: noise per entry; columns x: noise per unit of sensitivity"
    titles = ["K", "kappa", "std", "x ours", "x linear", f"x RDP {rdp_order:g}", "x RDP best", "x RDP linear"]
    cells = []
    for row in rows:
        multipliers = (
            row.noise_multiplier,
            row.linear_gdp_noise_multiplier,
            row.rdp_fixed_noise_multiplier,
            row.rdp_best_noise_multiplier,
            row.linear_noise_multiplier,
        )
        cells.append([str(row.hops), f"{row.kappa:.3f}", f"{row.noise_std:.3g}", *map(_multiplier, multipliers)])
    if rows[0].noise_length is not None:
        titles, caption = [*titles[:3], "row", *titles[3:]], f"{caption}; row: length of one row of noise"
        cells = [[*cell[:3], f"{row.noise_length:.3g}", *cell[3:]] for cell, row in zip(cells, rows, strict=True)]
    print_table(titles, cells, caption, numbers=True)


def _multiplier(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
