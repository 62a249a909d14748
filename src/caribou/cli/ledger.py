"""``caribou ledger``: look at what has been spent, set budgets, record releases made elsewhere.

The functions raise; the top of the command line turns errors into one line and an exit code. Only ``show`` has an
exit code of its own: 3, when the chain of records is broken.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from caribou.errors import BudgetExceeded, CertificateError, InputError
from caribou.privacy.accounting import event_words
from caribou.privacy.budget import DEFAULT_DELTA, Budget, PrivacyUnit
from caribou.privacy.events import EpsilonDelta, Event, NonPrivate, event_to_dict
from caribou.privacy.ledger import Balance, EntryNote, Ledger, LedgerEntry, ledger_text
from caribou.privacy.periods import Period

if TYPE_CHECKING:
    from rich.table import Table

EXIT_BROKEN_CHAIN = 3

ledger_app = typer.Typer(
    name="ledger",
    help="What each data set has spent: show it, set budgets, record releases made elsewhere.",
    no_args_is_help=True,
    add_completion=False,
)

LedgerFile = Annotated[
    Path, typer.Option("--ledger", envvar="CARIBOU_LEDGER", help="The ledger file.", show_default=True)
]
DEFAULT_LEDGER = Path("caribou-ledger.sqlite")


@ledger_app.command()
def show(
    ledger: LedgerFile = DEFAULT_LEDGER,
    dataset: Annotated[str | None, typer.Option("--dataset", help="Only this data set, with its releases.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with charts and every entry to this file, for the curator.")
    ] = None,
) -> None:
    """Show what each data set has spent and what is left, and verify the chain of records.

    Exit code 3: the chain is broken, i.e. records were edited or removed.

    Example: caribou ledger show --dataset survey
    """
    opened = Ledger(ledger, create=False)
    if html is not None:
        from caribou.pages.base import write_page
        from caribou.pages.ledger import ledger_page

        if as_json:
            raise InputError("html must not go with --json: give one of them")
        if dataset is not None:
            opened.history(dataset)  # a name that is not known is an error
        write_page(html, ledger_page(opened, dataset))
        typer.echo(f"wrote {html}: for the curator, not for publication", err=True)
    problems = opened.check()
    # A total that was computed from edited records would be believed: a broken chain shows the finding and nothing else.
    balances, releases = ((), ()) if problems else _selection(opened, dataset)
    totals = _totals(opened, balances)
    if as_json:
        typer.echo(json.dumps(_report(opened, balances, releases, totals, problems), indent=2))
    else:
        _print(opened, balances, releases, totals, problems, list_releases=dataset is not None)
    if problems:
        raise typer.Exit(EXIT_BROKEN_CHAIN)


@ledger_app.command()
def budget(
    name: Annotated[str, typer.Argument(help="The data set.")],
    epsilon: Annotated[float, typer.Option("--epsilon", help="The total epsilon; inf means no limit.")],
    unit: Annotated[PrivacyUnit, typer.Option("--unit", help="What is protected: one edge or one node.")],
    delta: Annotated[
        float | None, typer.Option("--delta", help=f"The total delta (default: {DEFAULT_DELTA:g}).")
    ] = None,
    per: Annotated[
        str | None,
        typer.Option("--per", help="Begin anew with each calendar month, quarter or year (UTC); without it: never."),
    ] = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
) -> None:
    """Set the total that a data set may spend at one privacy unit. Changes are kept in its history.

    In a ledger that has budgets, a name without one is refused. A budget per period limits each period by itself; over several
    periods the budgets add up.

    Example: caribou ledger budget survey --epsilon 8 --unit edge --per year
    """
    total = Budget(epsilon, delta, unit)
    period = None if per is None else Period.parse(per)
    ledger_text(dataset=name)  # before a new ledger is made
    balance = _opened(ledger).set_budget(name, total, per=period)
    typer.echo(f"budget of {name}: {total}{'' if period is None else f', per {period.value}'}")
    typer.echo(_spent_in_words(balance))


@ledger_app.command()
def merge(
    other: Annotated[Path, typer.Argument(help="The ledger to take over, e.g. of another machine. It is only read.")],
    ledger: LedgerFile = DEFAULT_LEDGER,
) -> None:
    """Take over what another ledger recorded. What is here already is not counted twice.

    Releases keep their time and words, and count in full, whatever the budgets say. A budget of a name that has none here comes
    along. Fingerprints stay behind, because the other ledger has another key. A second extension of one certificate pays in full.

    Example: caribou ledger merge laptop.sqlite --ledger caribou-ledger.sqlite
    """
    opened, source = Ledger(ledger, create=False), Ledger(other, create=False)
    if opened.path.resolve() == source.path.resolve():
        raise InputError(f"other must be another ledger, got the same one: {other}")
    taken = opened.merge(source)
    typer.echo(f"took over {len(taken)} of {len(source.entries())} releases of {other}")
    for balance in opened.datasets():
        if balance.exceeded:
            typer.echo(f"warning: {balance.dataset}, {balance.unit.value} level: {_spent_in_words(balance)}", err=True)


@ledger_app.command()
def add(
    name: Annotated[str, typer.Argument(help="The data set.")],
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="The certificate of the release: unit and events are its.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Its epsilon, if there is no certificate.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Its delta (default: 0, pure epsilon).")] = None,
    unit: Annotated[PrivacyUnit | None, typer.Option("--unit", help="What it protects: one edge or one node.")] = None,
    description: Annotated[str, typer.Option("--description", help="A line about it.")] = "made elsewhere",
    purpose: Annotated[str | None, typer.Option(help="What it was for.")] = None,
    person: Annotated[str | None, typer.Option(help="Who made it.")] = None,
    period: Annotated[str | None, typer.Option(help="The time that its data is about.")] = None,
    over_budget: Annotated[
        bool,
        typer.Option("--over-budget", help="Record it even beyond the budget, because it has been published already."),
    ] = False,
    ledger: LedgerFile = DEFAULT_LEDGER,
) -> None:
    """Record a release that was made elsewhere, from its certificate or from its epsilon and delta.

    A release beyond the budget is refused, unless --over-budget says that it has been published already.

    Example: caribou ledger add survey --epsilon 0.5 --unit edge --description "degree histogram"
    """
    release_unit, events, certificate_id = _past_release(certificate, epsilon, delta, unit)
    ledger_text(dataset=name)  # both before a new ledger is made
    ledger_text(description=" ".join(description.split()))
    opened = _opened(ledger)
    record = opened.record_past if over_budget else opened.charge
    try:
        charge = record(
            name,
            release_unit,
            events,
            description=description,
            certificate_id=certificate_id,
            note=EntryNote(purpose, person, period),
        )
    except BudgetExceeded as error:
        raise BudgetExceeded(f"{error}; if it has been published already, record it with --over-budget") from error
    opened.annotate(charge.id, "released")
    typer.echo(f"recorded release {charge.id} of {name}: {_events_in_words(events)}")
    typer.echo(_spent_in_words(opened.total(name, release_unit)))


def _opened(path: Path) -> Ledger:
    """The ledger, made if there is none; a new one is announced, because it knows of no earlier release."""
    from caribou.privacy.ledger import Ledger

    if not path.exists():
        typer.echo(
            f"warning: ledger {path.absolute()} is new: it knows of no budget and of no earlier release", err=True
        )
    return Ledger(path)


def _past_release(
    certificate: Path | None, epsilon: float | None, delta: float | None, unit: PrivacyUnit | None
) -> tuple[PrivacyUnit, tuple[Event, ...], str | None]:
    if certificate is not None:
        if not (epsilon is None and delta is None and unit is None):
            raise InputError("--certificate must stand alone: it holds the unit and the events")
        from caribou.privacy.certificate import Certificate
        from caribou.privacy.verify import verify

        loaded = Certificate.load(certificate)
        if loaded.void_reasons:
            # Its events would understate the cost: they hold only under the assumptions that it says do not hold.
            raise CertificateError(
                f"certificate {certificate}: is void as a guarantee ({'; '.join(loaded.void_reasons)}); record the "
                f"release as one without privacy: --epsilon inf --unit {loaded.unit.value}"
            )
        if not loaded.is_private:
            # Whatever its events say: nobody has checked them against a claim.
            return loaded.unit, (NonPrivate(),), loaded.certificate_id
        failing = [check for check in verify(loaded).checks if not check.passed]
        if failing:
            # Its events may be less than what was really spent.
            raise CertificateError(
                f"certificate {certificate}: does not verify ({failing[0].name}: {failing[0].detail}); see caribou verify"
            )
        return loaded.unit, loaded.cost, loaded.certificate_id
    if epsilon is None or unit is None:
        raise InputError("give either --certificate FILE or --epsilon E with --unit edge|node")
    if epsilon == math.inf:
        return unit, (NonPrivate(),), None
    return unit, (EpsilonDelta(epsilon, 0.0 if delta is None else delta),), None


def _selection(opened: Ledger, dataset: str | None) -> tuple[tuple[Balance, ...], tuple[LedgerEntry, ...]]:
    releases = opened.entries(dataset)
    balances = tuple(s for s in opened.datasets() if dataset is None or s.dataset == dataset)
    return balances, releases


def _totals(opened: Ledger, balances: tuple[Balance, ...]) -> dict[int, float]:
    """The total after each release, by release id."""
    totals: dict[int, float] = {}
    for balance in balances:
        totals |= opened.cumulative(balance.dataset, balance.unit)
    return totals


# -- for programs -------------------------------------------------------------------------------------------------


def _number(value: float | None) -> float | str | None:
    """JSON has no infinity."""
    return "inf" if value == math.inf else value


def _report(
    opened: Ledger,
    balances: tuple[Balance, ...],
    releases: tuple[LedgerEntry, ...],
    totals: dict[int, float],
    problems: tuple[str, ...],
) -> dict[str, Any]:
    return {
        "ledger": str(opened.path),
        "chain_intact": not problems,
        "problems": list(problems),
        "datasets": [
            {
                "name": s.dataset,
                "unit": s.unit.value,
                "delta": s.delta,
                "releases": s.releases,
                "epsilon_spent": _number(s.epsilon_spent),
                "epsilon_budget": None if s.budget is None else _number(s.budget.epsilon),
                "epsilon_left": _number(s.epsilon_left),
                "gaussian_left": _number(s.gaussian_left),
                "pure_left": _number(s.pure_left),
                "per": None if s.per is None else s.per.value,
                "period": s.period,
                "months_left": s.months_left,
                "gaussian_per_month": _number(s.gaussian_per_month),
                "pure_per_month": _number(s.pure_per_month),
                "epsilon_all_periods": _number(s.epsilon_all_periods),
            }
            for s in balances
        ],
        "releases": [
            {
                "id": r.id,
                "time": r.time.isoformat(),
                "dataset": r.dataset,
                "unit": r.unit.value,
                "description": r.description,
                "certificate_id": r.certificate_id,
                "events": [event_to_dict(event) for event in r.events],
                "epsilon_cumulative": _number(totals[r.id]),
                "epsilon_recorded": _number(r.epsilon_total),
                "status": r.status,
                "extends": r.extends,
                "purpose": r.purpose,
                "person": r.person,
                "period": r.period,
            }
            for r in releases
        ],
    }


# -- for people ---------------------------------------------------------------------------------------------------


def _print(
    opened: Ledger,
    balances: tuple[Balance, ...],
    releases: tuple[LedgerEntry, ...],
    totals: dict[int, float],
    problems: tuple[str, ...],
    *,
    list_releases: bool,
) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(f"ledger {opened.path}"), soft_wrap=True)
    console.print(_table_of_datasets(balances))
    if balances:
        from caribou.pages.ledger import TWO_UNITS

        console.print(TWO_UNITS, soft_wrap=True)
    for balance in balances:
        if balance.per is not None:
            console.print(Text(_period_in_words(balance)), soft_wrap=True)
    if list_releases and releases:
        console.print(_table_of_releases(releases, totals))
        for entry in releases:
            words = _words_of(entry, opened)
            if words:
                console.print(Text(f"release {entry.id}: {words}"), soft_wrap=True)
    if list_releases:
        for line in _replacements(opened, {balance.dataset for balance in balances}):
            console.print(Text(line), soft_wrap=True)
    for line in _raised_totals(balances, releases, totals):
        console.print(Text(line), soft_wrap=True)
    if not problems:
        console.print("chain intact")
    for problem in problems:
        typer.echo(f"chain broken: {problem}", err=True)


def _raised_totals(
    balances: tuple[Balance, ...], releases: tuple[LedgerEntry, ...], totals: dict[int, float]
) -> list[str]:
    """Where the total of today is more than was said when the latest release was recorded: one line for each balance."""
    lines = []
    for s in balances:
        made = [r for r in releases if (r.dataset, r.unit, r.delta) == (s.dataset, s.unit, s.delta)]
        if made and totals[made[-1].id] > made[-1].epsilon_total * (1 + 1e-6):
            lines.append(
                f"{s.dataset}, {s.unit.value} level: release {made[-1].id} was recorded with a total of "
                f"{made[-1].epsilon_total:.4g}; by the budget and the rule of today it is {totals[made[-1].id]:.4g}"
            )
    return lines


def _table_of_datasets(balances: tuple[Balance, ...]) -> Table:
    columns = ("data set", "unit", "releases", "epsilon spent", "at delta", "budget", "left for one more")
    rows = [
        (
            s.dataset,
            s.unit.value,
            str(s.releases),
            f"{s.epsilon_spent:.4g}",
            f"{s.delta:g}",
            "no budget set" if s.budget is None else f"{s.budget.epsilon:g}{_per(s)}",
            _left_in_words(s),
        )
        for s in balances
    ]
    return _table(columns, rows)


def _per(balance: Balance) -> str:
    return "" if balance.per is None else f" per {balance.per.value}"


def _period_in_words(balance: Balance) -> str:
    """What is left of the present period and of each of its months, and what all periods may cost together."""
    line = f"{balance.dataset}, {balance.unit.value} level, {balance.period}: {_spent_in_words(balance)}"
    if balance.budget is None or balance.months_left is None or not balance.budget.is_private:
        return line
    if not balance.exceeded and balance.gaussian_per_month is not None and balance.pure_per_month is not None:
        line += (
            f"; for one release in each of the {balance.months_left} month(s) left: "
            f"{balance.gaussian_per_month:.4g} if Gaussian, {balance.pure_per_month:.4g} if pure"
        )
    if balance.periods > 1:
        line += (
            f"; over the {balance.periods} periods with a release together epsilon = {balance.epsilon_all_periods:.4g} at "
            f"delta = {balance.delta_all_periods:g}"
        )
    return line


def _words_of(entry: LedgerEntry, opened: Ledger) -> str:
    """Purpose, person, period and what it extends, as far as they are known."""
    extends = "extends certificate"
    if entry.extends is not None:
        is_later_batch = entry.id in opened.later_batches(entry.dataset)
        extends = f"{'costs nothing more' if is_later_batch else 'pays in full'}: {extends}"
    known = {
        "purpose": entry.purpose,
        "person": entry.person,
        "period": entry.period,
        extends: entry.extends,
    }
    return "; ".join(f"{word} {value}" for word, value in known.items() if value is not None)


def _replacements(opened: Ledger, names: set[str]) -> list[str]:
    """When, by whom and why changed content was declared to be about the same people: one line for each time."""
    lines: dict[str, None] = {}
    for name in sorted(names):
        for change in opened.history(name):
            if change.field == "fingerprint" and change.old is not None:
                who = "" if change.person is None else f" by {change.person}"
                why = "no reason given" if change.reason is None else change.reason
                lines[f"{name}: fingerprint replaced on {change.time:%Y-%m-%d}{who}: {why}"] = None
    return list(lines)


def _table_of_releases(releases: tuple[LedgerEntry, ...], totals: dict[int, float]) -> Table:
    columns = ("id", "time (UTC)", "unit", "description", "events", "total epsilon", "status")
    rows = [
        (
            str(r.id),
            r.time.strftime("%Y-%m-%d %H:%M:%S"),
            r.unit.value,
            r.description,
            _events_in_words(r.events),
            f"{totals[r.id]:.4g}",
            r.status,
        )
        for r in releases
    ]
    return _table(columns, rows)


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        # fold, not cut: a number or a name that is cut off is a wrong one
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: names may hold brackets, which are markup in a str
    return table


def _left_in_words(balance: Balance) -> str:
    """What one further release may cost, by the kind of its noise."""
    if balance.gaussian_left is None or balance.pure_left is None:
        return "-"
    if balance.exceeded:
        return "0 (exceeded)"
    gaussian, pure = f"{balance.gaussian_left:.4g}", f"{balance.pure_left:.4g}"
    return gaussian if gaussian == pure else f"{gaussian} for a Gaussian release or {pure} for a pure one"


def _spent_in_words(balance: Balance) -> str:
    spent = f"spent: epsilon = {balance.epsilon_spent:.4g} at delta = {balance.delta:g}"
    if balance.budget is None:
        return f"{spent}; no budget set"
    if balance.exceeded:
        return f"{spent}; more than the budget: no further release is allowed"
    return f"{spent}; left: {_left_in_words(balance)}"


def _events_in_words(events: tuple[Event, ...]) -> str:
    return "; ".join(map(event_words, events)) if events else "no use of what is protected"
