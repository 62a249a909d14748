"""The engine on disk: edges stream past states that are in memory whole, or tile by tile.

With one column tile a block's edges are read, its rows are finished, and the next block follows. With several, sums of as many
rows as fit are kept in double precision while the tiles of y go by, in ascending order: every row adds the same terms in the same
order as in memory, so the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from caribou.engines import kernels
from caribou.engines.blocks import TILE, BlockFiles, StateFile
from caribou.engines.kernels import Shards
from caribou.engines.rounds import Progress, RoundGuard, Step, advance, drawn, finish_of, joined
from caribou.mechanisms.noise_source import BlockNoise


class OutOfCoreRunner:
    """Rounds over files. ``sum_rows``: how many rows of sums may be in memory when there are several column tiles."""

    def __init__(self, files: BlockFiles, noise: BlockNoise, *, residual: bool, sum_rows: int) -> None:
        self._files, self._noise = files, noise
        self._x0 = files.state("x0") if residual else None
        self._together = max(1, sum_rows >> files.layout.shift)
        self._state: StateFile | None = None
        self._guard = RoundGuard()

    def start(self, shards: Iterator[np.ndarray]) -> None:
        """Rounds read the state file of the round before; nothing is taken over."""

    def round(self, step: Step, mean: np.ndarray | None, progress: Progress) -> np.ndarray:
        """Run one round, from the state of round number - 1 to that of this one."""
        before = self._files.state(f"round-{step.number - 1}")
        written = before.path.stat()
        self._guard.require(step, mean, (written.st_ino, written.st_size, written.st_mtime_ns))
        after = self._files.state(f"round-{step.number}")
        after.begin()
        whole = self._files.layout.tiles == 1
        rounds = self._in_one_pass if whole else self._tile_by_tile
        sums = joined(rounds(step, mean, before, after, progress))
        after.sync()
        self._state = after
        return sums

    def shards(self) -> Iterator[np.ndarray]:
        """The present state, read block by block."""
        if self._state is not None:
            yield from self._state.shards()

    def close(self) -> None:
        """Nothing is held."""

    def _in_one_pass(
        self, step: Step, mean: np.ndarray | None, before: StateFile, after: StateFile, progress: Progress
    ) -> list[np.ndarray]:
        layout, sums, entries = self._files.layout, [], 0
        y = before.read(0, layout.nodes)
        for index in range(layout.blocks):
            first, last = layout.span(index)
            block = self._files.read(index)
            out = np.empty((last - first, layout.columns), dtype=np.float32)
            sums.append(
                advance(block, Shards([y]), y[first:last], self._residual(first, last), step, mean, self._noise, out)
            )
            after.write(first, out)
            entries += block.entries
            progress(step.number, index + 1, entries)
        return sums

    def _tile_by_tile(
        self, step: Step, mean: np.ndarray | None, before: StateFile, after: StateFile, progress: Progress
    ) -> list[np.ndarray]:
        layout, sums, entries = self._files.layout, [], 0
        for lowest in range(0, layout.blocks, self._together):
            group = range(lowest, min(layout.blocks, lowest + self._together))
            totals = [np.zeros((last - first, layout.columns)) for first, last in map(layout.span, group)]
            starts = [self._files.starts(index) for index in group]
            for tile in range(layout.tiles):
                size = 1 << layout.tile_shift
                y = before.read(tile * size, min(layout.nodes, (tile + 1) * size))
                # only this tile's rows are in memory: every other address is refused
                shards = Shards([y], layout.tile_shift, missing=tile)
                for index, total, start in zip(group, totals, starts, strict=True):
                    kernels.add_rows(self._files.read_tile(index, tile, start), shards, total)
            for index, total, start in zip(group, totals, starts, strict=True):
                sums.append(self._finished(index, total, np.diff(start, axis=1).sum(axis=0), step, mean, before, after))
                entries += int(sum(row[-1] - row[0] for row in start))
                progress(step.number, index + 1, entries)
        return sums

    def _finished(
        self,
        index: int,
        total: np.ndarray,
        degrees: np.ndarray,
        step: Step,
        mean: np.ndarray | None,
        before: StateFile,
        after: StateFile,
    ) -> np.ndarray:
        first, last = self._files.layout.span(index)
        own, x0 = before.read(first, last), self._residual(first, last)
        out = np.empty((last - first, self._files.layout.columns), dtype=np.float32)
        sums, finish = [], finish_of(degrees, self._files.ownless(index), own, x0, step, mean)
        for tile, z in enumerate(drawn(first, own.shape, step, self._noise)):
            part = slice(tile * TILE, min(last - first, (tile + 1) * TILE))
            values = None if z is None else z.reshape(-1, own.shape[1])
            sums.append(kernels.finish_rows(finish.part(part, values), total[part], out[part]))
        after.write(first, out)
        return np.array(sums)

    def _residual(self, first: int, last: int) -> np.ndarray | None:
        return None if self._x0 is None else self._x0.read(first, last)
