"""The engine on Ray: one actor per node holds blocks and states, and Ray brings back what is lost.

What work gives for a block is a function of the work and of the block, and noise has an address. So a part may be computed
several times, by anybody, and gives the same bytes. That leaves recovery to Ray: it starts actors again, elsewhere if their node
is gone, and tells that their answers are lost; whoever is free is then asked. A node that is slow hands over blocks from pass to
pass. The driver keeps every shard as it arrives.

Workers of a release are sent a key that is derived from that of the run, its plan and its graph: they can draw the noise of this
run and no other. Workers of a training only count and are sent no key. Ray is imported when it is started.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from caribou.engines import kernels
from caribou.engines.blocks import BlockFiles, Layout, regrouped
from caribou.engines.edge_blocks import StoredEdges, Work
from caribou.engines.kernels import Shards, empty_rows
from caribou.engines.rounds import Progress, RoundGuard, Step, advance, joined
from caribou.errors import CaribouError, InputError, RunError
from caribou.machine.files import private_folder
from caribou.mechanisms.noise_source import BlockNoise

RESUMED = "give the same command again to go on after the last round that was stored"
NOT_RESUMED = "training is not resumed: give the command again, and what the ledger has charged stays charged"
FAILURES = 8
"""How often an actor is started again, and how many answers in a row may fail, before a run is given up."""
PARTS = 4
"""Parts of a round per worker, if there are blocks enough: the messages about an answer cost as much as a small block does."""
AHEAD = 1
"""Parts that wait at an actor beside those that it computes, so that it need not wait for the next."""
TICK = 1.0
"""Seconds without an answer after which the driver looks whether the cluster is there."""
SILENT = 30.0
"""Seconds without an answer of the cluster itself after which it is gone. Ray ends the whole process after 60."""
IDLE = 300.0
"""Seconds without any answer of a worker after which a run is given up. A cluster that grows on demand needs minutes."""

T = TypeVar("T")


class Shared:
    """The work of one pass, as every actor gets it. Called in a thread of an actor, it answers for a block; never with None."""

    def opened(self, before: Any, is_alone: bool) -> Self:
        """With what all blocks need, fetched once per actor.

        ``before``: what this actor has opened last, or None; with ``is_alone`` no thread works on it any more.
        """
        return self


class Worker:
    """Holds blocks, and works on several of them at a time in its threads. Lives in an actor."""

    def __init__(self) -> None:
        os.environ["OMP_NUM_THREADS"] = "1"  # a thread per block is enough; read when torch is loaded, if it is
        self._blocks: dict[int, Any] = {}
        self._newest: tuple[int, Any] = (0, None)
        self._opening, self._at_work = threading.Lock(), 0

    def ready(self) -> str:
        """Which loops this worker runs."""
        return kernels.name()

    def answer(self, index: int, number: int, work: list[Any], block: list[Any]) -> Any:
        """What the work of pass ``number`` gives for a block; both come as references, and are fetched if they are not here."""
        import ray

        with self._opening:
            newest, asked = self._newest
            if number != newest:
                asked = ray.get(work[0]).opened(asked, self._at_work == 0)
            if number > newest:
                self._newest = number, asked
            self._at_work += 1
        try:
            if index not in self._blocks:
                self._blocks[index] = _owned(ray.get(block[0]))
            return asked(index, self._blocks[index])
        finally:
            with self._opening:
                self._at_work -= 1


@dataclass(eq=False)
class Member:
    """One actor: all workers on one node are its threads, so that they share what it holds. It is ready once it has greeted."""

    actor: Any
    threads: int
    greeting: Any
    is_ready: bool = False


class Workers:
    """As many threads as ``workers`` on the nodes of a Ray, one actor per node.

    Args:
        workers: how many. Actors that find no processor wait for one, which makes a cluster grow.
        address: None for a Ray of this machine, which is started here; ``auto`` or ``ray://...`` for one that is joined.
        block: what an actor is to hold of a block, by its number.
        advice: what errors tell to do if all is lost.
    """

    def __init__(self, workers: int, address: str | None, block: Callable[[int], Any], advice: str) -> None:
        self.ray, self.advice, self._opened = _ray(), advice, ExitStack()
        self._opened.enter_context(started(workers, address))
        self._block, self._blocks, self._passes = block, dict[int, Any](), 0
        self.members: list[Member] = []
        self.homes: dict[int, Member] = {}
        actor = self.ray.remote(max_restarts=FAILURES, max_task_retries=-1)(Worker)
        for threads in _shares(workers, self.ray.nodes()):
            options = {"num_cpus": threads, "max_concurrency": threads, "scheduling_strategy": "SPREAD"}
            made = actor.options(**options).remote()
            self.members.append(Member(made, threads, made.ready.remote()))

    def map(self, parts: Sequence[int], work: Shared, take: Callable[[int, Any, Any], None]) -> None:
        """Have every part answered, and taken once with its reference, in any order; raises `RunError` if nobody is left."""
        self._passes += 1
        _Pass(self, self._passes, self.ray.put(work), take).run(parts)

    def ask(self, member: Member, number: int, part: int, work: Any) -> Any:
        """Ask an actor for a part of a pass; a reference to its answer. One that dies meanwhile is not asked again for it."""
        if part not in self._blocks:
            self._blocks[part] = self.ray.put(self._block(part))
        once = member.actor.answer.options(max_task_retries=0)
        return once.remote(part, number, [work], [self._blocks[part]])

    def close(self) -> None:
        """End all actors; a Ray that was started here is shut down. It waits for no answer of a cluster that is gone."""
        members, self.members, self.homes, self._blocks = self.members, [], {}, {}
        patiently(lambda: [self.ray.kill(member.actor) for member in members])
        self._opened.close()


class _Pass:
    """One work over some parts. ``owed``: by reference, who was asked for which part."""

    def __init__(self, workers: Workers, number: int, work: Any, take: Callable[[int, Any, Any], None]) -> None:
        self._workers, self._number, self._work, self._take = workers, number, work, take
        self._waiting: list[int] = []
        self._owed: dict[Any, tuple[Member, int]] = {}
        self._failures = 0
        self._answered = self._seen = time.monotonic()

    def run(self, parts: Sequence[int]) -> None:
        self._waiting = list(parts)
        while self._waiting or self._owed:
            while (chosen := self._next()) is not None:
                member, part = chosen
                self._waiting.remove(part)
                self._owed[self._workers.ask(member, self._number, part, self._work)] = chosen
            self._listen()

    def _next(self) -> tuple[Member, int] | None:
        """Whom to ask for what: whoever has least to do comes first."""
        busy = Counter(member for member, _ in self._owed.values())
        ready = [member for member in self._workers.members if member.is_ready]
        for member in sorted(ready, key=lambda one: busy[one] / one.threads):
            part = self._part_for(member, busy[member] - member.threads)
            if part is not None:
                return member, part
        return None

    def _part_for(self, member: Member, ahead: int) -> int | None:
        """A part whose block it holds, or nobody; with a free thread, one of whoever is far behind."""
        if ahead >= AHEAD:
            return None
        homes = self._workers.homes
        own = next((part for part in self._waiting if homes.get(part, member) is member), None)
        if own is not None or ahead >= 0:
            return own
        left = Counter(homes[part] for part in self._waiting)
        return next((part for part in self._waiting if left[homes[part]] >= 2 * homes[part].threads), None)

    def _listen(self) -> None:
        """Use the next answer or greeting."""
        greetings = {member.greeting: member for member in self._workers.members if not member.is_ready}
        ready, _ = self._workers.ray.wait([*greetings, *self._owed], num_returns=1, timeout=TICK)
        if not ready:
            self._require_life()
            return
        self._seen = time.monotonic()
        if ready[0] in greetings:
            self._greet(greetings[ready[0]])
        else:
            self._receive(ready[0])

    def _receive(self, reference: Any) -> None:
        member, part = self._owed[reference]
        answer = self._got(member, reference)
        if answer is not None:
            del self._owed[reference]
            self._answered, self._failures = time.monotonic(), 0
            self._workers.homes[part] = member  # it holds what the part needs
            self._take(part, answer, reference)

    def _greet(self, member: Member) -> None:
        loops = self._got(member, member.greeting)
        if loops is None:
            return
        if loops != kernels.name():
            raise CaribouError(f"workers must run the same loops as the driver, {kernels.name()}, got {loops}")
        member.is_ready, self._answered = True, time.monotonic()

    def _got(self, member: Member, reference: Any) -> Any:
        """What a reference stands for. A mistake of the work is raised; None: the answer failed, or its actor is gone."""
        errors = self._workers.ray.exceptions
        try:
            return self._workers.ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, CaribouError):
                raise error.cause from None
            why, is_gone = type(error.cause).__name__, False
        except errors.RayError as error:
            why, is_gone = (
                type(error).__name__,
                isinstance(error, (errors.ActorDiedError, errors.ActorUnschedulableError)),
            )
        self._lose(member, is_gone)
        self._failures += 1
        if self._failures > FAILURES or not self._workers.members:
            raise RunError(
                f"workers must answer at least once in {FAILURES} times, got {why} each time; {self._workers.advice}"
            )
        return None

    def _lose(self, member: Member, is_gone: bool) -> None:
        """What it was to do is anybody's. It must greet again, unless Ray has started it as often as it may."""
        self._waiting += [part for owner, part in self._owed.values() if owner is member]
        self._owed = {reference: owed for reference, owed in self._owed.items() if owed[0] is not member}
        self._workers.homes = {part: home for part, home in self._workers.homes.items() if home is not member}
        member.is_ready = False
        if is_gone:
            self._workers.members.remove(member)
        else:
            member.greeting = member.actor.ready.remote()

    def _require_life(self) -> None:
        """Nothing came for a while: give up if the cluster, or all workers, are gone."""
        now, advice = time.monotonic(), self._workers.advice
        if patiently(self._workers.ray.nodes, SILENT):
            self._seen = now
        elif time.monotonic() - self._seen > SILENT:
            raise RunError(f"the Ray cluster is gone: it has not answered for {SILENT:.0f} s; {advice}")
        if now - self._answered > IDLE:
            raise RunError(f"workers must answer within {IDLE:.0f} s, got no answer; {advice}")


