"""On Ray: the bytes of the engine in memory, whoever is lost on the way, and nothing for others to read."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import caribou as cb
from caribou.engines import kernels, pipeline
from caribou.engines import ray as module
from caribou.engines.blocks import Layout
from caribou.engines.pipeline import release_files
from caribou.engines.preparation import sums_of_start
from caribou.engines.ray import FAILURES, Member, RayRunner, Worker, Workers
from caribou.engines.rounds import Step, mean_of, steps_of
from caribou.engines.training_tables import TrainingTables, training_graph
from caribou.errors import CaribouError, InputError, RunError
from caribou.graph import Graph
from caribou.graph.blocked import BlockedGraph
from caribou.mechanisms.noise_source import RunKey
from caribou.privacy.budget import Budget
from caribou.privacy.ledger import Ledger
from engines_support import (
    COLUMNS,
    NODES,
    Tables,
    block_noise,
    calibrated_for,
    folder_of_arrays,
    last_state,
    on_disk,
    released,
    three_nodes,
)
from hosts_support import Hosts, can_have_hosts

ray = pytest.importorskip("ray", reason="ray is not installed (extra: ray)")
LAYOUT = Layout(NODES, COLUMNS, 10)

# -- on a real cluster of three nodes -----------------------------------------------------------------------------------


def staffed(workers: Workers, count: int = 3) -> None:
    """Wait until so many actors have started."""
    ray.get([member.actor.ready.remote() for member in workers.members], timeout=120)
    assert len(workers.members) == count


def place_of(member: Member) -> tuple[str, int]:
    """Node and process of an actor, which Ray may have moved."""
    found = ray._private.state.actors(member.actor._actor_id.hex())
    return found["Address"]["NodeID"], found["Pid"]


@pytest.mark.slow
def test_killed_and_slow_workers_and_a_lost_node_change_no_byte(tables: Tables, cluster: Any) -> None:
    """All three in one run. The object store of the node that is lost holds shards that its worker made."""
    files, calibrated = tables.blocked("a", LAYOUT), calibrated_for("edge", hops=5)
    expected = last_state(on_disk(files), files, calibrated)
    nodes = three_nodes(cluster)
    runner = RayRunner(files, block_noise(5), residual=True, workers=3)
    staffed(runner.workers)
    stopped: list[int] = []
    lost: list[str] = []

    def happens(number: int, done: int) -> None:
        if (number, done) == (2, 1):
            os.kill(place_of(runner.workers.homes[2])[1], signal.SIGKILL)
        elif (number, done) == (3, 0):
            staffed(runner.workers)
            stopped.append(place_of(runner.workers.homes[0])[1])
            os.kill(stopped[0], signal.SIGSTOP)  # it takes its parts and does not answer
        elif (number, done) == (3, 1):
            os.kill(stopped[0], signal.SIGCONT)
        elif (number, done) == (4, 0):
            lost.extend(node for node, _ in map(place_of, runner.workers.members) if node in nodes)
            cluster.remove_node(nodes[lost[0]], allow_graceful=False)

    try:
        runner.start(files.state("round-0").shards())
        sums = sums_of_start(files)
        for step in steps_of(calibrated):
            happens(step.number, 0)
            sums = runner.round(step, mean_of(sums, NODES, step), lambda number, done, _: happens(number, done))
        assert np.array_equal(np.concatenate(list(runner.shards())), expected)
        with pytest.raises(CaribouError, match="round 2 must be asked as before"):
            runner.round(steps_of(calibrated)[1], np.zeros(COLUMNS), lambda *_: None)
    finally:
        runner.close()


@pytest.mark.slow
def test_a_failed_release_is_finished_and_a_second_one_under_its_key_shows_no_edge(
    tables: Tables, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack on a result of Ray's: a run on the neighbouring graph, with the same key, and the difference of the two."""
    monkeypatch.setattr(module, "PARTS", 1)  # blocks of rows are worked on together
    monkeypatch.setattr(pipeline, "STORED_EVERY", 0)
    plan = {"hops": 2, "alpha1": 1.0, "beta": 0.0, "degree_floor": 4000, "budget": Budget(0.01, 1e-6), "workers": 1}
    one, same, other = (
        tables.request(f"{name}.npy", engine=engine, **plan)
        for name, engine in {"one": "local", "same": "ray", "other": "local"}.items()
    )

    def fail(number: int, blocks: int, entries: int) -> None:
        if (number, blocks) == (2, 1):
            raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    release_files(one, new_key=lambda: RunKey.seeded(5))
    with pytest.raises(RunError, match="No space left"):
        release_files(same, new_key=lambda: RunKey.seeded(5), progress=fail)
    assert not same.out.exists()
    assert {path.stem for path in same.work.glob("*.state")} == {"x0", "round-1"}
    total = ray.cluster_resources()["CPU"]
    _await(lambda: ray.available_resources().get("CPU") == total)  # the actors are gone
    assert release_files(same, new_key=RunKey.secure).resumed_at == 1
    np.save(tables.edges, tables.pairs[~(tables.pairs == 2000).any(axis=1)])
    release_files(other, new_key=lambda: RunKey.seeded(5))
    a, b, c = (np.load(request.out) for request in (one, same, other))
    assert np.array_equal(a, b)
    assert (b != c).any(axis=1).all(), "where nothing but edges differs, only the ends of edges would"
    assert abs(np.corrcoef(b.ravel(), c.ravel())[0, 1]) < 5 / np.sqrt(b.size)
    left = {f"{name}{ending}" for name in ("one", "same", "other") for ending in (".npy", ".certificate.json")}
    assert {path.name for path in tables.folder.iterdir()} == {*left, "edges.npy", "features.npy"}


