"""Tables that are read in pieces: CSV, Delta, queries, and what a folder holds."""

from __future__ import annotations

import builtins
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caribou.errors import DataError, InputError
from caribou.tables.queries import StreamedQuery
from caribou.tables.sources import Piece, Rows, Source, name_of, open_table, stamp_of


def rows(source: Source, size: int = 2, titles: list[str] | None = None, **how: Any) -> list[tuple[Any, ...]]:
    table = open_table(source, **how)
    pieces = list(table.pieces(size, titles or table.titles))
    assert all(len(piece.batch) <= size for piece in pieces)
    found = [row for piece in pieces for row in zip(*(c.to_pylist() for c in piece.batch.columns), strict=True)]
    assert table.count() == len(found)
    return found


def test_csv_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes('\ufeffid;name\n01;"x\ny"\n2; z \n3;\n'.encode())
    expected = [("01", "x\ny"), ("2", " z "), ("3", None)]
    assert rows(tmp_path / "a.csv") == expected
    assert rows(tmp_path / "a.csv", titles=["name"]) == [(name,) for _, name in expected]
    (tmp_path / "b.csv").write_text("id|name\n1|;\n")
    assert rows(tmp_path / "b.csv", separator="|") == [("1", ";")]
    piece = list(open_table(tmp_path / "a.csv").pieces(2, ["id"]))[1]
    assert piece.row(0) == f"{tmp_path}/a.csv: row 3"


def test_csv_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    def refused(name: str, text: bytes) -> str:
        (tmp_path / name).write_bytes(text)
        with pytest.raises(DataError, match=name) as problem:
            rows(tmp_path / name)
        return str(problem.value)

    assert "Expected 2 columns, got 3" in refused("long.csv", b"a,b\n1,2\n1,2,3\n")
    assert "got numbers" in refused("untitled.csv", b"0,1\n1,2\n")
    assert "must differ" in refused("twice.csv", b"a,a\n1,2\n")
    assert "UTF-8" in refused("latin.csv", "a,ä\n1,2\n".encode("latin-1"))
    assert "has no columns" in refused("empty.csv", b"")


def test_a_folder_is_one_table_of_one_kind(tmp_path: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / f"csv/{part}").mkdir(parents=True)
        (tmp_path / f"csv/{part}/x.csv").write_text(f"u,v\n{part},1\n")
    assert rows(tmp_path / "csv") == [("a", "1"), ("b", "1")]
    (tmp_path / "csv/c.csv").write_text("u,w\nc,1\n")
    with pytest.raises(DataError, match=r"c.csv: must have the columns of the other files, got none named 'v'"):
        rows(tmp_path / "csv")
    pq.write_table(pa.table({"u": [1]}), tmp_path / "csv/d.parquet")
    with pytest.raises(DataError, match=r"must hold .parquet files or .csv files, got both"):
        open_table(tmp_path / "csv")
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="at least one"):
        open_table(tmp_path / "none")
    (tmp_path / "edges.txt").touch()
    with pytest.raises(DataError, match=r"edges.txt: must be a .npy, .parquet or .csv file"):
        open_table(tmp_path / "edges.txt")


def test_the_columns_of_parquet_are_those_that_were_asked_for_in_that_order(tmp_path: Path) -> None:
    pq.write_table(pa.table({"w": [0, 0, 0], "v": [4, 5, 6], "u": [1, 2, 3]}), tmp_path / "x.parquet")
    assert rows(tmp_path / "x.parquet", titles=["u", "v"]) == [(1, 4), (2, 5), (3, 6)]


def test_a_delta_table_is_its_present_version(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "t", pa.table({"u": ["old"], "v": ["x"]}), partition_by=["v"])
    before = stamp_of(tmp_path / "t")
    write_deltalake(tmp_path / "t", pa.table({"u": ["a", "b", "c"], "v": ["x", "y", "x"]}), mode="overwrite")
    assert sorted(rows(tmp_path / "t")) == [("a", "x"), ("b", "y"), ("c", "x")]
    assert rows(tmp_path / "t", size=1) == rows(tmp_path / "t", size=10)
    assert stamp_of(tmp_path / "t") not in (before, [])
    (tmp_path / "t/_delta_log/00000000000000000001.json").write_text("{")
    with pytest.raises(DataError, match="the Delta table cannot be read"):
        rows(tmp_path / "t")