class _State:
    """One state in a worker, shard by shard. A shard that is there is complete and never changes."""

    def __init__(self, layout: Layout, rows: np.ndarray | None = None) -> None:
        # in one piece: rows are read in random order, and large arrays have large pages
        self.rows = rows = empty_rows(layout.nodes, layout.columns) if rows is None else rows
        spans = [layout.span(index) for index in range(layout.blocks)]
        self._places = {index: rows[first:last] for index, (first, last) in enumerate(spans)}
        self._layout, self.shards = layout, dict[int, np.ndarray]()

    def room(self, index: int) -> np.ndarray:
        """Where to write a shard: its place, or, for whoever comes second, memory of its own."""
        place = self._places.pop(index, None)
        if place is not None:
            return place
        first, last = self._layout.span(index)
        return empty_rows(last - first, self._layout.columns)

    def whole(self) -> Shards:
        """All rows."""
        return Shards([self.shards[index] for index in range(self._layout.blocks)], self._layout.shift)


@dataclass
class _Round(Shared):
    """One round of message passing. ``key``: of the state that it starts from, whose shards are ``state``."""

    layout: Layout
    secret: bytes
    step: Step
    mean: np.ndarray | None
    key: tuple[int, int]
    state: list[Any]

    def opened(self, before: _Round | None, is_alone: bool) -> Self:
        """With the whole state in this process; what it has made itself is there already."""
        import ray

        self._noise = BlockNoise.from_worker(self.secret)
        self._guard: RoundGuard = RoundGuard() if before is None else before._guard
        self._guard.require(self.step, self.mean, self.key)
        if before is not None and self.key == (before.key[0], before.step.number):
            # new memory is cleared by the system first, which takes a tenth of a round
            here, spare = before._after, before._here.rows if is_alone else None
        else:
            here, spare = _State(self.layout), None
        self._here: _State = here
        self._after: _State = _State(self.layout, spare)
        missing = {index: shard for index, shard in enumerate(self.state) if index not in here.shards}
        if missing:
            ray.wait([*missing.values()], num_returns=len(missing), timeout=0)  # all of them begin to move
        for index, shard in missing.items():
            # copied: the pages of the object store are small
            room = here.room(index)
            room[:] = ray.get(shard)[0]
            here.shards[index] = room
        self._y, self.state = here.whole(), []  # Ray would track every reference that is kept here
        return self

    def __call__(self, index: int, block: Any) -> tuple[np.ndarray, np.ndarray, int]:
        """New rows, their sums, and how many entries were read."""
        rows, x0 = block
        out = self._after.room(index)
        sums = advance(rows, self._y, self._y.arrays[index], x0, self.step, self.mean, self._noise, out)
        self._after.shards.setdefault(index, out)
        return out, sums, rows.entries


