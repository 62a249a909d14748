"""Tables of any kind for training: the graph that is read into memory, from every source, with ids and by the rules of tables."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import caribou as cb
from caribou.engines import node_tables
from caribou.engines.ids import NodeIds
from caribou.engines.sources import fixed_table
from caribou.engines.training_tables import TrainingTables, training_graph
from caribou.errors import DataError, InputError, LedgerError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.ledger import Ledger
from caribou.tables.queries import StreamedQuery
from caribou.tables.read import Titles
from caribou.tables.rules import ColumnRules
from caribou.tables.sources import QueryTable

NODES, KNOWN = 240, 200
TITLES = Titles(id="account", source="sender", target="receiver", label="kind")
RULES = ColumnRules(
    unknown=["?"],
    aliases={"PRIVATE": "private"},
    ignore=["name"],
    categories={"segment": None},
    fills={"income": "indicator", "age": 40, "segment": "indicator"},
    ranges={"age": (18, 95)},
    percent=["share"],
)


def bank(ids: list[Any], nodes: int = NODES, edges: int = 1200) -> tuple[pd.DataFrame, pd.DataFrame]:
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
    return accounts, pd.DataFrame({"note": "-", "sender": names[u], "receiver": names[v]})


def names() -> list[str]:
    return [f"acc-{k * 7919 % 1009:04d}" for k in range(NODES)]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    """The graph in every kind of source, rows in an order of each one's own."""
    import duckdb
    import fsspec
    from deltalake import write_deltalake

    folder = tmp_path_factory.mktemp("sources")
    nodes, edges = bank(names())
    for name, table in (("nodes", nodes), ("edges", edges)):
        table.to_parquet(folder / f"{name}.parquet")
        table.to_csv(folder / f"{name}.csv", index=False)
        fsspec.filesystem("memory").pipe(f"/bank/{name}.csv", (folder / f"{name}.csv").read_bytes())
        for ending in ("csv", "parquet"):
            (folder / f"{ending}-{name}").mkdir()
        for part in range(2):
            half = table.iloc[part::2].sample(frac=1, random_state=part)
            half.to_csv(folder / f"csv-{name}/{part}.csv", index=False)
            half.to_parquet(folder / f"parquet-{name}/{part}.parquet")
    write_deltalake(folder / "delta", pa.Table.from_pandas(nodes, preserve_index=False))
    with duckdb.connect(str(folder / "bank.duckdb")) as database:
        for name in ("nodes", "edges"):
            database.execute(f"CREATE TABLE {name} AS FROM '{folder}/{name}.parquet'")
    found = [StreamedQuery(f"FROM {word}", str(folder / "bank.duckdb"), word) for word in ("edges", "nodes")]
    return {
        "parquet": (folder / "edges.parquet", folder / "nodes.parquet"),
        "csv": (folder / "edges.csv", folder / "nodes.csv"),
        "folders": (folder / "parquet-edges", folder / "csv-nodes"),
        "folders-2": (folder / "csv-edges", folder / "parquet-nodes"),
        "memory": ("memory://bank/edges.csv", "memory://bank/nodes.csv"),
        "delta": (f"file://{folder}/edges.parquet", folder / "delta"),
        "duckdb": (found[0], found[1]),
    }


def tables(edges: Any, nodes: Any, work: Path, **changes: Any) -> TrainingTables:
    given = {"edges": edges, "nodes": nodes, "titles": TITLES, "rules": RULES, "work": work, "name": "bank"}
    return TrainingTables(**{**given, **changes})


def in_memory(edges: Path, nodes: Path, rules: ColumnRules = RULES) -> Graph:
    columns = {f"{role}_column": title for role, title in vars(TITLES).items() if title is not None}
    return cb.read_graph(edges, nodes, rules=rules, **columns)


def with_prior(graph: Graph) -> Graph:
    rows = np.random.default_rng(1).dirichlet(np.ones(2), 2000)
    return graph.with_prior(rows[[int(name[-4:]) for name in graph.node_ids]])


def fitted(graph: Graph) -> cb.Model:
    model = cb.Model("votes-edp", cb.Budget(2, 1e-5), max_rounds=2)
    return model.fit(with_prior(graph), noise=NoiseSource.keyed(b"k" * 32))


def released(model: cb.Model) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.released.items()}


