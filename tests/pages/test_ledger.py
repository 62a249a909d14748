"""The ledger page: what the ledger says, nothing of a broken one, and the owner's words set apart."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from caribou.pages.ledger import ledger_page
from caribou.privacy.budget import Budget
from caribou.privacy.events import NonPrivate
from caribou.privacy.ledger import EntryNote, Ledger
from ledger_support import pure
from page_support import said

START = datetime(2026, 1, 10, 12, tzinfo=UTC)
END = datetime(2026, 4, 1, tzinfo=UTC)
HOSTILE = "<b>guaranteed private</b>"


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def world(tmp_path: Path) -> Ledger:
    """Two data sets: one with a budget per month over two months, one without a limit."""
    clock = Clock()
    ledger = Ledger(tmp_path / "ledger.sqlite", clock=clock)
    ledger.set_budget("survey", Budget(4, unit="edge"), per="month")
    ledger.set_budget("other", Budget(float("inf"), unit="edge"))
    for days, epsilon in ((0, 1.0), (2, 0.5), (40, 2.0)):
        clock.now = START + timedelta(days=days)
        note = EntryNote(purpose=HOSTILE, person="ada", period="2026-01")
        ledger.charge("survey", "edge", pure(epsilon), description="scores", certificate_id=f"{days:032x}", note=note)
    ledger.charge("other", "edge", [NonPrivate()], description="raw")
    return ledger


def words(ledger: Ledger, dataset: str | None = None) -> str:
    return "\n".join(said(ledger_page(ledger, dataset, END)).values())


def test_the_page_says_what_is_spent_left_and_by_whom(world: Ledger) -> None:
    shown = words(world)
    assert "Do not publish this page" in shown
    assert "chain of records is intact" in shown
    assert "budget: 4 at delta = 1e-05 per month" in shown
    assert "ada" in shown
    assert f"{0:032x}" in shown
    assert "epsilon = 0.5" in shown, "what an entry cost"
    assert "raw" not in words(world, "survey")


def test_words_of_the_owner_are_no_markup_and_no_promise(world: Ledger) -> None:
    world.set_budget("a&b's", Budget(1, unit="edge"))
    page = ledger_page(world, now=END)
    assert '<code class="declared">&lt;b&gt;guaranteed private&lt;/b&gt;</code></td>' in page
    assert "<b>" not in page
    shown = '<code class="declared">a&amp;b&#39;s</code>'
    assert page.count(f"Data set 1 of 3: {shown}") == 2, "in the list and in the heading"
    assert page.count("<svg") == 2, "a picture for each data set with releases"
    assert len(page) < 1_000_000


def test_a_broken_chain_is_said_first_and_no_figure_is_shown(world: Ledger) -> None:
    with sqlite3.connect(world.path) as connection:
        connection.execute("drop trigger entries_update")
        connection.execute("update entries set record = replace(record, 'scores', 'edited') where id = 3")
    page = ledger_page(Ledger(world.path), None, END)
    assert list(said(page)) == ["first"]
    assert "chain of records is broken" in said(page)["first"]
    assert "<svg" not in page
    assert "2.0" not in said(page)["first"]
