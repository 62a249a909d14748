"""The ledger: an SQLite file that records what each data set has spent, and refuses what it cannot afford.

What the ledger guarantees
    For every data set and privacy unit with a finite budget (epsilon, delta), *all* releases recorded under that name
    are together (epsilon, delta)-DP (up to the rounding error `RESOLUTION`) for as long as releases go through
    `Ledger.charge`, also if each is chosen by what the earlier ones showed: `caribou.privacy.filters` judges them. A
    release is written down, durably, before its first noise is drawn, in the same transaction that checks it. Hence two
    processes can never spend the same remainder, and a crash can waste budget but never leak it: a release that
    fails afterwards stays spent. Entries are append-only, and `Ledger.check` finds entries that were edited or
    removed by other means.

What it does not guarantee
    - It sees what it is told. A release made without it, or on a copy of the file, is not counted.
    - Records are chained with a key that lies in the same file (mode 0600). The chain finds accidents, edits with an
      SQL shell, and edits by anybody who does not read the key; whoever reads the file can forge it, and restoring
      an older copy of the whole file is not visible.
    - The budget is fixed before. One that is raised because of what releases showed promises nothing about both.
    - Without a finite budget nothing is promised, and the total is that of releases fixed in advance
      (`caribou.privacy.accounting.epsilon_of`).
    - Overlapping data sets under different names are separate accounts: a person who is in both is protected by the
      composition of both.

Two units
    Every release counts at both (`caribou.privacy.accounting.at_unit`). An edge-level release declares features and labels
    public, whatever it costs, so the node balance of its data set is infinite from then on: it is refused under a finite node
    budget, and afterwards no such budget can be set. A node-level release counts twice at edge level.

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
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from caribou._notebook import html_table
from caribou._validate import integer, one_of
from caribou.errors import BudgetExceeded, InputError, LedgerError
from caribou.privacy import accounting, filters
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
DEGREES_VERSION = "2d"
FEATURES_VERSION = "2f"
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

    ``releases``: made at this unit. ``epsilon_spent``: by all of them together at ``delta``, those of the other unit included.
    ``budget``: None if none was set. ``gaussian_left`` and ``pure_left``: the largest epsilon, at the budget's delta, of
    one further release with Gaussian noise, or of a pure one; None if no budget is set.

    >>> left = {"gaussian_left": 0.8, "pure_left": 1.0}
    >>> balance = Balance("survey", PrivacyUnit.EDGE, 1e-5, releases=2, epsilon_spent=3.0, budget=Budget(4), **left)
    >>> balance.epsilon_left, balance.exceeded
    (1.0, False)
    """

    dataset: str
    unit: PrivacyUnit
    delta: float
    releases: int
    epsilon_spent: float
    budget: Budget | None
    gaussian_left: float | None
    pure_left: float | None

    @property
    def epsilon_left(self) -> float | None:
        """Budget minus spent, at least 0; None if no budget is set. What one more release may cost depends on its noise:
        `gaussian_left`, `pure_left`."""
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

    def degree_fingerprint(self, parts: Iterable[bytes]) -> str:
        """The same for the sorted degrees of a graph, marked with a ``d``: known under another name, it is a reason to warn."""
        return f"{DEGREES_VERSION}:{self.fingerprint([b'degrees', *parts], version=1)}"

    def feature_fingerprint(self, parts: Iterable[bytes]) -> str:
        """The same for the features of a graph alone, marked with an ``f``: known under another name, a reason to warn, too."""
        return f"{FEATURES_VERSION}:{self.fingerprint([b'features', *parts], version=1)}"

    def fingerprint_versions(self) -> tuple[int, ...]:
        """The versions that a new entry must be compared in: the present one, and an older one that this ledger holds."""
        known = {_version_of(c.new) for c in self._contents().changes if isinstance(c.new, str)}
        return (FINGERPRINT_VERSION, 1) if "1" in known else (FINGERPRINT_VERSION,)

    def set_budget(self, name: str, budget: Budget) -> Balance:
        """Set the total of (data set, ``budget.unit``). Every change is kept in the history.

        A budget below what is already spent is accepted: the returned balance is then ``exceeded``, and no release
        is allowed any more. A finite node budget is refused after an edge-level release, because it could never be kept.
        """
        ledger_text(dataset=name)
        if not isinstance(budget, Budget):
            raise InputError(f"budget must be a Budget, got {type(budget).__name__}")
        with self._file.transaction(write=True) as entries:
            contents = _Contents(*entries.read_intact())
            _require_one_spelling(contents, name)
            _require_node_protection(contents, name, budget)
            balance = _balance(contents, name, budget.unit, budget)
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

        Formal guarantees: in one ``BEGIN IMMEDIATE`` transaction all earlier releases of the data set are judged together
        with the new one, for every unit that has a budget, by the filters of that budget. If a total exceeds its budget
        nothing is written and `BudgetExceeded` is raised; otherwise the release is on disk when this returns, and counts as
        spent whatever happens afterwards.

        ``fingerprints`` (see `fingerprint`) tie the name to the content: a name whose content has changed, and
        content that is known under another name, are refused. Degrees that are known under another name are warned of. An
        owner who turns warnings into errors refuses such a release, too. ``replace_fingerprint=True`` is the owner's
        declaration that the new content is about the same people; what they have spent stays spent.
        """
        return self._append_release(
            name, unit, events, description, certificate_id, fingerprints, replace_fingerprint, already_made=False
        )

    def require(self, name: str, unit: PrivacyUnit | str, events: Sequence[Event], *, releases: int = 1) -> None:
        """Raise `BudgetExceeded` if so many ``releases`` of these events would not fit as things stand.

        Writes and reserves nothing: `charge` decides. For a caller that plans several releases and does not want to be stopped
        half way.
        """
        integer(at_least=1, releases=releases)
        unit = PrivacyUnit.parse(unit)
        ledger_text(dataset=name)
        contents = self._intact()
        _require_one_spelling(contents, name)
        _require_affordable(contents, name, unit, (decode_events(encode_events(events)),) * releases)

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
        """What the data set has spent at this unit, by the filters of its budget, and what one further release may cost."""
        unit = PrivacyUnit.parse(unit)
        contents = self._intact()
        self._require_known(contents, name)
        return _balance(contents, name, unit, contents.budget(name, unit))

    def datasets(self) -> tuple[Balance, ...]:
        """The balances of every data set at both units, by name."""
        contents = self._intact()
        return tuple(
            _balance(contents, name, unit, contents.budget(name, unit))
            for name in contents.names()
            for unit in PrivacyUnit
        )

    def _repr_html_(self) -> str:
        def left(balance: Balance) -> str:
            return "no budget is set" if balance.budget is None else f"{balance.epsilon_left:.4g}"

        rows = [(b.dataset, b.unit.value, b.releases, f"{b.epsilon_spent:.4g}", left(b)) for b in self.datasets()]
        heading = ("data set", "unit", "releases", "epsilon spent", "epsilon left")
        return html_table(f"Ledger {self.path.name}", rows, heading)

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
        """The total epsilon after each release (by id) that was made at this unit, by today's budget and today's rule."""
        unit = PrivacyUnit.parse(unit)
        contents = self._intact()
        self._require_known(contents, name)
        budget = contents.budget(name, unit)
        totals: dict[int, float] = {}
        releases: tuple[tuple[Event, ...], ...] = ()
        for entry in contents.of(name):
            releases += (accounting.at_unit(entry.events, made_at=entry.unit, at=unit),)
            if entry.unit is not unit:
                continue
            # Without a budget every prefix would be composed again, which is slow; then the recorded total was computed alike.
            known = budget is None and entry.delta == _delta(budget)
            totals[entry.id] = entry.epsilon_total if known else _epsilon(releases, budget)
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
        with self._file.transaction(write=True) as entries:
            contents = _Contents(*entries.read_intact())
            _require_one_spelling(contents, name)
            self._require_new_certificate(contents, name, certificate_id, unit, new_events)
            self._bind_fingerprints(entries, contents, name, fingerprints, replace_fingerprint)
            if not already_made:
                _require_affordable(contents, name, unit, (new_events,))
            budget = contents.budget(name, unit)
            delta = _delta(budget)
            total = _epsilon((*contents.costs(name, unit), new_events), budget)
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
            if not (isinstance(fingerprint, str) and re.fullmatch(r"([1-9][0-9]*[def]?:)?[0-9a-f]{64}", fingerprint)):
                raise InputError(
                    f"fingerprint must be 64 hexadecimal digits as Ledger.fingerprint gives, got {fingerprint!r}"
                )
            owner = contents.owner(fingerprint)
            if owner in (None, name):
                continue
            if not _is_of_a_look_alike(fingerprint):
                raise LedgerError(
                    f"data set {name!r}: the same content is known to this ledger as {owner!r}; use that name "
                    "(a new name does not reset what has been spent)"
                )
            warnings.warn(
                f"data set {name!r}: a graph with {_shared(fingerprint)} is known to this ledger as {owner!r}. If "
                f"it is about the same people, release it under that name with replace_fingerprint=True (--name {owner} "
                "--replace-fingerprint): under a new name what they have spent is not counted",
                stacklevel=2,
            )
        for fingerprint in fingerprints:
            version = _version_of(fingerprint)
            old = contents.fingerprint(name, version)
            if contents.has(name, fingerprint):
                continue
            if old is not None and not replace and not _is_of_a_look_alike(fingerprint):
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
        """All records as they stand, also edited ones: to look at, not to add up."""
        with self._file.transaction(write=False) as entries:
            return _Contents(*entries.read())

    def _intact(self) -> _Contents:
        """All records, for a number that somebody will rely on: a broken chain is an error."""
        with self._file.transaction(write=False) as entries:
            return _Contents(*entries.read_intact())

    def _require_known(self, contents: _Contents, name: str) -> None:
        names = contents.names()
        if name not in names:
            known = ", ".join(map(repr, names)) if names else "none"
            raise LedgerError(f"ledger {self.path}: there is no data set {name!r} (known: {known})")

    def _require_new_certificate(
        self,
        contents: _Contents,
        name: str,
        certificate_id: str | None,
        unit: PrivacyUnit,
        events: tuple[Event, ...],
    ) -> None:
        for entry in contents.releases:
            if certificate_id is None or entry.certificate_id != certificate_id:
                continue
            if (entry.unit, entry.events) != (unit, events):
                raise LedgerError(
                    f"data set {name!r}: certificate {certificate_id!r} is recorded as release {entry.id} of {entry.dataset!r} "
                    "with another cost, so one of the two was edited; record what the other release cost with "
                    "`caribou ledger add --epsilon E --unit U`"
                )
            if entry.dataset == name:
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

    def of(self, name: str, unit: PrivacyUnit | None = None) -> tuple[LedgerEntry, ...]:
        return tuple(r for r in self.releases if r.dataset == name and unit in (None, r.unit))

    def costs(self, name: str, unit: PrivacyUnit) -> tuple[tuple[Event, ...], ...]:
        """What each release of the data set, at either unit, costs at this one."""
        return tuple(accounting.at_unit(r.events, made_at=r.unit, at=unit) for r in self.of(name))

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

    def has(self, name: str, fingerprint: str) -> bool:
        """Whether the data set has, or ever had, this fingerprint."""
        return any(c.dataset == name and c.new == fingerprint for c in self.changes)


def _is_of_a_look_alike(fingerprint: str) -> bool:
    return _version_of(fingerprint) in (DEGREES_VERSION, FEATURES_VERSION)


def _shared(fingerprint: str) -> str:
    return "the same features" if _version_of(fingerprint) == FEATURES_VERSION else "as many nodes and the same degrees"


def _version_of(fingerprint: str) -> str:
    version, colon, _ = fingerprint.partition(":")
    return version if colon else "1"


# -- judging ------------------------------------------------------------------------------------------------------


def _epsilon(releases: tuple[tuple[Event, ...], ...], budget: Budget | None) -> float:
    """The total of all releases: by the filters of a finite budget, else as if they had been fixed in advance."""
    events = tuple(event for release in releases for event in release)
    try:
        if not events:
            epsilon = 0.0
        elif budget is not None and budget.is_private:
            epsilon = float(filters.total_epsilon(releases, budget))
        else:
            epsilon = float(accounting.epsilon_of(events, _delta(budget)))
    except (ArithmeticError, ValueError):
        return math.inf  # numbers that no accountant can compute with: what cannot be bounded is not bounded
    if not epsilon >= 0:
        raise LedgerError(f"the accountant must give epsilon >= 0 for the recorded events, got {epsilon!r}")
    return epsilon


def _delta(budget: Budget | None) -> float:
    return DEFAULT_DELTA if budget is None else budget.delta


def _affordable(total: float, budget: Budget) -> bool:
    return total <= budget.epsilon * (1 + RESOLUTION)


def _require_affordable(
    contents: _Contents, name: str, unit: PrivacyUnit, planned: tuple[tuple[Event, ...], ...]
) -> None:
    """A release counts at both units, and no budget of either may be exceeded."""
    for at in PrivacyUnit:
        budget = contents.budget(name, at)
        if budget is None:
            continue
        spent = contents.costs(name, at)
        releases = spent + tuple(accounting.at_unit(events, made_at=unit, at=at) for events in planned)
        total = _epsilon(releases, budget)
        if not _affordable(total, budget):
            why = _why_of_units(contents, name, unit, at) or _why_infinite(total, releases)
            raise BudgetExceeded(_refusal(_balance(contents, name, at, budget), budget, total) + why)


def _why_of_units(contents: _Contents, name: str, unit: PrivacyUnit, at: PrivacyUnit) -> str:
    """What the other unit has to do with a refusal, and what mends it; nothing if it has nothing to do with it."""
    standing = contents.of(name, PrivacyUnit.EDGE)
    if at is PrivacyUnit.NODE and (unit is PrivacyUnit.EDGE or standing):
        which = "an edge-level release" if not standing else f"release {standing[0].id} at edge level"
        return (
            f"; {which} makes features and labels public, so nothing is left at node level: release at node level only, or "
            f"give up the node budget with `caribou ledger budget {name} --epsilon inf --unit node`"
        )
    if at is PrivacyUnit.EDGE and unit is PrivacyUnit.NODE:
        return (
            "; at edge level a node-level release counts twice, because an edge leaves by taking out one of its ends and "
            "putting it back without the edge"
        )
    return ""


def _why_infinite(total: float, releases: tuple[tuple[Event, ...], ...]) -> str:
    if math.isinf(total) and not any(isinstance(event, NonPrivate) for release in releases for event in release):
        return (
            "; epsilon = inf means that the deltas of the releases alone exceed the budget's delta "
            f"({filters.ADDED_SHARE:g} of it, where there are several), or that the total is too large to be computed"
        )
    return ""


def _require_node_protection(contents: _Contents, name: str, budget: Budget) -> None:
    """A finite node budget promises what an edge-level release has given away."""
    standing = contents.of(name, PrivacyUnit.EDGE)
    if budget.unit is PrivacyUnit.NODE and budget.is_private and standing:
        raise LedgerError(
            f"data set {name!r}: a node budget must be inf once an edge-level release stands, which makes features and labels "
            f"public (release {standing[0].id}), got {budget.epsilon:g}; set an edge budget with "
            f"`caribou ledger budget {name} --epsilon E --unit edge`"
        )


def _left(budget: Budget | None, spent: float) -> float | None:
    if budget is None:
        return None
    if not budget.is_private:
        return math.inf  # inf - inf is not a number: without a limit everything is left.
    left = budget.epsilon - spent
    return left if left > budget.epsilon * RESOLUTION else 0.0


def _balance(contents: _Contents, name: str, unit: PrivacyUnit, budget: Budget | None) -> Balance:
    releases = contents.costs(name, unit)
    spent = _epsilon(releases, budget)
    gaussian = pure = _left(budget, spent)
    if budget is not None and budget.is_private and gaussian:
        gaussian, pure = filters.largest_gaussian(releases, budget), filters.largest_pure(releases, budget)
    return Balance(name, unit, _delta(budget), len(contents.of(name, unit)), spent, budget, gaussian, pure)


def _refusal(balance: Balance, budget: Budget, total: float) -> str:
    # Two different numbers must not look the same in the sentence that says that one is larger.
    style = "{:.6g}" if f"{total:.6g}" != f"{budget.epsilon:.6g}" else "{!r}"
    return (
        f"data set {balance.dataset!r}, {budget.unit.value} level: this release would bring the total to epsilon = "
        f"{style.format(total)} at delta = {budget.delta:g}; the budget is {style.format(budget.epsilon)}, "
        f"spent so far {balance.epsilon_spent:.6g}, left {balance.gaussian_left:.6g} for a Gaussian release or "
        f"{balance.pure_left:.6g} for a pure one"
    )


# -- words ----------------------------------------------------------------------------------------------


def _require_one_spelling(contents: _Contents, name: str) -> None:
    """Two names that look the same, or differ in case alone, would be two budgets for one data set."""
    known = contents.names()
    alike = [other for other in known if _folded(other) == _folded(name)]
    if alike and name not in known:
        raise LedgerError(
            f"data set {name!r}: this ledger knows {alike[0]!r}, which differs in case, blanks or Unicode form alone; use that "
            "name, or one that nobody mistakes for it"
        )


def _folded(name: str) -> str:
    """A name without what the eye does not see: compatibility forms, case, width and number of blanks."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())


def ledger_text(**field: Any) -> str:
    """A name or a description: one line of printable text without outer spaces, so that what is shown is what is compared."""
    ((name, value),) = field.items()
    if not (isinstance(value, str) and value and value.isprintable() and value == value.strip() and len(value) <= 500):
        raise InputError(f"{name} must be 1 to 500 printable characters without outer spaces, got {value!r}")
    return value
