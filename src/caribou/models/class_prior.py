"""The prior: class probabilities of every node from its own public features. It never reads an edge.

Two learners, both ridge regression with predictions out of fold (`caribou.models.ridge`): on the rows themselves, and on
their Gaussian kernel with some training rows. A softmax regression on these scores combines them. At edge level features,
labels and split are public, so all of it costs nothing. Training and validation nodes are learned from alike: nothing is
stopped early, so nothing needs to be held back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import row_norms
from caribou.memory import DOUBLE, SINGLE, require_memory
from caribou.models.public_rows import PublicRows, as_dense
from caribou.models.ridge import BLOCK, FOLDS, blocks, fit_ridge
from caribou.models.softmax_regression import SoftmaxRegression, fit_softmax_regression
from caribou.models.threads import one_thread
from caribou.randomness import Streams

LANDMARKS = 1000
"""Training rows that the kernel is evaluated at. 500: 0.2 points less on Photo; 2,000: four times the work for 0.1 more."""
KERNEL_WIDTH = 0.5
"""gamma of exp(-gamma |x - z|^2): of 0.5, 1 and 2 the best on Cora and Photo."""
WIDEST = 2000
"""More columns than this are added up at random, with random signs, into so many."""
COMBINED = 20_000
"""The combination is fitted on so many training rows at most."""
RIDGE = 1e-3
"""Penalty of the combination."""


@dataclass(frozen=True, eq=False)
class ClassPrior:
    """Class probabilities from features, as a function of any graph with the same columns.

    Args:
        rows: how features become rows.
        linear: [d, C], weights of the rows (of their folded columns, if there are too many).
        landmarks: [m, d], rows that the kernel is evaluated at.
        kernel: [m, C], weights of the kernel.
        combination: of the scores of both.
        seed: of the folded columns.
    """

    rows: PublicRows
    linear: np.ndarray
    landmarks: np.ndarray | sp.csr_array
    kernel: np.ndarray
    combination: SoftmaxRegression
    seed: int

    def probabilities(self, features: np.ndarray | sp.csr_array) -> np.ndarray:
        """Of nodes that the prior was not fitted on. [n, d] -> [n, C]"""
        parts = [self._probabilities(self.rows(features[part])) for part in blocks(np.arange(features.shape[0]))]
        return np.concatenate(parts)

    def _probabilities(self, x: np.ndarray | sp.csr_array) -> np.ndarray:
        linear = folded(x, self.seed) @ self.linear.astype(np.float32)
        kernel = gaussian_kernel(x, self.landmarks) @ self.kernel.astype(np.float32)
        return self.combination(np.hstack([linear, kernel]).astype(np.float64))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        landmarks = sp.csr_array(self.landmarks)
        return {
            **self.rows.to_arrays(),
            "prior.linear": self.linear,
            "prior.kernel": self.kernel,
            "prior.landmarks.data": landmarks.data,
            "prior.landmarks.indices": landmarks.indices,
            "prior.landmarks.indptr": landmarks.indptr,
            "prior.landmarks.shape": np.array(landmarks.shape),
            "prior.combination.weights": self.combination.weights,
            "prior.combination.centre": self.combination.centre,
            "prior.combination.spread": self.combination.spread,
            "prior.seed": np.array(self.seed),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ClassPrior:
        """The inverse of `to_arrays`."""
        own = {name.removeprefix("prior."): array for name, array in arrays.items() if name.startswith("prior.")}
        landmarks: Any = sp.csr_array(
            (own["landmarks.data"], own["landmarks.indices"], own["landmarks.indptr"]),
            shape=tuple(own["landmarks.shape"].tolist()),
        )
        rows = PublicRows.from_arrays(arrays)
        return cls(
            rows,
            own["linear"],
            landmarks if rows.weights is not None else as_dense(landmarks),
            own["kernel"],
            SoftmaxRegression(own["combination.weights"], own["combination.centre"], own["combination.spread"]),
            int(own["seed"]),
        )


def class_probabilities(graph: Graph, streams: Streams) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Class probabilities of every node, [n, C]: those that came with the graph, or fitted ones; and the weights of the fit."""
    if graph.prior is not None:
        return graph.prior, {}
    prior, probabilities = fit_class_prior(graph, streams)
    return probabilities, prior.to_arrays()


