"""The graph: an immutable record of features, undirected unweighted edges, labels and split.

Every privacy statement of the framework is about two graphs that differ in one edge or in one node. Both kinds of
neighbour are made here (`Graph.without_edge`, `Graph.with_edge`, `Graph.without_node`), so that sensitivities,
mechanisms and audits mean the same thing by the word. Nothing here is protected: a `Graph` *is* the private data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from mmap import mmap
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou._validate import integer
from caribou.errors import InputError
from caribou.randomness import Streams

#: Node indices are stored in 32 bits.
MAX_NODES = 2**31 - 1

#: The usual shares of training, validation and test nodes.
DEFAULT_FRACTIONS = (0.7, 0.1, 0.2)


@dataclass(frozen=True, eq=False)
class Split:
    """Training, validation and test nodes: sorted, unique, pairwise disjoint int64 indices.

    ``gone``: how many nodes were taken out of each part by `without`, or left out for want of a label; the `declared` sizes
    count them.

    >>> Split(train=[2, 0], val=[1], test=[3]).train.tolist()
    [0, 2]
    """

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray
    gone: tuple[int, int, int] = field(default=(0, 0, 0), kw_only=True)

    def __post_init__(self) -> None:
        parts = {name: _index_array(f"split.{name}", getattr(self, name)) for name in ("train", "val", "test")}
        for name, part in parts.items():
            object.__setattr__(self, name, part)
        everything = np.concatenate(list(parts.values()))
        values, counts = np.unique(everything, return_counts=True)
        if (counts > 1).any():
            node = int(values[counts > 1][0])
            owners = " and ".join(name for name, part in parts.items() if node in part)
            raise InputError(f"split parts must be disjoint, got node {node} in {owners}")

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        _restore(self, state)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of training, validation and test nodes that are there: private at node level; `declared` is public."""
        return len(self.train), len(self.val), len(self.test)

    @property
    def declared(self) -> tuple[int, int, int]:
        """The public sizes: those of the parts before any node was taken out, equal for node-level neighbours.

        >>> Split([0, 1], [2], [3]).without(1).declared
        (2, 1, 1)
        """
        train, val, test = (size + gone for size, gone in zip(self.sizes, self.gone, strict=True))
        return train, val, test

    def without(self, node: int) -> Split:
        """The split with ``node`` in no part; its declared sizes stay."""
        return self._kept([part[part != node] for part in (self.train, self.val, self.test)])

    def where(self, there: np.ndarray) -> Split:
        """The split of the nodes for which ``there`` [n] is true; its declared sizes stay."""
        return self._kept([part[there[part]] for part in (self.train, self.val, self.test)])

    def _kept(self, parts: list[np.ndarray]) -> Split:
        train, val, test = (size - len(part) for size, part in zip(self.declared, parts, strict=True))
        return Split(*parts, gone=(train, val, test))


