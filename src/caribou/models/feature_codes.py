"""Feature codes: every node's features in one of a few words, found by k-means on public rows. They never read an edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from caribou.models.public_rows import PublicRows, blocks

SAMPLE = 5000
"""Centres are fitted on so many rows at most."""
STEPS, STARTS = 20, 4
FEWEST = 5
"""A centre is the mean of so many rows at least: fewer would show whose they are."""
DIRECTIONS = 16
"""Rows are first projected on so many leading directions: in many noisy columns groups would drown."""


@dataclass(frozen=True, eq=False)
class FeatureCodes:
    """The nearest of some centres.

    Args:
        rows: how features become rows.
        directions: [d, r], leading right singular vectors of the rows.
        centres: [M, r].

    >>> x = np.array([[0.0, 0.1], [0.1, 0.0], [5.0, 5.1], [5.1, 5.0]])
    >>> code = FeatureCodes.of(x, 2, np.random.default_rng(0))(x)
    >>> bool(code[0] == code[1] != code[2] == code[3])
    True
    """

    rows: PublicRows
    directions: np.ndarray
    centres: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray | sp.csr_array, most: int, rng: np.random.Generator) -> FeatureCodes:
        """At most ``most`` codes of features [n, d]: fewer if there are fewer different rows."""
        rows = PublicRows.of(features)
        n = features.shape[0]
        some = np.sort(rng.permutation(n)[:SAMPLE])
        x = rows(features[some])
        directions = _directions(x, rng)
        return cls(rows, directions, _k_means(x @ directions, most, rng))

    def __call__(self, features: np.ndarray | sp.csr_array) -> np.ndarray:
        """[n, d] -> [n], int64."""
        parts = [
            _nearest(self.rows(features[part]) @ self.directions, self.centres)
            for part in blocks(np.arange(features.shape[0]))
        ]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    @property
    def count(self) -> int:
        """M."""
        return len(self.centres)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return {**self.rows.to_arrays(), "codes.directions": self.directions, "codes.centres": self.centres}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> FeatureCodes:
        """The inverse of `to_arrays`."""
        return cls(PublicRows.from_arrays(arrays), arrays["codes.directions"], arrays["codes.centres"])


def _directions(x: np.ndarray | sp.csr_array, rng: np.random.Generator) -> np.ndarray:
    d = x.shape[1]
    if d <= DIRECTIONS or x.shape[0] <= DIRECTIONS:
        return np.eye(d)
    if abs(x).max() == 0:  # equal rows lead nowhere, and an iteration from 0 fails
        return np.zeros((d, 1))
    start = rng.random(min(x.shape))
    return np.asarray(svds(x.astype(np.float64), k=DIRECTIONS, v0=start)[2].T)


def _nearest(x: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The nearest centre of every row. [n, r], [M, r] -> [n]"""
    return np.asarray(((centres**2).sum(axis=1) - 2 * (x @ centres.T)).argmin(axis=1))


def _k_means(x: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """scikit-learn's k-means, the best of some starts. [n, r] -> [M, r], M <= most: equal rows need one centre, and a centre
    of few rows is left out."""
    from sklearn.cluster import KMeans

    if x.shape[1] == 0:  # a graph without columns: all rows are alike
        return np.zeros((1, 0))
    length = max(float(np.abs(x).max()), 1e-12)
    different = len(np.unique((x / length).round(6), axis=0))
    model = KMeans(min(most, different), n_init=STARTS, max_iter=STEPS, random_state=int(rng.integers(2**31)))
    model.fit(np.asarray(x, dtype=np.float64))
    members = np.bincount(model.labels_)
    return np.asarray(model.cluster_centers_[members >= min(FEWEST, members.max())])