def test_a_delta_table_without_its_reader_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t/_delta_log").mkdir(parents=True)
    original: Callable[..., Any] = builtins.__import__

    def without(name: str, *args: Any, **others: Any) -> Any:
        if name.startswith("deltalake"):
            raise ImportError(name)
        return original(name, *args, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"needs deltalake, .* pip install 'caribou-gnn\[delta\]'"):
        open_table(tmp_path / "t").count()


def test_an_iceberg_table_is_not_read_as_its_files(tmp_path: Path) -> None:
    for name in ("metadata", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "metadata/v1.metadata.json").write_text("{}")
    pq.write_table(pa.table({"u": [1]}), tmp_path / "data/0.parquet")
    with pytest.raises(DataError, match="got an Iceberg table: write its rows to Parquet"):
        open_table(tmp_path)


def test_queries_in_pieces(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT range AS a, 'n' || range AS \"b c\" FROM range(5)")
    made = sqlite3.connect(tmp_path / "d.sqlite")
    with made:
        made.execute('CREATE TABLE t (a, "b c")')
        made.executemany("INSERT INTO t VALUES (?, ?)", [(k, f"n{k}") for k in range(5)])
    made.close()
    expected = [(k, f"n{k}") for k in range(5)]
    for name in ("d.duckdb", "d.sqlite"):
        query = StreamedQuery("SELECT * FROM t ORDER BY a -- all of it;", str(tmp_path / name), "nodes", 200 << 20)
        assert rows(query) == expected, name
        assert rows(query, titles=["b c", "a"]) == [(b, a) for a, b in expected]
        assert name_of(query) == "d"
        none = StreamedQuery("SELECT * FROM t WHERE a > 9;", str(tmp_path / name), "nodes")
        assert rows(none) == []
        assert open_table(none).titles == ["a", "b c"]
        before = stamp_of(query)
        assert stamp_of(query) == before
        assert stamp_of(none) != before
    with sqlite3.connect(tmp_path / "d.sqlite") as made:
        made.execute("INSERT INTO t VALUES (9, x'00')")
    made.close()
    assert stamp_of(query) != before
    with pytest.raises(DataError, match=r"nodes query: column 'b c' must hold numbers or text, got bytes"):
        rows(query)


def test_a_query_cannot_write_and_its_errors_name_the_flag(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    for text in (f"COPY (SELECT 1) TO '{out}'", "SELECT nothing", "SELECT 1) t; CREATE TABLE x (a INT); --"):
        with pytest.raises(DataError, match=r"sql-edges must be a query that the database can answer.*\(--sql-edges\)"):
            rows(StreamedQuery(text, None, "edges"))
    assert not out.exists()
    with pytest.raises(InputError, match="got an empty one"):
        StreamedQuery(" ", None, "edges")
    with pytest.raises(InputError, match=r"got postgresql://db/x: write the tables to Parquet first") as refused:
        rows(StreamedQuery("SELECT 1", "postgresql://ann:secret@db/x", "edges"))
    assert "secret" not in str(refused.value)
    assert "secret" not in str(stamp_of(StreamedQuery("SELECT 1", "postgresql://ann:secret@db/x", "edges")))


def test_tables_of_other_stores_are_read_through_fsspec() -> None:
    fsspec.filesystem("memory").pipe("/tables/x.csv", b"u,v\n1,2\n")
    assert rows("memory://tables/x.csv") == rows("memory://tables") == [("1", "2")]
    with pytest.raises(DataError, match=r"memory://tables/y.csv: must be there"):
        open_table("memory://tables/y.csv")


def test_the_place_of_a_row_is_that_in_its_file() -> None:
    where = Rows()
    pieces = [("a.csv", 0, 3), ("a.csv", 3, 2), ("b.csv", 0, 4)]
    firsts = [where.note(Piece(name, first, pa.table({"x": [0] * count}))) for name, first, count in pieces]
    assert (firsts, where.count) == ([0, 3, 5], 9)
    assert [where(row) for row in (0, 4, 5, 8)] == ["a.csv: row 1", "a.csv: row 5", "b.csv: row 1", "b.csv: row 4"]
