"""The learners of the prior: scikit-learn's models as plain arrays, and the one loop that cross-fits them.

Rows x are those of `PublicRows`: words [n, d] in CSR form, or numbers in an array, float32. Scores are [n, C]. A saved model
holds the arrays of a learner and no code. Which table gets which learner stands in `caribou.models.class_prior`;
benchmarks/log.md has what each of them is worth. The time of a boosted tree grows with the columns that it may ask, so trees of
wide tables are grown on the few that tell classes apart best.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp

from caribou.models.public_rows import as_dense

Table: TypeAlias = np.ndarray | sp.csr_array


class Learner:
    """``fit(x, y, sample_weight)`` and ``decision_function(x)``, as in scikit-learn. What is fitted stands in named arrays, whose
    first axis counts models: several fits side by side are one learner, which gives their mean.

    Args:
        classes: C.
        seed: of whatever is drawn.
        arrays: what was fitted before.
    """

    folds: ClassVar[int] = 3
    """How many models are cross-fitted: more of those that take no time, so that each is fitted on more rows."""
    keeps_rows: ClassVar[bool] = False
    """Whether its arrays are rows that it was fitted on: such a learner is no part of a saved prior."""

    def __init__(self, classes: int, seed: int = 0, arrays: Mapping[str, np.ndarray] | None = None) -> None:
        self.classes, self.seed = classes, seed
        self.arrays = {} if arrays is None else {name: np.array(array) for name, array in arrays.items()}

    def fit(self, x: Any, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Learn classes y, [m], of rows x, [m, d]."""
        raise NotImplementedError

    def decision_function(self, x: Any) -> np.ndarray:
        """Scores of the classes. [n, d] -> [n, C]"""
        raise NotImplementedError

    @classmethod
    def joined(cls, models: Sequence[Self], x: Any, y: np.ndarray) -> Self:
        """One learner in place of those of the folds, for rows other than x, [m, d], on which they were fitted."""
        each = [model.arrays for model in models]
        return cls(models[0].classes, arrays={name: np.concatenate([own[name] for own in each]) for name in each[0]})


Model = TypeVar("Model")


def cross_fitted(
    make: Callable[[], Model],
    x: Any,
    y: np.ndarray,
    folds: int,
    sample_weight: np.ndarray | None = None,
    scores: Callable[[Model, Any], np.ndarray] = lambda model, x: model.decision_function(x),  # type: ignore[attr-defined]
) -> tuple[list[Model], np.ndarray]:
    """The models of the folds, and the scores of the rows by models that were not fitted on them, [m, C].

    Rows are dealt out class after class: every fold has its share of every class.

    Args:
        make: a new model with ``fit(x, y, sample_weight)``.
        x: [m, d], the labelled rows, in random order.
        y: [m], their classes.
        folds: how many models are fitted, at least 2; no more than rows.
        sample_weight: [m], of the rows in the loss; None: all are 1.
        scores: of a model, for some rows.

    >>> from sklearn.dummy import DummyRegressor
    >>> models, found = cross_fitted(
    ...     DummyRegressor, np.zeros((4, 1)), np.array([1.0, 2.0, 3.0, 4.0]), 2, scores=lambda m, x: m.predict(x)[:, None]
    ... )
    >>> found.ravel().tolist()
    [3.0, 2.0, 3.0, 2.0]
    """
    fold = np.empty(len(y), dtype=np.int64)
    fold[np.argsort(y, kind="stable")] = np.arange(len(y)) % min(folds, len(y))
    models: list[Model] = []
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for k in range(fold.max() + 1):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        weight = () if sample_weight is None else (sample_weight[inside],)
        model = make()
        model.fit(x[inside], y[inside], *weight)  # type: ignore[attr-defined]
        models.append(model)
        parts.append((outside, scores(model, x[outside])))
    found = np.empty((len(y), parts[0][1].shape[1]))
    for outside, part in parts:
        found[outside] = part
    return models, found


