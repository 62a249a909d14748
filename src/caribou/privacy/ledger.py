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
    - A budget per month, quarter or year is kept within each calendar period. Over several periods their budgets add up.
    - Overlapping data sets under different names are separate accounts: a person who is in both is protected by the
      composition of both.

Two units
    Every release counts at both (`caribou.privacy.accounting.at_unit`). An edge-level release declares features and labels
    public, whatever it costs, so the node balance of its data set is infinite from then on: it is refused under a finite node
    budget, and afterwards no such budget can be set. A node-level release counts twice at edge level.

Batches of a growing graph
    A release that extends another asks pairs of arrivals alone (docs/privacy.md, Theorem 10). All batches of one release
    cost its epsilon once; within a period they count once, too, whichever period the first one was made in. A batch is
    refused if the one before is not in the ledger, has another cost, or was extended already: the arrivals of two batches
    after the same one may be the same people, and their pairs would be asked twice. If a merge brings such a batch, it pays
    in full.

Fingerprints
    A data set is a name chosen by its owner plus a keyed hash (HMAC-SHA256) of its content. No raw data enters the
    file. The hash is keyed because an *unkeyed* hash of a private graph would let anybody test guesses for it ("is
    this edge in it?"): such a hash never appears in a ledger, nor in a certificate.

The file itself (how entries get there, stay there, and are chained) is `caribou.privacy.ledger_file`.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from caribou._validate import integer, one_of
from caribou.errors import BudgetExceeded, InputError, LedgerError
from caribou.machine.notebook import html_table
from caribou.privacy import accounting, documents, filters
from caribou.privacy.budget import DEFAULT_DELTA, Budget, PrivacyUnit
from caribou.privacy.events import Event, NonPrivate, event_from_dict, event_to_dict, require_few
from caribou.privacy.ledger_file import End, LedgerFile, Transaction
from caribou.privacy.names import dataset_name, look
from caribou.privacy.periods import Period

RESOLUTION = 1e-9
"""Totals are compared with the budget up to this relative rounding. Calibration rounds the noise up and the accountant
rounds epsilon up, so a release calibrated to the whole budget comes out at epsilon (1 + 3e-14) and must be accepted.
The allowance is on the total, not per release, so it does not add up."""

CLOCK_SKEW = timedelta(minutes=5)
"""Clocks of two machines may differ by this much: a release that is dated further back than the newest one is refused."""
NOTICE_SHARE = 0.8
"""From this share of a budget on, every charge says how much is left."""
ATTEMPTS = 100
"""How often a decision is made anew because another process wrote meanwhile."""


class Fingerprint(Enum):
    """Of which part of a content a fingerprint is (`caribou.graph.fingerprint`), as its mark says. 2: the version of contents."""

    WHOLE = "2"
    EDGES = "2e"
    DEGREES = "2d"
    FEATURES = "2f"

    @classmethod
    def of(cls, fingerprint: Any) -> Fingerprint:
        """The kind of a stored fingerprint; anything else is an error."""
        if isinstance(fingerprint, str) and re.fullmatch(r"[^:]+:[0-9a-f]{64}", fingerprint):
            for kind in cls:
                if fingerprint.startswith(f"{kind.value}:"):
                    return kind
        raise InputError(
            f"fingerprint must be a mark and 64 hexadecimal digits (Ledger.fingerprint), got {fingerprint!r}"
        )

    @property
    def shared(self) -> str | None:
        """What a graph of other people may share, in words: known under another name, it is a reason to warn and no more."""
        words = {
            Fingerprint.DEGREES: "as many nodes and the same degrees",
            Fingerprint.FEATURES: "the same features",
        }
        return words.get(self)


@dataclass(frozen=True, kw_only=True)
class EntryNote:
    """What the owner wants an entry to say, in words of one line.

    Args:
        purpose: what the release is for.
        person: who makes it.
        period: the time that the data is about, e.g. 2026-11. Which budget pays is decided by the date, never by this word.
        reason: why changed content is still about the same people.

    >>> EntryNote(purpose="monthly scores", person="ada").purpose
    'monthly scores'
    """

    purpose: str | None = None
    person: str | None = None
    period: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        for name in ("purpose", "person", "period", "reason"):
            value = getattr(self, name)
            if value is not None:
                ledger_text(**{name: value})


_UNSTATED: Any = {"stated": False}
"""Of fields that are not part of the record, because its place in the file says them."""


@dataclass(frozen=True)
class LedgerEntry:
    """One recorded release: ``time``, ``dataset`` and ``unit``, its ``events``, a ``description``, and the ``certificate_id``
    if it has a certificate. ``epsilon_total`` is the total after it, at ``delta``, both as they were when recorded.

    ``extends``: the certificate of the batch just before, of a release that asks pairs of arrivals alone and costs nothing more.
    ``purpose``, ``person`` and ``period`` are the owner's words: what for, who, and about which time. ``status`` is ``spent``
    (nothing more is known), ``released`` or ``failed``; all three count in full. ``id``: its number among the releases.

    >>> LedgerEntry(datetime(2026, 1, 31), "survey", PrivacyUnit.EDGE, (), "model", None, 1e-5, epsilon_total=4.0).status
    'spent'
    """

    kind: ClassVar[str] = "release"
    time: datetime
    dataset: str
    unit: PrivacyUnit
    events: tuple[Event, ...]
    description: str
    certificate_id: str | None
    delta: float
    epsilon_total: float
    extends: str | None = None
    purpose: str | None = None
    person: str | None = None
    period: str | None = None
    id: int = field(default=0, metadata=_UNSTATED)
    status: str = field(default="spent", metadata=_UNSTATED)


@dataclass(frozen=True)
class BudgetChange:
    """The budget of a data set was set. ``per``: how often it begins anew; None: never."""

    kind: ClassVar[str] = "budget"
    time: datetime
    dataset: str
    budget: Budget
    per: Period | None


@dataclass(frozen=True)
class ContentChange:
    """The content of a data set was bound to its name, or replaced: then ``person`` and ``reason`` may say by whom, and why."""

    kind: ClassVar[str] = "content"
    time: datetime
    dataset: str
    fingerprint: str
    replaced: str | None
    person: str | None
    reason: str | None


Change = BudgetChange | ContentChange
Record = LedgerEntry | BudgetChange | ContentChange


@dataclass(frozen=True)
class Balance:
    """What a ``dataset`` has spent at one ``unit``, and what is left.

    ``releases``: made at this unit. ``epsilon_spent``: by all of them together at ``delta``, those of the other unit included.
    ``budget``: None if none was set. ``gaussian_left`` and ``pure_left``: the largest epsilon, at the budget's delta, of
    one further release with Gaussian noise, or of a pure one; None if no budget is set.

    ``per``: how often the budget begins anew. If it does, the figures are those of the present ``period``, ``months_left`` counts
    its months from this one on, and ``gaussian_per_month`` and ``pure_per_month`` are what one release in each of them may
    cost. ``periods``: in how many periods something was released; ``epsilon_all_periods`` and ``delta_all_periods``: what was
    spent in each of them, by its own releases and the budget of that time, added up.

    >>> left = {"gaussian_left": 0.8, "pure_left": 1.0}
    >>> balance = Balance("survey", PrivacyUnit.EDGE, 1e-5, releases=2, epsilon_spent=3.0, budget=Budget(4), **left)
    >>> balance.epsilon_left, balance.exceeded
    (1.0, False)
    """

    derived: ClassVar[tuple[str, ...]] = ("epsilon_left", "exceeded")
    dataset: str
    unit: PrivacyUnit
    delta: float
    releases: int
    epsilon_spent: float
    budget: Budget | None
    gaussian_left: float | None
    pure_left: float | None
    per: Period | None = None
    period: str | None = None
    months_left: int | None = None
    gaussian_per_month: float | None = None
    pure_per_month: float | None = None
    periods: int = field(default=1)
    epsilon_all_periods: float | None = None
    delta_all_periods: float | None = None

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
    >>> 0 < charge.epsilon_total < 4
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

    def fingerprint(self, parts: Iterable[bytes], *, of: Fingerprint = Fingerprint.WHOLE) -> str:
        """HMAC-SHA256 of the content's parts under this ledger's key, each part prefixed with its length, with its mark.

        The prefix makes ``[b"ab"]`` and ``[b"a", b"b"]`` differ. The same content has unrelated fingerprints in two
        ledgers, and nobody without the ledger can compute one, so it cannot be used to test guesses for the content.
        ``of``: which part of the content it is.
        """
        if isinstance(parts, (bytes, bytearray, memoryview, str)):
            raise InputError(f"parts must be an iterable of bytes, got {type(parts).__name__}")
        mac = hmac.new(self._file.key, b"caribou ledger fingerprint\0", hashlib.sha256)
        domain = [] if of is Fingerprint.WHOLE else [of.name.lower().encode()]
        for part in (*domain, *parts):
            if not isinstance(part, (bytes, bytearray, memoryview)):
                raise InputError(f"parts must be bytes, got {type(part).__name__}")
            content = part.tobytes() if isinstance(part, memoryview) else part
            mac.update(len(content).to_bytes(8, "big"))
            mac.update(content)
        return f"{of.value}:{mac.hexdigest()}"

    def set_budget(self, name: str, budget: Budget, *, per: Period | str | None = None) -> Balance:
        """Set the total of (data set, ``budget.unit``). Every change is kept in the history.

        ``per``: month, quarter or year: the budget begins anew with each calendar period (UTC). A budget below what is already
        spent is accepted: the returned balance is then ``exceeded``, and no release is allowed any more. A finite node budget is
        refused after an edge-level release, because it could never be kept.
        """
        dataset_name(name)
        if not isinstance(budget, Budget):
            raise InputError(f"budget must be a Budget, got {type(budget).__name__}")
        change = BudgetChange(self._now(), name, budget, None if per is None else Period.parse(per))

        def decide(contents: _Contents) -> list[Record]:
            _require_one_spelling(contents, name)
            _require_node_protection(contents, name, budget)
            known = contents.setting(name, budget.unit)
            return [] if known and (known.budget, known.per) == (budget, change.per) else [change]

        self._append(decide)
        return self._intact().balance(name, budget.unit, change.time)

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
        extends: str | None = None,
        note: EntryNote | None = None,
        already_made: bool = False,
    ) -> LedgerEntry:
        """Record a release that is about to be made, or refuse it. To be called before any noise is drawn.

        Formal guarantees: all earlier releases of the data set are judged together with the new one, for every unit that has a
        budget, by the filters of that budget; it is written only if nothing was recorded since (`_append`). If a total exceeds
        its budget nothing is written and `BudgetExceeded` is raised; otherwise the release is on disk when this returns, and
        counts as spent whatever happens afterwards.

        ``fingerprints`` (see `fingerprint`) tie the name to the content: a name whose content has changed, and
        content that is known under another name, are refused. Degrees that are known under another name are warned of. An
        owner who turns warnings into errors refuses such a release, too. ``replace_fingerprint=True`` is the owner's
        declaration that the new content is about the same people; what they have spent stays spent. ``note`` holds the reason.

        ``extends``: the certificate of the batch just before, of a release that asks pairs of arrivals alone: it costs nothing
        more. In a ledger that has budgets, a name without one is refused. A total above four fifths of its budget is warned of.

        ``already_made``: it was made elsewhere and cannot be taken back, so it is recorded whatever the budget says: a ledger
        that left it out would promise more than is true. No further release is allowed then where more than the budget is spent.
        """
        note = note or EntryNote()
        if isinstance(description, str):
            description = " ".join(description.split())
        ledger_text(description=description)
        if certificate_id is not None:
            ledger_text(certificate_id=certificate_id)
        planned = replace(
            _planned(name, unit, events),
            description=description,
            certificate_id=certificate_id,
            extends=extends,
            purpose=note.purpose,
            person=note.person,
            period=note.period,
            status="released" if already_made else "spent",
        )
        kinds = {fingerprint: Fingerprint.of(fingerprint) for fingerprint in fingerprints}

        def decide(contents: _Contents) -> list[Record]:
            new = replace(planned, time=self._now(), id=len(contents.releases) + 1)
            _require_one_spelling(contents, name)
            _require_new_certificate(contents, new)
            if extends is not None:
                _require_extendable(contents, new)
            content = _content_changes(contents, new, kinds, replace_fingerprint, note)
            after = contents.plus(new)
            if not already_made:
                _require_clock(contents, new.time)
                _require_budget(contents, name)
                _require_affordable(contents, after, new)
            new = replace(new, delta=_delta(contents.budget(name, new.unit)), epsilon_total=_total(after, new))
            if not already_made and extends is None:
                _warn_of_little_left(after, new)
            return [new, *content]

        return next(record for record in self._append(decide) if isinstance(record, LedgerEntry))

    def require(self, name: str, unit: PrivacyUnit | str, events: Sequence[Event], *, releases: int = 1) -> None:
        """Raise `BudgetExceeded` if so many ``releases`` of these events would not fit as things stand.

        Writes and reserves nothing: `charge` decides. For a caller that plans several releases and does not want to be stopped
        half way.
        """
        integer(at_least=1, releases=releases)
        planned, contents = replace(_planned(name, unit, events), time=self._now()), self._intact()
        _require_one_spelling(contents, name)
        _require_budget(contents, name)
        _require_affordable(contents, contents.plus(*(planned,) * releases), planned)

    def merge(self, other: Ledger) -> tuple[LedgerEntry, ...]:
        """Take over what another ledger recorded, e.g. that of another machine; returns the entries that were new here.

        Entries keep their time, words and status, and count in full, whatever the budgets say: they cannot be taken back. One
        that is here already is not counted twice. A budget of a name that has none here comes along; one that is here stays.
        Fingerprints stay behind, because the other ledger has another key. A second extension of one certificate is warned of: it
        may have asked pairs of the same people again, and pays in full.
        """
        there, now = other._intact(), self._now()

        def decide(contents: _Contents) -> list[Record]:
            found: list[Record] = []
            for entry in there.releases:
                if contents.knows(entry):
                    continue
                dataset_name(entry.dataset)  # who wrote the other ledger is not known: as in `_planned`
                require_few(entry.events)
                _require_one_spelling(contents, entry.dataset)
                _require_new_certificate(contents, entry, other_names=True)
                entry = replace(entry, id=len(contents.releases) + 1)
                contents = contents.plus(entry)
                delta = _delta(contents.budget(entry.dataset, entry.unit))
                found.append(replace(entry, delta=delta, epsilon_total=_total(contents, entry)))
            for name, unit in itertools.product(there.names(), PrivacyUnit):
                setting = there.setting(name, unit)
                if setting is not None and contents.setting(name, unit) is None:
                    _require_one_spelling(contents, name)
                    _require_node_protection(contents, name, setting.budget)
                    found.append(replace(setting, time=now))
            return found

        taken = tuple(record for record in self._append(decide) if isinstance(record, LedgerEntry))
        contents = self._contents()
        for entry in taken:
            if entry.extends is not None and entry.id not in contents.later_batches(entry.dataset):
                warnings.warn(
                    f"data set {entry.dataset!r}: release {entry.id} extends certificate {entry.extends} and pays in full, "
                    "because that certificate was extended by another release, too, or is not in this ledger at this cost: "
                    "pairs of the same people may have been asked twice",
                    stacklevel=2,
                )
        return taken

    def annotate(self, charge_id: int, status: str) -> None:
        """Mark a release as ``released`` or ``failed``. This never reduces what is spent."""
        integer(at_least=1, charge_id=charge_id)
        one_of(("released", "failed"), status=status)
        with self._file.transaction(write=True) as entries:
            places = [place for place, (_, known) in enumerate(entries.rows(), 1) if known is not None]
            if charge_id > len(places):
                raise LedgerError(f"ledger {self.path}: there is no release {charge_id}")
            entries.set_status(places[charge_id - 1], status)

    # -- what callers ask -----------------------------------------------------------------------------------------

    def total(self, name: str, unit: PrivacyUnit | str) -> Balance:
        """What the data set has spent at this unit, by the filters of its budget, and what one further release may cost."""
        unit = PrivacyUnit.parse(unit)
        return self._known(name, self._intact()).balance(name, unit, self._now())

    def datasets(self) -> tuple[Balance, ...]:
        """The balances of every data set at both units, by name."""
        contents, now = self._intact(), self._now()
        return tuple(contents.balance(name, unit, now) for name in contents.names() for unit in PrivacyUnit)

    def _repr_html_(self) -> str:
        def left(balance: Balance) -> str:
            return "no budget is set" if balance.budget is None else f"{balance.epsilon_left:.4g}"

        rows = [(b.dataset, b.unit.value, b.releases, f"{b.epsilon_spent:.4g}", left(b)) for b in self.datasets()]
        heading = ("data set", "unit", "releases", "epsilon spent", "epsilon left")
        return html_table(f"Ledger {self.path.name}", rows, heading)

    def entries(self, name: str | None = None) -> tuple[LedgerEntry, ...]:
        """All releases, or those of one data set, in the order in which they were recorded."""
        contents = self._contents()
        return contents.releases if name is None else self._known(name, contents).of(name)

    def later_batches(self, name: str) -> frozenset[int]:
        """The releases (by id) of the data set that cost nothing more, because they are batches of another one."""
        return self._known(name, self._contents()).later_batches(name)

    def history(self, name: str) -> tuple[Change, ...]:
        """Every change of the data set's budgets and content, in order."""
        return tuple(c for c in self._known(name, self._contents()).changes if c.dataset == name)

    def cumulative(self, name: str, unit: PrivacyUnit | str) -> dict[int, float]:
        """The total epsilon after each release (by id) that was made at this unit, by today's budget and today's rule."""
        unit = PrivacyUnit.parse(unit)
        contents = self._known(name, self._intact())
        budget, made = contents.budget(name, unit), contents.of(name)
        totals: dict[int, float] = {}
        for number, entry in enumerate(made, 1):
            if entry.unit is unit:
                # Without a budget every prefix would be composed again, which is slow; the recorded total was computed alike.
                known = budget is None and entry.delta == DEFAULT_DELTA
                totals[entry.id] = (
                    entry.epsilon_total if known else _total(replace(contents, releases=made[:number]), entry)
                )
        return totals

    def check(self) -> tuple[str, ...]:
        """What is wrong with the records: one line per finding, empty if the chain is intact.

        Entries that were edited, and entries that are missing, also at the end, are found. A release's status is not
        part of the chain.
        """
        with self._file.transaction(write=False) as entries:
            return entries.damage() + entries.problems()

    # -- reading and writing ----------------------------------------------------------------------------------------

    def _append(self, decide: Callable[[_Contents], list[Record]]) -> list[Record]:
        """Write what ``decide`` makes of all records, which it may refuse; the records that were written.

        To compose events may take long, and others must not wait for it: it is done before the file is locked. What was decided
        is written only if the end of the chain is still where it was; else it is decided anew.
        """
        for _ in range(ATTEMPTS):
            contents = self._intact()
            records = decide(contents)
            if not records:
                return records
            with self._file.transaction(write=True) as entries:
                if entries.require_intact() == contents.end:
                    for record in records:
                        status = record.status if isinstance(record, LedgerEntry) else None
                        entries.append(_encode(record), status)
                    return records
        raise LedgerError(f"ledger {self.path}: other processes wrote {ATTEMPTS} times meanwhile; try again")

    def _now(self) -> datetime:
        time = self._clock()
        if time.tzinfo is None:
            raise InputError(f"clock must give times with a time zone, got {time!r}")
        if not 1970 <= time.year < 9999:
            raise InputError.of("clock", "give a year from 1970 to 9998", time.year)
        return time.astimezone(UTC)

    def _contents(self) -> _Contents:
        """All records as they stand, also edited ones: to look at, not to add up."""
        with self._file.transaction(write=False) as entries:
            return self._read(entries, None)

    def _intact(self) -> _Contents:
        """All records, for a number that somebody will rely on: a broken chain is an error."""
        with self._file.transaction(write=False) as entries:
            return self._read(entries, entries.require_intact())

    def _read(self, entries: Transaction, end: End | None) -> _Contents:
        releases: list[LedgerEntry] = []
        changes: list[Change] = []
        try:
            for text, status in entries.rows():
                record = _decode(text)
                if isinstance(record, LedgerEntry):
                    releases.append(replace(record, id=len(releases) + 1, status=str(status)))
                else:
                    changes.append(record)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise LedgerError(f"ledger {self.path}: an entry cannot be read ({error})") from error
        return _Contents(tuple(releases), tuple(changes), end)

    def _known(self, name: str, contents: _Contents) -> _Contents:
        """The records, if the data set is among them."""
        names = contents.names()
        if name not in names:
            known = ", ".join(map(repr, names)) if names else "none"
            raise LedgerError(f"ledger {self.path}: there is no data set {name!r} (known: {known})")
        return contents


