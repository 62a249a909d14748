"""Queries: DuckDB, SQLite and a real PostgreSQL server give the graph of the tables; a password is never shown."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from caribou.errors import DataError, InputError
from caribou.graph import Graph
from caribou.tables.nodes import read_tables
from caribou.tables.queries import Query, shown_database
from caribou.tables.read import Titles, divided
from cli_support import run
from table_support import RULE_FLAGS, RULES, bank, content

EDGES = "SELECT sender, receiver FROM transfers ORDER BY amount DESC"
NODES = "SELECT * FROM accounts"
SECRET = "s3cr3t-Pa55"


def read(database: str | None, edges: str = EDGES, nodes: str = NODES) -> Graph:
    tables = Query(edges, database, "edges"), Query(nodes, database, "nodes")
    return divided(read_tables(*tables, Titles(), tables[0].graph_name, rules=RULES).require(), 0, "nodes")


@pytest.fixture(scope="module")
def expected() -> bytes:
    edges, nodes = bank()
    return content(Graph.from_tables(edges[["sender", "receiver"]], nodes, rules=RULES))


def duckdb_file(folder: Path) -> Path:
    edges, nodes = bank()
    with duckdb.connect(str(folder / "bank.duckdb")) as connection:
        for name, frame in (("transfers", edges), ("accounts", nodes)):
            frame.to_csv(folder / f"{name}.csv", index=False)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv('{folder}/{name}.csv')")
    return folder / "bank.duckdb"


def sqlite_file(folder: Path) -> Path:
    edges, nodes = bank()
    connection = sqlite3.connect(folder / "bank.db")
    edges.to_sql("transfers", connection, index=False)
    nodes.to_sql("accounts", connection, index=False)
    connection.close()
    return folder / "bank.db"


def test_duckdb_and_files_that_a_query_names(tmp_path: Path, expected: bytes) -> None:
    file = duckdb_file(tmp_path)
    assert content(read(str(file))) == expected
    assert read(str(file)).name == "bank"
    accounts = f"SELECT * FROM '{tmp_path}/accounts.csv'"
    assert content(read(None, f"SELECT sender, receiver FROM '{tmp_path}/transfers.csv'", accounts)) == expected
    bank()[1].to_parquet(tmp_path / "accounts.parquet")
    transfers = f"SELECT sender, receiver FROM '{tmp_path}/transfers.csv'"
    assert content(read(None, transfers, f"SELECT * FROM '{tmp_path}/accounts.parquet'")) == expected


def test_sqlite_by_its_content(tmp_path: Path, expected: bytes) -> None:
    assert content(read(str(sqlite_file(tmp_path)))) == expected


WRITES = (
    "DELETE FROM accounts",
    "DELETE FROM accounts RETURNING *",
    "INSERT INTO accounts (id) VALUES ('x')",
    "UPDATE accounts SET label = 'ok'",
    "DROP TABLE accounts",
    "CREATE TABLE more (id TEXT)",
    "SELECT 1) AS a; DROP TABLE accounts; SELECT * FROM (SELECT 1",
    "SELECT 1; COMMIT; DELETE FROM accounts",
    "WITH gone AS (DELETE FROM accounts RETURNING *) SELECT * FROM gone",
    "ATTACH '{out}' AS other",
    "COPY (SELECT * FROM accounts) TO '{out}'",
    "COPY accounts TO '{out}'",
    "EXPORT DATABASE '{out}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA writable_schema = 1",
    "SET enable_external_access = true",
    "VACUUM INTO '{out}'",
    "SELECT load_extension('{out}')",
    "SELECT lo_from_bytea(4711, 'x')",  # a read-only transaction of PostgreSQL 15 lets it
    "SELECT 1 LIMIT lo_creat(-1)",
    "SELECT U&\"lo\\005Ffrom_bytea\"(4712, 'x')",
    "SELECT query_to_xml('SELECT lo_crea' || 't(-1)', true, true, '')",
    "SELECT dblink_exec('{server}', 'DELETE FROM accounts')",
    "SELECT set_config('statement_timeout', '0', false)",
    "SELECT Pg_Read_File('/etc/hosts')",
    "SELECT nextval('numbers')",
    "SELECT pg_switch_wal()",
    "SELECT 1 INTO more",
    "MERGE INTO accounts USING (SELECT 1) ON false WHEN NOT MATCHED THEN INSERT (id) VALUES ('x')",
    "WITH x AS (COPY (SELECT 1) TO '{out}') SELECT * FROM x",
    "FROM query('COPY (SELECT 1) TO ''{out}''')",
    "FROM json_execute_serialized_sql(json_serialize_sql('COPY (SELECT 1) TO ''{out}'''))",
    "FROM enable_logging('QueryLog', storage='file', storage_path='{out}')",
    "FROM sqlite_scan('{out}', 'accounts')",
    "REPLACE INTO accounts (id) VALUES ('x')",
    "SELECT writefile('{out}', 'x')",
    "SELECT fts3_tokenizer('simple', x'00')",
    "SELECT * FROM pragma_journal_mode",
)


@pytest.mark.parametrize("kind", ["files", "duckdb", "sqlite", "postgresql"])
def test_a_query_cannot_write(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    made = {"duckdb": duckdb_file, "sqlite": sqlite_file}
    database = None
    if kind == "postgresql":
        database = f"postgresql://ann:{SECRET}@{request.getfixturevalue('server')}/postgres"
    elif kind in made:
        database = str(made[kind](tmp_path))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for text in WRITES:
        query = Query(text.format(out=tmp_path / "out", server=database), database, "nodes")
        for reading in (
            lambda query=query: query.titles,
            query.count,
            lambda query=query: list(query.pieces(9, ["id"])),
        ):
            with pytest.raises((DataError, InputError), match=r"sql-nodes must (be|call)"):
                reading()
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before, text
        if database is not None:
            assert Query("SELECT * FROM accounts", database, "nodes").count() == len(bank()[1]), text


def test_a_query_sees_its_database_and_the_files_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    for name in ("other/x.csv", "other/y.csv", "z.csv"):
        (tmp_path / name).write_text("id\n1\n")
    frame = bank()[1]  # a variable of Python is no table
    assert len(frame) > 0
    for database, text in (
        (str(duckdb_file(tmp_path)), f"SELECT * FROM '{tmp_path}/other/x.csv'"),
        (None, f"SELECT * FROM read_csv('{tmp_path}/oth' || 'er/x.csv')"),
        (None, f"SELECT * FROM read_csv(concat('{tmp_path}/other/', 'x.csv'))"),  # a folder is no file
        (None, f"FROM '{tmp_path}/other/x.csv' UNION ALL FROM read_csv('{tmp_path}/other/' || 'y.csv')"),
        (None, f"FROM '{tmp_path}/other/x.csv' UNION ALL FROM read_csv('{tmp_path}/other/../' || 'z.csv')"),
        (None, "SELECT * FROM frame"),
        (None, "SELECT * FROM 'https://example.org/x.parquet'"),
        (None, "SELECT * FROM getenv('HOME')"),
    ):
        with pytest.raises(DataError, match="sql-nodes must be a query that the database can answer"):
            Query(text, database, "nodes").count()
    monkeypatch.chdir(tmp_path)
    for text in ("FROM 'other/x.csv'", "FROM 'other/[x]*.csv'", f"FROM read_csv('{tmp_path}/**/x.csv')"):
        assert Query(text, None, "nodes").count() == 1


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A PostgreSQL server of its own, with the bank in it: its address without user and password."""
    found = shutil.which("initdb") or next(map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None)
    if found is None:
        pytest.skip("no PostgreSQL server is installed (apt-get install postgresql)")
    programs = Path(found).parent
    # the server refuses to run as root, and its user must be able to reach the folder
    owner = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="caribou-postgres-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "password").write_text(SECRET)
    if owner:
        for path in (folder, folder / "password"):
            shutil.chown(path, **owner)
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **owner}
    data, options = str(folder / "data"), f"-c fsync=off -c listen_addresses=127.0.0.1 -p {port} -k {folder}"
    subprocess.run(
        [found, "-D", data, "-U", "ann", "-A", "scram-sha-256", f"--pwfile={folder}/password", "--no-sync"], **quiet
    )
    control = str(programs / "pg_ctl")
    subprocess.run([control, "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start"], **quiet)
    try:
        _fill(f"postgresql://ann:{SECRET}@127.0.0.1:{port}/postgres")
        yield f"127.0.0.1:{port}"
    finally:
        subprocess.run([control, "-D", data, "-m", "immediate", "stop"], **quiet)
        shutil.rmtree(folder, ignore_errors=True)


