"""The prior: class probabilities of every node from its own public features. It never reads an edge.

Two learners serve every table, both ridge regression with predictions out of fold (`caribou.models.ridge`): on the rows
themselves, and on their Gaussian kernel with some training rows. Wide tables get small networks on their principal components
(`caribou.models.component_learner`), tall dense ones a large network instead (`caribou.models.mlp_learner`), all others boosted
trees (`caribou.models.boosted_trees`) where classes are few. Words with few labels are compared row by row
(`caribou.models.nearest_rows`). All are cross-fitted, and a softmax regression on the scores out of fold combines them. At edge
level features, labels and split are public, so all of it costs nothing. Training and validation nodes are learned from alike:
what a learner holds back to stop, it draws from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.fingerprint import known_rows, row_digests
from caribou.mechanisms.bounded_rows import row_norms
from caribou.memory import DOUBLE, SINGLE, require_memory
from caribou.models.boosted_trees import BoostedTrees, Growth, fit_boosted_trees
from caribou.models.component_learner import COMPONENTS, ComponentLearner, components, fit_component_learner
from caribou.models.encoder import kept_priors
from caribou.models.mlp_learner import MlpLearner, fit_mlp_learner
from caribou.models.nearest_rows import NearestRows, fit_nearest_rows
from caribou.models.objective import USUAL, Objective
from caribou.models.public_rows import PublicRows, as_dense, csr_from_arrays, csr_to_arrays
from caribou.models.ridge import BLOCK, FOLDS, blocks, fit_ridge
from caribou.models.softmax_regression import SoftmaxRegression, fit_by_parts, fit_softmax_regression
from caribou.models.threads import one_thread
from caribou.randomness import Streams

LANDMARKS, LANDMARKS_TALL = 1000, 500
"""Labelled rows that the kernel is evaluated at; fewer beside an MLP. Work grows with their square."""
KERNEL_WIDTH = 0.5
"""gamma of exp(-gamma |x - z|^2): of 0.5, 1 and 2 the best on Cora and Photo."""
WIDEST = 2000
"""More columns than this are added up at random, with random signs, into so many."""
COMBINED, COMBINED_TALL = 20_000, 60_000
"""The combination is fitted on so many labelled rows at most; that of tall tables on more."""
TALL = 20_000
"""Dense tables of so many labelled rows get an MLP as well."""
LEAST_TREE_ROWS, MOST_TREE_CLASSES, MOST_TREE_CLASSES_WIDE = 1000, 4, 12
"""Tables of at least so many labelled rows and at most so many classes get boosted trees as well; wide ones of more classes."""
COMPARED = 5_000
"""Words of at most so many labelled rows are compared row by row as well: each row with each."""
IN_SAMPLE = 5.0
"""Standard errors by which one's own probabilities may be better on training nodes than on validation nodes."""
JUDGED = 2_000
"""So many labelled nodes of another graph tell whether the prior has learned from them."""
RIDGE, RIDGE_BY_PARTS = 1e-3, 1e-4
"""Penalty of the combination: of all scores at once, and learner by learner."""
ROWS_PER_WEIGHT = 50
"""With fewer labelled rows for each weight of one regression on all scores, learners are combined one by one: on Cora, Photo and
Computers that has the smaller cross-entropy, on PubMed and Berkeley13 the larger."""


