"""The prior: class probabilities of every node from its own public features. It never reads an edge.

Learners (`caribou.models.learners`) are cross-fitted in one loop, and one weight for each, fitted on their scores out of fold,
combines them. Every table gets a linear model and a network on its leading directions, and boosted trees where classes are few. A
moderate number of rows of words is compared row by row as well. At edge level features, labels and split are public, so all of it
costs nothing. Training and validation nodes are learned from alike.

A saved prior holds no row of anybody: a learner that keeps rows serves the graph of the fit alone. Labelled rows are known again
by digests under a key of their owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.fingerprint import key_mark, known_rows, row_digests
from caribou.machine.memory import DOUBLE, SINGLE, require_memory
from caribou.machine.owner import owner_key
from caribou.models.encoder import fitted_once
from caribou.models.fit_context import one_thread
from caribou.models.heads import fit_weights
from caribou.models.learners import (
    BoostedTrees,
    Learner,
    Linear,
    NearestRows,
    Network,
    Table,
    cross_fitted,
    leading_directions,
)
from caribou.models.objective import USUAL, Objective
from caribou.models.public_rows import BLOCK, PublicRows, blocks
from caribou.randomness import Streams

LEARNERS: dict[str, type[Learner]] = {
    "linear": Linear,
    "network": Network,
    "trees": BoostedTrees,
    "nearest": NearestRows,
}
FEW, FOLDS_OF_FEW = 1000, 8
"""With fewer labelled rows than this no learner takes long, and a fold should leave out little."""
MOST_ENTRIES = 50_000_000
"""Learners are fitted on so many numbers at most; labelled rows beyond them are scored as unlabelled ones are."""
LEAST_ROWS = 1000
"""Labelled rows that are learned from however many columns there are."""
DIRECTIONS = 64
"""Leading directions that a network sees: of 32, 64 and 128 the best on Photo."""
TALL = 20_000
"""Dense wide tables of so many labelled rows get a large network on all columns."""
TREE_ROWS, MOST_TREE_CLASSES = 60, 12
"""Tables of at least so many labelled rows and at most so many classes get trees: each step grows a tree for every class."""
COMPARED = 5_000
"""Words of FEW to so many labelled rows are compared row by row as well: each row with each."""
COMBINED = 60_000
"""The combination is fitted on so many labelled rows at most."""
IN_SAMPLE = 5.0
"""Standard errors by which one's own probabilities may be better on training nodes than on validation nodes."""


@dataclass(frozen=True, eq=False)
class KnownRows:
    """Labelled rows, and what was said of them by models that were not fitted on them: of equal rows the mean.

    Args:
        digests: [m], of the rows (`row_digests`), ascending, by which they are known again in a later graph.
        probabilities: [m, C], out of fold; the models know their labels now, so these are given again.
        key: the mark of the owner's key, [1], or [0] where no row is kept.
    """

    digests: np.ndarray
    probabilities: np.ndarray
    key: np.ndarray

    @classmethod
    def of(cls, features: Table, rows: np.ndarray, probabilities: np.ndarray) -> KnownRows:
        """Some rows of the features, each once, under the key of whoever runs this. [n, d], [m], [m, C]

        >>> equal = np.array([[7.0], [3.0], [7.0]])
        >>> known = KnownRows.of(equal, np.arange(3), np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]))
        >>> known.probabilities.tolist()
        [[0.5, 0.5], [0.5, 0.5]]
        """
        key = owner_key()
        seen, place, count = np.unique(row_digests(features, key, rows), return_inverse=True, return_counts=True)
        sums = np.zeros((len(seen), probabilities.shape[1]))
        np.add.at(sums, place, probabilities)
        return cls(seen, (sums / count[:, None]).astype(np.float32), key_mark(key))

    @classmethod
    def none(cls, classes: int) -> KnownRows:
        """No row at all."""
        return cls(np.empty(0, np.int64), np.empty((0, classes), np.float32), np.empty(0, np.int64))

    @property
    def can_be_compared(self) -> bool:
        """Whether rows were kept, under the key of whoever runs this."""
        return len(self.key) == 1 and bool(self.key == key_mark(owner_key()))

    def put_into(self, found: np.ndarray, features: Table) -> np.ndarray:
        """Probabilities [n, C] of rows [n, d], those of known rows replaced in place."""
        if self.can_be_compared:
            rows, places = known_rows(self.digests, row_digests(features, owner_key()))
            found[rows] = self.probabilities[places]
        return found

    def share_in(self, features: Table, rows: np.ndarray) -> float:
        """The share of some rows that are known. [n, d], [m]"""
        return float(np.isin(row_digests(features, owner_key(), rows), self.digests).mean())


