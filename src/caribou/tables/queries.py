"""An edge table and a node table as queries: DuckDB (its own files, Parquet, CSV), SQLite or PostgreSQL.

A query is one SELECT in the dialect of its database, and cannot write:

1. It stands inside a SELECT of ours, and the database itself says that this is one statement.
2. DuckDB opens its file read-only. Of other files it sees those that the query names, none if it has a database. Extensions are
   neither fetched nor loaded, and no setting can be changed.
3. SQLite opens its file read-only, and refuses every action but reading.
4. PostgreSQL reads in a read-only transaction that is rolled back, and gives up after an hour. Its own functions that change
   something all the same (large objects, settings, other connections) are refused by name.

A password is used to connect and stands nowhere else: in no name, message, run or ledger.
"""

from __future__ import annotations

import glob
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from caribou.errors import DataError, InputError
from caribou.machine.files import private_folder
from caribou.tables.sources import Piece, Table, arrow_cells

_SERVERS = ("postgresql", "postgres")
_EXTRA = "pip install 'caribou-gnn[sql]'"
_SQLITE, _DUCKDB = b"SQLite format 3\x00", b"DUCK"
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
_DUCKDB_OFF = ("autoinstall_known_extensions", "autoload_known_extensions", "python_enable_replacements")
_TIMEOUT = "1h"
_VOLATILE = """SELECT proname FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
    WHERE provolatile = 'v' AND lanname IN ('internal', 'c') AND proname = ANY(%s)"""
"""The functions of PostgreSQL and of its extensions, among some words, that may change something."""
_HARMLESS = {"random", "random_normal", "gen_random_uuid", "clock_timestamp", "timeofday", "system", "bernoulli"}


