"""A graph cut into blocks of any size, in any order, as an engine might hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from caribou.graph import Graph
from caribou.graph.blocked import BlockedGraph


class CutRows:
    """Blocks of ``size`` rows. ``order``: which blocks come when; a block that is missing, or comes twice, is a planted fault."""

    def __init__(
        self, graph: Graph, size: int, order: Callable[[list[int]], list[int]] = lambda firsts: firsts
    ) -> None:
        self._graph, self._size, self._order = graph, size, order
        self.entries = len(graph.indices)
        _, self.edges, _, self.degrees = graph.content()
        self.read: list[int] = []

    def map(self, work: Callable[[int, np.ndarray, np.ndarray], Any], needed: np.ndarray | None) -> Iterator[Any]:
        n = self._graph.num_nodes
        for first in self._order(list(range(0, n, self._size))):
            last = min(n, first + self._size)
            if needed is not None and not needed[first:last].any():
                continue
            starts = self._graph.indptr[first : last + 1].astype(np.int64)
            self.read.append(first)
            yield work(first, starts - starts[0], self._graph.indices[starts[0] : starts[-1]])


def cut(graph: Graph, size: int, order: Callable[[list[int]], list[int]] = lambda firsts: firsts) -> BlockedGraph:
    """The same graph in blocks."""
    nodes = graph._changed(indptr=np.zeros_like(graph.indptr), indices=graph.indices[:0])
    return BlockedGraph.of(nodes, CutRows(graph, size, order))
