"""Gradient-boosted trees as plain arrays: a saved model holds no code.

They are scikit-learn's `HistGradientBoostingClassifier`. Only its fitted trees are kept. The time of a tree grows with the
columns that it may ask, so trees of wide tables are grown on the few that tell classes apart best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from caribou.models.public_rows import as_dense

NARROW_TREES: dict[str, Any] = {"learning_rate": 0.1, "max_iter": 100, "max_leaf_nodes": 15, "early_stopping": True}
NARROW_TREES |= {"n_iter_no_change": 5, "validation_fraction": 0.1}
WIDE_TREES: dict[str, Any] = {"learning_rate": 0.3, "max_leaf_nodes": 12, "max_bins": 32, "early_stopping": False}
WIDE_COLUMNS, WIDE_COUNT = 64, 80
"""Trees of words ask so many columns. So many of them are grown; each step grows one for every class."""


class BoostedTrees:
    """Ensembles of binary trees: a row goes left at a node if its entry of the node's column is at most the threshold.

    Args:
        classes: C, each with a row at least.
        seed: draws what is held out to stop.
        wide: whether the few telling columns are asked alone.
    """

    folds: ClassVar[int] = 3
    arrays: dict[str, np.ndarray]
    """``columns``: [k], those that are asked. ``feature`` (a place in ``columns``), ``threshold``, ``left``, ``right``,
    ``value``: [nodes], of all trees one after the other; places of children count from the first node of their tree, and a leaf
    has none (-1). ``first``: [trees], the place of every root. ``output``: [trees], the column of the scores that a tree adds
    to. ``baseline``: [folds, outputs], scores before the first tree; of two classes the second has the one output."""

    def __init__(self, classes: int, seed: int = 0, wide: bool = False) -> None:
        self.classes, self.seed, self.wide = classes, seed, wide

    def fit(self, x: np.ndarray | sp.csr_array, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Grow the trees on one thread, as all learners: threads would wait for each other at every small step."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        settings, columns = NARROW_TREES, np.arange(x.shape[1])
        if self.wide:
            columns = telling_columns(x, y, self.classes, WIDE_COLUMNS)
            settings = {**WIDE_TREES, "max_iter": max(WIDE_COUNT // self.classes, 1)}
        model = HistGradientBoostingClassifier(**settings, random_state=self.seed)
        with threadpool_limits(limits=1):
            model.fit(as_dense(x[:, columns]), y, sample_weight)
        self.arrays = _arrays(model, columns)
        return self

    def decision_function(self, x: np.ndarray | sp.csr_array) -> np.ndarray:
        """The mean scores of the ensembles, with mean 0 in every row. [n, d] -> [n, C]"""
        own, asked = self.arrays, as_dense(x[:, self.arrays["columns"]])
        found = np.tile(own["baseline"].mean(axis=0), (len(asked), 1))
        for tree, root in enumerate(own["first"]):
            found[:, own["output"][tree]] += self._values(asked, int(root)) / len(own["baseline"])
        if found.shape[1] == 1:
            found = np.hstack([-found / 2, found / 2])
        return np.asarray(found - found.mean(axis=1, keepdims=True))

    def _values(self, x: np.ndarray, root: int) -> np.ndarray:
        """The value of the leaf that every row reaches. [n]"""
        own, at, rows = self.arrays, np.full(len(x), root), np.arange(len(x))
        while len(rows):
            rows = rows[own["left"][at[rows]] >= 0]
            here = at[rows]
            goes_left = x[rows, own["feature"][here]] <= own["threshold"][here]
            at[rows] = root + np.where(goes_left, own["left"][here], own["right"][here])
        return np.asarray(own["value"][at])

    @classmethod
    def joined(cls, models: Sequence[Self], x: Any, y: np.ndarray) -> Self:
        """All ensembles as one, which asks the columns of all."""
        each = [model.arrays for model in models]
        columns = np.unique(np.concatenate([own["columns"] for own in each]))
        before = np.cumsum([0, *(len(own["feature"]) for own in each)])
        found = {name: np.concatenate([own[name] for own in each]) for name in each[0]}
        found["columns"] = columns
        found["feature"] = np.concatenate([np.searchsorted(columns, own["columns"])[own["feature"]] for own in each])
        found["first"] = np.concatenate([own["first"] + start for own, start in zip(each, before[:-1], strict=True)])
        return cls.from_arrays(found)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return self.arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `to_arrays`."""
        outputs = arrays["baseline"].shape[1]
        found = cls(max(outputs, 2))
        found.arrays = {name: np.array(array) for name, array in arrays.items()}
        return found


def telling_columns(x: np.ndarray | sp.csr_array, labels: np.ndarray, classes: int, count: int) -> np.ndarray:
    """The columns with the largest variance between classes for their variance within, ascending. [n, d], [n] -> [count]

    >>> telling_columns(np.array([[0.0, 1.0, 5.0], [1.0, 1.0, 6.0], [0.0, 1.0, 9.0]]), np.array([0, 0, 1]), 2, 1).tolist()
    [2]
    """
    n = x.shape[0]
    sizes = np.maximum(np.bincount(labels, minlength=classes), 1)[:, None]
    members = sp.csr_array((np.ones(n), (labels, np.arange(n))), shape=(classes, n))
    sums = members @ x
    squares = (x * x).sum(axis=0, dtype=np.float64)
    dense_sums = np.asarray(sums.todense() if sp.issparse(sums) else sums)
    explained = (dense_sums**2 / sizes).sum(axis=0)
    between, within = explained - dense_sums.sum(axis=0) ** 2 / n, np.maximum(squares - explained, 0)
    ratio = between / (within + 1e-6 * np.maximum(squares, 1e-30))  # a column of one value tells nothing
    return np.sort(np.argsort(-ratio, kind="stable")[:count])


def _arrays(model: Any, columns: np.ndarray) -> dict[str, np.ndarray]:
    """The trees of a fitted classifier. scikit-learn has no public way to them."""
    trees = [(output, tree.nodes) for step in model._predictors for output, tree in enumerate(step)]
    sizes = [len(nodes) for _, nodes in trees]
    joined = np.concatenate([nodes for _, nodes in trees])
    leaf = joined["is_leaf"].astype(bool)
    return {
        "columns": columns,
        "feature": joined["feature_idx"].astype(np.int64),
        "threshold": joined["num_threshold"].astype(np.float64),
        "left": np.where(leaf, -1, joined["left"].astype(np.int64)),
        "right": np.where(leaf, -1, joined["right"].astype(np.int64)),
        "value": joined["value"].astype(np.float64),
        "first": np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64),
        "output": np.array([output for output, _ in trees], dtype=np.int64),
        "baseline": np.asarray(model._baseline_prediction, dtype=np.float64).reshape(1, -1),
    }
