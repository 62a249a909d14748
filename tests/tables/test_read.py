"""Frames of any library: one graph, one fingerprint, in any order of rows; and the next table read as the first one."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import caribou as cb
from caribou.errors import DataError, InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.tables.read import Roles, Titles
from caribou.tables.rules import ColumnRules
from table_support import RULES, bank, content

FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas with its own types": lambda frame: frame.convert_dtypes(),
    "polars": pl.from_pandas,
    "a lazy frame of polars": lambda frame: pl.from_pandas(frame).lazy(),
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "DuckDB": lambda frame: duckdb.from_arrow(pa.Table.from_pandas(frame, preserve_index=False)),
}


@pytest.fixture(scope="module")
def expected() -> bytes:
    return content(Graph.from_tables(*bank(), rules=RULES))


@pytest.mark.filterwarnings("ignore:.*are not used")
@pytest.mark.parametrize("library", FRAMES)
def test_every_library_gives_the_same_graph_in_any_order_of_rows(library: str, expected: bytes) -> None:
    edges, nodes = bank()
    for shuffled in (False, True):
        tables = [frame.sample(frac=1, random_state=3) if shuffled else frame for frame in (edges, nodes)]
        graph = Graph.from_tables(*(FRAMES[library](frame.reset_index(drop=True)) for frame in tables), rules=RULES)
        assert content(graph) == expected


@pytest.mark.filterwarnings("ignore:.*are not used")
def test_the_features_are_those_of_the_rules() -> None:
    graph = Graph.from_tables(*bank(), rules=RULES)
    row = graph.features[list(graph.node_ids).index("a07")]
    assert graph.feature_names == ("age", "income", "income=empty", "segment=business", "segment=private")
    assert row.tolist() == pytest.approx([(27 - 18) / (95 - 18), 0.5, 1, 1, 0])
    assert graph.column_rules == RULES, "nothing was learned"


@pytest.mark.filterwarnings("ignore:.*are not used")
def test_what_edge_level_learned_reads_the_next_table() -> None:
    edges, nodes = bank()
    rules = ColumnRules(
        unknown=["unknown"],
        drop_unknown_ids=True,
        ignore=["opened"],
        categories={"segment": None},
        fills={"*": "indicator"},
    )
    first = Graph.from_tables(edges, nodes, rules=rules)
    assert first.column_rules is not None
    assert first.column_rules.learned_categories == {"segment": ("business", "private")}
    mean = np.float32(nodes["income"].mean())
    assert first.column_rules.learned_fills["income"] == mean
    later = nodes.assign(segment="student", income=np.nan)
    second = Graph.from_tables(edges, later, rules=first.column_rules)
    assert second.feature_names == first.feature_names
    assert second.features[:, first.feature_names.index("income")].tolist() == [mean] * len(later)
    unseen = [first.feature_names.index(f"segment={word}") for word in ("business", "private")]
    assert not second.features[:, unseen].any(), "an unseen category is 0 everywhere"
    with pytest.raises(InputError, match="numeric columns must have a declared range at node level"):
        first.with_classes(["fraud", "ok"]).sizes(cb.PrivacyUnit.NODE)


@pytest.mark.filterwarnings("ignore:.*are not used")
def test_a_run_keeps_its_rules_and_refuses_other_ones(tmp_path) -> None:
    edges, nodes = bank()
    graph = Graph.from_tables(edges, nodes, rules=RULES, classes=["fraud", "ok"], unit="node")
    model = cb.Model("mlp-dp", cb.Budget(4, 1e-5, "node")).fit(graph, noise=NoiseSource.seeded(1))
    model.save(tmp_path / "run")
    again = cb.load(tmp_path / "run")
    assert again.column_rules == graph.column_rules
    parameters = again.certificate.public_parameters
    assert parameters["column_rules"]["ranges"] == {"age": [18.0, 95.0]}
    assert cb.verify(cb.Certificate.load(tmp_path / "run" / "certificate.json")).checks
    other = ColumnRules(**{**RULES.to_dict(), "ranges": {"age": (0, 10)}})
    wrong = Graph.from_tables(edges, nodes, rules=other, classes=["fraud", "ok"])
    with pytest.raises(InputError, match="must be read by the column rules of the model"):
        again.release(wrong)


@pytest.mark.filterwarnings("ignore:.*are not used")
def test_a_person_without_data_is_a_row_of_zeros_whatever_is_filled() -> None:
    edges, nodes = bank()
    nodes["age"] = nodes["age"].astype(object)
    nodes.loc[3, ["age", "income", "segment"]] = None
    assert not Graph.from_tables(edges, nodes, rules=RULES).features[3].any()


def test_cells_of_databases() -> None:
    ids = [uuid.UUID(int=k) for k in range(12)]
    nodes = pd.DataFrame({"id": ids, "x": [decimal.Decimal(k) / 4 for k in range(12)]})
    edges = pd.DataFrame({"a": ids[:2], "b": ids[1:3]})
    graph = Graph.from_tables(edges, nodes)
    assert graph.features.ravel().tolist() == [k / 4 for k in range(12)]
    whole = pd.DataFrame({"id": [decimal.Decimal("1.0"), decimal.Decimal(2)], "x": [1, 2]})
    assert Graph.from_tables(pd.DataFrame({"a": ["1.0"], "b": [2.0]}), whole).num_edges == 1
    dates = nodes.assign(day=datetime.date(2024, 1, 2))
    with pytest.raises(
        DataError, match=r"column 'day' must hold numbers, got the date '2024-01-02' .* give --ignore day"
    ):
        Graph.from_tables(edges, dates)


def test_y_is_the_label_unless_it_is_a_place() -> None:
    def roles(*titles: str, label: str | None = None) -> Roles:
        return Roles.of(titles, Titles(label=label), ColumnRules(), "nodes")

    assert (roles("id", "a", "y").label, roles("id", "a", "y").features) == ("y", ("a",))
    assert (roles("id", "X", "Y").label, roles("id", "X", "Y").features) == (None, ("X", "Y"))
    assert roles("id", "x", "y", "class").label == "class"
    assert roles("id", "x", "y", label="y").features == ("x",)


def test_what_is_no_frame_is_refused_by_its_type() -> None:
    with pytest.raises(
        InputError, match=r"edges must be a frame of pandas, polars, Arrow or DuckDB, got builtins.dict"
    ):
        Graph.from_tables({"a": [1]}, pd.DataFrame({"id": [1]}))
    with pytest.raises(DataError, match="nodes: must hold at least one node"):
        Graph.from_tables(pd.DataFrame({"a": [], "b": []}), pd.DataFrame({"id": []}))
    rules = ColumnRules(ranges={"agee": (0, 1)})
    with pytest.raises(
        DataError, match=r"rules must name columns of the table, got 'agee' \(--range\), found 'id', 'age'"
    ):
        Graph.from_tables(pd.DataFrame({"a": [1], "b": [1]}), pd.DataFrame({"id": [1], "age": [3]}), rules=rules)


def test_edge_level_warns_of_features_that_speak_of_edges() -> None:
    graph = cb.datasets.load("csbm:nodes=60,features=4", seed=1)
    named = cb.Graph.from_edges(
        graph.features,
        graph.edge_index,
        graph.labels,
        graph.split,
        feature_names=["age", "degree", "b", "n_links"],
        classes=4,
    )
    with pytest.warns(UserWarning, match=r"features 'degree', 'n_links' may be computed from edges.*ignore=.'degree'"):
        model = cb.Model("mlp", cb.Budget(4, 1e-5, "edge"), hidden=[4]).fit(named)
    (stated,) = [a for a in model.certificate.assumptions if a.name.value == "features without edges"]
    assert stated.parameters == {"columns": 4, "names": ["age", "degree", "b", "n_links"]}
    assert "'n_links'" in stated.statement


@pytest.mark.parametrize("unit", [None, "node"])
def test_a_misspelt_class_is_said_where_its_labels_are_lost(unit: str | None) -> None:
    nodes = pd.DataFrame({"id": range(40), "x": 0.5, "label": ["a"] * 38 + ["bb"] * 2})
    edges = pd.DataFrame({"source": [1], "target": [2]})
    rules = ColumnRules(ranges={"x": (0, 1)})
    with pytest.warns(UserWarning, match="2 labels are none of the declared classes, such as 'bb'"):
        graph = Graph.from_tables(edges, nodes, classes=["a", "b"], rules=rules, unit=unit)
    assert graph.class_counts == {"a": 38, "b": 0}
