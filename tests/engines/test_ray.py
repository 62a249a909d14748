"""On Ray: the bytes of the engine in memory, whoever dies on the way."""

from __future__ import annotations

import errno
import logging
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from caribou.engines import kernels
from caribou.engines.blocks import Layout
from caribou.engines.out_of_core import OutOfCoreRunner
from caribou.engines.pipeline import release_files
from caribou.engines.rounds import Step
from caribou.errors import CaribouError, RunError
from caribou.mechanisms.noise_source import RunKey
from caribou.privacy.budget import Budget
from engines_support import COLUMNS, NODES, Tables, block_noise, calibrated_for, last_state

ray = pytest.importorskip("ray", reason="ray is not installed (extra: ray)")
pytestmark = pytest.mark.slow
LAYOUT = Layout(NODES, COLUMNS, 10)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One small Ray for all tests of this file; the workers find the same source tree as the tests.

    They take it from this environment: with a ``runtime_env`` Ray would not use the processes that it keeps ready.
    """
    import caribou

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(caribou.__file__).parent.parent))
        ray.init(
            "local",  # never a cluster that happens to run on this machine
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=200 << 20,
        )
    yield
    ray.shutdown()


def test_killed_workers_and_repeated_tasks_change_no_byte(tables: Tables) -> None:
    from caribou.engines.ray import RayRunner

    files = tables.blocked("a", LAYOUT)
    calibrated, noise = calibrated_for("edge"), block_noise(5)
    expected = last_state(OutOfCoreRunner(files, noise, residual=True, sum_rows=1), files, calibrated)
    runner = RayRunner(files, noise, residual=True, workers=2)

    def kill_and_ask_twice(step: Step, mean: np.ndarray | None) -> None:
        if step.number != 2:
            return
        # tasks of the round are under way or waiting when the processes die
        running = [runner.submit(index, step, mean) for index in range(LAYOUT.blocks)]
        for pid in ray.get([actor.ready.remote() for actor in runner.actors]):
            os.kill(pid, signal.SIGKILL)
        copies = [runner.submit(index, step, mean, worker=index + 1) for index in range(LAYOUT.blocks)]
        for one, other in zip(running, copies, strict=True):
            assert ray.get(one[0]).tobytes() == ray.get(other[0]).tobytes()
        with pytest.raises(CaribouError, match="round 2 must be asked as before"):
            runner.submit(0, step, np.zeros(COLUMNS))

    try:
        assert np.array_equal(last_state(runner, files, calibrated, kill_and_ask_twice), expected)
    finally:
        runner.close()


def test_a_release_on_ray_is_that_of_one_process_and_leaves_nothing(tables: Tables) -> None:
    requests = [tables.request(f"{engine}.npy", engine=engine) for engine in ("local", "ray")]
    for request in requests:
        release_files(request, new_key=lambda: RunKey.seeded(5))
    assert np.array_equal(*(np.load(request.out) for request in requests))
    assert {path.name for path in tables.folder.iterdir()} == {
        *(f"{engine}{ending}" for engine in ("local", "ray") for ending in (".npy", ".certificate.json")),
        "edges.npy",
        "features.npy",
    }


def test_a_second_run_under_one_key_does_not_show_the_edges_of_a_node(tables: Tables) -> None:
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
    """A worker that holds half of the next state must not take it for the one before: its noise would serve another value."""
    from caribou.engines.ray import Worker

    layout = Layout(4, 2, 1)
    step = Step(1, 0.5, 0.0, 0.0, 2, False, False, 0.3)
    worker = Worker(layout, block_noise(5).for_worker(), kernels.name())
    held = (np.array([0, 1, 2]), np.array([2, 3], dtype=np.int32), np.zeros(2, dtype=bool), None)
    old = [np.full((2, 2), 0.25, np.float32), np.full((2, 2), 0.5, np.float32)]

    def get(reference: object) -> object:
        if reference is None:
            raise RunError("lost")
        return reference

    monkeypatch.setattr(ray, "get", get)
    before = worker.advance(0, step, None, [held], 1, old)[0].tobytes()
    with pytest.raises(RunError, match="lost"):
        worker.advance(0, replace(step, number=2), None, [held], 2, [np.ones((2, 2), np.float32), None])
    assert worker.advance(0, step, None, [held], 1, old)[0].tobytes() == before


def test_what_ray_writes_lies_in_a_private_folder(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its spilled objects are the graph, and its logs tell their sizes."""
    from caribou.engines import ray as module

    seen = {}

    class NoRay:
        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**options: object) -> None:
            seen.update(options, mode=stat.S_IMODE(Path(str(options["_temp_dir"])).stat().st_mode))
            raise RunError("no Ray")

    monkeypatch.setattr(module, "_ray", NoRay)
    with pytest.raises(RunError, match="no Ray"):
        module.RayRunner(tables.blocked("a", LAYOUT), block_noise(5), residual=True, workers=1)
    assert seen["mode"] == 0o700
    assert seen["address"] == "local"
    assert not Path(str(seen["_temp_dir"])).exists()


def test_ray_is_quiet_but_for_warnings_and_errors(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from caribou.engines import ray as module

    class Talking:
        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**_: object) -> None:
            logging.getLogger("ray._private.worker").info("started")
            tokens = logging.getLogger("ray._private.authentication.authentication_token_setup")
            tokens.warning("Token authentication is enabled for this Ray cluster.")
            tokens.warning("Token authentication is disabled for this Ray cluster.")
            logging.getLogger("ray._private.worker").error("broken")
            raise RunError("no Ray")

    monkeypatch.setattr(module, "_ray", Talking)
    monkeypatch.setattr(logging.getLogger("ray"), "propagate", True)
    level = logging.getLogger("ray").level
    with pytest.raises(RunError, match="no Ray"):
        module.RayRunner(tables.blocked("a", LAYOUT), block_noise(5), residual=True, workers=1)
    assert {record.message for record in caplog.records} == {
        "Token authentication is disabled for this Ray cluster.",
        "broken",
    }
    assert logging.getLogger("ray").level == level, "the caller's own Ray may talk again"


def test_a_failed_round_ends_its_actors_and_is_finished_later(tables: Tables) -> None:
    expected, request = tables.request("expected.npy"), tables.request("out.npy", engine="ray")
    release_files(expected, new_key=lambda: RunKey.seeded(5))

    def fail(number: int, blocks: int, entries: int) -> None:
        if (number, blocks) == (2, 1):
            raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    with pytest.raises(RunError, match="No space left"):
        release_files(request, new_key=lambda: RunKey.seeded(5), progress=fail)
    assert not request.out.exists()
    assert {path.stem for path in request.work.glob("*.state")} == {"x0", "round-1"}
    _await(lambda: ray.available_resources().get("CPU") == 2)  # the actors are gone
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


def test_a_killed_driver_resumes_at_the_last_complete_round(tables: Tables) -> None:
    import caribou

    expected = tables.request("expected.npy")
    release_files(expected, new_key=lambda: RunKey.seeded(5))
    environment = {**os.environ, "PYTHONPATH": str(Path(caribou.__file__).parent.parent)}
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-c", textwrap.dedent(DRIVER), str(tables.folder), address]
    assert subprocess.run(command, env=environment, check=False).returncode == 9
    request = tables.request("out.npy", engine="ray", address=address)
    assert not request.out.exists()
    assert {path.stem for path in request.work.glob("*.state")} == {"x0", "round-2"}
    result = release_files(request, new_key=RunKey.secure)
    assert result.resumed_at == 2
    assert np.array_equal(np.load(request.out), np.load(expected.out))
    assert not request.work.exists()
