"""``caribou audit``: attack a method or a saved run, and say whether its claim holds."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from caribou.cli.options import AsJson, GraphOptions, GraphSource, Unit, with_option_groups
from caribou.cli.progress import about
from caribou.cli.train import parse_settings
from caribou.cli.verify import EXIT_CLAIM_FAILS
from caribou.errors import InputError

if TYPE_CHECKING:
    from caribou.audit.attack import Forecast
    from caribou.audit.auditor import Audit, Outcome


UNREPEATED = ("out", "as_json", "workers", "listed")
"""Options that change no verdict."""


def _list(wanted: bool) -> None:
    """The table of all attacks, and nothing else."""
    if not wanted:
        return
    from rich.console import Console
    from rich.table import Table

    from caribou.audit.catalogue import CATALOGUE, COLUMNS

    for name, entry in CATALOGUE.items():
        table = Table(title=name, title_justify="left", show_header=False, box=None, pad_edge=False)
        table.add_column(no_wrap=True)
        for label, cell in zip(COLUMNS[1:], entry.cells(name)[1:], strict=True):
            table.add_row(f"  {label}", cell)
        Console().print(table)
    raise typer.Exit


@with_option_groups
def audit(
    context: typer.Context,
    subject: Annotated[
        str, typer.Argument(metavar="METHOD|RUN", help="A method by name, or the folder of a saved run.")
    ],
    *,
    unit: Unit = None,
    graph: GraphOptions,
    epsilon: Annotated[
        float | None, typer.Option(help="Epsilon that a method claims (default: 4).", show_default=False)
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta that a method claims (default: 1e-05).", show_default=False)
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the method, key=value; may be repeated.")
    ] = None,
    attacks: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            help="all (default) or distinguish, noise-replay, onerun, linkteller, similarity, gmia, lira; commas between.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            help="Runs per graph of a distinguishing game (default: as many as it takes to see twice the claim).",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the verdict and of the lower bound.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Everything that is drawn follows from it.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes (default: one per core).", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="Write the report (HTML, PNG, JSON) to this new folder.")] = None,
    as_json: AsJson = False,
    listed: Annotated[
        bool,
        typer.Option(
            "--list", help="List the attacks and what each tests, and do nothing else.", is_eager=True, callback=_list
        ),
    ] = False,
) -> None:
    """Try to reject what a method or a saved run claims, and measure what known attacks reach.

    Exit code 3: the claim is rejected. Attacks on a graph need --dataset or --graph, also for a run, which holds none.

    Example: caribou audit caribou-edp --epsilon 4 --attack distinguish
    """
    from caribou.model.state import check_target

    if out is not None:
        check_target(out)
    source = graph.source()
    options = parse_settings(settings or [])
    subject = _named(subject, unit)
    again, attack = typed_command(context), ",".join(attacks or ["all"])
    job = _job(subject, source, epsilon, delta, options, attack, runs, confidence, seed, workers, again)
    from caribou.audit.verdict import VIOLATED
    from caribou.pages.audit import write_report

    with _bars() as progress:
        outcome = job.run(progress, _announce)
    if out is not None:
        write_report(outcome, out)
    if as_json:
        typer.echo(json.dumps(outcome.to_json(), indent=2))
    else:
        _print(outcome, out)
    if outcome.verdict.word == VIOLATED:
        raise typer.Exit(EXIT_CLAIM_FAILS)


def _named(subject: str, unit: str | None) -> str:
    """The full name of a method, or the folder of a run."""
    from caribou.methods import FAMILIES, METHODS, load_own_methods, resolve

    load_own_methods()
    if subject in METHODS or subject in FAMILIES or not Path(subject).exists():
        return resolve(subject, unit)
    if unit is not None:
        raise InputError(f"unit must not be given with a run, which has its own, got {unit!r} (--unit)")
    return subject


def _job(
    subject: str,
    source: GraphSource,
    epsilon: float | None,
    delta: float | None,
    settings: Mapping[str, Any],
    attack: str,
    runs: int | None,
    confidence: float,
    seed: int,
    workers: int | None,
    reproduce: str,
) -> Audit:
    from caribou.audit.catalogue import CATALOGUE, check_order
    from caribou.methods import METHODS
    from caribou.model.state import read_state
    from caribou.privacy.budget import Budget

    wanted = tuple(CATALOGUE) if attack == "all" else tuple(dict.fromkeys(word.strip() for word in attack.split(",")))
    check_order(wanted, runs, confidence, workers)
    name, claimed, words, stored, saved = subject, dict(settings), None, None, None
    if subject in METHODS:
        info = METHODS[subject]
        budget = Budget((4.0 if info.private else math.inf) if epsilon is None else epsilon, delta, info.unit)
    else:
        if epsilon is not None or delta is not None or settings:
            raise InputError("epsilon, delta and set must not be given with a run, which has its own")
        run = read_state(subject)
        name, budget, claimed = run.method, run.budget, dict(run.settings)
        saved = run.column_rules
        words, stored = f"the method of {subject} ({name})", run.certificate
        info = METHODS[name]
    info.check(name, budget)
    graph = source.load(seed, unit=budget.unit, saved=saved) if source.is_given else None
    missing = [word for word in wanted if CATALOGUE[word].needs_graph]
    if graph is None and attack != "all" and missing:
        raise InputError(f"dataset must be given for the attack {missing[0]}, got none")
    # from here on torch is loaded: bad flags are found before it
    from caribou.audit.audited_method import AuditedMethod
    from caribou.audit.auditor import Audit

    return Audit(
        AuditedMethod(name, info.create(**claimed), budget, graph, seed, info.transductive),
        wanted,
        runs,
        confidence,
        workers,
        reproduce,
        words,
        stored,
    )


def typed_command(context: typer.Context) -> str:
    """What the user typed, from the parsed options: the same games again. Where and how it is written is left out."""
    words = ["caribou", "audit"]
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        source = context.get_parameter_source(name)
        if name in UNREPEATED or source is None or source.name != "COMMANDLINE":
            continue
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif isinstance(value, bool):
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            each = value if isinstance(value, list | tuple) else (value,)
            words += [word for one in each for word in (parameter.opts[0], _shown(name, one))]
    return shlex.join(words)


def _shown(name: str, value: Any) -> str:
    """A value as it is typed; a database without its password."""
    if name == "db":
        from caribou.tables.queries import shown_database

        return shown_database(value)
    return str(value)


def _announce(forecasts: Sequence[Forecast]) -> None:
    """What every attack will take, on stderr."""
    for forecast in forecasts:
        runs = f"{forecast.runs:,} runs, " if forecast.runs else ""
        typer.echo(
            f"planned: {forecast.attack}: {runs}{forecast.fits:,} fit{'' if forecast.fits == 1 else 's'}", err=True
        )


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int, float], None]]:
    """A progress bar per part on stderr, with the largest epsilon proven so far."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    bound = TextColumn("{task.fields[bound]}")
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), bound, *times)
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, Any] = {}

        def report(name: str, done: int, planned: int, proven: float) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=planned, bound="")
            progress.update(tasks[name], completed=done, total=planned, bound=_bound(proven))

        yield report


