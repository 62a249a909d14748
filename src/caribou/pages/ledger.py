"""The ledger page: what each data set may spend, what it has spent over time, what is left, and every entry with its words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from caribou.pages.base import declared, figure, render
from caribou.pages.pictures import PAGE_COLOURS, Line, LineChart
from caribou.privacy.accounting import event_words
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.ledger import Balance, Change, Ledger, LedgerEntry
from caribou.privacy.periods import Period

if TYPE_CHECKING:
    from markupsafe import Markup

DAY = 86400.0
TWO_UNITS = (
    "Every release counts at both units. An edge-level release leaves nothing at node level, because it makes features and "
    "labels public. A node-level release counts twice at edge level."
)


Quote = Callable[..., str]
OVERVIEW = ("data set", "unit", "releases", "epsilon spent", "at delta", "budget", "left for one more release")
ENTRIES = (
    *("id", "time (UTC)", "unit", "description", "purpose", "person", "period", "cost", "total epsilon", "status"),
    "certificate",
)
CHANGES = ("date (UTC)", "what changed", "now", "who", "why")


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


def spending_chart(spent: Spending, now: datetime) -> LineChart:
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
    infinite = "" if len(finite) == len(spent.totals) else " A total without bound is left out of the picture."
    return LineChart(
        f"{words}{infinite}", label, "total epsilon", tuple(line for line in lines if line.points), dates=True
    )


def _steps(points: Sequence[tuple[datetime, float]], now: datetime) -> list[list[float]]:
    """Points of a chart, the last value held until now."""
    found = [[time.timestamp() / DAY, value] for time, value in points]
    return [*found, [max(now.timestamp() / DAY, found[-1][0]), found[-1][1]]] if found else []


def _slug(name: str) -> str:
    """A name as part of an address: nothing but hexadecimal digits, so that two names never meet."""
    return name.encode().hex()


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


def balance_rows(balance: Balance) -> list[tuple[str, str]]:
    """One account: budget, spent, left, and what each month may have."""
    rows = [
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
    return rows


# -- the page ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Account:
    """What the page says about a data set. ``balances``: with the chart of what was spent; rows as the tables have them."""

    place: str
    balances: tuple[tuple[Balance, LineChart | None], ...]
    entries: list[tuple[str, ...]]
    changes: list[tuple[str, ...]]


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
    title, file, problems = "Privacy ledger", ledger.path.name, ledger.check()
    if problems:
        return render("ledger.html", title=title, file=file, problems=problems)
    now = now or datetime.now(UTC)
    names = sorted({balance.dataset for balance in ledger.datasets()})
    shown = names if dataset is None else [dataset]
    balances = [b for b in ledger.datasets() if b.dataset in shown and _is_used(b)]
    headings = {f"data-{_slug(name)}": _heading(name, names) for name in shown}
    return render(
        "ledger.html",
        title=title,
        file=file,
        problems=(),
        titles={"overview": "Data sets", **headings, "limits": "What a ledger does not see"},
        columns={"overview": OVERVIEW, "entries": ENTRIES, "changes": CHANGES},
        overview=[overview(balance) for balance in balances],
        accounts=[_account(ledger, name, [b for b in balances if b.dataset == name], now) for name in shown],
        two_units=TWO_UNITS,
        balance_rows=balance_rows,
    )


def _heading(name: str, names: Sequence[str]) -> Markup:
    from markupsafe import Markup

    return Markup("Data set {} of {}: {}").format(names.index(name) + 1, len(names), declared(name))


def _is_used(balance: Balance) -> bool:
    """An account with a budget or a release of its own."""
    return balance.budget is not None or balance.releases > 0


def overview(b: Balance, quote: Quote = declared) -> tuple[str, ...]:
    """A row of the table of data sets; ``quote``: how words of the owner are shown."""
    spent = (str(b.releases), figure(b.epsilon_spent), f"{b.delta:g}")
    return (quote(b.dataset), b.unit.value, *spent, budget_words(b), left_words(b))


def _account(ledger: Ledger, name: str, balances: Sequence[Balance], now: datetime) -> _Account:
    drawn = []
    for balance in balances:
        spent = spending(ledger, name, balance.unit, now)
        drawn.append((balance, spending_chart(spent, now) if spent.totals else None))
    return _Account(f"data-{_slug(name)}", tuple(drawn), entry_rows(ledger, name), change_rows(ledger.history(name)))


def entry_rows(ledger: Ledger, name: str, quote: Quote = declared) -> list[tuple[str, ...]]:
    """Every entry of a data set; ``quote``: how words of the owner are shown."""
    totals: dict[int, float] = {}
    for unit in PrivacyUnit:
        totals |= ledger.cumulative(name, unit)
    batches = ledger.later_batches(name)
    return [
        (
            str(entry.id),
            f"{entry.time:%Y-%m-%d %H:%M}",
            entry.unit.value,
            quote(entry.description),
            *(quote(words, "–") for words in (entry.purpose, entry.person, entry.period)),
            "nothing more: a later batch"
            if entry.id in batches
            else "; ".join(map(event_words, entry.events)) or "nothing",
            figure(totals.get(entry.id)),
            entry.status,
            quote(entry.certificate_id, "–"),
        )
        for entry in ledger.entries(name)
    ]


def change_rows(history: Sequence[Change], quote: Quote = declared) -> list[tuple[str, ...]]:
    """The history of budgets and content; ``quote``: how words of the owner are shown."""
    rows = []
    for change in history:
        if isinstance(change.new, Budget):
            unit = "" if change.unit is None else f" at {change.unit.value} level"
            per = "" if change.per is None else f" per {change.per.value}"
            what, now = f"budget{unit}", f"{figure(change.new.epsilon)} at delta = {change.new.delta:g}{per}"
        elif change.old is not None:
            what, now = "content", "changed; declared to be about the same people"
        else:
            continue  # the first content of a name is no change
        time, who, why = f"{change.time:%Y-%m-%d %H:%M}", quote(change.person, "–"), quote(change.reason, "–")
        rows.append((time, what, now, who, why))
    return list(dict.fromkeys(rows))
