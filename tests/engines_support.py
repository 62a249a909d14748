"""Shared by the tests of engines: a graph in files, and rounds over it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import caribou as cb
from caribou.engines import preparation
from caribou.engines.blocks import BlockFiles, Layout
from caribou.engines.local import LocalRunner
from caribou.engines.out_of_core import OutOfCoreRunner
from caribou.engines.pipeline import Request
from caribou.engines.preparation import Memory, prepare, sums_of_start
from caribou.engines.rounds import Runner, Step, mean_of, steps_of
from caribou.graph import Graph
from caribou.mechanisms.noise_source import BlockNoise, NoiseSource, RunKey
from caribou.privacy.arithmetic import single_storage
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import CalibratedPropagation, calibrate_propagation
from caribou.privacy.sensitivity import Bounds, layer_sensitivity
from caribou.randomness import Streams
from caribou.tables.edges import open_edges
from caribou.tables.nodes import open_nodes
from caribou.tables.read import Titles
from caribou.tables.rules import ColumnRules

NODES, COLUMNS = 5000, 20
CAP = 12
NODE = {"num_cpus": 1, "object_store_memory": 100 << 20}
"""Of a Ray cluster."""


@dataclass(frozen=True)
class Tables:
    """Edges and features in files, and the same in memory."""

    folder: Path
    pairs: np.ndarray
    features: np.ndarray

    @property
    def edges(self) -> Path:
        return self.folder / "edges.npy"

    @property
    def rows(self) -> Path:
        return self.folder / "features.npy"

    def request(self, out: str = "out.npy", **changes: Any) -> Request:
        given = {"budget": Budget(4.0, 1e-6), "hops": 3, "beta": 0.2, "alpha1": 0.9, "degree_floor": 10, "workers": 2}
        return Request(self.edges, self.rows, self.folder / out, **{**given, **changes})

    def blocked(self, name: str, layout: Layout, *, floor: int = 8, cap: int | None = None, memory: int | None = None):
        """The prepared files of a new folder."""
        folder = self.folder / name
        folder.mkdir()
        files = BlockFiles(folder, layout)
        prepare(
            open_edges(self.edges, Titles()),
            open_nodes(self.rows, Titles(), ColumnRules()),
            files,
            degree_floor=floor if cap is None else cap,
            degree_cap=cap,
            cap_key=int(Streams(0).sampling.integers(2**63)),
            memory=Memory(memory),
        )
        return files


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tables:
    """A graph that is cut into three blocks."""
    monkeypatch.setattr(preparation, "MAX_SHIFT", 11)
    return tables_in(tmp_path)


def tables_in(folder: Path) -> Tables:
    """A graph with hubs, repeated pairs, both directions, self loops, isolated nodes and blank rows."""
    rng = np.random.default_rng(0)
    u, v = (rng.integers(0, NODES - 50, 30_000) * rng.random(30_000) ** 2 for _ in range(2))
    pairs = np.stack([u, v], axis=1).astype(np.int64)
    pairs = np.concatenate([pairs, pairs[:500], pairs[:500, ::-1], [[7, 7]]])
    features = rng.standard_normal((NODES, COLUMNS))
    features[[3, 1500, NODES - 60, NODES - 1]] = 0  # the last one has no edge either
    made = Tables(folder, pairs, features)
    np.save(made.edges, made.pairs)
    np.save(made.rows, made.features)
    return made


def folder_of_arrays(tables: Tables) -> Path:
    """The same graph with labels and a split, as a folder of arrays."""
    folder, rng = tables.folder / "arrays", np.random.default_rng(1)
    folder.mkdir()
    labels = rng.integers(0, 3, NODES)
    features = (tables.features[:, :6] + 2 * np.eye(3)[labels] @ rng.normal(size=(3, 6))).astype("f4")
    parts = rng.choice(3, NODES, p=[0.3, 0.1, 0.6])
    for name, array in (("edges", tables.pairs), ("features", features), ("labels", labels), ("split", parts)):
        np.save(folder / f"{name}.npy", array)
    return folder


def released(graph: Graph) -> dict[str, bytes]:
    """What votes release of such a folder under one key."""
    prior = np.random.default_rng(2).dirichlet(np.ones(3), NODES)
    graph = graph.with_prior(0.7 * prior + 0.3 * np.eye(3)[graph.labels])
    votes = cb.Model("votes-edp", cb.Budget(2, 1e-5), max_rounds=3)
    model = votes.fit(graph, noise=NoiseSource.keyed(b"k" * 32))
    return {name: array.tobytes() for name, array in model.released.items()}


def block_noise(seed: int) -> BlockNoise:
    return RunKey.seeded(seed).noise(b"a test")


def calibrated_for(unit: str, cap: int | None = None, hops: int = 3) -> CalibratedPropagation:
    bounds = Bounds(8 if cap is None else None, cap, NODES)
    sensitivity = layer_sensitivity(unit, contraction=0.9, alpha1=0.8, beta=0.3, bounds=bounds)
    arithmetic = single_storage(nodes=NODES, columns=COLUMNS, residual=0.3)
    return calibrate_propagation(sensitivity, hops=hops, mu=1.0, arithmetic=arithmetic)


def last_state(
    runner: Runner,
    files: BlockFiles,
    calibrated: CalibratedPropagation,
    before_round: Callable[[Step, np.ndarray | None], None] = lambda step, mean: None,
) -> np.ndarray:
    """All rounds from the prepared start."""
    layout = files.layout
    runner.start(files.state("round-0").shards())
    sums = sums_of_start(files)
    for step in steps_of(calibrated):
        mean = mean_of(sums, layout.nodes, step)
        before_round(step, mean)
        sums = runner.round(step, mean, lambda *_: None)
    return np.concatenate([np.array(rows) for rows in runner.shards()])


def killed(work: Callable[[], object]) -> None:
    """Run ``work`` in a child process that must end with os._exit(9) in the middle of it: nothing is cleaned up."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)  # reached only if the work was not killed
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def dying_in(number: int) -> Callable[[int, int, int], None]:
    def progress(round_number: int, blocks: int, entries: int) -> None:
        if (round_number, blocks) == (number, 2):
            os._exit(9)

    return progress


