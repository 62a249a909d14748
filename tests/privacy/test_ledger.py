"""The ledger: arithmetic of budgets, identity of data sets, and many processes at once."""

from __future__ import annotations

import itertools
import math
import sqlite3
import warnings
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from caribou.errors import BudgetExceeded, InputError, LedgerError
from caribou.privacy import accounting, filters
from caribou.privacy import ledger as ledger_module
from caribou.privacy.budget import DEFAULT_DELTA, Budget, PrivacyUnit
from caribou.privacy.events import EpsilonDelta, Event, Gaussian, Laplace, NonPrivate, Parallel
from caribou.privacy.ledger import BudgetChange, ContentChange, EntryNote, Fingerprint, Ledger, LedgerEntry
from caribou.privacy.periods import Period
from ledger_support import NOON, pure, start

EDGE, NODE = PrivacyUnit.EDGE, PrivacyUnit.NODE


class TestBudget:
    def test_spends_until_the_budget_is_reached_exactly(self, ledger: Ledger) -> None:
        assert ledger.set_budget("survey", Budget(1)).epsilon_left == 1
        first = ledger.charge("survey", "edge", pure(0.5), description="one")
        second = ledger.charge("survey", "edge", pure(0.5), description="two")
        assert (first.id, first.epsilon_total) == (1, 0.5)
        assert (second.id, second.epsilon_total) == (2, 1.0)
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
            "the budget is 1, spent so far 0.75, left 0.195812 for a Gaussian release or 0.25 for a pure one"
        )

    def test_rounding_errors_are_forgiven_once_and_nothing_larger(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(0.3))
        with pytest.raises(BudgetExceeded, match=r"epsilon = 0\.30000001 .* budget is 0\.3,"):
            ledger.charge("survey", "edge", pure(0.30000001), description="the digits are shown")
        assert 0.1 + 0.1 + 0.1 > 0.3
        assert ledger.charge("survey", "edge", pure(0.1) * 3, description="three tenths").epsilon_total > 0.3
        assert not ledger.total("survey", "edge").exceeded
        ledger.charge("survey", "edge", pure(2e-10), description="within the allowance")
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(2e-10), description="it does not add up")

    def test_without_budget_everything_is_allowed_and_counted(self, ledger: Ledger) -> None:
        charge = ledger.charge("survey", "edge", pure(7), description="one")
        assert (charge.epsilon_total, charge.delta) == (7.0, DEFAULT_DELTA)
        assert ledger.charge("other", "node", [NonPrivate()], description="two").epsilon_total == math.inf
        balance = ledger.total("survey", "edge")
        assert (balance.releases, balance.epsilon_spent, balance.budget) == (1, 7.0, None)
        assert not balance.exceeded

    def test_release_without_noise_is_refused_under_a_budget(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(8))
        with pytest.raises(BudgetExceeded, match="epsilon = inf"):
            ledger.charge("survey", "edge", [NonPrivate()], description="plain")
        assert ledger.entries() == ()

    def test_infinite_budget_allows_it(self, ledger: Ledger, path: Path) -> None:
        ledger.set_budget("survey", Budget(math.inf))
        charge = ledger.charge("survey", "edge", [NonPrivate()], description="plain")
        assert charge.epsilon_total == math.inf
        balance = Ledger(path).total("survey", "edge")
        assert (balance.epsilon_spent, balance.epsilon_left, balance.exceeded) == (math.inf, math.inf, False)
        assert Ledger(path).check() == ()

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
        assert [c.budget for c in changes if isinstance(c, BudgetChange)] == [four, two, unlimited]
        # the third call changed nothing, and its hour is nobody's
        assert [c.time for c in changes] == [NOON, NOON + timedelta(hours=1), NOON + timedelta(hours=3)]

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
        charge = ledger.charge("survey", "edge", pure(3), description="in the newspaper", already_made=True)
        assert charge.epsilon_total == 3
        assert ledger.total("survey", "edge").exceeded
        assert ledger.entries()[0].status == "released"

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