@dataclass(frozen=True)
class _Contents:
    """All records at one moment, with the end of their chain if it is intact. What they say of a data set is never stored."""

    releases: tuple[LedgerEntry, ...]
    changes: tuple[Change, ...]
    end: End | None = None

    def names(self) -> list[str]:
        return sorted({record.dataset for record in (*self.releases, *self.changes)})

    def of(self, name: str, unit: PrivacyUnit | None = None) -> tuple[LedgerEntry, ...]:
        return tuple(r for r in self.releases if r.dataset == name and unit in (None, r.unit))

    def plus(self, *entries: LedgerEntry) -> _Contents:
        """With further releases."""
        return replace(self, releases=(*self.releases, *entries))

    def costs(
        self, name: str, unit: PrivacyUnit, window: tuple[datetime, datetime] | None = None
    ) -> tuple[tuple[Event, ...], ...]:
        """What each release of the data set, at either unit, costs at this one; ``window``: of those made in it alone.

        Batches of one release ask disjoint pairs. So they cost once, in every window that has one of them.
        """
        found: dict[int, tuple[Event, ...]] = {}
        for entry, payer in zip(self.of(name), self.payers(name), strict=True):
            if (window is None or window[0] <= entry.time < window[1]) and payer not in found:
                found[payer] = accounting.at_unit(entry.events, made_at=entry.unit, at=unit)
        return tuple(found.values())

    def payers(self, name: str) -> list[int]:
        """Of every release of the data set the place, among them, of the one that pays for it: its own, unless it is a batch.

        Only the first batch after a certificate, under whatever name, is paid for by it. Another one, which a merge brings, may
        have asked the same people: it pays in full, and so does one whose cost is not that of the batch before.
        """
        next_batch: dict[str, LedgerEntry] = {}
        for entry in self.releases:
            if entry.extends is not None:
                next_batch.setdefault(entry.extends, entry)
        made = self.of(name)
        found: list[int] = []
        place: dict[str, int] = {}
        for own, entry in enumerate(made):
            before = place.get(entry.extends) if entry.extends and next_batch[entry.extends] is entry else None
            same = before is not None and (made[before].unit, made[before].events) == (entry.unit, entry.events)
            found.append(found[before] if before is not None and same else own)
            if entry.certificate_id is not None:
                place[entry.certificate_id] = own
        return found

    def later_batches(self, name: str) -> frozenset[int]:
        """The releases, by id, that another one pays for."""
        pairs = enumerate(zip(self.of(name), self.payers(name), strict=True))
        return frozenset(entry.id for own, (entry, payer) in pairs if payer != own)

    def knows(self, entry: LedgerEntry) -> bool:
        """Whether this very release is here: by its certificate, or without one by everything that was recorded."""
        words = ["dataset", "unit", "events", "certificate_id"]
        words += ["time", "description"] if entry.certificate_id is None else []
        return any(all(getattr(r, w) == getattr(entry, w) for w in words) for r in self.releases)

    def setting(self, name: str, unit: PrivacyUnit, before: datetime | None = None) -> BudgetChange | None:
        """The last budget that was set, ``before`` a time."""
        for change in reversed(self.changes):
            if (
                isinstance(change, BudgetChange)
                and (change.dataset, change.budget.unit) == (name, unit)
                and (before is None or change.time < before)
            ):
                return change
        return None

    def budget(self, name: str, unit: PrivacyUnit) -> Budget | None:
        setting = self.setting(name, unit)
        return None if setting is None else setting.budget

    def window(self, name: str, unit: PrivacyUnit, time: datetime) -> tuple[datetime, datetime] | None:
        """The period of the budget that ``time`` lies in; None if it never begins anew."""
        setting = self.setting(name, unit)
        return None if setting is None or setting.per is None else setting.per.window(time)

    def balance(self, name: str, unit: PrivacyUnit, now: datetime) -> Balance:
        """What is spent and left, in the period of ``now`` if the budget has periods."""
        setting, budget = self.setting(name, unit), self.budget(name, unit)
        releases = self.costs(name, unit, self.window(name, unit, now))
        spent = _epsilon(releases, budget)
        made = len(self.of(name, unit))
        balance = Balance(name, unit, _delta(budget), made, spent, budget, *_largest(releases, budget, spent))
        if setting is None or setting.per is None:
            return balance
        per, months = setting.per, setting.per.months_left(now)
        each = _largest(releases, budget, spent, months)
        windows = sorted({per.window(entry.time) for entry in self.of(name)})
        then = [(window, self.setting(name, unit, before=window[1]) or setting) for window in windows]
        return replace(
            balance,
            per=per,
            period=per.label(now),
            months_left=months,
            gaussian_per_month=each[0],
            pure_per_month=each[1],
            periods=len(windows),
            epsilon_all_periods=sum(_epsilon(self.costs(name, unit, window), was.budget) for window, was in then),
            delta_all_periods=sum(was.budget.delta for _, was in then),
        )

    def fingerprint(self, name: str, kind: Fingerprint) -> str | None:
        """The content that the data set has now."""
        found = [c.fingerprint for c in self.contents() if c.dataset == name and Fingerprint.of(c.fingerprint) is kind]
        return found[-1] if found else None

    def owners(self, fingerprint: str) -> list[str]:
        """The data sets that have, or ever had, this content: replaced content must not start afresh elsewhere."""
        return [change.dataset for change in self.contents() if change.fingerprint == fingerprint]

    def contents(self) -> Iterable[ContentChange]:
        """The content of every name, in order."""
        return (change for change in self.changes if isinstance(change, ContentChange))


