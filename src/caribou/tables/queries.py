"""An edge table and a node table as queries: DuckDB (its own files, Parquet, CSV), SQLite or PostgreSQL.

A query is read in the dialect of its database and cannot write: files are opened read-only, and PostgreSQL runs it in a read-only
transaction. Nothing is downloaded. A password is used to connect and stands nowhere else: in no name, message, run or ledger.
"""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from caribou.errors import DataError, InputError
from caribou.graph.classes import Classes
from caribou.privacy.budget import PrivacyUnit
from caribou.tables.read import FrameTable, Reading, Titles, read_frames
from caribou.tables.rules import ColumnRules

_SERVERS = ("postgresql", "postgres")
_EXTRA = "pip install 'caribou-gnn[sql]'"
_SQLITE, _DUCKDB = b"SQLite format 3\x00", b"DUCK"


def read_queries(
    edges: str,
    nodes: str,
    database: str | None,
    titles: Titles,
    name: str | None = None,
    classes: Classes | None = None,
    rules: ColumnRules | None = None,
    unit: PrivacyUnit | None = None,
) -> Reading:
    """Read a graph from two queries.

    Args:
        edges, nodes: the queries; rows in any order.
        database: a file of DuckDB or SQLite, or ``postgresql://...``; None: DuckDB on files that the queries name.
        titles: of the columns that are not features.
        name: of the graph (default: that of the database).
        classes, rules, unit: as in `caribou.read_graph`.

    Returns:
        All findings, and the graph if there is no problem.
    """
    tables = [
        FrameTable(f"{word} query", _rows(database, query, f"--sql-{word}"))
        for word, query in (("edges", edges), ("nodes", nodes))
    ]
    return read_frames(tables[0], tables[1], titles, name or _name(database), classes, rules, unit)


@dataclass(frozen=True)
class StreamedQuery:
    """A query whose rows are read in pieces and never held whole: of DuckDB or SQLite.

    ``word``: edges or nodes, for messages. ``memory``: bytes that DuckDB may use; it spills to a private folder that is removed.
    Two readings may give rows in two orders, unless the query says ORDER BY.
    """

    text: str
    database: str | None
    word: str
    memory: int | None = None

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise _empty_query(self._flag)

    def __str__(self) -> str:
        return f"{self.word} query"

    @property
    def _flag(self) -> str:
        return f"--sql-{self.word}"

    @property
    def name(self) -> str:
        """Of the graph: that of the database."""
        return _name(self.database)

    def stamp(self) -> list[Any]:
        """The text, and the database by size and time of change. What other files a text names is not known."""
        found: list[Any] = [str(self), self.text, shown_database(self.database)]
        if self.database is not None and not _is_server(self.database):
            try:
                status = os.stat(self.database)
            except OSError as error:
                raise _no_database(self.database, error) from None
            found += [status.st_size, status.st_mtime_ns]
        return found

    def count(self) -> int:
        """How many rows it has."""
        (batch,) = self._batches(f"SELECT count(*) AS n FROM (\n{self._inner}\n) AS rows_of_query", 1)
        return int(batch.column(0)[0].as_py())

    def titles(self) -> list[str]:
        """Titles of its columns."""
        # a piece without rows still has its titles
        return list(next(self._batches(f"SELECT * FROM (\n{self._inner}\n) AS rows_of_query LIMIT 0", 1)).schema.names)

    def batches(self, size: int, titles: Iterable[str]) -> Iterator[Any]:
        """Some columns, in record batches of at most ``size`` rows."""
        quoted = ", ".join('"' + title.replace('"', '""') + '"' for title in titles)
        return self._batches(f"SELECT {quoted} FROM (\n{self._inner}\n) AS rows_of_query", size)

    @property
    def _inner(self) -> str:
        return self.text.strip().rstrip(";")

    def _batches(self, query: str, size: int) -> Iterator[Any]:
        if self.database is None:
            return self._of_duckdb(None, query, size)
        if _is_server(self.database):
            raise InputError(
                f"db must be a database of DuckDB or SQLite where rows are read in pieces, got "
                f"{shown_database(self.database)}: write the tables to Parquet first (--db)"
            )
        file, head = Path(self.database), _head(self.database)
        if head == _SQLITE:
            return self._of_sqlite(file, query, size)
        if head[8:12] == _DUCKDB:
            return self._of_duckdb(file, query, size)
        raise _other_database(self.database)

    def _of_duckdb(self, file: Path | None, query: str, size: int) -> Iterator[Any]:
        with tempfile.TemporaryDirectory(prefix="caribou-") as spill:
            options: dict[str, Any] = {"temp_directory": spill}
            if self.memory is not None:
                options["memory_limit"] = f"{self.memory}B"
            with _duckdb(file, self._flag, options) as connection:
                reader = connection.sql(query).to_arrow_reader(size)
                any_rows = False
                for batch in reader:
                    any_rows = True
                    yield batch
                if not any_rows:
                    yield _empty_batch(reader.schema)

    def _of_sqlite(self, file: Path, query: str, size: int) -> Iterator[Any]:
        import pyarrow as pa

        with _sqlite(file, self._flag) as connection:
            cursor = connection.execute(query)
            titles = [str(entry[0]) for entry in cursor.description]
            any_rows = False
            while rows := cursor.fetchmany(size):
                any_rows = True
                yield pa.RecordBatch.from_arrays(
                    [
                        _cells(column, title, self)
                        for column, title in zip(zip(*rows, strict=True), titles, strict=True)
                    ],
                    titles,
                )
            if not any_rows:
                yield _empty_batch(pa.schema([(title, pa.null()) for title in titles]))