@dataclass(frozen=True, eq=False)
class ClassPrior:
    """Class probabilities from features, as a function of any graph with the same columns.

    Args:
        rows: how features become rows.
        learners: by name, in the order of their scores; none for a table without columns, where classes have their shares.
        combination: (a, bias): of each learner's scores, and of each class; [learners + C].
        known: the labelled rows.
    """

    rows: PublicRows
    learners: Mapping[str, Learner]
    combination: np.ndarray
    known: KnownRows

    def probabilities(self, features: Table) -> np.ndarray:
        """Of the nodes of any graph; those that the prior was fitted on get what it said without them. [n, d] -> [n, C]"""
        return self.known.put_into(self._probabilities(features, np.arange(features.shape[0])), features)

    def _probabilities(self, features: Table, numbers: np.ndarray) -> np.ndarray:
        """Of some rows, whether they are known or not. [m] -> [m, C]"""
        found = np.empty((len(numbers), len(self.combination) - len(self.learners)))
        for part in blocks(np.arange(len(numbers))):
            x = self.rows(features[numbers[part]])
            scores = [learner.decision_function(x) for learner in self.learners.values()]
            found[part] = _combined(self.combination, scores, len(part))
        return found

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return {
            **self.rows.to_arrays(),
            "prior.combination": self.combination,
            **{f"prior.known.{name}": array for name, array in vars(self.known).items()},
            **{
                f"prior.{word}.{name}": array
                for word, learner in self.learners.items()
                for name, array in learner.arrays.items()
            },
        }

    @staticmethod
    def is_in(arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether a saved model holds a prior."""
        return "prior.combination" in arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ClassPrior:
        """The inverse of `to_arrays`."""
        parts: dict[str, dict[str, np.ndarray]] = {}
        for name, array in arrays.items():
            if name.startswith("prior.") and name.count(".") > 1:
                _, word, rest = name.split(".", 2)
                parts.setdefault(word, {})[rest] = array
        combination, known = arrays["prior.combination"], KnownRows(**parts.pop("known"))
        classes = known.probabilities.shape[1]
        learners = {word: kind(classes, arrays=parts[word]) for word, kind in LEARNERS.items() if word in parts}
        return cls(PublicRows.from_arrays(arrays), learners, combination, known)


def _combined(combination: np.ndarray, scores: Sequence[np.ndarray], rows: int) -> np.ndarray:
    """softmax(sum_l a_l z_l + bias) of the learners' scores z_l, [m, C] each. -> [m, C]"""
    a, bias = combination[: len(scores)], combination[len(scores) :]
    total = np.tile(bias, (rows, 1))
    for weight, score in zip(a, scores, strict=True):
        total += weight * score
    return np.asarray(softmax(total, axis=1))


def learners_for(
    rows: PublicRows, x: Table, y: np.ndarray, classes: int, rng: np.random.Generator
) -> dict[str, Callable[[], Learner]]:
    """New learners by name, in the order of `LEARNERS`: those that suit a table.

    Args:
        rows: how features became rows: of words, of few columns of numbers, or of many.
        x: [m, d], the labelled rows.
        y: [m], their classes.
        classes: C.
        rng: of the public seed.
    """
    words, narrow = rows.weights is not None, rows.quantiles is not None
    if x.shape[1] == 0 or len(y) < 2:
        return {}

    def seed() -> int:
        return int(rng.integers(2**31))

    found: dict[str, Callable[[], Learner]] = {"linear": lambda: Linear(classes)}
    if len(y) >= TALL and not words and not narrow:
        found["network"] = lambda: Network(classes, seed(), hidden=(256, 256), epochs=8)
    else:
        directions = leading_directions(x, DIRECTIONS, seed())
        found["network"] = lambda: Network(classes, seed(), directions=directions)
    rarest = np.bincount(y, minlength=classes).min()
    if 2 <= classes <= MOST_TREE_CLASSES and len(y) >= TREE_ROWS and rarest >= 3 * BoostedTrees.folds:
        found["trees"] = lambda: BoostedTrees(classes, seed())  # a class with so many rows is in every fold
    if words and FEW <= len(y) <= COMPARED:
        found["nearest"] = lambda: NearestRows(classes)
    return found


def class_probabilities(
    graph: Graph, streams: Streams, objective: Objective = USUAL, weights: Mapping[str, np.ndarray] | None = None
) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
    """Class probabilities of every node, [n, C]: those that came with the graph, or fitted ones; and the weights of the fit.

    ``objective``: how much each class counts. ``weights``: of a fit that is to be applied to another graph.
    """
    if weights is not None:
        return probabilities_by(weights, graph), weights
    if graph.prior is not None:
        require_out_of_fold(graph, graph.prior)
        return graph.prior, {}
    prior, probabilities = fitted_once(fit_class_prior, graph, streams, replace(objective, metric=None))
    return probabilities, prior.to_arrays()


def without_rows(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weights of a saved model without digests of its labelled rows, and what was said of them."""
    if not ClassPrior.is_in(weights):
        return dict(weights)
    none = KnownRows.none(weights["prior.known.probabilities"].shape[1])
    return {**weights, **{f"prior.known.{name}": array for name, array in vars(none).items()}}


def require_out_of_fold(graph: Graph, prior: np.ndarray) -> None:
    """Refuse probabilities that are right on training nodes far more often than on validation nodes: they know the labels."""
    split, labels = graph.for_learning(public=True)
    right = prior.argmax(axis=1) == labels
    train, val = right[split.train], right[split.val]
    if len(train) == 0 or len(val) == 0:
        return
    share = (train.sum() + val.sum() + 1) / (len(train) + len(val) + 2)
    gap = (train.mean() - val.mean()) / np.sqrt(share * (1 - share) * (1 / len(train) + 1 / len(val)))
    if gap > IN_SAMPLE:
        raise InputError(
            f"prior must not know the labels of training nodes, got {train.mean():.0%} right there and {val.mean():.0%} on "
            "validation nodes: predict every training node by a model that was not fitted on it (out of fold)"
        )


def require_prior(weights: Mapping[str, np.ndarray], graph: Graph) -> None:
    """Refuse another graph without class probabilities where the model holds no prior and no encoder of its own."""
    if graph.prior is None and not (ClassPrior.is_in(weights) or "encoder.row_length" in weights):
        raise InputError(
            "graph must come with class probabilities, as the training graph did, got none: an array, or an encoder of one's "
            "own, is not part of a saved model; give them by with_prior(...) (--prior FILE)"
        )


def probabilities_by(weights: Mapping[str, np.ndarray], graph: Graph) -> np.ndarray:
    """Class probabilities of every node of another graph: those that came with it, or by fitted weights. [n, C]"""
    require_prior(weights, graph)
    if graph.prior is not None:
        return graph.prior
    return ClassPrior.from_arrays(weights).probabilities(graph.features)


@one_thread()
def fit_class_prior(graph: Graph, streams: Streams, objective: Objective = USUAL) -> tuple[ClassPrior, np.ndarray]:
    """The prior, and the class probabilities of every node; those of labelled nodes out of fold. [n, C]

    Args:
        graph: features, labels and split are read; edges are not.
        streams: the public seed.
        objective: how much each class counts.
    """
    split, labels = graph.for_learning(public=True)
    rng = streams.generator("class prior")
    (n, d), C = graph.features.shape, graph.num_classes
    labelled = rng.permutation(np.concatenate([split.train, split.val]))
    _require_memory(graph, len(labelled))
    rows = PublicRows.of(graph.features)
    if rows.weights is None:
        labelled = labelled[: max(MOST_ENTRIES // max(d, 1), LEAST_ROWS)]
    x, y = rows(graph.features[labelled]), np.array(labels)[labelled]
    weights = objective.class_weights(y, C)
    weight = None if weights is None else weights[y]
    learners, scores = {}, {}
    for name, make in learners_for(rows, x, y, C, rng).items():
        kind = LEARNERS[name]
        models, scores[name] = cross_fitted(make, x, y, FOLDS_OF_FEW if len(y) < FEW else kind.folds, weight)
        learners[name] = kind.joined(models, x, y)

    def combination(names: Sequence[str]) -> np.ndarray:
        return _fit_combination([scores[name][:COMBINED] for name in names], y[:COMBINED], C, objective)

    names = [name for name in learners if not LEARNERS[name].keeps_rows]
    whole = combination(list(learners))
    out_of_fold = _combined(whole, list(scores.values()), len(y))
    known = KnownRows.of(graph.features, labelled, out_of_fold)
    others = np.setdiff1d(np.arange(n), labelled)
    probabilities = np.empty((n, C))
    probabilities[labelled] = out_of_fold
    probabilities[others] = ClassPrior(rows, learners, whole, known)._probabilities(graph.features, others)
    kept = whole if len(names) == len(learners) else combination(names)
    return ClassPrior(rows, {name: learners[name] for name in names}, kept, known), probabilities


def _fit_combination(parts: list[np.ndarray], y: np.ndarray, classes: int, objective: Objective) -> np.ndarray:
    """One weight for each learner and a bias for each class; without a learner classes have their shares. -> [L + C]"""
    if not parts:
        return np.log(np.maximum(np.bincount(y, minlength=classes), 1e-3) / len(y))
    return fit_weights(parts, y, objective, start=np.full(len(parts), 1 / len(parts)).tolist())


def _require_memory(graph: Graph, labelled: int) -> None:
    """Refuse what does not fit: fitted rows, those of two thirds, blocks of scores, and probabilities."""
    (n, d), C = graph.features.shape, graph.num_classes
    entries = 3 * graph.features.nnz if sp.issparse(graph.features) else 3 * min(labelled * d, MOST_ENTRIES)
    require_memory(
        SINGLE * (entries + BLOCK * (512 + 2 * d)) + DOUBLE * 9 * n * C,
        f"the prior of {n:,} nodes with {d:,} columns and {C} classes",
    )
