"""``caribou ledger``: look at what has been spent, set budgets, record releases made elsewhere.

The functions raise; the top of the command line turns errors into one line and an exit code. Only ``show`` has an
exit code of its own: 3, when the chain of records is broken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from caribou.cli.command import argument, as_json, command, option, record, switch
from caribou.cli.output import print_json, print_line, print_table
from caribou.errors import BudgetExceeded, CertificateError, InputError
from caribou.privacy.accounting import event_words
from caribou.privacy.budget import DEFAULT_DELTA, Budget, PrivacyUnit
from caribou.privacy.documents import write
from caribou.privacy.events import EpsilonDelta, Event, NonPrivate, require_few
from caribou.privacy.ledger import Balance, EntryNote, Ledger, LedgerEntry, ledger_text
from caribou.privacy.names import dataset_name
from caribou.privacy.periods import Period

EXIT_BROKEN_CHAIN = 3
NOTHING = "–"

ledger_app = typer.Typer(
    name="ledger",
    help="What each data set has spent: show it, set budgets, record releases made elsewhere.",
    no_args_is_help=True,
    add_completion=False,
)

LEDGER = option("The ledger file.", default=Path("caribou-ledger.sqlite"), envvar="CARIBOU_LEDGER", show_default=True)
DATASET = argument("The data set.")


@record
class ShowOptions:
    """What caribou ledger show takes."""

    ledger: Path = LEDGER
    dataset: str | None = option("Only this data set, with its releases.")
    as_json: bool = as_json()
    html: Path | None = option("Write a page with charts and every entry to this file, for the curator.")


@ledger_app.command()
@command
def show(given: ShowOptions) -> None:
    """Show what each data set has spent and what is left, and verify the chain of records.

    Exit code 3: the chain is broken, i.e. records were edited or removed.

    Example: caribou ledger show --dataset survey
    """
    opened, dataset = Ledger(given.ledger, create=False), given.dataset
    if given.html is not None:
        from caribou.pages.base import write_page
        from caribou.pages.ledger import ledger_page

        if given.as_json:
            raise InputError("html must not go with --json: give one of them")
        if dataset is not None:
            opened.history(dataset)  # a name that is not known is an error
        write_page(given.html, lambda: ledger_page(opened, dataset))
        typer.echo(f"wrote {given.html}: for the curator, not for publication", err=True)
    problems = opened.check()
    # A total that was computed from edited records would be believed: a broken chain shows the finding and nothing else.
    releases = () if problems else opened.entries(dataset)
    balances = [] if problems else [s for s in opened.datasets() if dataset is None or s.dataset == dataset]
    if given.as_json:
        print_json(_document(opened, balances, releases, problems))
    else:
        _print(opened, balances, dataset, problems)
    if problems:
        raise typer.Exit(EXIT_BROKEN_CHAIN)


@record
class BudgetOptions:
    """What caribou ledger budget takes."""

    name: str = DATASET
    epsilon: float = option("The total epsilon; inf means no limit.", default=...)
    unit: PrivacyUnit = option("What is protected: one edge or one node.", default=...)
    delta: float | None = option(f"The total delta (default: {DEFAULT_DELTA:g}).")
    per: str | None = option("Begin anew with each calendar month, quarter or year (UTC); without it: never.")
    ledger: Path = LEDGER


@ledger_app.command()
@command
def budget(given: BudgetOptions) -> None:
    """Set the total that a data set may spend at one privacy unit. Changes are kept in its history.

    In a ledger that has budgets, a name without one is refused. A budget per period limits each period by itself; over several
    periods the budgets add up.

    Example: caribou ledger budget survey --epsilon 8 --unit edge --per year
    """
    total = Budget(given.epsilon, given.delta, given.unit)
    period = None if given.per is None else Period.parse(given.per)
    dataset_name(given.name)  # before a new ledger is made
    balance = _opened(given.ledger).set_budget(given.name, total, per=period)
    typer.echo(f"budget of {given.name}: {total}{'' if period is None else f', per {period.value}'}")
    typer.echo(_spent_words(balance))


@record
class MergeOptions:
    """What caribou ledger merge takes."""

    other: Path = argument("The ledger to take over, e.g. of another machine. It is only read.")
    ledger: Path = LEDGER


@ledger_app.command()
@command
def merge(given: MergeOptions) -> None:
    """Take over what another ledger recorded. What is here already is not counted twice.

    Releases keep their time and words, and count in full, whatever the budgets say. A budget of a name that has none here comes
    along. Fingerprints stay behind, because the other ledger has another key. A second extension of one certificate pays in full.

    Example: caribou ledger merge laptop.sqlite --ledger caribou-ledger.sqlite
    """
    opened, source = Ledger(given.ledger, create=False), Ledger(given.other, create=False)
    if opened.path.resolve() == source.path.resolve():
        raise InputError(f"other must be another ledger, got the same one: {given.other}")
    taken = opened.merge(source)
    typer.echo(f"took over {len(taken)} of {len(source.entries())} releases of {given.other}")
    for balance in opened.datasets():
        if balance.exceeded:
            typer.echo(f"warning: {balance.dataset}, {balance.unit.value} level: {_spent_words(balance)}", err=True)


@record
class AddOptions:
    """What caribou ledger add takes."""

    name: str = DATASET
    certificate: Path | None = option("The certificate of the release: unit and events are its.")
    epsilon: float | None = option("Its epsilon, if there is no certificate.")
    delta: float | None = option("Its delta (default: 0, pure epsilon).")
    unit: PrivacyUnit | None = option("What it protects: one edge or one node.")
    description: str = option("A line about it.", default="made elsewhere")
    purpose: str | None = option("What it was for.")
    person: str | None = option("Who made it.")
    period: str | None = option("The time that its data is about.")
    over_budget: bool = switch("Record it even beyond the budget, because it has been published already.")
    ledger: Path = LEDGER


@ledger_app.command()
@command
def add(given: AddOptions) -> None:
    """Record a release that was made elsewhere, from its certificate or from its epsilon and delta.

    A release beyond the budget is refused, unless --over-budget says that it has been published already.

    Example: caribou ledger add survey --epsilon 0.5 --unit edge --description "degree histogram"
    """
    unit, events, certificate_id = _past_release(given.certificate, given.epsilon, given.delta, given.unit)
    dataset_name(given.name)  # both before a new ledger is made
    ledger_text(description=" ".join(given.description.split()))
    opened = _opened(given.ledger)
    try:
        charge = opened.charge(
            *(given.name, unit, events),
            description=given.description,
            certificate_id=certificate_id,
            note=EntryNote(purpose=given.purpose, person=given.person, period=given.period),
            already_made=given.over_budget,
        )
    except BudgetExceeded as error:
        raise BudgetExceeded(f"{error}; if it has been published already, record it with --over-budget") from error
    opened.annotate(charge.id, "released")
    cost = "; ".join(map(event_words, events)) or "no use of what is protected"
    typer.echo(f"recorded release {charge.id} of {given.name}: {cost}")
    typer.echo(_spent_words(opened.total(given.name, unit)))


def _opened(path: Path) -> Ledger:
    """The ledger, made if there is none; a new one is announced, because it knows of no earlier release."""
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
        from caribou.model.verify import verify
        from caribou.privacy.certificate import Certificate

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
        require_few(loaded.cost)
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


def _spent_words(balance: Balance) -> str:
    from caribou.pages.ledger import left_words

    spent = f"spent: epsilon = {balance.epsilon_spent:.4g} at delta = {balance.delta:g}"
    return f"{spent}; left: {left_words(balance)}"


# -- for programs -------------------------------------------------------------------------------------------------


def _document(
    opened: Ledger, balances: list[Balance], releases: tuple[LedgerEntry, ...], problems: tuple[str, ...]
) -> dict[str, Any]:
    """Everything in plain values; ``epsilon_cumulative``: the total after a release, as of today."""
    totals: dict[int, float] = {}
    for balance in balances:
        totals |= opened.cumulative(balance.dataset, balance.unit)
    return {
        "ledger": str(opened.path),
        "chain_intact": not problems,
        "problems": list(problems),
        "datasets": [write(balance) for balance in balances],
        "releases": [
            write(entry) | {"id": entry.id, "status": entry.status, "epsilon_cumulative": write(totals[entry.id])}
            for entry in releases
        ],
    }


# -- for people ---------------------------------------------------------------------------------------------------


def _print(opened: Ledger, balances: list[Balance], dataset: str | None, problems: tuple[str, ...]) -> None:
    """The same rows as on the page, in plain words."""
    from caribou.pages import ledger as page

    print_line(f"ledger {opened.path}")
    for problem in problems:
        typer.echo(f"chain broken: {problem}", err=True)
    if problems:
        return
    print_table(page.OVERVIEW, [page.overview(balance, _as_it_is) for balance in balances])
    print_line(page.TWO_UNITS)
    for balance in balances:
        if balance.per is not None:
            words = "; ".join(f"{word}: {value}" for word, value in page.balance_rows(balance))
            print_line(f"{balance.dataset}, {balance.unit.value} level: {words}")
    if dataset is not None:
        _print_columns(page.ENTRIES, page.entry_rows(opened, dataset, _as_it_is))
        _print_columns(page.CHANGES, page.change_rows(opened.history(dataset), _as_it_is))
    print_line("chain intact")


def _print_columns(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table that leaves out what no row says, and certificates, which --json has: a terminal is narrow."""
    kept = [k for k, title in enumerate(titles) if title != "certificate" and {row[k] for row in rows} - {NOTHING}]
    if kept:
        print_table([titles[k] for k in kept], [[row[k] for k in kept] for row in rows])


def _as_it_is(words: str | None, missing: str = NOTHING) -> str:
    return missing if words is None else words