@dataclass(frozen=True, eq=False)
class Query(Table):
    """The rows of a query, read in pieces and never held whole.

    ``word``: edges or nodes, for messages. ``database``: a file of DuckDB or SQLite, or ``postgresql://...``; None: DuckDB on
    files that the query names. ``memory``: bytes that DuckDB may use; it spills to a private folder that is removed.
    Two readings may give rows in two orders, unless the query says ORDER BY.
    """

    text: str
    database: str | None
    word: str
    memory: int | None = None
    name: str = field(init=False)
    is_stable = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.word} query")
        if not self.text.strip():
            raise InputError(f'{self._flag[2:]} must be a query, got an empty one ({self._flag} "SELECT ...")')

    @property
    def graph_name(self) -> str:
        """Of the graph, if nobody gives one: that of the database."""
        return database_name(self.database)

    def stamp(self) -> list[Any]:
        """The text, and the database by size and time of change. What other files a text names is not known."""
        found: list[Any] = [self.name, self.text, shown_database(self.database)]
        if self.database is not None and not _is_server(self.database):
            try:
                status = os.stat(self.database)
            except OSError as error:
                raise _no_database(self.database, error) from None
            found += [status.st_size, status.st_mtime_ns]
        return found

    def count(self) -> int:
        """As the database counts."""
        return int(next(self._batches("count(*)", 1)).column(0)[0].as_py())

    def pieces(self, size: int, titles: Sequence[str]) -> Iterator[Piece]:
        """As the database gives them."""
        first = 0
        for batch in self._batches(", ".join('"' + title.replace('"', '""') + '"' for title in titles), size):
            yield Piece(self.name, first, batch)
            first += len(batch)

    def _titles(self) -> list[str]:
        # a piece without rows still has its titles
        return list(next(self._batches("*", 1, " LIMIT 0")).schema.names)

    @property
    def _flag(self) -> str:
        return f"--sql-{self.word}"

    def _batches(self, columns: str, size: int, end: str = "") -> Iterator[Any]:
        """Record batches of at most ``size`` rows of a SELECT from the query; at least one, which may be empty."""
        text = self.text.strip().rstrip(";")
        run = self._rows_of()
        return run(f"SELECT {columns} FROM (\n{text}\n) AS rows_of_query{end}", size)

    def _rows_of(self) -> Callable[[str, int], Iterator[Any]]:
        """What runs a statement on the database."""
        if self.database is None:
            return self._of_duckdb
        if _is_server(self.database):
            return self._of_server
        try:
            with open(self.database, "rb") as opened:
                head = opened.read(16)
        except OSError as error:
            raise _no_database(self.database, error) from None
        if head == _SQLITE:
            return self._of_sqlite
        if head[8:12] == _DUCKDB:
            return self._of_duckdb
        raise DataError(f"db must be a database of DuckDB or SQLite, or postgresql://..., got {self.database!r} (--db)")

    def _of_duckdb(self, statement: str, size: int) -> Iterator[Any]:
        try:
            import duckdb
        except ImportError:
            raise InputError(f"db needs DuckDB, got an installation without it: {_EXTRA}") from None
        # an extension is never fetched: the machine of a bank has no way out, and private data must have none
        config: dict[str, Any] = dict.fromkeys(_DUCKDB_OFF, "false")
        if self.memory is not None:
            config["memory_limit"] = f"{self.memory}B"
        with self._answering(duckdb.Error), private_folder() as spill:
            config["temp_directory"] = str(spill)
            file, read_only = self.database or ":memory:", self.database is not None
            with duckdb.connect(file, read_only=read_only, config=config) as connection:
                kinds = [one.type for one in connection.extract_statements(statement)]
                if kinds != [duckdb.StatementType.SELECT]:
                    raise InputError(f'{self._flag[2:]} must be one SELECT, got more ({self._flag} "SELECT ...")')
                connection.execute("SET allowed_paths = ?", [[] if read_only else _files(self.text)])
                connection.execute("SET enable_external_access = false")
                connection.execute("SET lock_configuration = true")
                reader = connection.sql(statement).to_arrow_reader(size)
                yield from _at_least_one(reader, reader.schema)

    def _of_sqlite(self, statement: str, size: int) -> Iterator[Any]:
        def guard(action: int, _: Any, function: str | None, *__: Any) -> int:
            allowed = action in _READING and function not in ("load_extension", "fts3_tokenizer")
            return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

        with self._answering(sqlite3.Error, sqlite3.Warning):
            connection = sqlite3.connect(f"file:{quote(str(Path(str(self.database)).absolute()))}?mode=ro", uri=True)
            try:
                connection.set_authorizer(guard)
                yield from self._fetched(connection.execute(statement), size)
            finally:
                connection.close()

    def _of_server(self, statement: str, size: int) -> Iterator[Any]:
        address = str(self.database)
        scheme = address.partition("://")[0]
        if scheme not in _SERVERS:
            raise InputError(f"db must begin with postgresql://, got {scheme}:// (--db)")
        if _split(address) is None:
            raise InputError(
                "db must be postgresql://USER:PASSWORD@HOST:PORT/NAME, got another form: write @, / and : in a password as %40, "
                "%2F and %3A, or leave the password to PGPASSWORD or ~/.pgpass (--db)"
            )
        try:
            import psycopg
        except ImportError:
            raise InputError(f"db needs psycopg for PostgreSQL, got an installation without it: {_EXTRA}") from None
        with self._answering(psycopg.Error), psycopg.connect(address, connect_timeout=10) as connection:
            connection.execute(f"SET statement_timeout = '{_TIMEOUT}'")
            connection.commit()
            connection.read_only = True
            named = set(re.findall(r"\w+", self.text.lower())) - _HARMLESS
            found = connection.execute(_VOLATILE, [list(named)]).fetchone()
            if found or re.search(r'u&"', self.text.lower()):  # a name that is spelled in escapes
                word = found[0] if found else 'U&"'
                raise InputError(
                    f'{self._flag[2:]} must call no function that may change something, got {word!r} ({self._flag} "SELECT ...")'
                )
            # what is prepared is one statement: a second one could end the transaction and write
            connection.execute(
                f"SELECT FROM (\n{self.text.strip().rstrip(';')}\n) AS rows_of_query LIMIT 0", prepare=True
            )
            cursor = connection.cursor(name="rows_of_query")  # on the server: rows come in pieces
            yield from self._fetched(cursor.execute(statement), size)
            connection.rollback()

    def _fetched(self, cursor: Any, size: int) -> Iterator[Any]:
        """The rows of a cursor of Python's own interface."""
        import pyarrow as pa

        titles = [str(entry[0]) for entry in cursor.description]

        def batches() -> Iterator[Any]:
            while rows := cursor.fetchmany(size):
                cells = zip(*rows, strict=True)
                columns = [arrow_cells(list(column), t, self.name) for column, t in zip(cells, titles, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, titles)

        yield from _at_least_one(batches(), pa.schema([(title, pa.null()) for title in titles]))

    @contextmanager
    def _answering(self, *errors: type[Exception]) -> Iterator[None]:
        """The database's own words become ours: in one line, without a secret."""
        try:
            yield
        except errors as error:
            message = _without_secrets(" ".join(str(error).split()), _secrets(self.database))
            raise DataError(
                f"{self._flag[2:]} must be a query that the database can answer, got {type(error).__name__}: {message[:300]} "
                f"({self._flag})"
            ) from None


def _at_least_one(batches: Iterable[Any], schema: Any) -> Iterator[Any]:
    import pyarrow as pa

    any_rows = False
    for batch in batches:
        any_rows = True
        yield batch
    if not any_rows:
        yield pa.RecordBatch.from_arrays([pa.array([], type=field.type) for field in schema], schema=schema)


def _files(text: str) -> list[str]:
    """The files that a query names between quotes, and the patterns that name several. Their neighbours are not read."""
    named = [word.replace("''", "'") for word in re.findall(r"'((?:[^']|'')*)'", text)]
    files = {word: list(filter(os.path.isfile, glob.iglob(word, recursive=True))) for word in named}
    return sorted({os.path.abspath(path) for word, found in files.items() if found for path in (word, *found)})


def shown_database(database: str | None) -> str:
    """The database in words that may be printed: a server without user and password.

    >>> shown_database("postgresql://ann:secret@db.bank:5432/fraud?sslmode=require")
    'postgresql://db.bank:5432/fraud'
    """
    if database is None:
        return "DuckDB"
    if not _is_server(database):
        return database
    parts = _split(database)
    if parts is None:
        return "postgresql://..."
    port = "" if parts.port is None else f":{parts.port}"
    return f"postgresql://{parts.hostname or ''}{port}{parts.path}"


def database_name(database: str | None) -> str:
    """The name of a graph that comes from a database."""
    if database is None:
        return "queries"
    if not _is_server(database):
        return Path(database).stem or "queries"
    parts = _split(database)
    return (parts.path.strip("/") if parts is not None else "") or "queries"


def _is_server(database: str) -> bool:
    return "://" in database


def _split(database: str) -> SplitResult | None:
    """The parts of an address; None if it is not one, or if a part of the password could be taken for something else."""
    try:
        parts = urlsplit(database)
        _ = parts.port
    except ValueError:
        return None
    rest = database.partition("://")[2]
    ambiguous = rest.count("@") > 1 or "@" in parts.path or "@" in parts.query or "@" in parts.fragment
    return None if ambiguous else parts


def _no_database(database: str, error: OSError) -> DataError:
    return DataError(f"db must be a file that can be read, got {database!r}: {error.strerror} (--db)")


def _secrets(database: str | None) -> list[str]:
    """What must not be shown of an address: the password, as it is written and as it is meant."""
    parts = None if database is None else _split(database)
    found = [] if parts is None or parts.password is None else [parts.password, unquote(parts.password)]
    if parts is not None:
        found += [value for key, value in parse_qsl(parts.query) if "password" in key.lower()]
    found.append(os.environ.get("PGPASSWORD", ""))
    return [secret for secret in found if secret]


def _without_secrets(message: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        message = message.replace(secret, "***")
    message = re.sub(r"(?i)(pass(word|wd)?\s*=\s*)('[^']*'|\S+)", r"\1***", message)
    return re.sub(r"://[^/\s@]*@", "://***@", message)
