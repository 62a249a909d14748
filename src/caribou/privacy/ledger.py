"""The ledger: an SQLite file that records what each data set has spent, and refuses what it cannot afford.

What the ledger guarantees
    For every data set and privacy unit with a budget (epsilon, delta), the composition of *all* releases recorded
    under that name and unit, judged by `caribou.privacy.accounting.epsilon_of` at the budget's delta, is at most
    epsilon (up to the rounding error `RESOLUTION`) for as long as releases go through `Ledger.spend`. A release is
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

Durability
    Rollback journal (``journal_mode=DELETE``), not WAL: WAL needs shared memory between the processes, so it does
    not work on network file systems, and it leaves ``-wal`` and ``-shm`` files without which a copied ledger would
    silently forget its latest releases. What WAL offers, readers beside a writer, is worth nothing at a few releases
    per hour. ``synchronous=EXTRA`` is FULL plus a sync of the folder after the journal is unlinked: with FULL alone
    a power cut just after a commit may bring the journal back and undo the commit, which here means a published
    release that the ledger has forgotten. Each operation opens its own connection, so that a `Ledger` may be shared
    between threads and carried over a fork.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from caribou._validate import integer, one_of, positive
from caribou.errors import BudgetExceeded, InputError, LedgerError
from caribou.privacy.budget import DEFAULT_DELTA, Budget, PrivacyUnit
from caribou.privacy.events import Event, NonPrivate, event_from_dict, event_to_dict

__all__ = ["Change", "Ledger", "Receipt", "Release", "Standing"]

APPLICATION_ID = 0x43415242  # "CARB"; `file` and SQLite tools read it from the header
SCHEMA_VERSION = 1

RESOLUTION = 1e-9
"""Totals are compared with the budget up to this relative rounding. Calibration rounds the noise up and the accountant
rounds epsilon up, so a release calibrated to the whole budget comes out at epsilon (1 + 3e-14) and must be accepted.
The allowance is on the total, not per release, so it does not add up."""

_KEY_BYTES = hashlib.sha256().digest_size
_RELEASE_FIELDS = (
    "id",
    "time",
    "dataset",
    "unit",
    "events",
    "description",
    "certificate_id",
    "delta",
    "epsilon_total",
)
_CHANGE_FIELDS = ("id", "time", "dataset", "field", "unit", "old", "new")
_CHAINS = {"releases": _RELEASE_FIELDS, "changes": _CHANGE_FIELDS}

# INSERT OR REPLACE removes rows without firing DELETE triggers, hence the triggers on INSERT.
_SCHEMA = (
    "CREATE TABLE secret (key BLOB NOT NULL)",
    """CREATE TABLE releases (
        id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, dataset TEXT NOT NULL, unit TEXT NOT NULL,
        events TEXT NOT NULL, description TEXT NOT NULL, certificate_id TEXT, delta REAL NOT NULL,
        epsilon_total REAL NOT NULL, hash TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('spent', 'released', 'failed')),
        UNIQUE (dataset, certificate_id))""",
    """CREATE TABLE changes (
        id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, dataset TEXT NOT NULL, field TEXT NOT NULL,
        unit TEXT, old TEXT, new TEXT NOT NULL, hash TEXT NOT NULL)""",
    "CREATE TABLE heads (chain TEXT PRIMARY KEY, entries INTEGER NOT NULL, hash TEXT NOT NULL)",
    f"""CREATE TRIGGER releases_update BEFORE UPDATE OF {", ".join(_RELEASE_FIELDS)}, hash ON releases
        BEGIN SELECT RAISE(ABORT, 'releases are append-only: only the status may change'); END""",
    """CREATE TRIGGER releases_delete BEFORE DELETE ON releases
        BEGIN SELECT RAISE(ABORT, 'releases are append-only'); END""",
    """CREATE TRIGGER releases_replace BEFORE INSERT ON releases
        WHEN EXISTS (SELECT 1 FROM releases WHERE id = NEW.id
                     OR (dataset = NEW.dataset AND certificate_id = NEW.certificate_id))
        BEGIN SELECT RAISE(ABORT, 'releases are append-only: this entry exists'); END""",
    """CREATE TRIGGER changes_update BEFORE UPDATE ON changes
        BEGIN SELECT RAISE(ABORT, 'changes are append-only'); END""",
    """CREATE TRIGGER changes_delete BEFORE DELETE ON changes
        BEGIN SELECT RAISE(ABORT, 'changes are append-only'); END""",
    """CREATE TRIGGER changes_replace BEFORE INSERT ON changes
        WHEN EXISTS (SELECT 1 FROM changes WHERE id = NEW.id)
        BEGIN SELECT RAISE(ABORT, 'changes are append-only: this entry exists'); END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


