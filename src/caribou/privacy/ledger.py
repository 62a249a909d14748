"""The ledger: an SQLite file that records what each data set has spent, and refuses what it cannot afford.

What the ledger guarantees
    For every data set and privacy unit with a budget (epsilon, delta), the composition of *all* releases recorded
    under that name and unit, judged by `caribou.privacy.accounting.epsilon_of` at the budget's delta, is at most
    epsilon (up to the rounding error `RESOLUTION`) for as long as releases go through `Ledger.charge`. A release is
    written down, durably, before its first noise is drawn, in the same transaction that checks it. Hence two
    processes can never spend the same remainder, and a crash can waste budget but never leak it: a release that
    fails afterwards stays spent. Entries are append-only, and `Ledger.check` finds entries that were edited or
    removed by other means.

What it does not guarantee
    - It sees what it is told. A release made without it, or on a copy of the file, is not counted.
    - Records are chained with a key that lies in the same file (mode 0600). The chain finds accidents, edits with an
      SQL shell, and edits by anybody who does not read the key; whoever reads the file can forge it, and restoring
      an older copy of the whole file is not visible.
    - The totals of the two units are kept apart. An edge-level release gives no node-level guarantee, so it cannot
      be added to a node-level total; a data set with a budget at one level therefore refuses releases at the other.
    - Overlapping data sets under different names are separate accounts: a person who is in both is protected by the
      composition of both.

Fingerprints
    A data set is a name chosen by its owner plus a keyed hash (HMAC-SHA256) of its content. No raw data enters the
    file. The hash is keyed because an *unkeyed* hash of a private graph would let anybody test guesses for it ("is
    this edge in it?"): such a hash never appears in a ledger, nor in a certificate.

The file itself (how entries get there, stay there, and are chained) is `caribou.privacy.ledger_file`.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from caribou._validate import integer, one_of
from caribou.errors import BudgetExceeded, InputError, LedgerError
from caribou.privacy.budget import DEFAULT_DELTA, Budget, PrivacyUnit
from caribou.privacy.events import Event, NonPrivate
from caribou.privacy.ledger_file import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    Change,
    LedgerEntry,
    LedgerFile,
    Transaction,
    decode_events,
    encode_events,
)

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "Balance", "Change", "Charge", "Ledger", "LedgerEntry"]

FINGERPRINT_VERSION = 2
EDGES_VERSION = "2e"
"""Of what a fingerprint is computed from (`caribou.graph.fingerprint`). Entries of older versions stay valid."""
RESOLUTION = 1e-9
"""Totals are compared with the budget up to this relative rounding. Calibration rounds the noise up and the accountant
rounds epsilon up, so a release calibrated to the whole budget comes out at epsilon (1 + 3e-14) and must be accepted.
The allowance is on the total, not per release, so it does not add up."""


@dataclass(frozen=True)
class Charge:
    """A release was written down and may now be made.

    ``epsilon_spent`` is the total of (data set, unit) including this release, at ``delta``; ``epsilon_left`` is None
    if no budget is set.
    """

    id: int
    time: datetime
    dataset: str
    unit: PrivacyUnit
    delta: float
    epsilon_spent: float
    epsilon_left: float | None


@dataclass(frozen=True)
class Balance:
    """What a ``dataset`` has spent at one ``unit``, and what is left.

    ``releases``: how many. ``epsilon_spent``: by all of them together at ``delta``. ``budget``: None if none was set.

    >>> balance = Balance("survey", PrivacyUnit.EDGE, 1e-5, releases=2, epsilon_spent=3.0, budget=Budget(4))
    >>> balance.epsilon_left, balance.exceeded
    (1.0, False)
    """

    dataset: str
    unit: PrivacyUnit
    delta: float
    releases: int
    epsilon_spent: float
    budget: Budget | None

    @property
    def epsilon_left(self) -> float | None:
        """Budget minus spent, at least 0; None if no budget is set. Advanced composition may allow more than this."""
        return _left(self.budget, self.epsilon_spent)

    @property
    def exceeded(self) -> bool:
        """More is spent than the budget allows (it was lowered, or a past release was recorded): nothing is left."""
        return self.budget is not None and not _affordable(self.epsilon_spent, self.budget)


class Ledger:
    """The record of all releases of all data sets of one owner. The module says what it guarantees and what it does not.

    Args:
        path: the SQLite file; a missing one is created with mode 0600.
        create: False makes a missing file an error.
        clock: gives the time of entries.
        busy_timeout: how many seconds an operation waits for another process.

    >>> import tempfile
    >>> from caribou.privacy.events import Gaussian
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(Path(folder.name) / "ledger.sqlite")
    >>> ledger.set_budget("survey", Budget(epsilon=4, unit="edge")).epsilon_left
    4.0
    >>> charge = ledger.charge("survey", "edge", [Gaussian(noise_multiplier=2.0)], description="first model")
    >>> 0 < charge.epsilon_spent < 4
    True
    >>> ledger.charge("survey", "edge", [NonPrivate()], description="without noise")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    caribou.errors.BudgetExceeded: data set 'survey', edge level: this release would bring the total to epsilon = inf...
    >>> ledger.check()
    ()
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        busy_timeout: float = 30.0,
    ) -> None:
        self._file = LedgerFile(path, create=create, busy_timeout=busy_timeout)
        self._clock = clock

    @property
    def path(self) -> Path:
        """Where the ledger is, absolute."""
        return self._file.path

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    # -- what callers do ------------------------------------------------------------------------------------------

    def fingerprint(self, parts: Iterable[bytes], *, version: int = FINGERPRINT_VERSION) -> str:
        """HMAC-SHA256 of the content's parts under this ledger's key, each part prefixed with its length, with its version.

        The prefix makes ``[b"ab"]`` and ``[b"a", b"b"]`` differ. The same content has unrelated fingerprints in two
        ledgers, and nobody without the ledger can compute one, so it cannot be used to test guesses for the content.
        ``version``: of what the parts are made of; a fingerprint of version 1 has no prefix.
        """
        if isinstance(parts, (bytes, bytearray, memoryview, str)):
            raise InputError(f"parts must be an iterable of bytes, got {type(parts).__name__}")
        mac = hmac.new(self._file.key, b"caribou ledger fingerprint\0", hashlib.sha256)
        for part in parts:
            if not isinstance(part, (bytes, bytearray, memoryview)):
                raise InputError(f"parts must be bytes, got {type(part).__name__}")
            content = part.tobytes() if isinstance(part, memoryview) else part
            mac.update(len(content).to_bytes(8, "big"))
            mac.update(content)
        return mac.hexdigest() if version == 1 else f"{version}:{mac.hexdigest()}"

    def edge_fingerprint(self, parts: Iterable[bytes]) -> str:
        """The same for the edges of a graph alone, whatever its features: marked with an ``e``."""
        return f"{EDGES_VERSION}:{self.fingerprint([b'edges', *parts], version=1)}"

    def fingerprint_versions(self) -> tuple[int, ...]:
        """The versions that a new entry must be compared in: the present one, and an older one that this ledger holds."""
        known = {_version_of(c.new) for c in self._contents().changes if isinstance(c.new, str)}
        return (FINGERPRINT_VERSION, 1) if "1" in known else (FINGERPRINT_VERSION,)

    def set_budget(self, name: str, budget: Budget) -> Balance:
        """Set the total of (data set, ``budget.unit``). Every change is kept in the history.

        A budget below what is already spent is accepted: the returned balance is then ``exceeded``, and no release
        is allowed any more.
        """
        ledger_text(dataset=name)
        if not isinstance(budget, Budget):
            raise InputError(f"budget must be a Budget, got {type(budget).__name__}")
        epsilon_of = _accountant()
        with self._file.transaction(write=True) as entries:
            contents = _Contents(*entries.read_intact())
            balance = _balance(contents, name, budget.unit, budget, epsilon_of)
            old = contents.budget(name, budget.unit)
            if old != budget:
                entries.append_change(self._now(), name, "budget", budget.unit, old=old, new=budget)
        return balance

    def charge(
        self,
        name: str,
        unit: PrivacyUnit | str,
        events: Sequence[Event],
        *,
        description: str,
        fingerprints: Sequence[str] = (),
        replace_fingerprint: bool = False,
        certificate_id: str | None = None,
    ) -> Charge:
        """Record a release that is about to be made, or refuse it. To be called before any noise is drawn.

        Formal guarantees: in one ``BEGIN IMMEDIATE`` transaction all earlier events of (data set, unit) are composed
        with the new ones at the budget's delta (`DEFAULT_DELTA` without budget). If the total exceeds the budget
        nothing is written and `BudgetExceeded` is raised; otherwise the release is on disk when this returns, and
        counts as spent whatever happens afterwards.

        ``fingerprints`` (see `fingerprint`) tie the name to the content: a name whose content has changed, and
        content that is known under another name, are refused. ``replace_fingerprint=True`` is the owner's
        declaration that the new content is about the same people; what they have spent stays spent.
        """
        return self._append_release(
            name, unit, events, description, certificate_id, fingerprints, replace_fingerprint, already_made=False
        )

    def require(self, name: str, unit: PrivacyUnit | str, events: Sequence[Event]) -> None:
        """Raise `BudgetExceeded` if these events would not fit as things stand. Writes and reserves nothing: `charge` decides.

        For a caller that plans several releases and does not want to be stopped half way.
        """
        unit = PrivacyUnit.parse(unit)
        ledger_text(dataset=name)
        contents = self._contents()
        budget = contents.budget(name, unit)
        if budget is None:
            _require_no_other_budget(contents, name, unit)
            return
        spent, epsilon_of = contents.events(name, unit), _accountant()
        total = _epsilon(epsilon_of, spent + decode_events(encode_events(events)), budget.delta)
        _require_affordable(name, budget, total, spent, tuple(events), epsilon_of)

    def record_past(
        self,
        name: str,
        unit: PrivacyUnit | str,
        events: Sequence[Event],
        *,
        description: str,
        certificate_id: str | None = None,
    ) -> Charge:
        """Record a release that has been made elsewhere, whatever the budget says.

        It cannot be taken back, so a ledger that left it out would promise more than is true. The data set may be
        overspent afterwards (``total(...).exceeded``); no further release is then allowed.
        """
        return self._append_release(name, unit, events, description, certificate_id, already_made=True)

    def annotate(self, charge_id: int, status: str) -> None:
        """Mark a release as ``released`` or ``failed``. This never reduces what is spent."""
        integer(at_least=1, charge_id=charge_id)
        one_of(("released", "failed"), status=status)
        with self._file.transaction(write=True) as entries:
            entries.set_status(int(charge_id), status)

    # -- what callers ask -----------------------------------------------------------------------------------------

    def total(self, name: str, unit: PrivacyUnit | str) -> Balance:
        """What the data set has spent at this unit: all its events composed at the budget's delta."""
        unit = PrivacyUnit.parse(unit)
        contents = self._contents()
        self._require_known(contents, name)
        return _balance(contents, name, unit, contents.budget(name, unit), _accountant())

    def datasets(self) -> tuple[Balance, ...]:
        """The balance of every (data set, unit) that has a release or a budget, by name."""
        contents = self._contents()
        accounts = {(r.dataset, r.unit) for r in contents.releases}
        accounts |= {(c.dataset, c.unit) for c in contents.changes if c.unit is not None}
        return tuple(
            _balance(contents, name, unit, contents.budget(name, unit), _accountant())
            for name, unit in sorted(accounts, key=lambda account: (account[0], account[1].value))
        )

    def entries(self, name: str | None = None) -> tuple[LedgerEntry, ...]:
        """All releases, or those of one data set, in the order in which they were recorded."""
        contents = self._contents()
        if name is None:
            return contents.releases
        self._require_known(contents, name)
        return tuple(r for r in contents.releases if r.dataset == name)

    def history(self, name: str) -> tuple[Change, ...]:
        """Every change of the data set's budgets and fingerprint, in order."""
        contents = self._contents()
        self._require_known(contents, name)
        return tuple(c for c in contents.changes if c.dataset == name)

    def cumulative(self, name: str, unit: PrivacyUnit | str) -> dict[int, float]:
        """The total epsilon after each release (by id) of (data set, unit), at the delta of today's budget."""
        unit = PrivacyUnit.parse(unit)
        contents = self._contents()
        self._require_known(contents, name)
        delta = _delta(contents.budget(name, unit))
        totals: dict[int, float] = {}
        events: tuple[Event, ...] = ()
        for entry in contents.of(name, unit):
            events += entry.events
            # Composing every prefix again is slow; the recorded total is the answer unless delta has changed since.
            known = entry.delta == delta
            totals[entry.id] = entry.epsilon_total if known else _epsilon(_accountant(), events, delta)
        return totals

    def check(self) -> tuple[str, ...]:
        """What is wrong with the records: one line per finding, empty if the chain is intact.

        Entries that were edited, and entries that are missing, also at the end, are found. A release's status is not
        part of the chain.
        """
        with self._file.transaction(write=False) as entries:
            return entries.damage() + entries.chain_problems()

    # -- writing --------------------------------------------------------------------------------------------------

    def _append_release(
        self,
        name: str,
        unit: PrivacyUnit | str,
        events: Sequence[Event],
        description: str,
        certificate_id: str | None,
        fingerprints: Sequence[str] = (),
        replace_fingerprint: bool = False,
        *,
        already_made: bool,
    ) -> Charge:
        unit = PrivacyUnit.parse(unit)
        ledger_text(dataset=name)
        description = ledger_text(
            description=" ".join(description.split()) if isinstance(description, str) else description
        )
        if certificate_id is not None:
            ledger_text(certificate_id=certificate_id)
        encoded = encode_events(events)
        new_events = decode_events(encoded)  # what is judged is what is stored
        epsilon_of = _accountant()
        with self._file.transaction(write=True) as entries:
            contents = _Contents(*entries.read_intact())
            self._require_new_certificate(contents, name, certificate_id)
            self._bind_fingerprints(entries, contents, name, fingerprints, replace_fingerprint)
            budget = contents.budget(name, unit)
            if budget is None and not already_made:
                _require_no_other_budget(contents, name, unit)
            delta = _delta(budget)
            total = _epsilon(epsilon_of, contents.events(name, unit) + new_events, delta)
            if budget is not None and not already_made:
                _require_affordable(name, budget, total, contents.events(name, unit), new_events, epsilon_of)
            time = self._now()
            identity = entries.append_release(
                time,
                name,
                unit,
                events=encoded,
                description=description,
                certificate_id=certificate_id,
                delta=delta,
                epsilon_total=total,
                status="released" if already_made else "spent",
            )
        return Charge(identity, time, name, unit, delta, total, _left(budget, total))

    def _bind_fingerprints(
        self, entries: Transaction, contents: _Contents, name: str, fingerprints: Sequence[str], replace: bool
    ) -> None:
        """Tie the name to its content, in every version that was given; each is compared with entries of its own version."""
        for fingerprint in fingerprints:
            if not (isinstance(fingerprint, str) and re.fullmatch(r"([1-9][0-9]*e?:)?[0-9a-f]{64}", fingerprint)):
                raise InputError(
                    f"fingerprint must be 64 hexadecimal digits as Ledger.fingerprint gives, got {fingerprint!r}"
                )
            owner = contents.owner(fingerprint)
            if owner not in (None, name):
                raise LedgerError(
                    f"data set {name!r}: the same content is known to this ledger as {owner!r}; use that name "
                    "(a new name does not reset what has been spent)"
                )
        for fingerprint in fingerprints:
            version = _version_of(fingerprint)
            old = contents.fingerprint(name, version)
            if contents.owner(fingerprint) == name:
                continue
            if old is not None and not replace:
                raise LedgerError(
                    f"data set {name!r}: the content under this name has changed since its last release; use a new name "
                    "if it is about other people, or replace the fingerprint to declare that it is about the same "
                    "people (what they have spent then stays spent)"
                )
            if version != "1":  # of an older version nothing new is recorded
                entries.append_change(self._now(), name, "fingerprint", None, old=old, new=fingerprint)

    def _now(self) -> datetime:
        time = self._clock()
        if time.tzinfo is None:
            raise InputError(f"clock must give times with a time zone, got {time!r}")
        return time.astimezone(UTC)

    # -- reading --------------------------------------------------------------------------------------------------

    def _contents(self) -> _Contents:
        with self._file.transaction(write=False) as entries:
            return _Contents(*entries.read())

    def _require_known(self, contents: _Contents, name: str) -> None:
        names = contents.names()
        if name not in names:
            known = ", ".join(map(repr, names)) if names else "none"
            raise LedgerError(f"ledger {self.path}: there is no data set {name!r} (known: {known})")

    def _require_new_certificate(self, contents: _Contents, name: str, certificate_id: str | None) -> None:
        for entry in contents.releases:
            if certificate_id is not None and (entry.dataset, entry.certificate_id) == (name, certificate_id):
                raise LedgerError(
                    f"data set {name!r}: certificate {certificate_id!r} is already recorded as release {entry.id}; "
                    "it is not counted twice"
                )


