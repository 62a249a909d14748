"""Hidden pairs: edges that are gone from the graph, and pairs that never were edges, uniform and by the seed alone."""

from __future__ import annotations

import numpy as np

from caribou.datasets import load
from caribou.graph import Graph
from caribou.models.hidden_pairs import hide_edges
from caribou.randomness import Streams

GRAPH = load("csbm:nodes=150,average_degree=12,signal=2", seed=3)


def codes(pairs: np.ndarray) -> set[tuple[int, int]]:
    return {(min(u, v), max(u, v)) for u, v in pairs.T.tolist()}


def test_hidden_edges_are_gone_and_other_pairs_are_no_edges() -> None:
    hidden = hide_edges(GRAPH, Streams(0))
    whole, left = codes(GRAPH.edge_index), codes(hidden.graph.edge_index)
    edges, others = codes(hidden.pairs[:, hidden.labels == 1]), codes(hidden.pairs[:, hidden.labels == 0])
    assert len(edges) == len(others) == 90
    assert edges | left == whole
    assert not edges & left
    assert not others & whole
    assert np.array_equal(hidden.graph.split.train, GRAPH.split.train)


def test_other_pairs_are_uniform() -> None:
    """On 12 nodes every pair that is no edge is drawn about equally often."""
    graph = Graph.from_edges(np.eye(12), np.stack([np.arange(11), np.arange(1, 12)]))
    counts: dict[tuple[int, int], int] = {}
    for seed in range(550):
        hidden = hide_edges(graph, Streams(seed), share=0.5)
        for pair in codes(hidden.pairs[:, hidden.labels == 0]):
            counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 55
    assert 550 * 6 / 55 == 60
    assert 32 < min(counts.values()) < max(counts.values()) < 92, "60 on average, standard deviation 7.3"
