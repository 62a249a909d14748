"""Shared by the tests of the baselines: one graph, checks that hold at either unit, and attacks on gradients."""

from __future__ import annotations

import networkx as nx
import numpy as np
import scipy.sparse as sp

import caribou as cb
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import Rows
from caribou.mechanisms.clipped_gradients import linear_clipped_sum

GRAPH = cb.datasets.load(
    "csbm", nodes=300, classes=3, average_degree=8.0, homophily=0.85, signal=1.0, features=6, seed=3
)


def accuracy(probabilities: np.ndarray, graph: Graph = GRAPH) -> float:
    test = graph.split.test
    return float(np.mean(probabilities[test].argmax(axis=1) == graph.labels[test]))


def some_edges(graph: Graph, count: int) -> list[Graph]:
    """The graph without one edge, ``count`` times."""
    pairs = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].T
    return [graph.without_edge(int(u), int(v)) for u, v in pairs[:: max(1, len(pairs) // count)]]


def gradient_sum(adjacency: np.ndarray, labels: np.ndarray, weights: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """What the method adds noise to, with clip 1. [n, C]"""
    rows = Rows.of(sp.csr_array(adjacency[examples]))
    return linear_clipped_sum(rows, labels[examples], weights, 1.0)


def weights_to_try(n: int, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Random weights of all sizes, and saturated ones: every node shouts for one class, some louder than others."""
    random = [rng.standard_normal((n, classes)) * size for size in (0.3, 3.0, 100.0)]
    shouted = []
    for _ in range(6):
        w = np.zeros((n, classes))
        w[np.arange(n), rng.integers(classes, size=n)] = 100.0 * 10.0 ** rng.integers(0, 3, size=n)
        shouted.append(w)
    return random + shouted


def dense(nxg: nx.Graph) -> np.ndarray:
    return nx.to_numpy_array(nxg, nodelist=range(nxg.number_of_nodes()))