@dataclass(frozen=True, eq=False)
class ClassPrior:
    """Class probabilities from features, as a function of any graph with the same columns.

    Args:
        rows: how features become rows.
        linear: [d, C], weights of the rows (of their folded columns, if there are too many).
        landmarks: [m, d], rows that the kernel is evaluated at.
        kernel: [m, C], weights of the kernel.
        combination: of the scores of all learners.
        seen: [m], digests of the labelled rows (`row_digests`), ascending, by which they are known again in a later graph.
        out_of_fold: [m, C], their probabilities by fits without them, which are given again: the learners know their labels now.
        right: the share of the labelled rows whose class those name.
        folding: [d], which sum a column is added to, counted from 1 and with its sign; or None (`folded`).
        mlp: networks of tall dense tables, or None.
        trees: boosted trees of tables with few classes, or None.
        net: networks on principal components of wide tables, or None.
        nearest: the labelled rows of words that are few, or None.
    """

    rows: PublicRows
    linear: np.ndarray
    landmarks: np.ndarray | sp.csr_array
    kernel: np.ndarray
    combination: SoftmaxRegression
    seen: np.ndarray
    out_of_fold: np.ndarray
    right: float
    folding: np.ndarray | None = None
    mlp: MlpLearner | None = None
    trees: BoostedTrees | None = None
    net: ComponentLearner | None = None
    nearest: NearestRows | None = None

    def probabilities(self, features: np.ndarray | sp.csr_array) -> np.ndarray:
        """Of the nodes of any graph; those that the prior was fitted on get what it said without them. [n, d] -> [n, C]"""
        parts = [self._probabilities(self.rows(features[part])) for part in blocks(np.arange(features.shape[0]))]
        found = np.concatenate(parts)
        rows, places = known_rows(self.seen, features)
        found[rows] = self.out_of_fold[places]
        return found

    def learned_from(self, graph: Graph) -> float | None:
        """The share of labelled nodes that it is right about, if that is suspiciously large; None otherwise.

        It knows a row again only if no feature has changed. People whose features have changed since look new, and the learners
        still know their labels.
        """
        if graph.split is None or graph.labels is None:
            return None
        labels = np.array(graph.labels)
        rows = np.concatenate([graph.split.train, graph.split.val])
        rows = rows[labels[rows] >= 0][:JUDGED]
        rows = np.delete(rows, known_rows(self.seen, graph.features[rows])[0])
        if len(rows) == 0:
            return None
        found = self.probabilities(graph.features[rows]).argmax(axis=1) == labels[rows]
        spread = np.sqrt(max(self.right * (1 - self.right), 1e-4) / len(rows))
        return float(found.mean()) if found.mean() > self.right + IN_SAMPLE * spread else None

    def _probabilities(self, x: np.ndarray | sp.csr_array) -> np.ndarray:
        columns = folded(x, self.folding)
        linear = columns @ torch.from_numpy(self.linear).float()
        kernel = gaussian_kernel(x, self.landmarks) @ torch.from_numpy(self.kernel).float()
        scores = [linear.double().numpy(), kernel.double().numpy()]
        if self.mlp is not None:
            scores.append(self.mlp.scores(unit_columns(x)))
        if self.trees is not None:
            scores.append(self.trees.scores(x))
        if self.net is not None:
            scores.append(self.net.scores(columns))
        if self.nearest is not None:
            scores.append(self.nearest.scores(sp.csr_array(x)))
        return self.combination(np.hstack(scores))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        learners = {"mlp": self.mlp, "trees": self.trees, "net": self.net, "nearest": self.nearest}
        return {
            **self.rows.to_arrays(),
            "prior.linear": self.linear,
            "prior.kernel": self.kernel,
            **csr_to_arrays("prior.landmarks", self.landmarks),
            "prior.combination.weights": self.combination.weights,
            "prior.combination.centre": self.combination.centre,
            "prior.combination.spread": self.combination.spread,
            "prior.seen": self.seen,
            "prior.out_of_fold": self.out_of_fold,
            "prior.right": np.array(self.right),
            **({} if self.folding is None else {"prior.folding": self.folding}),
            **{
                f"prior.{word}.{name}": array
                for word, learner in learners.items()
                if learner is not None
                for name, array in learner.to_arrays().items()
            },
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ClassPrior:
        """The inverse of `to_arrays`."""
        own = {name.removeprefix("prior."): array for name, array in arrays.items() if name.startswith("prior.")}
        landmarks = csr_from_arrays("landmarks", own)
        rows = PublicRows.from_arrays(arrays)
        return cls(
            rows,
            own["linear"],
            landmarks if rows.weights is not None else as_dense(landmarks),
            own["kernel"],
            SoftmaxRegression(own["combination.weights"], own["combination.centre"], own["combination.spread"]),
            own["seen"],
            own["out_of_fold"],
            float(own["right"]),
            own.get("folding"),
            MlpLearner.from_arrays(_part(own, "mlp.")) if "mlp.weight_0" in own else None,
            BoostedTrees.from_arrays(_part(own, "trees.")) if "trees.value" in own else None,
            ComponentLearner.from_arrays(_part(own, "net.")) if "net.directions" in own else None,
            NearestRows.from_arrays(_part(own, "nearest.")) if "nearest.labels" in own else None,
        )


def _part(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


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
    """Refuse another graph without class probabilities where the model holds no prior of its own."""
    if graph.prior is None and "prior.linear" not in weights:
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
    labels, C = np.array(labels), graph.num_classes
    labelled = rng.permutation(np.concatenate([split.train, split.val]))
    n, d = graph.features.shape
    width = max(min(d, WIDEST), LANDMARKS)
    require_memory(
        (FOLDS + 3) * DOUBLE * width**2
        + SINGLE * BLOCK * (3 * width + (0 if sp.issparse(graph.features) else 2 * d))
        + 9 * DOUBLE * n * C
        + SINGLE * n * COMPONENTS,
        f"the prior of {n:,} nodes with {d:,} columns and {C} classes",
    )
    rows = PublicRows.of(graph.features)
    x = rows(graph.features) if sp.issparse(graph.features) or n * d <= BLOCK * WIDEST else None

    def some(numbers: np.ndarray) -> Any:
        return rows(graph.features[numbers]) if x is None else x[numbers]

    tall = rows.centre is not None and len(labelled) >= TALL
    landmarks = some(np.sort(labelled[: LANDMARKS_TALL if tall else LANDMARKS]))
    root = _inverse_root(gaussian_kernel(landmarks, landmarks))
    folding = random_folding(d, rng)
    linear = fit_ridge(lambda numbers: folded(some(numbers), folding), n, labelled, labels, C)
    kernel = fit_ridge(lambda numbers: gaussian_kernel(some(numbers), landmarks) @ root, n, labelled, labels, C)
    parts = [linear.scores, kernel.scores]
    by_class = objective.class_weights(labels[labelled], C)
    mlp = trees = net = nearest = None
    if tall:
        mlp, found = fit_mlp_learner(lambda numbers: unit_columns(some(numbers)), n, labelled, labels, C, rng, by_class)
        parts.append(found)
    growth = None if tall or d == 0 else _growth(rows, labels[labelled], C)
    if growth is not None:
        trees, found = fit_boosted_trees(some, n, labelled, labels, C, rng, by_class, growth=growth)
        parts.append(found)
    if rows.quantiles is None and not tall and d > 0:
        directions = np.ascontiguousarray(linear.directions[:, :COMPONENTS])
        z = torch.cat([components(folded(some(part), folding), directions) for part in blocks(np.arange(n))])
        net, found = fit_component_learner(z, directions, labelled, labels, C, rng, by_class)
        parts.append(found)
    if rows.weights is not None and d > 0 and len(labelled) <= COMPARED:
        nearest, found = fit_nearest_rows(some, n, labelled, labels, C)
        parts.append(found)
    scores = np.hstack(parts)
    used = labelled[: COMBINED if mlp is None else COMBINED_TALL]
    weights = None if by_class is None else by_class[labels[used]]
    if len(used) >= ROWS_PER_WEIGHT * scores.shape[1] * C:
        combination = fit_softmax_regression(scores[used], labels[used], C, RIDGE, weights=weights)
    else:
        combination = fit_by_parts([part[used] for part in parts], labels[used], C, RIDGE_BY_PARTS, weights=weights)
    probabilities = combination(scores)
    prior = ClassPrior(
        rows,
        linear.weights,
        landmarks,
        root.double().numpy() @ kernel.weights,
        combination,
        *_known(row_digests(graph.features)[labelled], probabilities[labelled]),
        float((probabilities[labelled].argmax(axis=1) == labels[labelled]).mean()),
        folding,
        mlp,
        trees,
        net,
        nearest,
    )
    return prior, probabilities


def _known(digests: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each digest once, ascending, and what was said of its rows, in the mean. [m], [m, C] -> [k], [k, C]"""
    seen, place, count = np.unique(digests, return_inverse=True, return_counts=True)
    sums = np.zeros((len(seen), probabilities.shape[1]))
    np.add.at(sums, place, probabilities)
    return seen, (sums / count[:, None]).astype(np.float32)


def _growth(rows: PublicRows, labels: np.ndarray, classes: int) -> Growth | None:
    """How trees suit the table: with rows enough, few classes (each step grows a tree for every class), all in every fold."""
    growth = Growth.of_wide(classes) if rows.quantiles is None else Growth()
    most = MOST_TREE_CLASSES_WIDE if rows.quantiles is None else MOST_TREE_CLASSES
    counts = np.bincount(labels, minlength=classes)
    suits = 2 <= classes <= most and len(labels) >= LEAST_TREE_ROWS and counts.min() >= 3 * growth.folds
    return growth if suits else None


def unit_columns(x: np.ndarray) -> Tensor:
    """Dense rows with columns of variance 1, as networks like them: `PublicRows` divides by sqrt(d). [n, d] -> [n, d]"""
    return torch.from_numpy(np.ascontiguousarray(x * np.float32(np.sqrt(max(x.shape[1], 1)))))


def gaussian_kernel(x: np.ndarray | sp.csr_array, z: np.ndarray | sp.csr_array) -> Tensor:
    """exp(-gamma |x_i - z_j|^2). [n, d], [m, d] -> [n, m], float32.

    >>> gaussian_kernel(np.array([[0.0], [2.0]]), np.array([[0.0]])).tolist()
    [[1.0], [0.1353352814912796]]
    """
    if sp.issparse(x):
        products = torch.from_numpy(as_dense(x @ z.T))
    else:
        products = torch.from_numpy(as_dense(x)) @ torch.from_numpy(as_dense(z)).T
    squares = [torch.from_numpy(row_norms(a)).float() ** 2 for a in (x, z)]
    gaps = (squares[0][:, None] + squares[1] - 2 * products).clamp(min=0)
    return torch.exp(-KERNEL_WIDTH * gaps)


def _inverse_root(gram: Tensor) -> Tensor:
    """R with R R' = (gram + 0.001)^-1: the Gram matrix may be singular. [m, m] -> [m, m], float32."""
    eye = torch.eye(len(gram), dtype=torch.double)
    lower = torch.linalg.cholesky(gram.double() + 1e-3 * eye)
    return torch.linalg.solve_triangular(lower, eye, upper=False).T.float().contiguous()


def random_folding(columns: int, rng: np.random.Generator) -> np.ndarray | None:
    """For more than WIDEST columns: a random one of WIDEST sums for each, from 1, with a random sign. -> [d]"""
    if columns <= WIDEST:
        return None
    return rng.choice(np.array([-1, 1]), size=columns) * rng.integers(1, WIDEST + 1, size=columns)


def folded(x: np.ndarray | sp.csr_array, folding: np.ndarray | None) -> Tensor:
    """The columns as they are, or their sums with signs, by a folding. [n, d] -> [n, D], float32."""
    if folding is None:
        return torch.from_numpy(np.ascontiguousarray(as_dense(x)))
    signs, places = np.sign(folding).astype(np.float32), np.abs(folding) - 1
    sums = sp.csr_array((signs, (np.arange(len(folding)), places)), shape=(len(folding), WIDEST))
    return torch.from_numpy(np.ascontiguousarray(as_dense(x @ sums)))