# -- judging ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _epsilon(releases: tuple[tuple[Event, ...], ...], budget: Budget | None) -> float:
    """The total of all releases: by the filters of a finite budget, else as if they had been fixed in advance.

    It is kept: a decision that is made anew, because another data set was written meanwhile, does not compose again.
    """
    events = tuple(event for release in releases for event in release)
    try:
        if not events:
            epsilon = 0.0
        elif budget is not None and budget.is_private:
            epsilon = float(filters.total_epsilon(releases, budget))
        else:
            epsilon = float(accounting.epsilon_of(events, _delta(budget)))
    except (ArithmeticError, ValueError, LookupError):
        return math.inf  # numbers that no accountant can compute with: what cannot be bounded is not bounded
    if not epsilon >= 0:
        raise LedgerError(f"the accountant must give epsilon >= 0 for the recorded events, got {epsilon!r}")
    return epsilon


def _delta(budget: Budget | None) -> float:
    return DEFAULT_DELTA if budget is None else budget.delta


def _affordable(total: float, budget: Budget) -> bool:
    return total <= budget.epsilon * (1 + RESOLUTION)


def _planned(name: str, unit: PrivacyUnit | str, events: Sequence[Event]) -> LedgerEntry:
    """A release that is not recorded yet. What is judged is what is stored."""
    unit = PrivacyUnit.parse(unit)
    dataset_name(name)
    stored = json.loads(json.dumps([event_to_dict(event) for event in events], default=_plain))
    judged = tuple(map(event_from_dict, stored))
    require_few(judged)
    return LedgerEntry(datetime.min, name, unit, judged, "planned", None, DEFAULT_DELTA, 0.0)


