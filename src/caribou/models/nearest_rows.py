"""Nearest rows: the classes of the labelled rows that share the most words with a row. For tables with few labels.

Regressions weigh words; this compares whole rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from caribou.models.cross_fitting import by_class
from caribou.models.public_rows import as_dense, csr_from_arrays, csr_to_arrays
from caribou.models.ridge import blocks

NEAREST = 20
SHARPNESS = 12.0
PRIOR_WEIGHT = 10.0
"""How much the class shares weigh beside the nearest rows."""
FOLDS = 8
PART = 1024
"""Rows that are compared together: a cosine with each labelled row, and its place, are in memory for each."""


@dataclass(frozen=True, eq=False)
class NearestRows:
    """log((sum_j w_j Y_j + a pi) / (sum_j w_j + a)) over the NEAREST labelled rows j, with w_j = exp(SHARPNESS cos_j) - 1.

    A row without words has weights of 0, so it gets the class shares pi. a is PRIOR_WEIGHT, Y_j the indicator of a class.

    Args:
        rows: [m, d], the labelled rows, of length 1 (or 0).
        labels: [m], their classes.
        classes: C.
    """

    rows: sp.csr_array
    labels: np.ndarray
    classes: int

    def scores(self, x: sp.csr_array) -> np.ndarray:
        """For rows of length 1 that are not among the labelled ones. [n, d] -> [n, C]"""
        return self.scores_without(x, np.full(x.shape[0], -1), np.zeros(len(self.labels), dtype=int))

    def scores_without(self, x: sp.csr_array, fold: np.ndarray, folds: np.ndarray) -> np.ndarray:
        """As `scores`; a row of ``fold`` k, [n], does not see the labelled rows of k, whose folds are ``folds``, [m]."""
        indicators = np.eye(self.classes)[self.labels]
        shares, nearest = indicators.mean(axis=0), min(NEAREST, len(self.labels))
        found = np.empty((x.shape[0], self.classes))
        for first in range(0, x.shape[0], PART):
            part = slice(first, first + PART)
            cosines = as_dense(x[part] @ self.rows.T)
            cosines[fold[part, None] == folds] = 0
            chosen = np.argpartition(-cosines, nearest - 1, axis=1)[:, :nearest]
            weights = np.expm1(SHARPNESS * np.clip(np.take_along_axis(cosines, chosen, axis=1), 0, 1))
            sums = np.einsum("ij,ijc->ic", weights, indicators[chosen]) + PRIOR_WEIGHT * shares
            found[part] = np.log(np.maximum(sums, 1e-9) / (weights.sum(axis=1, keepdims=True) + PRIOR_WEIGHT))
        return found

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return {**csr_to_arrays("rows", self.rows), "labels": self.labels, "classes": np.array(self.classes)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> NearestRows:
        """The inverse of `to_arrays`."""
        return cls(csr_from_arrays("rows", arrays), np.array(arrays["labels"]), int(arrays["classes"]))


def fit_nearest_rows(
    read: Callable[[np.ndarray], sp.csr_array], count: int, train: np.ndarray, labels: np.ndarray, classes: int
) -> tuple[NearestRows, np.ndarray]:
    """The learner, and the scores of all rows, [n, C]; labelled rows do not see those of their own fold.

    Args:
        read: numbers of rows, [m] -> [m, d], of length 1.
        count: n, how many rows there are.
        train: [m], numbers of the labelled rows, in random order.
        labels: [n]; only those of ``train`` are read.
        classes: C.
    """
    fold = np.full(count, -1)
    ordered = by_class(train, labels)
    fold[ordered] = np.arange(len(ordered)) % FOLDS
    learner = NearestRows(read(ordered), labels[ordered], classes)
    parts = blocks(np.arange(count))
    return learner, np.concatenate([learner.scores_without(read(part), fold[part], fold[ordered]) for part in parts])
