"""The ledger: arithmetic of budgets, identity of data sets, append-only records, and what survives accidents."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from caribou.errors import BudgetExceeded, InputError, LedgerError
from caribou.privacy import accounting
from caribou.privacy import ledger as ledger_module
from caribou.privacy.budget import DEFAULT_DELTA, Budget, PrivacyUnit
from caribou.privacy.events import EpsilonDelta, Event, Gaussian, Laplace, NonPrivate, SubsampledGaussian
from caribou.privacy.ledger import SCHEMA_VERSION, Ledger
from caribou.privacy.ledger_file import LedgerFile

NOON = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)
EDGE, NODE = PrivacyUnit.EDGE, PrivacyUnit.NODE


def additive(events: Sequence[Event], delta: float) -> float:
    """Basic composition of EpsilonDelta events: exact in tests with powers of two, and quick."""
    if any(isinstance(event, NonPrivate) for event in events) or sum(event.delta for event in events) > delta:
        return math.inf
    return float(sum(event.epsilon for event in events))


@pytest.fixture
def basic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "epsilon_of", additive)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path, basic: None) -> Ledger:
    return Ledger(path, clock=lambda: NOON)


def pure(epsilon: float) -> list[Event]:
    return [EpsilonDelta(epsilon)]


def sql(path: Path, *statements: str, triggers: bool = True) -> None:
    """Edit the file behind the ledger's back."""
    with closing(sqlite3.connect(path)) as connection:
        if not triggers:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for (name,) in names:
                connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