class TestUnits:
    """Every release counts at both units."""

    @pytest.mark.parametrize("events", [pure(0.25), pure(0.0), []], ids=["costs", "costs nothing", "no event"])
    def test_an_edge_level_release_leaves_nothing_at_node_level(self, ledger: Ledger, events: list[Event]) -> None:
        ledger.charge("survey", "edge", events, description="features and labels are public now")
        assert ledger.total("survey", "node").epsilon_spent == math.inf
        with pytest.raises(LedgerError, match=r"node budget must be inf .*release 1.*got 4; .*--unit edge"):
            ledger.set_budget("survey", Budget(4, unit="node"))
        assert ledger.set_budget("survey", Budget(math.inf, unit="node")).epsilon_left == math.inf
        assert ledger.charge("survey", "node", pure(1), description="for the record").epsilon_total == math.inf

    @pytest.mark.parametrize("events", [pure(0.25), []])
    def test_it_is_refused_under_a_node_budget_whatever_it_costs(self, ledger: Ledger, events: list[Event]) -> None:
        ledger.set_budget("survey", Budget(8, unit="node"))
        ledger.set_budget("survey", Budget(8, unit="edge"))
        for attempt in (
            lambda: ledger.charge("survey", "edge", events, description="one"),
            lambda: ledger.require("survey", "edge", events),
        ):
            with pytest.raises(
                BudgetExceeded, match=r"node level: .*an edge-level release makes .*--epsilon inf --unit"
            ):
                attempt()
        assert ledger.entries() == ()
        assert ledger.charge("survey", "node", pure(1), description="one").epsilon_total == 1

    def test_one_that_was_published_ends_the_node_budget(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(8, unit="node"))
        ledger.charge("survey", "edge", pure(0.25), description="in the newspaper", already_made=True)
        assert ledger.total("survey", "node").exceeded
        for epsilon in (1.0, 0.0):
            with pytest.raises(BudgetExceeded, match="release 1 at edge level makes features and labels public"):
                ledger.charge("survey", "node", pure(epsilon), description="two")

    def test_a_node_level_release_counts_twice_at_edge_level(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(1, unit="edge"))
        charge = ledger.charge("survey", "node", pure(0.25), description="one")
        assert (charge.unit, charge.epsilon_total) == (NODE, 0.25)
        assert (ledger.total("survey", "edge").epsilon_spent, ledger.total("survey", "node").epsilon_spent) == (
            0.5,
            0.25,
        )
        for check in (ledger.require, lambda *a: ledger.charge(*a, description="two")):
            with pytest.raises(BudgetExceeded, match=r"edge level: .* epsilon = 1\.25 .* counts twice"):
                check("survey", "node", pure(0.375))
        assert ledger.charge("survey", "edge", pure(0.5), description="two").epsilon_total == 1
        assert ledger.cumulative("survey", "edge") == {2: 1.0}
        assert ledger.cumulative("survey", "node") == {1: 0.25}
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "node", pure(2**-20), description="three")


class TestRealAccountant:
    def test_all_kinds_of_events_are_kept_as_they_are(self, path: Path) -> None:
        events = (
            Gaussian(noise_multiplier=2.5, count=3),
            Laplace(noise_multiplier=10.0),
            EpsilonDelta(0.25, 1e-7),
        )
        Ledger(path).charge("survey", "edge", events, description="mixed")
        (release,) = Ledger(path).entries()
        assert release.events == events
        assert release.epsilon_total == accounting.epsilon_of(events, DEFAULT_DELTA)


