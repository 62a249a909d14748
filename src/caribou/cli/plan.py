"""``caribou plan``: what depth costs, before any data is touched. Numbers only; no torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from caribou.cli.options import DeclaredDegree, DegreeCap, DegreeFloor
from caribou.errors import InputError
from caribou.machine.files import atomic_file
from caribou.pages.planner import DEFAULT_HOPS, SIMULATED_GRAPHS, USUAL_NODES, Plan
from caribou.pages.planner import plan as make_plan
from caribou.privacy.accounting import PAPER_RDP_ORDER
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.depth import PlanRow
from caribou.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from rich.table import Table

HOPS = ",".join(map(str, DEFAULT_HOPS))


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
    hops: Annotated[str, typer.Option(help="Depths K, separated by commas.")] = HOPS,
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
    html: Annotated[
        Path | None,
        typer.Option(help="Write the planner to this file: a page that needs no network, with controls to move."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="With --html: the method that is chosen at first.", show_default=False)
    ] = None,
    average_degree: Annotated[
        str, typer.Option(help="With --html: average degree of the simulated graphs; several, separated by commas.")
    ] = "10",
    homophily: Annotated[
        str,
        typer.Option(help="With --html: share of edges inside a class in them; several, separated by commas."),
    ] = "0.8",
    signal: Annotated[
        float,
        typer.Option(help="With --html: how far apart classes lie in their features, in standard deviations."),
    ] = 1.0,
    seeds: Annotated[
        int, typer.Option(help="With --html: simulated graphs for expected accuracy; 0: no simulation, at once.", min=0)
    ] = SIMULATED_GRAPHS,
    plot: Annotated[
        Path | None,
        typer.Option(help="Save a picture of the convergence (.png, .svg, .pdf); one that is there is replaced."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Show what depth costs: sensitivity, kappa, mu and noise for each number of hops.

    Compares exact GDP of the convergent bound (ours), the paper's Renyi accounting and linear composition. Touches no data. With
    --months: the ways to make a release every month within --epsilon, by the ledger's own composition. With --html: a page on
    which other values can be tried, with expected accuracy from simulations.

    Example: caribou plan --unit edge --epsilon 4 --delta 1e-5 --hops 1,4,16,64 --contraction 0.9 --degree-floor 10
    """
    if months is not None and html is None:
        _months(_budget(epsilon, attack_rate, at_fpr, delta, unit), months, first_share, as_json)
        return
    plan = make_plan(
        epsilon,
        delta,
        unit,
        attack_rate=attack_rate,
        at_fpr=at_fpr,
        hops=parse_hops(hops),
        contraction=contraction,
        alpha1=alpha1,
        degree_floor=degree_floor,
        degree_cap=degree_cap,
        declared_degree=declared_degree,
        nodes=nodes,
        columns=columns,
        rdp_order=rdp_order,
    )
    notes = list(plan.notes)
    if degree_cap is not None and plan.budget.unit is PrivacyUnit.EDGE:
        notes.insert(len(notes) - 1, "The degree cap has no effect at edge level.")
    if plot is not None:
        _draw(plan.rows, plan.budget, contraction, plot)
    if html is not None:
        _write_page(plan, html, method, months or 12, average_degree, homophily, signal, seeds)
    if as_json:
        typer.echo(json.dumps({**plan.to_dict(), "notes": notes}, indent=2))
        return
    from rich.console import Console

    console = Console()
    console.print(_heading(plan.budget, plan.sensitivity, plan.rows[0].mu), highlight=False)
    console.print(_table(plan.rows, rdp_order))
    curve = plan.epsilon_by_degree
    if curve and curve[0][1] != curve[-1][1]:
        console.print(_curve_table(curve, plan.sensitivity.bounds.covered_degree))
    for note in notes:
        console.print(f"[dim]{note}[/dim]")
    for saved in (plot, html):
        if saved is not None:
            console.print(f"saved {saved}")


def _budget(epsilon: float | None, attack_rate: float | None, at_fpr: float, delta: float | None, unit: str) -> Budget:
    if attack_rate is None:
        return Budget(4.0 if epsilon is None else epsilon, delta, unit)
    if epsilon is not None:
        raise InputError(f"attack_rate must not go with --epsilon, which follows from it, got {attack_rate!r}")
    return Budget.for_risk(attack_rate, at_fpr, delta=delta, unit=unit, gaussian=True)


def _write_page(
    plan: Plan,
    html: Path,
    method: str | None,
    months: int,
    average_degree: str,
    homophily: str,
    signal: float,
    seeds: int,
) -> None:
    """The planner, with a line of progress while it simulates."""
    from caribou.cli.progress import ProgressLine
    from caribou.pages.base import check_page_path
    from caribou.pages.simulation import fits, worlds

    check_page_path(html)  # before minutes of work
    degrees, shares = parse_numbers(average_degree, "average_degree"), parse_numbers(homophily, "homophily")
    nodes = plan.sensitivity.bounds.nodes or USUAL_NODES
    simulated = fits(worlds(nodes, degrees, shares, signal), seeds)
    if simulated:
        typer.echo(
            f"simulating expected accuracy: {simulated} fits; --seeds 0 writes the page at once, without it", err=True
        )
    line = ProgressLine("plan", simulated)
    plan.html(
        html,
        method=method,
        months=months,
        average_degree=degrees,
        homophily=shares,
        signal=signal,
        seeds=seeds,
        advance=line.advance,
    )


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


def parse_hops(text: str) -> list[int]:
    """``1,2,4`` as numbers; anything else is an error that shows the text."""
    try:
        hops = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"hops must be whole numbers >= 1 separated by commas, got {text!r}") from None
    if not all(K >= 1 for K in hops):
        raise InputError(f"hops must be whole numbers >= 1 separated by commas, got {text!r}")
    return sorted(set(hops))


def parse_numbers(text: str, field: str) -> list[float]:
    """``0.6,0.8`` as numbers; anything else is an error that shows the text."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{field} must be numbers separated by commas, got {text!r}") from None


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


def _heading(budget: Budget, sensitivity: Sensitivity, mu: float) -> str:
    b = sensitivity.bounds
    cap = "" if b.degree_cap is None else f", degree cap {b.degree_cap}"
    alpha1 = dict(sensitivity.parameters)["alpha1"]
    layer = f"C_L = {sensitivity.contraction:g}, alpha1 = {alpha1:g}, degree floor {b.degree_floor}{cap}"
    return f"[bold]{budget}[/bold]\n{layer}\nsensitivity {sensitivity.value:.4g}, mu = {mu:.4g}"


def _table(rows: Sequence[PlanRow], rdp_order: float) -> Table:
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


def _draw(rows: Sequence[PlanRow], budget: Budget, contraction: float, path: Path) -> None:
    """The noise of four accountings against depth. Written whole or not at all."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"plot must end in .png, .svg or .pdf, got {str(path)!r}")
    if not path.parent.is_dir():
        raise InputError(f"plot must be in a folder that exists, got {str(path)!r}")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from caribou.pages.pictures import STYLE

    hops = [row.hops for row in rows]
    with plt.style.context(STYLE):
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