def _await(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Ray gives back what was freed a little later."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not given back"
        time.sleep(0.2)


def environment() -> dict[str, str]:
    """Of a process that finds the same source tree."""
    return {**os.environ, "PYTHONPATH": str(Path(cb.__file__).parent.parent)}


# -- training -----------------------------------------------------------------------------------------------------------


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


def shown(store: Any, needed: np.ndarray | None = None) -> list[tuple[int, bytes, bytes]]:
    found = store.map(Neighbours(np.arange(NODES) * 3), needed)
    return [(first, degrees.tobytes(), marks.tobytes()) for first, degrees, marks in found]


def require_blocks(store: Any, tables: Tables) -> None:
    """Blocks hold the rows of the graph, only needed ones are asked, and a mistake of the work is raised as it is."""
    graph, work, wanted = Graph.from_edges(tables.features, tables.pairs.T), Neighbours(np.arange(NODES) * 3), []
    for first in range(0, NODES, 2048):
        starts = graph.indptr[first : first + 2049].astype(np.int64)
        answer = work(first, starts, graph.indices[starts[0] : starts[-1]])
        wanted.append((first, answer[1].tobytes(), answer[2].tobytes()))
    assert shown(store) == wanted
    needed = np.zeros(NODES, dtype=bool)
    assert shown(store, needed) == []
    needed[[3, NODES - 1]] = True
    assert shown(store, needed) == [wanted[0], wanted[2]]
    with pytest.raises(InputError, match="field must be right, got 3"):
        list(store.map(Refused(), None))


@pytest.mark.slow
def test_training_loses_a_node_in_the_middle_and_no_byte(
    tables: Tables, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker has taken parts of a pass and never answers."""
    arrays = folder_of_arrays(tables)
    wanted = released(cb.read_graph(arrays))
    nodes = three_nodes(cluster)
    given = TrainingTables(arrays / "edges.npy", arrays, "ray", workers=3, name="arrays", work=tables.folder)
    with training_graph(given) as graph:
        assert isinstance(graph, BlockedGraph)
        workers, lost = graph._store.workers, []
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
        require_blocks(graph._store, tables)
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
        with pytest.raises(RunError, match="got RaySystemError each time; training is not resumed"):
            list(graph._store.map(Refused(), None))  # as with a worker that has another version of the package
        staffed(workers)
        ask = Workers.ask

        def asked(these: Workers, member: Member, *rest: Any) -> Any:
            reference = ask(these, member, *rest)
            node, process = place_of(member)
            if not lost and node in nodes:
                lost.append(node)
                os.kill(process, signal.SIGSTOP)
                cluster.remove_node(nodes[node], allow_graceful=False)
            return reference

        monkeypatch.setattr(Workers, "ask", asked)
        assert released(graph) == wanted
        assert lost
    assert not list(tables.folder.glob(".caribou-blocks-*"))


# -- on hosts of their own ----------------------------------------------------------------------------------------------

RAY, DRIVER = Path(sys.executable).with_name("ray"), Path(__file__).with_name("training_on_hosts.py")


@pytest.mark.slow
def test_three_hosts_of_which_one_loses_its_power_train_with_the_same_bytes() -> None:
    """They share the installation, and reach each other by network alone. Who has another token does not join, nor drive."""
    if not can_have_hosts():
        pytest.skip("hosts need root, unshare, nsenter and ip")
    checks = {"initial_delay_ms": 0, "period_ms": 500, "timeout_ms": 1500, "failure_threshold": 3}
    system = json.dumps({f"health_check_{name}": value for name, value in checks.items()})
    here = f"{environment()['PYTHONPATH']}:{DRIVER.parent.parent}"
    right = {
        **os.environ,
        "PYTHONPATH": here,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "a" * 64,
        "RAY_NUM_REDIS_GET_RETRIES": "2",
    }
    wrong = {**right, "RAY_AUTH_TOKEN": "b" * 64}
    start = (str(RAY), "start", "--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats")
    head, driver = f"--address={Hosts.address(0)}:6379", (sys.executable, str(DRIVER), Hosts.address(2))
    with Hosts(4) as hosts:
        first = ("--head", "--port=6379", "--include-dashboard=false", f"--node-ip-address={hosts.address(0)}")
        assert hosts.run(0, *start, *first, f"--system-config={system}", env=right).wait() == 0
        joins = [hosts.run(number, *start, head, env=right if number < 3 else wrong) for number in (1, 2, 3)]
        stranger = hosts.run(0, *driver, env=wrong)
        assert [join.wait() for join in joins] == [0, 0, 1], hosts.errors()
        train = hosts.run(0, *driver, env=right)
        assert train.stdout.readline() == "asked\n", hosts.errors()
        hosts.kill(2)
        assert train.communicate("go on\n")[0] == "same\n", hosts.errors()
        assert stranger.communicate()[0] == "address\n"


# -- a worker, without Ray ----------------------------------------------------------------------------------------------


def test_a_worker_computes_from_whole_states_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that fails leaves no mixture of two states, and what a worker has made itself is the state that it would fetch."""
    step = Step(1, 0.5, 0.0, 0.0, 2, False, False, 0.3)
    rows = kernels.Rows(np.array([0, 1, 2]), np.array([2, 3], dtype=np.int32))
    blocks = {i: (module_block(i, rows), None) for i in range(2)}
    store: dict[str, Any] = {"a": (np.full((2, 2), 0.25, np.float32),), "b": (np.full((2, 2), 0.5, np.float32),)}
    layout, secret = Layout(4, 2, 1), block_noise(5).for_worker()

    def work(number: int, key: tuple[int, int], shards: list[str], **changes: Any) -> Any:
        return module._Round(layout, secret, replace(step, number=number, **changes), None, key, shards)

    def get(reference: Any) -> Any:
        if isinstance(reference, str) and reference not in store:
            raise ray.exceptions.GetTimeoutError("lost")
        return store[reference] if isinstance(reference, str) else reference

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "wait", lambda references, **_: (references, []))
    worker = Worker()
    first = {i: worker.answer(i, 1, [work(1, (1, -1), ["a", "b"])], [blocks[i]])[0].copy() for i in range(2)}
    with pytest.raises(ray.exceptions.GetTimeoutError):
        Worker().answer(0, 2, [work(2, (1, 1), ["c", "d"])], [blocks[0]])
    second = worker.answer(0, 2, [work(2, (1, 1), ["c", "d"])], [blocks[0]])[0]
    store |= {"c": (first[0],), "d": (first[1],)}
    assert np.array_equal(second, Worker().answer(0, 2, [work(2, (1, 1), ["c", "d"])], [blocks[0]])[0])
    store |= {"e": (second,), "f": (worker.answer(1, 2, [work(2, (1, 1), ["c", "d"])], [blocks[1]])[0],)}
    third = worker.answer(0, 3, [work(3, (1, 2), ["e", "f"])], [blocks[0]])[0]
    assert np.array_equal(third, Worker().answer(0, 3, [work(3, (1, 2), ["e", "f"])], [blocks[0]])[0])
    for number, at_work in ((4, 1), (5, 0)):  # memory that somebody may still read is not written over
        memory, worker._at_work = worker._newest[1]._here.rows, at_work
        worker.answer(0, number, [work(number, (1, number - 1), ["e", "f"])], [blocks[0]])
        assert np.shares_memory(worker._newest[1]._after.rows, memory) == (at_work == 0)
    again = worker.answer(0, 1, [work(1, (1, -1), ["a", "b"])], [blocks[0]])[0]
    assert np.array_equal(again, first[0]), "a pass that is over is asked for again"
    for other in (work(2, (1, -1), ["a", "b"]), work(1, (2, -1), ["a", "b"]), work(1, (1, -1), ["a", "b"], weight=0.4)):
        with pytest.raises(CaribouError, match="must be asked as before"):
            worker.answer(0, 9, [other], [blocks[0]])


def module_block(index: int, rows: kernels.Rows) -> Any:
    from caribou.engines.blocks import Block

    return Block(index, 2 * index, (rows,), np.zeros(2, dtype=bool))


# -- starting and ending Ray --------------------------------------------------------------------------------------------


class NoRay:
    """A Ray that is not there yet, and does not start."""

    error: BaseException = RunError("no Ray")

    def __init__(self, **seen: Any) -> None:
        self.seen = seen

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: Any) -> None:
        self.seen.update(options)
        raise self.error

    def shutdown(self) -> None:
        pass


