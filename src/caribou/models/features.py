"""Rows for private training: bounded in norm, centred at a private mean, and sparse as long as they can be.

Every function here acts on each row alone, given public or released values: what one node does to a sum over nodes is its own
row and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.memory import DOUBLE, require_memory
from caribou.privacy.allocation import AllocatedPart
from caribou.privacy.sensitivity import grid_spacing

SHORTEST_RESIDUAL = 0.1
"""Rows closer than this to the mean are not stretched to length 1: a sparse row is centred by a difference of two products,
whose rounding error grows with the stretch. The same rule for dense rows, so that storage changes nothing but time."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The matrix with rows (scale_i (x_i - shift), extra_i), without forming it when x is sparse.

    ``matrix``: x, [n, d], dense or CSR, float64. ``shift``: [d] or None for 0. ``scale``: [n] or None for 1. ``extra``: [n, D],
    further columns, or None for no such. ``norms``: [n], the exact L2 norms of the rows.

    >>> x = sp.csr_array(np.array([[3.0, 0.0], [0.0, 0.0]]))
    >>> Rows.of(x).norms.tolist()
    [3.0, 0.0]
    """

    matrix: np.ndarray | sp.csr_array
    norms: np.ndarray
    shift: np.ndarray | None = None
    scale: np.ndarray | None = None
    extra: np.ndarray | None = None

    @classmethod
    def of(cls, x: np.ndarray | sp.csr_array | Rows) -> Rows:
        """Plain features as rows: CSR stays CSR, everything in double precision."""
        if isinstance(x, Rows):
            return x
        if sp.issparse(x):
            matrix = sp.csr_array(x, dtype=np.float64)
        else:
            matrix = np.ascontiguousarray(x, dtype=np.float64)
        if matrix.ndim != 2:
            raise InputError(f"x must have shape [rows, columns], got {matrix.shape}")
        return cls(matrix, row_norms(matrix))

    @property
    def shape(self) -> tuple[int, int]:
        """n, d + D."""
        n, d = self.matrix.shape
        return int(n), int(d) + (0 if self.extra is None else self.extra.shape[1])

    def times(self, weights: np.ndarray) -> np.ndarray:
        """Rows times weights. [d + D, C] -> [n, C]."""
        own = weights[: self.matrix.shape[1]]
        out = self.matrix @ own
        if self.shift is not None:
            out -= self.shift @ own
        if self.scale is not None:
            out *= self.scale[:, None]
        return out if self.extra is None else out + self.extra @ weights[len(own) :]

    def sum_of_outer(self, right: np.ndarray) -> np.ndarray:
        """sum_i row_i right_i'. [n, C] -> [d + D, C]."""
        scaled = right if self.scale is None else right * self.scale[:, None]
        out = self.matrix.T @ scaled
        if self.shift is not None:
            out -= np.outer(self.shift, scaled.sum(axis=0))
        return out if self.extra is None else np.concatenate([out, self.extra.T @ right])

    def take(self, index: np.ndarray) -> Rows:
        """The rows of an index list."""
        scale = None if self.scale is None else self.scale[index]
        extra = None if self.extra is None else self.extra[index]
        return Rows(self.matrix[index], self.norms[index], self.shift, scale, extra)


def row_norms(x: Any) -> np.ndarray:
    """L2 norm of every row of an array, sparse or dense. [n, d] -> [n]."""
    if sp.issparse(x):
        return np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
    return np.sqrt(np.einsum("ij,ij->i", x, x))


def unit_root_rows(features: Any) -> np.ndarray | sp.csr_array:
    """x <- sign(x) sqrt|x|, then x <- x / ||x|| (a zero row stays zero). Sparse rows stay sparse, dense ones dense.

    The root changes nothing on 0/1 features and tames counts and tf-idf. Acts on each row alone. [n, d] -> [n, d].
    """
    # How rows are stored shows in the last bits of every prediction. So it must not follow the number of entries, which is
    # private at node level: one node could tip it, and everybody else's prediction would tell.
    if not sp.issparse(features):
        n, d = features.shape
        require_memory(4 * DOUBLE * n * d, f"rows of {n:,} nodes with {d:,} dense columns")
        dense = np.asarray(features, dtype=np.float64)
        rooted = np.sign(dense) * np.sqrt(np.abs(dense))
        return rooted / np.maximum(row_norms(rooted), 1e-300)[:, None]
    x = sp.csr_array(features, dtype=np.float64, copy=True)
    x.data = np.sign(x.data) * np.sqrt(np.abs(x.data))
    x.data /= np.repeat(np.maximum(row_norms(x), 1e-300), np.diff(x.indptr))
    return x