def _content_changes(
    contents: _Contents, new: LedgerEntry, kinds: dict[str, Fingerprint], replaces: bool, note: EntryNote
) -> list[Record]:
    """What ties the name to its content; each fingerprint is compared with those of its own kind."""
    name = new.dataset
    found: list[Record] = []
    for fingerprint, kind in kinds.items():
        owners = contents.owners(fingerprint)
        if owners and owners[0] != name:
            if kind.shared is None:
                raise LedgerError(
                    f"data set {name!r}: the same content is known to this ledger as {owners[0]!r}; use that name "
                    "(a new name does not reset what has been spent)"
                )
            warnings.warn(
                f"data set {name!r}: a graph with {kind.shared} is known to this ledger as {owners[0]!r}. If "
                f"it is about the same people, release it under that name with replace_fingerprint=True (--name {owners[0]} "
                "--replace-fingerprint): under a new name what they have spent is not counted",
                stacklevel=2,
            )
        old = contents.fingerprint(name, kind)
        if name in owners:
            continue
        if old is not None and not replaces and kind.shared is None:
            raise LedgerError(
                f"data set {name!r}: the content under this name has changed since its last release; use a new name "
                "if it is about other people, or replace the fingerprint to declare that it is about the same "
                "people (what they have spent then stays spent)"
            )
        why = EntryNote() if old is None else note
        found.append(ContentChange(new.time, name, fingerprint, old, why.person, why.reason))
    return found


