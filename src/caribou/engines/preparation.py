"""From tables to row blocks: edges stream past once and are never in memory as a whole.

Every pair is written in both directions to the bucket of its row's block; then each bucket is sorted, freed of repetitions, cut
to the degree cap if there is one, and stored as a block. The cap needs both ends of a pair to agree, so each end sends the pairs
that it keeps to the bucket of the other.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from caribou.engines.blocks import TILE_SHIFT, BlockFiles, Layout, regrouped
from caribou.errors import InputError, RunError
from caribou.graph.fingerprint import ContentDigest
from caribou.mechanisms.bounded_rows import project_rows
from caribou.tables.edges import EdgeSource
from caribou.tables.nodes import NodeArray, NodeTable

_BASE = 256 << 20
"""What the interpreter and its libraries take by themselves."""
MAX_SHIFT = 16
"""Blocks have at most 2^16 rows: enough of them to share among workers, and to see progress."""
_PER_ENTRY = 40
"""Bytes per entry of a bucket while it is sorted."""
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Memory:
    """How many bytes may be used in all; ``None``: as many as there are."""

    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 2 * _BASE:
            raise InputError(f"memory must be at least {2 * _BASE >> 20} MiB, got {self.limit / 2**20:.3g} MiB")

    @property
    def free(self) -> int:
        """What is left for arrays."""
        return (8 << 30) if self.limit is None else self.limit - _BASE

    @property
    def for_ids(self) -> int:
        """What a group of ids may take while edges are looked up."""
        return max(1, self.free // 8)

    def without(self, held: int) -> Memory:
        """What is left without arrays of so many bytes, but never less than half, nor than the least that a run can have."""
        return self if self.limit is None else Memory(max(2 * _BASE, self.limit // 2, self.limit - held))

    def layout(self, nodes: int, columns: int, pairs: int) -> Layout:
        """Blocks and tiles that fit: a block and its edges in a quarter of the memory, states whole in half of it or in tiles."""
        entries = max(1.0, 2 * pairs / nodes)
        row = _PER_ENTRY * entries + 24 * columns + 32
        shift = min(MAX_SHIFT, max(TILE_SHIFT, int(np.log2(max(1.0, self.free / 4 / row)))))
        if self.limit is None or 4 * nodes * columns <= self.free // 2:
            return Layout(nodes, columns, shift)
        tile = max(shift, int(np.log2(self.free / 4 / (4 * columns))))
        return Layout(nodes, columns, shift, tile)

    def sum_rows(self, columns: int) -> int:
        """Rows of sums in double precision that fit beside a tile."""
        return max(1, self.free // 4 // (8 * columns))


def require_space(folder: Path, pairs: int, more: int = 0) -> None:
    """Before anything is charged: two keys of 8 bytes per pair while blocks are sorted, and two columns of 4 in the blocks.

    ``more``: what ids and states take.
    """
    needed, free = 24 * pairs + more, shutil.disk_usage(folder).free
    if free < needed:
        there = f"{free >> 20} MB at {folder.parent}"
        raise RunError(f"out must lie on a disk with more than {needed >> 20} MB free, got {there}")


@dataclass(frozen=True)
class Prepared:
    """Digests of what was prepared, as private as the graph.

    content: of the graph, for a ledger's keyed fingerprint. blocks: of the stored blocks.
    """

    content: tuple[bytes, ...]
    blocks: bytes


def prepare(
    edges: EdgeSource,
    features: NodeArray | NodeTable,
    files: BlockFiles,
    *,
    degree_floor: int,
    degree_cap: int | None,
    cap_key: int,
    memory: Memory,
) -> Prepared:
    """Write the blocks of the graph, X^(0) and y^(0) = S^(-1/2) X^(0) into the folder.

    The graph is made symmetric, simple and free of self loops first; ``cap_key`` is the public key of the order of pairs.
    """
    digest = ContentDigest(nodes=files.layout.nodes, columns=files.layout.columns)
    blocks = store_edges(edges, files, digest, degree_cap=degree_cap, cap_key=cap_key, memory=memory)
    _store_states(features, files, degree_floor, digest)
    return Prepared(tuple(digest.parts()), blocks)


def store_edges(
    edges: EdgeSource,
    files: BlockFiles,
    digest: ContentDigest,
    *,
    degree_cap: int | None = None,
    cap_key: int = 0,
    memory: Memory,
) -> bytes:
    """Write the blocks of the graph alone, symmetric, simple and free of self loops; edges go to ``digest`` before the cap.

    Returns the digest of the stored blocks.
    """
    buckets = _Buckets(files.folder, files.layout, "pairs")
    chunk = max(1 << 14, min(1 << 21, memory.free // 4 // 128))
    for u, v in edges.chunks(chunk, files.layout.nodes):
        buckets.add(_directed_keys(u, v))
    limit = max(1 << 16, memory.free // 2 // _PER_ENTRY)
    if degree_cap is not None:
        buckets = _capped(buckets, degree_cap, cap_key, limit, digest)
    stored = []
    for index in range(files.layout.blocks):
        pieces = buckets.sorted_pieces(index, limit)
        stored.append(_store(files, index, pieces if degree_cap is not None else _digested(pieces, digest)))
        buckets.remove(index)
    return joined_digest(stored)


def joined_digest(blocks: Iterable[bytes]) -> bytes:
    """One digest of the digests of all blocks in order."""
    return hashlib.sha256(b"".join(blocks)).digest()


def _digested(pieces: Iterator[np.ndarray], digest: ContentDigest) -> Iterator[np.ndarray]:
    for keys in pieces:
        digest.add_edges(keys)
        yield keys


def _directed_keys(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Both directions of every pair as row 2^32 + column, sorted; self loops are dropped."""
    proper = u != v
    a, b = u[proper].astype(np.uint64), v[proper].astype(np.uint64)
    keys = np.concatenate([a << np.uint64(32) | b, b << np.uint64(32) | a])
    keys.sort()
    return keys