def probabilities_by(weights: Mapping[str, np.ndarray], graph: Graph) -> np.ndarray:
    """Class probabilities of every node of another graph: those that came with it, or by fitted weights. [n, C]"""
    if graph.prior is not None:
        return graph.prior
    if "prior.linear" not in weights:
        raise InputError(
            "graph must come with class probabilities, as the training graph did, got none: "
            "give them by with_prior(...) (--prior FILE)"
        )
    return ClassPrior.from_arrays(weights).probabilities(graph.features)


@one_thread()
def fit_class_prior(graph: Graph, streams: Streams) -> tuple[ClassPrior, np.ndarray]:
    """The prior, and the class probabilities of every node; those of labelled nodes out of fold. [n, C]

    Args:
        graph: features, labels and split are read; edges are not.
        streams: the public seed.
    """
    split, labels = graph.for_learning(public=True)
    rng, seed = streams.generator("class prior"), streams.seed
    labels, C = np.array(labels), graph.num_classes
    labelled = rng.permutation(np.concatenate([split.train, split.val]))
    n, d = graph.features.shape
    width = max(min(d, WIDEST), LANDMARKS)
    require_memory(
        (FOLDS + 3) * DOUBLE * width**2 + SINGLE * BLOCK * (2 * d + 3 * width) + 6 * DOUBLE * n * C,
        f"the prior of {n:,} nodes with {d:,} columns and {C} classes",
    )
    rows = PublicRows.of(graph.features)
    x = rows(graph.features) if sp.issparse(graph.features) or n * d <= BLOCK * WIDEST else None

    def some(numbers: np.ndarray) -> Any:
        return rows(graph.features[numbers]) if x is None else x[numbers]

    landmarks = some(np.sort(labelled[:LANDMARKS]))
    root = _inverse_root(gaussian_kernel(landmarks, landmarks))
    linear = fit_ridge(lambda numbers: folded(some(numbers), seed), n, labelled, labels, C)
    kernel = fit_ridge(lambda numbers: gaussian_kernel(some(numbers), landmarks) @ root, n, labelled, labels, C)
    scores = np.hstack([linear.scores, kernel.scores])
    used = labelled[:COMBINED]
    combination = fit_softmax_regression(scores[used], labels[used], C, RIDGE)
    prior = ClassPrior(rows, linear.weights, landmarks, root @ kernel.weights, combination, seed)
    return prior, combination(scores)


def gaussian_kernel(x: np.ndarray | sp.csr_array, z: np.ndarray | sp.csr_array) -> np.ndarray:
    """exp(-gamma |x_i - z_j|^2). [n, d], [m, d] -> [n, m], float32.

    >>> gaussian_kernel(np.array([[0.0], [2.0]]), np.array([[0.0]])).round(4).tolist()
    [[1.0], [0.1353]]
    """
    products = as_dense(x @ z.T)
    squares = [row_norms(a).astype(np.float32) ** 2 for a in (x, z)]
    gaps: np.ndarray = np.maximum(squares[0][:, None] + squares[1] - 2 * products, 0)
    return np.asarray(np.exp(-KERNEL_WIDTH * gaps), dtype=np.float32)


def _inverse_root(gram: np.ndarray) -> np.ndarray:
    """R with R R' = gram^-1, for a Gram matrix that may be singular. [m, m] -> [m, m], float32."""
    values, vectors = np.linalg.eigh(gram.astype(np.float64))
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-4)), dtype=np.float32)


def folded(x: np.ndarray | sp.csr_array, seed: int) -> np.ndarray:
    """The columns as they are, or WIDEST sums of them with random signs if there are more. [n, d] -> [n, D], float32."""
    d = x.shape[1]
    if d <= WIDEST:
        return as_dense(x)
    rng = Streams(seed).generator("folded columns")
    signs, places = rng.choice(np.array([-1.0, 1.0], np.float32), size=d), rng.integers(WIDEST, size=d)
    return as_dense(x @ sp.csr_array((signs, (np.arange(d), places)), shape=(d, WIDEST)))
