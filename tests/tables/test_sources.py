"""Tables that are read in pieces: CSV, Delta, queries, and what a folder holds."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caribou.errors import DataError
from caribou.tables.queries import Query
from caribou.tables.rules import ColumnRules
from caribou.tables.sources import Piece, Rows, Source, arrow_cells, copied, name_of, open_table, stamp_of


def rows(source: Source, size: int = 2, titles: list[str] | None = None, **rules: Any) -> list[tuple[Any, ...]]:
    table = open_table(source, ColumnRules(**rules))
    pieces = list(table.pieces(size, titles or table.titles))
    assert all(len(piece.batch) <= size for piece in pieces)
    found = [row for piece in pieces for row in zip(*(c.to_pylist() for c in piece.batch.columns), strict=True)]
    assert table.count() == len(found)
    return found


def test_csv_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes('\ufeffid,name\n01,"x\ny"\n2, z \n3,\n'.encode())
    expected = [("01", "x\ny"), ("2", " z "), ("3", None)]
    assert rows(tmp_path / "a.csv") == expected
    assert rows(tmp_path / "a.csv", titles=["name"]) == [(name,) for _, name in expected]
    piece = list(open_table(tmp_path / "a.csv").pieces(2, ["id"]))[1]
    assert piece.row(0) == f"{tmp_path}/a.csv: row 3"


def test_csv_of_other_countries_is_declared(tmp_path: Path) -> None:
    for separator, sign, encoding in [(";", ";", "latin-1"), ("tab", "\t", "cp1252"), ("|", "|", "utf-16")]:
        (tmp_path / "a.csv").write_text(f"id{sign}ort\n1{sign}Zürich\n2{sign}Köln\n", encoding=encoding)
        assert rows(tmp_path / "a.csv", separator=separator, encoding=encoding) == [("1", "Zürich"), ("2", "Köln")]


def test_csv_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Filled up from the right, a short row would lose its label and gain a feature."""
    for content, message in [
        ("a,b\n1,ü\n".encode("latin-1"), r"must be UTF-8 \(--encoding latin-1\)"),
        ("a,ü\n1,2\n".encode("latin-1"), r"must be UTF-8 \(--encoding latin-1\)"),
        ("a,b\n1,2\n".encode("utf-16"), r"must be UTF-8 \(--encoding latin-1\)"),
        (
            b"a;b\n1;2\n",
            r"the first line must hold the column titles separated by ',', got 'a;b'; give --separator ';'",
        ),
        (b"0,1\n1,2\n", r"the first line must hold the column titles, got numbers: '0', '1'"),
        (b"a,\n1,2\n", r"the first line must hold the column titles, got an empty one"),
        (b"a,a\n1,2\n", r"column titles must differ, got 'a' more than once"),
        (b"", r"has no columns"),
        (b"a,b\n1,2\n1,2,3\n", r"row 2 must have 2 cells, got 3"),
        (b'a,b\n1,2\n"x\ny",3\n4\n', r"row 3 must have 2 cells, got 1"),
    ]:
        (tmp_path / "t.csv").write_bytes(content)
        with pytest.raises(DataError, match=f"t.csv: {message}"):
            rows(tmp_path / "t.csv")


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


@pytest.mark.parametrize(
    ("mark", "kind"), [("metadata/v1.metadata.json", "an Iceberg"), ("_delta_log/0.json", "a Delta")]
)
def test_a_table_with_deleted_rows_is_not_read_as_its_files(tmp_path: Path, mark: str, kind: str) -> None:
    for path in (tmp_path / mark, tmp_path / "data/0.parquet"):
        path.parent.mkdir()
    (tmp_path / mark).write_text("{}")
    pq.write_table(pa.table({"u": [1]}), tmp_path / "data/0.parquet")
    with pytest.raises(DataError, match=f"got {kind} table: write its rows to Parquet"):
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
        query = Query("SELECT * FROM t ORDER BY a -- all of it;", str(tmp_path / name), "nodes", 200 << 20)
        assert rows(query) == expected, name
        assert rows(query, titles=["b c", "a"]) == [(b, a) for a, b in expected]
        assert name_of(query) == "d"
        none = Query("SELECT * FROM t WHERE a > 9;", str(tmp_path / name), "nodes")
        assert rows(none) == []
        assert open_table(none).titles == ["a", "b c"]
        before = stamp_of(query)
        assert stamp_of(query) == before
        assert stamp_of(none) != before
    with sqlite3.connect(tmp_path / "d.sqlite") as made:
        made.execute("INSERT INTO t VALUES (9, x'00')")
    made.close()
    assert stamp_of(query) != before


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([1, 2, "007", "x"], "'id' with int64 and then string"),
        ([None, None, "3", "4"], "'id' with null and then string"),
    ],
)
def test_rows_of_a_query_keep_their_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: list[Any], words: str
) -> None:
    """SQLite has types of cells, not of columns: 007 must not become 7 because the pieces before it hold numbers."""
    whole = Query.pieces
    monkeypatch.setattr(Query, "pieces", lambda table, _, titles: whole(table, 2, titles))
    with sqlite3.connect(tmp_path / "bank.db") as connection:
        connection.execute("CREATE TABLE people (id, age)")
        connection.executemany("INSERT INTO people VALUES (?, 1.0)", [(cell,) for cell in cells])

    def fixed(text: str) -> Any:
        return copied(Query(text, str(tmp_path / "bank.db"), "nodes"), ["id"], tmp_path / "copy.parquet")

    with pytest.raises(DataError, match=f"must be of one type in all rows, got {words}; give it one in the query"):
        fixed("SELECT id FROM people")
    assert fixed("SELECT coalesce(CAST(id AS TEXT), '') AS id FROM people").count() == 4


def test_cells_of_mixed_types_are_text_each_by_itself() -> None:
    assert arrow_cells([1, 2, None], "a", "t").to_pylist() == [1, 2, None]
    mixed = [1, "x", 2.5, True, float("nan"), uuid.UUID(int=1), 1e16]
    texts = ["1", "x", "2.5", "True", None, str(uuid.UUID(int=1)), "10000000000000000"]
    assert arrow_cells(mixed, "a", "t").to_pylist() == texts
    with pytest.raises(DataError, match="t: column 'a' must hold numbers or text, got bytes"):
        arrow_cells([1, b"x"], "a", "t")


def test_tables_of_other_stores_are_read_through_fsspec() -> None:
    fsspec.filesystem("memory").pipe("/tables/x.csv", b"u,v\n1,2\n")
    assert rows("memory://tables/x.csv") == rows("memory://tables") == [("1", "2")]
    with pytest.raises(DataError, match=r"memory://tables/y.csv: must be there"):
        open_table("memory://tables/y.csv")


def test_the_place_of_a_row_is_that_in_its_file() -> None:
    where = Rows("x")
    pieces = [("a.csv", 0, 3), ("a.csv", 3, 2), ("b.csv", 0, 4)]
    firsts = [where.note(Piece(name, first, pa.table({"x": [0] * count}))) for name, first, count in pieces]
    assert (firsts, where.count) == ([0, 3, 5], 9)
    assert [where(row) for row in (0, 4, 5, 8)] == ["a.csv: row 1", "a.csv: row 5", "b.csv: row 1", "b.csv: row 4"]
