"""``caribou audit``: attack a method or a saved run, and say whether its claim holds."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from caribou.cli.command import argument, as_json, command, option, record, repeated, switch
from caribou.cli.options import DELTA, EPSILON, METHOD_UNIT, SETTINGS, GraphOptions, GraphSource
from caribou.cli.output import print_facts, print_json, print_line, print_table
from caribou.cli.progress import ProgressLine
from caribou.cli.train import budget_of, parse_settings
from caribou.cli.verify import EXIT_CLAIM_FAILS
from caribou.errors import InputError

if TYPE_CHECKING:
    from rich.text import Text

    from caribou.audit.attack import Forecast
    from caribou.audit.auditor import Audit, Outcome


def _list(wanted: bool) -> None:
    """All attacks, and nothing else."""
    if not wanted:
        return
    from caribou.audit.catalogue import CATALOGUE, COLUMNS

    for name, entry in CATALOGUE.items():
        print_line(name)
        print_facts((f"  {label}", cell) for label, cell in zip(COLUMNS[1:], entry.cells(name)[1:], strict=True))
    raise typer.Exit


@record
class AuditOptions:
    """What caribou audit takes."""

    subject: str = argument("A method by name, or the folder of a saved run.", metavar="METHOD|RUN")
    unit: str | None = METHOD_UNIT
    graph: GraphOptions
    epsilon: float | None = EPSILON
    delta: float | None = DELTA
    settings: tuple[str, ...] = SETTINGS
    attacks: tuple[str, ...] = repeated(
        "all (default) or distinguish, noise-replay, onerun, linkteller, gmia, lira; commas between.",
        "--attack",
    )
    runs: int | None = option(
        "Runs per graph of a distinguishing game (default: as many as it takes to see twice the claim)."
    )
    confidence: float = option("Confidence of the verdict and of the lower bound.", default=0.95)
    seed: int = option("Everything that is drawn follows from it.", default=0)
    workers: int | None = option("Processes (default: one per core).")
    out: Path | None = option("Write the report (HTML, PNG, JSON) to this new folder.")
    as_json: bool = as_json()
    listed: bool = switch(
        "List the attacks and what each tests, and do nothing else.", "--list", is_eager=True, callback=_list
    )


@command
def audit(given: AuditOptions) -> None:
    """Try to reject what a method or a saved run claims, and measure what known attacks reach.

    Exit code 3: the claim is rejected. Attacks on a graph need --dataset or --graph, also for a run, which holds none.

    Example: caribou audit caribou-edp --epsilon 4 --attack distinguish
    """
    from caribou.model.state import check_target

    if given.out is not None:
        check_target(given.out)
    job = _job(given)
    from caribou.audit.verdict import VIOLATED
    from caribou.pages.audit import write_report

    with ProgressLine("audit", 1) as line:

        def report(name: str, done: int, planned: int, proven: float) -> None:
            line.step(name, done, planned, f"epsilon >= {proven:.2f}" if proven > 0 else "")

        outcome = job.run(report, _announce)
    if given.out is not None:
        write_report(outcome, given.out)
    if given.as_json:
        print_json(outcome.to_json())
    else:
        _print(outcome, given.out)
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


def _job(given: AuditOptions) -> Audit:
    from caribou.audit.catalogue import CATALOGUE, check_order
    from caribou.methods import METHODS
    from caribou.model.state import read_state

    asked = [word.strip() for words in given.attacks or ("all",) for word in words.split(",")]
    wanted = tuple(CATALOGUE) if asked == ["all"] else tuple(dict.fromkeys(asked))
    check_order(wanted, given.runs, given.confidence, given.workers)
    subject, settings = _named(given.subject, given.unit), parse_settings(given.settings)
    name, words, stored, saved = subject, None, None, None
    if subject in METHODS:
        budget = budget_of(name, given.epsilon, given.delta)
    else:
        if given.epsilon is not None or given.delta is not None or settings:
            raise InputError("epsilon, delta and set must not be given with a run, which has its own")
        run = read_state(subject)
        name, budget, settings, saved = run.method, run.budget, dict(run.settings), run.column_rules
        words, stored = f"the method of {subject} ({name})", run.certificate
    info = METHODS[name]
    info.check(name, budget)
    source = GraphSource(given.graph)
    graph = source.load(given.seed, unit=budget.unit, saved=saved) if given.graph.is_given else None
    missing = [word for word in wanted if CATALOGUE[word].needs_graph]
    if graph is None and asked != ["all"] and missing:
        raise InputError(f"dataset must be given for the attack {missing[0]}, got none")
    # from here on torch is loaded: bad flags are found before it
    from caribou.audit.audited_method import AuditedMethod
    from caribou.audit.auditor import Audit

    return Audit(
        AuditedMethod(name, info.create(**settings), budget, graph, given.seed, info.transductive),
        wanted,
        given.runs,
        given.confidence,
        given.workers,
        _typed_command(given.graph.files.tables.db),
        words,
        stored,
    )


def _typed_command(database: str | None) -> str:
    """What the user typed: the same games again. A database is shown without its password."""
    from caribou.tables.queries import shown_database

    words = sys.argv[1:]
    if database is not None:
        words = [word.replace(database, shown_database(database)) for word in words]
    return shlex.join(["caribou", *words])


def _announce(forecasts: Mapping[str, Forecast]) -> None:
    """What every attack will take, on stderr."""
    for name, forecast in forecasts.items():
        runs = f"{forecast.runs:,} runs, " if forecast.runs else ""
        fits = f"{forecast.fits:,} fit{'' if forecast.fits == 1 else 's'}"
        typer.echo(f"planned: {name}: {runs}{fits}", err=True)


def _print(outcome: Outcome, out: Path | None) -> None:
    from caribou.audit.metrics import NO_BOUND

    print_facts(_facts(outcome, out))
    if outcome.attacks:
        _print_rates(outcome)
        print_line(
            "A measured rate is an estimate from a few runs and may exceed what is allowed; the verdict counts what is proven."
        )
        if not all(result.bounded for result in outcome.attacks.values()):
            print_line(f"No bound (-): {NO_BOUND}")


def _facts(outcome: Outcome, out: Path | None) -> Iterator[tuple[str, str | Text]]:
    from rich.text import Text

    verdict = outcome.verdict
    colour = {"VIOLATED": "bold red", "consistent": "green"}.get(verdict.word, "yellow")
    yield "audited", outcome.subject
    yield "claimed", verdict.claim.describe()
    yield "proven", f"{verdict.proven()} (confidence {verdict.confidence:g})"
    yield "verdict", Text(verdict.word, colour)
    for reason in verdict.reasons:
        yield "", reason
    if verdict.more_runs:
        yield "would decide", f"{verdict.more_runs:,} runs per graph, in 9 of 10 audits"
    for note in outcome.notes:
        yield "note", note
    for name, reason in outcome.skipped.items():
        yield "not done", f"{name}: {reason}"
    if verdict.word == "VIOLATED" and verdict.reproduce:
        yield "reproduce", verdict.reproduce
    if out is not None:
        yield "report", f"{out}/audit.html"


def _print_rates(outcome: Outcome) -> None:
    rates = sorted({rate for result in outcome.attacks.values() for rate in result.tpr_at_fpr})
    rows = []
    for name, result in outcome.attacks.items():
        allowed = {r: f"{100 * result.tpr_allowed[r]:.1f} %" if result.bounded else "-" for r in rates}
        cells = (f"{100 * result.tpr_at_fpr[r]:.1f} % ({allowed[r]})" for r in rates)
        rows.append((name, f"{result.auc:.3f}", *cells))
    print_table(("attack", "AUC", *(f"TPR at FPR {100 * rate:g} % (allowed)" for rate in rates)), rows)