@dataclass(frozen=True)
class _Contents:
    """All records at one moment. The state of a data set is derived from them, never stored beside them."""

    releases: tuple[LedgerEntry, ...]
    changes: tuple[Change, ...]

    def names(self) -> list[str]:
        return sorted({r.dataset for r in self.releases} | {c.dataset for c in self.changes})

    def of(self, name: str, unit: PrivacyUnit) -> tuple[LedgerEntry, ...]:
        return tuple(r for r in self.releases if r.dataset == name and r.unit is unit)

    def events(self, name: str, unit: PrivacyUnit) -> tuple[Event, ...]:
        return tuple(event for entry in self.of(name, unit) for event in entry.events)

    def budget(self, name: str, unit: PrivacyUnit) -> Budget | None:
        for change in reversed(self.changes):
            if change.dataset == name and change.unit is unit and isinstance(change.new, Budget):
                return change.new
        return None

    def fingerprint(self, name: str, version: str) -> str | None:
        for change in reversed(self.changes):
            if change.dataset == name and isinstance(change.new, str) and _version_of(change.new) == version:
                return change.new
        return None

    def owner(self, fingerprint: str) -> str | None:
        """The data set that has, or ever had, this fingerprint: replaced content must not start afresh elsewhere."""
        return next((c.dataset for c in self.changes if c.new == fingerprint), None)