def _fill(address: str) -> None:
    import psycopg

    edges, nodes = bank()
    with psycopg.connect(address) as connection:
        connection.execute("CREATE SEQUENCE numbers")
        with contextlib.suppress(psycopg.Error), connection.transaction():  # an extension that may not be there
            connection.execute("CREATE EXTENSION dblink")
        connection.execute("CREATE TABLE transfers (sender text, receiver text, amount numeric)")
        connection.execute(
            "CREATE TABLE accounts (id text, age integer, income double precision, segment text, opened date, label text)"
        )
        for name, frame in (("transfers", edges), ("accounts", nodes)):
            rows = [tuple(None if pd.isna(cell) else cell for cell in row) for row in frame.itertuples(index=False)]
            places = ", ".join(["%s"] * len(frame.columns))
            connection.cursor().executemany(f"INSERT INTO {name} VALUES ({places})", rows)


def test_postgresql_gives_the_same_graph(server: str, expected: bytes) -> None:
    assert content(read(f"postgresql://ann:{SECRET}@{server}/postgres")) == expected


def test_a_password_reaches_no_run_ledger_log_or_message(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = ("--sql-edges", EDGES, "--sql-nodes", NODES, *RULE_FLAGS)
    good = f"postgresql://ann:{SECRET}@{server}/postgres"
    saved = ("--out", tmp_path / "run", "--ledger", tmp_path / "l.sqlite", "--json", "--classes", "fraud,ok")
    done = [run("train", "mlp-dp", *queries, "--db", good, *saved)]
    assert done[0].returncode == 0, done[0].stderr
    assert f"queries on postgresql://{server}/postgres" in done[0].stdout
    monkeypatch.setenv("CARIBOU_DB", good)
    done.append(run("predict", tmp_path / "run", *queries, "--training-graph", "--out", tmp_path / "p.csv"))
    assert done[1].returncode == 0, done[1].stderr
    done.append(run("inspect", *queries))
    bad_server = f"postgresql://ann:{SECRET}@127.0.0.1:1/postgres"
    for address in (
        f"postgresql://bob:{SECRET}@{server}/postgres",
        f"postgresql://ann:{SECRET}@{server}/none",
        bad_server,
        f"postgresql://ann:{SECRET}@a@b/postgres",
        f"postgresql://ann:{SECRET}x/y@{server}/postgres",
        f"postgresql://ann@{server}/postgres?password={SECRET}wrong",
        f"mysql://ann:{SECRET}@{server}/postgres",
    ):
        done.append(run("train", "mlp", *queries, "--db", address, "--out", tmp_path / "none"))
        assert done[-1].returncode == 2, address
        assert done[-1].stderr.startswith("error: ")
        assert done[-1].stderr.count("\n") == 1
        assert "--db" in done[-1].stderr or "--sql-nodes" in done[-1].stderr
    done.append(run("train", "mlp", "--sql-edges", f"SELECT password='{SECRET}' FROM nothing", "--sql-nodes", NODES))
    texts = [text for outcome in done for text in (outcome.stdout, outcome.stderr)]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(SECRET in text for text in texts)
    assert not any(SECRET.encode() in data for data in files)
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_queried_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.db").write_text("not a database")
    for database, text, error, message in (
        (str(tmp_path / "other.db"), NODES, DataError, r"db must be a database of DuckDB or SQLite, or postgresql://"),
        (str(tmp_path / "none.db"), NODES, DataError, r"db must be a file that can be read, got .*none.db.*\(--db\)"),
        (None, " ", InputError, r"sql-nodes must be a query, got an empty one \(--sql-nodes"),
        (None, "SELEC 1", DataError, r"sql-nodes must be a query that the database can answer, got ParserException"),
        (None, "SELECT * FROM nothing", DataError, r"CatalogException.*\(--sql-nodes\)"),
    ):
        with pytest.raises(error, match=message):
            read(database, nodes=text)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(
        InputError, match=r"db needs DuckDB, got an installation without it: pip install 'caribou-gnn\[sql\]'"
    ):
        read(None)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match="db needs psycopg for PostgreSQL"):
        read("postgresql://127.0.0.1/bank")


def test_addresses_in_words() -> None:
    assert shown_database(None) == "DuckDB"
    assert shown_database("bank.db") == "bank.db"
    assert shown_database(f"postgres://ann:{SECRET}@h/x?password={SECRET}") == "postgresql://h/x"
    assert shown_database(f"postgresql://ann:{SECRET}@b@h/x") == "postgresql://..."
    assert shown_database(f"postgresql://ann:{SECRET}:no@h:notaport/x") == "postgresql://..."
