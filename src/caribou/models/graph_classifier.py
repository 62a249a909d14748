"""Graph classification on released rows: the rows of each graph are pooled, and the pooled rows are classified.

Formal guarantee: released rows, a public grouping of the nodes and public labels of graphs are all that is read, so classes of
any number of graphs are post-processing, covered by the certificate of the release.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from caribou._validate import MAX_WIDTH, integer, one_of
from caribou.errors import CaribouError, InputError
from caribou.models.classifier import ClassifierConfig, classify, fit_classifier
from caribou.models.released_rows import fit_softmax_regression, refuse_graph, released_state
from caribou.randomness import Streams

POOLINGS = ("mean", "sum")
HEADS = ("linear", "mlp")
NOWHERE = -1
"""The group of a node that belongs to no graph, and the label of a graph whose class is not known."""


class GraphClassifier:
    """Classes of graphs: many graphs that were released as one, or groups of nodes of one large graph.

    Which node belongs to which graph must be public, and so must the labels that train. Labels that only the private graph knows
    void the certificate.

    Columns keep their relative scale: all are divided by one number. A column that hardly varies in one release may lie anywhere
    in another, and if each had its own unit, it could decide alone.

    Args:
        pooling: "mean" of the rows of a graph, which averages noise away, or their "sum", which also tells the graph's size.
        head: "linear" (softmax regression) or "mlp" (one hidden layer).
        hidden: mlp: width of the hidden layer.
        seed: mlp: the public seed of initial weights and dropout.

    >>> state = np.array([[1.0, 0.0], [0.8, 0.2], [-1.0, 0.0], [-0.7, 0.2], [0.9, 0.1]])
    >>> groups = [0, 0, 1, 1, 2]                                          # three graphs, the class of the last is unknown
    >>> GraphClassifier().fit(state, groups, [1, 0, -1]).predict(state, groups).tolist()
    [1, 0, 1]
    """

    def __init__(self, pooling: str = "mean", head: str = "linear", *, hidden: int = 16, seed: int = 0) -> None:
        self.pooling = one_of(POOLINGS, pooling=pooling)
        self.head = one_of(HEADS, head=head)
        self.hidden = integer(at_least=1, at_most=MAX_WIDTH, hidden=hidden)
        self._streams = Streams(seed)
        self._predict: Callable[[np.ndarray], np.ndarray] | None = None
        self._columns = 0

    def __repr__(self) -> str:
        state = "" if self._predict is None else ", fitted"
        return f"GraphClassifier({self.pooling!r}, {self.head!r}{state})"

    def fit(self, state: Any, groups: Any, public_labels: Any) -> Self:
        """Train on the graphs whose class is public.

        Args:
            state: released rows, [n, d], or `Embeddings`.
            groups: [n], the graph that each node belongs to, from 0 on; -1 = none.
            public_labels: [g], the class of each graph, from 0 on; -1 = unknown.

        Returns:
            The classifier itself.
        """
        pooled = pool(state, groups, self.pooling)
        labels = _graph_labels(public_labels, len(pooled))
        known = np.flatnonzero(labels != NOWHERE)
        classes = int(labels.max()) + 1
        if len(np.unique(labels[known])) < 2:
            raise InputError(f"public_labels must be of at least 2 classes, got {len(np.unique(labels[known]))}")
        self._columns = pooled.shape[1]
        rows = pooled[known]
        centre, unit = rows.mean(axis=0), max(float(np.sqrt(rows.var(axis=0).mean())), 1e-12)
        fit = self._fit_linear if self.head == "linear" else self._fit_mlp
        head = fit((rows - centre) / unit, labels[known], classes)
        self._predict = lambda columns: head((columns - centre) / unit)
        return self

    def predict_proba(self, state: Any, groups: Any) -> np.ndarray:
        """Class probabilities of every graph. [g, C]

        ``state`` and ``groups`` are those of the fit, or of another release with the same columns: a release of its own, with its
        own certificate.
        """
        if self._predict is None:
            raise CaribouError("classifier must be fitted first: call fit(state, groups, public_labels)")
        pooled = pool(state, groups, self.pooling)
        if pooled.shape[1] != self._columns:
            raise InputError(f"state must have {self._columns} columns, got {pooled.shape[1]}")
        return self._predict(pooled)

    def predict(self, state: Any, groups: Any) -> np.ndarray:
        """The most likely class of every graph. [g]; ``state`` and ``groups`` as in `predict_proba`."""
        return self.predict_proba(state, groups).argmax(axis=1)

    def _fit_linear(self, pooled: np.ndarray, labels: np.ndarray, classes: int) -> Callable[[np.ndarray], np.ndarray]:
        return fit_softmax_regression(pooled, labels, classes, standardise=False)

    def _fit_mlp(self, pooled: np.ndarray, labels: np.ndarray, classes: int) -> Callable[[np.ndarray], np.ndarray]:
        from scipy.special import softmax

        module = fit_classifier(
            [pooled],
            labels,
            train=np.arange(len(labels)),
            val=np.empty(0, np.int64),  # graphs are few: none is kept to choose the epoch
            classes=classes,
            config=ClassifierConfig(hidden=self.hidden),
            seed=self._streams.model_seed,
        )
        return lambda columns: np.asarray(softmax(classify(module, [columns]), axis=1))


def pool(state: Any, groups: Any, pooling: str = "mean") -> np.ndarray:
    """The mean or the sum of the rows of each graph. Its number of nodes, by which a mean divides, is public.

    Args:
        state: released rows, [n, d].
        groups: [n], the graph of each node, 0 .. g - 1, each with at least one node; -1 = none.
        pooling: "mean" or "sum".

    Returns:
        [g, d].

    >>> pool([[1.0], [3.0], [5.0]], [0, 0, 1]).tolist()
    [[2.0], [5.0]]
    """
    one_of(POOLINGS, pooling=pooling)
    rows = released_state(state)
    refuse_graph("groups", groups, "the public graph of every node [n]")
    member = np.asarray(groups)
    if member.shape != (len(rows),) or member.dtype.kind not in "iu":
        raise InputError(
            f"groups must be whole numbers of shape [{len(rows)}], got {member.dtype} of shape {member.shape}"
        )
    if member.min() < NOWHERE or member.max() < 0:
        raise InputError(f"groups must be numbers from 0 on, or -1 for a node in none, got {member.min()}")
    inside = member != NOWHERE
    sizes = np.bincount(member[inside])
    if (sizes == 0).any():
        raise InputError(f"groups must give every graph a node, got none for {int(np.flatnonzero(sizes == 0)[0])}")
    sums = np.zeros((len(sizes), rows.shape[1]))
    np.add.at(sums, member[inside], rows[inside])
    return sums / sizes[:, None] if pooling == "mean" else sums


def _graph_labels(labels: Any, graphs: int) -> np.ndarray:
    refuse_graph("public_labels", labels, "the public classes of the graphs [g]")
    array = np.asarray(labels)
    if array.shape != (graphs,) or array.dtype.kind not in "iu":
        raise InputError(
            f"public_labels must be whole numbers of shape [{graphs}], got {array.dtype} of shape {array.shape}"
        )
    if array.min() < NOWHERE:
        raise InputError(f"public_labels must be classes from 0 on, or -1 for unknown, got {array.min()}")
    return array.astype(np.int64)
