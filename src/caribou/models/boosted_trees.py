"""Gradient-boosted trees of narrow tables, one ensemble per fold, as plain arrays: a saved model holds no code.

They are scikit-learn's `HistGradientBoostingClassifier`. Only its fitted trees are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from caribou.models.cross_fitting import by_class, cross_fitted

FOLDS = 3
TREES = 100
"""At most so many per class; a tenth of the rows decides when to stop."""
LEARNING_RATE = 0.1
LEAVES = 15


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Binary trees: a row goes left at a node if its entry of the node's column is at most the threshold.

    Args:
        feature, threshold, left, right, value: [nodes], of all trees one after the other; places of children count from the
            first node of their tree, and a leaf has none (-1).
        first: [trees], the place of the root of every tree.
        fold, output: [trees], which ensemble and which column of its scores a tree adds to.
        baseline: [folds, outputs], scores before the first tree. With two classes there is one output, that of the second class.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    first: np.ndarray
    fold: np.ndarray
    output: np.ndarray
    baseline: np.ndarray

    def scores(self, x: np.ndarray) -> np.ndarray:
        """The mean scores of the ensembles, for rows that none of them was fitted on. [n, d] -> [n, C]"""
        return np.asarray(np.mean([self.fold_scores(x, k) for k in range(len(self.baseline))], axis=0))

    def fold_scores(self, x: np.ndarray, fold: int) -> np.ndarray:
        """The scores of one ensemble, with mean 0 in every row. [n, d] -> [n, C]"""
        found = np.tile(self.baseline[fold], (len(x), 1))
        for tree in np.flatnonzero(self.fold == fold):
            found[:, self.output[tree]] += self._values(x, int(self.first[tree]))
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
    x: np.ndarray,
    train: np.ndarray,
    labels: np.ndarray,
    classes: int,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> tuple[BoostedTrees, np.ndarray]:
    """The ensembles, and the scores of all rows, [n, C]; those of labelled rows by ensembles that were not fitted on them.

    Args:
        x: [n, d], float32; every class must have FOLDS labelled rows, so that each ensemble knows all of them.
        train: [m], numbers of the labelled rows, in random order.
        labels: [n]; only those of ``train`` are read.
        classes: C.
        rng: draws what is held out to stop.
        weights: [C], of the classes in the loss; None: all are 1.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    def fit(rows: np.ndarray, _: int) -> Any:
        model = HistGradientBoostingClassifier(
            learning_rate=LEARNING_RATE,
            max_iter=TREES,
            max_leaf_nodes=LEAVES,
            early_stopping=True,
            n_iter_no_change=5,
            validation_fraction=0.1,
            random_state=int(rng.integers(2**31)),
        )
        return model.fit(x[rows], labels[rows], None if weights is None else weights[labels[rows]])

    def scores(model: Any, rows: np.ndarray) -> np.ndarray:
        return _arrays([model]).fold_scores(x[rows], 0)

    with threadpool_limits(limits=1):  # as all learners; threads would wait for each other at every small step
        models, found = cross_fitted(fit, scores, len(x), by_class(train, labels), FOLDS)
    return _arrays(models), found


def _arrays(models: list[Any]) -> BoostedTrees:
    """The trees of fitted classifiers. scikit-learn has no public way to them."""
    trees = [
        (k, output, tree.nodes)
        for k, model in enumerate(models)
        for step in model._predictors
        for output, tree in enumerate(step)
    ]
    sizes = [len(nodes) for _, _, nodes in trees]
    joined = np.concatenate([nodes for _, _, nodes in trees])
    leaf = joined["is_leaf"].astype(bool)
    return BoostedTrees(
        feature=joined["feature_idx"].astype(np.int64),
        threshold=joined["num_threshold"].astype(np.float64),
        left=np.where(leaf, -1, joined["left"].astype(np.int64)),
        right=np.where(leaf, -1, joined["right"].astype(np.int64)),
        value=joined["value"].astype(np.float64),
        first=np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64),
        fold=np.array([k for k, _, _ in trees], dtype=np.int64),
        output=np.array([output for _, output, _ in trees], dtype=np.int64),
        baseline=np.stack([np.asarray(model._baseline_prediction, dtype=np.float64).ravel() for model in models]),
    )
