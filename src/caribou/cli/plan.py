"""``caribou plan``: what depth costs, before any data is touched. Numbers only; no torch."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from caribou._files import atomic_file
from caribou._validate import integer
from caribou.cli.options import DeclaredDegree, DegreeCap, DegreeFloor
from caribou.errors import InputError
from caribou.privacy.accounting import PAPER_RDP_ORDER, gdp_epsilon
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.depth import PlanRow, plan_rows
from caribou.privacy.plan import curve_degrees
from caribou.privacy.sensitivity import Sensitivity, declared_bounds, layer_sensitivity

if TYPE_CHECKING:
    from rich.table import Table

DEFAULT_HOPS = "1,2,4,8,16,32,64,128"


def plan(
    unit: Annotated[str, typer.Option(help="What is protected: edge or node.")] = "edge",
    epsilon: Annotated[float | None, typer.Option(help="Total epsilon (default: 4).", show_default=False)] = None,
    attack_rate: Annotated[
        float | None,
        typer.Option(help="Instead of --epsilon: the share that an attacker may find at most.", show_default=False),
    ] = None,
    at_fpr: Annotated[
        float,
        typer.Option(help="With --attack-rate: the share of false alarms at which the attacker may find so many."),
    ] = 0.01,
    delta: Annotated[float | None, typer.Option(help="Total delta (default: 1e-05).", show_default=False)] = None,
    hops: Annotated[str, typer.Option(help="Depths K, separated by commas.")] = DEFAULT_HOPS,
    contraction: Annotated[float, typer.Option(help="C_L in (0, 1]: the Lipschitz constant of a layer.")] = 0.9,
    alpha1: Annotated[float, typer.Option(help="Weight of the neighbours; 1 - alpha1 goes to the mean.")] = 1.0,
    degree_floor: DegreeFloor = None,
    degree_cap: DegreeCap = None,
    declared_degree: DeclaredDegree = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes n (node level).")] = None,
    columns: Annotated[
        int | None, typer.Option(help="Columns d of the state: adds the expected length of the noise of one row.")
    ] = None,
    rdp_order: Annotated[float, typer.Option(help="Fixed order of the paper's Renyi accounting.")] = PAPER_RDP_ORDER,
    months: Annotated[
        int | None,
        typer.Option(help="Plan so many monthly releases about the same people within one epsilon, instead of depth."),
    ] = None,
    first_share: Annotated[
        float,
        typer.Option(help="With --months: the fit's share of epsilon, where later months are predicted with less."),
    ] = 0.5,
    plot: Annotated[
        Path | None,
        typer.Option(help="Save a picture of the convergence (.png, .svg, .pdf); one that is there is replaced."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Show what depth costs: sensitivity, kappa, mu and noise for each number of hops.

    Compares exact GDP of the convergent bound (ours), the paper's Renyi accounting and linear composition. Touches no data. With
    --months: the ways to make a release every month within --epsilon, by the ledger's own composition.

    Example: caribou plan --unit edge --epsilon 4 --delta 1e-5 --hops 1,4,16,64 --contraction 0.9 --degree-floor 10
    """
    if attack_rate is not None and epsilon is not None:
        raise InputError(f"attack_rate must not go with --epsilon, which follows from it, got {attack_rate!r}")
    risk = None if attack_rate is None else risk_epsilons(attack_rate, at_fpr, delta)
    budget = Budget((4.0 if epsilon is None else epsilon) if risk is None else risk["gaussian"], delta, unit)
    if months is not None:
        _months(budget, months, first_share, as_json)
        return
    if not budget.is_private:
        raise InputError("epsilon must be finite to plan noise (inf means no privacy, hence no noise), got inf")
    if not (rdp_order > 1 and math.isfinite(rdp_order)):
        raise InputError(f"rdp_order must be a finite number > 1, got {rdp_order!r}")
    node = budget.unit is PrivacyUnit.NODE
    bounds = declared_bounds(
        budget.unit,
        nodes=nodes,
        degree_floor=degree_floor,
        degree_cap=degree_cap if node else None,
        declared_degree=declared_degree if node else None,
    )
    sensitivity = layer_sensitivity(budget.unit, contraction=contraction, alpha1=alpha1, beta=0.0, bounds=bounds)
    if columns is not None:
        integer(at_least=1, columns=columns)
    curve = degree_curve(budget, sensitivity) if node else ()
    rows = plan_rows(budget, sensitivity, parse_hops(hops), rdp_order, columns)
    notes = _notes(budget, rows, degree_cap, rdp_order)
    if risk is not None:
        notes.insert(0, risk_words(attack_rate, at_fpr, risk))
    if plot is not None:
        _draw(rows, budget, contraction, plot)
    if as_json:
        chosen = {} if risk is None else {"attack_rate": attack_rate, "at_fpr": at_fpr, "epsilon_for_risk": risk}
        typer.echo(json.dumps({**_document(budget, sensitivity, rows, notes, curve), **chosen}, indent=2))
        return
    from rich.console import Console

    console = Console()
    console.print(_heading(budget, sensitivity, rows[0].mu), highlight=False)
    console.print(_table(rows, rdp_order))
    if curve and curve[0][1] != curve[-1][1]:
        console.print(_curve_table(curve, sensitivity.bounds.covered_degree))
    for note in notes:
        console.print(f"[dim]{note}[/dim]")
    if plot is not None:
        console.print(f"saved {plot}")


