"""Downstream tasks on what a method released: link prediction and graph classification, scored on public benchmarks.

Links: pairs are hidden before the release (`caribou.models.links`), and scored after it.

Graphs: half of the graphs of a collection have public classes, and the others are predicted (transductive). Or all graphs of one
collection train, and those of a second release, about another collection, are predicted (inductive).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import unit_length
from caribou.metrics import Scored, area_under_curve, average_precision
from caribou.models.encoder import Encoder
from caribou.models.graph_classifier import HEADS, NOWHERE, GraphClassifier
from caribou.models.links import COSINE, LOGISTIC, LinkPredictor
from caribou.models.released_rows import SUMS, released_rows
from caribou.randomness import Streams
from reproduction.collections_of_graphs import GraphCollection

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
