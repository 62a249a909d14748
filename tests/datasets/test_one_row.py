"""Node level: one row of a node table decides about its own node alone, whatever type a library gives its columns."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from caribou.datasets import read_graph
from caribou.errors import DataError
from caribou.graph import Graph
from caribou.tables.nodes import read_tables
from caribou.tables.queries import Query
from caribou.tables.read import Titles, divided
from caribou.tables.rules import ColumnRules

TITLES = ("id", "age", "kind", "label", "split")
CLASSES = ["0", "1", "9007199254740993"]  # the last one is no float
RULES = ColumnRules(
    unknown=["-1", "NA", "7.50", "true"],
    categories={"kind": ("1", "01", "2.5", "True", "2024-01-02", "9007199254740993")},
    fills={"age": "indicator", "kind": "indicator"},
    ranges={"age": (0, 100)},
)
NUMBERS = [-1, -1.0, 0, 1, 1.0, 7.5, 37, 0.1, 99.99999999999999]
WORDS = ["-1", "-1.0", " -1", "-0", "1", "1.0", " 1", "01", "7.5", "1e1", "37.123456789012345", "12345678901234567"]
ODD = [
    "NA",
    " NA ",
    "",
    " ",
    None,
    "True",
    "FALSE",
    True,
    False,
    "nan",
    "inf",
    "banana",
    "2024-01-02",
    "1_0",
    0.30000001,
]
PARTS = ["train", "val", "test"]
Row = list[Any]


def edges() -> pd.DataFrame:
    return pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 3]})


def as_text(cell: Any) -> str | None:
    return None if cell is None else str(cell)


def typed(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Columns as a library with one type for a column has them: text if a cell is text, else the numbers."""
    columns = dict(zip(TITLES, map(list, zip(*rows, strict=True)), strict=True))
    for title, cells in columns.items():
        kinds = {type(cell) for cell in cells if cell is not None}
        if len(kinds) > 1:
            columns[title] = [as_text(cell) for cell in cells]
    return columns


def from_csv(rows: Sequence[Row], folder: Path) -> Graph:
    edges().to_csv(folder / "edges.csv", index=False)
    with open(folder / "nodes.csv", "w", newline="") as file:
        csv.writer(file).writerows([TITLES, *rows])
    return read_graph(folder / "edges.csv", folder / "nodes.csv", classes=CLASSES, rules=RULES, unit="node")


def from_frame(nodes: Any) -> Graph:
    return Graph.from_tables(edges(), nodes, classes=CLASSES, rules=RULES, unit="node")


def from_sqlite(rows: Sequence[Row], folder: Path) -> Graph:
    file = folder / "bank.db"
    file.unlink(missing_ok=True)
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA synchronous = OFF")
    edges().to_sql("edges", connection, index=False)
    connection.execute(f"CREATE TABLE nodes ({', '.join(TITLES)})")
    connection.executemany(f"INSERT INTO nodes VALUES ({', '.join('?' * len(TITLES))})", rows)
    connection.commit()
    connection.close()
    tables = (Query(f"SELECT * FROM {word}", str(file), word) for word in ("edges", "nodes"))
    reading = read_tables(*tables, Titles(), "bank", classes=CLASSES, rules=RULES, unit="node")
    return divided(reading.require(), 0, "nodes")


SOURCES: dict[str, Callable[[Sequence[Row], Path], Graph]] = {
    "CSV": from_csv,
    "pandas": lambda rows, _: from_frame(pd.DataFrame(rows, columns=list(TITLES))),
    "polars": lambda rows, _: from_frame(pl.DataFrame(typed(rows))),
    "Arrow": lambda rows, _: from_frame(pa.table(typed(rows))),
    "SQLite": from_sqlite,
}


def of_each(graph: Graph) -> list[tuple[Any, ...]]:
    """Features, label and part of every node."""
    assert graph.labels is not None
    assert graph.split is not None
    part = {int(node): k for k in range(3) for node in (graph.split.train, graph.split.val, graph.split.test)[k]}
    return [(row.tobytes(), int(graph.labels[k]), part.get(k)) for k, row in enumerate(graph.features)]


@pytest.mark.parametrize("source", SOURCES)
def test_a_changed_row_changes_no_other_row(source: str, tmp_path: Path) -> None:
    rng, read = np.random.default_rng(7), 0
    for trial in range(32):
        # half of the tables hold numbers alone, so that one word changes the type of the whole column
        ages = NUMBERS if trial % 2 else NUMBERS + WORDS
        rows = [
            [k, ages[rng.integers(len(ages))], ages[rng.integers(len(ages))], rng.choice(CLASSES), PARTS[k % 3]]
            for k in range(12)
        ]
        before = of_each(SOURCES[source](rows, tmp_path))
        # a person's part may be empty, and no part may be
        cells = {1: ages + ODD, 2: ages + ODD, 3: [*CLASSES, *ODD], 4: [*PARTS, "", None, "NA"]}
        changed, title = int(rng.integers(12)), int(rng.integers(1, 5))
        rows[changed][title] = cells[title][rng.integers(len(cells[title]))]
        try:
            after = of_each(SOURCES[source](rows, tmp_path))
        except DataError:
            continue  # a word that no rule reads: there is no graph, and nothing is released
        read += 1
        for k in range(12):
            assert k == changed or before[k] == after[k], (trial, TITLES[title], rows[changed][title], rows[k])
    assert read > 16


@pytest.mark.parametrize("source", SOURCES)
def test_a_word_in_one_row_leaves_the_unknown_numbers_of_others_missing(source: str, tmp_path: Path) -> None:
    rows = [[k, -1.0 if k % 2 else 20.0 + k, 1, "0", PARTS[k % 3]] for k in range(12)]
    before = SOURCES[source](rows, tmp_path)
    rows[0][1] = "NA"
    after = SOURCES[source](rows, tmp_path)
    assert before.features[1:].tobytes() == after.features[1:].tobytes()
    assert after.features[:, 1].tolist() == [1.0] + [float(k % 2) for k in range(1, 12)]


@pytest.mark.parametrize("source", [source for source in SOURCES if source != "pandas"])  # a frame of pandas has floats
def test_an_empty_cell_in_one_row_leaves_the_large_numbers_of_others_whole(source: str, tmp_path: Path) -> None:
    rows: list[Row] = [[k, 20, 2**53 + 1, 2**53 + 1, PARTS[k % 3]] for k in range(12)]
    rows[0][2:4] = None, None
    graph = SOURCES[source](rows, tmp_path)
    assert graph.labels.tolist() == [-1] + [2] * 11
    assert graph.features[:, graph.feature_names.index("kind=9007199254740993")].tolist() == [0.0] + [1.0] * 11