def _version_of(fingerprint: str) -> str:
    version, colon, _ = fingerprint.partition(":")
    return version if colon else "1"


# -- judging ------------------------------------------------------------------------------------------------------

_Accountant = Callable[[Sequence[Event], float], float]


def _accountant() -> _Accountant:
    # Imported on use: it pulls in numerical libraries, and reading a ledger without releases does not need them.
    from caribou.privacy.accounting import epsilon_of

    return epsilon_of


def _epsilon(epsilon_of: _Accountant, events: tuple[Event, ...], delta: float) -> float:
    epsilon = float(epsilon_of(events, delta)) if events else 0.0
    if not epsilon >= 0:
        raise LedgerError(f"the accountant must give epsilon >= 0 for the recorded events, got {epsilon!r}")
    return epsilon


def _delta(budget: Budget | None) -> float:
    return DEFAULT_DELTA if budget is None else budget.delta


def _affordable(total: float, budget: Budget) -> bool:
    return total <= budget.epsilon * (1 + RESOLUTION)


def _require_affordable(
    name: str,
    budget: Budget,
    total: float,
    spent: tuple[Event, ...],
    planned: tuple[Event, ...],
    epsilon_of: _Accountant,
) -> None:
    if not _affordable(total, budget):
        before = _epsilon(epsilon_of, spent, budget.delta)
        raise BudgetExceeded(_refusal(name, budget, before, total, spent + planned))