@pytest.mark.parametrize("buckets", [1, 5])
def test_every_source_gives_the_graph_and_the_bytes_of_memory(
    sources: dict[str, tuple[Any, Any]], tmp_path: Path, buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NodeIds, "buckets", lambda self, memory: buckets)
    monkeypatch.setattr(node_tables, "_ROWS", 64)
    memory = in_memory(*sources["parquet"])
    wanted = released(fitted(memory))
    assert memory.feature_names == (
        *("income", "income=empty", "age", "share"),
        *("segment=business", "segment=private", "segment=empty"),
    )
    chosen = sources if buckets == 1 else {"csv": sources["csv"]}
    for name, (edges, nodes) in chosen.items():
        engine = {"engine": "outofcore", "memory": 10**9} if name in ("csv", "duckdb") else {"workers": 1}
        with training_graph(tables(edges, nodes, tmp_path, **engine)) as graph:
            assert tuple(graph.content()) == tuple(memory.content()), f"{name}: one graph has one fingerprint"
            assert np.array_equal(graph.features, memory.features)
            assert np.array_equal(graph.node_ids, memory.node_ids)
            assert np.array_equal(graph.labels, memory.labels)
            for ours, theirs in zip(vars(graph.split).values(), vars(memory.split).values(), strict=True):
                assert np.array_equal(ours, theirs)
            for field in ("feature_names", "class_names", "column_rules", "id_title", "classes_declared"):
                assert getattr(graph, field) == getattr(memory, field), (name, field)
            if name in ("csv", "duckdb"):
                model = fitted(graph)
                assert released(model) == wanted
                assert model.node_ids == tuple(sorted(names()))
        assert not list(tmp_path.iterdir())


def test_numbers_as_ids_are_ordered_by_size_and_arrays_of_edges_are_row_numbers(tmp_path: Path) -> None:
    ids = [int(k) for k in np.random.default_rng(0).permutation(3 * NODES)[:NODES]]
    nodes, edges = bank(ids)
    nodes.to_parquet(tmp_path / "nodes.parquet")
    edges.to_parquet(tmp_path / "edges.parquet")
    place = {one: row for row, one in enumerate(ids)}
    np.save(tmp_path / "edges.npy", np.stack([edges[end].map(place) for end in ("sender", "receiver")]))
    memory = in_memory(tmp_path / "edges.parquet", tmp_path / "nodes.parquet")
    for name, titles in (("edges.parquet", TITLES), ("edges.npy", replace(TITLES, source=None, target=None))):
        with training_graph(tables(tmp_path / name, tmp_path / "nodes.parquet", tmp_path, titles=titles)) as graph:
            assert tuple(graph.content()) == tuple(memory.content())
            assert graph.node_ids.tolist() == sorted(ids)


def test_arrivals_are_known_by_their_ids_and_those_who_left_keep_their_places(tmp_path: Path) -> None:
    """The rows of both months are in no order, and some accounts were closed meanwhile."""
    nodes, edges = bank(names())
    before = nodes[:KNOWN].sample(frac=1, random_state=1)
    now = nodes[20:].sample(frac=1, random_state=2)
    months = {}
    for month, people in (("before", before), ("now", now)):
        there = edges.sender.isin(people.account) & edges.receiver.isin(people.account)
        people.to_csv(tmp_path / f"{month}.csv", index=False)
        edges[there].to_csv(tmp_path / f"edges-{month}.csv", index=False)
        months[month] = (tmp_path / f"edges-{month}.csv", tmp_path / f"{month}.csv")
    kept = in_memory(*months["before"]).column_rules
    own = [in_memory(*months["before"]), in_memory(*months["now"], rules=kept)]
    with (
        training_graph(tables(*months["before"], tmp_path, engine="outofcore", memory=10**9)) as first,
        training_graph(tables(*months["now"], tmp_path, engine="outofcore", memory=10**9, rules=kept)) as grown,
    ):
        assert tuple(grown.content()) == tuple(own[1].content())
        streamed = _extended(first, grown)
        in_blocks = streamed._origin.graph
        assert isinstance(in_blocks.features.base, np.memmap), "rows that were moved are in a file, too"
    whole = _extended(*own)
    assert released(streamed) == released(whole)
    assert streamed.node_ids == whole.node_ids
    assert streamed.node_ids[:KNOWN] == tuple(sorted(before.account))
    assert streamed.is_new.sum() == NODES - KNOWN


def _extended(first: Graph, grown: Graph) -> cb.Model:
    model = cb.Model("votes-edp", cb.Budget(float("inf"), 1e-5), max_rounds=2).fit(with_prior(first))
    return model.extend(with_prior(grown))