class TestChosenOneAfterTheOther:
    """Under a budget the filters judge; without one, composition as if all had been fixed in advance."""

    def test_what_is_left_may_be_spent_and_no_more(self, path: Path) -> None:
        ledger = Ledger(path)
        ledger.set_budget("survey", Budget(4))
        ledger.charge("survey", "edge", [Gaussian(2.0)], description="one")
        ledger.charge("survey", "edge", pure(0.25), description="two")
        balance = ledger.total("survey", "edge")
        assert balance.gaussian_left is not None
        assert balance.pure_left is not None
        for more, left in ((Gaussian, balance.gaussian_left), (EpsilonDelta, balance.pure_left)):
            assert 0 < left < 4

            def event(epsilon: float, more: type = more) -> Event:
                return more(1 / accounting.gdp_mu(epsilon=epsilon, delta=1e-5)) if more is Gaussian else more(epsilon)

            ledger.require("survey", "edge", [event(left * 0.9999)])
            with pytest.raises(BudgetExceeded, match=r"left [0-9.]+ for a Gaussian release or [0-9.]+ for a pure one"):
                ledger.require("survey", "edge", [event(left * 1.001)])

    def test_first_release_may_cost_the_whole_budget_after_free_ones(self, path: Path) -> None:
        events = [Gaussian(3.0), EpsilonDelta(0.5), Laplace(20.0, 5)]
        ledger = Ledger(path)
        ledger.set_budget("survey", Budget(accounting.epsilon_of(events, DEFAULT_DELTA)))
        ledger.charge("survey", "edge", [], description="public features only")
        assert ledger.total("survey", "edge").pure_left == ledger.total("survey", "edge").epsilon_left
        ledger.charge("survey", "edge", events, description="all of it")
        assert ledger.total("survey", "edge").epsilon_left == 0
        ledger.charge("survey", "edge", pure(0.0), description="free")
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(2**-20), description="too much")

    def test_several_planned_releases_are_not_taken_for_one(self, path: Path) -> None:
        """Two halves of the whole delta are more than two releases may cost, one by one."""
        half = Gaussian(math.sqrt(2) / accounting.gdp_mu(epsilon=4, delta=DEFAULT_DELTA))
        ledger = Ledger(path)
        ledger.set_budget("survey", Budget(4))
        ledger.require("survey", "edge", [half, half])
        with pytest.raises(BudgetExceeded):
            ledger.require("survey", "edge", [half], releases=2)
        ledger.charge("survey", "edge", [half], description="one")
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", [half], description="two")


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

    def test_replacing_keeps_what_is_spent(self, ledger: Ledger) -> None:
        old, new = ledger.fingerprint([b"old"]), ledger.fingerprint([b"new"])
        ledger.charge("survey", "edge", pure(1), description="one", fingerprints=[old])
        charge = ledger.charge(
            "survey", "edge", pure(1), description="two", fingerprints=[new], replace_fingerprint=True
        )
        assert charge.epsilon_total == 2
        history = ledger.history("survey")
        assert [(c.replaced, c.fingerprint) for c in history if isinstance(c, ContentChange)] == [
            (None, old),
            (old, new),
        ]
        # Content that the owner once declared to be this data set stays this data set, under this name only.
        ledger.charge("survey", "edge", pure(1), description="three", fingerprints=[old])
        with pytest.raises(LedgerError, match="known to this ledger as 'survey'"):
            ledger.charge("fresh", "edge", pure(1), description="four", fingerprints=[old])

    def test_refused_release_leaves_no_fingerprint(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(1))
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(2), description="one", fingerprints=[ledger.fingerprint([b"graph"])])
        assert [c.kind for c in ledger.history("survey")] == ["budget"]

    def test_a_certificate_stands_once_and_under_one_name(self, ledger: Ledger) -> None:
        ledger.charge("csbm:nodes=300", "edge", pure(1), description="one", certificate_id="c-1")
        for name, made in itertools.product(("csbm", "csbm:nodes=300"), (False, True)):
            with pytest.raises(LedgerError, match="'c-1' is already recorded as release 1 of 'csbm:nodes=300'"):
                ledger.charge(name, "edge", pure(1), description="two", certificate_id="c-1", already_made=made)
        assert len(ledger.entries()) == 1

    def test_a_certificate_number_with_another_cost_is_not_taken_for_the_same_release(self, ledger: Ledger) -> None:
        """An edited certificate that came first must not keep the real one out without a word."""
        ledger.charge("survey", "edge", pure(0.0), description="edited", certificate_id="c-1", already_made=True)
        for name in ("survey", "other"):
            with pytest.raises(
                LedgerError, match=r"'c-1' is recorded as release 1 of 'survey' with another cost.*edited"
            ):
                ledger.charge(
                    name, "edge", pure(4), description="the real one", certificate_id="c-1", already_made=True
                )
        with pytest.raises(LedgerError, match="another cost"):
            ledger.charge("survey", "node", pure(0.0), description="at the other unit", certificate_id="c-1")

    def test_a_name_that_differs_in_case_blanks_or_form_is_refused(self, ledger: Ledger) -> None:
        ledger.set_budget("survey café", Budget(1))
        ledger.charge("survey café", "edge", pure(1), description="all of it")
        forms = ("Survey café", "survey cafe\u0301", "survey  café", "SURVEY CAFÉ")
        refused = ("\u017furvey café", "surv\u0435y café", "survey\u3164 café")
        attempts = (
            lambda other: ledger.charge(other, "edge", pure(1), description="more"),
            lambda other: ledger.charge(other, "edge", pure(1), description="more", already_made=True),
            lambda other: ledger.set_budget(other, Budget(9)),
            lambda other: ledger.require(other, "edge", pure(1)),
        )
        for other, attempt in itertools.product(forms, attempts):
            with pytest.raises(LedgerError, match="this ledger knows 'survey café', which looks the same"):
                attempt(other)
        for other, attempt in itertools.product(refused, attempts):
            with pytest.raises(InputError) as caught:
                attempt(other)
            assert caught.value.field == "dataset"
            assert str(caught.value.value).startswith("U+")
        ledger.charge("survey cafés", "edge", pure(1), description="another one", already_made=True)
        assert len(ledger.entries()) == 2

    def test_a_clock_that_goes_back_is_refused(self, path: Path, basic: None) -> None:
        """Otherwise a release of today could be paid by what a past month has left, or a month before the budget was set."""
        now = [NOON]
        ledger = Ledger(path, clock=lambda: now[0])
        ledger.set_budget("survey", Budget(1), per="month")
        for years in (3, 2, 1):
            now[0] = NOON.replace(year=NOON.year - years)
            with pytest.raises(LedgerError, match="clock must not be before the newest entry"):
                ledger.charge("survey", "edge", pure(1), description="of a past year")
        now[0] = NOON
        ledger.charge("survey", "edge", pure(0.75), description="one")
        now[0] = NOON - timedelta(days=31)
        with pytest.raises(LedgerError, match=r"clock must not be before the newest entry.* UTC, got .*set the clock"):
            ledger.charge("survey", "edge", pure(0.25), description="two")
        assert len(ledger.entries()) == 1
        ledger.charge("survey", "edge", pure(0.25), description="made elsewhere", already_made=True)
        now[0] = NOON - timedelta(minutes=3)
        assert ledger.charge("survey", "edge", pure(0.125), description="three").epsilon_total == 0.875
        assert ledger.check() == ()

    def test_degrees_that_another_name_has_are_warned_of_and_not_refused(self, ledger: Ledger) -> None:
        def prints(content: bytes, degrees: bytes = b"degrees") -> list[str]:
            return [ledger.fingerprint([content]), ledger.fingerprint([degrees], of=Fingerprint.DEGREES)]

        ledger.charge("survey", "edge", pure(1), description="one", fingerprints=prints(b"a"))
        with pytest.warns(UserWarning, match=r"'copy'.* known to this ledger as 'survey'.*--name survey --replace-f"):
            ledger.charge("copy", "edge", pure(1), description="one", fingerprints=prints(b"b"))
        bound = [c.fingerprint for c in ledger.history("copy") if isinstance(c, ContentChange)]
        assert bound == prints(b"b")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ledger.charge("survey", "edge", pure(1), description="two", fingerprints=prints(b"a"))
            ledger.charge("third", "edge", pure(1), description="one", fingerprints=prints(b"c", b"other degrees"))
            with pytest.raises(UserWarning, match="known to this ledger as 'survey'"):
                ledger.charge("fourth", "edge", pure(1), description="one", fingerprints=prints(b"d"))
        with pytest.raises(LedgerError, match="no data set 'fourth'"):
            ledger.history("fourth")
        with pytest.raises(LedgerError, match="has changed"):
            ledger.charge("survey", "edge", pure(1), description="three", fingerprints=prints(b"e", b"changed"))
        ledger.charge(
            "survey", "edge", pure(1), description="3", fingerprints=prints(b"e", b"changed"), replace_fingerprint=True
        )
        assert len(ledger.entries("survey")) == 3

    @pytest.mark.parametrize("between", [False, True])
    def test_replacing_the_fingerprint_never_opens_a_new_account(self, ledger: Ledger, between: bool) -> None:
        """Through another name and back, or with the content of another data set: what was spent stays with its name."""
        mine, theirs = ledger.fingerprint([b"mine"]), ledger.fingerprint([b"theirs"])
        ledger.set_budget("mine", Budget(1))
        ledger.set_budget("theirs", Budget(math.inf))
        ledger.charge("mine", "edge", pure(1), description="all of it", fingerprints=[mine])
        ledger.charge("theirs", "edge", pure(1), description="one", fingerprints=[theirs])
        if between:
            with pytest.raises(LedgerError, match="known to this ledger as 'theirs'"):
                ledger.charge("mine", "edge", [], description="swap", fingerprints=[theirs], replace_fingerprint=True)
        with pytest.raises(LedgerError, match="known to this ledger as 'mine'"):
            ledger.charge("theirs", "edge", pure(1), description="two", fingerprints=[mine], replace_fingerprint=True)
        for replace in (False, True):
            with pytest.raises(BudgetExceeded):
                ledger.charge(
                    "mine", "edge", pure(1), description="two", fingerprints=[mine], replace_fingerprint=replace
                )