class TestBudget:
    def test_spends_until_the_budget_is_reached_exactly(self, ledger: Ledger) -> None:
        assert ledger.set_budget("survey", Budget(1)).epsilon_left == 1
        first = ledger.charge("survey", "edge", pure(0.5), description="one")
        second = ledger.charge("survey", "edge", pure(0.5), description="two")
        assert (first.id, first.epsilon_spent, first.epsilon_left) == (1, 0.5, 0.5)
        assert (second.id, second.epsilon_spent, second.epsilon_left) == (2, 1.0, 0.0)
        assert (first.time, first.dataset, first.unit, first.delta) == (NOON, "survey", EDGE, DEFAULT_DELTA)
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(2**-20), description="three")
        assert [r.id for r in ledger.entries("survey")] == [1, 2]

    def test_refusal_says_who_what_how_much_and_what_is_left(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(1, delta=1e-6, unit="node"))
        ledger.charge("survey", NODE, pure(0.75), description="one")
        with pytest.raises(BudgetExceeded) as caught:
            ledger.charge("survey", NODE, pure(0.5), description="two")
        assert str(caught.value) == (
            "data set 'survey', node level: this release would bring the total to epsilon = 1.25 at delta = 1e-06; "
            "the budget is 1, spent so far 0.75, left 0.25"
        )

    def test_rounding_errors_are_forgiven_once_and_nothing_larger(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(0.3))
        with pytest.raises(BudgetExceeded, match=r"epsilon = 0\.30000001 .* budget is 0\.3,"):
            ledger.charge("survey", "edge", pure(0.30000001), description="the digits are shown")
        assert 0.1 + 0.1 + 0.1 > 0.3
        assert ledger.charge("survey", "edge", pure(0.1) * 3, description="three tenths").epsilon_left == 0
        assert not ledger.total("survey", "edge").exceeded
        ledger.charge("survey", "edge", pure(2e-10), description="within the allowance")
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(2e-10), description="it does not add up")

    def test_data_sets_and_units_are_separate_accounts(self, ledger: Ledger) -> None:
        for name, unit in (("a", "edge"), ("a", "node"), ("b", "edge")):
            ledger.set_budget(name, Budget(1, unit=unit))
            ledger.charge(name, unit, pure(1), description="all of it")
        assert [(s.dataset, s.unit, s.epsilon_spent, s.epsilon_left) for s in ledger.datasets()] == [
            ("a", EDGE, 1.0, 0.0),
            ("a", NODE, 1.0, 0.0),
            ("b", EDGE, 1.0, 0.0),
        ]

    def test_without_budget_everything_is_allowed_and_counted(self, ledger: Ledger) -> None:
        charge = ledger.charge("survey", "edge", pure(7), description="one")
        assert (charge.epsilon_spent, charge.epsilon_left, charge.delta) == (7.0, None, DEFAULT_DELTA)
        assert ledger.charge("survey", "node", [NonPrivate()], description="two").epsilon_spent == math.inf
        balance = ledger.total("survey", "edge")
        assert (balance.releases, balance.epsilon_spent, balance.budget) == (1, 7.0, None)
        assert not balance.exceeded

    def test_earlier_releases_count_in_a_budget_that_is_set_later(self, ledger: Ledger) -> None:
        ledger.charge("survey", "edge", pure(0.75), description="one")
        assert ledger.set_budget("survey", Budget(1)).epsilon_left == 0.25
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(0.5), description="two")

    def test_release_at_the_level_without_budget_is_refused(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(1, unit="edge"))
        with pytest.raises(BudgetExceeded, match=r"budget is at edge level .* at node level.*--unit node"):
            ledger.charge("survey", "node", pure(0.5), description="one")
        ledger.set_budget("survey", Budget(1, unit="node"))
        assert ledger.charge("survey", "node", pure(0.5), description="one").epsilon_left == 0.5

    def test_release_without_noise_is_refused_under_a_budget(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(8))
        with pytest.raises(BudgetExceeded, match="epsilon = inf"):
            ledger.charge("survey", "edge", [NonPrivate()], description="plain")
        assert ledger.entries() == ()

    def test_infinite_budget_allows_it(self, ledger: Ledger, path: Path) -> None:
        ledger.set_budget("survey", Budget(math.inf))
        charge = ledger.charge("survey", "edge", [NonPrivate()], description="plain")
        assert (charge.epsilon_spent, charge.epsilon_left) == (math.inf, math.inf)
        balance = Ledger(path).total("survey", "edge")
        assert (balance.epsilon_spent, balance.epsilon_left, balance.exceeded) == (math.inf, math.inf, False)
        assert Ledger(path).check() == ()

    def test_deltas_beyond_the_budget_are_explained(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(8, delta=1e-6))
        with pytest.raises(BudgetExceeded, match="deltas of the releases alone exceed"):
            ledger.charge("survey", "edge", [EpsilonDelta(1, 1e-5)], description="one")

    def test_lowering_below_spent_is_reported_and_ends_all_releases(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(4))
        ledger.charge("survey", "edge", pure(2), description="one")
        balance = ledger.set_budget("survey", Budget(1))
        assert balance.exceeded
        assert balance.epsilon_left == 0
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(0.0), description="even a free one")

    def test_history_keeps_every_change(self, path: Path, basic: None) -> None:
        times = iter([NOON + timedelta(hours=hour) for hour in range(9)])
        ledger = Ledger(path, clock=lambda: next(times))
        for epsilon in (4, 2, 2, math.inf):
            ledger.set_budget("survey", Budget(epsilon, delta=1e-7, unit="node"))
        ledger.set_budget("other", Budget(1))
        four, two, unlimited = (Budget(e, 1e-7, "node") for e in (4, 2, math.inf))
        changes = Ledger(path).history("survey")
        assert [(c.field, c.unit, c.old, c.new) for c in changes] == [
            ("budget", NODE, None, four),
            ("budget", NODE, four, two),
            ("budget", NODE, two, unlimited),
        ]
        assert [c.time for c in changes] == [NOON, NOON + timedelta(hours=1), NOON + timedelta(hours=2)]

    def test_status_never_reduces_what_is_spent(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(1))
        charge = ledger.charge("survey", "edge", pure(0.75), description="one")
        assert ledger.entries()[0].status == "spent"
        for status in ("released", "failed"):
            ledger.annotate(charge.id, status)
            assert ledger.entries()[0].status == status
            assert ledger.total("survey", "edge").epsilon_spent == 0.75
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(0.5), description="again")
        assert ledger.check() == ()

    def test_past_release_is_recorded_beyond_the_budget(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(1))
        charge = ledger.record_past("survey", "edge", pure(3), description="in the newspaper")
        assert (charge.epsilon_spent, charge.epsilon_left) == (3.0, 0.0)
        assert ledger.total("survey", "edge").exceeded
        assert ledger.entries()[0].status == "released"
        assert ledger.record_past("survey", "node", pure(3), description="other level").epsilon_left is None

    def test_release_that_uses_nothing_protected_costs_nothing(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(1))
        assert ledger.charge("survey", "edge", [], description="public features only").epsilon_spent == 0

    def test_changing_delta_judges_all_releases_again(self, ledger: Ledger) -> None:
        for _ in range(2):
            ledger.charge("survey", "edge", [EpsilonDelta(1, 4e-6)], description="one")
        assert ledger.cumulative("survey", "edge") == {1: 1.0, 2: 2.0}
        assert ledger.set_budget("survey", Budget(8, delta=5e-6)).epsilon_spent == math.inf
        assert ledger.cumulative("survey", "edge") == {1: 1.0, 2: math.inf}
        assert [r.epsilon_total for r in ledger.entries()] == [1.0, 2.0]

    def test_not_a_number_from_the_accountant_is_never_recorded(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(accounting, "epsilon_of", lambda events, delta: math.nan)
        with pytest.raises(LedgerError, match="nan"):
            ledger.charge("survey", "edge", pure(1), description="one")
        assert ledger.entries() == ()


class TestRealAccountant:
    def test_composes_gaussians_across_releases(self, path: Path) -> None:
        ledger = Ledger(path)
        ledger.set_budget("survey", Budget(4, delta=1e-6, unit="node"))
        one, two = Gaussian(3.0), Gaussian(4.0, count=2)
        ledger.charge("survey", "node", [one], description="one")
        charge = ledger.charge("survey", "node", [two], description="two")
        assert charge.epsilon_spent == accounting.epsilon_of([one, two], 1e-6)
        # composition, not addition
        assert charge.epsilon_spent < sum(accounting.epsilon_of([event], 1e-6) for event in (one, two))

    def test_budget_is_used_up_by_a_release_calibrated_to_it(self, path: Path) -> None:
        ledger = Ledger(path)
        ledger.set_budget("survey", Budget(1))
        exact = Gaussian(1 / accounting.gdp_mu(epsilon=1, delta=DEFAULT_DELTA))
        assert ledger.charge("survey", "edge", [exact], description="all").epsilon_left == pytest.approx(0, abs=1e-9)
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", [Gaussian(50.0)], description="a little more")

    def test_all_kinds_of_events_are_kept_as_they_are(self, path: Path) -> None:
        events = (
            Gaussian(noise_multiplier=2.5, count=3),
            SubsampledGaussian(noise_multiplier=1.1, sampling_probability=0.01, steps=20),
            Laplace(noise_multiplier=10.0),
            EpsilonDelta(0.25, 1e-7),
        )
        Ledger(path).charge("survey", "edge", events, description="mixed")
        (release,) = Ledger(path).entries()
        assert release.events == events
        assert release.epsilon_total == accounting.epsilon_of(events, DEFAULT_DELTA)

    def test_numpy_numbers_are_kept(self, path: Path) -> None:
        event = Gaussian(np.float32(2.0), count=np.int64(3))  # type: ignore[arg-type]
        Ledger(path).charge("survey", "edge", [event], description="from an array")
        assert Ledger(path).entries()[0].events == (Gaussian(2.0, 3),)


class TestIdentity:
    def test_fingerprint_depends_on_key_parts_and_their_borders(self, tmp_path: Path) -> None:
        one, two = Ledger(tmp_path / "one"), Ledger(tmp_path / "two")
        prints = {
            one.fingerprint([b"ab", b"c"]),
            one.fingerprint([b"a", b"bc"]),
            one.fingerprint([b"abc"]),
            one.fingerprint([b"abc", b""]),
            one.fingerprint([]),
            two.fingerprint([b"abc"]),
        }
        assert len(prints) == 6
        assert one.fingerprint(iter([bytearray(b"ab"), memoryview(b"c")])) in prints
        assert Ledger(tmp_path / "one").fingerprint([b"abc"]) in prints

    @pytest.mark.parametrize("parts", [b"abc", "abc", ["abc"], [1]])
    def test_fingerprint_takes_bytes_only(self, ledger: Ledger, parts: object) -> None:
        with pytest.raises(InputError, match="parts must be"):
            ledger.fingerprint(parts)  # type: ignore[arg-type]

    def test_changed_content_is_refused_with_advice(self, ledger: Ledger) -> None:
        old, new = ledger.fingerprint([b"old"]), ledger.fingerprint([b"new"])
        ledger.charge("survey", "edge", pure(1), description="one", fingerprints=[old])
        with pytest.raises(LedgerError, match=r"'survey'.*has changed.*new name.*replace the fingerprint"):
            ledger.charge("survey", "edge", pure(1), description="two", fingerprints=[new])
        assert len(ledger.entries()) == 1
        assert len(ledger.history("survey")) == 1

    def test_replacing_keeps_what_is_spent(self, ledger: Ledger) -> None:
        old, new = ledger.fingerprint([b"old"]), ledger.fingerprint([b"new"])
        ledger.charge("survey", "edge", pure(1), description="one", fingerprints=[old])
        charge = ledger.charge(
            "survey", "edge", pure(1), description="two", fingerprints=[new], replace_fingerprint=True
        )
        assert charge.epsilon_spent == 2
        assert [(c.field, c.unit, c.old, c.new) for c in ledger.history("survey")] == [
            ("fingerprint", None, None, old),
            ("fingerprint", None, old, new),
        ]
        # Content that the owner once declared to be this data set stays this data set, under this name only.
        ledger.charge("survey", "edge", pure(1), description="three", fingerprints=[old])
        with pytest.raises(LedgerError, match="known to this ledger as 'survey'"):
            ledger.charge("fresh", "edge", pure(1), description="four", fingerprints=[old])

    @pytest.mark.parametrize("replace", [False, True])
    def test_new_name_does_not_reset_the_budget(self, ledger: Ledger, replace: bool) -> None:
        content = ledger.fingerprint([b"graph"])
        ledger.charge("survey", "edge", pure(1), description="one", fingerprints=[content])
        ledger.set_budget("survey2", Budget(9))
        with pytest.raises(LedgerError, match="known to this ledger as 'survey'"):
            ledger.charge(
                "survey2", "edge", pure(1), description="two", fingerprints=[content], replace_fingerprint=replace
            )
        assert len(ledger.entries()) == 1

    def test_name_from_a_budget_gets_its_fingerprint_with_the_first_release(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(9))
        ledger.record_past("survey", "edge", pure(1), description="by hand")
        content = ledger.fingerprint([b"graph"])
        ledger.charge("survey", "edge", pure(1), description="one", fingerprints=[content])
        assert ledger.history("survey")[-1].new == content

    def test_refused_release_leaves_no_fingerprint(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(1))
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(2), description="one", fingerprints=[ledger.fingerprint([b"graph"])])
        assert [c.field for c in ledger.history("survey")] == ["budget"]

    def test_certificate_is_counted_once_per_data_set(self, ledger: Ledger) -> None:
        ledger.charge("survey", "edge", pure(1), description="one", certificate_id="c-1")
        for record in (ledger.charge, ledger.record_past):
            with pytest.raises(LedgerError, match="'c-1' is already recorded as release 1"):
                record("survey", "node", pure(1), description="two", certificate_id="c-1")
        # A release about two data sets costs both of them.
        assert ledger.charge("other", "edge", pure(1), description="one", certificate_id="c-1").id == 2
        assert [r.certificate_id for r in ledger.entries()] == ["c-1", "c-1"]


