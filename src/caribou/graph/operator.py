"""From a private graph to the bounded operator W. The only module that looks at degrees.

W = S^(-1/2) (A + I) S^(-1/2) with s_i = max(deg_i, F) + 1 and a public floor F. For every graph and every F,
|x'(A + I)x| <= sum_i (deg_i + 1) x_i^2 <= sum_i s_i x_i^2, so ||W||_2 <= 1.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.blocked import BlockedGraph, put_together
from caribou.privacy.sensitivity import Bounds

PairWeights = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Ends u < v of E edges -> a weight in [0, 1] for each. [E], [E] -> [E]"""
_QUIET = threading.Lock()


@dataclass(frozen=True, eq=False)
class Operator:
    """W as a sparse CSR matrix in double precision, with the public bounds under which it was built.

    ``own`` is None, or a 0/1 column that is 0 for nodes without a row of their own: they have no self loop, no part in the mean
    and no X^(0). They pass on what their neighbours send. One without an edge has a row of 0 and is read by nobody: it is the
    zeroed-out node of the node-level neighbour. ``weighting`` says whose weights the edges have: those
    of a layer, by its name, or ``equal`` ones. A layer refuses the operator of another weighting.
    """

    matrix: Tensor  # [n, n], sparse CSR, float64
    bounds: Bounds
    own: Tensor | None = None  # [n, 1]
    weighting: str = "equal"

    @property
    def num_nodes(self) -> int:
        """n."""
        return int(self.matrix.shape[0])

    def aggregate(self, x: Tensor) -> Tensor:
        """W X, in the precision of X. [n, d] -> [n, d]."""
        return self.matrix.to(x.dtype) @ x

    def mean(self, x: Tensor) -> Tensor:
        """The mean over all n indices, as every node with a row of its own gives to it and gets it. [n, d] -> [1 or n, d]."""
        return self.mask(self.mask(x).sum(dim=0, keepdim=True) / self.num_nodes)

    def mask(self, x: Tensor) -> Tensor:
        """Zero the rows of nodes without a row of their own. [n, d] or [1, d] -> [n, d], unchanged if there are none."""
        return x if self.own is None else x * self.own.to(x.dtype)

    def without_own_rows(self, nodes: np.ndarray) -> Operator:
        """The operator in which these nodes, [n] bool, have no row of their own. ||W||_2 <= 1 stays: |x'(A + D)x| for D <= I."""
        nodes = nodes if self.own is None else nodes | (self.own.numpy()[:, 0] == 0)
        if not nodes.any():
            return self
        starts, columns = self.matrix.crow_indices().numpy(), self.matrix.col_indices().numpy()
        rows = np.repeat(np.arange(self.num_nodes), np.diff(starts))
        keep = (rows != columns) | ~nodes[rows]
        ends = np.concatenate([[0], np.cumsum(np.bincount(rows[keep], minlength=self.num_nodes))])
        parts = ends.astype(starts.dtype), columns[keep], self.matrix.values().numpy()[keep]
        own = torch.from_numpy((~nodes).astype(np.float64))[:, None]
        return replace(self, matrix=_csr(*parts, columns=self.num_nodes), own=own)


class BlockedOperator(Operator):
    """W of a graph in blocks: rows are multiplied where their block lies, and are never in memory as a whole.

    Every row is summed in the order of its neighbours by the function that multiplies W in memory.
    """

    def __init__(self, graph: BlockedGraph, bounds: Bounds, pairs: PairWeights | None = None, weighting: str = "equal"):
        if bounds.degree_cap is not None:
            raise InputError(f"degree_cap must be None for a graph in blocks, got {bounds.degree_cap}")
        degrees = put_together(graph.map_rows(_BlockDegrees(pairs)), np.empty(graph.num_nodes))
        parts = {"bounds": bounds, "own": None, "weighting": weighting, "_graph": graph, "_pairs": pairs}
        for name, value in {**parts, "_root": _inverse_root(degrees, bounds)}.items():
            object.__setattr__(self, name, value)

    _graph: BlockedGraph
    _pairs: PairWeights | None
    _root: np.ndarray

    def __repr__(self) -> str:
        return f"BlockedOperator(nodes={self.num_nodes}, {self.bounds}, weighting={self.weighting!r})"

    @property
    def num_nodes(self) -> int:
        """n."""
        return self._graph.num_nodes

    def aggregate(self, x: Tensor) -> Tensor:
        """As `Operator.aggregate`, without a gradient."""
        rows = x.detach().numpy()
        product = _BlockProduct(rows, self._root, self._pairs)
        return torch.from_numpy(put_together(self._graph.map_rows(product), np.empty_like(rows)))

    def without_own_rows(self, nodes: np.ndarray) -> Operator:
        """As `Operator.without_own_rows`; only node level asks for it, which needs its edges in memory."""
        return self if not nodes.any() else self._refuse()

    def _refuse(self, *_: object) -> NoReturn:
        raise InputError("edges must be in memory for this, got the operator of a graph in blocks")

    matrix = property(_refuse)