def _total(contents: _Contents, entry: LedgerEntry) -> float:
    """The total of the entry's data set at its unit, in the period of the entry."""
    window = contents.window(entry.dataset, entry.unit, entry.time)
    return _epsilon(contents.costs(entry.dataset, entry.unit, window), contents.budget(entry.dataset, entry.unit))


def _require_clock(contents: _Contents, time: datetime) -> None:
    """A clock that was set back would spend what an earlier period has left, or a period before the budget was set."""
    newest = max((record.time for record in (*contents.releases, *contents.changes)), default=time)
    if time < newest - CLOCK_SKEW:
        raise LedgerError(
            f"clock must not be before the newest entry of the ledger, {newest:%Y-%m-%d %H:%M} UTC, got "
            f"{time:%Y-%m-%d %H:%M} UTC: the date decides which period pays; set the clock of this machine right"
        )


def _require_budget(contents: _Contents, name: str) -> None:
    """Where the owner sets budgets, a name that has none is a slip of the pen, or a way around them."""
    named = {change.dataset for change in contents.changes if isinstance(change, BudgetChange)}
    if named and name not in named:
        raise LedgerError(
            f"data set {name!r}: must have a budget, because this ledger has budgets (for {', '.join(sorted(named))}); set one "
            f"with `caribou ledger budget {name} --epsilon E --unit edge|node` (--epsilon inf for no limit), or use the name "
            "that has one (--name)"
        )


