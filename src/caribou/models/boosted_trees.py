"""Gradient-boosted trees, one ensemble per fold, as plain arrays: a saved model holds no code.

They are scikit-learn's `HistGradientBoostingClassifier`. Only its fitted trees are kept. The time of a tree grows with the
columns that it may ask, so trees of wide tables are grown on the few that tell classes apart best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou.models.cross_fitting import by_class, cross_fitted
from caribou.models.public_rows import as_dense
from caribou.models.ridge import blocks


@dataclass(frozen=True)
class Growth:
    """How trees are grown.

    Args:
        folds: ensembles.
        steps: at most so many; each grows a tree for every class, or one tree for two classes.
        rate: of learning.
        leaves: of a tree, at most.
        columns: so many that tell the classes apart best (`telling_columns`); None: all.
        bins: of a column.
        stops: whether a tenth of the rows decides when to stop.
    """

    folds: int = 3
    steps: int = 100
    rate: float = 0.1
    leaves: int = 15
    columns: int | None = None
    bins: int = 255
    stops: bool = True

    @classmethod
    def of_wide(cls, classes: int) -> Growth:
        """For tables of many columns: 120 trees or fewer in an ensemble. Record 0129 has the measurements."""
        return cls(folds=2, steps=max(120 // classes, 1), rate=0.3, leaves=12, columns=64, bins=32, stops=False)


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Binary trees: a row goes left at a node if its entry of the node's column is at most the threshold.

    Args:
        columns: [k], the columns of a table that are asked.
        feature, threshold, left, right, value: [nodes], of all trees one after the other; places of children count from the
            first node of their tree, and a leaf has none (-1). ``feature`` is a place in ``columns``.
        first: [trees], the place of the root of every tree.
        fold, output: [trees], which ensemble and which column of its scores a tree adds to.
        baseline: [folds, outputs], scores before the first tree. With two classes there is one output, that of the second class.
    """

    columns: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    first: np.ndarray
    fold: np.ndarray
    output: np.ndarray
    baseline: np.ndarray

    def scores(self, x: np.ndarray | sp.csr_array) -> np.ndarray:
        """The mean scores of the ensembles, for rows that none of them was fitted on. [n, d] -> [n, C]"""
        asked = as_dense(x[:, self.columns])
        return np.asarray(np.mean([self._fold_scores(asked, k) for k in range(len(self.baseline))], axis=0))

    def _fold_scores(self, asked: np.ndarray, fold: int) -> np.ndarray:
        """The scores of one ensemble, with mean 0 in every row. [n, k] -> [n, C]"""
        found = np.tile(self.baseline[fold], (len(asked), 1))
        for tree in np.flatnonzero(self.fold == fold):
            found[:, self.output[tree]] += self._values(asked, int(self.first[tree]))
        if found.shape[1] == 1:
            found = np.hstack([-found / 2, found / 2])
        return found - found.mean(axis=1, keepdims=True)

    def _values(self, x: np.ndarray, root: int) -> np.ndarray:
        """The value of the leaf that every row reaches. [n]"""
        at, rows = np.full(len(x), root), np.arange(len(x))
        while len(rows):
            rows = rows[self.left[at[rows]] >= 0]
            here = at[rows]
            goes_left = x[rows, self.feature[here]] <= self.threshold[here]
            at[rows] = root + np.where(goes_left, self.left[here], self.right[here])
        return self.value[at]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return dict(vars(self))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> BoostedTrees:
        """The inverse of `to_arrays`."""
        return cls(**arrays)


def fit_boosted_trees(
    read: Callable[[np.ndarray], np.ndarray | sp.csr_array],
    count: int,
    train: np.ndarray,
    labels: np.ndarray,
    classes: int,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
    *,
    growth: Growth,
) -> tuple[BoostedTrees, np.ndarray]:
    """The ensembles, and the scores of all rows, [n, C]; those of labelled rows by ensembles that were not fitted on them.

    Args:
        read: numbers of rows, [m] -> [m, d], float32.
        count: n, how many rows there are.
        train: [m], numbers of the labelled rows, in random order; each class must have so many that every ensemble knows it.
        labels: [n]; only those of ``train`` are read.
        classes: C.
        rng: draws what is held out to stop.
        weights: [C], of the classes in the loss; None: all are 1.
        growth: how trees are grown.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    def fit(rows: np.ndarray, _: int) -> BoostedTrees:
        model = HistGradientBoostingClassifier(
            learning_rate=growth.rate,
            max_iter=growth.steps,
            max_leaf_nodes=growth.leaves,
            max_bins=growth.bins,
            early_stopping=growth.stops,
            n_iter_no_change=5,
            validation_fraction=0.1,
            random_state=int(rng.integers(2**31)),
        )
        x, y = read(rows), labels[rows]
        columns = np.arange(x.shape[1])
        if growth.columns is not None:
            columns = telling_columns(x, y, classes, growth.columns)
        model.fit(as_dense(x[:, columns]), y, None if weights is None else weights[y])
        return _arrays(model, columns)

    def scores(model: BoostedTrees, rows: np.ndarray) -> np.ndarray:
        return np.concatenate([model.scores(read(part)) for part in blocks(rows)] or [np.empty((0, classes))])

    with threadpool_limits(limits=1):  # as all learners; threads would wait for each other at every small step
        models, found = cross_fitted(fit, scores, count, by_class(train, labels), growth.folds)
    return _joined(models), found


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


def _arrays(model: Any, columns: np.ndarray) -> BoostedTrees:
    """The trees of a fitted classifier. scikit-learn has no public way to them."""
    trees = [(output, tree.nodes) for step in model._predictors for output, tree in enumerate(step)]
    sizes = [len(nodes) for _, nodes in trees]
    joined = np.concatenate([nodes for _, nodes in trees])
    leaf = joined["is_leaf"].astype(bool)
    return BoostedTrees(
        columns=columns,
        feature=joined["feature_idx"].astype(np.int64),
        threshold=joined["num_threshold"].astype(np.float64),
        left=np.where(leaf, -1, joined["left"].astype(np.int64)),
        right=np.where(leaf, -1, joined["right"].astype(np.int64)),
        value=joined["value"].astype(np.float64),
        first=np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64),
        fold=np.zeros(len(trees), dtype=np.int64),
        output=np.array([output for output, _ in trees], dtype=np.int64),
        baseline=np.asarray(model._baseline_prediction, dtype=np.float64).reshape(1, -1),
    )


def _joined(models: list[BoostedTrees]) -> BoostedTrees:
    """Ensembles of one fold each as one, which asks the columns of all."""
    columns = np.unique(np.concatenate([model.columns for model in models]))
    nodes = np.cumsum([0, *(len(model.feature) for model in models)])
    parts = {
        name: np.concatenate([getattr(m, name) for m in models]) for name in ("threshold", "left", "right", "value")
    }
    return BoostedTrees(
        columns=columns,
        feature=np.concatenate([np.searchsorted(columns, m.columns)[m.feature] for m in models]),
        first=np.concatenate([m.first + nodes[k] for k, m in enumerate(models)]),
        fold=np.concatenate([np.full_like(m.fold, k) for k, m in enumerate(models)]),
        output=np.concatenate([m.output for m in models]),
        baseline=np.concatenate([m.baseline for m in models]),
        **parts,
    )