@dataclass(frozen=True, eq=False)
class _BlockDegrees:
    """Sums of the weights of the rows of a block. Private."""

    pairs: PairWeights | None

    def __call__(self, first: int, starts: np.ndarray, columns: np.ndarray) -> tuple[int, np.ndarray]:
        if self.pairs is None:
            return first, np.diff(starts).astype(np.float64)
        return first, _row_sums(starts, columns, _block_weights(self.pairs, first, starts, columns))


@dataclass(frozen=True, eq=False)
class _BlockProduct:
    """The rows of W x of a block. x: [n, d]; root: [n], S^(-1/2). Private, as the product is."""

    x: np.ndarray
    root: np.ndarray
    pairs: PairWeights | None

    def __call__(self, first: int, starts: np.ndarray, columns: np.ndarray) -> tuple[int, np.ndarray]:
        weights = np.ones(len(columns)) if self.pairs is None else _block_weights(self.pairs, first, starts, columns)
        loops = np.ones(len(starts) - 1)
        matrix = _csr(*_closed_rows(first, starts, columns, weights, loops, self.root), columns=len(self.root))
        with _quiet():  # rows may be mapped, and must not be written
            x = torch.from_numpy(self.x)
        return first, (matrix.to(x.dtype) @ x).numpy()


def normalize(graph: Graph, bounds: Bounds, sampling: np.random.Generator | None = None) -> Operator:
    """Cut the graph to the degree cap (if one is declared) and normalise it with the degree floor.

    ``sampling`` draws the edges that survive the cut; it is needed only with a cap. The graph is not changed.
    """
    _check_nodes(graph, bounds)
    if isinstance(graph, BlockedGraph):
        return BlockedOperator(graph, bounds)
    adjacency = graph.adjacency()
    if bounds.degree_cap is not None:
        if sampling is None:
            raise InputError("sampling must be a generator when degree_cap is set, got None")
        adjacency = cap_degrees(adjacency, bounds.degree_cap, sampling)
    return _operator(adjacency.astype(np.float64), bounds, graph.absent)


def normalize_weighted(graph: Graph, bounds: Bounds, weights: PairWeights, *, weighting: str) -> Operator:
    """W = S^(-1/2) (A_w + I) S^(-1/2) with a public weight in [0, 1] per edge and s_i = max(sum of weights at i, F) + 1.

    ||W|| <= 1 as for equal weights: |x'(A_w + I)x| <= sum_i (sum of weights at i + 1) x_i^2. ``weights`` must be a function of
    the two ends alone: the weight of a pair must not depend on which other edges there are. ``weighting`` names the layer.
    """
    _check_nodes(graph, bounds)
    if isinstance(graph, BlockedGraph):
        return BlockedOperator(graph, bounds, weights, weighting)
    upper = sp.triu(graph.adjacency(), k=1).tocoo()
    u, v = upper.row.astype(np.int64), upper.col.astype(np.int64)
    half = sp.coo_array((_checked_weights(weights, u, v), (u, v)), shape=(graph.num_nodes, graph.num_nodes))
    return _operator((half + half.T).tocsr(), bounds, graph.absent, weighting)


def _checked_weights(weights: PairWeights, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    values = np.asarray(weights(u, v), dtype=np.float64)
    if values.shape != u.shape:
        raise InputError(f"weights must be one number per edge, got shape {values.shape[1:]} for each")
    # brought into [0, 1] and never refused: an error would tell that a certain pair is an edge
    return np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0)


