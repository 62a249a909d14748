"""The file of the ledger: SQLite, durable, append-only, chained. `caribou.privacy.ledger` reads and judges what its records say.

The chain
    Each row stores a record as text and HMAC(key, previous row's hash, the text); the number of rows and the last hash are
    sealed in the same way, so that rows missing at the end are found too. A release's status is not part of its hash.
    The key lies in the same file, which has mode 0600.

One file
    A chain only grows. An open ledger remembers the end of the chain that it has seen, so an older copy that is put in the
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
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from caribou._validate import positive
from caribou.errors import LedgerError
from caribou.machine.files import publish

APPLICATION_ID = 0x43415242  # "CARB"; `file` and SQLite tools read it from the header
SCHEMA_VERSION = 3

_KEY_BYTES = hashlib.sha256().digest_size

# INSERT OR REPLACE removes rows without firing DELETE triggers, hence the trigger on INSERT.
_SCHEMA = (
    "CREATE TABLE secret (key BLOB NOT NULL)",
    """CREATE TABLE entries (
        id INTEGER PRIMARY KEY, record TEXT NOT NULL, hash TEXT NOT NULL,
        status TEXT CHECK (status IN ('spent', 'released', 'failed')))""",
    "CREATE TABLE head (entries INTEGER NOT NULL, hash TEXT NOT NULL)",
    """CREATE TRIGGER entries_update BEFORE UPDATE ON entries
        WHEN NEW.id IS NOT OLD.id OR NEW.record IS NOT OLD.record OR NEW.hash IS NOT OLD.hash
        BEGIN SELECT RAISE(ABORT, 'entries are append-only: only the status may change'); END""",
    """CREATE TRIGGER entries_delete BEFORE DELETE ON entries
        BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END""",
    """CREATE TRIGGER entries_replace BEFORE INSERT ON entries WHEN EXISTS (SELECT 1 FROM entries WHERE id = NEW.id)
        BEGIN SELECT RAISE(ABORT, 'entries are append-only: this entry exists'); END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


class End(NamedTuple):
    """The end of a chain: how many entries it has, and the hash of the last one."""

    entries: int
    hash: str


