"""On Ray: the bytes of the engine in memory, whoever is lost on the way."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caribou.engines import cluster as cluster_module
from caribou.engines.blocks import Layout
from caribou.engines.out_of_core import OutOfCoreRunner
from caribou.engines.pipeline import release_files
from caribou.engines.preparation import sums_of_start
from caribou.engines.rounds import Step, mean_of, steps_of
from caribou.errors import CaribouError, RunError
from caribou.mechanisms.noise_source import RunKey
from caribou.privacy.budget import Budget
from engines_support import COLUMNS, NODE, NODES, Tables, block_noise, calibrated_for, last_state

ray = pytest.importorskip("ray", reason="ray is not installed (extra: ray)")
pytestmark = pytest.mark.slow
LAYOUT = Layout(NODES, COLUMNS, 10)


class Run:
    """Four rounds on three nodes, with something that happens in the middle."""

    def __init__(self, tables: Tables) -> None:
        from caribou.engines.ray import RayRunner

        self.files, self.calibrated, self.noise = (
            tables.blocked("a", LAYOUT),
            calibrated_for("edge", hops=4),
            block_noise(5),
        )
        one = OutOfCoreRunner(self.files, self.noise, residual=True, sum_rows=1)
        self.expected = last_state(one, self.files, self.calibrated)
        self.runner = RayRunner(self.files, self.noise, residual=True, workers=3)
        self.staffed(3)

    def staffed(self, count: int) -> None:
        """Wait until so many workers are there."""
        crew, end = self.runner.crew, time.monotonic() + 120
        while len(crew.members) != count:
            assert time.monotonic() < end, "workers were not replaced"
            crew.tend(crew.lose)
            time.sleep(0.2)
        ray.get([member.greeting for member in crew.members], timeout=120)

    def state(self, happens: Callable[[int, int], None]) -> np.ndarray:
        """The last state; ``happens`` is called with the number of the round and of the blocks that are done, from 0 on."""
        self.runner.start(iter(()))
        sums = sums_of_start(self.files)
        for step in steps_of(self.calibrated):
            happens(step.number, 0)
            mean = mean_of(sums, NODES, step)
            sums = self.runner.round(step, mean, lambda number, done, _: happens(number, done))
        return np.concatenate(list(self.runner.shards()))


@pytest.fixture
def run(tables: Tables, cluster: Any) -> Iterator[Run]:
    made = Run(tables)
    yield made
    made.runner.close()


def test_killed_workers_change_no_byte(run: Run) -> None:
    lost = []

    def kill(number: int, done: int) -> None:
        if (number, done) == (2, 0):
            lost.extend(run.runner.crew.members[:2])
            for member in lost:  # they take their parts and never answer
                os.kill(member.process, signal.SIGSTOP)
        elif (number, done) == (2, 1):
            for member in lost:
                os.kill(member.process, signal.SIGKILL)

    assert np.array_equal(run.state(kill), run.expected)
    assert not set(lost) & set(run.runner.crew.members)
    with pytest.raises(CaribouError, match="round 2 must be asked as before"):
        run.runner.round(steps_of(run.calibrated)[1], np.zeros(COLUMNS), lambda *_: None)


def test_a_slow_worker_is_overtaken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "HASTE", 0.5)
    crew, slow = run.runner.crew, []

    def stop(number: int, done: int) -> None:
        if (number, done) == (2, 0):
            slow.append(next(member for member in crew.members if member.is_ready and crew.home(0) is member))
            os.kill(slow[0].process, signal.SIGSTOP)
        elif (number, done) == (4, 0):
            assert slow[0].doubted is not None, "it owes an answer and is asked for nothing"
            os.kill(slow[0].process, signal.SIGCONT)

    try:
        assert np.array_equal(run.state(stop), run.expected)
    finally:
        os.kill(slow[0].process, signal.SIGCONT)


@pytest.mark.parametrize("replaced", [True, False])
def test_a_lost_node_changes_no_byte(run: Run, cluster: Any, replaced: bool) -> None:
    """Its worker holds parts of the round, and its object store the only copies of shards outside the driver."""
    nodes = {node.node_id: node for node in cluster.worker_nodes}
    lost = next(member for member in run.runner.crew.members if member.node in nodes)

    def lose(number: int, done: int) -> None:
        if (number, done) == (2, 0):
            os.kill(lost.process, signal.SIGSTOP)
        elif (number, done) == (2, 1):
            cluster.remove_node(nodes[lost.node], allow_graceful=False)
        elif (number, done) == (3, 0) and replaced:
            cluster.add_node(**NODE)
            run.staffed(3)

    assert np.array_equal(run.state(lose), run.expected)
    assert lost not in run.runner.crew.members


def test_a_release_on_ray_is_that_of_one_process_and_leaves_nothing(tables: Tables, cluster: Any) -> None:
    requests = [tables.request(f"{engine}.npy", engine=engine) for engine in ("local", "ray")]
    for request in requests:
        release_files(request, new_key=lambda: RunKey.seeded(5))
    assert np.array_equal(*(np.load(request.out) for request in requests))
    assert {path.name for path in tables.folder.iterdir()} == {
        *(f"{engine}{ending}" for engine in ("local", "ray") for ending in (".npy", ".certificate.json")),
        "edges.npy",
        "features.npy",
    }


def test_a_second_run_under_one_key_does_not_show_the_edges_of_a_node(tables: Tables, cluster: Any) -> None:
    """The attack on a result of Ray's: a run on the neighbouring graph, with the same key, and the difference of the two."""
    plan = {"hops": 1, "alpha1": 1.0, "beta": 0.0, "degree_floor": 4000, "budget": Budget(0.01, 1e-6)}
    requests = [tables.request(f"{engine}.npy", engine=engine, **plan) for engine in ("local", "ray")]
    release_files(requests[0], new_key=lambda: RunKey.seeded(5))
    np.save(tables.edges, tables.pairs[~(tables.pairs == 2000).any(axis=1)])
    release_files(requests[1], new_key=lambda: RunKey.seeded(5))
    one, other = (np.load(request.out) for request in requests)
    assert (one != other).any(axis=1).all(), "where nothing but edges differs, only the ends of edges would"
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(one.size)


