"""The ledger page: what each data set may spend, what it has spent over time, what is left, and every entry with its words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from caribou.pages.pictures import PAGE_COLOURS, Line, LineChart
from caribou.pages.sections import Block, Chart, Declared, Facts, Grid, Items, Section, Text, Words, section_page
from caribou.privacy.accounting import event_words
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.ledger import Balance, Change, Ledger, LedgerEntry
from caribou.privacy.periods import Period

DAY = 86400.0
CURATOR_ONLY = (
    "Curator only. A ledger is the owner's record: names, purposes and dates of releases stand in it. Do not publish this "
    "page."
)
TWO_UNITS = (
    "Every release counts at both units. An edge-level release leaves nothing at node level, because it makes features and "
    "labels public. A node-level release counts twice at edge level."
)
LIMITS = (
    "It sees only what it is told: a release that was made without it is not counted.",
    "Two data sets with different names but the same people are two accounts.",
    "Whoever can read the file can forge it, and an older copy put in its place is not noticed.",
    "A budget per period is kept within each period; over several periods the budgets add up.",
)


@dataclass(frozen=True)
class Spending:
    """The total of a data set at one unit over time: after each release made there, and the budget in force.

    totals: time and epsilon, oldest first; it begins anew with each period of the budget. budgets: time and epsilon.
    """

    dataset: str
    unit: PrivacyUnit
    totals: tuple[tuple[datetime, float], ...]
    budgets: tuple[tuple[datetime, float], ...]


def spending(ledger: Ledger, name: str, unit: PrivacyUnit, now: datetime) -> Spending:
    """What a data set has spent until now, by the budget and the rule of today (`Ledger.cumulative`)."""
    after = ledger.cumulative(name, unit)
    made = [entry for entry in ledger.entries(name) if entry.id in after]
    changes = [change for change in ledger.history(name) if change.unit is unit and isinstance(change.new, Budget)]
    per = changes[-1].per if changes else None
    budgets = tuple((change.time, change.new.epsilon) for change in changes if isinstance(change.new, Budget))
    return Spending(name, unit, tuple(_totals(made, after, per, now)), budgets)


def _totals(
    made: Sequence[LedgerEntry], after: dict[int, float], per: Period | None, now: datetime
) -> list[tuple[datetime, float]]:
    """The totals, with 0 at the begin of every period that has a release, and at its end."""
    found: list[tuple[datetime, float]] = []
    end: datetime | None = None
    for entry in sorted(made, key=lambda entry: entry.time):
        if not found and per is None:
            found.append((entry.time, 0.0))
        if per is not None and (end is None or entry.time >= end):
            begin = per.window(entry.time)[0]
            if end is not None and end != begin:
                found.append((end, 0.0))
            found.append((begin, 0.0))
            end = per.window(entry.time)[1]
        found.append((entry.time, after[entry.id]))
    if end is not None and end <= now:
        found.append((end, 0.0))
    return found


def spending_chart(spent: Spending, now: datetime) -> Chart:
    """Steps of what is spent below the steps of the budget; what is infinite is not drawn, and the words say so."""
    finite = [(time, total) for time, total in spent.totals if math.isfinite(total)]
    first = min([time for time, _ in (*spent.totals, *spent.budgets)], default=now)
    lines = [Line("spent", _steps(finite, now), PAGE_COLOURS["accent"], marker="o", steps=True)]
    budgets = [(time, epsilon) for time, epsilon in spent.budgets if math.isfinite(epsilon)]
    if budgets:
        # a marker shows a budget that was set a moment ago, too
        lines.append(Line("budget", _steps(budgets, now), PAGE_COLOURS["bad"], "--", "s", steps=True))
    last = spent.totals[-1][1] if spent.totals else 0.0
    same_day = first.date() == now.date()
    when = f"on {now:%Y-%m-%d}" if same_day else f"from {first:%Y-%m-%d} to {now:%Y-%m-%d}"
    words = f"Epsilon spent over time at {spent.unit.value} level, {when}: {figure(last)} at the end"
    words += f"; the budget is {figure(spent.budgets[-1][1])}." if spent.budgets else "; no budget is set."
    label = f"time on {now:%Y-%m-%d} (UTC)" if same_day else "date (UTC)"
    drawn = tuple(line for line in lines if line.points)
    shown = LineChart(words, label, "total epsilon", drawn, dates=True)
    infinite = "" if len(finite) == len(spent.totals) else " A total without bound is left out of the picture."
    return Chart(f"spending-{spent.unit.value}-{_slug(spent.dataset)}", shown, f"{words}{infinite}")


def _steps(points: Sequence[tuple[datetime, float]], now: datetime) -> list[list[float]]:
    """Points of a chart, the last value held until now."""
    found = [[time.timestamp() / DAY, value] for time, value in points]
    return [*found, [max(now.timestamp() / DAY, found[-1][0]), found[-1][1]]] if found else []


def _slug(name: str) -> str:
    """A name as part of an address: nothing but hexadecimal digits, so that two names never meet."""
    return name.encode().hex()


def figure(epsilon: float | None) -> str:
    """An epsilon for people."""
    if epsilon is None:
        return "none"
    return "without bound" if math.isinf(epsilon) else f"{epsilon:.4g}"


# -- balances ---------------------------------------------------------------------------------------------------------


def left_words(balance: Balance) -> str:
    """What one further release may cost, by the kind of its noise."""
    if balance.budget is None or balance.gaussian_left is None or balance.pure_left is None:
        return "no budget is set"
    if balance.exceeded:
        return "nothing: more than the budget is spent"
    return _by_noise(balance.gaussian_left, balance.pure_left)


def _by_noise(gaussian: float, pure: float) -> str:
    same = figure(gaussian) == figure(pure)
    return figure(pure) if same else f"{figure(gaussian)} with Gaussian noise, or {figure(pure)} if pure"


def budget_words(balance: Balance) -> str:
    """The budget with its period."""
    if balance.budget is None:
        return "none"
    per = "" if balance.per is None else f" per {balance.per.value} (now {balance.period})"
    return f"{figure(balance.budget.epsilon)} at delta = {balance.budget.delta:g}{per}"


def balance_facts(balance: Balance) -> Facts:
    """One account: budget, spent, left, and what each month may have."""
    rows: list[tuple[str, Words]] = [
        ("budget", budget_words(balance)),
        ("spent" if balance.period is None else f"spent in {balance.period}", figure(balance.epsilon_spent)),
        ("left for one more release", left_words(balance)),
    ]
    gaussian, pure = balance.gaussian_per_month, balance.pure_per_month
    if balance.months_left is not None and gaussian is not None and pure is not None and not balance.exceeded:
        words = _by_noise(gaussian, pure)
        months = "this month" if balance.months_left == 1 else f"each of the {balance.months_left} months left"
        rows.append((f"for one release in {months}", words))
    if balance.periods > 1:
        together = f"{figure(balance.epsilon_all_periods)} at delta = {balance.delta_all_periods:g}"
        rows.append((f"all {balance.periods} periods together", together))
    return Facts(tuple(rows), large=True)


# -- the page ---------------------------------------------------------------------------------------------------------


def ledger_page(ledger: Ledger, dataset: str | None = None, now: datetime | None = None) -> str:
    """The page of a ledger, or of one of its data sets.

    A ledger whose chain of records is broken gets a page that says so and shows no figure: a total of edited records would be
    believed.

    Args:
        ledger: it is only read.
        dataset: one name; None: all.
        now: the end of the charts; None: the present.

    Returns:
        One HTML text.
    """
    first, sections = ledger_sections(ledger, dataset, now)
    return section_page("Privacy ledger", sections, subject=Declared(ledger.path.name), first=first)


def ledger_sections(
    ledger: Ledger, dataset: str | None = None, now: datetime | None = None
) -> tuple[tuple[Block, ...], tuple[Section, ...]]:
    """What the page says first, and its sections."""
    problems = ledger.check()
    if problems:
        first: tuple[Block, ...] = (
            Text(
                "The chain of records is broken: records were edited or removed. No figure of it can be relied on.",
                "bad",
            ),
            Items(tuple(Declared(problem) for problem in problems)),
        )
        return first, ()
    now = now or datetime.now(UTC)
    names = sorted({balance.dataset for balance in ledger.datasets()})
    shown = names if dataset is None else [dataset]
    balances = [b for b in ledger.datasets() if b.dataset in shown and _is_used(b)]
    first = (Text(CURATOR_ONLY, "warn"), Text("The chain of records is intact.", "good"))
    sections = [Section("overview", "Data sets", (_overview(balances), Text(TWO_UNITS, "dim")))]
    for name in shown:
        sections.append(_account(ledger, name, [b for b in balances if b.dataset == name], now))
    sections.append(Section("limits", "What a ledger does not see", (Items(LIMITS),)))
    return first, tuple(sections)


def _is_used(balance: Balance) -> bool:
    """An account with a budget or a release of its own."""
    return balance.budget is not None or balance.releases > 0


def _overview(balances: Sequence[Balance]) -> Block:
    if not balances:
        return Text("This ledger holds no release and no budget.")
    rows = tuple(
        (
            Declared(b.dataset),
            b.unit.value,
            str(b.releases),
            figure(b.epsilon_spent),
            f"{b.delta:g}",
            budget_words(b),
            left_words(b),
        )
        for b in balances
    )
    head = ("data set", "unit", "releases", "epsilon spent", "at delta", "budget", "left for one more release")
    return Grid(head, rows, "Names of data sets are the owner's words.")


def _account(ledger: Ledger, name: str, balances: Sequence[Balance], now: datetime) -> Section:
    blocks: list[Block] = []
    for balance in balances:
        blocks += [Text(f"At {balance.unit.value} level:"), balance_facts(balance)]
        if balance.exceeded:
            blocks.append(Text("More is spent than the budget allows: no further release is allowed.", "bad"))
        spent = spending(ledger, name, balance.unit, now)
        if spent.totals:
            blocks.append(spending_chart(spent, now))
    entries = ledger.entries(name)
    if entries:
        blocks.append(_entries(ledger, name, entries))
    changes = _changes(ledger.history(name))
    if changes:
        blocks.append(
            Grid(("date (UTC)", "what changed", "now", "who", "why"), changes, "History of budgets and content.")
        )
    return Section(f"data-{_slug(name)}", f"Data set {number_of(ledger, name)}:", tuple(blocks), Declared(name))


def number_of(ledger: Ledger, name: str) -> str:
    """The number of a data set in the ledger, for a heading."""
    names = sorted({balance.dataset for balance in ledger.datasets()})
    return f"{names.index(name) + 1} of {len(names)}"


def _entries(ledger: Ledger, name: str, entries: Sequence[LedgerEntry]) -> Grid:
    totals: dict[int, float] = {}
    for unit in PrivacyUnit:
        totals |= ledger.cumulative(name, unit)
    batches = ledger.later_batches(name)
    rows = tuple(
        (
            str(entry.id),
            f"{entry.time:%Y-%m-%d %H:%M}",
            entry.unit.value,
            Declared(entry.description),
            _noted(entry.purpose),
            _noted(entry.person),
            _noted(entry.period),
            "nothing more: a later batch"
            if entry.id in batches
            else "; ".join(map(event_words, entry.events)) or "nothing",
            figure(totals.get(entry.id)),
            entry.status,
            _noted(entry.certificate_id),
        )
        for entry in entries
    )
    head = (
        *("number", "time (UTC)", "unit", "description", "purpose", "person", "period of the data"),
        *("cost", "total epsilon", "status", "certificate"),
    )
    return Grid(head, rows, "Every entry. Description, purpose, person and period are the owner's words.")


def _noted(words: str | None) -> Words:
    return "–" if words is None else Declared(words)


def _changes(history: Sequence[Change]) -> tuple[tuple[Words, ...], ...]:
    rows: list[tuple[Words, ...]] = []
    for change in history:
        if isinstance(change.new, Budget):
            unit = "" if change.unit is None else f" at {change.unit.value} level"
            per = "" if change.per is None else f" per {change.per.value}"
            what, now = f"budget{unit}", f"{figure(change.new.epsilon)} at delta = {change.new.delta:g}{per}"
        elif change.old is not None:
            what, now = "content", "changed; declared to be about the same people"
        else:
            continue  # the first content of a name is no change
        rows.append((f"{change.time:%Y-%m-%d %H:%M}", what, now, _noted(change.person), _noted(change.reason)))
    return tuple(dict.fromkeys(rows))