class RayRunner:
    """Rounds on the workers of a Ray cluster. ``address``: None for a Ray of this machine alone, ``auto``, or ``ray://...``."""

    def __init__(
        self, files: BlockFiles, noise: BlockNoise, *, residual: bool, workers: int, address: str | None = None
    ) -> None:
        self._files, self._x0 = files, files.state("x0") if residual else None
        self._secret, self._guard, self._starts = noise.for_worker(), RoundGuard(), 0
        self._key, self._state = (0, 0), list[tuple[np.ndarray, Any]]()
        together = max(0, int(np.log2(files.layout.blocks / (PARTS * workers))))
        self._layout = replace(files.layout, shift=files.layout.shift + together)
        self.workers = Workers(min(workers, files.layout.blocks), address, self._block, RESUMED)

    def start(self, shards: Iterator[np.ndarray]) -> None:
        """Take over a state."""
        self._starts += 1
        self._key = self._starts, -1
        self._state = [(rows, self.workers.ray.put((rows,))) for rows in regrouped(shards, 1 << self._layout.shift)]

    def round(self, step: Step, mean: np.ndarray | None, progress: Progress) -> np.ndarray:
        """Run one round."""
        self._guard.require(step, mean, self._key)
        layout = self._layout
        found: dict[int, tuple[np.ndarray, np.ndarray, Any]] = {}
        entries = 0

        def take(index: int, answer: tuple[np.ndarray, np.ndarray, int], reference: Any) -> None:
            nonlocal entries
            rows, sums, count = answer
            found[index] = rows, np.array(sums), reference
            entries += count
            progress(step.number, len(found), entries)

        work = _Round(layout, self._secret, step, mean, self._key, [reference for _, reference in self._state])
        self.workers.map(range(layout.blocks), work, take)
        # the rows are kept beside their references: what is mapped here is not lost with the node that made it
        self._state = [(found[index][0], found[index][2]) for index in range(layout.blocks)]
        self._key = self._starts, step.number
        return joined([found[index][1] for index in range(layout.blocks)])

    def shards(self) -> Iterator[np.ndarray]:
        """The present state."""
        yield from (rows for rows, _ in self._state)

    def close(self) -> None:
        """End the workers and free their shards; a Ray that was started here is shut down."""
        self._state = []
        self.workers.close()

    def _block(self, index: int) -> Any:
        x0 = None if self._x0 is None else self._x0.read(*self._layout.span(index))
        return self._files.read_together(index, self._layout), x0


