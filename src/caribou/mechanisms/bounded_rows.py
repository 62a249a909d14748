"""Rows of bounded norm: their structure, and their projection onto a ball.

Every function here acts on each row alone. What one example does to a sum of rows is therefore its own row and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou.errors import InputError


def row_norms(x: Any) -> np.ndarray:
    """L2 norm of every row of an array, sparse or dense. [n, d] -> [n].

    >>> row_norms(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [5.0, 0.0]
    """
    with np.errstate(over="ignore"):  # a warning about one person's row would tell of that person
        if sp.issparse(x):
            return np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
        return np.sqrt(np.einsum("ij,ij->i", x, x))


def project_rows(x: np.ndarray, radius: float) -> np.ndarray:
    """Every row projected onto the ball of ``radius``: x_i / max(1, ||x_i|| / radius). [n, d] -> [n, d].

    Shorter rows stay as they are, bit by bit. The map is 1-Lipschitz (normalising to the sphere is not).
    `caribou.layers.contractive.project_rows` is the same map for tensors.

    >>> project_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    return x / np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True) / radius)


def unit_length(x: np.ndarray, norms: np.ndarray | None = None) -> np.ndarray:
    """Rows divided by their length; one that is shorter than 1e-150 becomes zero. [n, d] -> [n, d].

    Not Lipschitz: for public or released rows, or for rows whose sum is bounded by their new length.

    Args:
        x: [n, d].
        norms: [n], the lengths if they are known already; they are divided by as they are.

    >>> unit_length(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    lengths = np.linalg.norm(x, axis=1, keepdims=True) if norms is None else norms[:, None]
    return x / or_infinite(lengths)


def or_infinite(lengths: np.ndarray) -> np.ndarray:
    """Lengths to divide by; those below 1e-150, whose squares have lost their digits or are 0, are infinite: 0 is left."""
    return np.where(lengths > 1e-150, lengths, np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """The matrix with rows (scale_i (x_i - shift), extra_i), without forming it when x is sparse.

    Args:
        matrix: x, [n, d], dense or CSR, float64.
        norms: [n], the exact L2 norms of the rows.
        shift: [d], or None for 0.
        scale: [n], or None for 1.
        extra: [n, D], further columns, or None for no such.

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
        """Plain features as rows: CSR stays CSR, everything in double precision. [n, d]."""
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
        """The rows of an index list. [m] -> rows [m, d + D]."""
        scale = None if self.scale is None else self.scale[index]
        extra = None if self.extra is None else self.extra[index]
        return Rows(self.matrix[index], self.norms[index], self.shift, scale, extra)