class TestInput:
    @pytest.mark.parametrize("name", ["", " survey", "a\nb", "a\x1b[31m", "\udce4", "x" * 501, None, 3])
    def test_name_is_one_printable_line(self, ledger: Ledger, name: object) -> None:
        with pytest.raises(InputError, match="dataset must be"):
            ledger.charge(name, "edge", pure(1), description="one")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="dataset must be"):
            ledger.set_budget(name, Budget(1))  # type: ignore[arg-type]

    def test_other_fields(self, ledger: Ledger) -> None:
        with pytest.raises(InputError, match="unit must be one of edge, node"):
            ledger.charge("survey", "person", pure(1), description="one")
        with pytest.raises(InputError, match="description must be"):
            ledger.charge("survey", "edge", pure(1), description="  ")
        with pytest.raises(InputError, match="certificate_id must be"):
            ledger.charge("survey", "edge", pure(1), description="one", certificate_id="")
        with pytest.raises(InputError, match="fingerprint must be 64 hexadecimal digits"):
            ledger.charge("survey", "edge", pure(1), description="one", fingerprints=["abc"])
        with pytest.raises(InputError, match="event must be one of"):
            ledger.charge("survey", "edge", ["gaussian"], description="one")  # type: ignore[list-item]
        with pytest.raises(InputError, match="budget must be a Budget"):
            ledger.set_budget("survey", 4.0)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="status must be one of released, failed"):
            ledger.annotate(1, "spent")
        assert ledger.entries() == ()

    def test_description_becomes_one_line(self, ledger: Ledger) -> None:
        ledger.charge("survey", "edge", pure(1), description=" two\n  lines ")
        assert ledger.entries()[0].description == "two lines"

    def test_unknown_entries(self, ledger: Ledger) -> None:
        ledger.charge("survey", "edge", pure(1), description="one")
        for ask in (ledger.entries, ledger.history, lambda name: ledger.total(name, "edge")):
            with pytest.raises(LedgerError, match=r"no data set 'servey' \(known: 'survey'\)"):
                ask("servey")
        with pytest.raises(LedgerError, match="no release 2"):
            ledger.annotate(2, "failed")

    def test_time_needs_a_zone_and_is_kept_in_utc(self, path: Path, basic: None) -> None:
        with pytest.raises(InputError, match="time zone"):
            Ledger(path, clock=lambda: NOON.replace(tzinfo=None)).charge("s", "edge", pure(1), description="one")
        local = NOON.astimezone(timezone(timedelta(hours=8)))
        Ledger(path, clock=lambda: local).charge("s", "edge", pure(1), description="one")
        (release,) = Ledger(path).entries()
        assert release.time == NOON
        assert release.time.utcoffset() == timedelta(0)