class _Buckets:
    """Keys by row block, in files."""

    def __init__(self, folder: Path, layout: Layout, name: str) -> None:
        self.folder, self.layout, self.name = folder, layout, name

    def path(self, index: int) -> Path:
        return self.folder / f"{self.name}-{index:06d}.keys"

    def add(self, keys: np.ndarray) -> None:
        """Append sorted keys to the buckets of their rows."""
        bounds = (np.arange(self.layout.blocks + 1, dtype=np.uint64) << np.uint64(self.layout.shift)) << np.uint64(32)
        at = np.searchsorted(keys, bounds)
        for index in np.flatnonzero(np.diff(at)):
            with open(self.path(int(index)), "ab") as file:
                file.write(keys[at[index] : at[index + 1]].data)

    def sorted_pieces(self, index: int, limit: int) -> Iterator[np.ndarray]:
        """The keys of one bucket, sorted and unique, in pieces of whole rows that fit into memory."""
        path = self.path(index)
        entries = path.stat().st_size // 8 if path.exists() else 0
        if entries <= limit:
            keys = np.fromfile(path, dtype=np.uint64) if entries else np.empty(0, dtype=np.uint64)
            keys.sort()
            yield _unique(keys)
            return
        for low, high in itertools.pairwise(self._cuts(index, limit)):
            yield _unique(self._between(path, low, high))

    def _cuts(self, index: int, limit: int) -> np.ndarray:
        """Keys between which at most ``limit`` entries lie, at the beginning of rows."""
        first, last = self.layout.span(index)
        counts = np.zeros(last - first, dtype=np.int64)
        for part in self._parts(self.path(index)):
            counts += np.bincount((part >> np.uint64(32)).astype(np.int64) - first, minlength=last - first)
        if counts.max() > limit:
            raise InputError("memory must hold all edges of a row at once: give more, or a degree cap")
        rows, ends = [first], np.cumsum(counts)
        while rows[-1] < last:
            before = ends[rows[-1] - first] - counts[rows[-1] - first]
            rows.append(first + int(np.searchsorted(ends, before + limit, side="right")))
        return np.array(rows, dtype=np.uint64) << np.uint64(32)

    def _between(self, path: Path, low: np.uint64, high: np.uint64) -> np.ndarray:
        keys = np.concatenate([part[(part >= low) & (part < high)] for part in self._parts(path)])
        keys.sort()
        return keys

    def _parts(self, path: Path) -> Iterator[np.ndarray]:
        with open(path, "rb") as file:
            while len(part := np.fromfile(file, dtype=np.uint64, count=1 << 20)):
                yield part

    def remove(self, index: int) -> None:
        self.path(index).unlink(missing_ok=True)