class Network(Learner):
    """scikit-learn's network with ReLU, on the leading directions of the rows.

    Args:
        classes, seed, arrays: as of every learner.
        directions: V, [d, k], orthonormal; None: the columns as they are.
        hidden: widths of the hidden layers.
        epochs: passes over the rows.
    """

    scale = 8.0
    """Rows have length 1 or so; networks learn faster from longer ones."""
    batches = (32, 320)
    """A sixteenth of the rows, but at least and at most so many."""

    def __init__(
        self,
        classes: int,
        seed: int = 0,
        arrays: Mapping[str, np.ndarray] | None = None,
        *,
        directions: np.ndarray | None = None,
        hidden: tuple[int, ...] = (128,),
        epochs: int = 15,
    ) -> None:
        super().__init__(classes, seed, arrays)
        self.directions, self.hidden, self.epochs = directions, hidden, epochs

    def fit(self, x: Table, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Adam; all steps are taken."""
        from sklearn.neural_network import MLPClassifier

        model = MLPClassifier(
            self.hidden,
            batch_size=min(int(np.clip(len(y) // 16, *self.batches)), len(y)),
            max_iter=self.epochs,
            learning_rate_init=0.01,
            alpha=0.01,
            random_state=self.seed,
        )
        inputs = x if self.directions is None else x @ self.directions
        self._fit(model, np.float32(self.scale) * inputs, y, sample_weight)
        first = np.float32(self.scale) * self.arrays["weight_0"][0]
        self.arrays["weight_0"] = (first if self.directions is None else self.directions @ first)[None]
        return self

    def decision_function(self, x: Table) -> np.ndarray:
        """The mean of the models' scores, with mean 0 in every row. [n, d] -> [n, C]"""
        layers = sum(name.startswith("weight_") for name in self.arrays)
        total = np.zeros((x.shape[0], self.classes))
        for k in range(len(self.arrays["weight_0"])):
            h = x
            for i in range(layers):
                h = (np.maximum(h, 0) if i else h) @ self.arrays[f"weight_{i}"][k] + self.arrays[f"bias_{i}"][k]
            total += h - h.mean(axis=1, keepdims=True)
        return total / len(self.arrays["weight_0"])

    def _fit(self, model: Any, x: Table, y: np.ndarray, sample_weight: np.ndarray | None) -> None:
        """Fit a linear model or a network of scikit-learn, and keep its layers."""
        from sklearn.exceptions import ConvergenceWarning

        present = np.unique(y)
        if len(present) == 1:  # that class is all there is to say
            widths = (x.shape[1], *getattr(model, "hidden_layer_sizes", ()), 1)  # as of models that know two classes
            layers = [(np.zeros(pair), np.zeros(pair[1])) for pair in itertools.pairwise(widths)]
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # all steps are taken, and they are enough
                model.fit(x, y, sample_weight)
            coefficients = model.coefs_ if hasattr(model, "coefs_") else [model.coef_.T]
            intercepts = model.intercepts_ if hasattr(model, "intercepts_") else [model.intercept_]
            layers = list(zip(coefficients, intercepts, strict=True))
        layers[-1] = self._of_all_classes(*layers[-1], present, len(y))
        for i, (weight, bias) in enumerate(layers):
            self.arrays[f"weight_{i}"], self.arrays[f"bias_{i}"] = weight[None].astype(np.float32), bias[None]

    def _of_all_classes(
        self, weight: np.ndarray, bias: np.ndarray, present: np.ndarray, rows: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The last layer for C classes: scikit-learn has one output for two, and none for those without a row, which score
        below all others here."""
        if len(present) == 2:
            weight, bias = np.hstack([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
        weights, biases = np.zeros((len(weight), self.classes)), np.full(self.classes, bias.min() - math.log(1 + rows))
        weights[:, present], biases[present] = weight, bias
        return weights, biases


class Linear(Network):
    """scikit-learn's logistic regression. Words need little shrinkage, columns of numbers more."""

    def fit(self, x: Table, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Learn from columns of variance 1 (`PublicRows` divides numbers by sqrt(d)), and from words as they are."""
        from sklearn.linear_model import LogisticRegression

        scale = np.float32(1 if sp.issparse(x) else math.sqrt(max(x.shape[1], 1)))
        model = LogisticRegression(C=10.0, max_iter=60) if sp.issparse(x) else LogisticRegression(C=0.1, max_iter=20)
        self._fit(model, x * scale, y, sample_weight)
        self.arrays["weight_0"] *= scale
        return self


class NearestRows(Learner):
    """log((sum_j w_j Y_j + a pi) / (sum_j w_j + a)) over the nearest fitted rows j, with w_j = exp(sharpness cos_j) - 1.

    Regressions weigh words; this compares whole rows. A row without words has weights of 0, so it gets the class shares pi.
    """

    folds: ClassVar[int] = 8
    keeps_rows: ClassVar[bool] = True
    nearest, sharpness = 20, 12.0
    shares_weight = 10.0
    """a: how much the class shares weigh beside the nearest rows."""
    part = 1024
    """Rows that are compared together: a cosine with each fitted row, and its place, are in memory for each."""

    def fit(self, x: sp.csr_array, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Keep rows of length 1 and their classes."""
        rows = sp.csr_array(x)
        self.arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "labels": y}
        return self

    def decision_function(self, x: sp.csr_array) -> np.ndarray:
        """For rows of length 1 that are not among the fitted ones. [n, d] -> [n, C]"""
        own = self.arrays
        rows = sp.csr_array((own["data"], own["indices"], own["indptr"]), shape=(len(own["labels"]), x.shape[1]))
        indicators = np.eye(self.classes)[own["labels"]]
        shares, nearest = indicators.mean(axis=0), min(self.nearest, len(indicators))
        found = np.empty((x.shape[0], self.classes))
        for first in range(0, x.shape[0], self.part):
            part = slice(first, first + self.part)
            cosines = as_dense(x[part] @ rows.T)
            chosen = np.argpartition(-cosines, nearest - 1, axis=1)[:, :nearest]
            weights = np.expm1(self.sharpness * np.clip(np.take_along_axis(cosines, chosen, axis=1), 0, 1))
            sums = np.einsum("ij,ijc->ic", weights, indicators[chosen]) + self.shares_weight * shares
            found[part] = np.log(np.maximum(sums, 1e-9) / (weights.sum(axis=1, keepdims=True) + self.shares_weight))
        return found

    @classmethod
    def joined(cls, models: Sequence[Self], x: sp.csr_array, y: np.ndarray) -> Self:
        """All rows."""
        return cls(models[0].classes).fit(x, y)


def leading_directions(x: Table, count: int, seed: int) -> np.ndarray:
    """Leading right singular vectors of rows of any rank. [n, d] -> [d, k], k <= count, float32.

    >>> leading_directions(np.array([[3.0, 0.0], [0.0, 1.0], [3.0, 0.0]], dtype=np.float32), 1, seed=0).round(2).tolist()
    [[1.0], [0.0]]
    """
    from sklearn.utils.extmath import randomized_svd

    return np.ascontiguousarray(randomized_svd(x, min(count, *x.shape), random_state=seed)[2].T, dtype=np.float32)


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