def test_a_fetch_that_fails_leaves_no_mixture_of_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that holds half of the next state must not compute from it, nor take it for the one before."""
    from caribou.engines.ray import Lacking, Worker

    layout = Layout(4, 2, 1)
    step = Step(1, 0.5, 0.0, 0.0, 2, False, False, 0.3)
    worker = Worker(layout, block_noise(5).for_worker())
    held = (np.array([0, 1, 2]), np.array([2, 3], dtype=np.int32), np.zeros(2, dtype=bool), None)
    store = {"block": held, "a": (np.full((2, 2), 0.25, np.float32),), "b": (np.full((2, 2), 0.5, np.float32),)}
    old = {0: "a", 1: "b"}
    lost = ray.exceptions.GetTimeoutError("lost")

    def get(reference: str, timeout: float) -> object:
        if reference not in store:
            raise lost
        return store[reference]

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "wait", lambda references, **_: (references[:1], references[1:]))
    before = worker.advance(0, step, None, (1, -1), old, {}, ["block"])[0].tobytes()
    second = replace(step, number=2)
    assert worker.advance(0, second, None, (1, 1), {1: "c"}, {}, []) == Lacking((1,))
    assert worker.advance(1, second, None, (1, 1), {1: "b"}, {}, ["c"]) == Lacking((), True)
    assert worker.advance(0, step, None, (1, -1), old, {}, [])[0].tobytes() == before
    with pytest.raises(CaribouError, match="round 2 must be asked as before"):
        worker.advance(0, second, None, (1, -1), old, {}, [])


def test_a_failed_round_ends_its_actors_and_is_finished_later(tables: Tables, cluster: Any) -> None:
    expected, request = tables.request("expected.npy"), tables.request("out.npy", engine="ray")
    release_files(expected, new_key=lambda: RunKey.seeded(5))

    def fail(number: int, blocks: int, entries: int) -> None:
        if (number, blocks) == (2, 1):
            raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    with pytest.raises(RunError, match="No space left"):
        release_files(request, new_key=lambda: RunKey.seeded(5), progress=fail)
    assert not request.out.exists()
    assert {path.stem for path in request.work.glob("*.state")} == {"x0", "round-1"}
    total = ray.cluster_resources()["CPU"]
    _await(lambda: ray.available_resources().get("CPU") == total)  # the actors are gone
    assert release_files(request, new_key=RunKey.secure).resumed_at == 1
    assert np.array_equal(np.load(request.out), np.load(expected.out))


def _await(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Ray gives back what was freed a little later."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not given back"
        time.sleep(0.2)


DRIVER = """
import os, sys
from pathlib import Path
from caribou.engines import preparation
from caribou.engines.pipeline import Request, release_files
from caribou.mechanisms.noise_source import RunKey
from caribou.privacy.budget import Budget

preparation.MAX_SHIFT = 11
folder = Path(sys.argv[1])
request = Request(folder / "edges.npy", folder / "features.npy", folder / "out.npy", Budget(4.0, 1e-6), 3,
                  beta=0.2, alpha1=0.9, degree_floor=10, workers=2, engine="ray", address=sys.argv[2])
def progress(number, blocks, entries):
    if (number, blocks) == (3, 1):
        os._exit(9)
release_files(request, new_key=lambda: RunKey.seeded(5), progress=progress)
"""


def test_a_killed_driver_resumes_at_the_last_complete_round(tables: Tables, cluster: Any) -> None:
    import caribou

    expected = tables.request("expected.npy")
    release_files(expected, new_key=lambda: RunKey.seeded(5))
    environment = {**os.environ, "PYTHONPATH": str(Path(caribou.__file__).parent.parent)}
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-c", textwrap.dedent(DRIVER), str(tables.folder), address]
    assert subprocess.run(command, env=environment, check=False).returncode == 9
    request = tables.request("out.npy", engine="ray", address=address)
    assert not request.out.exists()
    assert {path.stem for path in request.work.glob("*.state")} == {"x0", "round-2", "round-3"}
    result = release_files(request, new_key=RunKey.secure)
    assert result.resumed_at == 2
    assert np.array_equal(np.load(request.out), np.load(expected.out))
    assert not request.work.exists()