@dataclass(frozen=True)
class Cleaning:
    """What was dropped or mirrored while a graph was built from a list of edges.

    The counts are **private**: they are exact functions of the edges. Never print or store them beside a release.

    self_loops: entries u-u that were dropped.
    duplicates: repeated entries (same two nodes, same direction) that were dropped.
    one_way: undirected edges that were given in one direction only and were mirrored.
    """

    self_loops: int = 0
    duplicates: int = 0
    one_way: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Node features, an undirected unweighted graph without self loops, labels and a split. Immutable.

    features: n x d, float32 or float64; a NumPy array or a ``scipy.sparse.csr_array``.
    indptr, indices: compressed rows of the symmetric adjacency matrix, indices sorted inside each row.
    labels: class of each node as int64, -1 = unknown; or None.
    split: training, validation and test nodes, or None.
    cleaning: what was dropped while the graph was built (private).
    absent: sorted indices of nodes that were taken out by `without_node`; their index stays.
    class_names, node_ids, feature_names: the user's own words for classes, nodes and feature columns.
    id_title: what the user's table calls its column of node ids.
    num_classes: number of classes, a *public* fact: it does not change when a node is taken out. 0 = read it from the
        class names, or else from the labels.

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
    cleaning: Cleaning = Cleaning()
    absent: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    class_names: tuple[str, ...] | None = None
    node_ids: np.ndarray | None = None
    num_classes: int = 0
    feature_names: tuple[str, ...] | None = None
    id_title: str | None = None

    def __post_init__(self) -> None:
        features = _checked_features(self.features)
        n = features.shape[0]
        indptr, indices = _checked_rows(self.indptr, self.indices, n)
        labels = None if self.labels is None else _checked_labels(self.labels, n)
        names, classes = _checked_classes(self.class_names, self.num_classes, labels)
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"name must be a non-empty string, got {self.name!r}")
        if self.id_title is not None and (not isinstance(self.id_title, str) or not self.id_title):
            raise InputError(f"id_title must be a non-empty string, got {self.id_title!r}")
        if self.split is not None:
            _check_split(self.split, n, labels)
        ids = None if self.node_ids is None else _checked_ids(self.node_ids, n)
        columns = None if self.feature_names is None else _checked_columns(self.feature_names, features.shape[1])
        absent = _index_array("absent", self.absent)
        _check_absent(absent, features, indptr, labels, self.split)
        checked = {
            "features": features,
            "indptr": indptr,
            "indices": indices,
            "labels": labels,
            "absent": absent,
            "class_names": names,
            "node_ids": ids,
            "num_classes": classes,
            "feature_names": columns,
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

        >>> graph = Graph.from_edges(np.zeros((3, 1)), [[0, 1, 1, 2], [1, 0, 2, 2]])
        >>> graph.num_edges, graph.cleaning
        (2, Cleaning(self_loops=1, duplicates=0, one_way=1))
        """
        features = _checked_features(features)
        n = features.shape[0]
        pairs = _checked_pairs(edges, n)
        indptr, indices, cleaning = _simple_rows(pairs, n)
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

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        _restore(self, state)

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

    def adjacency(self, dtype: Any = np.float32) -> Any:
        """The symmetric 0/1 adjacency matrix as a ``scipy.sparse.csr_array`` that shares the graph's index arrays."""
        shape = (self.num_nodes, self.num_nodes)
        return sp.csr_array((np.ones(len(self.indices), dtype=dtype), self.indices, self.indptr), shape=shape)

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
            features=_without_row(self.features, v),
            indptr=indptr,
            indices=self.indices[keep],
            labels=labels,
            split=None if self.split is None else self.split.without(v),
            absent=np.sort(np.append(self.absent, v)),
        )

    def with_split(self, split: Split | None) -> Graph:
        """The same graph with another split.

        >>> Graph.from_edges(np.eye(3), [[0], [1]], labels=[0, 1, 0]).with_split(Split([0], [1], [2])).split.sizes
        (1, 1, 1)
        """
        if split is not None:
            _check_split(split, self.num_nodes, self.labels)
            _check_absent(self.absent, self.features, self.indptr, self.labels, split)
        return self._changed(split=split)

    def renamed(self, name: str) -> Graph:
        """The same graph under another name: the one a ledger books under.

        >>> Graph.from_edges(np.eye(3), [[0], [1]]).renamed("survey").name
        'survey'
        """
        if not isinstance(name, str) or not name:
            raise InputError(f"name must be a non-empty string, got {name!r}")
        return self._changed(name=name)

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

    def with_classes(self, names: Sequence[str]) -> Graph:
        """The same graph with these classes; its labels are found by name, or by number if it has no names of its own.

        A label that is none of them becomes unknown. So a graph that a model is asked about has the model's classes, whatever
        labels it carries.

        >>> graph = Graph.from_edges(np.zeros((3, 1)), [[0], [1]], labels=[0, 1, 2], class_names=["b", "c", "d"])
        >>> graph.with_classes(["a", "b", "c"]).labels.tolist()
        [1, 2, -1]
        """
        names = tuple(names)
        labels = self.labels
        if labels is not None:
            own = self.class_names or tuple(str(k) for k in range(self.num_classes))
            place = {name: k for k, name in enumerate(names if self.class_names else map(str, range(len(names))))}
            table = np.array([*(place.get(name, -1) for name in own), -1], dtype=np.int64)  # the last entry: unknown
            labels = table[labels]
        split = None if self.split is None or labels is None else self.split.where(labels >= 0)
        return self._changed(labels=labels, class_names=names, num_classes=len(names), split=split)

    def random_split(self, seed: int, fractions: Sequence[float] = DEFAULT_FRACTIONS) -> Graph:
        """The same graph with a random split of its labelled nodes, drawn from the split stream of ``seed``.

        Every node is given a part by public coins, whether it has a label or not; then nodes without a label are left out, and
        counted as `Split.gone`. So a label decides about its own node only, and the declared sizes follow from the coins alone.

        >>> graph = Graph.from_edges(np.zeros((20, 1)), np.empty((2, 0), int), labels=[0, 1] * 10)
        >>> graph.random_split(seed=0).split.sizes
        (14, 2, 4)
        """
        shares = _checked_fractions(fractions)
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
    def from_pyg(cls, data: Any, name: str = "graph") -> Graph:
        """Build a graph from a ``torch_geometric.data.Data``.

        x may be dense or a torch sparse tensor; without x the graph has zero feature columns. y holds one class per
        node ([n] or [n, 1], -1 = unknown). Masks are 1-D; of 2-D masks (several splits) the first column is used.
        Directed edges are symmetrised. Weights and attributes of edges are ignored with a warning: the guarantee is
        about unweighted edges.
        """
        from caribou.pyg import graph_from_pyg

        return graph_from_pyg(data, name)

    def to_pyg(self) -> Any:
        """A new ``torch_geometric.data.Data`` with x, edge_index, and y and the three masks where they are known.

        Sparse features become a torch sparse COO tensor. Nothing is shared with the graph: the result may be changed.
        Names, ids and the list of absent nodes have no place in ``Data`` and are left out.
        """
        from caribou.pyg import graph_to_pyg

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
        """The private content as bytes, for a ledger's keyed hash; the same whether features are stored sparse or dense."""
        yield self.indptr.astype("<i8").tobytes()
        yield self.indices.astype("<i4").tobytes()
        features = sp.csr_array(self.features, dtype=np.float64, copy=True)
        features.sum_duplicates()
        features.eliminate_zeros()
        for part, kind in ((features.indptr, "<i8"), (features.indices, "<i8"), (features.data, "<f8")):
            yield part.astype(kind).tobytes()
        if self.labels is not None:
            yield self.labels.astype("<i8").tobytes()

    def summary(self) -> dict[str, Any]:
        """Exact statistics of the graph. **Private**: no noise is added; for the owner's eyes only.

        >>> Graph.from_edges(np.zeros((3, 1)), [[0], [1]], labels=[0, 1, -1]).summary()["isolated"]
        1
        """
        degrees = self.degrees
        sizes = (0, 0, 0) if self.split is None else self.split.sizes
        counts: list[int] = []
        same = None
        if self.labels is not None:
            counts = np.bincount(self.labels[self.labels >= 0], minlength=self.num_classes).tolist()
            same = self._homophily()
        return {
            "name": self.name,
            "nodes": self.num_nodes,
            "edges": self.num_edges,
            "features": self.num_features,
            "sparse_features": bool(sp.issparse(self.features)),
            "classes": self.num_classes,
            "class_counts": counts,
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
            object.__setattr__(other, part.name, _seal(value))
        return other


def _seal(value: Any) -> Any:
    """Make an array, or the arrays of a sparse matrix, read-only in place."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif sp.issparse(value):
        for part in (value.data, value.indices, value.indptr):
            part.setflags(write=False)
    return value


def _restore(record: Any, state: Mapping[str, Any]) -> None:
    # Unpickled arrays are writable again: seal them.
    for key, value in state.items():
        object.__setattr__(record, key, _seal(value))


def _private_copy(array: np.ndarray) -> np.ndarray:
    """The array itself when nobody can write to it (a file that is mapped read-only included), else a sealed copy."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return _seal(array.copy())
        base = base.base
    return array if base is None or isinstance(base, mmap) else _seal(array.copy())


def _index_array(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.size == 0:
        array = np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a 1-D integer array of node indices, got {array.dtype} of shape {array.shape}"
        )
    ordered = np.unique(array.astype(np.int64))
    if len(ordered) != len(array):
        raise InputError(f"{name} must not repeat a node, got {len(array) - len(ordered)} repeated entries")
    if len(ordered) and ordered[0] < 0:
        raise InputError(f"{name} must hold node indices >= 0, got {int(ordered[0])}")
    return _seal(ordered)


def _checked_features(features: Any) -> Any:
    sparse = sp.issparse(features)
    array = features if sparse else np.asarray(features)
    if array.ndim != 2:
        raise InputError(f"features must be a 2-D array of n rows, got shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise InputError(f"features must be numbers, got {array.dtype}")
    if not 1 <= array.shape[0] <= MAX_NODES:
        raise InputError(f"features must have between 1 and {MAX_NODES} rows, got {array.shape[0]}")
    dtype = np.dtype(np.float64 if array.dtype == np.float64 else np.float32)
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is reported below
        checked: Any = _checked_sparse(array, dtype) if sparse else _private_copy(array.astype(dtype, copy=False))
    finite = np.isfinite(checked.data if sparse else checked)
    if not finite.all():
        row, column, value = _first_bad(checked, finite)
        raise InputError(f"features must be finite {dtype}, got {value} in row {row}, column {column}")
    return checked


def _first_bad(features: Any, good: np.ndarray) -> tuple[int, int, Any]:
    at = np.argwhere(~good)[0]
    if not sp.issparse(features):
        return int(at[0]), int(at[1]), features[at[0], at[1]]
    row = int(np.searchsorted(features.indptr, int(at[0]), side="right")) - 1
    return row, int(features.indices[at[0]]), features.data[at[0]]


def _checked_sparse(features: Any, dtype: np.dtype) -> Any:
    if max(features.shape) > MAX_NODES:
        raise InputError(f"features must have at most {MAX_NODES} columns, got {features.shape[1]}")
    if isinstance(features, sp.csr_array) and features.dtype == dtype:
        parts = (features.data, features.indices, features.indptr)
        if features.has_canonical_format and not any(part.flags.writeable for part in parts):
            return features
    # A fresh matrix on own arrays: sum_duplicates works in place, and a shared array could be changed by its owner.
    matrix = sp.csr_array(features, dtype=dtype, copy=True)
    matrix.sum_duplicates()
    if matrix.nnz <= MAX_NODES and matrix.indices.dtype != np.int32:
        narrow = (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
        matrix = sp.csr_array(narrow, shape=matrix.shape)
    return _seal(matrix)


def _checked_rows(indptr: Any, indices: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The compressed rows, checked: sorted, simple, symmetric."""
    starts, columns = np.asarray(indptr), np.asarray(indices)
    for name, array in (("indptr", starts), ("indices", columns)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InputError(f"{name} must be a 1-D integer array, got {array.dtype} of shape {array.shape}")
    if len(starts) != n + 1:
        raise InputError(f"indptr must have n + 1 = {n + 1} entries, got {len(starts)}")
    if int(starts[0]) != 0 or int(starts[-1]) != len(columns) or (starts[1:] < starts[:-1]).any():
        raise InputError(f"indptr must rise from 0 to {len(columns)} (the length of indices)")
    if len(columns) and not (int(columns.min()) >= 0 and int(columns.max()) < n):
        raise InputError(f"indices must be node indices in [0, {n}), got {int(columns.min())} to {int(columns.max())}")
    starts = _private_copy(starts.astype(np.int32 if len(columns) <= MAX_NODES else np.int64, copy=False))
    columns = _private_copy(columns.astype(np.int32, copy=False))
    rows = np.repeat(np.arange(n, dtype=np.int32), np.diff(starts))
    if (rows == columns).any():
        raise InputError(f"indices must hold no self loop, got one at node {int(rows[rows == columns][0])}")
    if ((columns[1:] <= columns[:-1]) & (rows[1:] == rows[:-1])).any():
        raise InputError("indices must be sorted and unique inside each row")
    mirrored = sp.csr_array((np.ones(len(columns), np.int8), columns, starts), shape=(n, n)).T.tocsr()
    if not (np.array_equal(mirrored.indptr, starts) and np.array_equal(mirrored.indices, columns)):
        raise InputError("indices must be symmetric: each edge in the rows of both ends")
    return starts, columns


def _checked_pairs(edges: Any, n: int) -> np.ndarray:
    pairs = np.asarray(edges)
    if pairs.size == 0 and pairs.ndim == 2 and pairs.shape[0] == 2:
        return np.empty((2, 0), np.int32)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise InputError(f"edges must be a 2 x E array, got shape {pairs.shape}")
    if pairs.dtype.kind not in "iu":
        raise InputError(f"edges must be integers, got {pairs.dtype}")
    if int(pairs.min()) < 0 or int(pairs.max()) >= n:
        end, at = np.argwhere((pairs < 0) | (pairs >= n))[0]
        raise InputError(f"edges must be node indices in [0, {n}), got {pairs[end, at]} at edges[{end}, {at}]")
    return pairs.astype(np.int32, copy=False)


def _simple_rows(pairs: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, Cleaning]:
    """Symmetric, simple compressed rows of the pairs, and what was dropped on the way."""
    proper = pairs[0] != pairs[1]
    u, v = pairs[0][proper], pairs[1][proper]
    directed = sp.coo_array((np.ones(len(u), np.int8), (u, v)), shape=(n, n)).tocsr()  # sums repeated entries
    duplicates = len(u) - directed.nnz
    directed.data[:] = 1  # int8 sums may have wrapped; only presence counts
    both = (directed + directed.T.tocsr()).tocsr()
    both.sort_indices()
    one_way = int((both.data == 1).sum()) // 2
    dtype = np.int32 if both.nnz <= MAX_NODES else np.int64
    indptr = _seal(both.indptr.astype(dtype))
    indices = _seal(both.indices.astype(np.int32))
    return indptr, indices, Cleaning(int(len(proper) - len(u)), int(duplicates), one_way)


def _checked_labels(labels: Any, n: int) -> np.ndarray:
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"labels must be a 1-D integer array, got {array.dtype} of shape {array.shape}")
    if len(array) != n:
        raise InputError(f"labels must have one entry per node ({n}), got {len(array)}")
    if int(array.max()) > MAX_NODES:
        raise InputError(f"labels must be below 2^31, got {int(array.max())} at node {int(array.argmax())}")
    if int(array.min()) < -1:
        raise InputError(
            f"labels must be classes >= 0 or -1 (unknown), got {array.min()} at node {int(array.argmin())}"
        )
    return _private_copy(array.astype(np.int64, copy=False))


def _checked_classes(
    names: Sequence[str] | None, num_classes: int, labels: np.ndarray | None
) -> tuple[tuple[str, ...] | None, int]:
    used = 0 if labels is None else int(labels.max()) + 1
    classes = integer(at_least=0, num_classes=num_classes)
    if names is not None:
        names = tuple(names)
        if not all(isinstance(word, str) for word in names):
            raise InputError(f"class_names must be strings, got {names!r}")
        if classes not in (0, len(names)):
            raise InputError(f"class_names must have num_classes = {classes} entries, got {len(names)}")
        classes = len(names)
    if names is None and classes == 0:
        return None, used
    if used > classes:
        raise InputError(f"labels must be below the number of classes ({classes}), got {used - 1}")
    return names, classes


def _checked_ids(ids: Any, n: int) -> np.ndarray:
    array = np.asarray(ids)
    if array.ndim != 1 or len(array) != n:
        raise InputError(f"node_ids must have one entry per node ({n}), got shape {array.shape}")
    if array.dtype.kind not in "iuU":
        raise InputError(f"node_ids must be whole numbers or strings, got {array.dtype}")
    if len(np.unique(array)) != n:
        raise InputError(f"node_ids must be unique, got {n - len(np.unique(array))} repeated ids")
    return _private_copy(array)


def _checked_columns(names: Sequence[str], d: int) -> tuple[str, ...]:
    columns = tuple(names)
    if not all(isinstance(name, str) for name in columns) or len(set(columns)) != len(columns):
        raise InputError(f"feature_names must be different strings, got {listed(columns)}")
    if len(columns) != d:
        raise InputError(f"feature_names must have one entry per feature column ({d}), got {len(columns)}")
    return columns


def listed(names: Sequence[Any]) -> str:
    """A few names for a message.

    >>> listed(["age", "income"])
    "'age', 'income'"
    """
    shown = ", ".join(repr(name) for name in list(names)[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _check_split(split: Split, n: int, labels: np.ndarray | None) -> None:
    if not isinstance(split, Split):
        raise InputError(f"split must be a Split, got {type(split).__name__}")
    for name in ("train", "val", "test"):
        part = getattr(split, name)
        if len(part) and int(part[-1]) >= n:
            raise InputError(f"split.{name} must hold node indices below {n}, got {int(part[-1])}")
    if len(split.train) and labels is None:
        raise InputError("split.train needs labels, got a graph without labels")
    if labels is not None and (labels[split.train] < 0).any():
        node = int(split.train[labels[split.train] < 0][0])
        raise InputError(f"split.train must hold labelled nodes, got node {node} without a label")


def _check_absent(absent: np.ndarray, features: Any, indptr: np.ndarray, labels: Any, split: Split | None) -> None:
    """Absent nodes carry nothing: no edge, no feature, no label, no part of the split."""
    n = features.shape[0]
    if len(absent) == 0:
        return
    if int(absent[-1]) >= n:
        raise InputError(f"absent must hold node indices below {n}, got {int(absent[-1])}")
    rows = features[absent]
    carried = np.diff(indptr)[absent] > 0
    carried |= np.asarray(abs(rows).sum(axis=1)).ravel() != 0
    if labels is not None:
        carried |= labels[absent] >= 0
    if split is not None:
        carried |= np.isin(absent, np.concatenate([split.train, split.val, split.test]))
    if carried.any():
        node = int(absent[carried][0])
        raise InputError(f"absent nodes must have no edge, feature, label or part, got node {node} with one")


def _checked_fractions(fractions: Sequence[float]) -> tuple[float, ...]:
    shares = tuple(float(share) for share in fractions)
    if len(shares) != 3 or not all(0 < share < 1 for share in shares) or abs(sum(shares) - 1) > 1e-9:
        raise InputError(f"fractions must be three positive numbers that sum to 1, got {tuple(fractions)!r}")
    return shares


def _without_row(features: Any, row: int) -> Any:
    if not sp.issparse(features):
        zeroed = features.copy()
        zeroed[row] = 0
        return zeroed
    first, last = int(features.indptr[row]), int(features.indptr[row + 1])
    indptr = features.indptr.copy()
    indptr[row + 1 :] -= last - first
    gone = slice(first, last)
    return sp.csr_array(
        (np.delete(features.data, gone), np.delete(features.indices, gone), indptr), shape=features.shape
    )