def test_a_ledger_knows_the_graph_of_ids_again(sources: dict[str, tuple[Any, Any]], tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for name in ("bank", "another name"):
        ledger.set_budget(name, cb.Budget(9, 1e-5))
    model = cb.Model("votes-edp", cb.Budget(2, 1e-5), max_rounds=1)
    with training_graph(tables(*sources["csv"], tmp_path)) as graph:
        model.fit(with_prior(graph), ledger=ledger)
    with pytest.raises(LedgerError, match="known to this ledger as 'bank'"):
        model.fit(with_prior(in_memory(*sources["parquet"])).renamed("another name"), ledger=ledger)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"nodes": {"account": ["acc-0000"] * 2}},
            r"nodes\.parquet: row 2: column 'account' must hold unique ids, got 'acc-0000' again \(first in row 1\)",
        ),
        ({"nodes": {"account": [None]}}, r"nodes\.parquet: row 1: column 'account' must hold an id, got an empty cell"),
        (
            {"edges": {"receiver": ["zoe"]}},
            r"row 1: column 'receiver' must hold an id of the node table, got 'zoe'; give --drop-unknown-ids",
        ),
        ({"rules": {"ignore": ["nobody"]}}, r"rules must name columns of the table, got 'nobody' \(--ignore\)"),
        ({"rules": {"fills": {"kind": 1}}}, r"rules must name columns of features, got the label column 'kind'"),
        ({"titles": {"id": "konto"}}, r"id column 'konto' is missing, found .* \(--column id=TITLE\)"),
        ({"titles": {"source": "from"}}, r"source column 'from' is missing, found .* \(--column source=TITLE\)"),
        ({"rules": {"percent": []}}, r"row 1: column 'share' must hold plain numbers, got '0 %'.*--percent share"),
        ({"rules": {"fills": {}}}, r"row \d+: column 'income' must hold numbers, got an empty cell.*--fill income=ind"),
        (
            {"rules": {"unknown": []}},
            r"column 'kind' must hold classes, got '\?', which looks like no label.*--unknown",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_the_flag_that_mends_it(
    tmp_path: Path, change: dict[str, dict[str, Any]], words: str
) -> None:
    for name, table in zip(("nodes", "edges"), bank(names()), strict=True):
        for title, cells in change.get(name, {}).items():
            table.loc[: len(cells) - 1, title] = cells
        table.to_parquet(tmp_path / f"{name}.parquet")
    rules = replace(RULES, **change.get("rules", {}))
    given = {"rules": rules, "titles": replace(TITLES, **change.get("titles", {}))}
    with (
        pytest.raises((DataError, InputError), match=words),
        training_graph(tables(tmp_path / "edges.parquet", tmp_path / "nodes.parquet", tmp_path, **given)),
    ):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"nodes.parquet", "edges.parquet"}


def test_edges_of_unknown_ids_are_left_out(tmp_path: Path) -> None:
    nodes, edges = bank(names())
    nodes.to_parquet(tmp_path / "nodes.parquet")
    edges.loc[:10, "receiver"] = "zoe"
    edges.to_parquet(tmp_path / "edges.parquet")
    rules = replace(RULES, drop_unknown_ids=True)
    memory = in_memory(tmp_path / "edges.parquet", tmp_path / "nodes.parquet", rules)
    with training_graph(tables(tmp_path / "edges.parquet", tmp_path / "nodes.parquet", tmp_path, rules=rules)) as graph:
        assert tuple(graph.content()) == tuple(memory.content())


def test_too_many_words_are_refused_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_tables, "_ROWS", 120)
    table = pa.table({"id": np.arange(NODES), "word": [f"w{k}" for k in range(NODES)], "label": ["a", "b"] * 120})
    pq.write_table(table, tmp_path / "nodes.parquet")
    np.save(tmp_path / "edges.npy", np.array([[0, 1]]))
    given = {"titles": Titles(), "rules": ColumnRules(categories={"word": None})}
    with (
        pytest.raises(DataError, match="column 'word' must hold at most 100 categories, got 120"),
        training_graph(tables(tmp_path / "edges.npy", tmp_path / "nodes.parquet", tmp_path, **given)),
    ):
        pass


def test_a_table_without_features_is_a_graph_without_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["b", "a"], "label": ["no", "yes"]}), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"source": ["a"], "target": ["b"]}), tmp_path / "edges.parquet")
    given = {"titles": Titles(), "rules": ColumnRules()}
    with training_graph(tables(tmp_path / "edges.parquet", tmp_path / "nodes.parquet", tmp_path, **given)) as graph:
        assert graph.num_features == 0
        assert graph.node_ids.tolist() == ["a", "b"]
        assert graph.labels.tolist() == [1, 0]


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
    whole = QueryTable.pieces
    monkeypatch.setattr(QueryTable, "pieces", lambda table, _, titles: whole(table, 2, titles))
    with sqlite3.connect(tmp_path / "bank.db") as connection:
        connection.execute("CREATE TABLE people (id, age)")
        connection.executemany("INSERT INTO people VALUES (?, 1.0)", [(cell,) for cell in cells])

    def fixed(query: str) -> Any:
        return fixed_table(QueryTable(StreamedQuery(query, str(tmp_path / "bank.db"), "nodes")), ["id"], 4, tmp_path)

    with pytest.raises(DataError, match=f"must be of one type in all rows, got {words}; give it one in the query"):
        fixed("SELECT id FROM people")
    assert fixed("SELECT coalesce(CAST(id AS TEXT), '') AS id FROM people").count() == 4
