"""Edges in blocks: a table becomes the graph that it would be in memory, and only blocks that are needed are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from caribou.engines.edge_blocks import PlacedEdges, StoredEdges
from caribou.engines.local import MemoryBlocks
from caribou.engines.preparation import Memory
from caribou.graph import Graph
from caribou.tables.edges import open_edges
from caribou.tables.read import Titles
from engines_support import NODES, Tables


@pytest.fixture
def stored(tables: Tables) -> StoredEdges:
    folder = tables.folder / "blocks"
    folder.mkdir()
    return StoredEdges.prepare(open_edges(tables.edges, Titles()), NODES, folder, Memory(None))


def whole(tables: Tables) -> Graph:
    return Graph.from_edges(tables.features, tables.pairs.T)


def neighbours(first: int, starts: np.ndarray, columns: np.ndarray) -> list[tuple[int, list[int]]]:
    return [(first + k, columns[starts[k] : starts[k + 1]].tolist()) for k in range(len(starts) - 1)]


@pytest.mark.parametrize(
    "make", [lambda stored: stored, lambda stored: MemoryBlocks(stored, 3)], ids=["outofcore", "local"]
)
def test_blocks_hold_the_rows_of_the_graph_in_memory(tables: Tables, stored: StoredEdges, make: object) -> None:
    graph = whole(tables)
    store = make(stored)  # type: ignore[operator]
    assert stored.files.layout.blocks == 3
    rows = [row for block in store.map(neighbours, None) for row in block]
    assert rows == [(v, graph.neighbours(v).tolist()) for v in range(NODES)]
    _, edges, _, degrees = graph.content()
    assert (store.entries, store.edges, store.degrees) == (len(graph.indices), edges, degrees)


def test_blocks_without_a_needed_row_are_left_out(stored: StoredEdges) -> None:
    for store in (stored, MemoryBlocks(stored)):
        needed = np.zeros(NODES, dtype=bool)
        assert list(store.map(lambda first, *_: first, needed)) == []
        needed[[3, NODES - 1]] = True
        assert list(store.map(lambda first, *_: first, needed)) == [0, 4096]


def test_the_files_of_a_block_are_read_anew_on_disk_and_never_again_in_memory(
    stored: StoredEdges, tmp_path: Path
) -> None:
    held = MemoryBlocks(stored)
    for file in stored.files.folder.glob("block-*.columns"):
        file.unlink()
    assert len(list(held.map(lambda first, *_: first, None))) == 3
    with pytest.raises(FileNotFoundError):
        list(stored.map(lambda first, *_: first, None))


def test_blocks_can_be_prepared_again_with_every_node_in_another_place(tables: Tables, stored: StoredEdges) -> None:
    """With gaps: some of the places are nobody's."""
    place = np.random.default_rng(0).permutation(NODES + 100)[:NODES]
    moved = PlacedEdges(stored, place)
    pairs = [pair for u, v in moved.chunks(500, NODES) for pair in zip(u.tolist(), v.tolist(), strict=True)]
    assert len(set(map(frozenset, pairs))) == len(pairs) == moved.count == whole(tables).num_edges
    folder = tables.folder / "moved"
    folder.mkdir()
    again = StoredEdges.prepare(moved, NODES + 100, folder, Memory(None))
    graph = Graph.from_edges(np.zeros((NODES + 100, 1)), place[tables.pairs.T])
    _, edges, _, degrees = graph.content()
    assert (again.edges, again.degrees) == (edges, degrees)
