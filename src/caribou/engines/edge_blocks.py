"""Edges in blocks for training: prepared once and stored in files. Out of core they are read from there, pass by pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from caribou.engines.blocks import BlockFiles
from caribou.engines.preparation import Memory, store_edges
from caribou.graph.checks import needed_span
from caribou.graph.fingerprint import ContentDigest
from caribou.tables.edges import EdgeSource

T = TypeVar("T")
Work = Callable[[int, np.ndarray, np.ndarray], T]
"""Called with the first row of a block, starts and columns, as in `caribou.graph.Graph.map_rows`."""


@dataclass
class StoredEdges:
    """The files of the blocks of a graph, with what is known about the whole: an `EdgeStore`. Private.

    Args:
        files: the blocks, with one column tile.
        entries: of the adjacency matrix.
        edges, degrees: parts of the content of the graph.
    """

    files: BlockFiles
    entries: int
    edges: bytes
    degrees: bytes

    @classmethod
    def prepare(cls, table: EdgeSource, nodes: int, folder: Path, memory: Memory) -> StoredEdges:
        """Stream the table once into blocks in ``folder``, which must be private."""
        files = BlockFiles(folder, memory.layout(nodes, 0, table.count))
        digest = ContentDigest(nodes=nodes, columns=0)
        store_edges(table, files, digest, memory=memory)
        _, edges, _, degrees = digest.parts()
        entries = sum(int(files.starts(index)[0, -1]) for index in range(files.layout.blocks))
        return cls(files, entries, edges, degrees)

    def block(self, index: int) -> tuple[int, np.ndarray, np.ndarray]:
        """First row, starts and columns of one block, read from its files."""
        starts = self.files.starts(index)
        rows = self.files.read_tile(index, 0, starts)
        return self.files.layout.span(index)[0], rows.starts, rows.columns

    def map(self, work: Work[T], needed: np.ndarray | None) -> Iterator[T]:
        """Block by block, in the order of rows. One block is in memory at a time, read anew in every pass."""
        for index in self.needed(needed):
            yield work(*self.block(index))

    @property
    def count(self) -> int:
        """How many undirected edges there are."""
        return self.entries // 2

    def chunks(self, size: int, nodes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Every edge once, as an `EdgeSource` gives them."""
        for index in range(self.files.layout.blocks):
            first, starts, columns = self.block(index)
            rows = np.repeat(np.arange(first, first + len(starts) - 1), np.diff(starts))
            once = rows < columns
            u, v = rows[once], columns[once]
            for at in range(0, len(u), size):
                yield u[at : at + size], v[at : at + size]

    def needed(self, rows: np.ndarray | None) -> list[int]:
        """The blocks that hold one of these rows; None: all."""
        layout = self.files.layout
        spans = ((index, needed_span(rows, *layout.span(index))) for index in range(layout.blocks))
        return [index for index, (first, last) in spans if first < last]


@dataclass(frozen=True, eq=False)
class PlacedEdges:
    """Edges of a source with node i at ``place[i]``."""

    edges: EdgeSource
    place: np.ndarray

    @property
    def count(self) -> int:
        """How many there are at most."""
        return self.edges.count

    def chunks(self, size: int, nodes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As those of the source, which have as many nodes as there are places given."""
        for u, v in self.edges.chunks(size, len(self.place)):
            yield self.place[u], self.place[v]
