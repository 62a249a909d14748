"""Ids: the same edges as by a dictionary, in one group or in several, and nothing left behind."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caribou.tables import ids as module
from caribou.tables.cells import texts, word_of
from caribou.tables.edges import EdgeTable, with_row_numbers
from caribou.tables.ids import NodeIds
from caribou.tables.inspect import Findings
from caribou.tables.rules import ColumnRules
from caribou.tables.sources import FrameTable

LETTERS = st.text(alphabet="01.-aé \t\u00a0\u2003", max_size=6)


def ids_of(cells: Any, folder: Path, findings: Findings | None = None) -> NodeIds:
    return NodeIds.read(FrameTable("nodes", pa.table({"id": cells})), "id", findings or Findings(collect=False), folder)


def mapped(ids: NodeIds, u: Any, v: Any, folder: Path, room: int | None, **rules: Any) -> list[tuple[int, int]]:
    edges = EdgeTable(FrameTable("edges", pa.table({"source": u, "target": v})), ("source", "target"))
    source = with_row_numbers(edges, ids, ColumnRules(**rules), folder=folder, room=room)
    found = [pair for u, v in source.chunks(40, ids.count) for pair in zip(u.tolist(), v.tolist(), strict=True)]
    assert {path.name for path in folder.iterdir()} == {"node.ids"}
    return found


@pytest.mark.parametrize("room", [None, 1200])
def test_ids_become_the_row_numbers_of_a_dictionary(
    tmp_path: Path, room: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PIECE", 8)
    rng = np.random.default_rng(0)
    names = [f"{'x' * int(k)}-{k}-ü" for k in rng.permutation(60)]
    pairs = rng.integers(0, 60, (500, 2))
    ends = [[names[k] for k in pairs[:, side]] for side in (0, 1)]
    ids = ids_of(names, tmp_path)
    assert (ids.groups(room) > 1) == (room is not None)
    assert (ids.space(500, room) > 0) == (room is not None)
    assert mapped(ids, *ends, tmp_path, room) == list(map(tuple, pairs.tolist()))
    ends[0][7] = "zoe"
    assert len(mapped(ids, *ends, tmp_path, room, drop_unknown_ids=True)) == 499
    assert pa.concat_arrays(list(ids.batches())).to_pylist() == names
    assert ids.array().tolist() == names
    assert (ids.is_plain, ids.is_numbers) == (False, False)
    for odd, plain in (("-1", True), ("01", False), ("1_0", False), ("٣", False), ("9" * 19, False)):
        assert ids_of(["3", odd], tmp_path).is_plain == plain
    again = NodeIds.of_record(ids.record(), tmp_path)
    assert (again.digest(), list(again.batches())) == (ids.digest(), list(ids.batches()))


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.decimal128(12, 2)])
def test_numbers_of_every_type_are_one_id(tmp_path: Path, kind: Any) -> None:
    """1, "1" and "1.0" are one id, and are given out as a number."""
    cells = pa.array(["7.0", " 1 ", "5"]) if kind == pa.string() else pa.array(list(map(Decimal, (7, 1, 5)))).cast(kind)
    ids = ids_of(cells, tmp_path)
    assert mapped(ids, ["7", "5.00"], ["1", "7"], tmp_path, None) == [(0, 1), (2, 0)]
    assert ids.array().tolist() == [7, 1, 5]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), LETTERS, st.from_regex(r"\A-?[0-9]{1,20}\.0{0,2}\Z")), max_size=8))
def test_cells_are_normalised_as_one_by_one(cells: list[str | None]) -> None:
    found = texts(pa.array(cells, pa.string()), "id", str).to_pylist()
    assert found == [None if cell is None else word_of(cell) or None for cell in cells]


@pytest.mark.parametrize("room", [None, 200])
@pytest.mark.parametrize(
    ("cells", "words", "count"),
    [
        (["ann", "bob", "ann", "cid", "bob", "ann"], "nodes: row 3: .* unique ids, got 'ann' again .first in row 1", 3),
        (["ann", None, "cid", ""], "nodes: row 2: .* must hold an id, got an empty cell", 2),
    ],
)
def test_ids_that_name_nobody_or_two(
    tmp_path: Path, room: int | None, cells: list[Any], words: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PIECE", 2)
    import re

    findings = Findings()
    NodeIds.read(FrameTable("nodes", pa.table({"id": cells})), "id", findings, tmp_path, room)
    (problem,) = findings.problems
    assert re.search(words, problem.words)
    assert problem.count == count
