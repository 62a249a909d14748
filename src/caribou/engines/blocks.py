"""Row blocks: how a graph and its states lie in files, and what one block is.

Block b holds the rows b 2^shift .. (b + 1) 2^shift - 1. Its columns file lists neighbours by (column tile, row, column); with one
tile that is plain compressed rows. States are plain float32 arrays of n x d.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from caribou.engines.kernels import Rows, empty_rows
from caribou.errors import RunError
from caribou.machine.files import sync

TILE = 1024
"""Rows that share one address of the noise. Fixed, so that results do not depend on how rows are divided into blocks."""
TILE_SHIFT = 10
RETIRED = "retired.state"
"""A state that nobody reads any more; as private as any other."""


def regrouped(parts: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """The same rows in parts of ``size``, the last one shorter.

    >>> [len(part) for part in regrouped([np.zeros((5, 1)), np.zeros((2, 1)), np.zeros((4, 1))], 3)]
    [3, 3, 3, 2]
    """
    kept: list[np.ndarray] = []
    for rows in parts:
        kept.append(rows)
        if sum(map(len, kept)) < size:
            continue
        joined = kept[0] if len(kept) == 1 else np.concatenate(kept)
        whole = len(joined) - len(joined) % size
        yield from (joined[first : first + size] for first in range(0, whole, size))
        kept = [joined[whole:]] if whole < len(joined) else []
    if kept:
        yield np.concatenate(kept)


@dataclass(frozen=True)
class Layout:
    """The shape of a blocked graph: n nodes, d columns, blocks of 2^shift rows, column tiles of 2^tile_shift rows of y.

    n and d are public. The sizes of blocks and tiles follow from the number of edges: they may not show in a release.
    """

    nodes: int
    columns: int
    shift: int
    tile_shift: int = 62

    @property
    def blocks(self) -> int:
        """Number of row blocks."""
        return -(-self.nodes >> self.shift) if self.shift < 62 else 1

    @property
    def tiles(self) -> int:
        """Number of column tiles."""
        return -(-self.nodes >> self.tile_shift) if self.tile_shift < 62 else 1

    def span(self, block: int) -> tuple[int, int]:
        """First row and the one after the last."""
        return block << self.shift, min(self.nodes, (block + 1) << self.shift)


@dataclass(frozen=True, eq=False)
class Block:
    """The rows of one block; ``tiles`` holds their neighbours, one `Rows` per column tile. Private.

    ``ownless``: [rows] bool, which rows of X^(0) are zero.
    """

    index: int
    first: int
    tiles: tuple[Rows, ...]
    ownless: np.ndarray

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.tiles[0].count

    @property
    def degrees(self) -> np.ndarray:
        """Number of neighbours of each row (private)."""
        return np.array([np.diff(tile.starts) for tile in self.tiles], dtype=np.int64).sum(axis=0)

    @property
    def entries(self) -> int:
        """Number of neighbours in all rows (private)."""
        return sum(int(tile.starts[-1] - tile.starts[0]) for tile in self.tiles)


@dataclass(frozen=True)
class BlockFiles:
    """The files of a blocked graph in a private folder."""

    folder: Path
    layout: Layout

    def write(self, index: int, starts: np.ndarray, columns: np.ndarray) -> bytes:
        """Store one block: starts [tiles, rows + 1] into columns. Returns its digest."""
        digest = hashlib.sha256()
        for path, array, kind in ((self._starts(index), starts, "<i8"), (self._columns(index), columns, "<i4")):
            plain = np.ascontiguousarray(array, dtype=kind)
            plain.tofile(path)
            digest.update(hashlib.sha256(plain.data).digest())
        return digest.digest()

    def digest(self, index: int) -> bytes:
        """The digest of a block as it lies in its files now: private, and equal to that of `write` while nothing changed it."""
        digest = hashlib.sha256()
        for path in (self._starts(index), self._columns(index)):
            digest.update(_file_digest(path))
        return digest.digest()

    def read(self, index: int) -> Block:
        """Load one block into memory."""
        columns = np.fromfile(self._columns(index), dtype="<i4")
        rows = tuple(Rows(row, columns) for row in self.starts(index))
        return Block(index, self.layout.span(index)[0], rows, self.ownless(index))

    def read_together(self, index: int, layout: Layout) -> Block:
        """Load a block of a coarser layout, which holds some of these; without column tiles."""
        first, last = layout.span(index)
        parts = [self.read(part) for part in range(first >> self.layout.shift, -(-last >> self.layout.shift))]
        starts = np.concatenate([[0], np.cumsum(np.concatenate([part.degrees for part in parts]))])
        rows = Rows(starts, np.concatenate([part.tiles[0].columns for part in parts]))
        return Block(index, first, (rows,), np.concatenate([part.ownless for part in parts]))

    def write_ownless(self, index: int, ownless: np.ndarray) -> None:
        """Store which rows of X^(0) of a block are zero."""
        ownless.astype(np.bool_, copy=False).tofile(self._ownless(index))

    def ownless(self, index: int) -> np.ndarray:
        """Which rows of X^(0) of a block are zero. [rows], bool (private at node level)"""
        return np.fromfile(self._ownless(index), dtype=np.bool_)

    def starts(self, index: int) -> np.ndarray:
        """[tiles, rows + 1]."""
        return np.fromfile(self._starts(index), dtype="<i8").reshape(self.layout.tiles, -1)

    def degrees(self, index: int) -> np.ndarray:
        """Degrees of the rows of a block (private)."""
        return np.diff(self.starts(index), axis=1).sum(axis=0)

    def read_tile(self, index: int, tile: int, starts: np.ndarray) -> Rows:
        """The neighbours of one block in one column tile."""
        first, last = int(starts[tile, 0]), int(starts[tile, -1])
        columns = np.fromfile(self._columns(index), dtype="<i4", count=last - first, offset=4 * first)
        return Rows(starts[tile] - first, columns)

    def state(self, name: str) -> StateFile:
        """A state by name."""
        return StateFile(self.folder / f"{name}.state", self.layout)

    def _starts(self, index: int) -> Path:
        return self.folder / f"block-{index:06d}.starts"

    def _ownless(self, index: int) -> Path:
        return self.folder / f"block-{index:06d}.ownless"

    def _columns(self, index: int) -> Path:
        return self.folder / f"block-{index:06d}.columns"


@dataclass(frozen=True)
class StateFile:
    """A state [n, d] in single precision on disk; hidden states are as private as the graph."""

    path: Path
    layout: Layout

    def read(self, first: int, last: int) -> np.ndarray:
        """Rows first .. last - 1."""
        rows = empty_rows(last - first, self.layout.columns)
        with open(self.path, "rb") as file:
            file.seek(4 * first * self.layout.columns)
            if file.readinto(rows.data) != rows.nbytes:
                raise RunError(f"{self.path} is shorter than it was written")
        return rows

    def shards(self) -> Iterator[np.ndarray]:
        """All rows, one array per block in order."""
        for block in range(self.layout.blocks):
            yield self.read(*self.layout.span(block))

    def write(self, first: int, rows: np.ndarray) -> None:
        """Store rows from ``first`` on; the file grows as needed."""
        with open(self.path, "r+b" if self.path.exists() else "w+b") as file:
            file.seek(4 * first * self.layout.columns)
            file.write(np.ascontiguousarray(rows, dtype="<f4").data)

    def store(self, shards: Iterable[np.ndarray]) -> None:
        """All rows as a new state, on the disk when this returns."""
        self.begin()
        first = 0
        for rows in shards:
            self.write(first, rows)
            first += len(rows)
        self.sync()

    def digest(self) -> bytes:
        """Of all rows; the same however they are divided into blocks. Private."""
        return _file_digest(self.path)

    def sync(self) -> None:
        """Wait until the file is on disk."""
        sync(self.path)

    def begin(self) -> None:
        """Make way for a new state. It is written over a retired one if there is one: memory of a new file costs more time."""
        self.remove()
        if self._retired.exists():
            self._retired.replace(self.path)

    def retire(self) -> None:
        """Give the file, if there is one, to the next state that begins."""
        if self.path.exists():
            self.path.replace(self._retired)

    def remove(self) -> None:
        """Delete the file, if there is one."""
        self.path.unlink(missing_ok=True)

    @property
    def _retired(self) -> Path:
        return self.path.with_name(RETIRED)


def _file_digest(path: Path) -> bytes:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
