"""Training from tables: every engine gives the bytes that the same tables give in memory, and leaves nothing behind."""

from __future__ import annotations

import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import caribou as cb
from caribou.engines import preparation
from caribou.engines.training_tables import TrainingTables, training_graph
from caribou.errors import BudgetExceeded, DataError, InputError, LedgerError, RunError
from caribou.graph import Graph
from caribou.graph.blocked import BlockedGraph
from caribou.machine import memory
from caribou.mechanisms.noise_source import NoiseSource
from caribou.models import encoder
from caribou.privacy.ledger import Ledger
from caribou.tables.rules import ColumnRules

NODES, COLUMNS = 2100, 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of three blocks: edges in both directions, repeated and with self loops; in Parquet and as arrays."""
    place, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    labels = rng.integers(0, 3, NODES)
    features = (np.eye(3)[labels] @ rng.normal(size=(3, COLUMNS)) * 0.2 + rng.normal(size=(NODES, COLUMNS))).astype(
        "f4"
    )
    u, v = rng.integers(0, NODES, (2, 9000))
    kept = (labels[u] == labels[v]) | (rng.random(9000) < 0.2)
    pairs = np.stack([u[kept], v[kept]], axis=1)
    pairs = np.concatenate([pairs, pairs[:300, ::-1], pairs[:50], [[7, 7]]])
    parts = rng.choice(3, NODES, p=[0.3, 0.1, 0.6])
    pd.DataFrame(pairs, columns=["source", "target"]).to_parquet(place / "edges.parquet")
    nodes = pd.DataFrame(features, columns=[f"f{k}" for k in range(COLUMNS)])
    nodes.insert(0, "id", np.arange(NODES))
    nodes["label"] = np.array(["no", "yes", "maybe"])[labels]
    nodes["split"] = np.array(["train", "val", "test"])[parts]
    nodes.to_parquet(place / "nodes.parquet")
    (place / "nodes").mkdir()
    for k in range(2):
        nodes[k * 1050 : (k + 1) * 1050].to_parquet(place / "nodes" / f"{k}.parquet")
    arrays = place / "arrays"
    arrays.mkdir()
    for name, array in (("edges", pairs), ("features", features), ("labels", labels), ("split", parts)):
        np.save(arrays / f"{name}.npy", array)
    return place


def tables(folder: Path, **changes: Any) -> TrainingTables:
    given = {"edges": folder / "edges.parquet", "nodes": folder / "nodes.parquet", "name": "edges", "work": folder}
    return TrainingTables(**{**given, **changes})


def with_prior(graph: Graph) -> Graph:
    """Class probabilities in the place of an encoder, which needs most of the time of a fit."""
    rows = np.random.default_rng(1).dirichlet(np.ones(3), graph.num_nodes)
    return graph.with_prior(0.7 * rows + 0.3 * np.eye(3)[np.maximum(graph.labels, 0)])


def fitted(graph: Graph) -> cb.Model:
    model = cb.Model("votes-edp", cb.Budget(2, 1e-5), max_rounds=3)
    return model.fit(with_prior(graph), noise=NoiseSource.keyed(b"k" * 32))


def test_every_engine_gives_the_bytes_of_training_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "MAX_SHIFT", 10)
    memory = cb.read_graph(folder / "edges.parquet", folder / "nodes.parquet")
    wanted = fitted(memory)
    for changes in (
        {"engine": "local", "workers": 2},
        {"engine": "outofcore", "memory": 10**9, "nodes": folder / "nodes"},
    ):
        with training_graph(tables(folder, **changes)) as graph:
            (private,) = folder.glob(".caribou-blocks-*")
            assert stat.S_IMODE(private.stat().st_mode) == 0o700
            assert len(list(private.glob("block-*.columns"))) == 3
            assert tuple(graph.content()) == tuple(memory.content()), "one graph has one fingerprint"
            assert np.array_equal(graph.features, memory.features)
            assert graph.feature_names == memory.feature_names
            found = fitted(graph)
        assert not private.exists()
        assert {k: a.tobytes() for k, a in found.released.items()} == {
            k: a.tobytes() for k, a in wanted.released.items()
        }
        ours, theirs = (m.certificate.to_dict() for m in (found, wanted))
        for part in ("cost", "mechanisms", "public_parameters", "assumptions", "status"):
            assert ours.get(part) == theirs.get(part), part
        assert found.node_ids == wanted.node_ids
        assert found.classes == wanted.classes


@pytest.mark.parametrize(
    "settings",
    [
        {"hops": 3},
        {"messages": "features", "layer": "attention", "degree_floor": 4},
    ],
    ids=["the paper's", "attention"],
)
def test_messages_pass_over_blocks_with_the_bytes_of_training_in_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    monkeypatch.setattr(preparation, "MAX_SHIFT", 10)
    for config in ("REGULARISED", "PLAIN"):
        monkeypatch.setattr(encoder, config, replace(getattr(encoder, config), steps=24))

    def passed(graph: Graph) -> dict[str, bytes]:
        model = cb.Model("caribou-edp", cb.Budget(4, 1e-5), **settings)
        found = model.fit(graph, noise=NoiseSource.keyed(b"k" * 32)).released
        return {name: array.tobytes() for name, array in found.items()}

    whole = cb.read_graph(folder / "edges.parquet", folder / "nodes.parquet")
    wanted = passed(whole)
    for changes in ({"engine": "local", "workers": 2}, {"engine": "outofcore", "memory": 10**9}):
        with training_graph(tables(folder, **changes)) as graph:
            assert passed(graph) == wanted
    assert passed(whole.without_edge(*whole.edge_index[:, 0])) != wanted


def test_a_folder_of_arrays_and_the_encoder_alone(folder: Path) -> None:
    arrays = folder / "arrays"
    memory = cb.read_graph(arrays)
    with training_graph(tables(folder, edges=arrays / "edges.npy", nodes=arrays, name="arrays")) as graph:
        assert tuple(graph.content()) == tuple(memory.content())
        models = [cb.Model("mlp", cb.Budget(2, 1e-5)).fit(g) for g in (memory, graph)]
    assert isinstance(graph.features.base, np.memmap), "rows stay in their file"
    assert models[0].predict_proba().tobytes() == models[1].predict_proba().tobytes()


def test_a_ledger_knows_the_graph_again_and_is_charged_before_edges_are_read(folder: Path, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("edges", cb.Budget(3, 1e-5))
    fits = {"budget": cb.Budget(2, 1e-5), "max_rounds": 1}
    with training_graph(tables(folder, engine="outofcore")) as graph:
        cb.Model("votes-edp", **fits).fit(with_prior(graph), ledger=ledger)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BlockedGraph, "map_rows", lambda *_: pytest.fail("edges were read"))
            with pytest.raises(BudgetExceeded):
                cb.Model("votes-edp", **fits).fit(with_prior(graph), ledger=ledger)
    (entry,) = ledger.entries("edges")
    assert entry.events
    memory = cb.read_graph(folder / "edges.parquet", folder / "nodes.parquet", name="another name")
    ledger.set_budget("another name", cb.Budget(3, 1e-5))
    with pytest.raises(LedgerError, match="known to this ledger as 'edges'"):
        cb.Model("votes-edp", **fits).fit(with_prior(memory), ledger=ledger)


def test_tables_and_engines_that_cannot_be_used_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = tables(folder)
    for changes, words in (
        ({"engine": "spark"}, "engine must be one of"),
        ({"engine": "local", "memory": 10**9}, "memory must go with the engine outofcore"),
        ({"engine": "outofcore", "memory": 10**6}, "memory must be at least"),
    ):
        with pytest.raises(InputError, match=words):
            replace(good, **changes)
    for changes, words in (
        ({"nodes": folder / "edges.npy"}, "nodes must be a table, or a folder with features.npy"),
        (
            {"nodes": folder / "arrays", "rules": ColumnRules(ignore=["f1"])},
            "rules of columns must go with a node table",
        ),
    ):
        with pytest.raises((DataError, InputError), match=words), training_graph(replace(good, **changes)):
            pass
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10}))
    with pytest.raises(RunError, match="MB free"), training_graph(good):
        pass


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        ("votes-edp", {"max_rounds": 10_000}, "must fit into memory (0.000931 GiB)"),
        ("caribou-edp", {"messages": "features"}, "messages of 2,100 nodes with all 12 features must fit into memory"),
        ("caribou-edp", {}, "states of 2,100 nodes with 16 columns and their noise must fit into memory"),
        (
            "caribou-edp",
            {"classifier_hidden": 10**5},
            "the classifier of 2,100 nodes with 2 inputs and hidden = 100000, 864 labels must fit into memory (0.559 GiB)",
        ),
    ],
)
def test_states_that_need_more_than_the_memory_are_refused_before_anything_is_charged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, method: str, settings: dict[str, Any], words: str
) -> None:
    """The limit of the tables decides, or the machine where it has less."""
    model, noise = cb.Model(method, cb.Budget(2, 1e-5), **settings), NoiseSource.seeded(1)
    with training_graph(tables(folder, engine="outofcore", memory=6 * 10**8)) as graph:
        graph = with_prior(graph) if method == "votes-edp" else graph
        if "classifier_hidden" not in settings:
            monkeypatch.setattr(memory, "_physical_memory", lambda: 10**6)
        with pytest.raises(InputError, match=re.escape(words)):
            model.fit(graph, noise=noise)
    assert noise.is_new
