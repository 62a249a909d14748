"""The engine in memory: all blocks, and for a release two buffers of states, on the threads of one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import numpy as np

from caribou.engines.blocks import Block, Layout
from caribou.engines.edge_blocks import StoredEdges, Work
from caribou.engines.kernels import Shards, empty_rows
from caribou.engines.rounds import Progress, RoundGuard, Step, advance, joined
from caribou.mechanisms.noise_source import BlockNoise
from caribou.models.fit_context import one_thread

T = TypeVar("T")


class LocalRunner:
    """Rounds over blocks in memory. The compiled loops run without the interpreter's lock, so threads share the work."""

    def __init__(
        self, layout: Layout, blocks: Sequence[Block], x0: np.ndarray | None, noise: BlockNoise, workers: int = 1
    ) -> None:
        self._layout, self._blocks, self._x0, self._noise, self._workers = layout, blocks, x0, noise, workers
        self._y, self._next = (empty_rows(layout.nodes, layout.columns) for _ in range(2))
        self._guard, self._version = RoundGuard(), 0

    def start(self, shards: Iterator[np.ndarray]) -> None:
        """Take over a state."""
        for block, rows in zip(self._blocks, shards, strict=True):
            self._y[block.first : block.first + block.count] = rows
        self._version += 1

    def round(self, step: Step, mean: np.ndarray | None, progress: Progress) -> np.ndarray:
        """Run one round."""
        self._guard.require(step, mean, self._version)
        sums: list[np.ndarray | None] = [None] * len(self._blocks)
        entries = 0
        with ThreadPoolExecutor(self._workers) as pool:
            futures = {pool.submit(self._advance, block, step, mean): block for block in self._blocks}
            for done, future in enumerate(as_completed(futures), 1):
                block = futures[future]
                sums[block.index] = future.result()
                entries += block.entries
                progress(step.number, done, entries)
        self._y, self._next = self._next, self._y
        self._version += 1
        return joined(sums)

    def shards(self) -> Iterator[np.ndarray]:
        """The present state."""
        for block in self._blocks:
            yield self._y[block.first : block.first + block.count]

    def close(self) -> None:
        """Forget the states."""
        self._y = self._next = np.empty((0, self._layout.columns), dtype=np.float32)

    def _advance(self, block: Block, step: Step, mean: np.ndarray | None) -> np.ndarray:
        part = slice(block.first, block.first + block.count)
        x0 = None if self._x0 is None else self._x0[part]
        return advance(block, Shards([self._y]), self._y[part], x0, step, mean, self._noise, self._next[part])


class MemoryBlocks:
    """Edges for training: all blocks are in memory, and threads share the work. The files are not read again.

    Args:
        stored: the files.
        workers: threads.
    """

    def __init__(self, stored: StoredEdges, workers: int = 1) -> None:
        self._stored, self._workers = stored, workers
        self._blocks: Sequence[tuple[int, np.ndarray, np.ndarray]] = [
            stored.block(index) for index in range(stored.files.layout.blocks)
        ]
        self.entries, self.edges, self.degrees = stored.entries, stored.edges, stored.degrees

    def map(self, work: Work[T], needed: np.ndarray | None) -> Iterator[T]:
        """Blocks in the order of rows, computed by several threads."""
        blocks = [self._blocks[index] for index in self._stored.needed(needed)]
        with one_thread(), ThreadPoolExecutor(self._workers) as pool:  # a thread per block is enough
            yield from pool.map(lambda block: work(*block), blocks)
