"""Ids on disk: the same edges as by a dictionary in memory, the same refusals, and nothing left behind."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caribou.datasets import read_graph
from caribou.engines.ids import NodeIds, bucket_of, texts, with_row_numbers
from caribou.engines.preparation import Memory
from caribou.engines.sources import EdgeTable, FeatureTable, SourceRules
from caribou.errors import DataError
from caribou.tables import cells as columns
from caribou.tables.sources import Piece

LETTERS = st.text(alphabet="01.-aé \t\u00a0\u2003", max_size=6)
FILES = {"node.ids", "edges.parquet", "nodes.parquet", "edges.csv", "nodes.csv"}


@pytest.fixture(params=[1, 7])
def buckets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """In memory, and divided."""
    monkeypatch.setattr(NodeIds, "buckets", lambda self, memory: request.param)
    return request.param


def mapped(folder: Path, ending: str = "parquet", size: int = 40, **rules: Any) -> list[tuple[int, int]]:
    nodes = FeatureTable.open(folder / f"nodes.{ending}", SourceRules(**rules))
    edges = EdgeTable.open(folder / f"edges.{ending}", SourceRules(**rules))
    ids = NodeIds.stored(nodes, folder)
    source = with_row_numbers(edges, nodes, ids, folder, Memory(), SourceRules(**rules))
    found = [pair for u, v in source.chunks(size, nodes.nodes) for pair in zip(u.tolist(), v.tolist(), strict=True)]
    assert {path.name for path in folder.iterdir()} <= FILES | {"edges.npy"}
    return found


def write(folder: Path, nodes: dict[str, Any], edges: dict[str, Any]) -> None:
    for name, table in (("nodes", nodes), ("edges", edges)):
        pd.DataFrame(table).to_csv(folder / f"{name}.csv", index=False)
        pq.write_table(pa.table(table), folder / f"{name}.parquet")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_ids_become_the_row_numbers_of_a_dictionary(tmp_path: Path, buckets: int, ending: str) -> None:
    rng = np.random.default_rng(0)
    names = [f"{'x' * int(k)}-{k}-ü" for k in rng.permutation(60)]
    pairs = rng.integers(0, 60, (500, 2))
    ends = [[names[k] for k in pairs[:, side]] for side in (0, 1)]
    write(tmp_path, {"id": names, "a": np.arange(60.0)}, {"source": ends[0], "target": ends[1]})
    assert sorted(mapped(tmp_path, ending)) == sorted(map(tuple, pairs.tolist()))
    stored = NodeIds.stored(FeatureTable.open(tmp_path / f"nodes.{ending}"), tmp_path)
    assert stored is not None
    assert pa.concat_arrays(list(stored.batches())).to_pylist() == names
    assert (stored.is_plain, stored.is_numbers) == (False, False)


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.decimal128(12, 2)])
def test_numbers_of_every_type_are_one_id(tmp_path: Path, kind: Any) -> None:
    """1, "1" and "1.0" are one id, and are given out as a number."""
    cells = pa.array(["7.0", " 1 ", "5"]) if kind == pa.string() else pa.array(list(map(Decimal, (7, 1, 5)))).cast(kind)
    nodes = {"node_id": cells, "a": [0.0, 1.0, 2.0]}
    pq.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"from": ["7", "5.00"], "to": ["1", "7"]}), tmp_path / "edges.parquet")
    assert mapped(tmp_path) == [(0, 1), (2, 0)]
    stored = NodeIds.stored(FeatureTable.open(tmp_path / "nodes.parquet"), tmp_path)
    assert stored is not None
    assert next(stored.batches()).to_pylist() == [7, 1, 5]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), LETTERS, st.from_regex(r"\A-?[0-9]{1,20}\.0{0,2}\Z")), max_size=8))
def test_cells_are_normalised_as_in_memory(cells: list[str | None]) -> None:
    found = texts(pa.array(cells, pa.string()), "id", Piece("x", 0, None)).to_pylist()
    assert found == columns.texts(pd.Series(cells, dtype=object), "id", lambda k: "").tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=20)), min_size=1, max_size=12), st.integers(0, 5))
def test_equal_ids_meet_in_one_bucket(cells: list[str | None], first: int) -> None:
    ids = pa.array([*cells, *cells], pa.large_string())
    found = bucket_of(ids, 13)
    assert np.array_equal(found[: len(cells)], found[len(cells) :])
    assert np.array_equal(bucket_of(ids.slice(first), 13), found[first:])
    alone = [int(bucket_of(pa.array([cell], pa.large_string()), 13)[0]) for cell in cells]
    assert alone == found[: len(cells)].tolist(), "the other ids of a piece decide about nothing"
    assert ((found >= 0) & (found < 13)).all()


def test_buckets_are_of_about_one_size() -> None:
    for names in (
        map("acc-{:07d}".format, range(20_000)),
        map(str, range(20_000)),
        map("{:036d}".format, range(20_000)),
    ):
        sizes = np.bincount(bucket_of(pa.array(list(names), pa.large_string()), 64), minlength=64)
        assert sizes.max() < 1.5 * sizes.mean()


def test_memory_decides_the_number_of_buckets() -> None:
    ids = NodeIds(Path("x"), "id", 10**6, 12 * 10**6, False, False)
    assert ids.buckets(Memory()) == 1
    assert ids.space(10**7, Memory()) == 0
    assert ids.buckets(Memory(512 << 20)) == 3
    assert ids.space(10**7, Memory(512 << 20)) == 10**7 * 48 + 28 * 10**6


# -- refusals: the words of tables that are read into memory ---------------------------------------------------------------

FAULTS = {
    "unknown": ({"id": ["ann", "bob", "cid"]}, {"source": ["ann", "bob", "zoe"], "target": ["bob", "kim", "kim"]}),
    "one": ({"id": ["ann", "bob", "cid"]}, {"source": ["ann", "bob"], "target": ["bob", "kim"]}),
    "missing": ({"id": ["ann", "bob", "cid"]}, {"source": ["ann", None], "target": ["bob", "cid"]}),
    "repeated": ({"id": ["ann", "bob", "ann", "bob"]}, {"source": ["ann"], "target": ["bob"]}),
    "empty": ({"id": ["ann", None, "cid", None]}, {"source": ["ann"], "target": ["cid"]}),
}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_refusals_are_those_of_reading_into_memory(tmp_path: Path, buckets: int, ending: str, fault: str) -> None:
    nodes, edges = FAULTS[fault]
    write(tmp_path, {**nodes, "a": np.arange(float(len(nodes["id"])))}, edges)
    with pytest.raises(DataError) as expected:
        read_graph(tmp_path / f"edges.{ending}", tmp_path / f"nodes.{ending}")
    with pytest.raises(DataError) as refused:
        mapped(tmp_path, ending)
    assert str(refused.value) == str(expected.value)


def test_edges_with_unknown_ends_are_dropped_if_that_is_declared(tmp_path: Path, buckets: int) -> None:
    nodes, edges = FAULTS["unknown"]
    write(tmp_path, {**nodes, "a": [0.0, 1.0, 2.0]}, edges)
    assert mapped(tmp_path, drop_unknown_ids=True) == [(0, 1)]
    write(tmp_path, {**nodes, "a": [0.0, 1.0, 2.0]}, {"source": ["ANN", "BOB"], "target": ["BOB", "CID"]})
    with pytest.raises(
        DataError, match=r"edges.parquet: row 1: edges must join ids of the node table, got none that does"
    ):
        mapped(tmp_path, drop_unknown_ids=True)


def test_the_place_of_a_row_in_a_folder(tmp_path: Path, buckets: int) -> None:
    write(tmp_path, {"id": ["ann", "bob"], "a": [0.0, 1.0]}, {"source": ["ann"] * 9, "target": ["bob"] * 9})
    (tmp_path / "nodes.parquet").rename(tmp_path / "n.parquet")
    folder = tmp_path / "parts"
    folder.mkdir()
    for part, target in enumerate(("bob", "zoe")):
        table = pa.table({"source": ["ann"] * 5, "target": ["bob"] * 4 + [target]})
        pq.write_table(table, folder / f"{part}.parquet")
    nodes = FeatureTable.open(tmp_path / "n.parquet")
    ids = NodeIds.stored(nodes, tmp_path)
    source = with_row_numbers(EdgeTable.open(folder), nodes, ids, tmp_path, Memory())
    with pytest.raises(DataError, match=r"parts/1.parquet: row 5: column 'target' must hold an id .* got 'zoe'; give"):
        list(source.chunks(4))


def test_row_numbers_need_no_mapping(tmp_path: Path) -> None:
    write(tmp_path, {"id": [0, 1, 2], "a": [0.0, 1.0, 2.0]}, {"source": [0, 1, 1], "target": [2, 0, 2]})
    np.save(tmp_path / "edges.npy", np.array([[0, 2], [1, 0], [1, 2]]))
    for ending in ("parquet", "csv", "npy"):
        nodes = FeatureTable.open(tmp_path / "nodes.parquet")
        edges = EdgeTable.open(tmp_path / f"edges.{ending}")
        ids = NodeIds.stored(nodes, tmp_path)
        assert ids is not None
        assert ids.is_numbers
        assert with_row_numbers(edges, nodes, ids, tmp_path, Memory()) is edges
        assert [pair for u, v in edges.chunks(9, 3) for pair in zip(u, v, strict=True)] == [(0, 2), (1, 0), (1, 2)]


def test_a_plain_array_holds_row_numbers_whatever_the_ids_are(tmp_path: Path) -> None:
    write(tmp_path, {"id": [2, 1, 0], "a": [0.0, 1.0, 2.0]}, {"source": [2, 1], "target": [0, 0]})
    np.save(tmp_path / "edges.npy", np.array([[0, 2]]))
    nodes, edges = FeatureTable.open(tmp_path / "nodes.parquet"), EdgeTable.open(tmp_path / "edges.npy")
    assert with_row_numbers(edges, nodes, NodeIds.stored(nodes, tmp_path), tmp_path, Memory()) is edges
    assert mapped(tmp_path) == [(0, 2), (1, 2)]
