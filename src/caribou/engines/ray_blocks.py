"""The engine ``ray`` for training: workers hold blocks and count, the driver's folder is the truth and the driver draws.

What work gives for a block is an exact function of the work and of the block. So a part that is asked for twice, because a worker
or a node was lost or slow, gives the same answer. Noise is added by whoever asked, in one process: workers are sent no key.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from caribou.engines import kernels
from caribou.engines.cluster import Cluster, Crew, Member
from caribou.engines.edge_blocks import StoredEdges, Work
from caribou.engines.ray import FETCH

ADVICE = "training is not resumed: give the command again, and what the ledger has charged stays charged"
T = TypeVar("T")
Held = tuple[int, np.ndarray, np.ndarray]
"""First row, starts and columns of a block."""


@dataclass(frozen=True)
class Missing:
    """What a worker could not get: the work of the pass, or its block."""

    work: bool = False
    block: bool = False


class BlockWorker:
    """Holds blocks, and works on several of them at a time in its threads. Lives in an actor."""

    def __init__(self) -> None:
        os.environ["OMP_NUM_THREADS"] = "1"  # a thread per block is enough; read when torch is loaded, if it is
        self._blocks: dict[int, Held] = {}
        self._works: dict[int, Any] = {}
        self._fetching = threading.Lock()

    def ready(self) -> tuple[int, str]:
        """The process that runs this worker, and its loops."""
        return os.getpid(), kernels.name()

    def answer(self, index: int, number: int, work: list[Any], held: list[Any]) -> tuple[Any] | Missing:
        """What the work of pass ``number`` gives for a block; or what is missing.

        ``work`` and ``held`` are references of the work, and of the block if this process may not have it.
        """
        with self._fetching:  # the work of a pass is fetched once, whichever thread comes first
            if number not in self._works:
                found = _fetched(work)
                if found is None:
                    return Missing(work=True)
                self._works = {known: self._works[known] for known in sorted(self._works)[-1:]} | {number: found[0]}
            asked = self._works[number]
        if index not in self._blocks:
            block = _fetched(held)
            if block is None:
                return Missing(block=True)
            first, starts, columns = block
            # copied: what is only mapped would stay in the object store
            self._blocks[index] = first, np.array(starts), np.array(columns)
        return (asked(*self._blocks[index]),)


def _fetched(references: list[Any]) -> Any:
    """What the only reference refers to; None if there is none, or if it does not come."""
    import ray

    if not references or not ray.wait(references, timeout=FETCH)[0]:
        return None
    try:
        return ray.get(references[0], timeout=FETCH)
    except (ray.exceptions.GetTimeoutError, ray.exceptions.ObjectLostError):
        return None


class RayBlocks:
    """Blocks on the nodes of a Ray cluster: an `EdgeStore` whose work runs there. Private.

    Args:
        stored: the files; what a worker lacks is put into the object store from there.
        workers: blocks that are worked on at a time.
        address: None for a cluster of this machine alone, ``auto``, or ``ray://...``.
    """

    def __init__(self, stored: StoredEdges, workers: int = 1, address: str | None = None) -> None:
        self.stored, self._passes = stored, 0
        self.entries, self.edges, self.degrees = stored.entries, stored.edges, stored.degrees
        self.cluster = Cluster(workers, address, ADVICE)
        threads = min(workers, stored.files.layout.blocks)
        self.crew = Crew(self.cluster, BlockWorker, (), workers=threads, expected=kernels.name())
        self._holders: dict[int, set[Member]] = {}

    def map(self, work: Work[T], needed: np.ndarray | None) -> Iterator[T]:
        """Blocks in the order of rows, once all of them have been answered."""
        parts = self.stored.needed(needed)
        self._passes += 1
        asked = _Pass(self, self._passes, work)
        self.crew.map(parts, asked)
        for index in parts:
            yield asked.answers.pop(index)

    def holders(self, index: int) -> set[Member]:
        """Who holds a block."""
        return self._holders.setdefault(index, set())

    def close(self) -> None:
        """End the workers; a Ray that was started here is shut down."""
        self._holders = {}
        self.crew.close()
        self.cluster.close()


@dataclass
class _Pass:
    """One work over some blocks, as work for a crew."""

    store: RayBlocks
    number: int
    work: Any
    answers: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sent: Any = None
        self._blocks: dict[int, Any] = {}

    def ask(self, member: Member, part: int) -> Any:
        """As `caribou.engines.cluster.Work.ask`."""
        put = self.store.cluster.ray.put
        if self._sent is None:
            self._sent = put((self.work,))
        held = []
        if member not in self.store.holders(part):
            if part not in self._blocks:
                self._blocks[part] = put(self.store.stored.block(part))
            held = [self._blocks[part]]
        return member.actor.answer.remote(part, self.number, [self._sent], held)

    def take(self, member: Member, part: int, answer: Any) -> bool:
        """As `caribou.engines.cluster.Work.take`."""
        if isinstance(answer, Missing):
            if answer.work:
                self._sent = None
            if answer.block:
                self.store.holders(part).discard(member)
                self._blocks.pop(part, None)
            return False
        self.answers[part] = _owned(answer[0])
        self.store.holders(part).add(member)
        self._blocks.pop(part, None)
        return True

    def doubt(self, member: Member) -> None:
        """As `caribou.engines.cluster.Work.doubt`: answers are here already, and blocks are sent again."""
        for holders in self.store._holders.values():
            holders.discard(member)


def _owned(answer: Any) -> Any:
    """The answer with arrays of its own: what is only mapped would stay in the object store."""
    if isinstance(answer, tuple):
        return tuple(_owned(part) for part in answer)
    return np.array(answer) if isinstance(answer, np.ndarray) else answer