def _require_new_certificate(contents: _Contents, new: LedgerEntry, *, other_names: bool = False) -> None:
    """A certificate is about one data set: under a second name it would say of that one what is not true.

    ``other_names``: another ledger may have it under its own name. Both count in full.
    """
    name, number = new.dataset, new.certificate_id
    for entry in contents.releases:
        if number is None or entry.certificate_id != number:
            continue
        if (entry.unit, entry.events) != (new.unit, new.events):
            raise LedgerError(
                f"data set {name!r}: certificate {number!r} is recorded as release {entry.id} of {entry.dataset!r} "
                "with another cost, so one of the two was edited; record what the other release cost with "
                "`caribou ledger add --epsilon E --unit U`"
            )
        if entry.dataset == name or not other_names:
            raise LedgerError(
                f"data set {name!r}: certificate {number!r} is already recorded as release {entry.id} of {entry.dataset!r}; "
                "it is not counted twice"
            )


def _require_extendable(contents: _Contents, new: LedgerEntry) -> None:
    """A batch costs nothing only as the one next batch of a release that is here, with the same noise."""
    name, extends = new.dataset, new.extends
    before = [r for r in contents.of(name) if r.certificate_id == extends]
    if not before:
        elsewhere = sorted({r.dataset for r in contents.releases if r.certificate_id == extends})
        hint = f" (it is recorded under {elsewhere[0]!r}: use that name, --name)" if elsewhere else ""
        raise LedgerError(
            f"data set {name!r}: certificate {extends}, which this batch extends, is not in this ledger{hint}; give the ledger "
            "that the model was charged in, or record its certificate with `caribou ledger add --certificate`"
        )
    if (before[0].unit, before[0].events) != (new.unit, new.events):
        raise LedgerError(
            f"data set {name!r}: a batch must have the cost of the release that it extends (release {before[0].id}), got "
            "another: its settings were changed"
        )
    after = [r for r in contents.releases if r.extends == extends]
    if after:
        raise LedgerError(
            f"data set {name!r}: certificate {extends} was extended already, by certificate {after[0].certificate_id} (release "
            f"{after[0].id}): a second extension would ask pairs of the same people twice; extend the model that holds that "
            "certificate, or charge this batch as a release of its own (spend=True, --spend)"
        )


