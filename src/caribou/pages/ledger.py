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
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.ledger import Balance, BudgetChange, Change, Ledger
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


def spending_chart(ledger: Ledger, name: str, unit: PrivacyUnit, now: datetime) -> LineChart | None:
    """Steps of what a data set has spent, by the budget and the rule of today, below the steps of the budget in force.

    It begins anew with each period of the budget. What is infinite is not drawn, and the words say so. None: nothing was spent.
    """
    set_at = [c for c in ledger.history(name) if isinstance(c, BudgetChange) and c.budget.unit is unit]
    totals = _totals(ledger, name, unit, set_at[-1].per if set_at else None, now)
    if not totals:
        return None
    budgets = [(change.time, change.budget.epsilon) for change in set_at]
    first = min(time for time, _ in (*totals, *budgets))
    same_day = first.date() == now.date()
    when = f"on {now:%Y-%m-%d}" if same_day else f"from {first:%Y-%m-%d} to {now:%Y-%m-%d}"
    words = f"Epsilon spent over time at {unit.value} level, {when}: {figure(totals[-1][1])} at the end"
    words += f"; the budget is {figure(budgets[-1][1])}." if budgets else "; no budget is set."
    if any(math.isinf(total) for _, total in totals):
        words += " A total without bound is left out of the picture."
    label = f"time on {now:%Y-%m-%d} (UTC)" if same_day else "date (UTC)"
    lines = (
        Line("spent", _steps(totals, now), PAGE_COLOURS["accent"], marker="o", steps=True),
        # a marker shows a budget that was set a moment ago, too
        Line("budget", _steps(budgets, now), PAGE_COLOURS["bad"], "--", "s", steps=True),
    )
    return LineChart(words, label, "total epsilon", tuple(line for line in lines if line.points), dates=True)


def _totals(
    ledger: Ledger, name: str, unit: PrivacyUnit, per: Period | None, now: datetime
) -> list[tuple[datetime, float]]:
    """Time and total, oldest first, with 0 at the begin of every period that has a release, and at its end."""
    after = ledger.cumulative(name, unit)
    made = sorted((entry.time, after[entry.id]) for entry in ledger.entries(name) if entry.id in after)
    periods: dict[tuple[datetime, datetime], list[tuple[datetime, float]]] = {}
    for time, total in made:
        periods.setdefault(
            (made[0][0], datetime.max.replace(tzinfo=UTC)) if per is None else per.window(time), []
        ).append((time, total))
    found = []
    for (begin, end), totals in periods.items():
        found += [(begin, 0.0), *totals, *([(end, 0.0)] if end <= now else [])]
    return found


def _steps(points: Sequence[tuple[datetime, float]], now: datetime) -> list[list[float]]:
    """What is finite as points of a chart, the last value held until now."""
    found = [[time.timestamp() / DAY, value] for time, value in points if math.isfinite(value)]
    return [*found, [max(now.timestamp() / DAY, found[-1][0]), found[-1][1]]] if found else []


def _place(name: str) -> str:
    """The address of a data set: nothing but hexadecimal digits, so that two names never meet."""
    return f"data-{name.encode().hex()}"


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
    headings = {_place(name): _heading(name, names) for name in shown}
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
    drawn = tuple((balance, spending_chart(ledger, name, balance.unit, now)) for balance in balances)
    return _Account(_place(name), drawn, entry_rows(ledger, name), change_rows(ledger.history(name)))


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
        time = f"{change.time:%Y-%m-%d %H:%M}"
        if isinstance(change, BudgetChange):
            per = "" if change.per is None else f" per {change.per.value}"
            now = f"{figure(change.budget.epsilon)} at delta = {change.budget.delta:g}{per}"
            rows.append((time, f"budget at {change.budget.unit.value} level", now, "–", "–"))
        elif change.replaced is not None:  # the first content of a name is no change
            now = "changed; declared to be about the same people"
            rows.append((time, "content", now, quote(change.person, "–"), quote(change.reason, "–")))
    return list(dict.fromkeys(rows))