def private_mean(
    x: np.ndarray | sp.csr_array,
    calibrated: AllocatedPart,
    noise: NoiseSource,
    *,
    train_size: int,
    max_rows: int | None = None,
) -> np.ndarray:
    """The mean of rows of norm <= 1, released with Gaussian noise and shrunk towards 0. [n, d] -> [d].

    m = (1/n)(sum_i x_i + N(0, z^2 I)), z = the noise multiplier; then James and Stein: m max(0, 1 - d s^2 / ||m||^2),
    s = z / n. ``train_size`` = n is a declared constant. ``max_rows``: as in `bounded_rows`.

    Formal guarantee: adding or removing one row moves the sum by at most 1 in L2, so the release is one Gaussian mechanism of
    multiplier z, i.e. (1/z)-GDP. Shrinkage is post-processing. Assumes rows of norm <= 1: longer ones are refused.
    """
    multiplier = running_multiplier(calibrated)
    if calibrated.part.steps != 1 or calibrated.part.sampling_probability != 1:
        raise InputError(f"part {calibrated.part.name!r} must be one full-batch release, got {calibrated.part}")
    norms = row_norms(x)
    if len(norms) and not float(norms.max()) <= 1 + 1e-9:
        raise InputError(f"rows must have norm <= 1, got {float(norms.max())!r}")
    margin = rounding_margin(rows=bounded_rows(x.shape[0], max_rows), entries=x.shape[1], noise_multiplier=multiplier)
    total = (1 - margin) * np.asarray(x.sum(axis=0), dtype=np.float64).ravel()
    mean = noise.add_gaussian(total, std=multiplier) / train_size
    length = float(mean @ mean)
    if length == 0:
        return mean
    return mean * max(0.0, 1 - x.shape[1] * (multiplier / train_size) ** 2 / length)


def centred_unit_rows(x: np.ndarray | sp.csr_array, mean: np.ndarray) -> Rows:
    """z_i = (x_i - m) / max(||x_i - m||, 1/10): rows of norm 1, less only where x_i is almost m. Sparse x stays sparse."""
    if not sp.issparse(x):
        z = x - mean
        lengths = row_norms(z)
        z /= np.maximum(lengths, SHORTEST_RESIDUAL)[:, None]
        return Rows(z, np.minimum(1, lengths / SHORTEST_RESIDUAL))
    squared = row_norms(x) ** 2 - 2 * (x @ mean) + mean @ mean
    lengths = np.sqrt(np.maximum(squared, 0))
    norms = np.minimum(1, lengths / SHORTEST_RESIDUAL)
    return Rows(x, norms, mean, 1 / np.maximum(lengths, SHORTEST_RESIDUAL))


def with_random_features(rows: Rows, directions: np.ndarray, *, share: float) -> Rows:
    """Rows (sqrt(1 - share) z_i, sqrt(share) h_i / ||h_i||) with h_i = max(0, z_i V - 1/2), V = ``directions``. [n, d + D].

    A random hidden layer with fixed public weights V: what is trained on top stays linear. A row of norm at most 1 keeps that
    bound. Acts on each row alone, given the public directions. z must come without further columns.
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


# -- the arithmetic of a noisy sum ---------------------------------------------------------------------------------


def running_multiplier(calibrated: AllocatedPart) -> float:
    """The noise per unit of sensitivity; a part that was given no budget must not run on private data."""
    if math.isinf(calibrated.noise_multiplier):
        raise InputError(f"part {calibrated.part.name!r} must have a share of the budget to run, got none")
    return calibrated.noise_multiplier


def bounded_rows(rows: int, max_rows: int | None) -> int:
    """A public bound on the number of rows, from which allowances for rounding are computed; more rows are refused.

    None: the number of rows is itself public. Otherwise an allowance from the number itself would change with one row.
    """
    if max_rows is None:
        return rows
    if rows > max_rows:
        raise InputError(f"rows must be at most max_rows = {max_rows}, got {rows}")
    return max_rows


def rounding_margin(*, rows: int, entries: int, noise_multiplier: float) -> float:
    """By how much contributions are shortened so that rounding cannot lengthen what one of them does to the noisy sum.

    2^-20 for the row's own norm; n^2 2^-52 for two sums of n terms (each computed to n 2^-53 of the sum of norms), times
    32 because a centred sparse sum is a difference of terms up to 10 times as long; 2 sqrt(D) z 2^-28 for the grid, which
    moves each of D entries by at most 2^-28 standard deviations in either world. Relative to the clip. Beyond 1/2 (about 8
    million rows) the sum is refused.
    """
    grid = 2 * math.sqrt(entries) * grid_spacing(noise_std=noise_multiplier) if noise_multiplier > 0 else 0.0
    margin = 2.0**-20 + 32 * rows**2 * 2.0**-52 + grid
    if margin > 0.5:
        raise InputError(
            f"rows must be few enough for double precision, a margin of at most 1/2, got {margin:.3g} for {rows}"
        )
    return margin