def _block_weights(weights: PairWeights, first: int, starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The weights of the entries of a block: both ends of an edge ask for the same pair u < v."""
    rows = first + np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return _checked_weights(weights, np.minimum(rows, columns), np.maximum(rows, columns))


def _check_nodes(graph: Graph, bounds: Bounds) -> None:
    if bounds.nodes is not None and bounds.nodes != graph.num_nodes:
        raise InputError(f"nodes must be the number of nodes of the graph, {graph.num_nodes}, got {bounds.nodes}")


def operator_of(adjacency: Operator | Graph | Tensor, num_nodes: int, bounds: Bounds) -> Operator:
    """Whatever describes a graph as an `Operator`: one already, a `Graph`, or a PyG ``edge_index`` of shape [2, E]."""
    if isinstance(adjacency, Operator):
        return adjacency
    if isinstance(adjacency, Graph):
        return normalize(adjacency, bounds)
    if isinstance(adjacency, Tensor):
        placeholder = np.zeros((num_nodes, 0), dtype=np.float32)
        return normalize(Graph.from_edges(placeholder, adjacency.detach().cpu().numpy()), bounds)
    raise InputError(f"adjacency must be an Operator, a Graph or an edge_index tensor, got {type(adjacency).__name__}")


def cap_degrees(adjacency: sp.csr_array, cap: int, sampling: np.random.Generator) -> sp.csr_array:
    """Keep an edge if it is among the ``cap`` first of *both* its ends, in a random order of all pairs of nodes.

    The order is a keyed hash of the pair, so it does not depend on which other edges exist: when a node leaves, each of its
    former neighbours takes at most one other edge instead, and nothing else moves. Both directions of an edge are kept or
    dropped together, so no later symmetrisation can undo the cap. `sampling` gives the (public) key.
    """
    n = adjacency.shape[0]
    upper = sp.triu(adjacency, k=1).tocoo()
    u, v = upper.row.astype(np.int64), upper.col.astype(np.int64)
    key = int(sampling.integers(2**63))
    kept = first_of_each_row(np.concatenate([u, v]), np.concatenate([v, u]), cap, key)
    keep = kept[: len(u)] & kept[len(u) :]
    half = sp.coo_array((np.ones(int(keep.sum())), (u[keep], v[keep])), shape=(n, n))
    return (half + half.T).tocsr()


def first_of_each_row(rows: np.ndarray, columns: np.ndarray, cap: int, key: int) -> np.ndarray:
    """Which entries are among the ``cap`` first of their row, in the public order of pairs by `pair_hash`. [entries], bool

    The order of a pair does not depend on which other pairs there are, nor on which end asks. The one home of the degree cap, in
    memory and in row blocks on disk.
    """
    order = np.lexsort((columns, pair_hash(key, np.minimum(rows, columns), np.maximum(rows, columns)), rows))
    ordered = rows[order]
    first = np.searchsorted(ordered, ordered)
    kept = np.empty(len(rows), dtype=bool)
    kept[order] = np.arange(len(rows)) - first < cap
    return kept


def pair_hash(key: int, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """64 pseudo-random public bits per ordered pair: the finaliser of splitmix64 (Steele, Lea and Flood 2014), once per end."""

    def mix(x: np.ndarray) -> np.ndarray:
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

    golden = np.uint64(0x9E3779B97F4A7C15)
    return mix(mix(u.astype(np.uint64) * golden + np.uint64(key)) + (v.astype(np.uint64) + np.uint64(1)) * golden)


def _operator(adjacency: sp.csr_array, bounds: Bounds, absent: np.ndarray, weighting: str = "equal") -> Operator:
    n = adjacency.shape[0]
    parts = adjacency.indptr, adjacency.indices, adjacency.data
    loops = np.ones(n)
    loops[absent] = 0
    matrix = _csr(*_closed_rows(0, *parts, loops, _inverse_root(_row_sums(*parts), bounds)), columns=n)
    own = None
    if len(absent):
        own = torch.ones(n, 1, dtype=torch.float64)
        own[torch.from_numpy(np.array(absent))] = 0
    return Operator(matrix, bounds, own, weighting)


def _row_sums(starts: np.ndarray, columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The sum of the weights of each row; exact for weights 0 and 1. [rows]"""
    rows = sp.csr_array((weights, columns, starts), shape=(len(starts) - 1, int(columns.max(initial=0)) + 1))
    return np.asarray(rows.sum(axis=1)).ravel()


def _inverse_root(degrees: np.ndarray, bounds: Bounds) -> np.ndarray:
    """S^(-1/2). [rows]"""
    root: np.ndarray = 1 / np.sqrt(np.maximum(degrees, bounds.degree_floor) + 1.0)
    return root


def _closed_rows(
    first: int, starts: np.ndarray, columns: np.ndarray, weights: np.ndarray, loops: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of W from number ``first`` on: starts, columns in ascending order, values. loops: [rows]; root: [n]."""
    count = len(loops)
    rows = np.arange(count + 1)
    shape = (count, len(root))
    diagonal = sp.csr_array((loops, first + rows[:-1], rows), shape=shape)
    closed = (sp.csr_array((weights, columns, starts), shape=shape) + diagonal).tocsr()
    closed.sort_indices()
    closed.data *= np.repeat(root[first : first + count], np.diff(closed.indptr))
    closed.data *= root[closed.indices]
    index = np.int32 if closed.nnz < 2**31 else np.int64
    return closed.indptr.astype(index, copy=False), closed.indices.astype(index, copy=False), closed.data


def _csr(starts: np.ndarray, indices: np.ndarray, values: np.ndarray, *, columns: int) -> Tensor:
    with _quiet():
        return torch.sparse_csr_tensor(
            torch.from_numpy(starts),
            torch.from_numpy(indices),
            torch.from_numpy(values),
            size=(len(starts) - 1, columns),
            check_invariants=False,
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Two warnings of torch that ask for nothing. Filters belong to the whole process, so threads take turns."""
    with _QUIET, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        yield
