"""The engine on Ray: workers keep their blocks, states move through the object store, and the driver's folder is the truth.

The result of (round, block) is a function of the state, the block and the key. So a part that is asked for twice, because a
worker or a node was lost or slow, gives the same bytes. The driver writes every shard to its private folder as it arrives. What a
worker lacks is put into the object store again from there, so no run depends on what a lost node held. Workers are sent a key
that is derived from that of the run, its plan and its graph: they can draw the noise of this run and no other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from caribou.engines import kernels
from caribou.engines.blocks import Block, BlockFiles, Layout, StateFile
from caribou.engines.cluster import Cluster, Crew, Member
from caribou.engines.kernels import Rows, Shards, empty_rows
from caribou.engines.rounds import Progress, RoundGuard, Step, advance, joined
from caribou.mechanisms.noise_source import BlockNoise

FETCH = 20.0
"""Seconds without any shard arriving after which a worker gives up and says what it lacks."""

Key = tuple[int, int]
"""A state, by how it came about: the number of the start, and of the round that made it (-1: none)."""


@dataclass(frozen=True)
class Lacking:
    """What a worker could not get: shards of the state by number, and whether its block."""

    shards: tuple[int, ...] = ()
    block: bool = False


class State:
    """One state in a worker, shard by shard. A shard that is there is complete and never changes."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self._rooms = layout, set(range(layout.blocks))
        self._rows = empty_rows(layout.nodes, layout.columns)
        self._lock = threading.Lock()
        self.fetching = threading.Lock()
        self.shards: dict[int, np.ndarray] = {}

    def room(self, shard: int) -> np.ndarray:
        """Where to write a shard: its place, or, for whoever comes second, memory of its own."""
        first, last = self._layout.span(shard)
        with self._lock:
            if shard in self._rooms:
                self._rooms.remove(shard)
                return self._rows[first:last]
        return empty_rows(last - first, self._layout.columns)

    @property
    def lacking(self) -> list[int]:
        """Shards that are not there yet."""
        return [shard for shard in range(self._layout.blocks) if shard not in self.shards]

    def whole(self) -> Shards:
        """All rows."""
        return Shards([self.shards[shard] for shard in range(self._layout.blocks)], self._layout.shift)


class Worker:
    """Holds blocks and the states of two rounds, and advances blocks on several threads. Lives in an actor."""

    def __init__(self, layout: Layout, secret: bytes) -> None:
        self._layout, self._noise, self._guard = layout, BlockNoise.from_worker(secret), RoundGuard()
        self._blocks: dict[int, tuple[Block, np.ndarray | None]] = {}
        self._states: dict[Key, State] = {}
        self._lock = threading.Lock()
        self._early = ThreadPoolExecutor(1)

    def ready(self) -> tuple[int, str]:
        """The process that runs this worker, and its loops."""
        return os.getpid(), kernels.name()

    def advance(
        self,
        index: int,
        step: Step,
        mean: np.ndarray | None,
        key: Key,
        state: dict[int, Any],
        early: dict[int, Any],
        held: list[Any],
    ) -> tuple[np.ndarray, np.ndarray, int] | Lacking:
        """One block of one round: new rows, their sums, and how many entries were read; or what is lacking.

        ``state`` and ``held`` are references of what this process may not have of the state and of its block. ``early``: shards
        of the next state that others have made, fetched while this one computes.
        """
        with self._lock:
            self._guard.require(step, mean, key)
            before, after = self._state(key), self._state((key[0], step.number))
        if early:
            self._early.submit(_fetch, after, early)
        with before.fetching:
            lacking = _fetch(before, state)
        block, x0 = self._block(index, held)
        if lacking or block is None:
            return Lacking(tuple(lacking), block is None)
        out = after.room(index)
        sums = advance(block, before.whole(), before.shards[index], x0, step, mean, self._noise, out)
        after.shards.setdefault(index, out)
        return out, sums, block.entries

    def _state(self, key: Key) -> State:
        """The state of a key. Two are kept, the newest; whoever computes from an older one keeps it as long as that takes."""
        if key not in self._states:
            self._states[key] = State(self._layout)
        found = self._states[key]
        for old in sorted(self._states)[:-2]:
            del self._states[old]
        return found

    def _block(self, index: int, held: list[Any]) -> tuple[Block | None, np.ndarray | None]:
        import ray

        if index not in self._blocks:
            if not held or not ray.wait(held, timeout=FETCH)[0]:
                return None, None
            try:
                starts, columns, ownless, x0 = ray.get(held[0], timeout=FETCH)
            except ray.exceptions.RayError:
                return None, None
            # copied: what is only mapped would stay in the object store
            rows = Rows(np.array(starts), np.array(columns))
            block = Block(index, self._layout.span(index)[0], (rows,), np.array(ownless))
            self._blocks[index] = (block, None if x0 is None else np.array(x0))
        return self._blocks[index]


def _fetch(state: State, references: dict[int, Any]) -> list[int]:
    """Fetch shards that are not there, as they come. Returns what is lacking then."""
    import ray

    waiting = {references[shard]: shard for shard in state.lacking if shard in references}
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=FETCH)
        if not ready:
            break
        for reference in ready:
            shard = waiting.pop(reference)
            try:
                rows = ray.get(reference, timeout=FETCH)[0]
            except ray.exceptions.RayError:
                continue
            # copied: rows are read in random order, and the pages of the object store are small
            room = state.room(shard)
            room[:] = rows
            state.shards.setdefault(shard, room)
    return state.lacking