class TestComposing:
    """To compose may take long: nobody waits for it, and what it rests on is what is written."""

    def test_nobody_waits_while_a_release_is_judged(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        ledger, other = Ledger(path), Ledger(path, busy_timeout=0.05)
        ledger.set_budget("survey", Budget(4))
        ledger.set_budget("other", Budget(4))
        judged: list[float] = []
        compose = filters.total_epsilon

        def slowly(releases: Any, budget: Budget) -> float:
            if len(releases) == 2 and not judged:
                judged.append(0.0)  # another writer, at the worst moment
                other.charge("other", "edge", pure(1), description="meanwhile")
                other.annotate(1, "released")
            return compose(releases, budget)

        monkeypatch.setattr(filters, "total_epsilon", slowly)
        ledger.charge("survey", "edge", pure(1.25), description="one")
        charge = ledger.charge("survey", "edge", [Gaussian(9.0), *pure(0.25)], description="two")
        assert judged
        assert [entry.description for entry in ledger.entries()] == ["one", "meanwhile", "two"]
        assert (charge.id, ledger.entries()[2].epsilon_total) == (3, charge.epsilon_total)
        assert ledger.check() == ()

    def test_what_was_spent_while_a_release_was_judged_is_seen(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ledger, other = Ledger(path), Ledger(path, busy_timeout=0.05)
        ledger.set_budget("survey", Budget(4))
        compose = filters.total_epsilon

        def slowly(releases: Any, budget: Budget) -> float:
            monkeypatch.setattr(filters, "total_epsilon", compose)
            other.charge("survey", "edge", pure(3.5), description="meanwhile")
            return compose(releases, budget)

        monkeypatch.setattr(filters, "total_epsilon", slowly)
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(3.625), description="too late")
        assert [entry.description for entry in ledger.entries()] == ["meanwhile"]

    @pytest.mark.parametrize(
        "events",
        [
            [EpsilonDelta(1e-6 * k) for k in range(1001)],
            [Laplace(1e6, 10**6 + 1)],
            [Parallel(((Laplace(1e6, 10**6),), (Laplace(1e6),)))],
            [Parallel(tuple((EpsilonDelta(1e-6 * k),) for k in range(501))) for _ in range(2)],
        ],
        ids=["many", "count", "groups", "many groups"],
    )
    def test_a_release_of_too_many_events_is_refused_before_it_is_composed(
        self, ledger: Ledger, events: list[Event], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(accounting, "epsilon_of", lambda *_: pytest.fail("composed"))
        for made in (False, True):
            with pytest.raises(InputError) as caught:
                ledger.charge("survey", "edge", events, description="one", already_made=made)
            assert caught.value.field == "events"
        ledger.require("survey", "edge", [Gaussian(1e9, 2**52)] * 1000)
        assert ledger.entries() == ()


class TestNumbers:
    """Numbers at the border of what a float can hold never make a total smaller."""

    @pytest.mark.parametrize(
        "event",
        [
            EpsilonDelta(1e308, 1e-9),
            EpsilonDelta(1.0, 1.0),
            EpsilonDelta(1.0, 1 - 2**-53),
            Gaussian(5e-324),
            Gaussian(1.0, 2**52),
            Laplace(1e-300),
        ],
        ids=repr,
    )
    def test_a_published_release_beyond_all_numbers_is_recorded_and_ends_all_others(
        self, path: Path, event: Event
    ) -> None:
        ledger = Ledger(path)
        ledger.set_budget("survey", Budget(8, unit="edge"))
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", [event], description="one")
        for unit in ("edge", "node"):
            ledger.charge("survey", unit, [event], description="one", already_made=True)
        assert ledger.total("survey", "edge").exceeded
        assert ledger.total("survey", "node").epsilon_spent == math.inf
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", [Laplace(100.0)], description="two")
        open_end = Ledger(path.with_name("no budget"))
        assert open_end.charge("survey", "edge", [event, Laplace(1.0)], description="one").epsilon_total > 1e3


class TestInput:
    @pytest.mark.parametrize(
        "wrong",
        [
            *({"name": name} for name in ("", " survey", "a\nb", "a\x1b[31m", "\udce4", "x" * 501, None, 3)),
            {"unit": "person"},
            {"description": "  "},
            {"certificate_id": ""},
            {"fingerprints": ["abc"]},
            {"fingerprints": "abc"},
            {"events": ["gaussian"]},
        ],
        ids=repr,
    )
    def test_fields_of_a_release(self, ledger: Ledger, wrong: dict[str, Any]) -> None:
        good = {"name": "survey", "unit": "edge", "events": pure(1), "description": "one"}
        with pytest.raises(InputError) as caught:
            ledger.charge(**{**good, **wrong})
        (field,) = wrong
        assert str(caught.value.field).startswith({"name": "dataset"}.get(field, field.rstrip("s")))
        assert ledger.entries() == ()

    def test_other_fields(self, ledger: Ledger) -> None:
        with pytest.raises(InputError, match="budget must be a Budget"):
            ledger.set_budget("survey", 4.0)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="status must be one of released, failed"):
            ledger.annotate(1, "spent")
        for parts in (b"abc", "abc", ["abc"], [1]):
            with pytest.raises(InputError, match="parts must be"):
                ledger.fingerprint(parts)  # type: ignore[arg-type]

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

    @pytest.mark.parametrize("year", [1, 1969, 9999])
    def test_a_clock_far_from_our_time_is_refused(self, path: Path, year: int) -> None:
        ledger = Ledger(path, clock=lambda: NOON.replace(year=year))
        for attempt in (
            lambda: ledger.charge("survey", "edge", pure(1), description="one"),
            lambda: ledger.set_budget("survey", Budget(1), per="year"),
            lambda: ledger.require("survey", "edge", pure(1)),
        ):
            with pytest.raises(InputError) as caught:
                attempt()
            assert (caught.value.field, caught.value.value) == ("clock", year)

    def test_time_needs_a_zone_and_is_kept_in_utc(self, path: Path, basic: None) -> None:
        with pytest.raises(InputError, match="time zone"):
            Ledger(path, clock=lambda: NOON.replace(tzinfo=None)).charge("s", "edge", pure(1), description="one")
        local = NOON.astimezone(timezone(timedelta(hours=8)))
        Ledger(path, clock=lambda: local).charge("s", "edge", pure(1), description="one")
        (release,) = Ledger(path).entries()
        assert release.time == NOON
        assert release.time.utcoffset() == timedelta(0)


class TestBatches:
    """Batches of one release cost it once; what might ask a pair twice is refused."""

    @staticmethod
    def batch(ledger: Ledger, own: str, before: str | None, epsilon: float = 1, name: str = "survey") -> LedgerEntry:
        return ledger.charge(
            name, "edge", pure(epsilon), description=f"batch {own}", certificate_id=own, extends=before
        )

    def test_batches_cost_once(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(1))
        self.batch(ledger, "a", None)
        for own, before in (("b", "a"), ("c", "b"), ("d", "c")):
            assert self.batch(ledger, own, before).epsilon_total == 1
        assert ledger.total("survey", "edge").epsilon_spent == 1
        assert [entry.extends for entry in ledger.entries()] == [None, "a", "b", "c"]
        assert list(ledger.cumulative("survey", "edge").values()) == [1, 1, 1, 1]
        assert ledger.check() == ()
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(0.5), description="something else")

    def test_a_fork_is_refused_and_can_be_charged(self, ledger: Ledger) -> None:
        self.batch(ledger, "a", None)
        self.batch(ledger, "b", "a")
        with pytest.raises(LedgerError, match=r"extended already, by certificate b.*spend=True, --spend"):
            self.batch(ledger, "b2", "a")
        assert len(ledger.entries()) == 2
        self.batch(ledger, "b2", None)  # a release of its own
        assert self.batch(ledger, "c2", "b2").epsilon_total == 2
        assert self.batch(ledger, "c", "b").epsilon_total == 2

    def test_a_certificate_under_two_names_is_extended_once(self, ledger: Ledger, tmp_path: Path) -> None:
        """The arrivals are the same people under either name. Only a merge brings a second one."""
        other = Ledger(tmp_path / "other.sqlite", clock=lambda: NOON)
        self.batch(other, "a", None, name="other")
        self.batch(ledger, "a", None)
        ledger.merge(other)
        self.batch(ledger, "b", "a")
        with pytest.raises(LedgerError, match="extended already, by certificate b"):
            self.batch(ledger, "c", "a", name="other")
        assert len(ledger.entries()) == 3

    def test_a_parent_must_be_there_under_this_name_at_this_cost(self, ledger: Ledger) -> None:
        with pytest.raises(LedgerError, match="certificate a, which this batch extends, is not in this ledger"):
            self.batch(ledger, "b", "a")
        self.batch(ledger, "a", None)
        with pytest.raises(LedgerError, match=r"recorded under 'survey': use that name"):
            self.batch(ledger, "b", "a", name="other")
        with pytest.raises(LedgerError, match="settings were changed"):
            self.batch(ledger, "b", "a", epsilon=2)
        assert len(ledger.entries()) == 1

    def test_within_a_later_period_the_batches_count_once_more(self, path: Path, basic: None) -> None:
        """An edge whose later end arrives in the second year pays then: that year's budget must have room for it."""
        now = [NOON]
        ledger = Ledger(path, clock=lambda: now[0])
        ledger.set_budget("survey", Budget(1.5), per="year")
        self.batch(ledger, "a", None)
        self.batch(ledger, "b", "a")
        now[0] = NOON.replace(year=2025)
        ledger.charge("survey", "edge", pure(0.75), description="another model")
        with pytest.raises(BudgetExceeded):
            self.batch(ledger, "c", "b")
        now[0] = NOON.replace(year=2026)
        assert self.batch(ledger, "c", "b").epsilon_total == 1
        assert self.batch(ledger, "d", "c").epsilon_total == 1

    def test_two_processes_extend_one_release_and_one_is_refused(self, path: Path) -> None:
        Ledger(path).charge("survey", "edge", pure(1), description="first", certificate_id="a")
        script = """
            ledger = Ledger(sys.argv[1])
            try:
                ledger.charge("survey", "edge", [EpsilonDelta(1.0)], description="batch", certificate_id=sys.argv[2], extends="a")
                say("entered")
            except LedgerError as error:
                say("refused" if "extended already" in str(error) else error)
        """
        processes = [start(script, path, own) for own in ("b", "c", "d")]
        said = sorted(process.communicate(timeout=60)[0].strip() for process in processes)
        assert said == ["entered", "refused", "refused"]