def in_memory(files: BlockFiles, seed: int = 5, workers: int = 1, residual: bool = True) -> LocalRunner:
    blocks = [files.read(index) for index in range(files.layout.blocks)]
    x0 = files.state("x0").read(0, NODES) if residual else None
    return LocalRunner(files.layout, blocks, x0, block_noise(seed), workers)


def on_disk(files: BlockFiles, seed: int = 5, sum_rows: int = 1) -> OutOfCoreRunner:
    return OutOfCoreRunner(files, block_noise(seed), residual=True, sum_rows=sum_rows)


def local(tables: Tables, name: str, unit: str, cap: int | None, shift: int = 11, workers: int = 2) -> np.ndarray:
    files = tables.blocked(name, Layout(NODES, COLUMNS, shift), cap=cap)
    return last_state(in_memory(files, workers=workers), files, calibrated_for(unit, cap))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster on this machine for all tests of a run, whose first node has the driver; `three_nodes` adds what is lost.

    Workers find the same source tree as the tests through this environment: with a ``runtime_env`` Ray would not use the
    processes that it keeps ready.
    """
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(cb.__file__).parent.parent))
        checks = {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 500,
            "health_check_failure_threshold": 2,
        }
        head = {**NODE, "include_dashboard": False, "_system_config": checks}
        made = Cluster(initialize_head=True, head_node_args=head)
        ray.init(made.address, log_to_driver=False)
        yield made
        ray.shutdown()
        made.shutdown()


def three_nodes(cluster: Any) -> dict[str, Any]:
    """Those beside the first one, by their ids: they may be lost."""
    while len(cluster.worker_nodes) < 2:
        cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    return {node.node_id: node for node in cluster.worker_nodes}