def _lines() -> Callable[[str, int, int, float], None]:
    """Without a terminal: a line when a part begins, at every quarter, and at its end."""
    shown: dict[str, int] = {}
    began: dict[str, float] = {}

    def report(name: str, done: int, planned: int, proven: float) -> None:
        quarter = 4 * done // max(planned, 1)
        if shown.get(name, -1) < quarter:
            shown[name] = quarter
            passed = time.monotonic() - began.setdefault(name, time.monotonic())
            left = f", {about(passed / done * (planned - done))} left" if 0 < done < planned and passed > 0 else ""
            typer.echo(f"{name}: {done:,} of {planned:,} {_bound(proven)}".rstrip() + left, err=True)

    return report


def _bound(proven: float) -> str:
    return f"epsilon >= {proven:.2f}" if proven > 0 else ""


def _print(outcome: Outcome, out: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from caribou.audit.metrics import NO_BOUND

    console, verdict = Console(), outcome.verdict
    colour = {"VIOLATED": "bold red", "consistent": "green"}.get(verdict.word, "yellow")
    facts = Table(show_header=False, box=None, pad_edge=False)
    facts.add_row("audited", outcome.subject)
    facts.add_row("claimed", verdict.claim.describe())
    facts.add_row("proven", f"{verdict.proven()} (confidence {verdict.confidence:g})")
    facts.add_row("verdict", f"[{colour}]{verdict.word}[/{colour}]")
    for reason in verdict.reasons:
        facts.add_row("", reason)
    if verdict.more_runs:
        facts.add_row("would decide", f"{verdict.more_runs:,} runs per graph")
    for note in outcome.notes:
        facts.add_row("note", note)
    for name, reason in outcome.skipped.items():
        facts.add_row("not done", f"{name}: {reason}")
    if outcome.verdict.word == "VIOLATED" and verdict.reproduce:
        facts.add_row("reproduce", verdict.reproduce)
    if out is not None:
        facts.add_row("report", f"{out}/audit.html")
    console.print(facts)
    if outcome.attacks:
        console.print(_table(outcome))
        console.print(
            "A measured rate is an estimate from a few runs and may exceed what is allowed; the verdict counts what is proven."
        )
        if not all(result.bounded for result in outcome.attacks.values()):
            console.print(f"No bound (-): {NO_BOUND}")


def _table(outcome: Outcome) -> Any:
    from rich.table import Table

    rates = sorted({rate for result in outcome.attacks.values() for rate in result.tpr_at_fpr})
    table = Table("attack", "AUC", *(f"TPR at FPR {100 * rate:g} % (allowed)" for rate in rates))
    for name, result in outcome.attacks.items():
        allowed = {r: f"{100 * result.tpr_allowed[r]:.1f} %" if result.bounded else "-" for r in rates}
        cells = (f"{100 * result.tpr_at_fpr[r]:.1f} % ({allowed[r]})" for r in rates)
        table.add_row(name, f"{result.auc:.3f}", *cells)
    return table