def _months(budget: Budget, months: int, first_share: float, as_json: bool) -> None:
    """The table of `caribou.privacy.months`."""
    from caribou.privacy.months import monthly_plans

    plans = monthly_plans(budget, months, first_share)
    if as_json:
        numbers = {"unit": budget.unit.value, "epsilon": budget.epsilon, "delta": budget.delta, "months": months}
        typer.echo(json.dumps({**numbers, "plans": [asdict(plan) for plan in plans]}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(caption="epsilon of one release, and of all of them together", caption_justify="left")
    for heading in ("every month", "first", "later", "all: presence", "all: replacement"):
        table.add_column(heading, justify="left" if heading == "every month" else "right")
    for plan in plans:
        later = "nothing" if plan.later == 0 else f"{plan.later:.3g}"
        cells = (f"{plan.first:.3g}", later, f"{plan.presence:.3g}", f"{plan.replacement:.3g}")
        table.add_row(f"{plan.way} ({plan.methods})", *cells)
    console = Console()
    console.print(f"[bold]{budget}, {months} months[/bold]", highlight=False)
    console.print(table)


def risk_epsilons(rate: float, fpr: float, delta: float | None) -> dict[str, float]:
    """The largest epsilon at which an attacker finds at most this rate: of a Gaussian release, and of any."""
    return {
        "gaussian": Budget.for_risk(rate, fpr, delta=delta, gaussian=True).epsilon,
        "any": Budget.for_risk(rate, fpr, delta=delta).epsilon,
    }


def risk_words(rate: float | None, fpr: float, risk: dict[str, float]) -> str:
    """The advice in one sentence."""
    return (
        f"An attacker who may be wrong {100 * fpr:g} times in 100 finds at most {100 * (rate or 0):g} of 100 at epsilon = "
        f"{risk['gaussian']:.3g} with Gaussian noise (planned here), and at epsilon = {risk['any']:.3g} with any mechanism, "
        "such as votes-edp."
    )


def parse_hops(text: str) -> list[int]:
    """``1,2,4`` as numbers; anything else is an error that shows the text."""
    try:
        hops = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"hops must be whole numbers >= 1 separated by commas, got {text!r}") from None
    if not all(K >= 1 for K in hops):
        raise InputError(f"hops must be whole numbers >= 1 separated by commas, got {text!r}")
    return sorted(set(hops))


def _notes(budget: Budget, rows: list[PlanRow], degree_cap: int | None, rdp_order: float) -> list[str]:
    notes = []
    row = rows[0]
    loud = [str(r.hops) for r in rows if r.noise_length is not None and r.noise_length > 1]
    if loud:
        notes.append(
            f"At K = {', '.join(loud)} the noise of a row is longer than any signal (1): use fewer columns, fewer hops "
            "or a larger degree floor."
        )
    if row.rdp_fixed_noise_multiplier is None:
        notes.append(
            f"Order {rdp_order:g} leaves nothing at this epsilon and delta; RDP and linear composition use the best order, "
            f"{row.rdp_order:.2f}."
        )
    if budget.unit is PrivacyUnit.NODE:
        notes.append(
            "Node level: this is the price of propagation alone, if it got the whole budget; training encoder and classifier "
            "costs more."
        )
    elif degree_cap is not None:
        notes.append("The degree cap has no effect at edge level.")
    notes.append("A release adds the bound on its rounding error (for 10^6 entries about 1e-4 of the noise or less).")
    return notes


def degree_curve(budget: Budget, sensitivity: Sensitivity) -> tuple[tuple[int, float], ...]:
    """What a node of each degree gets if propagation has the whole budget: (degree, epsilon), in every graph."""
    mu, bounds = budget_mu(budget), sensitivity.bounds
    return tuple(
        (d, gdp_epsilon(mu=mu * sensitivity.at_degree(d) / sensitivity.value, delta=budget.delta))
        for d in curve_degrees(bounds.nodes, bounds.covered_degree)
    )


def _curve_table(curve: tuple[tuple[int, float], ...], covered: int) -> Table:
    from rich.table import Table

    table = Table(
        caption=f"epsilon of a node by its degree, in every graph; the headline holds up to degree {covered}",
        caption_justify="left",
    )
    table.add_column("degree", justify="right", no_wrap=True, min_width=7)
    for degree, _ in curve:
        table.add_column(str(degree), justify="right")
    table.add_row("epsilon", *(f"{epsilon:.3g}" for _, epsilon in curve))
    return table


def _document(
    budget: Budget,
    sensitivity: Sensitivity,
    rows: list[PlanRow],
    notes: list[str],
    curve: tuple[tuple[int, float], ...],
) -> dict[str, Any]:
    return {
        "unit": budget.unit.value,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "contraction": sensitivity.contraction,
        "alpha1": dict(sensitivity.parameters)["alpha1"],
        "degree_floor": sensitivity.bounds.degree_floor,
        "degree_cap": sensitivity.bounds.degree_cap,
        "declared_degree": sensitivity.bounds.declared_degree,
        "nodes": sensitivity.bounds.nodes,
        "epsilon_by_degree": [list(point) for point in curve],
        "theorem": sensitivity.theorem,
        "rows": [asdict(row) for row in rows],
        "notes": notes,
    }


def _heading(budget: Budget, sensitivity: Sensitivity, mu: float) -> str:
    b = sensitivity.bounds
    cap = "" if b.degree_cap is None else f", degree cap {b.degree_cap}"
    alpha1 = dict(sensitivity.parameters)["alpha1"]
    layer = f"C_L = {sensitivity.contraction:g}, alpha1 = {alpha1:g}, degree floor {b.degree_floor}{cap}"
    return f"[bold]{budget}[/bold]\n{layer}\nsensitivity {sensitivity.value:.4g}, mu = {mu:.4g}"


def _table(rows: list[PlanRow], rdp_order: float) -> Table:
    from rich.table import Table

    caption = "std: noise per entry; columns x: noise per unit of sensitivity"
    if rows[0].noise_length is not None:
        caption += "; row: length of one row of noise"
    table = Table(caption=caption, caption_justify="left")
    headings = ["K", "kappa", "std", "x ours", "x linear", f"x RDP {rdp_order:g}", "x RDP best", "x RDP linear"]
    if rows[0].noise_length is not None:
        headings.insert(3, "row")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        fixed = row.rdp_fixed_noise_multiplier
        cells = [
            str(row.hops),
            f"{row.kappa:.3f}",
            f"{row.noise_std:.3g}",
            f"{row.noise_multiplier:.4g}",
            f"{row.linear_gdp_noise_multiplier:.4g}",
            "-" if fixed is None else f"{fixed:.4g}",
            f"{row.rdp_best_noise_multiplier:.4g}",
            f"{row.linear_noise_multiplier:.4g}",
        ]
        if row.noise_length is not None:
            cells.insert(3, f"{row.noise_length:.3g}")
        table.add_row(*cells)
    return table


def _draw(rows: list[PlanRow], budget: Budget, contraction: float, path: Path) -> None:
    """The noise of four accountings against depth. Written whole or not at all."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"plot must end in .png, .svg or .pdf, got {str(path)!r}")
    if not path.parent.is_dir():
        raise InputError(f"plot must be in a folder that exists, got {str(path)!r}")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    hops = [row.hops for row in rows]
    figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    curves = (
        ("linear composition, RDP", [r.linear_noise_multiplier for r in rows], "#f4a582", "--", "v"),
        ("linear composition, exact GDP", [r.linear_gdp_noise_multiplier for r in rows], "#b2182b", "--", "D"),
        (
            f"convergent, RDP at order {rows[0].rdp_order:.3g}",
            [r.rdp_noise_multiplier for r in rows],
            "#92c5de",
            "-",
            "s",
        ),
        ("convergent, exact GDP (ours)", [r.noise_multiplier for r in rows], "#2166ac", "-", "o"),
    )
    for label, values, colour, style, marker in curves:
        axes.plot(hops, values, style, marker=marker, color=colour, label=label, linewidth=2, markersize=5)
    axes.set_xscale("log", base=2)
    axes.set_xticks(hops, [str(K) for K in hops])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("number of hops K")
    axes.set_ylabel("noise per unit of sensitivity")
    axes.set_title(f"{budget}, $C_L$ = {contraction:g}", fontsize=11)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    try:
        with atomic_file(path) as temporary:
            figure.savefig(temporary, dpi=160)
    except OSError as error:
        raise InputError(f"plot must be writable, got {str(path)!r}: {error}") from error
    finally:
        plt.close(figure)