class TestPeriods:
    """A budget per period begins anew with the calendar, and says what is left of it."""

    @pytest.fixture
    def year(self, path: Path, basic: None) -> tuple[Ledger, list[datetime]]:
        now = [NOON]
        ledger = Ledger(path, clock=lambda: now[0])
        ledger.set_budget("survey", Budget(8), per="year")
        return ledger, now

    def test_the_release_that_would_exceed_the_year_is_refused(self, year: tuple[Ledger, list[datetime]]) -> None:
        ledger, now = year
        for _ in range(2):
            ledger.charge("survey", "edge", pure(3), description="one")
        with pytest.raises(
            BudgetExceeded, match=r"budget of 2024 is 8.*each of the 8 month\(s\) left: .* 0.25 for pure"
        ):
            ledger.charge("survey", "edge", pure(3), description="two")
        now[0] = NOON.replace(year=2025, month=1)
        assert ledger.charge("survey", "edge", pure(3), description="next year").epsilon_total == 3
        balance = ledger.total("survey", "edge")
        assert (balance.period, balance.months_left, balance.periods) == ("2025", 12, 2)
        assert balance.pure_per_month == pytest.approx(5 / 12, rel=1e-6)
        (change,) = Ledger(ledger.path).history("survey")
        assert isinstance(change, BudgetChange)
        assert change.per is Period.YEAR

    def test_the_filter_begins_anew_and_the_sum_over_periods_is_known(
        self, year: tuple[Ledger, list[datetime]]
    ) -> None:
        ledger, now = year
        for number in range(3):
            now[0] = NOON.replace(year=2024 + number)
            ledger.charge("survey", "edge", pure(6), description="one")
            assert ledger.total("survey", "edge").epsilon_spent == 6
        balance = ledger.total("survey", "edge")
        assert (balance.periods, balance.epsilon_all_periods, balance.delta_all_periods) == (3, 18, pytest.approx(3e-5))
        ledger.set_budget("survey", Budget(1), per="year")
        assert ledger.total("survey", "edge").epsilon_all_periods == 18, "a budget that was lowered takes nothing back"
        ledger.set_budget("survey", Budget(8))  # for ever
        assert ledger.total("survey", "edge").exceeded

    def test_what_is_left_per_month_can_be_spent(self, path: Path) -> None:
        now = [NOON]
        ledger = Ledger(path, clock=lambda: now[0])
        ledger.set_budget("survey", Budget(2), per="quarter")
        ledger.charge("survey", "edge", [Gaussian(5.0)], description="one")
        balance = ledger.total("survey", "edge")
        assert balance.months_left == 2
        mu = accounting.gdp_mu(epsilon=balance.gaussian_per_month, delta=1e-5)
        for month in (5, 6):
            now[0] = NOON.replace(month=month)
            ledger.charge("survey", "edge", [Gaussian(1 / mu)], description="one")
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", [Gaussian(50.0)], description="one")


