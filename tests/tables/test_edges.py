"""Edges that stream past: the same in every layout, and the row of every entry that is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caribou.engines.blocks import Layout
from caribou.engines.preparation import Memory
from caribou.errors import DataError
from caribou.tables.edges import EdgeTable, open_edges
from caribou.tables.inspect import Findings
from caribou.tables.nodes import read_tables
from caribou.tables.read import Titles
from caribou.tables.sources import FrameTable
from engines_support import COLUMNS, NODES, Tables


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
        edges = open_edges(path, Titles())
        found = [np.stack(chunk) for chunk in edges.chunks(7000, NODES)]
        assert edges.count == len(u)
        assert np.array_equal(np.concatenate(found, axis=1), tables.pairs.T)


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
            list(open_edges(path, Titles()).chunks(7000, NODES))
        rule = f"edges must be node numbers in [0, {NODES}), the rows of the feature table, got {bad}"
        assert str(refused.value) == f"{path.parent if path.suffix else path}/{place}: {rule}"
    with pytest.raises(DataError, match="row 20000"):
        tables.blocked("a", Layout(NODES, COLUMNS, 11))


def test_row_numbers_of_a_table_are_whole_numbers() -> None:
    for ends, got in [
        ([0, 1, 2, None], "an empty cell"),
        (["0", "1", "2", "dan"], "'dan'"),
        (["0", "1", "2", "1.5"], "'1.5'"),
    ]:
        table = FrameTable("edges", pa.table({"source": [0, 1, 2, 3], "target": ends}))
        with pytest.raises(
            DataError, match=r"edges: row 4: edges must be whole numbers .*\(--column id=TITLE\)"
        ) as refused:
            list(open_edges(table, Titles()).chunks(4, 5))
        assert refused.value.value == (got if got == "an empty cell" else f"{got} (--column id=TITLE)") or got in str(
            refused.value
        )


def test_the_columns_of_ends() -> None:
    for header, titles, chosen in [
        (["a", "b"], Titles(), ("a", "b")),
        (["id", "source", "target"], Titles(), ("source", "target")),
        (["from", "to", "amount"], Titles(), ("from", "to")),
        (["from", "to"], Titles(target="from"), ("to", "from")),
        (["w", "a", "b"], Titles(source="a", target="b"), ("a", "b")),
    ]:
        findings = Findings()
        edges = open_edges(FrameTable("edges", pa.table({name: [1] for name in header})), titles, None, findings)
        assert isinstance(edges, EdgeTable)
        assert edges.titles == chosen
        assert len(findings.notes) == (len(header) > 2)


def test_columns_that_cannot_be_ends() -> None:
    for header, titles, message in [
        (["a"], Titles(), r"must hold two columns, source and target, found only 'a'"),
        (["a", "b"], Titles(source="z"), r"source column 'z' is missing, found 'a', 'b' \(--column source=TITLE\)"),
        (["a", "b"], Titles(source="b", target="b"), r"must be two columns, got 'b' twice"),
    ]:
        with pytest.raises(DataError, match=f"edges: .*{message}"):
            open_edges(FrameTable("edges", pa.table({name: [1] for name in header})), titles)


def test_a_first_edge_in_place_of_the_titles_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("ann,bob\nbob,cid\n")
    nodes = FrameTable("nodes", pd.DataFrame({"id": ["ann", "bob", "cid"], "f": [1, 2, 3]}))
    with pytest.raises(DataError, match="titles must not be ids of the node table, got 'ann', 'bob': is the line of"):
        read_tables(tmp_path / "e.csv", nodes, Titles(), "g")
    titles = Titles(source="ann", target="bob")
    assert read_tables(tmp_path / "e.csv", nodes, titles, "g").require().num_edges == 1, "declared ones are titles"