class TestAppendOnly:
    @pytest.fixture
    def filled(self, ledger: Ledger) -> Ledger:
        ledger.set_budget("survey", Budget(9))
        for word in ("one", "two", "three"):
            ledger.charge("survey", "edge", pure(1), description=word, certificate_id=word)
        ledger.set_budget("survey", Budget(8))
        assert ledger.check() == ()
        return ledger

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM releases WHERE id = 2",
            "UPDATE releases SET events = '[]' WHERE id = 2",
            "UPDATE releases SET hash = 'x', status = 'failed'",
            "UPDATE releases SET id = 9 WHERE id = 1",
            "INSERT OR REPLACE INTO releases SELECT id, time, dataset, unit, '[]', description, certificate_id, delta,"
            " epsilon_total, hash, status FROM releases WHERE id = 2",
            "INSERT OR REPLACE INTO releases SELECT 9, time, dataset, unit, '[]', description, certificate_id, delta,"
            " epsilon_total, hash, status FROM releases WHERE id = 2",
            "UPDATE releases SET status = 'refunded'",
            "DELETE FROM changes",
            "UPDATE changes SET new = '{}'",
            "INSERT OR REPLACE INTO changes SELECT id, time, dataset, field, unit, old, '{}', hash FROM changes",
        ],
    )
    def test_sql_cannot_change_entries(self, filled: Ledger, statement: str) -> None:
        before = filled.entries(), filled.history("survey")
        with pytest.raises(sqlite3.IntegrityError):
            sql(filled.path, statement)
        assert (filled.entries(), filled.history("survey")) == before
        assert filled.check() == ()

    @pytest.mark.parametrize(
        ("statement", "finding"),
        [
            ("DELETE FROM releases WHERE id = 1", "entry 2 was edited, or an entry before it"),
            ("DELETE FROM releases WHERE id = 2", "entry 3 was edited, or an entry before it"),
            ("DELETE FROM releases WHERE id = 3", "end of the chain was edited (2 entries found, 3 recorded)"),
            ("DELETE FROM releases", "end of the chain was edited (0 entries found, 3 recorded)"),
            ("UPDATE releases SET events = '[]' WHERE id = 2", "entry 2 was edited"),
            ("UPDATE releases SET dataset = 'other' WHERE id = 3", "entry 3 was edited"),
            ("UPDATE releases SET unit = 'node' WHERE id = 1", "entry 1 was edited"),
            ("UPDATE releases SET epsilon_total = 0 WHERE id = 1", "entry 1 was edited"),
            ("UPDATE releases SET hash = zeroblob(32) WHERE id = 1", "entry 1 was edited"),
            ("UPDATE changes SET new = replace(new, '8', '80') WHERE id = 2", "changes: entry 2 was edited"),
            ("DELETE FROM changes WHERE id = 2", "changes: the end of the chain was edited"),
            ("DELETE FROM heads", "an unknown number of recorded"),
            ("UPDATE heads SET entries = 7, hash = 'x'", "end of the chain was edited"),
            ("UPDATE secret SET key = zeroblob(32)", "entry 1 was edited"),
        ],
    )
    def test_chain_finds_edits_without_triggers(self, filled: Ledger, statement: str, finding: str) -> None:
        sql(filled.path, statement, triggers=False)
        damaged = Ledger(filled.path)
        assert any(finding in problem for problem in damaged.check()), damaged.check()
        # A decision is never based on edited records, and nothing is added to them.
        with pytest.raises(LedgerError, match="chain of records is broken"):
            damaged.charge("survey", "edge", pure(1), description="four")
        with pytest.raises(LedgerError, match="chain of records is broken"):
            damaged.set_budget("survey", Budget(100))

    def test_unreadable_entry_is_a_ledger_error(self, filled: Ledger) -> None:
        sql(filled.path, "UPDATE releases SET events = '{' WHERE id = 2", triggers=False)
        with pytest.raises(LedgerError, match="an entry cannot be read"):
            filled.entries()

    def test_key_is_in_no_answer(self, filled: Ledger) -> None:
        with closing(sqlite3.connect(filled.path)) as connection:
            (key,) = connection.execute("SELECT key FROM secret").fetchone()
        shown = repr([filled, filled.entries(), filled.datasets(), filled.history("survey"), filled.check()])
        assert len(key) == 32
        assert key.hex() not in shown
        assert repr(key) not in shown