def _unique(keys: np.ndarray) -> np.ndarray:
    if len(keys) == 0:
        return keys
    fresh = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    return keys[fresh]


def _capped(buckets: _Buckets, cap: int, cap_key: int, limit: int, digest: ContentDigest) -> _Buckets:
    """Keep a pair if it is among the first ``cap`` of both its ends by the hash, as `caribou.graph.operator.cap_degrees`."""
    layout = buckets.layout
    chosen = _Buckets(buckets.folder, layout, "chosen")
    offered = _Buckets(buckets.folder, layout, "offered")
    for index in range(layout.blocks):
        for keys in _digested(buckets.sorted_pieces(index, limit), digest):
            first = _first_of_each_row(keys, cap, cap_key)
            chosen.add(first)
            swapped = (first & _LOW) << np.uint64(32) | first >> np.uint64(32)
            swapped.sort()
            offered.add(swapped)
        buckets.remove(index)
    both = _Buckets(buckets.folder, layout, "both")
    for index in range(layout.blocks):
        mine = np.concatenate(list(chosen.sorted_pieces(index, limit)))
        theirs = np.concatenate(list(offered.sorted_pieces(index, limit)))
        both.add(np.intersect1d(mine, theirs, assume_unique=True))
        chosen.remove(index)
        offered.remove(index)
    return both


def _first_of_each_row(keys: np.ndarray, cap: int, cap_key: int) -> np.ndarray:
    from caribou.graph.operator import first_of_each_row  # here: it loads torch

    rows, columns = (keys >> np.uint64(32)).astype(np.int64), (keys & _LOW).astype(np.int64)
    return keys[first_of_each_row(rows, columns, cap, cap_key)]


def _store(files: BlockFiles, index: int, pieces: Iterator[np.ndarray]) -> bytes:
    layout = files.layout
    first, last = layout.span(index)
    counts = np.zeros((layout.tiles, last - first), dtype=np.int64)
    columns: list[list[np.ndarray]] = [[] for _ in range(layout.tiles)]
    for keys in pieces:
        row = (keys >> np.uint64(32)).astype(np.int64) - first
        column = (keys & _LOW).astype(np.int32)
        if layout.tiles == 1:
            counts[0] += np.bincount(row, minlength=last - first)
            columns[0].append(column)
            continue
        for tile in range(layout.tiles):
            here = column >> layout.tile_shift == tile
            counts[tile] += np.bincount(row[here], minlength=last - first)
            columns[tile].append(column[here])
    ends = np.cumsum(counts.ravel()).reshape(counts.shape)
    starts = np.concatenate([ends[:, :1] - counts[:, :1], ends], axis=1)
    flat = [part for parts in columns for part in parts]
    return files.write(index, starts, np.concatenate(flat) if flat else np.empty(0, np.int32))


def _store_states(features: NodeArray | NodeTable, files: BlockFiles, degree_floor: int, digest: ContentDigest) -> None:
    """X^(0): rows projected onto the unit ball. y^(0) is rounded from the same double-precision rows, not from X^(0)."""
    x0, start = files.state("x0"), files.state("round-0")
    size = 1 << files.layout.shift
    for index, rows in enumerate(regrouped(features.chunks(size), size)):
        digest.add_features(rows)
        x = project_rows(rows, 1.0)
        a = 1 / np.sqrt(np.maximum(files.degrees(index), degree_floor) + 1.0)
        files.write_ownless(index, np.asarray(~x.any(axis=1)))
        x0.write(index * size, x)
        start.write(index * size, x * a[:, None])


def sums_of_start(files: BlockFiles) -> np.ndarray:
    """The sum of the rows of X^(0), as the one row that `mean_of` takes."""
    parts = [rows.sum(axis=0, dtype=np.float64) for rows in files.state("x0").shards()]
    return np.sum(parts, axis=0, keepdims=True)