@dataclass(frozen=True)
class Receipt:
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
class Release:
    """One recorded release. ``epsilon_total`` is the total after it, at ``delta``, both as they were when recorded.

    ``status`` is ``spent`` (nothing more is known), ``released`` or ``failed``; all three count in full.
    """

    id: int
    time: datetime
    dataset: str
    unit: PrivacyUnit
    events: tuple[Event, ...]
    description: str
    certificate_id: str | None
    delta: float
    epsilon_total: float
    status: str


@dataclass(frozen=True)
class Change:
    """One entry of a data set's history: its ``budget`` at a unit, or its ``fingerprint``, was set or replaced."""

    id: int
    time: datetime
    dataset: str
    field: str
    unit: PrivacyUnit | None
    old: Budget | str | None
    new: Budget | str


@dataclass(frozen=True)
class Standing:
    """What a data set has spent at one unit, and what is left.

    >>> standing = Standing("survey", PrivacyUnit.EDGE, 1e-5, releases=2, epsilon_spent=3.0, budget=Budget(4))
    >>> standing.epsilon_left, standing.exceeded
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
    """The record of all releases of all data sets of one owner. See the module for what it guarantees and what not.

    A missing file is created with mode 0600 (``create=False``: it is an error). ``clock`` gives the time of entries;
    ``busy_timeout`` is how many seconds an operation waits for another process.

    >>> import tempfile
    >>> from caribou.privacy.events import Gaussian
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(Path(folder.name) / "ledger.sqlite")
    >>> ledger.set_budget("survey", Budget(epsilon=4, unit="edge")).epsilon_left
    4.0
    >>> receipt = ledger.spend("survey", "edge", [Gaussian(noise_multiplier=2.0)], description="first model")
    >>> 0 < receipt.epsilon_spent < 4
    True
    >>> ledger.spend("survey", "edge", [NonPrivate()], description="without noise")  # doctest: +ELLIPSIS
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
        # Absolute, because a later change of the working folder must not lead to another ledger.
        self.path = Path(os.path.abspath(path))
        self._clock = clock
        self._busy_timeout = positive(busy_timeout=busy_timeout)
        try:
            self._require_file(create)
        except OSError as error:
            raise LedgerError(f"ledger {self.path}: {error.strerror or error}") from error
        with self._transaction("BEGIN") as connection:
            self._key = self._read_key(connection)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    # -- what callers do ------------------------------------------------------------------------------------------

    def fingerprint(self, parts: Iterable[bytes]) -> str:
        """HMAC-SHA256 (hex) of the content's parts under this ledger's key, each part prefixed with its length.

        The prefix makes ``[b"ab"]`` and ``[b"a", b"b"]`` differ. The same content has unrelated fingerprints in two
        ledgers, and nobody without the ledger can compute one, so it cannot be used to test guesses for the content.
        """
        if isinstance(parts, (bytes, bytearray, memoryview, str)):
            raise InputError(f"parts must be an iterable of bytes, got {type(parts).__name__}")
        mac = hmac.new(self._key, b"caribou ledger fingerprint\0", hashlib.sha256)
        for part in parts:
            if not isinstance(part, (bytes, bytearray, memoryview)):
                raise InputError(f"parts must be bytes, got {type(part).__name__}")
            content = part.tobytes() if isinstance(part, memoryview) else part
            mac.update(len(content).to_bytes(8, "big"))
            mac.update(content)
        return mac.hexdigest()

    def set_budget(self, name: str, budget: Budget) -> Standing:
        """Set the total of (data set, ``budget.unit``). Every change is kept in the history.

        A budget below what is already spent is accepted: the returned standing is then ``exceeded``, and no release
        is allowed any more.
        """
        _text(dataset=name)
        if not isinstance(budget, Budget):
            raise InputError(f"budget must be a Budget, got {type(budget).__name__}")
        epsilon_of = _accountant()
        with self._transaction("BEGIN IMMEDIATE") as connection:
            contents = self._intact_contents(connection)
            standing = _standing(contents, name, budget.unit, budget, epsilon_of)
            old = contents.budget(name, budget.unit)
            if old != budget:
                self._append_change(connection, name, "budget", budget.unit, old, budget)
        return standing

    def spend(
        self,
        name: str,
        unit: PrivacyUnit | str,
        events: Sequence[Event],
        *,
        description: str,
        fingerprint: str | None = None,
        replace_fingerprint: bool = False,
        certificate_id: str | None = None,
    ) -> Receipt:
        """Record a release that is about to be made, or refuse it. To be called before any noise is drawn.

        Formal guarantees: in one ``BEGIN IMMEDIATE`` transaction all earlier events of (data set, unit) are composed
        with the new ones at the budget's delta (`DEFAULT_DELTA` without budget). If the total exceeds the budget
        nothing is written and `BudgetExceeded` is raised; otherwise the release is on disk when this returns, and
        counts as spent whatever happens afterwards.

        ``fingerprint`` (see `fingerprint`) ties the name to the content: a name whose content has changed, and
        content that is known under another name, are refused. ``replace_fingerprint=True`` is the owner's
        declaration that the new content is about the same people; what they have spent stays spent.
        """
        return self._append_release(
            name,
            PrivacyUnit.parse(unit),
            events,
            description=description,
            fingerprint=fingerprint,
            replace_fingerprint=replace_fingerprint,
            certificate_id=certificate_id,
            already_made=False,
        )

    def record_past(
        self,
        name: str,
        unit: PrivacyUnit | str,
        events: Sequence[Event],
        *,
        description: str,
        certificate_id: str | None = None,
    ) -> Receipt:
        """Record a release that has been made elsewhere, whatever the budget says.

        It cannot be taken back, so a ledger that left it out would promise more than is true. The data set may be
        overspent afterwards (``total(...).exceeded``); no further release is then allowed.
        """
        return self._append_release(
            name,
            PrivacyUnit.parse(unit),
            events,
            description=description,
            fingerprint=None,
            replace_fingerprint=False,
            certificate_id=certificate_id,
            already_made=True,
        )

    def annotate(self, receipt_id: int, status: str) -> None:
        """Mark a release as ``released`` or ``failed``. This never reduces what is spent."""
        integer(at_least=1, receipt_id=receipt_id)
        one_of(("released", "failed"), status=status)
        with self._transaction("BEGIN IMMEDIATE") as connection:
            cursor = connection.execute("UPDATE releases SET status = ? WHERE id = ?", (status, int(receipt_id)))
            if cursor.rowcount != 1:
                raise LedgerError(f"ledger {self.path}: there is no release {receipt_id}")

    # -- what callers ask -----------------------------------------------------------------------------------------

    def total(self, name: str, unit: PrivacyUnit | str) -> Standing:
        """What the data set has spent at this unit: all its events composed at the budget's delta."""
        unit = PrivacyUnit.parse(unit)
        contents = self._contents()
        self._require_known(contents, name)
        return _standing(contents, name, unit, contents.budget(name, unit), _accountant())

    def datasets(self) -> tuple[Standing, ...]:
        """The standing of every (data set, unit) that has a release or a budget, by name."""
        contents = self._contents()
        accounts = {(r.dataset, r.unit) for r in contents.releases}
        accounts |= {(c.dataset, c.unit) for c in contents.changes if c.unit is not None}
        return tuple(
            _standing(contents, name, unit, contents.budget(name, unit), _accountant())
            for name, unit in sorted(accounts, key=lambda account: (account[0], account[1].value))
        )

    def releases(self, name: str | None = None) -> tuple[Release, ...]:
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
        for release in contents.of(name, unit):
            events += release.events
            # Composing every prefix again is slow; the recorded total is the answer unless delta has changed since.
            known = release.delta == delta
            totals[release.id] = release.epsilon_total if known else _epsilon(_accountant(), events, delta)
        return totals

    def check(self) -> tuple[str, ...]:
        """What is wrong with the records: one line per finding, empty if the chain is intact.

        Each row stores HMAC(key, previous row's hash, canonical JSON of the row); the number of rows and the last
        hash are sealed in the same way, so that rows missing at the end are found too. A release's status is not
        part of its hash.
        """
        with self._transaction("BEGIN") as connection:
            damage = tuple(str(row[0]) for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok")
            return damage + self._chain_problems(connection)

    # -- writing --------------------------------------------------------------------------------------------------

    def _append_release(
        self,
        name: str,
        unit: PrivacyUnit,
        events: Sequence[Event],
        *,
        description: str,
        fingerprint: str | None,
        replace_fingerprint: bool,
        certificate_id: str | None,
        already_made: bool,
    ) -> Receipt:
        _text(dataset=name)
        description = _text(description=" ".join(description.split()) if isinstance(description, str) else description)
        if certificate_id is not None:
            _text(certificate_id=certificate_id)
        encoded = _encode_events(events)
        new_events = _decode_events(encoded)  # what is judged is what is stored
        epsilon_of = _accountant()
        with self._transaction("BEGIN IMMEDIATE") as connection:
            contents = self._intact_contents(connection)
            self._require_new_certificate(contents, name, certificate_id)
            if fingerprint is not None:
                self._bind_fingerprint(connection, contents, name, fingerprint, replace_fingerprint)
            budget = contents.budget(name, unit)
            if budget is None and not already_made:
                _require_no_other_budget(contents, name, unit)
            delta = _delta(budget)
            total = _epsilon(epsilon_of, contents.events(name, unit) + new_events, delta)
            if budget is not None and not already_made and not _affordable(total, budget):
                before = _epsilon(epsilon_of, contents.events(name, unit), delta)
                raise BudgetExceeded(_refusal(name, budget, before, total, contents.events(name, unit) + new_events))
            time = self._now()
            row = {
                "time": _encode_time(time),
                "dataset": name,
                "unit": unit.value,
                "events": encoded,
                "description": description,
                "certificate_id": certificate_id,
                "delta": delta,
                "epsilon_total": total,
            }
            status = "released" if already_made else "spent"
            identity = self._append(connection, "releases", row, {"status": status})
        return Receipt(identity, time, name, unit, delta, total, _left(budget, total))

    def _bind_fingerprint(
        self, connection: sqlite3.Connection, contents: _Contents, name: str, fingerprint: str, replace: bool
    ) -> None:
        if not (isinstance(fingerprint, str) and re.fullmatch(r"[0-9a-f]{64}", fingerprint)):
            raise InputError(
                f"fingerprint must be 64 hexadecimal digits as Ledger.fingerprint gives, got {fingerprint!r}"
            )
        owner = contents.owner(fingerprint)
        if owner == name:
            return
        if owner is not None:
            raise LedgerError(
                f"data set {name!r}: the same content is known to this ledger as {owner!r}; use that name "
                "(a new name does not reset what has been spent)"
            )
        old = contents.fingerprint(name)
        if old is not None and not replace:
            raise LedgerError(
                f"data set {name!r}: the content under this name has changed since its last release; use a new name "
                "if it is about other people, or replace_fingerprint=True to declare that it is about the same "
                "people (what they have spent then stays spent)"
            )
        self._append_change(connection, name, "fingerprint", None, old, fingerprint)

    def _append_change(
        self,
        connection: sqlite3.Connection,
        name: str,
        field: str,
        unit: PrivacyUnit | None,
        old: Budget | str | None,
        new: Budget | str,
    ) -> None:
        row = {
            "time": _encode_time(self._now()),
            "dataset": name,
            "field": field,
            "unit": None if unit is None else unit.value,
            "old": None if old is None else _encode_value(old),
            "new": _encode_value(new),
        }
        self._append(connection, "changes", row, {})

    def _append(
        self, connection: sqlite3.Connection, chain: str, row: dict[str, Any], unchained: dict[str, Any]
    ) -> int:
        """Insert the row at the end of its chain and seal the new end; the id of the row."""
        (entries,) = connection.execute(f"SELECT count(*) FROM {chain}").fetchone()
        last = connection.execute(f"SELECT hash FROM {chain} ORDER BY id DESC LIMIT 1").fetchone()
        # Nothing is ever removed, so the ids are 1, 2, 3, ...
        identity = int(entries) + 1
        entry = self._entry_hash(chain, last[0] if last else "", {"id": identity, **row})
        columns = {"id": identity, **row, "hash": entry, **unchained}
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        connection.execute(f"INSERT INTO {chain} ({names}) VALUES ({marks})", tuple(columns.values()))
        connection.execute(
            "UPDATE heads SET entries = ?, hash = ? WHERE chain = ?",
            (identity, self._head_hash(chain, identity, entry), chain),
        )
        return identity

    def _now(self) -> datetime:
        time = self._clock()
        if time.tzinfo is None:
            raise InputError(f"clock must give times with a time zone, got {time!r}")
        return time.astimezone(UTC)

    # -- the chain ------------------------------------------------------------------------------------------------

    def _entry_hash(self, chain: str, previous: str, row: dict[str, Any]) -> str:
        return _mac(self._key, ["entry", chain, previous, row])

    def _head_hash(self, chain: str, entries: int, last: str) -> str:
        return _mac(self._key, ["head", chain, entries, last])

    def _chain_problems(self, connection: sqlite3.Connection) -> tuple[str, ...]:
        problems: list[str] = []
        for chain, fields in _CHAINS.items():
            previous, entries = "", 0
            query = f"SELECT {', '.join(fields)}, hash FROM {chain} ORDER BY id"
            for *values, stored in connection.execute(query):
                row = dict(zip(fields, values, strict=True))
                if not _same_hash(stored, self._entry_hash(chain, previous, row)):
                    problems.append(f"{chain}: entry {row['id']} was edited, or an entry before it was removed")
                previous, entries = str(stored), entries + 1
            head = connection.execute("SELECT entries, hash FROM heads WHERE chain = ?", (chain,)).fetchone()
            if head is None or not _same_hash(head[1], self._head_hash(chain, entries, previous)):
                count = "an unknown number of" if head is None else head[0]
                problems.append(f"{chain}: the end of the chain was edited ({entries} entries found, {count} recorded)")
        return tuple(problems)

    # -- reading --------------------------------------------------------------------------------------------------

    def _contents(self) -> _Contents:
        with self._transaction("BEGIN") as connection:
            return self._read(connection)

    def _intact_contents(self, connection: sqlite3.Connection) -> _Contents:
        """All records, for a decision that rests on them: a broken chain is an error."""
        problems = self._chain_problems(connection)
        if problems:
            raise LedgerError(
                f"ledger {self.path}: the chain of records is broken ({problems[0]}), so what was spent is not known; "
                "restore a copy, or start a new ledger and record the past releases in it"
            )
        return self._read(connection)

    def _read(self, connection: sqlite3.Connection) -> _Contents:
        releases = connection.execute(f"SELECT {', '.join(_RELEASE_FIELDS)}, status FROM releases ORDER BY id")
        changes = connection.execute(f"SELECT {', '.join(_CHANGE_FIELDS)} FROM changes ORDER BY id")
        try:
            return _Contents(tuple(map(_decode_release, releases)), tuple(map(_decode_change, changes)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LedgerError(f"ledger {self.path}: an entry cannot be read ({error})") from error

    def _require_known(self, contents: _Contents, name: str) -> None:
        names = contents.names()
        if name not in names:
            known = ", ".join(map(repr, names)) if names else "none"
            raise LedgerError(f"ledger {self.path}: there is no data set {name!r} (known: {known})")

    def _require_new_certificate(self, contents: _Contents, name: str, certificate_id: str | None) -> None:
        for release in contents.releases:
            if certificate_id is not None and (release.dataset, release.certificate_id) == (name, certificate_id):
                raise LedgerError(
                    f"data set {name!r}: certificate {certificate_id!r} is already recorded as release {release.id}; "
                    "it is not counted twice"
                )

    # -- the file -------------------------------------------------------------------------------------------------

    def _require_file(self, create: bool) -> None:
        if self.path.is_dir():
            raise LedgerError(f"ledger {self.path}: is a folder, must be a file")
        if not self.path.parent.is_dir():
            raise LedgerError(f"ledger {self.path}: its folder does not exist")
        if not os.path.lexists(self.path):
            if not create:
                raise LedgerError(f"ledger {self.path}: does not exist")
            self._create()
        # SQLite takes an empty file for an empty database. Filling it would turn a truncated ledger into a fresh one.
        if self.path.stat().st_size == 0:
            raise LedgerError(f"ledger {self.path}: is empty, not a ledger")

    def _create(self) -> None:
        """Make the ledger under another name and link it into place, so that nobody ever meets half of it."""
        draft = self.path.with_name(f".caribou-{secrets.token_hex(8)}.new")
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            self._key = secrets.token_bytes(_KEY_BYTES)
            with self._translated(), closing(self._connect(draft)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute("INSERT INTO secret (key) VALUES (?)", (self._key,))
                for chain in _CHAINS:
                    head = (chain, 0, self._head_hash(chain, 0, ""))
                    connection.execute("INSERT INTO heads (chain, entries, hash) VALUES (?, ?, ?)", head)
                connection.execute("COMMIT")
            self._publish(draft)
        finally:
            draft.unlink(missing_ok=True)

    def _publish(self, draft: Path) -> None:
        try:
            os.link(draft, self.path)
        except FileExistsError:
            return  # another process was first; its ledger is the ledger
        except OSError:
            # No hard links here (FAT, some network shares). The exclusive creation decides who is first; whoever
            # looks between the two calls meets an empty file, which is an error and not a fresh ledger.
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except FileExistsError:
                return
            os.replace(draft, self.path)

    def _connect(self, path: Path) -> sqlite3.Connection:
        # mode=rw: a ledger that has vanished is an error; it is never recreated empty behind the caller's back.
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=rw", uri=True, timeout=self._busy_timeout, isolation_level=None
        )
        connection.execute("PRAGMA synchronous = EXTRA")
        return connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        """One connection, one transaction. Leaving with an error closes the connection, and that rolls back."""
        with self._translated(), closing(self._connect(self.path)) as connection:
            self._require_ledger(connection)
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")

    def _require_ledger(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise LedgerError(f"ledger {self.path}: is a database but not a ledger")
        if version > SCHEMA_VERSION:
            raise LedgerError(
                f"ledger {self.path}: has schema version {version}, this version of caribou reads up to "
                f"{SCHEMA_VERSION}; update caribou"
            )
        if version < 1:
            raise LedgerError(f"ledger {self.path}: schema version must be at least 1, got {version}")
        # Journal mode WAL is stored in the file and might have been set by another tool; see the module docstring.
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode == "wal":
            connection.execute("PRAGMA journal_mode = DELETE")

    def _read_key(self, connection: sqlite3.Connection) -> bytes:
        keys = connection.execute("SELECT key FROM secret").fetchall()
        if len(keys) != 1 or not isinstance(keys[0][0], bytes) or len(keys[0][0]) != _KEY_BYTES:
            raise LedgerError(f"ledger {self.path}: is damaged (it must hold exactly one key)")
        return keys[0][0]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """SQLite's errors as `LedgerError`."""
        try:
            yield
        except sqlite3.Error as error:
            # The low byte is the primary code; the rest says more about the same thing.
            code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
            reasons = {
                sqlite3.SQLITE_BUSY: f"another process has held it for more than {self._busy_timeout:g} s",
                sqlite3.SQLITE_READONLY: "is read-only, nothing was recorded",
                sqlite3.SQLITE_FULL: "the disk is full, nothing was recorded",
                sqlite3.SQLITE_CANTOPEN: "cannot be opened",
                sqlite3.SQLITE_PERM: "cannot be opened (no permission)",
                sqlite3.SQLITE_NOTADB: "is not a ledger",
                sqlite3.SQLITE_CORRUPT: "is damaged; restore a copy",
                sqlite3.SQLITE_IOERR: "cannot be read or written (disk error)",
            }
            raise LedgerError(f"ledger {self.path}: {reasons.get(code, 'failed')} [{error}]") from error


@dataclass(frozen=True)
class _Contents:
    """All records at one moment. The state of a data set is derived from them, never stored beside them."""

    releases: tuple[Release, ...]
    changes: tuple[Change, ...]

    def names(self) -> list[str]:
        return sorted({r.dataset for r in self.releases} | {c.dataset for c in self.changes})

    def of(self, name: str, unit: PrivacyUnit) -> tuple[Release, ...]:
        return tuple(r for r in self.releases if r.dataset == name and r.unit is unit)

    def events(self, name: str, unit: PrivacyUnit) -> tuple[Event, ...]:
        return tuple(event for release in self.of(name, unit) for event in release.events)

    def budget(self, name: str, unit: PrivacyUnit) -> Budget | None:
        for change in reversed(self.changes):
            if change.dataset == name and change.unit is unit and isinstance(change.new, Budget):
                return change.new
        return None

    def fingerprint(self, name: str) -> str | None:
        for change in reversed(self.changes):
            if change.dataset == name and isinstance(change.new, str):
                return change.new
        return None

    def owner(self, fingerprint: str) -> str | None:
        """The data set that has, or ever had, this fingerprint: replaced content must not start afresh elsewhere."""
        return next((c.dataset for c in self.changes if c.new == fingerprint), None)


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


def _left(budget: Budget | None, spent: float) -> float | None:
    if budget is None:
        return None
    if not budget.is_private:
        return math.inf  # inf - inf is not a number: without a limit everything is left.
    left = budget.epsilon - spent
    return left if left > budget.epsilon * RESOLUTION else 0.0


def _standing(
    contents: _Contents, name: str, unit: PrivacyUnit, budget: Budget | None, epsilon_of: _Accountant
) -> Standing:
    delta = _delta(budget)
    spent = _epsilon(epsilon_of, contents.events(name, unit), delta)
    return Standing(name, unit, delta, len(contents.of(name, unit)), spent, budget)


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


# -- words and bytes ----------------------------------------------------------------------------------------------


def _text(**field: Any) -> str:
    """One line of printable text without outer spaces, so that what is shown is what is compared."""
    ((name, value),) = field.items()
    if not (isinstance(value, str) and value and value.isprintable() and value == value.strip() and len(value) <= 500):
        raise InputError(f"{name} must be 1 to 500 printable characters without outer spaces, got {value!r}")
    return value


def _mac(key: bytes, record: list[Any]) -> str:
    canonical = json.dumps(record, sort_keys=True, separators=(",", ":"), default=repr)
    return hmac.new(key, b"caribou ledger chain\0" + canonical.encode(), hashlib.sha256).hexdigest()


def _same_hash(stored: Any, computed: str) -> bool:
    return isinstance(stored, str) and hmac.compare_digest(stored.encode(), computed.encode())


def _plain(value: Any) -> int | float:
    """NumPy's numbers as Python's; the events accept both."""
    return int(value.__index__()) if hasattr(value, "__index__") else float(value)


def _encode_events(events: Sequence[Event]) -> str:
    return json.dumps([event_to_dict(event) for event in events], sort_keys=True, allow_nan=False, default=_plain)


def _decode_events(text: str) -> tuple[Event, ...]:
    return tuple(event_from_dict(record) for record in json.loads(text))


def _encode_time(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")


def _encode_value(value: Budget | str) -> str:
    if isinstance(value, Budget):
        # repr, because JSON has no infinity and an infinite budget is a legal one
        return json.dumps({"epsilon": repr(value.epsilon), "delta": repr(value.delta)})
    return json.dumps(value)


def _decode_value(text: str, unit: PrivacyUnit | None) -> Budget | str:
    value = json.loads(text)
    if unit is None:
        return str(value)
    return Budget(float(value["epsilon"]), float(value["delta"]), unit)


def _decode_release(row: tuple[Any, ...]) -> Release:
    identity, time, dataset, unit, events, description, certificate_id, delta, epsilon_total, status = row
    return Release(
        identity,
        datetime.fromisoformat(time),
        dataset,
        PrivacyUnit.parse(unit),
        _decode_events(events),
        description,
        certificate_id,
        float(delta),
        float(epsilon_total),
        status,
    )


def _decode_change(row: tuple[Any, ...]) -> Change:
    identity, time, dataset, field, word, old, new = row
    unit = None if word is None else PrivacyUnit.parse(word)
    return Change(
        identity,
        datetime.fromisoformat(time),
        dataset,
        field,
        unit,
        None if old is None else _decode_value(old, unit),
        _decode_value(new, unit),
    )
