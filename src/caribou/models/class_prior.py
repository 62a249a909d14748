"""The prior: class probabilities of every node from its own public features. It never reads an edge.

Learners (`caribou.models.learners`) are cross-fitted in one loop, and a softmax regression on their scores out of fold combines
them. Every table gets a linear model. Words get a network on their leading directions and, where they are few, are compared row
by row; numbers get a Gaussian kernel. Boosted trees serve both where classes are few. At edge level features, labels and split
are public, so all of it costs nothing. Training and validation nodes are learned from alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.fingerprint import known_rows, row_digests
from caribou.machine.memory import DOUBLE, SINGLE, require_memory
from caribou.models.boosted_trees import BoostedTrees
from caribou.models.cross_fitting import cross_fitted
from caribou.models.encoder import kept_priors
from caribou.models.learners import GaussianKernel, Learner, Linear, NearestRows, Network, Table, leading_directions
from caribou.models.objective import USUAL, Objective
from caribou.models.public_rows import BLOCK, PublicRows, blocks
from caribou.models.softmax_regression import SoftmaxRegression, fit_by_parts, fit_softmax_regression
from caribou.models.threads import one_thread
from caribou.randomness import Streams

LEARNERS: dict[str, type[Learner]] = {
    "linear": Linear,
    "kernel": GaussianKernel,
    "network": Network,
    "trees": BoostedTrees,
    "nearest": NearestRows,
}
FEW, FOLDS_OF_FEW = 1000, 8
"""With fewer labelled rows than this no learner takes long, and a fold should leave out little."""
MOST_ENTRIES = 50_000_000
"""Learners are fitted on so many numbers at most; labelled rows beyond them are scored as unlabelled ones are."""
LANDMARKS, LANDMARKS_TALL = 1000, 500
"""Labelled rows that the kernel is evaluated at; fewer beside a large network. Work grows with their square."""
DIRECTIONS, DIRECTION_ROWS = 64, 2000
"""Leading directions that a network of a wide table sees (of 32, 64 and 128 the best on Photo), and rows that they are of."""
TALL = 20_000
"""Dense wide tables of so many labelled rows get a large network on all columns."""
LEAST_TREE_ROWS, MOST_TREE_CLASSES, MOST_TREE_CLASSES_OF_WORDS = 1000, 4, 12
"""Tables of at least so many labelled rows and at most so many classes get trees: each step grows a tree for every class."""
COMPARED = 5_000
"""Words of at most so many labelled rows are compared row by row as well: each row with each."""
COMBINED = 60_000
"""The combination is fitted on so many labelled rows at most."""
IN_SAMPLE = 5.0
"""Standard errors by which one's own probabilities may be better on training nodes than on validation nodes."""
RIDGE, RIDGE_BY_PARTS = 1e-3, 1e-4
"""Penalty of the combination: of all scores at once, and learner by learner."""
ROWS_PER_WEIGHT = 50
"""With fewer labelled rows for each weight of one regression on all scores, learners are combined one by one: on Cora, Photo and
Computers that has the smaller cross-entropy, on PubMed and Berkeley13 the larger."""


@dataclass(frozen=True, eq=False)
class KnownRows:
    """Labelled rows, and what was said of them by models that were not fitted on them: of equal rows the mean.

    Args:
        digests: [m], of the rows (`row_digests`), ascending, by which they are known again in a later graph.
        probabilities: [m, C], out of fold; the models know their labels now, so these are given again.
    """

    digests: np.ndarray
    probabilities: np.ndarray

    @classmethod
    def of(cls, digests: np.ndarray, probabilities: np.ndarray) -> KnownRows:
        """Each digest once. [m], [m, C]

        >>> KnownRows.of(np.array([7, 3, 7]), np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])).probabilities.tolist()
        [[0.5, 0.5], [0.5, 0.5]]
        """
        seen, place, count = np.unique(digests, return_inverse=True, return_counts=True)
        sums = np.zeros((len(seen), probabilities.shape[1]))
        np.add.at(sums, place, probabilities)
        return cls(seen, (sums / count[:, None]).astype(np.float32))

    def put_into(self, found: np.ndarray, features: Table) -> np.ndarray:
        """Probabilities [n, C] of rows [n, d], those of known rows replaced in place."""
        rows, places = known_rows(self.digests, features)
        found[rows] = self.probabilities[places]
        return found


