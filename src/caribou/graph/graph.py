"""The graph: an immutable record of features, undirected unweighted edges, labels and split.

Every privacy statement of the framework is about two graphs that differ in one edge or in one node. Both kinds of
neighbour are made here (`Graph.without_edge`, `Graph.with_edge`, `Graph.without_node`), so that sensitivities,
mechanisms and audits mean the same thing by the word. Nothing here is protected: a `Graph` *is* the private data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn, TypeVar

import numpy as np
import scipy.sparse as sp

from caribou._validate import integer
from caribou.errors import InputError
from caribou.graph.checks import (
    Cleaning,
    check_absent,
    checked_classes,
    checked_columns,
    checked_features,
    checked_fractions,
    checked_ids,
    checked_labels,
    checked_pairs,
    checked_prior,
    checked_rows,
    index_array,
    label_array,
    listed,
    needed_span,
    placed_rows,
    restore,
    seal,
    simple_rows,
    with_even_row,
    without_row,
    zero_rows,
)
from caribou.graph.classes import Classes, declared_names, is_count, places_of_names, places_of_numbers
from caribou.graph.split import DEFAULT_FRACTIONS, Split, labelled_split
from caribou.machine.notebook import html_table
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams
from caribou.tables.rules import ColumnRules

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Node features, an undirected unweighted graph without self loops, labels and a split. Immutable.

    Args:
        features: n x d, float32 or float64; a NumPy array or a ``scipy.sparse.csr_array``.
        indptr, indices: compressed rows of the symmetric adjacency matrix, indices sorted inside each row.
        labels: class of each node as int64, -1 = unknown; or None. One outside the declared classes is unknown.
        split: training, validation and test nodes, or None. Those without a label neither train nor choose: they are left out of
            these parts and still counted in `Split.declared`.
        cleaning: what was dropped while the graph was built (private).
        absent: sorted indices of nodes that were taken out by `without_node`; their index stays.
        class_names, node_ids, feature_names: the user's own words for classes, nodes and feature columns.
        id_title: what the user's table calls its column of node ids.
        num_classes: number of classes, a *public* fact: it does not change when a node is taken out. 0 = read it from the
            class names, or else from the labels.
        prior: [n, C], class probabilities of every node that the user declares public (`with_prior`); or None.
        classes_declared: whether names and number of the classes were declared. None: they were if either is given. False: they
            were read from the labels, which is enough at edge level and refused at node level (`Graph.sizes`).
        column_rules: how the columns of a table became features, if they came from one. Node level refuses what was not declared.

    Arrays are copied (unless they are already read-only) and sealed; a write raises ``ValueError``. Use
    `Graph.from_edges` to build a graph from a plain list of edges.

    >>> graph = Graph.from_edges(np.eye(3), [[0, 1], [1, 2]], labels=[0, 1, 0], name="path")
    >>> graph
    Graph('path', nodes=3, features=3, classes=2)
    >>> graph.without_edge(0, 1).edge_index.tolist()
    [[1, 2], [2, 1]]
    """

    features: Any
    indptr: np.ndarray
    indices: np.ndarray
    labels: np.ndarray | None = None
    split: Split | None = None
    name: str = "graph"
    cleaning: Cleaning = field(default_factory=Cleaning)
    absent: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    class_names: tuple[str, ...] | None = None
    node_ids: np.ndarray | None = None
    num_classes: int = 0
    feature_names: tuple[str, ...] | None = None
    id_title: str | None = None
    classes_declared: bool | None = None
    prior: np.ndarray | None = None
    column_rules: ColumnRules | None = None

    def __post_init__(self) -> None:
        features = checked_features(self.features)
        n = features.shape[0]
        indptr, indices = checked_rows(self.indptr, self.indices, n)
        names, classes = checked_classes(self.class_names, self.num_classes)
        declared = classes > 0 if self.classes_declared is None else bool(self.classes_declared)
        labels = None if self.labels is None else checked_labels(self.labels, n, classes)
        if classes == 0 and labels is not None:
            classes, declared = int(labels.max()) + 1, False
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"name must be a non-empty string, got {self.name!r}")
        if self.id_title is not None and (not isinstance(self.id_title, str) or not self.id_title):
            raise InputError(f"id_title must be a non-empty string, got {self.id_title!r}")
        if self.column_rules is not None and not isinstance(self.column_rules, ColumnRules):
            raise InputError(f"column_rules must be ColumnRules, got {type(self.column_rules).__name__}")
        split = None if self.split is None else labelled_split(self.split, n, labels)
        ids = None if self.node_ids is None else checked_ids(self.node_ids, n)
        columns = None if self.feature_names is None else checked_columns(self.feature_names, features.shape[1])
        absent = index_array("absent", self.absent)
        check_absent(absent, features, indptr, labels, split)
        checked = {
            "features": features,
            "indptr": indptr,
            "indices": indices,
            "labels": labels,
            "split": split,
            "absent": absent,
            "class_names": names,
            "node_ids": ids,
            "num_classes": classes,
            "classes_declared": declared,
            "feature_names": columns,
            "prior": None if self.prior is None else checked_prior(self.prior, n, classes),
        }
        for key, value in checked.items():
            object.__setattr__(self, key, value)

    @classmethod
    def from_edges(
        cls,
        features: Any,
        edges: Any,
        labels: Any = None,
        split: Split | None = None,
        name: str = "graph",
        *,
        classes: Classes | None = None,
        absent: Any = (),
        class_names: Sequence[str] | None = None,
        node_ids: Any = None,
        num_classes: int = 0,
        feature_names: Sequence[str] | None = None,
        id_title: str | None = None,
    ) -> Graph:
        """Build a graph from a 2 x E integer array of node pairs, in any order.

        Pairs may be repeated, given in one or in both directions, and may be self loops: the result is symmetric and
        simple, and `cleaning` counts what was changed. Time and memory are linear in the number of pairs.

        Args:
            features: [n, d].
            edges: [2, E], node pairs.
            labels: [n], or None.
            split, name: of the graph.
            classes: declares the classes, which node level asks for: their number, their names (label k is the k-th), or the
                values that labels may have. A label that is none of them is unknown.
            absent, class_names, node_ids, num_classes, feature_names, id_title: as in `Graph`.

        Returns:
            The graph.

        >>> Graph.from_edges(np.zeros((3, 1)), [[0], [1]], labels=[0, 1, 7], classes=["no", "yes"]).labels.tolist()
        [0, 1, -1]
        >>> graph = Graph.from_edges(np.zeros((3, 1)), [[0, 1, 1, 2], [1, 0, 2, 2]])
        >>> graph.num_edges, graph.cleaning
        (2, Cleaning(self_loops=1, duplicates=0, one_way=1))
        """
        features = checked_features(features)
        n = features.shape[0]
        pairs = checked_pairs(edges, n)
        indptr, indices, cleaning = simple_rows(pairs, n)
        if classes is not None:
            if class_names is not None or num_classes:
                raise InputError("classes must not go with class_names or num_classes, got both")
            declared = declared_names(classes)
            if labels is not None:
                labels = places_of_numbers(label_array(labels, n), declared)
            class_names, num_classes = (None if is_count(classes) else declared), len(declared)
        return cls(
            features=features,
            indptr=indptr,
            indices=indices,
            labels=labels,
            split=split,
            name=name,
            cleaning=cleaning,
            absent=np.asarray(absent) if len(absent) else np.empty(0, np.int64),
            class_names=None if class_names is None else tuple(class_names),
            node_ids=node_ids,
            num_classes=num_classes,
            feature_names=None if feature_names is None else tuple(feature_names),
            id_title=id_title,
        )

    def __repr__(self) -> str:
        # No edge count and no label statistics: a repr ends up in logs.
        return f"Graph({self.name!r}, nodes={self.num_nodes}, features={self.num_features}, classes={self.num_classes})"

    def _repr_html_(self) -> str:
        sizes = "none" if self.split is None else "{} training, {} validation, {} test".format(*self.split.declared)
        rows = [
            ("nodes", self.num_nodes),
            ("features", self.num_features),
            ("classes", ", ".join(self.class_names) if self.class_names else self.num_classes),
            ("split", sizes),
            ("edges", "private: summary() shows their owner how many there are"),
        ]
        return html_table(f"Graph {self.name}", rows)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        # what scikit-learn's searches and splitters ask for first
        raise InputError(
            "graph must not be cut into rows, as GridSearchCV, cross_val_score and train_test_split do: edges join rows, and a "
            "search on private data costs budget; use caribou tune (caribou.model.tuning.tune), which accounts for it"
        )

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        restore(self, state)

    @property
    def num_nodes(self) -> int:
        """Number of node indices, absent nodes included (a public fact)."""
        return int(self.features.shape[0])

    @property
    def num_features(self) -> int:
        """Number of feature columns."""
        return int(self.features.shape[1])

    @property
    def num_edges(self) -> int:
        """Number of undirected edges (private)."""
        return len(self.indices) // 2

    @property
    def degrees(self) -> np.ndarray:
        """Number of neighbours of each node, int64 (private)."""
        return np.diff(self.indptr).astype(np.int64)

    @property
    def edge_index(self) -> np.ndarray:
        """2 x 2E int64 array of node pairs, each edge in both directions, sorted by (row, column)."""
        rows = np.repeat(np.arange(self.num_nodes, dtype=np.int64), np.diff(self.indptr))
        return np.stack([rows, self.indices.astype(np.int64)])

    @property
    def class_counts(self) -> dict[str, int]:
        """How many nodes each class has, by name (private at node level)."""
        if self.labels is None:
            return {}
        names = self.class_names or tuple(str(k) for k in range(self.num_classes))
        counted = np.bincount(self.labels[self.labels >= 0], minlength=len(names))
        return {name: int(count) for name, count in zip(names, counted, strict=True)}

    def adjacency(self, dtype: Any = np.float32) -> Any:
        """The symmetric 0/1 adjacency matrix as a ``scipy.sparse.csr_array`` that shares the graph's index arrays.

        ``dtype``: of its ones. [n, n]
        """
        shape = (self.num_nodes, self.num_nodes)
        return sp.csr_array((np.ones(len(self.indices), dtype=dtype), self.indices, self.indptr), shape=shape)

    def map_rows(
        self, work: Callable[[int, np.ndarray, np.ndarray], T], needed: np.ndarray | None = None
    ) -> Iterator[T]:
        """Call ``work(first, starts, columns)`` for blocks of consecutive rows of the adjacency matrix, in any order.

        The rows of a block begin with number ``first``; row first + i has the neighbours columns[starts[i] : starts[i + 1]]. In
        memory there is one block. ``needed``: [n], bool, public: blocks without such a row are left out.

        >>> graph = Graph.from_edges(np.zeros((3, 1)), [[0, 1], [1, 2]])
        >>> list(graph.map_rows(lambda first, starts, columns: (first, np.diff(starts).tolist())))
        [(0, [1, 2, 1])]
        """
        first, last = needed_span(needed, 0, self.num_nodes)
        if first < last:
            yield work(first, self.indptr[first : last + 1].astype(np.int64), self.indices)

    @property
    def without_features(self) -> np.ndarray:
        """Which nodes have no features: their row is all zero. Each row is judged by itself. [n], bool (private at node level)

        >>> Graph.from_edges([[1.0, 0.0], [0.0, 0.0]], [[0], [1]]).without_features.tolist()
        [False, True]
        """
        return zero_rows(self.features)

    def neighbours(self, node: int) -> np.ndarray:
        """Sorted neighbours of ``node`` (a read-only view)."""
        v = self._node(node)
        return self.indices[self.indptr[v] : self.indptr[v + 1]]

    def has_edge(self, u: int, v: int) -> bool:
        """Whether u and v are joined.

        >>> Graph.from_edges(np.zeros((3, 1)), [[0], [2]]).has_edge(2, 0)
        True
        """
        u, v = self._node(u), self._node(v)
        return self._position(u, v)[1]

    def without_edge(self, u: int, v: int) -> Graph:
        """The edge-level neighbour that lacks the edge u-v. The edge must be there.

        >>> Graph.from_edges(np.zeros((3, 1)), [[0, 1], [1, 2]]).without_edge(1, 0).num_edges
        1
        """
        u, v = self._node(u), self._node(v)
        (at, there), (mirror, _) = self._position(u, v), self._position(v, u)
        if not there:
            raise InputError(f"without_edge needs an edge of the graph, got {u}-{v}")
        return self._with_rows(np.delete(self.indices, [at, mirror]), (u, v), -1)

    def with_edge(self, u: int, v: int) -> Graph:
        """The edge-level neighbour that has the edge u-v in addition. The edge must not be there.

        >>> Graph.from_edges(np.zeros((3, 1)), [[0], [1]]).with_edge(1, 2).num_edges
        2
        """
        u, v = self._node(u), self._node(v)
        if u == v:
            raise InputError(f"with_edge needs two different nodes, got {u}-{v}")
        for node in (u, v):
            if self._is_absent(node):
                raise InputError(f"with_edge needs nodes that are present, got the absent node {node}")
        (at, there), (mirror, _) = self._position(u, v), self._position(v, u)
        if there:
            raise InputError(f"with_edge needs a pair that is not joined, got the edge {u}-{v}")
        # np.insert takes positions in the original array, and keeps the given order at equal positions: when v's row
        # follows u's directly, both may fall on the same position, and the smaller row must come first.
        entries = sorted([(at, u, v), (mirror, v, u)])
        indices = np.insert(self.indices, [entry[0] for entry in entries], [entry[2] for entry in entries])
        return self._with_rows(indices, (u, v), +1)

    def without_node(self, node: int) -> Graph:
        """The node-level neighbour: the index stays, everything that came with the node is gone.

        Its edges are removed, its feature row is zero, its label is unknown, it is in no part of the split, and it is
        listed in `absent`. Keeping the index makes the number of nodes, and with it every shape and every divisor that is
        made of it, the same in both worlds. The lists of the split get shorter: `Split.sizes` is private at node level, and a
        divisor must be `Split.declared`, which stays.

        >>> smaller = Graph.from_edges(np.eye(3), [[0, 1], [1, 2]], labels=[0, 1, 0]).without_node(1)
        >>> smaller.num_edges, smaller.labels.tolist(), smaller.absent.tolist(), smaller.num_classes
        (0, [0, -1, 0], [1], 2)
        """
        v = self._node(node)
        if self._is_absent(v):
            raise InputError(f"without_node needs a node that is present, got the absent node {v}")
        first, last = int(self.indptr[v]), int(self.indptr[v + 1])
        keep = self.indices != v
        keep[first:last] = False
        degrees = np.diff(self.indptr)
        degrees[self.indices[first:last]] -= 1
        degrees[v] = 0
        indptr = np.zeros_like(self.indptr)
        np.cumsum(degrees, out=indptr[1:])
        labels = None
        if self.labels is not None:
            labels = self.labels.copy()
            labels[v] = -1
        return self._changed(
            features=without_row(self.features, v),
            indptr=indptr,
            indices=self.indices[keep],
            labels=labels,
            split=None if self.split is None else self.split.without(v),
            prior=None if self.prior is None else with_even_row(self.prior, v),
            absent=np.sort(np.append(self.absent, v)),
        )

    def with_split(self, split: Split | None) -> Graph:
        """The same graph with another split.

        >>> Graph.from_edges(np.eye(3), [[0], [1]], labels=[0, 1, 0]).with_split(Split([0], [1], [2])).split.sizes
        (1, 1, 1)
        """
        if split is not None:
            split = labelled_split(split, self.num_nodes, self.labels)
            check_absent(self.absent, self.features, self.indptr, self.labels, split)
        return self._changed(split=split)

    def first_nodes(self, count: int) -> Graph:
        """The graph of the first ``count`` nodes and the edges among them: an earlier month of a graph that grew.

        A graph that nodes were taken out of is refused: its split no longer knows in which part they were, and the declared
        sizes of the month would tell that they are gone.

        >>> Graph.from_edges(np.eye(3), [[0, 1], [1, 2]]).first_nodes(2).edge_index.tolist()
        [[0, 1], [1, 0]]
        """
        n = integer(at_least=1, count=count)
        if n > self.num_nodes:
            raise InputError(f"count must be at most {self.num_nodes}, the number of nodes, got {n}")
        if self.split is not None and any(self.split.n_removed):
            raise InputError(
                "first_nodes needs a split that no node was taken out of (without_node, a node without a label), got "
                "one: take the first nodes first, and give them their split (with_split, random_split)"
            )
        return self.placed(np.where(np.arange(self.num_nodes) < n, np.arange(self.num_nodes), -1), n)

    def placed(self, place: np.ndarray, total: int) -> Graph:
        """The graph of ``total`` places with node i at place[i]; -1 leaves it out, with its edges. The one way to move nodes.

        A place without a node has no edge, no feature and no label, and the graph has names only if every place has a node.

        >>> graph = Graph.from_edges(np.eye(3), [[0, 1], [1, 2]], node_ids=["a", "b", "c"])
        >>> moved = graph.placed(np.array([1, 0, -1]), 2)
        >>> moved.node_ids.tolist(), moved.edge_index.tolist()
        (['b', 'a'], [[0, 1], [1, 0]])
        """
        kept = place >= 0
        at, (u, v) = place[kept], place[self.edge_index]
        inside = (u >= 0) & (v >= 0)
        indptr, indices, _ = simple_rows(np.stack([u[inside], v[inside]]), total)

        def moved(values: np.ndarray | None, empty: float) -> np.ndarray | None:
            if values is None:
                return None
            made = np.full((total, *values.shape[1:]), empty, dtype=values.dtype)
            made[at] = values[kept]
            return made

        split = None
        if self.split is not None:
            parts = (place[part[kept[part]]] for part in (self.split.train, self.split.val, self.split.test))
            split = Split(*parts, n_removed=self.split.n_removed)
        names = self.node_ids is not None and len(at) == total
        return self._changed(
            features=placed_rows(self.features, place, total),
            indptr=indptr,
            indices=indices,
            labels=moved(self.labels, -1),
            split=split,
            prior=moved(self.prior, 1 / max(1, self.num_classes)),
            absent=np.sort(place[self.absent[kept[self.absent]]]),
            node_ids=self.node_ids[kept][np.argsort(at)] if names else None,  # type: ignore[index]
        )

    def renamed(self, name: str) -> Graph:
        """The same graph under another name: the one that a ledger charges.

        >>> Graph.from_edges(np.eye(3), [[0], [1]]).renamed("survey").name
        'survey'
        """
        if not isinstance(name, str) or not name:
            raise InputError(f"name must be a non-empty string, got {name!r}")
        return self._changed(name=name)

    def with_prior(self, probabilities: Any) -> Graph:
        """The same graph with class probabilities of one's own for every node, e.g. of a language model on texts.

        They take the place of the fitted prior (`votes-edp`, `mlp`). They must be public: no edge may have been read for them.
        Those of a labelled node must come from a model that was not fitted on it, or the votes are weighed wrongly.

        Args:
            probabilities: [n, C], rows that sum to 1.

        >>> graph = Graph.from_edges(np.eye(2), [[0], [1]], labels=[0, 1])
        >>> graph.with_prior([[0.9, 0.1], [0.2, 0.8]]).prior.tolist()
        [[0.9, 0.1], [0.2, 0.8]]
        """
        return self._changed(prior=checked_prior(probabilities, self.num_nodes, self.num_classes))

    def with_columns(self, names: Sequence[str]) -> Graph:
        """The same graph with its feature columns in the order of ``names``, which must be its own names.

        >>> graph = Graph.from_edges([[1.0, 2.0]], np.empty((2, 0), int), feature_names=["age", "income"])
        >>> graph.with_columns(["income", "age"]).features.tolist()
        [[2.0, 1.0]]
        """
        if self.feature_names is None or set(names) != set(self.feature_names) or len(names) != self.num_features:
            own = set(self.feature_names or ())
            missing, unknown = [n for n in names if n not in own], sorted(own - set(names))
            parts = [f"without {listed(missing)}" if missing else "", f"with {listed(unknown)}" if unknown else ""]
            got = " and ".join(part for part in parts if part) or "none"
            raise InputError(f"feature columns must be {listed(names)}, got a graph {got}")
        if tuple(names) == self.feature_names:
            return self
        at = {name: k for k, name in enumerate(self.feature_names)}
        features = self.features[:, [at[name] for name in names]]
        if sp.issparse(features):
            features = sp.csr_array(features)
            features.sort_indices()
        return self._changed(features=features, feature_names=tuple(names))

    def with_classes(self, classes: Classes) -> Graph:
        """The same graph with these classes, declared; its labels are found by name, or by number if it has no names of its own.

        A label that is none of them becomes unknown. So a graph that a model is asked about has the model's classes, whatever
        labels it carries.

        >>> graph = Graph.from_edges(np.zeros((3, 1)), [[0], [1]], labels=[0, 1, 2], class_names=["b", "c", "d"])
        >>> graph.with_classes(["a", "b", "c"]).labels.tolist()
        [1, 2, -1]
        """
        names = declared_names(classes)
        if self.prior is not None and (len(names) != self.num_classes or self.class_names not in (None, names)):
            raise InputError("prior must be given after the classes: with_classes(...) first, then with_prior(...)")
        labels = self.labels
        if labels is not None and self.class_names is not None:
            labels = np.append(places_of_names(self.class_names, names), -1)[labels]  # the last entry: unknown
        elif labels is not None:
            labels = places_of_numbers(labels, names)
        split = None if self.split is None or labels is None else self.split.where(labels >= 0)
        named = not is_count(classes) or self.class_names is not None
        return self._changed(
            labels=labels,
            class_names=names if named else None,
            num_classes=len(names),
            classes_declared=True,
            split=split,
        )

    def random_split(self, seed: int, fractions: Sequence[float] = DEFAULT_FRACTIONS) -> Graph:
        """The same graph with a random split of its labelled nodes, drawn from the split stream of ``seed``.

        The public seed gives every node a part, whether it has a label or not. Nodes without a label are then left out and
        counted in `Split.n_removed`. So a label decides about its own node only, and the declared sizes follow from the seed.
        ``fractions``: of training, validation and test nodes.

        >>> graph = Graph.from_edges(np.zeros((20, 1)), np.empty((2, 0), int), labels=[0, 1] * 10)
        >>> graph.random_split(seed=0).split.sizes
        (14, 2, 4)
        """
        shares = checked_fractions(fractions)
        if self.labels is None:
            raise InputError("random_split needs labels, got a graph without labels")
        ends = [math.floor(sum(shares[: k + 1]) * self.num_nodes + 0.5) for k in range(2)]
        drawn = np.split(Streams(seed).split.permutation(self.num_nodes), ends)
        for part, share, words in zip(drawn, shares, ("training", "validation", "test"), strict=True):
            if len(part) == 0:
                raise InputError(
                    f"random_split must leave no part empty: {share:g} of {self.num_nodes} nodes is no {words} node"
                )
        return self.with_split(Split(*drawn).where(self.labels >= 0))

    @classmethod
    def from_tables(
        cls,
        edges: Any,
        nodes: Any,
        *,
        name: str = "graph",
        seed: int = 0,
        id_column: str | None = None,
        label_column: str | None = None,
        split_column: str | None = None,
        source_column: str | None = None,
        target_column: str | None = None,
        classes: Classes | None = None,
        rules: ColumnRules | None = None,
        unit: PrivacyUnit | str | None = None,
    ) -> Graph:
        """Build a graph from an edge table and a node table of pandas, polars, Arrow or DuckDB.

        Args:
            edges: its first two columns are the ends of an edge; others are not used.
            nodes: ids, features and, where there are any, labels and a split.
            name: of the graph, which a ledger charges.
            seed: the public seed that draws a split where there is none.
            id_column, label_column, split_column, source_column, target_column: titles, where they are not the usual ones.
            classes, rules, unit: as in `caribou.read_graph`.

        Returns:
            The graph, its nodes in the order of their ids: the order of rows decides about nothing.

        >>> import pandas as pd
        >>> people = pd.DataFrame({"id": ["bob", "ann", "cid"] * 4, "age": range(12)})
        >>> people["id"] += [str(k) for k in range(12)]
        >>> graph = Graph.from_tables(pd.DataFrame({"from": ["bob0"], "to": ["ann1"]}), people)
        >>> graph.node_ids[:2].tolist(), graph.features[:2].ravel().tolist(), graph.num_edges
        (['ann1', 'ann10'], [1.0, 10.0], 1)
        """
        from caribou.tables.nodes import graph_from_tables
        from caribou.tables.read import Titles

        titles = Titles(id_column, label_column, split_column, source_column, target_column)
        return graph_from_tables(edges, nodes, titles, name, seed, classes, rules, unit)

    @classmethod
    def from_networkx(
        cls,
        network: Any,
        *,
        name: str = "graph",
        seed: int = 0,
        label: str | None = None,
        split: str | None = None,
        classes: Classes | None = None,
        rules: ColumnRules | None = None,
        unit: PrivacyUnit | str | None = None,
    ) -> Graph:
        """Build a graph from a NetworkX graph. Attributes of nodes are the columns of a node table; those of edges are not used.

        Args:
            network: directed or not, simple or multi.
            name, seed: as in `from_tables`.
            label: the attribute that is the label (default: ``label``, ``class`` or ``y``).
            split: the attribute that is the split (default: ``split``).
            classes, rules, unit: as in `caribou.read_graph`.

        Returns:
            The graph, its nodes in the order of their ids.

        >>> import networkx as nx
        >>> network = nx.path_graph(3)
        >>> nx.set_node_attributes(network, {0: 1.5, 1: 2.5, 2: 3.5}, "age")
        >>> Graph.from_networkx(network).features.ravel().tolist()
        [1.5, 2.5, 3.5]
        """
        from caribou.tables.networks import frames_of
        from caribou.tables.nodes import graph_from_tables
        from caribou.tables.read import Titles

        edges, nodes, own = frames_of(network)
        titles = Titles(own, label, split, "source", "target")
        return graph_from_tables(edges, nodes, titles, name, seed, classes, rules, unit, "network")

    @classmethod
    def from_pyg(cls, data: Any, name: str = "graph", *, classes: Classes | None = None) -> Graph:
        """Build a graph with this ``name`` from ``data``, a ``torch_geometric.data.Data``.

        x may be dense or a torch sparse tensor; without x the graph has zero feature columns. y holds one class per
        node ([n] or [n, 1], -1 = unknown); ``classes`` declares them, as in `from_edges`. Masks are 1-D; of 2-D masks (several
        splits) the first column is used.
        Directed edges are symmetrised. Weights and attributes of edges are ignored with a warning: the guarantee is
        about unweighted edges.
        """
        from caribou.graph.pyg import graph_from_pyg

        return graph_from_pyg(data, name, classes)

    def to_pyg(self) -> Any:
        """A new ``torch_geometric.data.Data`` with x, edge_index, and y and the three masks where they are known.

        Sparse features become a torch sparse COO tensor. Nothing is shared with the graph: the result may be changed.
        Names, ids and the list of absent nodes have no place in ``Data`` and are left out.
        """
        from caribou.graph.pyg import graph_to_pyg

        return graph_to_pyg(self)

    def for_learning(self, *, public: bool = False) -> tuple[Split, np.ndarray]:
        """The split and the labels; an error if either is missing or nobody was declared to be in training.

        ``public``: labels are public (edge level), and it is also an error if nobody is left there. At node level such a refusal
        would tell one training node from none.
        """
        if self.split is None or self.labels is None or self.split.declared[0] == 0:
            raise InputError(f"graph must have labels and a split with training nodes, got {self!r} without")
        if public and len(self.split.train) == 0:
            raise InputError("split.train must hold a labelled node, got none")
        if self.num_classes < 2:
            raise InputError(f"labels must be of at least 2 classes, got {self.num_classes}")
        return self.split, self.labels

    def content(self) -> Iterator[bytes]:
        """The private content, for a ledger's keyed fingerprint: see `caribou.graph.fingerprint`."""
        from caribou.graph.fingerprint import graph_content

        return graph_content(self)

    def sizes(self, unit: PrivacyUnit) -> Sizes:
        """The public numbers: all that a plan may know. At node level (``unit``) classes and sizes of the split are declared.

        Classes that were read from labels are refused at node level: one person's label would decide about a number and a name.

        >>> Graph.from_edges(np.eye(3), [[0], [1]], labels=[0, 1, 0]).sizes(PrivacyUnit.EDGE)
        Sizes(nodes=3, columns=3, classes=2, train=0, val=0, test=0, given=False)
        """
        if unit is PrivacyUnit.NODE and self.labels is not None and not self.classes_declared:
            raise InputError(
                "classes must be declared at node level, because one person's label must not decide about a class, got classes "
                "that were read from the labels: give classes=[...] where the graph is read or built (--classes a,b,c)"
            )
        if unit is PrivacyUnit.NODE and self.column_rules is not None:
            self.column_rules.require_declared()
        parts = (0, 0, 0)
        if self.split is not None and self.labels is not None:
            parts = self.split.sizes if unit is PrivacyUnit.EDGE else self.split.declared
        return Sizes(self.num_nodes, self.num_features, self.num_classes, *parts, given=self.prior is not None)

    def summary(self) -> dict[str, Any]:
        """Exact statistics of the graph, and notes on what was dropped or says nothing. **Private**: for the owner's eyes only.

        >>> Graph.from_edges(np.zeros((3, 1)), [[0], [1]], labels=[0, 1, -1]).summary()["isolated"]
        1
        """
        from caribou.tables.inspect import inspection_of

        found = inspection_of(self)
        degrees = self.degrees
        sizes = (0, 0, 0) if self.split is None else self.split.sizes
        counts: list[int] = []
        same = None
        if self.labels is not None:
            counts = list(self.class_counts.values())
            same = self._homophily()
        return {
            "name": self.name,
            "nodes": self.num_nodes,
            "edges": self.num_edges,
            "features": self.num_features,
            "sparse_features": bool(sp.issparse(self.features)),
            "classes": self.num_classes,
            "class_counts": counts,
            "unlabelled": found.unlabelled,
            "train": sizes[0],
            "val": sizes[1],
            "test": sizes[2],
            "degree_min": int(degrees.min()),
            "degree_median": float(np.median(degrees)),
            "degree_mean": float(degrees.mean()),
            "degree_max": int(degrees.max()),
            "isolated": int((degrees == 0).sum()),
            "homophily": same,
            "absent": len(self.absent),
            "self_loops_dropped": self.cleaning.self_loops,
            "duplicates_dropped": self.cleaning.duplicates,
            "one_way_mirrored": self.cleaning.one_way,
            "notes": [note.words for note in found.notes],
        }

    def _homophily(self) -> float | None:
        """Share of the edges between two labelled nodes that stay inside a class; None when there is no such edge."""
        if self.labels is None:
            return None
        u, v = self.labels[self.edge_index]
        known = (u >= 0) & (v >= 0)
        return float((u == v)[known].mean()) if known.any() else None

    def _node(self, node: int) -> int:
        v = integer(at_least=0, node=node)
        if v >= self.num_nodes:
            raise InputError(f"node must be an index below {self.num_nodes}, got {v}")
        return v

    def _is_absent(self, node: int) -> bool:
        at = int(np.searchsorted(self.absent, node))
        return at < len(self.absent) and int(self.absent[at]) == node

    def _position(self, u: int, v: int) -> tuple[int, bool]:
        """Where v stands, or would stand, in the row of u, and whether it is there."""
        first, last = int(self.indptr[u]), int(self.indptr[u + 1])
        at = first + int(np.searchsorted(self.indices[first:last], v))
        return at, at < last and int(self.indices[at]) == v

    def _with_rows(self, indices: np.ndarray, ends: tuple[int, int], change: int) -> Graph:
        indptr = self.indptr.copy()
        for node in ends:
            indptr[node + 1 :] += change
        return self._changed(indptr=indptr, indices=indices)

    def _changed(self, **changes: Any) -> Graph:
        """A copy with other fields, not checked again: callers keep the rules, and neighbours come by thousands."""
        other = object.__new__(Graph)
        for part in fields(self):
            value = changes.get(part.name, getattr(self, part.name))
            object.__setattr__(other, part.name, seal(value))
        return other
