"""Tables of downstream tasks: what they mean, and errors with file, row, column and rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from caribou.datasets.task_tables import read_graph_labels, read_groups, read_pairs
from caribou.errors import DataError

IDS = ("ann", "bob", "cid", "7")


@pytest.fixture
def table(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        (tmp_path / "table.csv").write_text(text)
        return tmp_path / "table.csv"

    return write


def test_pairs_with_and_without_labels(table: Callable[[str], Path], tmp_path: Path) -> None:
    found = read_pairs(table("from,to\nann,7\n cid ,bob\n"), IDS)
    assert found.pairs.tolist() == [[0, 2], [3, 1]]
    assert found.titles == ("from", "to")
    assert found.labels is None
    labelled = read_pairs(table("Label,from,to,note\n1,ann,bob,x\n0,bob,cid,y\n"), IDS)
    assert labelled.pairs.tolist() == [[0, 1], [1, 2]]
    assert labelled.labels is not None
    assert labelled.labels.tolist() == [1, 0]
    pd.DataFrame({"a": [7], "b": ["ann"]}).to_parquet(tmp_path / "pairs.parquet")
    assert read_pairs(tmp_path / "pairs.parquet", IDS).pairs.tolist() == [[3], [0]], "the number 7 is the node 7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("from,to\nann,zoe\n", "table.csv: row 1: column 'to' must hold a node of the run, got 'zoe'"),
        ("from,to\nann,bob\nann,\n", "table.csv: row 2: column 'to' must not be empty, got an empty cell"),
        ("from,to\nann,ann\n", "table.csv: row 1: a pair must be of two different nodes, got 'ann' twice"),
        ("from,label\nann,1\n", "table.csv: must hold two columns of node ids, found 'from', 'label'"),
        ("from,to,label\nann,bob,2\n", "table.csv: row 1: column 'label' must be 0 (not joined) or 1, got '2'"),
    ],
)
def test_bad_pairs(text: str, message: str, table: Callable[[str], Path]) -> None:
    with pytest.raises(DataError) as caught:
        read_pairs(table(text), IDS)
    assert str(caught.value).endswith(message)


def test_groups(table: Callable[[str], Path]) -> None:
    found = read_groups(table("node,hall\ncid,west\nann,east\n7,west\n"), IDS)
    assert found.names == ("west", "east")
    assert found.groups.tolist() == [1, -1, 0, 0]


def test_labels_of_graphs(table: Callable[[str], Path]) -> None:
    labels, classes = read_graph_labels(table("hall,label\neast,quiet\nnorth,\nwest,loud\n"), ["west", "north", "east"])
    assert classes == ("loud", "quiet")
    assert labels.tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node\nann\n", "must hold a column of node ids and one of graphs, found 'node'"),
        ("node,hall\nann,west\nann,east\n", "column 'node' must hold unique ids, got 'ann' again (first in row 1)"),
        ("node,hall\nzoe,west\n", "row 1: column 'node' must hold a node of the run, got 'zoe'"),
        ("node,hall\nann,\n", "row 1: column 'hall' must not be empty, got an empty cell"),
    ],
)
def test_bad_groups(text: str, message: str, table: Callable[[str], Path]) -> None:
    with pytest.raises(DataError) as caught:
        read_groups(table(text), IDS)
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hall\nwest\n", "must hold a column of graphs and one of labels, found 'hall'"),
        ("hall,label\nsouth,a\n", "row 1: column 'hall' must name a graph of the groups, got 'south'"),
        ("hall,label\nwest,a\nwest,b\n", "column 'hall' must hold unique ids, got 'west' again (first in row 1)"),
    ],
)
def test_bad_labels_of_graphs(text: str, message: str, table: Callable[[str], Path]) -> None:
    with pytest.raises(DataError) as caught:
        read_graph_labels(table(text), ["west", "east"])
    assert str(caught.value).endswith(message)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pairs\.txt: unknown ending '\.txt' of a table"):
        read_pairs(tmp_path / "pairs.txt", IDS)
    with pytest.raises(DataError, match=r"pairs\.csv: file not found"):
        read_pairs(tmp_path / "pairs.csv", IDS)