class RayRunner:
    """Rounds on the workers of a Ray cluster. ``address``: None for a cluster of this machine alone, ``auto``, or ``ray://...``."""

    durable = True

    def __init__(
        self, files: BlockFiles, noise: BlockNoise, *, residual: bool, workers: int, address: str | None = None
    ) -> None:
        self._files, self._x0 = files, files.state("x0") if residual else None
        self._cluster = Cluster(workers, address)
        secret, workers = noise.for_worker(), min(workers, files.layout.blocks)
        self.crew = Crew(self._cluster, Worker, (files.layout, secret), workers=workers, expected=kernels.name())
        self._guard, self._starts = RoundGuard(), 0
        self._state: _Sent | None = None
        self._holders: dict[int, set[Member]] = {}

    def start(self, shards: Iterator[np.ndarray]) -> None:
        """Rounds read the state file of the round before; nothing is taken over."""
        self._starts += 1
        self._state = None

    def round(self, step: Step, mean: np.ndarray | None, progress: Progress) -> np.ndarray:
        """Run one round, from the state of round number - 1 to that of this one."""
        before = self._state or _Sent(
            self._cluster.ray, self._files.state(f"round-{step.number - 1}"), (self._starts, -1)
        )
        self._guard.require(step, mean, before.key)
        after = _Sent(self._cluster.ray, self._files.state(f"round-{step.number}"), (self._starts, step.number))
        after.file.begin()
        work = _Round(self, step, mean, before, after, progress)
        self.crew.map(range(self._files.layout.blocks), work)
        after.file.sync()
        self._state = after
        return joined([work.sums[index] for index in range(self._files.layout.blocks)])

    def shards(self) -> Iterator[np.ndarray]:
        """The present state, read block by block."""
        if self._state is not None:
            for block in range(self._files.layout.blocks):
                yield self._state.file.read(*self._files.layout.span(block))

    def close(self) -> None:
        """End the workers and free their shards; a Ray that was started here is shut down."""
        self._state, self._holders = None, {}
        self.crew.close()
        self._cluster.close()

    def block(self, index: int) -> Any:
        """The reference of a block, put into the object store."""
        block = self._files.read(index)
        rows = block.tiles[0]
        x0 = None if self._x0 is None else self._x0.read(*self._files.layout.span(index))
        return self._cluster.ray.put((rows.starts, rows.columns, block.ownless, x0))

    def holders(self, index: int) -> set[Member]:
        """Who holds a block."""
        return self._holders.setdefault(index, set())


class _Sent:
    """A state as the driver knows it: its file, who made which shard, and references to those that are in the object store."""

    def __init__(self, ray: Any, file: StateFile, key: Key) -> None:
        self._ray, self.file, self.key = ray, file, key
        self.makers: dict[int, Member] = {}
        self.whole_at: set[Member] = set()
        self._references: dict[int, Any] = {}

    def made(self, shard: int, member: Member, reference: Any) -> None:
        self.makers[shard], self._references[shard] = member, reference

    def reference(self, shard: int) -> Any:
        """One that can be relied on: put from the file if no answer of a living worker holds it."""
        if shard not in self._references:
            self._references[shard] = self._ray.put((self.file.read(*self.file.layout.span(shard)),))
        return self._references[shard]

    def forget(self, shard: int) -> None:
        """Do not rely on what is in the object store."""
        self._references.pop(shard, None)

    def doubt(self, member: Member) -> None:
        for shard, maker in list(self.makers.items()):
            if maker is member:
                self.forget(shard)
                del self.makers[shard]


@dataclass
class _Round:
    """One round over all blocks, as work for a crew."""

    runner: RayRunner
    step: Step
    mean: np.ndarray | None
    before: _Sent
    after: _Sent
    progress: Progress

    def __post_init__(self) -> None:
        self.sums: dict[int, np.ndarray] = {}
        self._entries = 0
        self._early: dict[Member, set[int]] = {}
        self._blocks: dict[int, Any] = {}
        self._asked: dict[tuple[Member, int], Any] = {}

    def ask(self, member: Member, part: int) -> Any:
        state: dict[int, Any] = {}
        if member not in self.before.whole_at:
            shards = range(self.before.file.layout.blocks)
            state = {i: self.before.reference(i) for i in shards if self.before.makers.get(i) is not member}
        sent = self._early.setdefault(member, set())
        early = {
            i: self.after.reference(i) for i in self.sums if i not in sent and self.after.makers.get(i) is not member
        }
        sent |= set(early)
        held = []
        if member not in self.runner.holders(part):
            if part not in self._blocks:
                self._blocks[part] = self.runner.block(part)
            held = [self._blocks[part]]
        reference = member.actor.advance.remote(part, self.step, self.mean, self.before.key, state, early, held)
        self._asked[member, part] = reference
        return reference

    def take(self, member: Member, part: int, answer: Any) -> bool:
        reference = self._asked.pop((member, part))
        if isinstance(answer, Lacking):
            self.before.whole_at.discard(member)
            for shard in answer.shards:
                self.before.forget(shard)
                self.before.makers.pop(shard, None)
            if answer.block:
                self.runner.holders(part).discard(member)
                self._blocks.pop(part, None)
            return False
        rows, sums, entries = answer
        self.sums[part] = np.array(sums)  # copied: what is only mapped would stay in the object store
        self.after.file.write(self.after.file.layout.span(part)[0], rows)
        self.after.made(part, member, reference)
        self.before.whole_at.add(member)
        self.runner.holders(part).add(member)
        self._blocks.pop(part, None)
        self._entries += entries
        self.progress(self.step.number, len(self.sums), self._entries)
        return True

    def doubt(self, member: Member) -> None:
        self.before.doubt(member)
        self.after.doubt(member)
