"""Blocks made from a stream of pairs are the graph that is made in memory."""

from __future__ import annotations

import numpy as np
import pytest

from caribou.engines import preparation
from caribou.engines.blocks import BlockFiles, Layout
from caribou.engines.preparation import Memory
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import cap_degrees
from caribou.randomness import Streams
from engines_support import CAP, COLUMNS, NODES, Tables


def rows_of(files: BlockFiles) -> tuple[np.ndarray, np.ndarray]:
    """Degrees and neighbours in the order of the rows."""
    degrees, columns = [], []
    for index in range(files.layout.blocks):
        block = files.read(index)
        degrees.append(block.degrees)
        for row in range(block.count):
            columns += [tile.columns[tile.starts[row] : tile.starts[row + 1]] for tile in block.tiles]
    return np.concatenate(degrees), np.concatenate(columns)


def expected(tables: Tables, cap: int | None) -> tuple[np.ndarray, np.ndarray]:
    graph = Graph.from_edges(tables.features, tables.pairs.T)
    adjacency = graph.adjacency() if cap is None else cap_degrees(graph.adjacency(), cap, Streams(0).sampling)
    adjacency.sort_indices()
    return np.diff(adjacency.indptr), adjacency.indices


@pytest.mark.parametrize("cap", [None, CAP])
@pytest.mark.parametrize("layout", [Layout(NODES, COLUMNS, 11), Layout(NODES, COLUMNS, 10, 11)])
def test_blocks_are_the_graph(tables: Tables, cap: int | None, layout: Layout) -> None:
    for found, wanted in zip(rows_of(tables.blocked("a", layout, cap=cap)), expected(tables, cap), strict=True):
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("cap", [None, CAP])
def test_buckets_larger_than_memory_are_sorted_in_pieces(
    tables: Tables, cap: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorted_pieces = preparation._Buckets.sorted_pieces
    pieces = []

    def small(self: object, index: int, limit: int):
        for piece in sorted_pieces(self, index, 8000):
            pieces.append(len(piece))
            yield piece

    monkeypatch.setattr(preparation._Buckets, "sorted_pieces", small)
    files = tables.blocked("a", Layout(NODES, COLUMNS, 12), cap=cap)
    assert len(pieces) > 4 * files.layout.blocks
    for found, wanted in zip(rows_of(files), expected(tables, cap), strict=True):
        assert np.array_equal(found, wanted)


def test_start_is_projected_and_scaled(tables: Tables) -> None:
    files = tables.blocked("a", Layout(NODES, COLUMNS, 11), floor=8)
    x = tables.features / np.maximum(1, np.linalg.norm(tables.features, axis=1, keepdims=True))
    degrees = expected(tables, None)[0]
    assert np.array_equal(files.state("x0").read(0, NODES), x.astype(np.float32))
    scaled = x / np.sqrt(np.maximum(degrees, 8) + 1.0)[:, None]
    assert np.abs(files.state("round-0").read(0, NODES) - scaled).max() < 1e-7


def test_memory_chooses_blocks_and_tiles() -> None:
    assert Memory().layout(10**6, 16, 10**7).tiles == 1
    small = Memory(10**9).layout(10**8, 64, 10**9)
    assert small.tiles > 1
    assert (1 << small.tile_shift) * 64 * 4 <= 10**9 / 4
    assert Memory(10**9).layout(10**6, 16, 10**7).tiles == 1
    with pytest.raises(InputError, match="memory must be at least 512 MiB, got 488 MiB"):
        Memory(512 * 10**6)