def test_what_ray_writes_lies_in_a_private_folder_and_it_tells_of_errors_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its spilled objects are the graph, and its logs tell their sizes."""

    class Writing(NoRay):
        def init(self, **options: Any) -> None:
            own = Path(options["_temp_dir"])
            own.mkdir(exist_ok=True)
            own.chmod(0o777)  # as Ray does with the folder that it is given, whoever made it
            self.seen.update(mode=stat.S_IMODE(own.parent.stat().st_mode), name=own.parent.name)
            self.seen.update(has_cluster=ray._private.ray_constants.ENABLE_RAY_CLUSTER)
            logging.getLogger("ray._private.worker").warning("started")
            logging.getLogger("ray._private.worker").error("broken")
            super().init(**options)

        def shutdown(self) -> None:
            self.seen["there"] = Path(self.seen["_temp_dir"]).exists()

    stub, level = Writing(), logging.getLogger("ray").level
    monkeypatch.setattr(module, "_ray", lambda: stub)
    monkeypatch.setattr(logging.getLogger("ray"), "propagate", True)
    with pytest.raises(RunError, match="no Ray"):
        Workers(1, None, int, "")
    assert stub.seen["mode"] == 0o700, "nobody else reaches what Ray opens to everybody"
    assert stub.seen["name"].startswith("caribou-")
    assert stub.seen["address"] == "local"
    assert not stub.seen["has_cluster"], "it listens on the loopback address alone"
    assert stub.seen["there"], "a Ray that has half started ends before its folder is removed"
    assert not Path(stub.seen["_temp_dir"]).parent.exists()
    assert ray._private.ray_constants.ENABLE_RAY_CLUSTER, "a cluster that is joined later is reached"
    assert {record.message for record in caplog.records} == {"broken"}
    assert logging.getLogger("ray").level == level, "the caller's own Ray may talk again"


def test_a_ray_that_is_not_found_charges_nothing(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = NoRay()
    monkeypatch.setattr(stub, "error", ConnectionError("nobody there"))
    monkeypatch.setattr(module, "_ray", lambda: stub)
    ledger = Ledger(tables.folder / "ledger.sqlite")
    with pytest.raises(InputError) as refused:
        release_files(tables.request(engine="ray", address="ray://nobody:1"), ledger=ledger)
    assert (refused.value.field, refused.value.value) == ("address", "ray://nobody:1")
    assert ledger.entries() == ()
    assert not tables.request().work.exists()


LISTENING = """
import psutil
from caribou.engines.ray import Workers
if __name__ == "__main__":
    workers = Workers(1, None, int, "")
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        for connection in process.net_connections():
            if connection.status == psutil.CONN_LISTEN:
                print(connection.laddr.ip)
    workers.close()
