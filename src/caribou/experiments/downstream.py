"""Downstream tasks on what a method released: link prediction and graph classification, scored on public benchmarks.

Links: a tenth of the edges, and as many pairs that are no edges, are hidden by a public seed *before* the release. Scores of the
hidden pairs are then compared with the truth. Of a private graph these figures are for its curator alone: they read its edges.

Graphs: half of the graphs of a collection have public classes, and the others are predicted (transductive). Or all graphs of one
collection train, and those of a second release, about another collection, are predicted (inductive).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou._validate import open_unit_interval
from caribou.datasets.graph_collections import GraphCollection
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import unit_length
from caribou.metrics import Scored, area_under_curve, average_precision
from caribou.models.encoder import Encoder
from caribou.models.graph_classifier import HEADS, NOWHERE, GraphClassifier
from caribou.models.links import COSINE, LOGISTIC, LinkPredictor
from caribou.models.released_rows import SUMS, released_rows
from caribou.randomness import Streams

HIDDEN_SHARE = 0.1
"""Of the edges, hidden before the release."""
RELEASED, JOINED, EMBEDDINGS, FEATURES = "released", "joined", "embeddings", "features"


def rows_by_name(
    released: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray], graph: Graph
) -> dict[str, np.ndarray]:
    """The rows, one per node, that a task can be given; the first entry is the one that stands for the method. [n, d] each

    ``released``: X^(K), or the noisy sums. ``joined``: the encoder's embeddings, which are public at edge level, beside them. A
    method that released no rows (``mlp``): the ``embeddings`` alone, and the ``features`` as they are. No edge is read here.
    """
    embeddings = Encoder.from_arrays(weights).embeddings(graph.features)
    if "state" in released or f"{SUMS}1" in released:
        rows = released_rows(released)
        return {RELEASED: rows, JOINED: np.hstack([embeddings, unit_length(rows)])}
    features = graph.features.toarray() if sp.issparse(graph.features) else np.asarray(graph.features)
    return {EMBEDDINGS: embeddings, FEATURES: features.astype(np.float64)}


# -- links -----------------------------------------------------------------------------------------------------------


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


def link_figures(rows: np.ndarray, pairs: np.ndarray, labels: np.ndarray) -> dict[str, dict[str, float]]:
    """AUC and average precision of both kinds of predictor on hidden pairs.

    The logistic one is fitted on one half of the pairs, as if those had been public, and scored on the other, both ways; the
    figures are the means.

    Args:
        rows: [n, d].
        pairs: [2, m], in random order.
        labels: [m], 1 = edge.

    Returns:
        ``{"cosine": {"auc", "average_precision"}, "logistic": ...}``.
    """
    half = np.arange(len(labels)) % 2 == 0
    cosine = _figures(LinkPredictor(COSINE).scores(rows, pairs), labels)
    folds = []
    for known in (half, ~half):
        predictor = LinkPredictor(LOGISTIC).fit(rows, pairs[:, known], labels[known])
        folds.append(_figures(predictor.scores(rows, pairs[:, ~known]), labels[~known]))
    return {COSINE: cosine, LOGISTIC: {name: float(np.mean([fold[name] for fold in folds])) for name in cosine}}


def _figures(scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    scored = Scored(scores, labels == 1)
    return {"auc": area_under_curve(scored), "average_precision": average_precision(scored)}


# -- graphs ----------------------------------------------------------------------------------------------------------


def training_graphs(collection: GraphCollection, streams: Streams) -> np.ndarray:
    """Half of the graphs, drawn by the public seed, equally many of each class. [k], sorted"""
    rng = streams.generator("training graphs")
    chosen = []
    for label in np.unique(collection.labels):
        of_class = rng.permutation(np.flatnonzero(collection.labels == label))
        chosen.append(of_class[: len(of_class) // 2])
    return np.sort(np.concatenate(chosen))


def transductive_accuracy(rows: np.ndarray, collection: GraphCollection, train: np.ndarray) -> dict[str, float]:
    """Accuracy of each head on the graphs outside ``train`` [k]; rows: [n, d], of all graphs in one release."""
    known = np.full(len(collection.labels), NOWHERE)
    known[train] = collection.labels[train]
    test = known == NOWHERE
    return {
        head: float(
            np.mean(_predicted(head, rows, collection, known)(rows, collection)[test] == collection.labels[test])
        )
        for head in HEADS
    }


def inductive_accuracy(
    rows: np.ndarray, collection: GraphCollection, other_rows: np.ndarray, other: GraphCollection
) -> dict[str, float]:
    """Accuracy of each head on all graphs of ``other``, after a fit on all graphs of ``collection``. rows: [n, d] each"""
    return {
        head: float(np.mean(_predicted(head, rows, collection, collection.labels)(other_rows, other) == other.labels))
        for head in HEADS
    }


def _predicted(head: str, rows: np.ndarray, collection: GraphCollection, labels: np.ndarray) -> Any:
    classifier = GraphClassifier(head=head).fit(rows, collection.groups, labels)
    return lambda state, asked: classifier.predict(state, asked.groups)
