"""Gradient-boosted trees as plain arrays: a saved model holds no code.

They are scikit-learn's `HistGradientBoostingClassifier`. Only its fitted trees are kept. The time of a tree grows with the
columns that it may ask, so trees of wide tables are grown on the few that tell classes apart best.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from caribou.models.learners import Learner, Table
from caribou.models.public_rows import as_dense

LEAVES = 12
COLUMNS, TREES = 64, 80
"""So many columns are asked. So many trees are grown; each step grows one for every class."""


class BoostedTrees(Learner):
    """Ensembles of binary trees: a row goes left at a node if its entry of the node's column is at most the threshold.

    Its arrays: ``feature`` (the column), ``threshold``, ``left``, ``right``, ``value``: [trees, nodes]; the root is node 0, and
    both children of a leaf are itself. ``output``: [trees], the score that a tree adds to. ``baseline``: [models, outputs],
    scores before the first tree; of two classes the second has the one output. Every class must have a row.
    """

    def fit(self, x: Table, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Grow the trees on one thread, as all learners: threads would wait for each other at every small step."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        columns = telling_columns(x, y, self.classes, COLUMNS)
        model = HistGradientBoostingClassifier(
            learning_rate=0.3,
            max_leaf_nodes=LEAVES,
            max_bins=32,
            max_iter=max(TREES // self.classes, 1),
            early_stopping=False,
            random_state=self.seed,
        )
        with threadpool_limits(limits=1):
            model.fit(as_dense(x[:, columns]), y, sample_weight)
        self.arrays = _arrays(model, columns)
        return self

    def decision_function(self, x: Table) -> np.ndarray:
        """The mean scores of the ensembles, with mean 0 in every row. [n, d] -> [n, C]"""
        own = self.arrays
        asked = np.unique(own["feature"])
        entries, feature = as_dense(x[:, asked]), np.searchsorted(asked, own["feature"])
        found = np.tile(own["baseline"].mean(axis=0), (len(entries), 1))
        for tree, output in enumerate(own["output"]):
            leaf = self._leaves(entries, feature[tree], tree)
            found[:, output] += own["value"][tree][leaf] / len(own["baseline"])
        if found.shape[1] == 1:
            found = np.hstack([-found / 2, found / 2])
        return np.asarray(found - found.mean(axis=1, keepdims=True))

    def _leaves(self, x: np.ndarray, feature: np.ndarray, tree: int) -> np.ndarray:
        """The leaf of a tree that every row reaches. [n]"""
        threshold, left, right = (self.arrays[name][tree] for name in ("threshold", "left", "right"))
        at, rows = np.zeros(len(x), dtype=np.int64), np.arange(len(x))
        while len(rows):
            here = at[rows]
            at[rows] = np.where(x[rows, feature[here]] <= threshold[here], left[here], right[here])
            rows = rows[at[rows] != here]
        return at


def telling_columns(x: Table, labels: np.ndarray, classes: int, count: int) -> np.ndarray:
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
    shape = (len(trees), 2 * LEAVES - 1)
    found: dict[str, np.ndarray] = {name: np.zeros(shape, dtype=np.int64) for name in ("feature", "left", "right")}
    found |= {name: np.zeros(shape) for name in ("threshold", "value")}
    found["feature"][:] = columns[0]
    for place, (_, nodes) in enumerate(trees):
        own, leaf = np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
        found["feature"][place, own] = columns[np.where(leaf, 0, nodes["feature_idx"])]
        found["threshold"][place, own], found["value"][place, own] = nodes["num_threshold"], nodes["value"]
        for side in ("left", "right"):
            found[side][place, own] = np.where(leaf, own, nodes[side])
    baseline = np.asarray(model._baseline_prediction, dtype=np.float64).reshape(1, -1)
    return {**found, "output": np.array([output for output, _ in trees], dtype=np.int64), "baseline": baseline}
