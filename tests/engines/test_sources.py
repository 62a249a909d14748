"""Tables that are read in pieces: the same edges in every layout, and the row of every entry that is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caribou.engines.blocks import Layout
from caribou.engines.preparation import Memory
from caribou.engines.sources import EdgeTable, FeatureTable
from caribou.errors import DataError
from engines_support import COLUMNS, NODES, Tables

NO_IDS = "edges must be a column of integers where the node table has no id column"


def test_parquet_and_transposed_npy_are_the_same_edges(tables: Tables, tmp_path: Path) -> None:
    u, v = tables.pairs.T
    half = len(u) // 2
    (tmp_path / "parts").mkdir()
    for number, part in enumerate((slice(None, half), slice(half, None))):
        pq.write_table(
            pa.table({"target": v[part], "weight": v[part], "source": u[part]}), tmp_path / f"parts/{number}.parquet"
        )
    np.save(tmp_path / "wide.npy", np.ascontiguousarray(tables.pairs.T.astype(np.int32)))
    for path in (tmp_path / "parts", tmp_path / "wide.npy"):
        table = EdgeTable.open(path)
        found = [np.stack(chunk) for chunk in table.chunks(7000)]
        assert table.count == len(u)
        assert np.array_equal(np.concatenate(found, axis=1), tables.pairs.T)


def test_feature_table_reads_parquet_in_rows(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((100, 3))
    pq.write_table(pa.table({"node": np.arange(100), "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}), tmp_path / "x.parquet")
    table = FeatureTable.open(tmp_path / "x.parquet")
    chunks = list(table.chunks(32))
    assert (table.nodes, table.columns, [len(c) for c in chunks]) == (100, 3, [32, 32, 32, 4])
    assert np.array_equal(np.concatenate(chunks), x)


def test_bad_tables_are_named(tables: Tables, tmp_path: Path) -> None:
    cases = {
        "floats.npy": np.zeros((4, 2)),
        "three.npy": np.zeros((4, 3), int),
        "fortran.npy": np.asfortranarray(np.zeros((5, 2), int)),
    }
    for name, array in cases.items():
        np.save(tmp_path / name, array)
        with pytest.raises(DataError, match=name):
            EdgeTable.open(tmp_path / name)
    (tmp_path / "short.npy").write_bytes(tables.edges.read_bytes()[:-8])
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "bad.parquet").write_text("hello")
    for name in ("short.npy", "text.npy", "bad.parquet", "missing.npy", "edges.csv"):
        with pytest.raises(DataError, match=name):
            EdgeTable.open(tmp_path / name)
    x = tables.features.copy()
    x[4000, 3] = np.nan
    np.save(tables.rows, x)
    with pytest.raises(DataError, match="row 4000"):
        tables.blocked("a", Layout(NODES, COLUMNS, 11))


@pytest.mark.parametrize("bad", [NODES, -1])
def test_the_row_of_an_end_that_is_no_node_is_named(
    tables: Tables, tmp_path: Path, bad: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every layout of the table, also beyond the first piece; the other end of the edge is not told."""
    monkeypatch.setattr(Memory, "free", 1)  # pieces of 2^14 pairs
    pairs, half = tables.pairs.copy(), len(tables.pairs) // 2
    pairs[20_000, 1] = bad
    np.save(tables.edges, pairs)
    np.save(tmp_path / "wide.npy", np.ascontiguousarray(pairs.T))
    (tmp_path / "parts").mkdir()
    for number, part in enumerate((pairs[:half], pairs[half:])):
        pq.write_table(pa.table({"source": part[:, 0], "target": part[:, 1]}), tmp_path / f"parts/{number}.parquet")
    for path, place in (
        (tables.edges, "edges.npy: row 20000 (from 0)"),
        (tmp_path / "wide.npy", "wide.npy: column 20000 (from 0)"),
        (tmp_path / "parts", f"1.parquet: row {20_000 - half} (from 0)"),
    ):
        with pytest.raises(DataError) as refused:
            list(EdgeTable.open(path).chunks(7000, NODES))
        rule = f"edges must be node numbers in [0, {NODES}), the rows of the feature table, got {bad}"
        assert str(refused.value) == f"{path.parent if path.suffix else path}/{place}: {rule}"
    with pytest.raises(DataError, match="row 20000"):
        tables.blocked("a", Layout(NODES, COLUMNS, 11))


def test_ends_that_are_no_whole_numbers_are_named_by_row(tmp_path: Path) -> None:
    def refused(name: str) -> str:
        with pytest.raises(DataError) as problem:
            list(EdgeTable.open(tmp_path / name).chunks(4, 5))
        return str(problem.value).removeprefix(f"{tmp_path}/")

    np.save(tmp_path / "a.npy", np.array([[0, 1], [1, 2], [3, 2.5]]))
    assert refused("a.npy") == "a.npy: row 2 (from 0): edges must be whole numbers, got 2.5"
    np.save(tmp_path / "one.npy", np.array([[0, np.nan]]))
    assert refused("one.npy") == "one.npy: row 0 (from 0): edges must be whole numbers, got nan"
    np.save(tmp_path / "b.npy", np.array([[4.0, 3.0]]))
    assert refused("b.npy") == "b.npy: edges must be integers of shape [E, 2] or [2, E], got float64 [1, 2]"
    for name, ends, words in (
        ("c", [0, 1, 2, None], "c.parquet: row 3 (from 0): edges must be whole numbers, got an empty cell"),
        ("d", [0.0, 1.0, 2.5, 3.0], "d.parquet: row 2 (from 0): edges must be whole numbers, got 2.5"),
        ("e", [4.0, 3.0, 2.0, 1.0], f"e.parquet: {NO_IDS}, got double (--column id=TITLE)"),
        ("f", ["ann", "bob", "cid", "dan"], f"f.parquet: {NO_IDS}, got string (--column id=TITLE)"),
    ):
        pq.write_table(pa.table({"source": [0, 1, 2, 3], "target": ends}), tmp_path / f"{name}.parquet")
        assert refused(f"{name}.parquet") == words