def _left(budget: Budget | None, spent: float) -> float | None:
    if budget is None:
        return None
    if not budget.is_private:
        return math.inf  # inf - inf is not a number: without a limit everything is left.
    left = budget.epsilon - spent
    return left if left > budget.epsilon * RESOLUTION else 0.0


def _balance(
    contents: _Contents, name: str, unit: PrivacyUnit, budget: Budget | None, epsilon_of: _Accountant
) -> Balance:
    delta = _delta(budget)
    spent = _epsilon(epsilon_of, contents.events(name, unit), delta)
    return Balance(name, unit, delta, len(contents.of(name, unit)), spent, budget)


def _refusal(name: str, budget: Budget, before: float, total: float, events: tuple[Event, ...]) -> str:
    left = _left(budget, before)
    # Two different numbers must not look the same in the sentence that says that one is larger.
    style = "{:.6g}" if f"{total:.6g}" != f"{budget.epsilon:.6g}" else "{!r}"
    why = ""
    if math.isinf(total) and not any(isinstance(event, NonPrivate) for event in events):
        why = "; epsilon = inf means that the deltas of the releases alone exceed the budget's delta"
    return (
        f"data set {name!r}, {budget.unit.value} level: this release would bring the total to epsilon = "
        f"{style.format(total)} at delta = {budget.delta:g}; the budget is {style.format(budget.epsilon)}, "
        f"spent so far {before:.6g}, left {left:.6g}{why}"
    )


def _require_no_other_budget(contents: _Contents, name: str, unit: PrivacyUnit) -> None:
    for other in PrivacyUnit:
        if contents.budget(name, other) is not None:
            raise BudgetExceeded(
                f"data set {name!r}: its budget is at {other.value} level and this release is at {unit.value} level, "
                f"for which none is set; set one with Ledger.set_budget or "
                f"`caribou ledger budget {name} --epsilon E --unit {unit.value}`"
            )


# -- words ----------------------------------------------------------------------------------------------


def ledger_text(**field: Any) -> str:
    """A name or a description: one line of printable text without outer spaces, so that what is shown is what is compared."""
    ((name, value),) = field.items()
    if not (isinstance(value, str) and value and value.isprintable() and value == value.strip() and len(value) <= 500):
        raise InputError(f"{name} must be 1 to 500 printable characters without outer spaces, got {value!r}")
    return value