def _require_affordable(before: _Contents, after: _Contents, new: LedgerEntry) -> None:
    """A release counts at both units, and no budget of either may be exceeded in the period of the release."""
    name, unit = new.dataset, new.unit
    for at in PrivacyUnit:
        budget = before.budget(name, at)
        if budget is None:
            continue
        window = before.window(name, at, new.time)
        releases = after.costs(name, at, window)
        total = _epsilon(releases, budget)
        if not _affordable(total, budget) and releases != before.costs(name, at, window):
            why = _why_of_units(before, name, unit, at)
            if (
                not why
                and math.isinf(total)
                and not any(isinstance(e, NonPrivate) for costs in releases for e in costs)
            ):
                why = (
                    "; epsilon = inf means that the deltas of the releases alone exceed the budget's delta "
                    f"({filters.ADDED_SHARE:g} of it, where there are several), or that the total is too large to be computed"
                )
            raise BudgetExceeded(_refusal(before.balance(name, at, new.time), budget, total) + why)


def _warn_of_little_left(after: _Contents, new: LedgerEntry) -> None:
    """Before anything is written: whoever turns warnings into errors refuses such a release."""
    budget, total = after.budget(new.dataset, new.unit), new.epsilon_total
    if budget is None or not budget.is_private or total < NOTICE_SHARE * budget.epsilon:
        return
    setting = after.setting(new.dataset, new.unit)
    per = None if setting is None else setting.per
    when = "" if per is None else f" of {per.label(new.time)}, with {per.months_left(new.time)} month(s) to go,"
    warnings.warn(
        f"data set {new.dataset!r}, {new.unit.value} level: {total / budget.epsilon:.0%} of the budget{when} is spent with this "
        f"release: epsilon = {total:.4g} of {budget.epsilon:g}",
        stacklevel=2,
    )


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


