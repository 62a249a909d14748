"""Link prediction on released rows: which pairs of nodes are likely to be joined, and edges that are hidden to find out.

Formal guarantee: scores are computed from released rows and from public values, so any number of them is post-processing, covered
by the certificate of the release. The predictor never reads an edge of the private graph. It is not trained, or it is trained on
pairs whose labels were public before the release.

Edges are hidden in a public graph before its release, by a public seed, to see how well they are found again. Of a private graph
such figures are for its curator alone: they read its edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from caribou._validate import one_of, open_unit_interval, positive
from caribou.errors import CaribouError, InputError
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import unit_length
from caribou.models.released_rows import RIDGE, SoftmaxRegression, fit_softmax_regression, refuse_graph, released_state
from caribou.randomness import Streams

COSINE, LOGISTIC = "cosine", "logistic"
PAIRS_RULE = "a table of node pairs [2, m] that were public before the release"


class LinkPredictor:
    """Scores of node pairs from released rows; a larger score means a likelier edge.

    ``cosine``: x_u . x_v, with rows centred at their mean and of length 1. It is not trained. ``logistic``: softmax regression on
    the entries of x_u * x_v, trained on public pairs. It learns which columns carry signal and which carry noise.

    Pairs that were taken from the private graph void the certificate, whatever they are called: their labels are edges that no
    noise covers. No program can see that in a table of numbers. A graph itself is refused.

    Args:
        kind: "cosine" or "logistic".
        ridge: logistic: strength of the penalty.

    >>> state = np.array([[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0], [-0.9, -0.1]])
    >>> LinkPredictor().scores(state, [[0, 0], [1, 2]]).round(2).tolist()
    [0.99, -1.0]
    """

    def __init__(self, kind: str = COSINE, *, ridge: float = RIDGE) -> None:
        self.kind = one_of((COSINE, LOGISTIC), kind=kind)
        self.ridge = positive(ridge=ridge)
        self._model: SoftmaxRegression | None = None

    def __repr__(self) -> str:
        return f"LinkPredictor({self.kind!r}{', fitted' if self._model is not None else ''})"

    def fit(self, state: Any, public_pairs: Any, public_labels: Any) -> Self:
        """Train on pairs that are declared public.

        Args:
            state: released rows, [n, d], or `Embeddings`.
            public_pairs: node pairs, [2, m], whose labels were public before the release.
            public_labels: [m], 1 = joined, 0 = not joined; both must occur.

        Returns:
            The predictor itself.
        """
        if self.kind != LOGISTIC:
            raise InputError(f"kind must be {LOGISTIC} to be trained on pairs, got {self.kind!r}")
        rows = _directions(state)
        pairs = node_pairs(public_pairs, len(rows), "public_pairs")
        labels = pair_labels(public_labels, pairs.shape[1], "public_labels")
        self._model = fit_softmax_regression(_products(rows, pairs), labels, 2, self.ridge)
        return self

    def scores(self, state: Any, pairs: Any) -> np.ndarray:
        """Scores of node pairs. The order of the two ends does not matter.

        Args:
            state: released rows, [n, d]: those of the fit, or of another release with the same columns.
            pairs: [2, m]. Which pairs are asked about must not depend on the private graph, if the scores are published.

        Returns:
            [m]: cosines in [-1, 1], or probabilities that the pair is joined among pairs such as the public ones.
        """
        rows = _directions(state)
        asked = node_pairs(pairs, len(rows), "pairs")
        products = _products(rows, asked)
        if self.kind == COSINE:
            return products.sum(axis=1)
        if self._model is None:
            raise CaribouError("predictor must be fitted first: call fit(state, public_pairs, public_labels)")
        if products.shape[1] != self._model.columns:
            raise InputError(f"state must have {self._model.columns} columns, got {products.shape[1]}")
        return self._model(products)[:, 1]


def node_pairs(pairs: Any, nodes: int, name: str) -> np.ndarray:
    """Pairs of two different nodes, checked; a graph is refused without a look at its edges. [2, m], int64"""
    refuse_graph(name, pairs, PAIRS_RULE)
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu" or array.size == 0:
        raise InputError(f"{name} must be whole numbers of shape [2, m], got {array.dtype} of shape {array.shape}")
    array = array.astype(np.int64)
    outside = array[(array < 0) | (array >= nodes)]
    if len(outside):
        raise InputError(f"{name} must be node indices in [0, {nodes}), got {outside[0]}")
    same = array[0, array[0] == array[1]]
    if len(same):
        raise InputError(f"{name} must join two different nodes, got {same[0]}-{same[0]}")
    return array


def pair_labels(labels: Any, count: int, name: str) -> np.ndarray:
    """Labels of pairs, checked: 1 = joined, 0 = not; both must occur. [m], int64"""
    refuse_graph(name, labels, "labels 0 and 1 [m] that were public before the release")
    array = np.asarray(labels)
    if array.shape != (count,):
        raise InputError(f"{name} must have one entry per pair ({count}), got shape {array.shape}")
    if array.dtype.kind not in "iub" or set(np.unique(array).tolist()) != {0, 1}:
        raise InputError(f"{name} must be 0 (not joined) and 1 (joined), each at least once, got other values")
    return array.astype(np.int64)


def _directions(state: Any) -> np.ndarray:
    """Rows centred at their mean, at length 1: what all nodes have in common says nothing about pairs. [n, d]"""
    rows = released_state(state)
    return unit_length(rows - rows.mean(axis=0))


def _products(rows: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    return rows[pairs[0]] * rows[pairs[1]]


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
