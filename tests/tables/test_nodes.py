"""One reader for every door: the same graph, the same errors and the same row numbers, in memory and out of core."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import caribou as cb
from caribou.engines.training_tables import TrainingTables, training_graph
from caribou.errors import DataError
from caribou.graph import Graph
from caribou.tables import nodes as module
from caribou.tables.ids import NodeIds
from caribou.tables.nodes import read_tables
from caribou.tables.queries import Query
from caribou.tables.read import Titles
from caribou.tables.rules import ColumnRules
from caribou.tables.sources import FrameTable, Source
from table_support import RULES, content
from table_support import bank as small_bank

NODES, KNOWN = 240, 200
TITLES = Titles(id="account", source="sender", target="receiver", label="kind")
BANK = ColumnRules(
    unknown=["?"],
    aliases={"PRIVATE": "private"},
    ignore=["name"],
    categories={"segment": None},
    fills={"income": "indicator", "age": 40, "segment": "indicator"},
    ranges={"age": (18, 95)},
    percent=["share"],
)
Frames = tuple[pd.DataFrame, pd.DataFrame]


def bank(ids: list[Any], nodes: int = NODES, edges: int = 1200) -> Frames:
    """Accounts in no order, with words and empty cells, and transfers between them."""
    rng = np.random.default_rng(3)
    kind = rng.integers(0, 2, nodes)
    accounts = pd.DataFrame(
        {
            "account": ids,
            "name": "nobody",
            "income": np.where(rng.random(nodes) < 0.1, np.nan, np.round(rng.normal(size=nodes) + kind, 3)),
            "age": [None if k % 17 == 0 else f"{20 + k % 90}" for k in range(nodes)],
            "share": [f"{k % 100} %" for k in range(nodes)],
            "segment": rng.choice(["private", "PRIVATE", "business", "?"], nodes),
            "kind": np.where(rng.random(nodes) < 0.2, "?", np.array(["ok", "fraud"])[kind]),
            "split": rng.choice(["train", "val", "test", ""], nodes, p=[0.5, 0.2, 0.2, 0.1]),
        }
    )
    u, v = rng.integers(0, nodes, (2, edges))
    names = np.array(ids, dtype=object)
    return pd.DataFrame({"note": "-", "sender": names[u], "receiver": names[v]}), accounts


def names() -> list[str]:
    return [f"acc-{k * 7919 % 1009:04d}" for k in range(NODES)]


# -- doors: the same two tables, each time from elsewhere ------------------------------------------------------------------


def files(ending: str) -> Callable[[Path, Frames], tuple[Source, Source]]:
    def door(folder: Path, tables: Frames) -> tuple[Source, Source]:
        for name, table in zip(("edges", "nodes"), tables, strict=True):
            path = folder / f"{name}.{ending}"
            table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
        return folder / f"edges.{ending}", folder / f"nodes.{ending}"

    return door


def folders(folder: Path, tables: Frames) -> tuple[Source, Source]:
    for name, table in zip(("edges", "nodes"), tables, strict=True):
        (folder / name).mkdir()
        for part in range(2):
            half = table.iloc[part::2].sample(frac=1, random_state=part)
            half.to_csv(folder / name / f"{part}.csv", index=False)
    return folder / "edges", folder / "nodes"


def objects(folder: Path, tables: Frames) -> tuple[Source, Source]:
    for path in files("csv")(folder, tables):
        fsspec.filesystem("memory").pipe(f"/doors/{Path(str(path)).name}", Path(str(path)).read_bytes())
    return "memory://doors/edges.csv", "memory://doors/nodes.csv"


def of_duckdb(folder: Path, tables: Frames) -> tuple[Source, Source]:
    with duckdb.connect(str(folder / "bank.duckdb")) as database:
        for name, table in zip(("edges", "nodes"), tables, strict=True):
            database.register("frame", pa.Table.from_pandas(table, preserve_index=False))
            database.execute(f"CREATE TABLE {name} AS FROM frame")
    return Query("FROM edges", str(folder / "bank.duckdb"), "edges"), Query(
        "FROM nodes", str(folder / "bank.duckdb"), "nodes"
    )


def of_sqlite(folder: Path, tables: Frames) -> tuple[Source, Source]:
    connection = sqlite3.connect(folder / "bank.db")
    for name, table in zip(("edges", "nodes"), tables, strict=True):
        table.to_sql(name, connection, index=False)
    connection.close()
    edges, nodes = (Query(f"SELECT * FROM {word}", str(folder / "bank.db"), word) for word in ("edges", "nodes"))
    return edges, nodes


def frames(folder: Path, tables: Frames) -> tuple[Source, Source]:
    return FrameTable("edges", tables[0]), FrameTable("nodes", tables[1])


DOORS = {
    "frames": frames,
    "csv": files("csv"),
    "parquet": files("parquet"),
    "folders": folders,
    "objects": objects,
    "duckdb": of_duckdb,
    "sqlite": of_sqlite,
}


def in_memory(edges: Source, nodes: Source, titles: Titles = TITLES, rules: ColumnRules = BANK) -> Graph:
    return read_tables(edges, nodes, titles, "bank", rules=rules).require()


def tables(edges: Source, nodes: Source, work: Path, **changes: Any) -> TrainingTables:
    given = {"edges": edges, "nodes": nodes, "titles": TITLES, "rules": BANK, "work": work, "name": "bank"}
    return TrainingTables(**{**given, **changes})


@pytest.fixture(scope="module")
def expected() -> Graph:
    edges, nodes = bank(names())
    return in_memory(FrameTable("edges", edges), FrameTable("nodes", nodes))


@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_one_graph_in_memory_and_in_blocks(
    door: str, expected: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROWS", 64)
    sources = DOORS[door](tmp_path, bank(names()))
    (tmp_path / "work").mkdir()
    wanted = content(expected)
    assert content(in_memory(*sources)) == wanted
    for groups in (1, 5):
        monkeypatch.setattr(NodeIds, "groups", lambda self, room, groups=groups: groups if self.path else 1)
        with training_graph(tables(*sources, tmp_path / "work", engine="outofcore", memory=10**9)) as graph:
            assert content(graph) == wanted
            for field in ("feature_names", "class_names", "column_rules", "id_title", "classes_declared"):
                assert getattr(graph, field) == getattr(expected, field), field
    assert expected.feature_names == (
        *("income", "income=empty", "age", "share"),
        *("segment=business", "segment=private", "segment=empty"),
    )
    assert not list((tmp_path / "work").iterdir())


Change = Callable[[pd.DataFrame, pd.DataFrame], Frames]


def node(**cells: object) -> Change:
    """A change of cells of the second row of nodes, or a new column."""

    def change(edges: pd.DataFrame, nodes: pd.DataFrame) -> Frames:
        nodes = nodes.astype(object)
        for title, cell in cells.items():
            if title not in nodes:
                nodes[title] = 1.0
                nodes[title] = nodes[title].astype(object)
            nodes.loc[1, title] = cell
        return edges, nodes

    return change


def edge(**cells: object) -> Change:
    def change(edges: pd.DataFrame, nodes: pd.DataFrame) -> Frames:
        edges = edges.astype(object)
        for title, cell in cells.items():
            edges.loc[1, title] = cell
        return edges, nodes

    return change


def column(title: str, cells: Callable[[int], object]) -> Change:
    return lambda edges, nodes: (edges, nodes.assign(**{title: [cells(k) for k in range(len(nodes))]}))


REFUSED: dict[str, tuple[Change, str, str]] = {
    "unknown end": (
        edge(sender="zoe"),
        "edges: row 2: column 'sender' must hold an id of the node table, got 'zoe'",
        "--drop-unknown-ids",
    ),
    "empty end": (
        edge(receiver=None),
        "edges: row 2: column 'receiver' must hold an id of the node table, got an empty cell",
        "--drop-unknown-ids",
    ),
    "empty id": (
        node(id=None),
        "nodes: row 2: column 'id' must hold an id, got an empty cell",
        "--column id=TITLE if ids are in another column",
    ),
    "repeated id": (
        node(id="a00"),
        "nodes: row 2: column 'id' must hold unique ids, got 'a00' again (first in row 1)",
        "--column id=TITLE if ids are in another column",
    ),
    "other ids": (
        column("id", lambda k: f"n{k}x"),
        "edges: row 1: edges must join ids of the node table, got none that does: column 'sender' holds 'a00'",
        "--column id=TITLE, source=TITLE",
    ),
    "empty cell": (
        node(age=None),
        "nodes: row 2: column 'age' must hold numbers, got an empty cell",
        "--fill age=indicator or --fill age=VALUE or --ignore age",
    ),
    "word": (
        node(age="old"),
        "nodes: row 2: column 'age' must hold numbers, got 'old'",
        "--unknown old or --ignore age",
    ),
    "no value": (
        node(age="n/a"),
        "nodes: row 2: column 'age' must hold numbers, got 'n/a'",
        "--unknown n/a or --ignore age",
    ),
    "comma": (
        node(age="1,5"),
        "nodes: row 2: column 'age' must hold numbers, got '1,5'",
        "--decimal , or --ignore age",
    ),
    "either mark": (
        node(age="1,500"),
        "nodes: row 2: column 'age' must hold numbers, got '1,500'",
        "--decimal , or --decimal . or --ignore age",
    ),
    "percent": (
        node(age="15 %"),
        "nodes: row 2: column 'age' must hold numbers, got '15 %'",
        "--percent age or --ignore age",
    ),
    "date": (node(age="2024-01-02"), "nodes: row 2: column 'age' must hold numbers, got the date '2024-01-02'", ""),
    "two words": (
        column("note", lambda k: "x" if k < 3 else "y" if k < 6 else "1"),
        "nodes: row 1: column 'note' must hold numbers, got 'x'",
        "--unknown x --unknown y or --ignore note",
    ),
    "infinite": (
        node(score="inf"),
        "nodes: row 2: column 'score' must hold finite numbers, got inf",
        "--range score=LOW:HIGH or --ignore score",
    ),
    "too large": (
        node(score="1e300"),
        "nodes: row 2: column 'score' must hold numbers of at most 3.4e+38 in size, got 1e+300",
        "--range score=LOW:HIGH or --ignore score",
    ),
    "names": (
        column("city", lambda k: f"town {k}"),
        "nodes: row 1: column 'city' must hold numbers, got 'town 0'",
        "--ignore city",
    ),
    "kinds": (
        column("flag", lambda k: ("yes", "no", "?")[k % 3]),
        "nodes: row 1: column 'flag' must hold numbers, got 'yes'",
        "--category flag or --ignore flag",
    ),
    "two spellings": (
        node(label="FRAUD"),
        "nodes: row 2: column 'label' must spell a class in one way, got 'FRAUD' beside 'fraud'",
        "--alias FRAUD=fraud or --classes FRAUD,fraud,ok",
    ),
    "no label": (
        node(label="None"),
        "nodes: row 2: column 'label' must hold classes, got 'None', which looks like no label",
        "--unknown None or --classes None,fraud,ok",
    ),
    "numbers as labels": (
        column("label", lambda k: f"{k}.5"),
        "nodes: row 1: column 'label' must hold classes, got '0.5'",
        "--column label=TITLE or --classes a,b,c",
    ),
    "no labels": (
        column("label", lambda k: "unknown"),
        "nodes: column 'label' must hold at least one label, got empty cells only",
        "--ignore label",
    ),
    "split": (
        column("split", lambda k: "dev"),
        "nodes: row 1: column 'split' must be train, val or test, got 'dev'",
        "--ignore split",
    ),
    "name in use": (
        column("segment=private", lambda k: 1),
        "nodes: row 1: feature names must differ, got 'segment=private' twice: once from column 'segment=private'",
        "--ignore segment=private",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_every_door_refuses_in_the_same_words(case: str, tmp_path: Path) -> None:
    """With the same row. Names of files and the like are those of the door."""
    change, words, flags = REFUSED[case]
    rules = replace(RULES, drop_unknown_ids=False)
    edges, nodes = small_bank()
    changed = change(edges.replace("x99", "a01"), nodes.astype({"age": object}))
    for door in ("frames", "csv", "sqlite", "parquet"):
        folder = tmp_path / door
        folder.mkdir()
        if door == "parquet":  # its columns are of one type
            changed = (changed[0], changed[1].map(lambda cell: None if pd.isna(cell) else str(cell)))
        sources = DOORS[door](folder, changed)
        with pytest.raises(DataError) as whole:
            in_memory(*sources, Titles(), rules)
        with (
            pytest.raises(DataError) as streamed,
            training_graph(tables(*sources, folder, titles=Titles(), rules=rules)),
        ):
            pass
        for refused in (whole, streamed):
            said = str(refused.value)
            for name in (f"{folder}/", ".csv", ".parquet", " query"):
                said = said.replace(name, "")
            assert words in said, door
            assert flags in said, door


def test_problems_of_all_pieces_are_listed_as_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS", 3)
    words = np.where(np.arange(20) % 4 == 2, [f"word {k // 8}" for k in range(20)], "1")
    infinite = np.where(np.arange(20) > 11, np.inf, 1.0)
    empty = pd.Series(np.where(np.arange(20) % 6 == 5, np.nan, 2.0)).astype("Int64")
    nodes = pd.DataFrame(
        {"id": range(20), "w": words, "i": infinite, "e": empty, "c": "a", "c=a": 1, "label": ["a", "b"] * 10}
    )
    edges, rules = pd.DataFrame({"source": [0], "target": [1]}), ColumnRules(categories={"c": None})
    sources = frames(tmp_path, (edges, nodes))
    with pytest.raises(DataError) as whole:
        in_memory(*sources, Titles(), rules)
    assert "4 places" in str(whole.value)
    assert "(5 in all)" in str(whole.value)
    with pytest.raises(DataError) as streamed, training_graph(tables(*sources, tmp_path, titles=Titles(), rules=rules)):
        pass
    found, wanted = (
        sorted(problem.split("; give")[0] for problem in re.split(r"\(\d\) ", str(refused.value))[1:])
        for refused in (streamed, whole)
    )
    assert found == wanted, "with their first rows and their counts"


def test_where_labels_are_not_read_y_is_a_feature(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,z,y,label,split\n0,1,2,a,train\n1,3,4,b,test\n")
    for titles, features in ((Titles(), ("z", "y")), (Titles(label="y"), ("z", "label"))):
        assert module.open_nodes(tmp_path / "n.csv", titles, ColumnRules()).roles.features == features
    (tmp_path / "n.csv").write_text("id,z,y\n0,1,2\n1,3,4\n")
    (tmp_path / "e.csv").write_text("a,b\n0,1\n")
    (rows,) = module.open_nodes(tmp_path / "n.csv", Titles(), ColumnRules()).chunks(5)
    assert rows.tolist() == [[1, 2], [3, 4]]
    graph = in_memory(tmp_path / "e.csv", tmp_path / "n.csv", Titles(), ColumnRules())
    assert (graph.feature_names, graph.class_names) == (("z",), ("2", "4")), "where they are read, it is the label"


def test_numbers_as_ids_are_ordered_by_size_and_arrays_of_edges_are_row_numbers(tmp_path: Path) -> None:
    ids = [int(k) for k in np.random.default_rng(0).permutation(3 * NODES)[:NODES]]
    edges, nodes = bank(ids)
    sources = files("parquet")(tmp_path, (edges, nodes))
    place = {one: row for row, one in enumerate(ids)}
    np.save(tmp_path / "edges.npy", np.stack([edges[end].map(place) for end in ("sender", "receiver")]))
    wanted = content(in_memory(*sources))
    for edge_source, titles in (
        (sources[0], TITLES),
        (tmp_path / "edges.npy", replace(TITLES, source=None, target=None)),
    ):
        with training_graph(tables(edge_source, sources[1], tmp_path, titles=titles)) as graph:
            assert content(graph) == wanted
            assert graph.node_ids.tolist() == sorted(ids)


def with_prior(graph: Graph) -> Graph:
    rows = np.random.default_rng(1).dirichlet(np.ones(2), 2000)
    return graph.with_prior(rows[[int(name[-4:]) for name in graph.node_ids]])


def test_arrivals_are_known_by_their_ids_and_those_who_left_keep_their_places(tmp_path: Path) -> None:
    """The rows of both months are in no order, and some accounts were closed meanwhile."""
    edges, nodes = bank(names())
    before = nodes[:KNOWN].sample(frac=1, random_state=1)
    months = {}
    for month, people in (("before", before), ("now", nodes[20:].sample(frac=1, random_state=2))):
        there = edges.sender.isin(people.account) & edges.receiver.isin(people.account)
        (tmp_path / month).mkdir()
        months[month] = files("csv")(tmp_path / month, (edges[there], people))
    own = [in_memory(*months["before"])]
    kept = own[0].column_rules
    own.append(in_memory(*months["now"], rules=kept))
    with (
        training_graph(tables(*months["before"], tmp_path, engine="outofcore", memory=10**9)) as first,
        training_graph(tables(*months["now"], tmp_path, engine="outofcore", memory=10**9, rules=kept)) as grown,
    ):
        assert content(grown) == content(own[1])
        streamed = _extended(first, grown)
        trained = streamed._origin.graph
        assert isinstance(trained.features.base, np.memmap), "rows that were moved are in a file, too"
    whole = _extended(*own)
    assert {k: v.tobytes() for k, v in streamed.released.items()} == {k: v.tobytes() for k, v in whole.released.items()}
    assert streamed.node_ids == whole.node_ids
    assert streamed.node_ids[:KNOWN] == tuple(sorted(before.account))
    assert streamed.is_new.sum() == NODES - KNOWN


def _extended(first: Graph, grown: Graph) -> cb.Model:
    model = cb.Model("votes-edp", cb.Budget(float("inf"), 1e-5), max_rounds=2).fit(with_prior(first))
    return model.extend(with_prior(grown))


def test_too_many_words_are_refused_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS", 120)
    table = pa.table({"id": np.arange(NODES), "word": [f"w{k}" for k in range(NODES)], "label": ["a", "b"] * 120})
    pq.write_table(table, tmp_path / "nodes.parquet")
    np.save(tmp_path / "edges.npy", np.array([[0, 1]]))
    given = {"titles": Titles(), "rules": ColumnRules(categories={"word": None})}
    with (
        pytest.raises(DataError, match="column 'word' must hold at most 100 categories, got 120"),
        training_graph(tables(tmp_path / "edges.npy", tmp_path / "nodes.parquet", tmp_path, **given)),
    ):
        pass


def test_ids_labels_and_columns_that_look_alike(tmp_path: Path) -> None:
    """Zeros of text stay, numbers are ordered by size, and an index that pandas stored is no feature."""

    def read(edges: Any, nodes: Any) -> Graph:
        return in_memory(*frames(tmp_path, (pd.DataFrame(edges), pd.DataFrame(nodes))), Titles(), ColumnRules())

    zeros = read({"s": ["01"], "t": ["1"]}, {"id": ["01", "1"], "f": [5, 6]})
    assert zeros.node_ids.tolist() == ["01", "1"]
    assert (zeros.labels, zeros.split) == (None, None)
    assert read({"s": ["NA"], "t": ["null"]}, {"id": ["NA", "null"], "f": [5, 6]}).num_edges == 1
    for cells in ([1, 2], ["1", "2"], [1.0, 2.0], [" 1", "2 "]):
        assert read({"s": cells, "t": [2, 3]}, {"id": [1, 2, 3], "f": [1, 2, 3]}).num_edges == 2
    for cells, classes, labels in (
        (["10", "9", "-2", "9"], ("-2", "9", "10"), [2, 1, 0, 1]),
        (["1.0", "0", "0.0", "1"], ("0", "1"), [1, 0, 0, 1]),
        (["10", "9", "x"], ("10", "9", "x"), [0, 1, 2]),
        ([True, False, True], ("False", "True"), [1, 0, 1]),
        ([2, None, 1], ("1", "2"), [1, -1, 0]),
    ):
        graph = read({"s": [0], "t": [1]}, {"id": range(len(cells)), "y": pd.Series(cells, dtype=object)})
        assert (graph.class_names, graph.labels.tolist()) == (classes, labels)
    frame = pd.DataFrame({"id": [3, 1, 2], "f": [True, False, True]}, index=[7, 9, 8])
    frame.to_parquet(tmp_path / "a.parquet")
    frame.set_index("id").to_parquet(tmp_path / "b.parquet")
    edges = FrameTable("edges", pd.DataFrame({"s": [1], "t": [2]}))
    for name in ("a", "b"):
        graph = in_memory(edges, tmp_path / f"{name}.parquet", Titles(), ColumnRules())
        assert (graph.node_ids.tolist(), graph.features.tolist()) == ([1, 2, 3], [[0], [1], [1]])
