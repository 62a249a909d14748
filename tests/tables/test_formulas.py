"""Formulas in ids, classes and titles: no spreadsheet runs what is written, and the tool reads back what it was given."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import caribou as cb
from caribou.cli.output import write_pieces
from caribou.graph import Graph
from caribou.model.frames import predictions_tables
from caribou.tables.formulas import escaped, unescaped, unescaped_column
from caribou.tables.ids import NodeIds
from caribou.tables.inspect import Findings
from caribou.tables.sources import open_table
from cli_support import caribou

SIGNS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
FORMULAS = ["=cmd|' /C calc'!A0", "+1+2", "-2+3", "@SUM(A1)", "'=a", "''+b", "＝1+2", "-a", "+a", "=", "-5e3x"]
PLAIN = ["ann", "-5", "+49.5", "-1e3", "'quoted'", "a=b", "5", "'", ""]


@given(st.text(alphabet=f"'{SIGNS}a5.e ", max_size=8))
def test_what_is_written_is_no_formula_and_comes_back(text: str) -> None:
    written = escaped(text)
    assert unescaped(written) == text
    assert written[:1] not in set(SIGNS) or float(written) == float(text), "a number at most"
    column = pa.array([written, None, "ann"], pa.string())
    assert unescaped_column(column).to_pylist() == [text, None, "ann"]


def test_cells_that_are_no_formula_stay() -> None:
    assert [escaped(cell) for cell in [*PLAIN, 5, None]] == [*PLAIN, 5, None]
    assert [escaped(cell) for cell in FORMULAS] == [f"'{cell}" for cell in FORMULAS]


def cells_of(path: Path) -> list[str]:
    with open(path, newline="", encoding="utf-8") as file:
        return [cell for row in csv.reader(file) for cell in row]


def test_predictions_of_hostile_names(tmp_path: Path) -> None:
    ids = [f"{text}{k:02d}" for k, text in enumerate([*FORMULAS, "\tx", "\rx"] * 4)]
    n = len(ids)
    graph = Graph.from_edges(
        np.random.default_rng(0).normal(size=(n, 3)),
        [range(n - 1), range(1, n)],
        [k % 2 for k in range(n)],
        class_names=FORMULAS[:2],
        node_ids=ids,
        id_title="=HYPERLINK(1)",
    ).random_split(0)
    cb.Model("mlp", cb.Budget(4), hidden=[4]).fit(graph).save(tmp_path / "run")
    for command in ("predict", "embed"):
        caribou(command, tmp_path / "run", "--out", tmp_path / f"{command}.csv", code=0 if command == "predict" else 2)
    out = tmp_path / "predict.csv"
    assert not [cell for cell in cells_of(out) if cell[:1] in set(SIGNS)]
    table = open_table(out)
    assert table.titles == ["=HYPERLINK(1)", "class", "probability", "flagged", *(f"p_{name}" for name in FORMULAS[:2])]
    (piece,) = table.pieces(n, ["=HYPERLINK(1)", "class"])
    assert piece.batch.column(0).to_pylist() == ids
    assert set(piece.batch.column(1).to_pylist()) <= set(FORMULAS[:2])
    read = NodeIds.read(table, "=HYPERLINK(1)", Findings(collect=False)).array().tolist()
    assert read == [name.strip() for name in ids], "blanks around ids mean nothing"
    caribou("predict", tmp_path / "run", "--out", tmp_path / "raw.csv", "--keep-formulas")
    assert [cell for cell in cells_of(tmp_path / "raw.csv") if cell in ids] == ids
    caribou("predict", tmp_path / "run", "--out", tmp_path / "p.parquet")
    assert open_table(tmp_path / "p.parquet").titles[0] == "=HYPERLINK(1)", "Parquet holds what it was given"


@pytest.mark.parametrize("keep", [False, True])
def test_tables_that_were_written_are_read_as_tables(keep: bool, tmp_path: Path) -> None:
    """A file of predictions as the node table of the next graph."""
    ids = [name for name in FORMULAS if not keep or name not in ("'=a", "''+b")]
    tables = predictions_tables(np.full((len(ids), 2), 0.5), ["=x", "ok"], ids, "id", None)
    write_pieces(tables, tmp_path / "n.csv", keep)
    (tmp_path / "e.csv").write_text("a,b\n" + ",".join(f'"{escaped(name)}"' for name in ids[:2]) + "\n")
    graph = cb.read_graph(tmp_path / "e.csv", tmp_path / "n.csv", classes=["=x", "ok"])
    assert sorted(graph.node_ids.tolist()) == sorted(ids)
    assert (graph.num_edges, graph.feature_names) == (1, ("probability", "p_=x", "p_ok"))
