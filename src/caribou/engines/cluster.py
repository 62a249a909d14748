"""Workers of a Ray cluster that may be lost, and a map over parts of work that ends all the same.

Ray starts processes and moves objects; whatever is lost is replaced here and not by Ray, which does not bring back the objects of
a node that is gone. A `Crew` asks its members for every part until one of them has answered. A part may be asked for several
times, of several members: its answer must be a function of what is asked. Ray is imported when a `Cluster` is made.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from caribou.errors import CaribouError, InputError, RunError

RESUME = "give the same command again to go on after the last complete round"
TICK = 1.0
"""Seconds between two looks at the cluster."""
FAILURES = 8
"""How many answers in a row may be lost before a run is given up."""
UNSTAFFED = 300.0
"""Seconds without a worker after which a run is given up. A cluster that grows on demand needs minutes."""
SILENT = 30.0
"""Seconds without an answer of the cluster itself after which it is gone. Ray ends the whole process after 60."""
SLOW = 2.0
"""A part that takes this many times as long as the slowest answer of the others so far gets a second copy, ..."""
HASTE = 3.0
"""... but none before these seconds."""
STUCK = 120.0
"""Seconds after which a worker that was overtaken by copies and has still not answered is replaced."""
AVOIDED = 10.0
"""Seconds for which nothing is started on a node where a worker did not start."""
AHEAD = 1
"""Parts that wait at a worker beside those that it computes, so that it need not wait for the next."""


class Cluster:
    """A Ray: one of this machine, started here (``address`` None), or one that is joined (``auto``, ``ray://...``).

    ``advice``: what errors tell to do if it is lost.
    """

    def __init__(self, workers: int, address: str | None = None, advice: str = RESUME) -> None:
        self.advice = advice
        self.ray = ray = _ray()
        self._started_ray = not ray.is_initialized()
        self._folder: str | None = None
        self._unquiet: Callable[[], None] = lambda: None
        if self._started_ray:
            self._unquiet = _quiet()
            own: dict[str, Any] = {}
            if address is None:
                # Ray spills objects (the graph, hidden states) and logs their sizes to its folder, which it opens to everybody
                # (mode 0777), as all that it makes in there. So that folder lies in a private one, of mode 0700, which is
                # removed at the end. Its name is short: the names of sockets are bounded.
                self._folder = tempfile.mkdtemp(prefix="caribou-")
                own = {"num_cpus": workers, "include_dashboard": False, "_temp_dir": os.path.join(self._folder, "r")}
            # "local": without it Ray would join whatever cluster it finds on this machine, and that would be sent the key
            where = "local" if address is None else address
            try:
                ray.init(address=where, log_to_driver=False, logging_level="error", configure_logging=False, **own)
            except BaseException:
                self._end_ray()
                raise
        self._seen, self._nodes = time.monotonic(), self._ask_nodes()
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def nodes(self) -> dict[str, int]:
        """Processors of every living node, as seen a moment ago. A cluster that does not answer any more is an error."""
        if time.monotonic() - self._seen > SILENT:
            raise RunError(f"the Ray cluster is gone: it has not answered for {SILENT:.0f} s; {self.advice}")
        return self._nodes

    def close(self) -> None:
        """Leave the cluster; a Ray that was started here is shut down. It waits for no answer of a cluster that is gone."""
        self._closing.set()
        self._watch.join(timeout=2 * TICK)
        self._end_ray()

    def _end_ray(self) -> None:
        """Shut a Ray down that was started here, also half started: what runs on would write its folder again."""
        if self._started_ray and not patiently(self.ray.shutdown):
            # Ray does the same once more when the process ends, and would wait for this one for ever
            atexit.unregister(self.ray.shutdown)
        self._remove_folder()
        self._unquiet()

    def _look(self) -> None:
        while not self._closing.wait(TICK):
            try:
                self._nodes = self._ask_nodes()
            except Exception:  # noqa: BLE001 - Ray raises errors of many kinds when it is gone; `nodes` counts the seconds
                continue
            self._seen = time.monotonic()

    def _ask_nodes(self) -> dict[str, int]:
        return {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in self.ray.nodes() if node["Alive"]}

    def _remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(eq=False)
class Member:
    """One actor: all workers on one node are its threads, so that they share what it holds. ``node``: None, wherever it fits."""

    actor: Any
    node: str | None
    threads: int
    greeting: Any
    process: int | None = None  # None until it has answered for the first time
    queue: list[int] = field(default_factory=list)
    asked: dict[int, float] = field(default_factory=dict)  # parts that it computes or that wait there, and since when
    doubted: float | None = None  # since when it owes an answer that another one was asked for

    @property
    def is_ready(self) -> bool:
        """It has started and owes nothing."""
        return self.process is not None and self.doubted is None


class Work(Protocol):
    """What a `Crew` is to do for every part."""

    def ask(self, member: Member, part: int) -> Any:
        """Submit a part to the actor of a member; returns the reference of the answer."""

    def take(self, member: Member, part: int, answer: Any) -> bool:
        """Use the first answer. False: the member could not do it, and must be asked again with what it lacks."""

    def doubt(self, member: Member) -> None:
        """The member is lost, or does not answer: what only it holds must not be relied on."""


class Crew:
    """As many threads as ``workers`` on the nodes of a cluster, one actor per node; replaced when they are lost.

    ``worker(*arguments)`` is made on every node. Its method ``ready`` must give its process and ``expected``.
    """

    def __init__(
        self, cluster: Cluster, worker: type, arguments: tuple[Any, ...], *, workers: int, expected: object
    ) -> None:
        self._cluster, self._ray, self._arguments, self._expected = cluster, cluster.ray, arguments, expected
        self._actor, self._wanted = self._ray.remote(max_restarts=0, max_task_retries=0)(worker), workers
        self.members: list[Member] = []
        self._homes: dict[int, Member] = {}
        self._late: dict[Any, Member] = {}
        self._avoided: dict[str | None, float] = {}
        self._failures, self._looked, self._staffed = 0, 0.0, time.monotonic()
        self._staff(cluster.nodes())

    def map(self, parts: Iterable[int], work: Work) -> None:
        """Have every part answered and taken once, whoever is lost on the way; raises `RunError` if nobody is left."""
        self._staffed = time.monotonic()  # between two maps nobody listens for workers that start
        _Map(self, list(parts), work).run()

    def close(self) -> None:
        """End all actors."""
        members, self.members, self._late, self._homes = self.members, [], {}, {}
        patiently(lambda: [self._ray.kill(member.actor) for member in members])

    def tend(self, lose: Callable[[Member], None]) -> None:
        """Every tick: give up members of nodes that are gone, or that are stuck, and start others in their place."""
        now = time.monotonic()
        if now - self._looked < TICK:
            return
        self._looked, nodes = now, self._cluster.nodes()
        for member in list(self.members):
            gone = member.node is not None and member.node not in nodes
            if gone or (member.doubted is not None and now - member.doubted > STUCK):
                lose(member)
        self._staff(nodes)
        if any(member.process is not None for member in self.members):
            self._staffed = now
        elif now - self._staffed > UNSTAFFED:
            raise RunError(
                f"workers must start within {UNSTAFFED:.0f} s, got none on {len(nodes)} nodes; {self._cluster.advice}"
            )

    def greet(self, member: Member) -> None:
        """The first answer of a member."""
        member.process, found = self._ray.get(member.greeting)
        if found != self._expected:
            raise CaribouError(f"workers must run the same loops as the driver, {self._expected}, got {found}")

    def lose(self, member: Member) -> None:
        """Forget a member, and make sure that it is gone."""
        self.members.remove(member)
        self._late = {reference: late for reference, late in self._late.items() if late is not member}
        self._homes = {part: home for part, home in self._homes.items() if home is not member}
        self._ray.kill(member.actor)

    def failed(self, why: str) -> None:
        """Count an answer that was lost; `answered` sets the count back."""
        self._failures += 1
        if self._failures > FAILURES:
            raise RunError(
                f"workers must answer at least once in {FAILURES} times, got {why} each time; {self._cluster.advice}"
            )

    def avoid(self, member: Member, why: str) -> None:
        """A worker did not start: its node is left alone for a while. It may be gone, and the cluster does not know yet."""
        self._avoided[member.node] = time.monotonic() + AVOIDED
        if not any(other.process is not None for other in self.members):
            self.failed(why)

    def answered(self, member: Member, part: int) -> None:
        """The member that answered first is asked for this part again the next time: it holds what the part needs."""
        self._failures, self._homes[part] = 0, member

    def home(self, part: int) -> Member | None:
        """Who answered for a part the last time, if it is still there."""
        return self._homes.get(part)

    @property
    def late(self) -> dict[Any, Member]:
        """Answers of earlier maps that are still owed. Nobody needs them; they tell that a member is well again."""
        return self._late

    def _staff(self, nodes: dict[str, int]) -> None:
        missing = self._wanted - sum(member.threads for member in self.members)
        for node in sorted(nodes, key=lambda name: (-nodes[name], name)):
            spare = nodes[node] - sum(member.threads for member in self.members if member.node == node)
            if missing > 0 and spare > 0 and time.monotonic() > self._avoided.get(node, 0.0):
                self._start(node, min(missing, spare))
                missing -= min(missing, spare)
        if not self.members and not any(nodes.values()):  # actors that wait for a processor make a cluster grow
            for _ in range(self._wanted):
                self._start(None, 1)

    def _start(self, node: str | None, threads: int) -> None:
        options: dict[str, Any] = {"num_cpus": threads, "max_concurrency": threads}
        if node is not None:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        actor = self._actor.options(**options).remote(*self._arguments)
        self.members.append(Member(actor, node, threads, actor.ready.remote()))


@dataclass
class _Map:
    """One pass over some parts."""

    crew: Crew
    parts: list[int]
    work: Work

    def __post_init__(self) -> None:
        self._ray = self.crew._ray
        self._open = set(self.parts)
        self._asked: dict[Any, tuple[Member, int]] = {}
        self._orphans: list[int] = []
        self._slowest = 0.0

    def run(self) -> None:
        for member in self.crew.members:
            member.queue, member.asked = [], {}
        for part in self.parts:
            home = self.crew.home(part)
            (self._orphans if home is None else home.queue).append(part)
        try:
            while self._open:
                self.crew.tend(self._lose)
                self._doubt_the_slow()
                for member in self.crew.members:
                    self._hand_out(member)
                self._listen()
        finally:
            for reference, (member, _) in self._asked.items():
                self.crew.late[reference] = member

    def _listen(self) -> None:
        greetings = {member.greeting: member for member in self.crew.members if member.process is None}
        references = [*self._asked, *self.crew.late, *greetings]
        if not references:
            time.sleep(TICK)
            return
        ready, _ = self._ray.wait(references, num_returns=1, timeout=TICK)  # one that is ready is on this node, too
        for reference in ready:
            if reference in greetings:
                member = greetings[reference]
                self._try(member, partial(self.crew.greet, member))
            elif reference in self.crew.late:
                member = self.crew.late.pop(reference)
                member.doubted = None
            elif reference in self._asked:
                member, part = self._asked.pop(reference)
                self._try(member, partial(self._take, member, part, reference), part)

    def _take(self, member: Member, part: int, reference: Any) -> None:
        since = member.asked.pop(part, None)
        answer = self._ray.get(reference, timeout=SILENT)
        member.doubted = None
        if part not in self._open:
            return  # another one was faster
        if not self.work.take(member, part, answer):
            self.crew.failed("workers that lack their data")
            self._ask(member, part)
            return
        if since is not None:
            self._slowest = max(self._slowest, time.monotonic() - since)
        self._open.remove(part)
        self.crew.answered(member, part)

    def _try(self, member: Member, use: Callable[[], None], part: int | None = None) -> None:
        """Use an answer. A member that is dead is lost, an answer that is lost is asked for again, a mistake is raised."""
        errors = self._ray.exceptions
        try:
            use()
        except (errors.RayActorError, errors.ActorUnschedulableError) as error:
            if member.process is None:
                self.crew.avoid(member, type(error).__name__)
                self._lose(member)
                return
            self.crew.failed("workers that died")
            if member in self.crew.members:
                self._lose(member)
            self._orphan(part)
        except errors.RayTaskError as error:
            if isinstance(error.cause, CaribouError):
                raise error.cause from None
            self.crew.failed(type(error.cause).__name__)
            self._orphan(part)
        except errors.RayError as error:
            self.crew.failed(type(error).__name__)
            self._orphan(part)

    def _lose(self, member: Member) -> None:
        self.crew.lose(member)
        self.work.doubt(member)
        mine = [reference for reference, (asked, _) in self._asked.items() if asked is member]
        parts = [self._asked.pop(reference)[1] for reference in mine] + member.queue + list(member.asked)
        for part in dict.fromkeys(parts):
            self._orphan(part)

    def _orphan(self, part: int | None) -> None:
        """A part that nobody works on any more is anybody's."""
        if part in self._open and part not in self._orphans and not self._copies(part):
            self._orphans.append(part)

    def _copies(self, part: int) -> list[Member]:
        return [member for member, asked in self._asked.values() if asked == part]

    def _doubt_the_slow(self) -> None:
        """A member with an answer that is long overdue gets no more work until it answers, if another one is well."""
        now, limit = time.monotonic(), max(HASTE, SLOW * self._slowest)
        for member in self.crew.members:
            overdue = any(now - since > limit for since in member.asked.values())
            idle = any(other.is_ready and not other.queue and not other.asked for other in self.crew.members)
            if member.is_ready and overdue and idle:
                member.doubted = now
                self.work.doubt(member)
                self._orphans += member.queue
                member.queue = []

    def _hand_out(self, member: Member) -> None:
        while member.is_ready and len(member.asked) < member.threads + AHEAD:
            part = self._next(member)
            if part is None:
                return
            self._ask(member, part)

    def _next(self, member: Member) -> int | None:
        """A part for a member: its own, one of nobody, one of a long queue, or a copy of one that is overdue."""
        if member.queue:
            return member.queue.pop(0)
        if self._orphans:
            return self._orphans.pop(0)
        longest = max(self.crew.members, key=lambda other: len(other.queue) / other.threads)
        if len(longest.queue) >= 2 * longest.threads:
            return longest.queue.pop()
        for other, part in self._asked.values():
            if other.doubted is not None and part in self._open and all(c.doubted for c in self._copies(part)):
                return part
        return None

    def _ask(self, member: Member, part: int) -> None:
        member.asked[part] = time.monotonic()
        self._asked[self.work.ask(member, part)] = (member, part)


def patiently(work: Callable[[], object], seconds: float = 10.0) -> bool:
    """Wait for something that a cluster that is gone would never finish, but not for ever. Whether it was finished."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def _quiet() -> Callable[[], None]:
    """Keep what Ray tells of its start off the screen, warnings and errors excepted; returns what undoes it.

    One of its warnings is no bad news, that a cluster asks for a token, and comes with every start: it is kept off as well.
    """
    everything = logging.getLogger("ray")
    tokens = logging.getLogger("ray._private.authentication.authentication_token_setup")
    level = everything.level
    everything.setLevel(max(level, logging.WARNING))
    tokens.addFilter(_is_news)

    def undo() -> None:
        everything.setLevel(level)
        tokens.removeFilter(_is_news)

    return undo


def _is_news(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Token authentication is enabled")


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError("engine ray needs the package ray: pip install 'caribou-gnn[ray]'") from None
    return ray