def _empty_batch(schema: Any) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([], type=field.type) for field in schema], schema=schema)


def _cells(column: tuple[Any, ...], title: str, query: StreamedQuery) -> Any:
    """Cells of SQLite, whose columns may mix types: numbers and text together are text."""
    import pyarrow as pa

    kinds = {type(cell) for cell in column} - {type(None)}
    if not kinds <= {int, float, str}:
        other = min(kind.__name__ for kind in kinds - {int, float, str})
        raise DataError(f"{query}: column {title!r} must hold numbers or text, got {other}")
    if str in kinds and len(kinds) > 1:
        return pa.array([None if cell is None else str(cell) for cell in column])
    return pa.array(column)


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


def _name(database: str | None) -> str:
    if database is None:
        return "queries"
    if not _is_server(database):
        return Path(database).stem or "queries"
    parts = _split(database)
    return (parts.path.strip("/") if parts is not None else "") or "queries"


def _rows(database: str | None, query: str, flag: str) -> Any:
    """The rows of a query as a frame."""
    if not query.strip():
        raise _empty_query(flag)
    if database is None:
        return _duckdb_rows(None, query, flag)
    if _is_server(database):
        return _server_rows(database, query, flag)
    file, head = Path(database), _head(database)
    if head == _SQLITE:
        return _sqlite_rows(file, query, flag)
    if head[8:12] == _DUCKDB:
        return _duckdb_rows(file, query, flag)
    raise _other_database(database)


def _head(database: str) -> bytes:
    """The first bytes of a database file, which tell its kind."""
    try:
        with open(database, "rb") as opened:
            return opened.read(16)
    except OSError as error:
        raise _no_database(database, error) from None


def _duckdb_rows(file: Path | None, query: str, flag: str) -> Any:
    with _duckdb(file, flag, {}) as connection:
        result = connection.sql(query)
        if result is None:
            raise _no_rows(flag, query)
        return result.to_arrow_table()


@contextmanager
def _duckdb(file: Path | None, flag: str, options: dict[str, Any]) -> Iterator[Any]:
    """A connection that cannot write; its errors become ours."""
    try:
        import duckdb
    except ImportError:
        raise InputError(f"db needs DuckDB, got an installation without it: {_EXTRA}") from None
    try:
        # an extension is never fetched: the machine of a bank has no way out, and private data must have none
        config: dict[str, Any] = {"autoinstall_known_extensions": "false", **options}
        with duckdb.connect(str(file or ":memory:"), read_only=file is not None, config=config) as connection:
            yield connection
    except duckdb.Error as error:
        raise _failed(flag, error, ()) from None


def _sqlite_rows(file: Path, query: str, flag: str) -> Any:
    with _sqlite(file, flag) as connection:
        return _fetched(connection.execute(query), flag, query)


@contextmanager
def _sqlite(file: Path, flag: str) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write; its errors become ours."""
    try:
        connection = sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)
        try:
            yield connection
        finally:
            connection.close()
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _failed(flag, error, ()) from None


def _server_rows(database: str, query: str, flag: str) -> Any:
    scheme = database.partition("://")[0]
    if scheme not in _SERVERS:
        raise InputError(f"db must begin with postgresql://, got {scheme}:// (--db)")
    if _split(database) is None:
        raise InputError(
            "db must be postgresql://USER:PASSWORD@HOST:PORT/NAME, got another form: write @, / and : in a password as %40, %2F "
            "and %3A, or leave the password to PGPASSWORD or ~/.pgpass (--db)"
        )
    try:
        import psycopg
    except ImportError:
        raise InputError(f"db needs psycopg for PostgreSQL, got an installation without it: {_EXTRA}") from None
    try:
        with psycopg.connect(database, connect_timeout=10) as connection:
            connection.read_only = True
            return _fetched(connection.execute(query), flag, query)
    except psycopg.Error as error:
        raise _failed(flag, error, _secrets(database)) from None


def _fetched(cursor: Any, flag: str, query: str) -> Any:
    """All rows of a cursor as a pandas frame, cells as they came."""
    import pandas as pd

    if cursor.description is None:
        raise _no_rows(flag, query)
    titles = [str(entry[0]) for entry in cursor.description]
    rows = cursor.fetchall()
    frame = pd.DataFrame([tuple(row) for row in rows], columns=range(len(titles)), dtype=object)
    return frame.set_axis(titles, axis=1)


def _empty_query(flag: str) -> InputError:
    return InputError(f'{flag[2:]} must be a query, got an empty one ({flag} "SELECT ...")')


def _no_database(database: str, error: OSError) -> DataError:
    return DataError(f"db must be a file that can be read, got {database!r}: {error.strerror} (--db)")


def _other_database(database: str) -> DataError:
    return DataError(f"db must be a database of DuckDB or SQLite, or postgresql://..., got {database!r} (--db)")


def _no_rows(flag: str, query: str) -> InputError:
    return InputError(f'{flag[2:]} must be a query that returns rows, got {_first_word(query)} ({flag} "SELECT ...")')


def _first_word(query: str) -> str:
    return repr(query.split()[0][:20])


def _failed(flag: str, error: Exception, secrets: Iterable[str]) -> DataError:
    """The database's own words in one line, without a secret."""
    message = _without_secrets(" ".join(str(error).split()), secrets)
    return DataError(
        f"{flag[2:]} must be a query that the database can answer, got {type(error).__name__}: {message[:300]} ({flag})"
    )


def _secrets(database: str) -> list[str]:
    """What must not be shown of an address: the password, as it is written and as it is meant."""
    parts = _split(database)
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
