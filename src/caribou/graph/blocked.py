"""A graph whose edges lie in blocks of rows, on disk or with workers: for methods that read edges block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from caribou.errors import CaribouError, InputError
from caribou.graph.fingerprint import ContentDigest
from caribou.graph.graph import Graph
from caribou.graph.split import Split

T = TypeVar("T")


class EdgeStore(Protocol):
    """Edges in blocks of rows. They are symmetric, simple and free of self loops, and neighbours are ascending in a row.

    ``entries``: of the adjacency matrix, two per edge. ``edges`` and ``degrees``: those parts of the content of the graph
    (`caribou.graph.fingerprint.ContentDigest`). All are private.
    """

    entries: int
    edges: bytes
    degrees: bytes

    def map(self, work: Callable[[int, np.ndarray, np.ndarray], T], needed: np.ndarray | None) -> Iterator[T]:
        """As `Graph.map_rows`. Work may be repeated: it must give the same answer again, so it must not draw noise."""
        ...


Move = Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, EdgeStore]]
"""Makes rows of features, and the edges, of as many nodes as it is told, with node i at place[i]; other rows are empty."""


class BlockedGraph(Graph):
    """A `Graph` without edges in memory: `map_rows` is the only way to them. Everything else about it is equal.

    ``indptr``, ``indices`` and all that would need them are refused. The content, which a ledger knows a graph by, is that of the
    same graph in memory.
    """

    _nodes: Graph
    _store: EdgeStore
    _move: Move | None

    @classmethod
    def of(cls, nodes: Graph, store: EdgeStore, move: Move | None = None) -> BlockedGraph:
        """The nodes of a graph that has no edges of its own, with the edges of a store; with ``move`` they can be moved."""
        if len(nodes.indices) or len(nodes.absent):
            raise InputError("nodes must be a graph without edges and without absent nodes, got one with them")
        made = object.__new__(cls)
        for part in fields(Graph):
            if part.name not in ("indptr", "indices"):
                object.__setattr__(made, part.name, getattr(nodes, part.name))
        object.__setattr__(made, "_nodes", nodes)
        object.__setattr__(made, "_store", store)
        object.__setattr__(made, "_move", move)
        return made

    def map_rows(
        self, work: Callable[[int, np.ndarray, np.ndarray], T], needed: np.ndarray | None = None
    ) -> Iterator[T]:
        """As `Graph.map_rows`, over the blocks of the store."""
        return self._store.map(work, needed)

    @property
    def num_edges(self) -> int:
        """Number of undirected edges (private)."""
        return self._store.entries // 2

    def content(self) -> Iterator[bytes]:
        """As `Graph.content`."""
        digest = ContentDigest(nodes=self.num_nodes, columns=self.num_features)
        digest.add_features(self.features)
        size, _, features, _ = digest.parts()
        return iter((size, self._store.edges, features, self._store.degrees))

    def with_split(self, split: Split | None) -> Graph:
        """As `Graph.with_split`."""
        return BlockedGraph.of(self._nodes.with_split(split), self._store, self._move)

    def _changed(self, **changes: Any) -> Graph:
        if changes.keys() & {"indptr", "indices"}:
            self._refuse()
        return BlockedGraph.of(self._nodes._changed(**changes), self._store, self._move)

    def placed(self, place: np.ndarray, total: int) -> Graph:
        """As `Graph.placed`, for all nodes. Edges are prepared a second time."""
        if self._move is None:
            raise InputError(
                "rows of a graph in blocks must be the nodes of the model, all of them and in their order, then the arrivals "
                "in the order of their ids, got another order; read it in memory (--graph EDGES --nodes NODES without --engine)"
            )
        rows, store = self._move(self.features, place, total)
        nodes = self._nodes._changed(features=self.features[:, :0]).placed(place, total)
        return BlockedGraph.of(nodes._changed(features=rows), store)

    def _refuse(self, *_: object) -> NoReturn:
        raise InputError(
            "edges must be in memory for this, got a graph in blocks; read it with read_graph (--graph FILE instead of --edges)"
        )

    indptr = property(_refuse)
    indices = property(_refuse)
    __reduce_ex__ = __copy__ = __deepcopy__ = _refuse


def put_together(
    parts: Iterable[tuple[int, np.ndarray]], whole: np.ndarray, needed: np.ndarray | None = None
) -> np.ndarray:
    """Write what work gave for each block, the first row and an entry per row, into ``whole``, which is returned.

    Blocks may come in any order. A row that comes twice is an error, and so is one that is missing; ``needed``: [n], bool, only
    these rows must be there.

    >>> put_together([(1, np.array([7.0, 8.0])), (0, np.array([6.0]))], np.zeros(3)).tolist()
    [6.0, 7.0, 8.0]
    """
    seen = np.zeros(len(whole), dtype=bool)
    for first, part in parts:
        rows = slice(first, first + len(part))
        if seen[rows].any():
            raise CaribouError(f"blocks must hold every row once, got rows from {first} on again")
        whole[rows], seen[rows] = part, True
    lost = ~seen if needed is None else needed & ~seen
    if lost.any():
        raise CaribouError(f"blocks must hold every row once, got none with row {int(np.flatnonzero(lost)[0])}")
    return whole
