"""What starts and stops Ray, and a map that ends whoever is lost; how it does on a real cluster is in test_ray.py."""

from __future__ import annotations

import atexit
import functools
import logging
import stat
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from caribou.engines import cluster as module
from caribou.engines.cluster import Cluster, Crew, Member
from caribou.errors import CaribouError, RunError


def test_what_ray_writes_lies_in_a_private_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its spilled objects are the graph, and its logs tell their sizes."""
    seen = {}

    class NoRay:
        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**options: object) -> None:
            own = Path(str(options["_temp_dir"]))
            own.mkdir(exist_ok=True)
            own.chmod(0o777)  # as Ray does with the folder that it is given, whoever made it
            seen.update(options, mode=stat.S_IMODE(own.parent.stat().st_mode), name=own.parent.name)
            raise RunError("no Ray")

        @staticmethod
        def shutdown() -> None:
            seen["there"] = Path(str(seen["_temp_dir"])).exists()

    monkeypatch.setattr(module, "_ray", NoRay)
    with pytest.raises(RunError, match="no Ray"):
        Cluster(1)
    assert seen["mode"] == 0o700, "nobody else reaches what Ray opens to everybody"
    assert str(seen["name"]).startswith("caribou-")
    assert seen["address"] == "local"
    assert seen["there"], "a Ray that has half started ends before its folder is removed"
    assert not Path(str(seen["_temp_dir"])).parent.exists()


def test_a_shutdown_that_does_not_end_is_not_waited_for_when_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck:
        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**_: object) -> None:
            raise KeyboardInterrupt

        @staticmethod
        def shutdown() -> None:
            time.sleep(60)

    left: list[object] = []
    monkeypatch.setattr(module, "_ray", Stuck)
    monkeypatch.setattr(module, "patiently", functools.partial(module.patiently, seconds=0.01))
    monkeypatch.setattr(atexit, "unregister", left.append)
    with pytest.raises(KeyboardInterrupt):
        Cluster(1)
    assert left == [Stuck.shutdown]


def test_ray_is_quiet_but_for_warnings_and_errors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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

        @staticmethod
        def shutdown() -> None:
            pass

    monkeypatch.setattr(module, "_ray", Talking)
    monkeypatch.setattr(logging.getLogger("ray"), "propagate", True)
    level = logging.getLogger("ray").level
    with pytest.raises(RunError, match="no Ray"):
        Cluster(1)
    assert {record.message for record in caplog.records} == {
        "Token authentication is disabled for this Ray cluster.",
        "broken",
    }
    assert logging.getLogger("ray").level == level, "the caller's own Ray may talk again"


class Failing(Exception):
    """Any error of Ray's."""


class Died(Failing):
    """A worker is gone."""


class OneMachine:
    """As much of Ray as a crew needs, on this machine: what is asked is answered, or lost, at once."""

    exceptions = SimpleNamespace(
        RayActorError=Died, ActorUnschedulableError=Died, RayTaskError=type("Task", (Failing,), {}), RayError=Failing
    )
    put = staticmethod(lambda value: value)
    shutdown = staticmethod(lambda: None)

    def __init__(self, answers: bool = True) -> None:
        self.is_there, self.answers, self.killed = True, answers, 0

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, object]]:
        if not self.is_there:
            raise Failing("gone")
        return [{"NodeID": "a", "Alive": True, "Resources": {}}]

    def remote(self, **_: object) -> object:
        actor = SimpleNamespace(ready=SimpleNamespace(remote=lambda: Reference((1, "loops"))))
        chosen = SimpleNamespace(remote=lambda *arguments: actor)
        return lambda worker: SimpleNamespace(options=lambda **_: chosen)

    def wait(self, references: list[object], **_: object) -> tuple[list[object], list[object]]:
        return references[:1], references[1:]

    def get(self, reference: Reference, timeout: float = 0) -> object:
        if not self.answers and reference.value != (1, "loops"):
            raise Died
        return reference.value

    def kill(self, actor: object) -> None:
        self.killed += 1


class Reference:
    def __init__(self, value: object) -> None:
        self.value = value


class Squares:
    """Work whose every answer lacks something the first time."""

    def __init__(self) -> None:
        self.lacked: set[int] = set()
        self.taken: dict[int, object] = {}
        self.doubted: list[Member] = []

    def ask(self, member: Member, part: int) -> Reference:
        return Reference(part * part)

    def take(self, member: Member, part: int, answer: object) -> bool:
        if part not in self.lacked:
            self.lacked.add(part)
            return False
        assert part not in self.taken
        self.taken[part] = answer
        return True

    def doubt(self, member: Member) -> None:
        self.doubted.append(member)


def crew_on(ray: OneMachine, monkeypatch: pytest.MonkeyPatch, expected: str = "loops") -> tuple[Cluster, Crew]:
    monkeypatch.setattr(module, "TICK", 0.01)
    monkeypatch.setattr(module, "_ray", lambda: ray)
    cluster = Cluster(2)
    return cluster, Crew(cluster, object, (), workers=2, expected=expected)


def test_every_part_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, crew = crew_on(OneMachine(), monkeypatch)
    work = Squares()
    crew.map(range(7), work)
    assert work.taken == {part: part * part for part in range(7)}
    crew.close()
    cluster.close()


def test_workers_that_always_die_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = OneMachine(answers=False)
    cluster, crew = crew_on(ray, monkeypatch)
    work = Squares()
    with pytest.raises(RunError, match="got workers that died each time; give the same command again"):
        crew.map(range(3), work)
    assert len(work.doubted) == ray.killed == module.FAILURES, "each was given up, and what it held was doubted"
    cluster.close()


def test_workers_with_other_loops_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, crew = crew_on(OneMachine(), monkeypatch, expected="others")
    with pytest.raises(CaribouError, match="the same loops as the driver, others, got loops"):
        crew.map(range(3), Squares())
    cluster.close()


def test_a_cluster_that_is_gone_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = OneMachine()
    cluster, crew = crew_on(ray, monkeypatch)
    monkeypatch.setattr(module, "SILENT", 0.05)
    ray.is_there = False
    time.sleep(0.1)
    with pytest.raises(RunError, match=r"cluster is gone.*give the same command again"):
        crew.map(range(3), Squares())
    cluster.close()


def test_a_cluster_without_a_worker_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = OneMachine()
    monkeypatch.setattr(ray, "wait", lambda references, **_: ([], references))
    cluster, crew = crew_on(ray, monkeypatch)
    monkeypatch.setattr(module, "UNSTAFFED", 0.05)
    with pytest.raises(RunError, match="workers must start within 0 s, got none on 1 nodes"):
        crew.map(range(3), Squares())
    cluster.close()