class TestFile:
    def test_is_private_and_leaves_nothing_beside_it(self, ledger: Ledger, path: Path) -> None:
        ledger.charge("survey", "edge", pure(1), description="one")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.listdir(path.parent) == [path.name]
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)

    def test_file_name_with_characters_of_an_address(self, tmp_path: Path, basic: None) -> None:
        odd = tmp_path / "a?b#c%20d é.sqlite"
        Ledger(odd).charge("survey", "edge", pure(1), description="one")
        assert os.listdir(tmp_path) == [odd.name]
        assert len(Ledger(str(odd)).entries()) == 1

    def test_relative_path_survives_a_change_of_folder(
        self, tmp_path: Path, basic: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        ledger = Ledger("ledger.sqlite")
        monkeypatch.chdir("/")
        ledger.charge("survey", "edge", pure(1), description="one")
        assert len(Ledger(tmp_path / "ledger.sqlite").entries()) == 1

    def test_without_create_nothing_is_made(self, path: Path) -> None:
        with pytest.raises(LedgerError, match="does not exist"):
            Ledger(path, create=False)
        assert os.listdir(path.parent) == []

    def test_places_that_cannot_be_a_ledger(self, tmp_path: Path) -> None:
        with pytest.raises(LedgerError, match="is a folder"):
            Ledger(tmp_path)
        with pytest.raises(LedgerError, match="folder does not exist"):
            Ledger(tmp_path / "no" / "ledger.sqlite")
        (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
        with pytest.raises(LedgerError, match="No such file"):
            Ledger(tmp_path / "dangling")
        with pytest.raises(LedgerError, match="name too long"):
            Ledger(tmp_path / ("x" * 300))
        assert os.listdir(tmp_path) == ["dangling"]

    @pytest.mark.parametrize("content", [b"", b"name,epsilon\nsurvey,1\n" * 100, b"x", b"SQLite format 3\0"])
    def test_other_files_are_refused_and_left_alone(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        with pytest.raises(LedgerError, match="ledger"):
            Ledger(path)
        assert path.read_bytes() == content
        assert os.listdir(path.parent) == [path.name]

    def test_other_database_is_refused(self, path: Path) -> None:
        sql(path, "CREATE TABLE releases (id)")
        with pytest.raises(LedgerError, match="is a database but not a ledger"):
            Ledger(path)

    def test_newer_schema_is_refused(self, ledger: Ledger, path: Path) -> None:
        sql(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        with pytest.raises(LedgerError, match=r"schema version 2, .*update caribou"):
            Ledger(path)
        with pytest.raises(LedgerError, match="schema version 2"):
            ledger.charge("survey", "edge", pure(1), description="one")

    def test_schema_version_zero_is_refused(self, ledger: Ledger, path: Path) -> None:
        sql(path, "PRAGMA user_version = 0")
        with pytest.raises(LedgerError, match="at least 1, got 0"):
            Ledger(path)

    def test_ledger_without_key_is_refused(self, ledger: Ledger, path: Path) -> None:
        sql(path, "DELETE FROM secret")
        with pytest.raises(LedgerError, match="exactly one key"):
            Ledger(path)

    @pytest.mark.parametrize("size", [0, 50, 4096, 5000, -1])
    def test_truncated_file(self, ledger: Ledger, path: Path, size: int) -> None:
        for _ in range(40):
            ledger.charge("survey", "edge", pure(1), description="x" * 400)
        os.truncate(path, size if size >= 0 else path.stat().st_size // 2)
        content = path.read_bytes()
        with pytest.raises(LedgerError):
            Ledger(path).charge("survey", "edge", pure(1), description="one")
        with pytest.raises(LedgerError):
            ledger.charge("survey", "edge", pure(1), description="one")
        assert path.read_bytes() == content

    def test_overwritten_page(self, ledger: Ledger, path: Path) -> None:
        for _ in range(40):
            ledger.charge("survey", "edge", pure(1), description="x" * 400)
        content = bytearray(path.read_bytes())
        content[len(content) // 2 :] = os.urandom(len(content) - len(content) // 2)
        path.write_bytes(content)
        with pytest.raises(LedgerError):
            Ledger(path).charge("survey", "edge", pure(1), description="one")

    def test_vanished_file_is_not_made_anew(self, ledger: Ledger, path: Path) -> None:
        path.unlink()
        with pytest.raises(LedgerError, match="cannot be opened"):
            ledger.charge("survey", "edge", pure(1), description="one")
        assert not path.exists()

    def test_folder_without_hard_links(self, path: Path, basic: None, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError("no hard links here")

        monkeypatch.setattr(os, "link", refuse)
        Ledger(path).charge("survey", "edge", pure(1), description="one")
        assert len(Ledger(path).entries()) == 1
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.listdir(path.parent) == [path.name]

    def test_wal_set_by_another_tool_is_undone(self, ledger: Ledger, path: Path) -> None:
        sql(path, "PRAGMA journal_mode = WAL")
        ledger.charge("survey", "edge", pure(1), description="one")
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert os.listdir(path.parent) == [path.name]

    def test_commits_are_synced_including_the_folder(self, ledger: Ledger, path: Path) -> None:
        extra = 3
        with closing(ledger._file._connect(path)) as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (extra,)

    def test_full_disk_leaves_nothing_half_written(
        self, ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Crowded(LedgerFile):
            def _connect(self, path: Path) -> sqlite3.Connection:
                connection = super()._connect(path)
                (pages,) = connection.execute("PRAGMA page_count").fetchone()
                connection.execute(f"PRAGMA max_page_count = {max(pages, 1)}")
                return connection

        monkeypatch.setattr(ledger_module, "LedgerFile", Crowded)
        crowded = Ledger(path)

        def fill() -> None:
            for _ in range(200):
                crowded.charge("survey", "edge", pure(1), description="x" * 400, fingerprints=["a" * 64])

        with pytest.raises(LedgerError, match="disk is full, nothing was recorded"):
            fill()
        recorded = len(ledger.entries())
        assert ledger.check() == ()
        assert ledger.charge("survey", "edge", pure(1), description="space again").id == recorded + 1
        with pytest.raises(LedgerError, match="disk is full"):
            Ledger(path.with_name("new.sqlite"))
        assert os.listdir(path.parent) == [path.name]

    def test_permissions(self, basic: None) -> None:
        """Read-only: can be read, not written. Unreadable: cannot be opened. Run as somebody without privileges."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.sqlite"
            Ledger(path).charge("survey", "edge", pure(1), description="one")
            secret = Path(folder) / "secret.sqlite"
            Ledger(secret)
            path.chmod(0o444)
            secret.chmod(0)
            Path(folder).chmod(0o555)
            content = path.read_bytes()
            output = run(
                """
                import caribou.privacy.accounting
                if os.getuid() == 0:
                    os.setgid(65534); os.setuid(65534)
                path, secret, new = sys.argv[1:]
                ledger = Ledger(path)
                say(len(ledger.entries()), ledger.check())
                for action in (
                    lambda: ledger.charge("survey", "edge", [EpsilonDelta(1.0)], description="two"),
                    lambda: ledger.set_budget("survey", Budget(4)),
                    lambda: ledger.annotate(1, "failed"),
                    lambda: Ledger(secret),
                    lambda: Ledger(new),
                ):
                    try:
                        action()
                    except LedgerError as error:
                        say(str(error).split(": ", 1)[1].split(" [")[0])
                """,
                path,
                secret,
                Path(folder) / "new.sqlite",
            )
            Path(folder).chmod(0o755)
            assert path.read_bytes() == content
            assert sorted(os.listdir(folder)) == ["ledger.sqlite", "secret.sqlite"]
        read_only = "is read-only, nothing was recorded"
        assert output == ["1 ()", read_only, read_only, read_only, "cannot be opened", "Permission denied"]


PREAMBLE = """
import os, signal, sqlite3, sys, time
from pathlib import Path
from caribou.errors import BudgetExceeded, LedgerError
from caribou.privacy import accounting
from caribou.privacy.budget import Budget
from caribou.privacy.events import EpsilonDelta
from caribou.privacy.ledger import Ledger
from caribou.privacy.ledger_file import LedgerFile
accounting.epsilon_of = lambda events, delta: float(sum(event.epsilon for event in events))
def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PREAMBLE + textwrap.dedent(script), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(script: str, *arguments: object, code: int = 0) -> list[str]:
    process = start(script, *arguments)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    return output.splitlines()


class TestProcesses:
    def test_eight_processes_lose_nothing_and_never_overrun(self, path: Path, basic: None) -> None:
        """8 x 10 attempts at 1/64 each under a budget of 1, from creating the file on: exactly 64 succeed."""
        together = time.time() + 1.5
        workers = [
            start(
                """
                time.sleep(max(0, float(sys.argv[3]) - time.time()))
                ledger = Ledger(sys.argv[1])
                ledger.set_budget("survey", Budget(1))
                for turn in range(10):
                    try:
                        charge = ledger.charge("survey", "edge", [EpsilonDelta(1 / 64)], description=sys.argv[2])
                    except BudgetExceeded:
                        say("refused")
                    else:
                        say(charge.id, charge.epsilon_spent)
                """,
                path,
                f"worker {worker}",
                together,
            )
            for worker in range(8)
        ]
        lines: list[str] = []
        for worker in workers:
            output, errors = worker.communicate(timeout=60)
            assert worker.returncode == 0, errors
            lines += output.splitlines()
        receipts = sorted(tuple(map(float, line.split())) for line in lines if line != "refused")
        assert receipts == [(k, k / 64) for k in range(1, 65)]
        assert len(lines) == 80
        ledger = Ledger(path)
        assert [r.epsilon_total for r in ledger.entries()] == [k / 64 for k in range(1, 65)]
        assert ledger.total("survey", "edge").epsilon_left == 0
        assert len(ledger.history("survey")) == 1
        assert ledger.check() == ()
        assert os.listdir(path.parent) == [path.name]

    def test_threads_share_one_ledger(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(1))
        refused: list[BudgetExceeded] = []

        def work() -> None:
            for _ in range(5):
                try:
                    ledger.charge("survey", "edge", pure(1 / 16), description="one")
                except BudgetExceeded as error:
                    refused.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(ledger.entries()), len(refused)) == (16, 4)
        assert ledger.check() == ()

    @pytest.mark.parametrize("statement", ["UPDATE heads", "COMMIT"])
    def test_killed_in_the_middle_of_spend(self, ledger: Ledger, path: Path, statement: str) -> None:
        ledger.charge("survey", "edge", pure(1), description="one")
        run(
            """
            class Doomed(LedgerFile):
                def _connect(self, path):
                    connection = super()._connect(path)
                    def kill(statement):
                        if statement.startswith(sys.argv[2]):
                            os.kill(os.getpid(), signal.SIGKILL)
                    connection.set_trace_callback(kill)
                    return connection
            ledger = Ledger(sys.argv[1])
            ledger._file.__class__ = Doomed  # only now: opening commits too
            ledger.charge("survey", "edge", [EpsilonDelta(1.0)], description="two", fingerprints=["a" * 64])
            """,
            path,
            statement,
            code=-signal.SIGKILL,
        )
        assert [r.description for r in ledger.entries()] == ["one"]
        assert ledger.history("survey") == ()
        assert ledger.check() == ()
        assert ledger.charge("survey", "edge", pure(1), description="three").id == 2

    def test_killed_after_part_of_the_transaction_reached_the_disk(self, ledger: Ledger, path: Path) -> None:
        """The cache of one page forces half-done pages into the file; the journal that is left behind undoes them."""
        for _ in range(5):
            ledger.charge("survey", "edge", pure(1), description="x" * 400)
        before, releases = path.read_bytes(), ledger.entries()
        run(
            """
            connection = sqlite3.connect(sys.argv[1], isolation_level=None)
            connection.execute("PRAGMA cache_size = 1")
            connection.execute("BEGIN IMMEDIATE")
            for number in range(200):
                connection.execute(
                    "INSERT INTO releases (time, dataset, unit, events, description, delta, epsilon_total, hash, status)"
                    " VALUES ('2024', 'survey', 'edge', '[]', ?, 1e-5, 0.0, 'x', 'spent')", ("y" * 400,))
            os.kill(os.getpid(), signal.SIGKILL)
            """,
            path,
            code=-signal.SIGKILL,
        )
        assert path.read_bytes() != before
        assert path.with_name(path.name + "-journal").exists()
        assert Ledger(path).entries() == releases
        assert Ledger(path).check() == ()
        assert ledger.charge("survey", "edge", pure(1), description="next").id == 6
        assert os.listdir(path.parent) == [path.name]

    def test_lock_held_too_long(self, ledger: Ledger, path: Path, basic: None) -> None:
        patient = Ledger(path, busy_timeout=0.2)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(LedgerError, match=r"another process has held it for more than 0\.2 s"):
                patient.charge("survey", "edge", pure(1), description="one")
            with pytest.raises(LedgerError, match="another process"):
                patient.entries()
        assert patient.charge("survey", "edge", pure(1), description="one").id == 1

    def test_reader_that_does_not_let_go(self, ledger: Ledger, path: Path) -> None:
        """The commit itself has to wait for readers; when it gives up nothing is recorded."""
        patient = Ledger(path, busy_timeout=0.2)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM releases").fetchone()
            with pytest.raises(LedgerError, match="another process"):
                patient.charge("survey", "edge", pure(1), description="one")
        assert ledger.entries() == ()
        assert ledger.check() == ()


def test_importing_the_ledger_is_light() -> None:
    (line,) = run('say(sorted({"torch", "torch_geometric", "pandas"} & set(sys.modules)))')
    assert line == "[]"
