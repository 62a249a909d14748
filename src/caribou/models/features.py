"""Feature rows for private training: rooted, scaled to length 1, centred at a released or public mean, sparse where they can be.

Every function of rows acts on each row alone, given public or released values. What one node does to a sum over nodes is
therefore its own row and nothing else.

A public unlabelled sample of rows gives centre and directions of the model at no cost (`PublicBasis`). It must not contain rows
of the private graph, nor be chosen by looking at it. Then everything that is computed from it is public, and private rows need
neither a noisy mean nor noise in directions that hold no data.
"""

from __future__ import annotations

import math
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou.errors import DataError, InputError
from caribou.graph import Graph
from caribou.graph.checks import check_places
from caribou.machine.memory import DOUBLE, require_memory
from caribou.mechanisms.bounded_rows import Rows, or_infinite, row_norms, unit_length

SHORTEST_RESIDUAL = 0.1
"""Rows closer than this to the mean are not stretched to length 1: a sparse row is centred by a difference of two products,
whose rounding error grows with the stretch. The same rule for dense rows, so that storage changes nothing but time."""


def require_row_memory(features: Any, random_features: int = 0) -> None:
    """Refuse rows, and random features of them, that do not fit into memory. Shapes are public, and so is how rows are stored."""
    n, d = features.shape
    if not sp.issparse(features):
        require_memory(4 * DOUBLE * n * d, f"rows of {n:,} nodes with {d:,} dense columns")
    _require_random_features(n, random_features)


def _require_random_features(nodes: int, count: int) -> None:
    require_memory(3 * DOUBLE * nodes * count, f"{count:,} random features of {nodes:,} nodes")


def unit_root_rows(features: Any) -> np.ndarray | sp.csr_array:
    """x <- sign(x) sqrt|x|, then x <- x / ||x|| (a zero row stays zero). Sparse rows stay sparse, dense ones dense.

    The root changes nothing on 0/1 features and tames counts and tf-idf. Acts on each row alone. [n, d] -> [n, d].

    >>> unit_root_rows(np.array([[9.0, -16.0], [0.0, 0.0]])).tolist()
    [[0.6, -0.8], [0.0, 0.0]]
    """
    # How rows are stored shows in the last bits of every prediction. So it must not follow the number of entries, which is
    # private at node level: one node could tip it, and everybody else's prediction would tell.
    if not sp.issparse(features):
        require_row_memory(features)
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
    _require_random_features(rows.shape[0], directions.shape[1])
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


ENDINGS = (".npy", ".npz", ".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class PublicBasis:
    """What a public sample of feature rows gives.

    Args:
        mean: [d].
        components: [d, k], or None for centring only.
    """

    mean: np.ndarray
    components: np.ndarray | None

    def rows(self, features: Any) -> Rows:
        """Coordinates of every centred row in the components, stretched to length 1 (less only for almost no length).

        Acts on each row alone. [n, d] -> [n, k], or [n, d] without components (sparse rows then stay sparse).
        """
        centred = centred_unit_rows(unit_root_rows(features), self.mean)
        if self.components is None:
            return centred
        return stretched_rows(centred.times(self.components))


def public_basis(sample: Any, count: int) -> PublicBasis:
    """Mean and leading principal directions of a public sample, after the same map as private rows.

    Direction j is divided by the fourth root of its variance (half way to coordinates of equal variance).

    Args:
        sample: [m, d], dense or CSR.
        count: k, how many directions. A sample that does not span so many would cut off more than noise does: then, or for
            k = 0, only the mean is used.

    >>> sample = np.random.default_rng(0).random((20, 6))
    >>> public_basis(sample, 2).components.shape, public_basis(sample, 7).components
    ((6, 2), None)
    """
    unit = unit_root_rows(sample)
    mean = np.asarray(unit.mean(axis=0), dtype=np.float64).ravel()
    if count == 0:
        return PublicBasis(mean, None)
    rows = centred_unit_rows(unit, mean)
    z = rows.times(np.eye(rows.shape[1]))
    wide = z.shape[0] < z.shape[1]
    spread, vectors = np.linalg.eigh(z @ z.T if wide else z.T @ z)  # the smaller of the two; ascending
    spread = spread[::-1][:count]
    if len(spread) < count or spread[-1] <= 1e-9 * max(float(spread[0]), 1e-6):
        return PublicBasis(mean, None)
    components = vectors[:, ::-1][:, :count]
    if wide:
        components = z.T @ (components / np.sqrt(spread))
    return PublicBasis(mean, components * (spread[0] / spread) ** 0.25)


def read_public_features(path: str | os.PathLike[str], *, columns: int) -> np.ndarray | sp.csr_array:
    """Numeric rows from a file. -> [m, columns], CSR if the file holds a sparse matrix.

    Args:
        path: .npy, .npz (an array ``features``, or what ``scipy.sparse.save_npz`` writes), .csv (with or without a line of
            titles) or .parquet.
        columns: d, the columns of the graph's features.

    Raises:
        DataError: the file is missing or cannot be read, has another number of columns or no rows, or holds values that are
            not finite numbers.
    """
    file = Path(path)
    if file.suffix.lower() not in ENDINGS:
        raise DataError(f"public_features must end in {', '.join(ENDINGS)}, got {str(path)!r}")
    if not file.is_file():
        raise DataError(f"public_features must be an existing file, got {str(path)!r}")
    try:
        rows = _read(file)
    except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise DataError(f"{file}: public_features must be readable, got {type(error).__name__}: {error}") from error
    if rows.ndim != 2 or rows.dtype.kind not in "biuf":
        raise DataError(f"{file}: public_features must be a table of numbers, got {rows.dtype} of shape {rows.shape}")
    if rows.shape[1] != columns:
        raise DataError(f"{file}: public_features must have the graph's {columns} columns, got {rows.shape[1]}")
    if rows.shape[0] == 0:
        raise DataError(f"{file}: public_features must have at least one row, got none")
    if not np.isfinite(rows.data if sp.issparse(rows) else rows).all():
        raise DataError(f"{file}: public_features must hold finite numbers, got nan or inf")
    return rows


def _read(file: Path) -> Any:
    ending = file.suffix.lower()
    if ending == ".npy":
        return np.load(file, allow_pickle=False)
    if ending == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            if "features" in arrays.files:
                return arrays["features"]
            if "format" not in arrays.files:
                raise KeyError("no array 'features', and no sparse matrix")
        matrix = sp.load_npz(file)
        check_places(public_features=matrix)
        return sp.csr_array(matrix)
    import pandas as pd

    if ending == ".parquet":
        return pd.read_parquet(file).to_numpy(dtype=np.float64)
    first = pd.read_csv(file, nrows=1, header=None)
    titled = not all(kind.kind in "biuf" for kind in first.dtypes)
    return pd.read_csv(file, header=0 if titled else None).to_numpy(dtype=np.float64)
