"""Training on Ray: the bytes of training in memory, whoever is lost on the way."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import caribou as cb
from caribou.engines import cluster as cluster_module
from caribou.engines import ray_blocks
from caribou.engines.edge_blocks import StoredEdges
from caribou.engines.preparation import Memory
from caribou.engines.ray_blocks import BlockWorker, Missing, RayBlocks
from caribou.engines.sources import EdgeTable
from caribou.engines.training_tables import TrainingTables, training_graph
from caribou.errors import InputError, RunError
from caribou.graph import Graph
from caribou.graph.blocked import BlockedGraph
from caribou.mechanisms.noise_source import NoiseSource
from engines_support import NODE, NODES, Tables

ray = pytest.importorskip("ray", reason="ray is not installed (extra: ray)")
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Neighbours:
    """Work that shows what a worker holds, with a public array beside it."""

    marks: np.ndarray

    def __call__(self, first: int, starts: np.ndarray, columns: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        return first, np.diff(starts), self.marks[columns]


@dataclass(frozen=True)
class Refused:
    def __call__(self, *_: object) -> None:
        raise InputError("field must be right, got 3")


@pytest.fixture
def stored(tables: Tables) -> StoredEdges:
    folder = tables.folder / "blocks"
    folder.mkdir()
    return StoredEdges.prepare(EdgeTable.open(tables.edges), NODES, folder, Memory(None))


@pytest.fixture
def store(stored: StoredEdges, cluster: Any) -> Iterator[RayBlocks]:
    made = RayBlocks(stored, workers=3)
    staffed(made)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
    yield made
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    made.close()


def staffed(store: RayBlocks) -> None:
    end = time.monotonic() + 120
    while len(store.crew.members) != 3:
        assert time.monotonic() < end, "workers were not started"
        store.crew.tend(store.crew.lose)
        time.sleep(0.2)
    ray.get([member.greeting for member in store.crew.members], timeout=120)


def shown(store: RayBlocks, needed: np.ndarray | None = None) -> list[tuple[int, bytes, bytes]]:
    found = store.map(Neighbours(np.arange(NODES) * 3), needed)
    return [(first, degrees.tobytes(), marks.tobytes()) for first, degrees, marks in found]


def expected(tables: Tables) -> list[tuple[int, bytes, bytes]]:
    graph, work = Graph.from_edges(tables.features, tables.pairs.T), Neighbours(np.arange(NODES) * 3)
    blocks = []
    for first in range(0, NODES, 2048):
        starts = graph.indptr[first : first + 2049].astype(np.int64)
        answer = work(first, starts, graph.indices[starts[0] : starts[-1]])
        blocks.append((first, answer[1].tobytes(), answer[2].tobytes()))
    return blocks


def test_blocks_hold_the_rows_of_the_graph_and_only_needed_ones_are_asked(store: RayBlocks, tables: Tables) -> None:
    wanted = expected(tables)
    assert shown(store) == wanted
    needed = np.zeros(NODES, dtype=bool)
    assert shown(store, needed) == []
    needed[[3, NODES - 1]] = True
    assert shown(store, needed) == [wanted[0], wanted[2]]
    with pytest.raises(InputError, match="field must be right, got 3"):
        list(store.map(Refused(), None))
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    with pytest.raises(RunError, match="got RaySystemError each time; training is not resumed"):
        list(store.map(Refused(), None))  # as with a worker that has another version of the package
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


def test_a_slow_worker_is_overtaken(store: RayBlocks, tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "HASTE", 0.5)
    wanted = expected(tables)
    assert shown(store) == wanted
    slow = store.crew.home(0)
    os.kill(slow.process, signal.SIGSTOP)
    try:
        assert shown(store) == wanted
        assert slow.doubted is not None
    finally:
        os.kill(slow.process, signal.SIGCONT)


def in_mid_pass(monkeypatch: pytest.MonkeyPatch, number: int, begins: Callable[[], None], happens: Callable[[], None]):
    """Call ``begins`` when pass ``number`` is asked for, and ``happens`` after its first answer. Returns what was called."""
    called: list[str] = []
    ask, take = ray_blocks._Pass.ask, ray_blocks._Pass.take

    def asked(work: Any, member: Any, part: int) -> Any:
        if work.number == number and "begins" not in called:
            called.append("begins")
            begins()
        return ask(work, member, part)

    def taken(work: Any, member: Any, part: int, answer: Any) -> bool:
        done = take(work, member, part, answer)
        if work.number == number and "happens" not in called:
            called.append("happens")
            happens()
        return done

    monkeypatch.setattr(ray_blocks._Pass, "ask", asked)
    monkeypatch.setattr(ray_blocks._Pass, "take", taken)
    return called


@pytest.mark.parametrize(
    ("method", "settings", "number"),
    [("votes-edp", {"max_rounds": 3}, 2), ("caribou-edp", {"messages": "features", "hops": 3}, 3)],
)
def test_training_loses_a_node_in_the_middle_and_no_byte(
    tables: Tables, cluster: Any, monkeypatch: pytest.MonkeyPatch, method: str, settings: dict[str, Any], number: int
) -> None:
    """Its worker has taken parts of a pass and never answers; what it held is put again from the files."""
    arrays = folder_of_arrays(tables)
    wanted = released(cb.read_graph(arrays), method, settings)
    given = TrainingTables(arrays / "edges.npy", arrays, "ray", workers=3, name="arrays", work=tables.folder)
    with training_graph(given) as graph:
        assert isinstance(graph, BlockedGraph)
        staffed(graph._store)
        nodes = {node.node_id: node for node in cluster.worker_nodes}
        crew, lost = graph._store.crew, []

        def stop() -> None:
            lost.append(next(crew.home(part) for part in range(3) if crew.home(part).node in nodes))
            os.kill(lost[0].process, signal.SIGSTOP)

        def remove() -> None:
            cluster.remove_node(nodes[lost[0].node], allow_graceful=False)

        called = in_mid_pass(monkeypatch, number, stop, remove)
        assert released(graph, method, settings) == wanted
        assert called == ["begins", "happens"]
        assert lost[0] not in crew.members
    assert not list(tables.folder.glob(".caribou-blocks-*"))
    cluster.add_node(**NODE)


def folder_of_arrays(tables: Tables) -> Path:
    folder, rng = tables.folder / "arrays", np.random.default_rng(1)
    folder.mkdir()
    labels = rng.integers(0, 3, NODES)
    features = (tables.features[:, :6] + 2 * np.eye(3)[labels] @ rng.normal(size=(3, 6))).astype("f4")
    parts = rng.choice(3, NODES, p=[0.3, 0.1, 0.6])
    for name, array in (("edges", tables.pairs), ("features", features), ("labels", labels), ("split", parts)):
        np.save(folder / f"{name}.npy", array)
    return folder


def released(graph: Graph, method: str, settings: dict[str, Any]) -> dict[str, bytes]:
    prior = np.random.default_rng(2).dirichlet(np.ones(3), NODES)
    if method == "votes-edp":
        graph = graph.with_prior(0.7 * prior + 0.3 * np.eye(3)[graph.labels])
    model = cb.Model(method, cb.Budget(2, 1e-5), **settings).fit(graph, noise=NoiseSource.keyed(b"k" * 32))
    return {name: array.tobytes() for name, array in model.released.items()}


def test_a_worker_says_what_it_misses_and_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    block = 4, np.array([0, 1, 2]), np.array([2, 3], dtype=np.int32)
    there = {"work": (Neighbours(np.arange(9)),), "block": block}
    monkeypatch.setattr(ray, "wait", lambda references, **_: (references, []))

    def get(reference: str, timeout: float) -> object:
        if reference not in there:
            raise ray.exceptions.GetTimeoutError("lost")
        return there[reference]

    monkeypatch.setattr(ray, "get", get)
    worker = BlockWorker()
    assert worker.answer(2, 1, ["gone"], ["block"]) == Missing(work=True)
    assert worker.answer(2, 1, ["work"], []) == Missing(block=True)
    assert worker.answer(2, 1, ["gone"], ["gone"]) == Missing(block=True), "the work is there"
    ((first, degrees, marks),) = worker.answer(2, 1, ["work"], ["block"])
    assert (first, degrees.tolist(), marks.tolist()) == (4, [1, 1], [2, 3])
    assert worker.answer(2, 2, ["gone"], []) == Missing(work=True), "the work of another pass"