class TestNotes:
    def test_purpose_person_period_and_reason_are_kept_and_chained(self, ledger: Ledger) -> None:
        one, two = (ledger.fingerprint([word]) for word in (b"one", b"two"))
        note = EntryNote(purpose="monthly scores", person="ada", period="2024-05", reason="new transfers")
        ledger.charge("survey", "edge", pure(1), description="model", fingerprints=[one], note=note)
        ledger.charge(
            "survey", "edge", pure(1), description="model", fingerprints=[two], replace_fingerprint=True, note=note
        )
        entry = ledger.entries()[0]
        assert (entry.purpose, entry.person, entry.period) == ("monthly scores", "ada", "2024-05")
        first, second = (c for c in ledger.history("survey") if isinstance(c, ContentChange))
        assert (first.person, first.reason) == (None, None), "nothing was replaced"
        assert (second.person, second.reason, second.time) == ("ada", "new transfers", NOON)
        assert ledger.check() == ()
        with closing(sqlite3.connect(ledger.path)) as connection:
            connection.execute("DROP TRIGGER entries_update")
            connection.execute("UPDATE entries SET record = replace(record, 'new transfers', 'another')")
            connection.commit()
        assert any("entry 4 was edited" in problem for problem in ledger.check())
        with pytest.raises(InputError, match="purpose must be 1 to 500"):
            EntryNote(purpose="two\nlines")

    def test_four_fifths_of_a_budget_are_worth_a_word(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(8), per="year")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ledger.charge("survey", "edge", pure(6), description="one")
        with pytest.warns(UserWarning, match=r"88% of the budget of 2024, with 8 month\(s\) to go, is spent"):
            ledger.charge("survey", "edge", pure(1), description="two")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="of the budget"):
                ledger.charge("survey", "edge", pure(0.5), description="three")
        assert len(ledger.entries()) == 2, "whoever makes an error of the warning refuses the release"

    def test_where_there_are_budgets_a_name_without_one_is_refused(self, ledger: Ledger) -> None:
        ledger.charge("free", "edge", pure(1), description="no budgets yet")
        ledger.set_budget("survey", Budget(8))
        for attempt in (
            lambda: ledger.charge("surveys", "edge", pure(1), description="a slip"),
            lambda: ledger.require("surveys", "edge", pure(1)),
            lambda: ledger.charge("free", "edge", pure(1), description="more"),
        ):
            with pytest.raises(LedgerError, match=r"must have a budget.*caribou ledger budget"):
                attempt()
        ledger.set_budget("free", Budget(math.inf, unit="node"))
        ledger.charge("free", "edge", pure(1), description="more")


