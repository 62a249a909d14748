"""Hidden pairs: edges that are taken out of a public graph before a release, to see how well they are found again.

A public seed hides a share of the edges, and as many pairs that are no edges. Scores of these pairs are then compared with the
truth. Of a private graph such figures are for its curator alone: they read its edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from caribou._validate import open_unit_interval
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.randomness import Streams

HIDDEN_SHARE = 0.1
"""Of the edges, hidden before the release."""


@dataclass(frozen=True, eq=False)
class HiddenPairs:
    """A graph without some of its edges, and the pairs that were hidden.

    Args:
        graph: what a release may see.
        pairs: [2, 2m], the hidden edges and as many pairs that are no edges of the whole graph, in random order.
        labels: [2m], 1 = edge.
    """

    graph: Graph
    pairs: np.ndarray
    labels: np.ndarray


def hide_edges(graph: Graph, streams: Streams, share: float = HIDDEN_SHARE) -> HiddenPairs:
    """Hide a random ``share`` of the edges and equally many other pairs, drawn by the public seed of ``streams``.

    Args:
        graph: the whole graph, which is not changed.
        streams: the public randomness.
        share: in (0, 1), of the edges.

    Returns:
        The remaining graph, and the hidden pairs, [2, 2m].

    >>> from caribou.datasets import load
    >>> hidden = hide_edges(load("csbm:nodes=100,average_degree=8"), Streams(0))
    >>> hidden.graph.num_edges, hidden.pairs.shape, int(hidden.labels.sum())
    (360, (2, 80), 40)
    """
    rng = streams.generator("hidden edges")
    n = graph.num_nodes
    u, v = graph.edge_index
    edges = np.stack([u, v])[:, u < v]
    count = round(open_unit_interval(share=share) * edges.shape[1])
    if count < 2 or n * (n - 1) // 2 - edges.shape[1] < count:
        raise InputError(f"share must hide at least 2 edges and leave as many other pairs, got {share!r} of {graph!r}")
    order = rng.permutation(edges.shape[1])
    hidden = edges[:, order[:count]]
    others = _other_pairs(edges[0] * n + edges[1], n, count, rng)
    mixed = rng.permutation(2 * count)
    pairs = np.hstack([hidden, others])[:, mixed]
    return HiddenPairs(_with_edges(graph, edges[:, np.sort(order[count:])]), pairs, np.repeat([1, 0], count)[mixed])


def _with_edges(graph: Graph, edges: np.ndarray) -> Graph:
    return Graph.from_edges(
        graph.features,
        edges,
        labels=graph.labels,
        split=graph.split,
        name=f"{graph.name}, edges hidden",
        num_classes=graph.num_classes,
    )


def _other_pairs(edges: np.ndarray, n: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Pairs u < v that are no edges, each once, uniformly. ``edges``: u n + v of every edge. [2, count]"""
    found = np.empty(0, np.int64)
    while len(found) < count:
        a, b = rng.integers(n, size=(2, 2 * count))
        codes = np.minimum(a, b) * n + np.maximum(a, b)
        codes = codes[(a != b) & ~np.isin(codes, edges)]
        together = np.concatenate([found, codes])
        found = together[np.sort(np.unique(together, return_index=True)[1])]
    return np.stack([found[:count] // n, found[:count] % n])
