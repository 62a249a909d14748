"""From a private graph to the bounded operator W. The only module that looks at degrees.

W = S^(-1/2) (A + I) S^(-1/2) with s_i = max(deg_i, F) + 1 and a public floor F. For every graph and every F,
|x'(A + I)x| <= sum_i (deg_i + 1) x_i^2 <= sum_i s_i x_i^2, so ||W||_2 <= 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.privacy.sensitivity import Bounds

PairWeights = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Ends u and v of E edges -> a weight in [0, 1] for each. [E], [E] -> [E]"""


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
        return replace(self, matrix=_csr(*parts), own=own)


def normalize(graph: Graph, bounds: Bounds, sampling: np.random.Generator | None = None) -> Operator:
    """Cut the graph to the degree cap (if one is declared) and normalise it with the degree floor.

    ``sampling`` draws the edges that survive the cut; it is needed only with a cap. The graph is not changed.
    """
    _check_nodes(graph, bounds)
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
    upper = sp.triu(graph.adjacency(), k=1).tocoo()
    u, v = upper.row.astype(np.int64), upper.col.astype(np.int64)
    values = np.asarray(weights(u, v), dtype=np.float64)
    if values.shape != u.shape:
        raise InputError(f"weights must be one number per edge, got shape {values.shape[1:]} for each")
    # brought into [0, 1] and never refused: an error would tell that a certain pair is an edge
    values = np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0)
    half = sp.coo_array((values, (u, v)), shape=(graph.num_nodes, graph.num_nodes))
    return _operator((half + half.T).tocsr(), bounds, graph.absent, weighting)


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


def first_of_each_row(
    rows: np.ndarray, columns: np.ndarray, cap: int, key: int, *, directed: bool = False
) -> np.ndarray:
    """Which entries are among the ``cap`` first of their row, in the public order of pairs by `pair_hash`. [entries], bool

    The order of a pair does not depend on which other pairs there are, nor, unless ``directed``, on which end asks. The one home
    of the degree cap: in memory, in row blocks on disk, and for the receivers that a sender chooses.
    """
    ends = (rows, columns) if directed else (np.minimum(rows, columns), np.maximum(rows, columns))
    order = np.lexsort((columns, pair_hash(key, *ends), rows))
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
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()  # exact for weights 0 and 1
    root = 1 / np.sqrt(np.maximum(degrees, bounds.degree_floor) + 1.0)
    loops = np.ones(n)
    loops[absent] = 0
    closed = (adjacency + sp.diags_array(loops)).tocsr()
    closed.sort_indices()
    rows = np.repeat(np.arange(n), np.diff(closed.indptr))
    values = closed.data * root[rows] * root[closed.indices]
    index = np.int32 if closed.nnz < 2**31 else np.int64
    matrix = _csr(closed.indptr.astype(index), closed.indices.astype(index), values)
    own = None
    if len(absent):
        own = torch.ones(n, 1, dtype=torch.float64)
        own[torch.from_numpy(np.array(absent))] = 0
    return Operator(matrix, bounds, own, weighting)


def _csr(starts: np.ndarray, columns: np.ndarray, values: np.ndarray) -> Tensor:
    n = len(starts) - 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            torch.from_numpy(starts),
            torch.from_numpy(columns),
            torch.from_numpy(values),
            size=(n, n),
            check_invariants=False,
        )