class LedgerFile:
    """One ledger on the disk. A missing file is made only here and only with ``create``; it is never made anew later.

    ``busy_timeout`` is how many seconds a transaction waits for another process. Errors of SQLite become `LedgerError`.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool, busy_timeout: float) -> None:
        self._seen = End(0, "")
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
        self._seen = transaction.end or self._seen

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
                connection.execute("INSERT INTO head (entries, hash) VALUES (0, ?)", (_seal(key, End(0, "")),))
                connection.execute("COMMIT")
            # Whoever looks while the file is put in its place may meet an empty one, which is an error and not a fresh ledger.
            with suppress(FileExistsError):  # another process was first; its ledger is the ledger
                publish(draft, self.path)
        finally:
            draft.unlink(missing_ok=True)

    def _connect(self, path: Path) -> sqlite3.Connection:
        # mode=rw: a ledger that has vanished is an error; it is never recreated empty behind the caller's back.
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=rw", uri=True, timeout=self._busy_timeout, isolation_level=None
        )
        # A damaged text is read, so that the chain finds it.
        connection.text_factory = lambda raw: raw.decode(errors="replace")
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
        """SQLite's errors as `LedgerError`. Its words about a damaged file need not be text."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
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
    """The entries of a ledger, as `LedgerFile.transaction` opens them. Numbers of entries begin with 1."""

    def __init__(self, connection: sqlite3.Connection, path: Path, key: bytes, seen: End) -> None:
        self._connection = connection
        self._path = path
        self._key = key
        self._seen = seen
        self.end: End | None = None
        """Of the chain, once it was found intact."""

    def rows(self) -> list[tuple[str, str | None]]:
        """Record and status of every entry, in the order in which they were recorded."""
        return self._connection.execute("SELECT record, status FROM entries ORDER BY id").fetchall()

    def require_intact(self) -> End:
        """The end of the chain, for a decision that rests on it: a broken chain is an error."""
        problems = self.problems()
        if problems or self.end is None:
            raise LedgerError(
                f"ledger {self._path}: the chain of records is broken ({problems[0]}), so what was spent is not known; "
                "restore a copy, or start a new ledger and record the past releases in it"
            )
        return self.end

    def damage(self) -> tuple[str, ...]:
        """What SQLite finds wrong with the file itself: one line per finding."""
        return tuple(str(row[0]) for row in self._connection.execute("PRAGMA integrity_check") if row[0] != "ok")

    def problems(self) -> tuple[str, ...]:
        """What was edited or removed, by the chain, and what the file has or lacks beside it: one line per finding."""
        found = self._foreign()
        previous, number = "", 0
        for place, record, stored in self._connection.execute("SELECT id, record, hash FROM entries ORDER BY id"):
            number += 1
            if place != number or not _same_hash(stored, _entry_hash(self._key, previous, str(record))):
                found.append(f"entry {number} was edited, or an entry before it was removed")
            previous = str(stored)
            if number == self._seen.entries and previous != self._seen.hash:
                found.append(f"entry {number} is not the one that was there before")
        if number < self._seen.entries:
            found.append(f"an older copy was put in its place ({number} of {self._seen.entries} entries found)")
        heads, end = self._connection.execute("SELECT entries, hash FROM head").fetchall(), End(number, previous)
        if len(heads) != 1 or not _same_hash(heads[0][1], _seal(self._key, end)):
            count = heads[0][0] if len(heads) == 1 else "an unknown number of"
            found.append(f"the end of the chain was edited ({number} entries found, {count} recorded)")
        self.end = None if found else end
        return tuple(found)

    def _foreign(self) -> list[str]:
        """Tables and triggers that a ledger does not have, or has and they are gone: a planted one may swallow an entry."""
        true, stands = _schema(), _objects(self._connection)
        return [f"{kind} {name} was added, removed or changed" for kind, name, _ in sorted(true ^ stands, key=repr)]

    def append(self, record: str, status: str | None) -> int:
        """Write a record at the end of the chain, seal the new end, and read both back; the number of the entry."""
        end = self.end or self.require_intact()
        new = End(end.entries + 1, _entry_hash(self._key, end.hash, record))
        row, head = (new.entries, record, new.hash, status), (new.entries, _seal(self._key, new))
        self._connection.execute("INSERT INTO entries (id, record, hash, status) VALUES (?, ?, ?, ?)", row)
        self._connection.execute("UPDATE head SET entries = ?, hash = ?", head)
        written = self._connection.execute("SELECT * FROM entries WHERE id = ?", (new.entries,)).fetchall()
        if written != [row] or self._connection.execute("SELECT * FROM head").fetchall() != [head]:
            raise LedgerError(f"ledger {self._path}: the entry cannot be read back, so nothing was recorded")
        self.end = new
        return new.entries

    def set_status(self, entry: int, status: str) -> None:
        """Replace the status of an entry, the one thing about it that may change."""
        self._connection.execute("UPDATE entries SET status = ? WHERE id = ?", (status, entry))


def _objects(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    return set(connection.execute("SELECT type, name, sql FROM sqlite_master"))


@cache
def _schema() -> set[tuple[str, str, str]]:
    """What SQLite says of a file with this schema and nothing else."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in _SCHEMA:
            connection.execute(statement)
        return _objects(connection)


def _mac(key: bytes, *parts: str) -> str:
    """Each part after its length, so that no part can be moved into its neighbour."""
    coded = [part.encode() for part in parts]
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in coded)
    return hmac.new(key, b"caribou ledger chain\0" + framed, hashlib.sha256).hexdigest()


def _entry_hash(key: bytes, previous: str, record: str) -> str:
    return _mac(key, "entry", previous, record)


def _seal(key: bytes, end: End) -> str:
    return _mac(key, "head", str(end.entries), end.hash)


def _same_hash(stored: Any, computed: str) -> bool:
    return isinstance(stored, str) and hmac.compare_digest(stored.encode(), computed.encode())
