"""Feature rows for private training: rooted, scaled to length 1, centred at a released or public mean, sparse where they can be.

Every function here acts on each row alone, given public or released values. What one node does to a sum over nodes is therefore
its own row and nothing else.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.machine.memory import DOUBLE, require_memory
from caribou.mechanisms.bounded_rows import Rows, or_infinite, row_norms, unit_length

SHORTEST_RESIDUAL = 0.1
"""Rows closer than this to the mean are not stretched to length 1: a sparse row is centred by a difference of two products,
whose rounding error grows with the stretch. The same rule for dense rows, so that storage changes nothing but time."""


def unit_root_rows(features: Any) -> np.ndarray | sp.csr_array:
    """x <- sign(x) sqrt|x|, then x <- x / ||x|| (a zero row stays zero). Sparse rows stay sparse, dense ones dense.

    The root changes nothing on 0/1 features and tames counts and tf-idf. Acts on each row alone. [n, d] -> [n, d].

    >>> unit_root_rows(np.array([[9.0, -16.0], [0.0, 0.0]])).tolist()
    [[0.6, -0.8], [0.0, 0.0]]
    """
    # How rows are stored shows in the last bits of every prediction. So it must not follow the number of entries, which is
    # private at node level: one node could tip it, and everybody else's prediction would tell.
    if not sp.issparse(features):
        n, d = features.shape
        require_memory(4 * DOUBLE * n * d, f"rows of {n:,} nodes with {d:,} dense columns")
        dense = np.asarray(features, dtype=np.float64)
        rooted = np.sign(dense) * np.sqrt(np.abs(dense))
        return unit_length(rooted, row_norms(rooted))
    x = sp.csr_array(features, dtype=np.float64, copy=True)
    x.data = np.sign(x.data) * np.sqrt(np.abs(x.data))
    x.data /= np.repeat(or_infinite(row_norms(x)), np.diff(x.indptr))
    return x


def centred_unit_rows(x: np.ndarray | sp.csr_array, mean: np.ndarray) -> Rows:
    """z_i = (x_i - m) / max(||x_i - m||, 1/10): rows of norm 1, less only where x_i is almost m. [n, d] -> rows [n, d].

    Args:
        x: [n, d], dense or CSR; CSR is not made dense.
        mean: m, [d], public or released.

    >>> centred_unit_rows(np.array([[3.0, 4.0], [0.0, 0.05]]), np.zeros(2)).norms.tolist()
    [1.0, 0.5]
    """
    if not sp.issparse(x):
        return stretched_rows(x - mean)
    squared = row_norms(x) ** 2 - 2 * (x @ mean) + mean @ mean
    lengths = np.sqrt(np.maximum(squared, 0))
    norms = np.minimum(1, lengths / SHORTEST_RESIDUAL)
    return Rows(x, norms, mean, 1 / np.maximum(lengths, SHORTEST_RESIDUAL))


def stretched_rows(z: np.ndarray) -> Rows:
    """z_i / max(||z_i||, 1/10), in place: ``z`` is overwritten. [n, k] -> rows [n, k] of norm at most 1."""
    lengths = row_norms(z)
    z /= np.maximum(lengths, SHORTEST_RESIDUAL)[:, None]
    return Rows(z, np.minimum(1, lengths / SHORTEST_RESIDUAL))


def random_directions(columns: int, count: int, seed: int) -> np.ndarray:
    """Standard normal directions of random features, from a public seed. -> [columns, count]"""
    return np.random.default_rng(seed).standard_normal((columns, count))


def with_random_features(rows: Rows, directions: np.ndarray, *, share: float) -> Rows:
    """Rows (sqrt(1 - share) z_i, sqrt(share) h_i / ||h_i||) with h_i = max(0, z_i V - 1/2). [n, d] -> [n, d + D].

    A random hidden layer with fixed public weights V: what is trained on top stays linear. A row of norm at most 1 keeps that
    bound. Acts on each row alone, given the public directions.

    Args:
        rows: z, [n, d], without extra columns.
        directions: V, [d, D], public (`random_directions`).
        share: what random features hold of a row's squared length, in [0, 1].

    >>> with_random_features(Rows.of(np.array([[1.0, 0.0]])), np.array([[2.0], [0.0]]), share=0.36).times(np.eye(3)).round(6)
    array([[0.8, 0. , 0.6]])
    """
    if rows.extra is not None:
        raise InputError("rows must not have further columns already")
    n, count = rows.shape[0], directions.shape[1]
    require_memory(3 * DOUBLE * n * count, f"{count:,} random features of {n:,} nodes")
    hidden = rows.times(directions)
    hidden -= 0.5
    np.maximum(hidden, 0, out=hidden)
    lengths = row_norms(hidden)
    hidden *= (math.sqrt(share) / np.maximum(lengths, 1e-300))[:, None]
    scale = np.full(len(lengths), math.sqrt(1 - share)) * (1 if rows.scale is None else rows.scale)
    norms = np.sqrt((1 - share) * rows.norms**2 + share * (lengths > 0))
    return Rows(rows.matrix, norms, rows.shift, scale, hidden)


def sent_rows(graph: Graph, rows: np.ndarray) -> np.ndarray:
    """Rows of X^(0): a node without features has nothing to send, and its row is 0. Each row is judged by itself. [n, d]

    >>> sent_rows(Graph.from_edges([[1.0], [0.0]], [[0], [1]]), np.ones((2, 3))).tolist()
    [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    """
    return np.where(graph.without_features[:, None], 0.0, rows)
