"""An edge table and a node table as queries: DuckDB (its own files, Parquet, CSV), SQLite or PostgreSQL.

A query is read in the dialect of its database and cannot write: files are opened read-only, and PostgreSQL runs it in a read-only
transaction. Nothing is downloaded. A password is used to connect and stands nowhere else: in no name, message, run or ledger.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from caribou.errors import DataError, InputError
from caribou.graph.classes import Classes
from caribou.graph.column_rules import ColumnRules
from caribou.graph.frames import FrameTable, Reading, Titles, read_frames
from caribou.privacy.budget import PrivacyUnit

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
        raise InputError(f'{flag[2:]} must be a query, got an empty one ({flag} "SELECT ...")')
    if database is None:
        return _duckdb_rows(None, query, flag)
    if _is_server(database):
        return _server_rows(database, query, flag)
    file = Path(database)
    try:
        with open(file, "rb") as opened:
            head = opened.read(16)
    except OSError as error:
        raise DataError(f"db must be a file that can be read, got {database!r}: {error.strerror} (--db)") from None
    if head == _SQLITE:
        return _sqlite_rows(file, query, flag)
    if head[8:12] == _DUCKDB:
        return _duckdb_rows(file, query, flag)
    raise DataError(f"db must be a database of DuckDB or SQLite, or postgresql://..., got {database!r} (--db)")


def _duckdb_rows(file: Path | None, query: str, flag: str) -> Any:
    try:
        import duckdb
    except ImportError:
        raise InputError(f"db needs DuckDB, got an installation without it: {_EXTRA}") from None
    try:
        # an extension is never fetched: the machine of a bank has no way out, and private data must have none
        options: dict[str, Any] = {"autoinstall_known_extensions": "false"}
        with duckdb.connect(str(file or ":memory:"), read_only=file is not None, config=options) as connection:
            result = connection.sql(query)
            if result is None:
                raise _no_rows(flag, query)
            return result.to_arrow_table()
    except duckdb.Error as error:
        raise _failed(flag, error, ()) from None


def _sqlite_rows(file: Path, query: str, flag: str) -> Any:
    try:
        connection = sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True)
        try:
            return _fetched(connection.execute(query), flag, query)
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
