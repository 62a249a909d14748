"""A graph in blocks: the same content as in memory, and no way to its edges but by blocks."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from blocked_support import CutRows, cut
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.blocked import BlockedGraph


def small() -> Graph:
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 30, (2, 60))
    return Graph.from_edges(rng.normal(size=(30, 3)), edges, labels=rng.integers(0, 2, 30), name="small")


def test_the_content_is_that_of_the_graph_in_memory() -> None:
    graph = small()
    blocked = cut(graph, 7)
    assert tuple(blocked.content()) == tuple(graph.content())
    assert blocked.num_edges == graph.num_edges
    other = graph.without_edge(*graph.edge_index[:, 0])
    assert tuple(cut(other, 7).content()) != tuple(graph.content())


def test_public_parts_change_and_the_edges_stay() -> None:
    graph, blocked = small(), cut(small(), 4)
    divided = blocked.random_split(3).renamed("other")
    assert isinstance(divided, BlockedGraph)
    assert np.array_equal(divided.split.train, graph.random_split(3).split.train)
    assert divided.name == "other"
    assert divided.num_edges == graph.num_edges
    degrees = [d for part in divided.map_rows(lambda first, starts, columns: np.diff(starts)) for d in part]
    assert degrees == graph.degrees.tolist()


def test_whole_edges_are_refused() -> None:
    for read in (
        lambda g: g.indices,
        lambda g: g.adjacency(),
        lambda g: g.edge_index,
        lambda g: g.without_edge(0, 1),
        lambda g: g.without_node(0),
        lambda g: g.degrees,
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
    ):
        with pytest.raises(InputError, match="edges must be in memory for this, got a graph in blocks"):
            read(cut(small(), 4))  # type: ignore[operator]


def test_nodes_with_edges_of_their_own_are_refused() -> None:
    with pytest.raises(InputError, match="nodes must be a graph without edges"):
        BlockedGraph.of(small(), CutRows(small(), 4))