"""


@pytest.mark.slow
def test_a_ray_of_this_machine_listens_to_it_alone() -> None:
    pytest.importorskip("psutil")
    answer = subprocess.run(
        [sys.executable, "-c", LISTENING], capture_output=True, text=True, check=True, env=environment()
    )
    assert {line.removeprefix("::ffff:") for line in answer.stdout.split()} == {"127.0.0.1"}


# -- a Ray that loses everything ----------------------------------------------------------------------------------------


class Away(Exception):
    """An actor is gone, and is started again."""


class Died(Away):
    """An actor is gone for good."""


class Reference:
    def __init__(self, value: object) -> None:
        self.value = value


class OneMachine:
    """As much of Ray as a map needs, on this machine: what is asked is answered, or lost, at once."""

    exceptions = SimpleNamespace(
        ActorDiedError=Died, ActorUnschedulableError=Died, RayTaskError=type("Task", (Exception,), {}), RayError=Away
    )
    put = staticmethod(lambda value: value)
    kill = staticmethod(lambda actor: None)

    def __init__(self, *losses: type[Exception]) -> None:
        self.is_there, self.losses, self.loops = True, list(losses), kernels.name()

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        if not self.is_there:
            raise Died("gone")
        return [{"Alive": True, "Resources": {"CPU": 1}}]

    def remote(self, **_: object) -> object:
        ready = SimpleNamespace(remote=lambda: Reference(self.loops))
        once = SimpleNamespace(remote=lambda part, *_: Reference(part * part))
        answer = SimpleNamespace(options=lambda **_: once)
        chosen = SimpleNamespace(remote=lambda: SimpleNamespace(ready=ready, answer=answer))
        return lambda worker: SimpleNamespace(options=lambda **_: chosen)

    def wait(self, references: list[object], **_: object) -> tuple[list[object], list[object]]:
        return references[:1], references[1:]

    def get(self, reference: Reference) -> object:
        if self.losses and isinstance(reference.value, int):
            raise self.losses.pop()
        return reference.value


def squares(stub: OneMachine, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, object]]:
    """Two maps over seven parts by two workers, each of which is an actor."""
    monkeypatch.setattr(module, "_ray", lambda: stub)
    workers = Workers(2, None, lambda index: index, "try again")
    assert [member.threads for member in workers.members] == [1, 1]
    taken: list[tuple[int, object]] = []
    for _ in range(2):
        workers.map(range(7), module._Counting(int), lambda part, answer, _: taken.append((part, answer)))
    workers.close()
    return taken


@pytest.mark.parametrize("losses", [(), (Away,), (Died,), (Away, Died, Away), (Away,) * FAILURES])
def test_every_part_is_taken_once_in_every_pass_whoever_is_lost(
    losses: tuple[type[Exception], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = squares(OneMachine(*losses), monkeypatch)
    assert sorted(taken[:7]) == sorted(taken[7:]) == [(part, part * part) for part in range(7)]


@pytest.mark.parametrize(("losses", "why"), [((Died, Died), "Died"), ((Away,) * (FAILURES + 1), "Away")])
def test_workers_that_die_for_good_or_again_and_again_end_the_run(
    losses: tuple[type[Exception], ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunError, match=f"once in {FAILURES} times, got {why} each time; try again"):
        squares(OneMachine(*losses), monkeypatch)


def test_workers_with_other_loops_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = OneMachine()
    stub.loops = "others"
    with pytest.raises(CaribouError, match=f"the same loops as the driver, {kernels.name()}, got others"):
        squares(stub, monkeypatch)


def test_a_cluster_that_is_gone_or_does_not_answer_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = OneMachine()

    def nothing(*_: object, **__: object) -> tuple[list[object], list[object]]:
        time.sleep(0.01)
        stub.is_there = is_there
        return [], []

    monkeypatch.setattr(stub, "wait", nothing)
    monkeypatch.setattr(module, "SILENT", 0.05)
    is_there = False
    with pytest.raises(RunError, match=r"cluster is gone.*try again"):
        squares(stub, monkeypatch)
    stub.is_there = is_there = True
    monkeypatch.setattr(module, "IDLE", 0.05)
    with pytest.raises(RunError, match="workers must answer within 0 s, got no answer; try again"):
        squares(stub, monkeypatch)