class TestMerge:
    def test_everything_is_taken_over_once(self, ledger: Ledger, tmp_path: Path) -> None:
        other = Ledger(tmp_path / "other.sqlite", clock=lambda: NOON - timedelta(days=40))
        note = EntryNote(purpose="scores", person="ada")
        other.charge("survey", "edge", pure(1), description="one", certificate_id="a", note=note)
        other.charge("survey", "edge", pure(1), description="two", certificate_id="b", extends="a")
        other.charge("theirs", "node", pure(2), description="without a certificate", already_made=True)
        other.set_budget("theirs", Budget(4, unit="node"), per="month")
        ledger.charge("survey", "edge", pure(1), description="one", certificate_id="a")
        ledger.charge("survey", "edge", pure(2), description="own")
        assert [entry.description for entry in ledger.merge(other)] == ["two", "without a certificate"]
        assert ledger.merge(other) == ()
        assert ledger.total("survey", "edge").epsilon_spent == 3, "the batch belongs to the release that was here"
        assert ledger.entries("theirs")[0].time == NOON - timedelta(days=40)
        assert ledger.total("theirs", "node").per is Period.MONTH
        assert ledger.total("theirs", "node").epsilon_spent == 0, "that month is over"
        assert ledger.check() == ()

    def test_a_certificate_with_another_cost_is_refused(self, ledger: Ledger, tmp_path: Path) -> None:
        other = Ledger(tmp_path / "other.sqlite")
        other.charge("survey", "edge", pure(2), description="one", certificate_id="a")
        other.charge("more", "edge", pure(2), description="two")
        ledger.charge("survey", "edge", pure(1), description="one", certificate_id="a")
        with pytest.raises(LedgerError, match="with another cost"):
            ledger.merge(other)
        assert len(ledger.entries()) == 1, "nothing of it is written"

    @pytest.mark.parametrize(
        ("rule", "name", "events"),
        [("dataset_name", "surv\u0435y", pure(1)), ("require_few", "survey", [Laplace(1e6, 10**9)])],
    )
    def test_what_no_ledger_writes_is_not_taken_over(
        self, ledger: Ledger, tmp_path: Path, rule: str, name: str, events: list[Event], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = Ledger(tmp_path / "other.sqlite")
        with monkeypatch.context() as patch:
            patch.setattr(ledger_module, rule, lambda given: given)
            patch.setattr(accounting, "epsilon_of", lambda *_: 1.0)
            other.charge(name, "edge", events, description="one")
        with pytest.raises(InputError) as caught:
            ledger.merge(other)
        assert caught.value.field in ("dataset", "events")
        assert ledger.entries() == ()

    def test_a_second_extension_pays_in_full(self, ledger: Ledger, tmp_path: Path) -> None:
        """Two machines extended one model: pairs of the same people were asked twice."""
        other = Ledger(tmp_path / "other.sqlite", clock=lambda: NOON)
        for own, children in ((ledger, ("b", "c")), (other, ("b2", "c2"))):
            for certificate, before in zip(("a", *children), (None, "a", children[0]), strict=True):
                TestBatches.batch(own, certificate, before)
        with pytest.warns(UserWarning, match=r"release 4 extends certificate a and pays in full.*asked twice"):
            ledger.merge(other)
        assert ledger.total("survey", "edge").epsilon_spent == 2
        assert ledger.later_batches("survey") == {2, 3, 5}
        assert TestBatches.batch(ledger, "d2", "c2").epsilon_total == 2

    def test_a_second_extension_under_another_name_pays_in_full(self, ledger: Ledger, tmp_path: Path) -> None:
        other = Ledger(tmp_path / "other.sqlite", clock=lambda: NOON)
        for own, name, child in ((ledger, "survey", "b"), (other, "theirs", "c")):
            TestBatches.batch(own, "a", None, name=name)
            TestBatches.batch(own, child, "a", name=name)
        with pytest.warns(UserWarning, match=r"release 4 extends certificate a and pays in full"):
            ledger.merge(other)
        assert [ledger.total(name, "edge").epsilon_spent for name in ("survey", "theirs")] == [1, 2]