@dataclass(frozen=True)
class _Counting(Shared):
    """Work of a training, which needs nothing but its block."""

    work: Work[Any]

    def __call__(self, index: int, block: Any) -> tuple[Any]:
        """The answer alone."""
        return (self.work(*block),)


class RayBlocks:
    """Blocks on the nodes of a Ray cluster: an `EdgeStore` whose work runs there. Private.

    Args:
        stored: the files, from which workers get their blocks.
        workers: blocks that are worked on at a time.
        address: None for a Ray of this machine alone, ``auto``, or ``ray://...``.
    """

    def __init__(self, stored: StoredEdges, workers: int = 1, address: str | None = None) -> None:
        self._stored = stored
        self.entries, self.edges, self.degrees = stored.entries, stored.edges, stored.degrees
        self.workers = Workers(min(workers, stored.files.layout.blocks), address, stored.block, NOT_RESUMED)

    def map(self, work: Work[T], needed: np.ndarray | None) -> Iterator[T]:
        """Blocks in the order of rows, once all of them have been answered."""
        parts = self._stored.needed(needed)
        answers: dict[int, Any] = {}

        def take(index: int, answer: tuple[Any], _: Any) -> None:
            answers[index] = _owned(answer[0])

        self.workers.map(parts, _Counting(work), take)
        for index in parts:
            yield answers.pop(index)

    def close(self) -> None:
        """End the workers; a Ray that was started here is shut down."""
        self.workers.close()


