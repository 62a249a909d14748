"""The file of the ledger: SQLite, durable, append-only, chained. What is in it is judged in `caribou.privacy.ledger`.

The chain
    Each row stores HMAC(key, previous row's hash, canonical JSON of the row); the number of rows and the last hash are
    sealed in the same way, so that rows missing at the end are found too. A release's status is not part of its hash.
    The key lies in the same file, which has mode 0600.

One file
    A chain only grows. An open ledger remembers the ends of the chains that it has seen, so an older copy that is put in the
    place of the file while it is open is found. A file that was exchanged while it was written is an error: the entry went into
    a file that nobody will open again.

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
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from caribou._validate import positive
from caribou.errors import LedgerError
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.events import Event, event_from_dict, event_to_dict
from caribou.privacy.periods import Period

APPLICATION_ID = 0x43415242  # "CARB"; `file` and SQLite tools read it from the header
SCHEMA_VERSION = 2

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
_OPTIONAL_FIELDS = {"releases": ("extends", "purpose", "person", "period"), "changes": ("person", "reason")}
"""Fields that may be empty. An empty one is not part of the hash of its row."""
_CHAINS = {
    "releases": (*_RELEASE_FIELDS, *_OPTIONAL_FIELDS["releases"]),
    "changes": (*_CHANGE_FIELDS, *_OPTIONAL_FIELDS["changes"]),
}

# INSERT OR REPLACE removes rows without firing DELETE triggers, hence the triggers on INSERT.
_SCHEMA = (
    "CREATE TABLE secret (key BLOB NOT NULL)",
    """CREATE TABLE releases (
        id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, dataset TEXT NOT NULL, unit TEXT NOT NULL,
        events TEXT NOT NULL, description TEXT NOT NULL, certificate_id TEXT, delta REAL NOT NULL,
        epsilon_total REAL NOT NULL, extends TEXT, purpose TEXT, person TEXT, period TEXT, hash TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('spent', 'released', 'failed')),
        UNIQUE (dataset, certificate_id))""",
    """CREATE TABLE changes (
        id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, dataset TEXT NOT NULL, field TEXT NOT NULL,
        unit TEXT, old TEXT, new TEXT NOT NULL, person TEXT, reason TEXT, hash TEXT NOT NULL)""",
    "CREATE TABLE heads (chain TEXT PRIMARY KEY, entries INTEGER NOT NULL, hash TEXT NOT NULL)",
    f"""CREATE TRIGGER releases_update BEFORE UPDATE OF {", ".join(_CHAINS["releases"])}, hash ON releases
        BEGIN SELECT RAISE(ABORT, 'releases are append-only: only the status may change'); END""",
    """CREATE TRIGGER releases_move BEFORE UPDATE ON releases WHEN NEW.id IS NOT OLD.id
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
class LedgerEntry:
    """One recorded release: ``id``, ``time``, ``dataset`` and ``unit``, its ``events``, a ``description``, and the
    ``certificate_id`` if it has a certificate. ``epsilon_total`` is the total after it, at ``delta``, both as they were when
    recorded.

    ``status`` is ``spent`` (nothing more is known), ``released`` or ``failed``; all three count in full. ``extends``: the
    certificate of the batch just before, of a release that asks pairs of arrivals alone and costs nothing more. ``purpose``,
    ``person`` and ``period`` are the owner's words: what for, who, and about which time.

    >>> when = datetime(2026, 1, 31)
    >>> LedgerEntry(1, when, "survey", PrivacyUnit.EDGE, (), "model", None, 1e-5, epsilon_total=4.0, status="spent").dataset
    'survey'
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
    extends: str | None = None
    purpose: str | None = None
    person: str | None = None
    period: str | None = None


@dataclass(frozen=True)
class Change:
    """One entry of a data set's history: its ``budget`` at a unit, or its ``fingerprint``, was set or replaced.

    ``per``: how often the new budget begins anew; None: never. ``person`` and ``reason``: who replaced a fingerprint, and why.
    """

    id: int
    time: datetime
    dataset: str
    field: str
    unit: PrivacyUnit | None
    old: Budget | str | None
    new: Budget | str
    per: Period | None = None
    person: str | None = None
    reason: str | None = None


class LedgerFile:
    """One ledger on the disk. A missing file is made only here and only with ``create``; it is never made anew later.

    ``busy_timeout`` is how many seconds a transaction waits for another process. Errors of SQLite become `LedgerError`.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool, busy_timeout: float) -> None:
        self._seen: dict[str, tuple[int, str]] = {}
        # Absolute, because a later change of the working folder must not lead to another ledger.
        self.path = Path(os.path.abspath(path))
        self._busy_timeout = positive(busy_timeout=busy_timeout)
        try:
            self._require_file(create)
        except OSError as error:
            raise LedgerError(f"ledger {self.path}: {error.strerror or error}") from error
        with self._begun("BEGIN") as connection:
            self.key = self._read_key(connection)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Transaction]:
        """All entries at one moment; with ``write`` no other process writes meanwhile.

        What is written is on disk when the block is left, and nothing of it when it is left with an error.
        """
        opened = self._identity() if write else None
        with self._begun("BEGIN IMMEDIATE" if write else "BEGIN") as connection:
            transaction = Transaction(connection, self.path, self.key, self._seen)
            yield transaction
        if write and self._identity() != opened:
            raise LedgerError(
                f"ledger {self.path}: was replaced while it was written, so the entry is lost; nothing may be released"
            )
        self._seen.update(transaction.ends)

    def _identity(self) -> tuple[int, int] | None:
        """Which file lies at the path."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @contextmanager
    def _begun(self, begin: str) -> Iterator[sqlite3.Connection]:
        """One connection, one transaction. Leaving with an error closes the connection, and that rolls back."""
        with self._translated(), closing(self._connect(self.path)) as connection:
            self._require_ledger(connection)
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")

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
            key = secrets.token_bytes(_KEY_BYTES)
            with self._translated(), closing(self._connect(draft)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute("INSERT INTO secret (key) VALUES (?)", (key,))
                for chain in _CHAINS:
                    head = (chain, 0, _head_hash(key, chain, 0, ""))
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

    def _require_ledger(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise LedgerError(f"ledger {self.path}: is a database but not a ledger")
        if version != SCHEMA_VERSION:
            hint = "; update caribou" if version > SCHEMA_VERSION else ""
            raise LedgerError(f"ledger {self.path}: schema version must be {SCHEMA_VERSION}, got {version}{hint}")
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


class Transaction:
    """The entries of a ledger, as `LedgerFile.transaction` opens them."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, key: bytes, seen: Mapping[str, tuple[int, str]]
    ) -> None:
        self._connection = connection
        self._path = path
        self._key = key
        self._seen = seen
        self.ends: dict[str, tuple[int, str]] = {}
        """Of each chain that was found intact: how many entries it has, and the hash of the last one."""

    def read(self) -> tuple[tuple[LedgerEntry, ...], tuple[Change, ...]]:
        """All entries, in the order in which they were recorded."""
        releases = self._rows("releases", "status")
        changes = self._rows("changes")
        try:
            return tuple(map(_decode_release, releases)), tuple(map(_decode_change, changes))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LedgerError(f"ledger {self._path}: an entry cannot be read ({error})") from error

    def _rows(self, chain: str, *further: str) -> sqlite3.Cursor:
        """The fields of a chain, and further ones, in the order in which they were recorded."""
        fields = ", ".join((*_CHAINS[chain], *further))
        return self._connection.execute(f"SELECT {fields} FROM {chain} ORDER BY id")

    def read_intact(self) -> tuple[tuple[LedgerEntry, ...], tuple[Change, ...]]:
        """All entries, for a decision that rests on them: a broken chain is an error."""
        problems = self.chain_problems()
        if problems:
            raise LedgerError(
                f"ledger {self._path}: the chain of records is broken ({problems[0]}), so what was spent is not known; "
                "restore a copy, or start a new ledger and record the past releases in it"
            )
        return self.read()

    def damage(self) -> tuple[str, ...]:
        """What SQLite finds wrong with the file itself: one line per finding."""
        return tuple(str(row[0]) for row in self._connection.execute("PRAGMA integrity_check") if row[0] != "ok")

    def chain_problems(self) -> tuple[str, ...]:
        """What the chains say was edited or removed: one line per finding."""
        problems: list[str] = []
        ends: dict[str, tuple[int, str]] = {}
        for chain, fields in _CHAINS.items():
            previous, entries = "", 0
            seen_entries, seen_hash = self._seen.get(chain, (0, ""))
            for *values, stored in self._rows(chain, "hash"):
                row = dict(zip(fields, values, strict=True))
                if not _same_hash(stored, _entry_hash(self._key, chain, previous, row)):
                    problems.append(f"{chain}: entry {row['id']} was edited, or an entry before it was removed")
                previous, entries = str(stored), entries + 1
                if entries == seen_entries and previous != seen_hash:
                    problems.append(f"{chain}: entry {row['id']} is not the one that was there before")
            if entries < seen_entries:
                problems.append(
                    f"{chain}: an older copy was put in its place ({entries} of {seen_entries} entries found)"
                )
            ends[chain] = (entries, previous)
            head = self._connection.execute("SELECT entries, hash FROM heads WHERE chain = ?", (chain,)).fetchone()
            if head is None or not _same_hash(head[1], _head_hash(self._key, chain, entries, previous)):
                count = "an unknown number of" if head is None else head[0]
                problems.append(f"{chain}: the end of the chain was edited ({entries} entries found, {count} recorded)")
        if not problems:
            self.ends.update(ends)
        return tuple(problems)

    def append_release(self, entry: LedgerEntry) -> int:
        """Record a release; its id, whatever the entry says."""
        row = {field: getattr(entry, field) for field in _CHAINS["releases"] if field != "id"}
        encoded = {"time": _encode_time(entry.time), "unit": entry.unit.value, "events": encode_events(entry.events)}
        return self._append("releases", row | encoded, {"status": entry.status})

    def append_change(
        self,
        time: datetime,
        dataset: str,
        field: str,
        unit: PrivacyUnit | None,
        *,
        old: Budget | str | None,
        new: Budget | str,
        per: Period | None = None,
        person: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Record that a field of a data set was set or replaced; the id of the entry."""
        row = {
            "time": _encode_time(time),
            "dataset": dataset,
            "field": field,
            "unit": None if unit is None else unit.value,
            "old": None if old is None else _encode_value(old),
            "new": _encode_value(new, per),
            "person": person,
            "reason": reason,
        }
        return self._append("changes", row, {})

    def set_status(self, release: int, status: str) -> None:
        """Replace the status of a release, the one thing about it that may change."""
        cursor = self._connection.execute("UPDATE releases SET status = ? WHERE id = ?", (status, release))
        if cursor.rowcount != 1:
            raise LedgerError(f"ledger {self._path}: there is no release {release}")

    def _append(self, chain: str, row: dict[str, Any], unchained: dict[str, Any]) -> int:
        """Insert the row at the end of its chain and seal the new end; the id of the row."""
        (entries,) = self._connection.execute(f"SELECT count(*) FROM {chain}").fetchone()
        last = self._connection.execute(f"SELECT hash FROM {chain} ORDER BY id DESC LIMIT 1").fetchone()
        # Nothing is ever removed, so the ids are 1, 2, 3, ...
        identity = int(entries) + 1
        entry = _entry_hash(self._key, chain, last[0] if last else "", {"id": identity, **row})
        columns = {"id": identity, **row, "hash": entry, **unchained}
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        self._connection.execute(f"INSERT INTO {chain} ({names}) VALUES ({marks})", tuple(columns.values()))
        self._connection.execute(
            "UPDATE heads SET entries = ?, hash = ? WHERE chain = ?",
            (identity, _head_hash(self._key, chain, identity, entry), chain),
        )
        self.ends[chain] = (identity, entry)
        return identity


# -- rows and bytes -----------------------------------------------------------------------------------------------


def _mac(key: bytes, record: list[Any]) -> str:
    canonical = json.dumps(record, sort_keys=True, separators=(",", ":"), default=repr)
    return hmac.new(key, b"caribou ledger chain\0" + canonical.encode(), hashlib.sha256).hexdigest()


def _entry_hash(key: bytes, chain: str, previous: str, row: dict[str, Any]) -> str:
    filled = {name: value for name, value in row.items() if value is not None or name not in _OPTIONAL_FIELDS[chain]}
    return _mac(key, ["entry", chain, previous, filled])


def _head_hash(key: bytes, chain: str, entries: int, last: str) -> str:
    return _mac(key, ["head", chain, entries, last])


def _same_hash(stored: Any, computed: str) -> bool:
    return isinstance(stored, str) and hmac.compare_digest(stored.encode(), computed.encode())


def _plain(value: Any) -> int | float:
    """NumPy's numbers as Python's; the events accept both."""
    return int(value.__index__()) if hasattr(value, "__index__") else float(value)


def encode_events(events: Sequence[Event]) -> str:
    return json.dumps([event_to_dict(event) for event in events], sort_keys=True, allow_nan=False, default=_plain)


def decode_events(text: str) -> tuple[Event, ...]:
    return tuple(event_from_dict(record) for record in json.loads(text))


def _encode_time(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")


def _encode_value(value: Budget | str, per: Period | None = None) -> str:
    if isinstance(value, Budget):
        # repr, because JSON has no infinity and an infinite budget is a legal one
        numbers = {"epsilon": repr(value.epsilon), "delta": repr(value.delta)}
        return json.dumps(numbers if per is None else {**numbers, "per": per.value})
    return json.dumps(value)


def _decode_value(text: str, unit: PrivacyUnit | None) -> Budget | str:
    value = json.loads(text)
    if unit is None:
        return str(value)
    return Budget(float(value["epsilon"]), float(value["delta"]), unit)


def _decode_release(row: tuple[Any, ...]) -> LedgerEntry:
    identity, time, dataset, unit, events, description, certificate_id, delta, epsilon_total, *words, status = row
    return LedgerEntry(
        identity,
        datetime.fromisoformat(time),
        dataset,
        PrivacyUnit.parse(unit),
        decode_events(events),
        description,
        certificate_id,
        float(delta),
        float(epsilon_total),
        status,
        *words,
    )


def _decode_change(row: tuple[Any, ...]) -> Change:
    identity, time, dataset, field, word, old, new, person, reason = row
    unit = None if word is None else PrivacyUnit.parse(word)
    return Change(
        identity,
        datetime.fromisoformat(time),
        dataset,
        field,
        unit,
        None if old is None else _decode_value(old, unit),
        _decode_value(new, unit),
        None if unit is None else _decode_per(new),
        person,
        reason,
    )


def _decode_per(text: str) -> Period | None:
    word = json.loads(text).get("per")
    return None if word is None else Period.parse(word)