def _largest(
    releases: tuple[tuple[Event, ...], ...], budget: Budget | None, spent: float, months: int = 1
) -> tuple[float | None, float | None]:
    """What one more release may cost, in each of so many ``months``: a Gaussian one, and a pure one."""
    left = _left(budget, spent)
    if budget is None or not budget.is_private or not left:
        return left, left
    return filters.largest_gaussian(releases, budget, months), filters.largest_pure(releases, budget, months)


def _refusal(balance: Balance, budget: Budget, total: float) -> str:
    # Two different numbers must not look the same in the sentence that says that one is larger.
    style = "{:.6g}" if f"{total:.6g}" != f"{budget.epsilon:.6g}" else "{!r}"
    period = "" if balance.period is None else f" of {balance.period}"
    words = (
        f"data set {balance.dataset!r}, {budget.unit.value} level: this release would bring the total to epsilon = "
        f"{style.format(total)} at delta = {budget.delta:g}; the budget{period} is {style.format(budget.epsilon)}, "
        f"spent so far {balance.epsilon_spent:.6g}, left {balance.gaussian_left:.6g} for a Gaussian release or "
        f"{balance.pure_left:.6g} for a pure one"
    )
    if balance.months_left is None or balance.gaussian_per_month is None:
        return words
    return (
        f"{words}; for one release in each of the {balance.months_left} month(s) left: {balance.gaussian_per_month:.4g} for "
        f"Gaussian releases or {balance.pure_per_month:.4g} for pure ones"
    )


# -- words and bytes --------------------------------------------------------------------------------------------------


def _encode(record: Record) -> str:
    return json.dumps(documents.write(record), sort_keys=True, allow_nan=False)


def _decode(text: str) -> Record:
    record: Record = documents.read(Record, json.loads(text), "entry")
    return record


def _plain(value: Any) -> int | float:
    """NumPy's numbers as Python's; the events accept both."""
    return int(value.__index__()) if hasattr(value, "__index__") else float(value)


def _require_one_spelling(contents: _Contents, name: str) -> None:
    """Two names that look the same, or differ in case alone, would be two budgets for one data set."""
    known = contents.names()
    alike = [other for other in known if look(other) == look(name)]
    if alike and name not in known:
        raise LedgerError(
            f"data set {name!r}: this ledger knows {alike[0]!r}, which looks the same, or differs in case or blanks alone; use "
            "that name, or one that nobody mistakes for it"
        )


def ledger_text(**field: Any) -> str:
    """A description, or words of the owner: one line of printable text without outer spaces."""
    ((name, value),) = field.items()
    if not (isinstance(value, str) and value and value.isprintable() and value == value.strip() and len(value) <= 500):
        raise InputError(f"{name} must be 1 to 500 printable characters without outer spaces, got {value!r}")
    return value