def _owned(value: Any) -> Any:
    """The value with arrays of its own: what is only mapped would stay in the object store, whose pages are small."""
    parts: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(value, protocol=5, buffer_callback=parts.append)
    return pickle.loads(rest, buffers=[np.frombuffer(part.raw(), np.uint8).copy() for part in parts])


def _shares(workers: int, nodes: list[dict[str, Any]]) -> Iterator[int]:
    """How many threads each actor has: one actor per node that there is, and as large ones for nodes that may come."""
    there = sorted((int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]), reverse=True)
    largest = max([1, *there])
    for processors in itertools.chain((count for count in there if count), itertools.repeat(largest)):
        if workers <= 0:
            return
        yield min(workers, processors)
        workers -= processors


# -- starting and ending Ray --------------------------------------------------------------------------------------------


@contextmanager
def started(workers: int, address: str | None) -> Iterator[None]:
    """A Ray of this machine (``address`` None), or one that is joined, while the context lasts; the caller's if there is one."""
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    from ray._private import ray_constants, worker

    with ExitStack() as opened:
        # a start that went well has its warnings, too
        everything = logging.getLogger("ray")
        opened.callback(everything.setLevel, everything.level)
        everything.setLevel(max(everything.level, logging.ERROR))
        # Ray prints on standard output that a node is lost, where a program may read the result of a command
        opened.enter_context(_changed(worker, "print_to_stdstream", lambda *_, **__: None))
        own: dict[str, Any] = {"address": address}
        if address is None:
            # Ray spills objects (the graph, hidden states) and logs their sizes to its folder, which it opens to everybody (mode
            # 0777), as all that it makes in there. So that folder lies in a private one, of mode 0700, which is removed at the
            # end. Its name is short: the names of sockets are bounded.
            folder = opened.enter_context(private_folder())
            # "local": without it Ray would join whatever cluster it finds on this machine, and that would be sent the key
            own = {"address": "local", "num_cpus": workers, "include_dashboard": False}
            own["_temp_dir"] = os.path.join(folder, "r")
        opened.callback(_end_ray, ray)  # also half started: what runs on would write its folder again
        # it listens on every address of a machine, unless it takes it for one that has no cluster
        has_cluster = ray_constants.ENABLE_RAY_CLUSTER and address is not None
        try:
            with _changed(ray_constants, "ENABLE_RAY_CLUSTER", has_cluster):
                ray.init(**own, log_to_driver=False, logging_level="error", configure_logging=False)
        except ConnectionError as error:
            rule = "be that of a Ray that answers and takes the token of this process (RAY_AUTH_TOKEN)"
            raise InputError.of("address", rule, address) from error
        yield


@contextmanager
def _changed(owner: Any, name: str, value: object) -> Iterator[None]:
    """Another value where Ray has no option."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _end_ray(ray: Any) -> None:
    if not patiently(ray.shutdown):
        # Ray does the same once more when the process ends, and would wait for this one for ever
        atexit.unregister(ray.shutdown)


def patiently(work: Callable[[], object], seconds: float = 10.0) -> bool:
    """Wait, but not for ever, for what a cluster that is gone never finishes, or fails in many ways. Whether it was done."""
    done = threading.Event()

    def attempt() -> None:
        with suppress(Exception):
            work()
            done.set()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
    return done.is_set()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError("engine ray needs the package ray: pip install 'caribou-gnn[ray]'") from None
    return ray