@dataclass(frozen=True, eq=False)
class ClassPrior:
    """Class probabilities from features, as a function of any graph with the same columns.

    Args:
        rows: how features become rows.
        learners: by name, in the order of their scores; none for a table without columns, where classes have their shares.
        combination: of the scores of all learners.
        known: the labelled rows.
    """

    rows: PublicRows
    learners: Mapping[str, Learner]
    combination: SoftmaxRegression
    known: KnownRows

    def probabilities(self, features: Table) -> np.ndarray:
        """Of the nodes of any graph; those that the prior was fitted on get what it said without them. [n, d] -> [n, C]"""
        return self.known.put_into(self._probabilities(features, np.arange(features.shape[0])), features)

    def _probabilities(self, features: Table, numbers: np.ndarray) -> np.ndarray:
        """Of some rows, whether they are known or not. [m] -> [m, C]"""
        found = np.empty((len(numbers), self.combination.weights.shape[1]))
        for part in blocks(np.arange(len(numbers))):
            x = self.rows(features[numbers[part]])
            scores = [learner.decision_function(x) for learner in self.learners.values()]
            found[part] = self.combination(np.hstack([np.empty((len(part), 0)), *scores]))
        return found

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return {
            **self.rows.to_arrays(),
            "prior.combination.weights": self.combination.weights,
            "prior.combination.centre": self.combination.centre,
            "prior.combination.spread": self.combination.spread,
            "prior.known.digests": self.known.digests,
            "prior.known.probabilities": self.known.probabilities,
            **{
                f"prior.{word}.{name}": array
                for word, learner in self.learners.items()
                for name, array in learner.to_arrays().items()
            },
        }

    @staticmethod
    def is_in(arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether a saved model holds a prior."""
        return "prior.combination.weights" in arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ClassPrior:
        """The inverse of `to_arrays`."""
        parts: dict[str, dict[str, np.ndarray]] = {}
        for name, array in arrays.items():
            if name.startswith("prior."):
                _, word, *rest = name.split(".", 2)
                parts.setdefault(word, {})[".".join(rest)] = array
        return cls(
            PublicRows.from_arrays(arrays),
            {word: kind.from_arrays(parts[word]) for word, kind in LEARNERS.items() if word in parts},
            SoftmaxRegression(**parts["combination"]),
            KnownRows(**parts["known"]),
        )


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
    words, narrow, tall = rows.weights is not None, rows.quantiles is not None, len(y) >= TALL
    if x.shape[1] == 0 or len(y) < 2:
        return {}

    def seed() -> int:
        return int(rng.integers(2**31))

    found: dict[str, Callable[[], Learner]] = {"linear": lambda: Linear(classes)}
    if not words:
        landmarks = x[: LANDMARKS_TALL if tall and not narrow else LANDMARKS]
        found["kernel"] = lambda: GaussianKernel(classes, landmarks)
    if not words and not narrow and tall:
        found["network"] = lambda: Network(classes, seed(), (256, 256), epochs=8)
    elif not narrow:
        directions = leading_directions(x[:DIRECTION_ROWS], DIRECTIONS, seed())
        found["network"] = lambda: Network(classes, seed(), directions=directions)
    most = MOST_TREE_CLASSES_OF_WORDS if words else MOST_TREE_CLASSES
    every = (
        np.bincount(y, minlength=classes).min() >= 3 * BoostedTrees.folds
    )  # a class with so many rows is in every fold
    if (words or narrow) and 2 <= classes <= most and len(y) >= LEAST_TREE_ROWS and every:
        found["trees"] = lambda: BoostedTrees(classes, seed(), wide=words)
    if words and len(y) <= COMPARED:
        found["nearest"] = lambda: NearestRows(classes)
    return found


def class_probabilities(
    graph: Graph, streams: Streams, objective: Objective = USUAL
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Class probabilities of every node, [n, C]: those that came with the graph, or fitted ones; and the weights of the fit.

    ``objective``: how much each class counts.
    """
    if graph.prior is not None:
        require_out_of_fold(graph, graph.prior)
        return graph.prior, {}
    kept, key = kept_priors.get(), (graph, streams.seed, objective.class_weight)
    if kept is None:
        kept = {}
    if key not in kept:
        kept[key] = fit_class_prior(graph, streams, objective)
    prior, probabilities = kept[key]
    return probabilities, prior.to_arrays()


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
        labelled = labelled[: max(MOST_ENTRIES // max(d, 1), LANDMARKS)]
    x, y = rows(graph.features[labelled]), np.array(labels)[labelled]
    weights = objective.class_weights(y, C)
    weight = None if weights is None else weights[y]
    learners, parts = {}, []
    for name, make in learners_for(rows, x, y, C, rng).items():
        kind = LEARNERS[name]
        models, scores = cross_fitted(make, x, y, FOLDS_OF_FEW if len(y) < FEW else kind.folds, weight)
        learners[name] = kind.joined(models, x, y)
        parts.append(scores)
    combination = _combined(parts, y, C, weight)
    out_of_fold = combination(np.hstack([np.empty((len(y), 0)), *parts]))
    known = KnownRows.of(row_digests(graph.features)[labelled], out_of_fold)
    prior = ClassPrior(rows, learners, combination, known)
    others = np.setdiff1d(np.arange(n), labelled)
    probabilities = np.empty((n, C))
    probabilities[labelled], probabilities[others] = out_of_fold, prior._probabilities(graph.features, others)
    return prior, probabilities


def _combined(parts: list[np.ndarray], y: np.ndarray, classes: int, weight: np.ndarray | None) -> SoftmaxRegression:
    """The combination of scores out of fold, [m, C] each: of all at once, or learner by learner if rows are few."""
    used = slice(COMBINED)
    weight = None if weight is None else weight[used]
    scores = np.hstack([np.empty((len(y), 0)), *parts])[used]
    if len(scores) >= ROWS_PER_WEIGHT * scores.shape[1] * classes:
        return fit_softmax_regression(scores, y[used], classes, RIDGE, weights=weight)
    return fit_by_parts([part[used] for part in parts], y[used], classes, RIDGE_BY_PARTS, weights=weight)


def _require_memory(graph: Graph, labelled: int) -> None:
    """Refuse what does not fit: fitted rows and those of two thirds, Gram matrices, blocks of scores, and probabilities."""
    (n, d), C = graph.features.shape, graph.num_classes
    entries = 3 * graph.features.nnz if sp.issparse(graph.features) else 3 * min(labelled * d, MOST_ENTRIES)
    require_memory(
        SINGLE * (entries + BLOCK * (3 * LANDMARKS + 2 * d)) + DOUBLE * (6 * LANDMARKS**2 + 9 * n * C),
        f"the prior of {n:,} nodes with {d:,} columns and {C} classes",
    )
