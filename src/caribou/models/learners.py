"""The learners of the prior, with scikit-learn's interface: ``fit(x, y, sample_weight)`` and ``decision_function(x)``.

Rows x are those of `PublicRows`: words [n, d] in CSR form, or numbers in an array, float32. Scores are [n, C]. A learner that was
cross-fitted is one model for new rows (`joined`) and is stored as named arrays. Which table gets which learner stands in
`caribou.models.class_prior`; benchmarks/log.md has what each of them is worth.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from caribou.mechanisms.bounded_rows import row_norms
from caribou.models.adam import Adam
from caribou.models.public_rows import as_dense, blocks, csr_from_arrays, csr_to_arrays
from caribou.models.public_weights import unit_weights
from caribou.models.trainer import take_steps

Table: TypeAlias = np.ndarray | sp.csr_array


class Learner(Protocol):
    """What the loop of `caribou.models.cross_fitting` and a saved model need."""

    folds: ClassVar[int]
    """How many models are cross-fitted: more of those that take no time, so that each is fitted on more rows."""

    def fit(self, x: Any, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Learn classes y, [m], of rows x, [m, d]."""
        ...

    def decision_function(self, x: Any) -> np.ndarray:
        """Scores of the classes. [n, d] -> [n, C]"""
        ...

    @classmethod
    def joined(cls, models: Sequence[Self], x: Any, y: np.ndarray) -> Self:
        """One model in place of those of the folds, for rows other than x, [m, d], on which they were fitted."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `to_arrays`."""
        ...


class Linear:
    """scikit-learn's logistic regression. Words need little shrinkage, columns of numbers more.

    Args:
        classes: C; those without a row score below all others.
    """

    folds: ClassVar[int] = 3

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.weights, self.bias = np.zeros((0, classes)), np.zeros(classes)

    def fit(self, x: Table, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Learn; a single class is all there is to say where only one occurs."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        present = np.unique(y)
        self.weights = np.zeros((x.shape[1], self.classes), dtype=np.float32)
        self.bias = np.zeros(self.classes)
        if len(present) > 1:
            model = (
                LogisticRegression(C=10.0, max_iter=60) if sp.issparse(x) else LogisticRegression(C=0.1, max_iter=20)
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # all steps are taken, and they are enough
                model.fit(_unit_columns(x), y, sample_weight)
            coefficients, intercept = model.coef_, model.intercept_
            if len(present) == 2:
                coefficients, intercept = (np.stack([-part[0] / 2, part[0] / 2]) for part in (coefficients, intercept))
            self.weights[:, present], self.bias[present] = coefficients.T, intercept
        self.bias[np.setdiff1d(np.arange(self.classes), present)] = self.bias[present].min() - math.log(1 + len(y))
        return self

    def decision_function(self, x: Table) -> np.ndarray:
        """[n, d] -> [n, C]"""
        return np.asarray(_unit_columns(x) @ self.weights + self.bias, dtype=np.float64)

    @classmethod
    def joined(cls, models: Sequence[Self], x: Any, y: np.ndarray) -> Self:
        """The mean of linear models is one."""
        return cls.from_arrays(
            {name: np.mean([getattr(m, name) for m in models], axis=0) for name in ("weights", "bias")}
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return {"weights": self.weights, "bias": self.bias}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `to_arrays`."""
        found = cls(len(arrays["bias"]))
        found.weights, found.bias = arrays["weights"], arrays["bias"]
        return found


class GaussianKernel:
    """Ridge regression onto class indicators on a Gaussian kernel with some rows (Nystroem's columns), in closed form.

    Args:
        classes: C.
        landmarks: [k, d], rows that the kernel is evaluated at.
    """

    folds: ClassVar[int] = 3
    width = 0.5
    """gamma of exp(-gamma |x - z|^2): of 0.5, 1 and 2 the best on Cora and Photo."""
    penalty = 0.1

    def __init__(self, classes: int, landmarks: np.ndarray) -> None:
        self.classes, self.landmarks = classes, landmarks
        self.weights = np.zeros((len(landmarks), classes))

    def fit(self, x: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """(Phi' Phi + penalty)^-1 Phi' (Y - shares) with Phi = K R and R R' the inverse Gram matrix of the landmarks."""
        k = len(self.landmarks)
        root = _inverse_root(self._columns(self.landmarks))
        shares = np.bincount(y, minlength=self.classes) / len(y)
        gram, moments = (
            self.penalty * torch.eye(k, dtype=torch.double),
            torch.zeros(k, self.classes, dtype=torch.double),
        )
        for part in blocks(np.arange(len(y))):
            columns = self._columns(x[part]) @ root
            gram += columns.T @ columns
            moments += columns.T @ torch.from_numpy(np.eye(self.classes)[y[part]] - shares).float()
        solved = torch.cholesky_solve(moments, torch.linalg.cholesky(gram))
        self.weights = (root.double() @ solved).numpy()
        return self

    def decision_function(self, x: np.ndarray) -> np.ndarray:
        """[n, d] -> [n, C]"""
        return np.asarray((self._columns(x) @ torch.from_numpy(self.weights).float()).double().numpy())

    def _columns(self, x: np.ndarray) -> Tensor:
        """exp(-gamma |x_i - z_j|^2). [n, d] -> [n, k], float32."""
        return gaussian_kernel(x, self.landmarks, self.width)

    @classmethod
    def joined(cls, models: Sequence[Self], x: Any, y: np.ndarray) -> Self:
        """The mean of models with the same landmarks is one."""
        weights = np.mean([model.weights for model in models], axis=0)
        return cls.from_arrays({"weights": weights, "landmarks": models[0].landmarks})

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return {"weights": self.weights, "landmarks": self.landmarks}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `to_arrays`."""
        found = cls(arrays["weights"].shape[1], np.array(arrays["landmarks"]))
        found.weights = np.array(arrays["weights"])
        return found


def gaussian_kernel(x: np.ndarray, z: np.ndarray, width: float) -> Tensor:
    """exp(-width |x_i - z_j|^2). [n, d], [m, d] -> [n, m], float32.

    >>> gaussian_kernel(np.array([[0.0], [2.0]]), np.array([[0.0]]), 0.5).tolist()
    [[1.0], [0.1353352814912796]]
    """
    products = torch.from_numpy(as_dense(x)) @ torch.from_numpy(as_dense(z)).T
    squares = [torch.from_numpy(row_norms(a)).float() ** 2 for a in (x, z)]
    return torch.exp(-width * (squares[0][:, None] + squares[1] - 2 * products).clamp(min=0))


def _inverse_root(gram: Tensor) -> Tensor:
    """R with R R' = (gram + 0.001)^-1: a Gram matrix may be singular. [m, m] -> [m, m], float32."""
    eye = torch.eye(len(gram), dtype=torch.double)
    lower = torch.linalg.cholesky(gram.double() + 1e-3 * eye)
    return torch.linalg.solve_triangular(lower, eye, upper=False).T.float().contiguous()


class Network:
    """A small network with ReLU and dropout on columns x V: the leading directions of wide rows, or all columns of tall tables.

    It sees what a linear model does not: a loss of probabilities with a bend, and averages over the networks of the folds.

    Args:
        classes: C.
        seed: of initial weights, batches and dropout.
        hidden: widths of the hidden layers.
        epochs: passes over the rows.
        directions: V, [d, k], orthonormal; None: the columns as they are.
    """

    folds: ClassVar[int] = 3
    row_length = 32.0
    """Rows have length 1 or so; networks learn faster from longer ones. Of 8, 16, 32 and 64 the best on Photo."""
    batch, learning_rate, weight_decay, dropout = 320, 0.01, 1e-3, 0.3

    def __init__(
        self,
        classes: int,
        seed: int = 0,
        hidden: tuple[int, ...] = (128,),
        epochs: int = 15,
        directions: np.ndarray | None = None,
    ) -> None:
        self.classes, self.seed, self.hidden, self.epochs, self.directions = classes, seed, hidden, epochs, directions
        self.networks: list[list[tuple[np.ndarray, np.ndarray]]] = []

    def fit(self, x: Table, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Adam with a cosine learning rate; all steps are taken."""
        rng = np.random.default_rng(self.seed)
        z, targets = self._inputs(x), torch.from_numpy(y)
        weights = torch.ones(len(y)) if sample_weight is None else torch.from_numpy(sample_weight).float()
        sizes = (z.shape[1], *self.hidden, self.classes)
        with torch.random.fork_rng(devices=[]):  # the global generator of torch is not moved
            torch.manual_seed(self.seed)
            layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
            for layer in layers:
                initial = unit_weights(layer.in_features, layer.out_features, rng)
                layer.load_state_dict({"weight": torch.from_numpy(initial), "bias": torch.zeros(layer.out_features)})
            each = math.ceil(len(y) / self.batch)
            steps = self.epochs * each
            batches: list[np.ndarray] = []

            def loss(_: int) -> Tensor:
                if not batches:
                    batches.extend(np.array_split(rng.permutation(len(y)), each))
                rows = torch.from_numpy(batches.pop())
                h = layers[0](z[rows])
                for layer in layers[1:]:
                    h = layer(nn.functional.dropout(torch.relu(h), self.dropout))
                losses = nn.functional.cross_entropy(h, targets[rows], reduction="none")
                return (losses * weights[rows]).sum() / weights[rows].sum()

            take_steps(
                loss,
                Adam([p for layer in layers for p in layer.parameters()], self.learning_rate, self.weight_decay),
                steps=steps,
                learning_rate=lambda step: self.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - 1) / steps)),
                stage="encoder",
            )
        self.networks = [[(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in layers]]
        return self

    def decision_function(self, x: Table) -> np.ndarray:
        """The mean logits of the networks, with mean 0 in every row. [n, d] -> [n, C]"""
        z, total = self._inputs(x), np.zeros((x.shape[0], self.classes))
        for network in self.networks:
            h = z
            for i, (weight, bias) in enumerate(network):
                h = (torch.relu(h) if i else h) @ torch.from_numpy(weight) + torch.from_numpy(bias)
            total += (h - h.mean(dim=1, keepdim=True)).double().numpy()
        return total / len(self.networks)

    def _inputs(self, x: Table) -> Tensor:
        if self.directions is None:
            return torch.from_numpy(np.ascontiguousarray(_unit_columns(x)))
        return torch.from_numpy(np.ascontiguousarray(self.row_length * (x @ self.directions), dtype=np.float32))

    @classmethod
    def joined(cls, models: Sequence[Self], x: Any, y: np.ndarray) -> Self:
        """All networks; their logits are averaged."""
        found = cls(models[0].classes, directions=models[0].directions)
        found.networks = [network for model in models for network in model.networks]
        return found

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        layers = list(zip(*self.networks, strict=True))
        return {
            **{f"weight_{i}": np.stack([weight for weight, _ in layer]) for i, layer in enumerate(layers)},
            **{f"bias_{i}": np.stack([bias for _, bias in layer]) for i, layer in enumerate(layers)},
            **({} if self.directions is None else {"directions": self.directions}),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `to_arrays`."""
        count = sum(name.startswith("weight_") for name in arrays)
        weights, biases = ([np.array(arrays[f"{word}_{i}"]) for i in range(count)] for word in ("weight", "bias"))
        found = cls(biases[-1].shape[1], directions=arrays.get("directions"))
        found.networks = [[(w[k], b[k]) for w, b in zip(weights, biases, strict=True)] for k in range(len(weights[0]))]
        return found


def leading_directions(x: Table, count: int, seed: int) -> np.ndarray:
    """Leading right singular vectors of rows of any rank. [n, d] -> [d, k], k <= count, float32.

    >>> leading_directions(np.array([[3.0, 0.0], [0.0, 1.0], [3.0, 0.0]], dtype=np.float32), 1, seed=0).round(2).tolist()
    [[1.0], [0.0]]
    """
    from sklearn.utils.extmath import randomized_svd

    return np.ascontiguousarray(randomized_svd(x, min(count, *x.shape), random_state=seed)[2].T, dtype=np.float32)


class NearestRows:
    """log((sum_j w_j Y_j + a pi) / (sum_j w_j + a)) over the nearest fitted rows j, with w_j = exp(sharpness cos_j) - 1.

    Regressions weigh words; this compares whole rows. A row without words has weights of 0, so it gets the class shares pi.

    Args:
        classes: C.
    """

    folds: ClassVar[int] = 8
    nearest, sharpness = 20, 12.0
    shares_weight = 10.0
    """a: how much the class shares weigh beside the nearest rows."""
    part = 1024
    """Rows that are compared together: a cosine with each fitted row, and its place, are in memory for each."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.rows, self.labels = sp.csr_array((0, 0)), np.zeros(0, dtype=np.int64)

    def fit(self, x: sp.csr_array, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Keep rows of length 1 and their classes."""
        self.rows, self.labels = sp.csr_array(x), y
        return self

    def decision_function(self, x: sp.csr_array) -> np.ndarray:
        """For rows of length 1 that are not among the fitted ones. [n, d] -> [n, C]"""
        indicators = np.eye(self.classes)[self.labels]
        shares, nearest = indicators.mean(axis=0), min(self.nearest, len(self.labels))
        found = np.empty((x.shape[0], self.classes))
        for first in range(0, x.shape[0], self.part):
            part = slice(first, first + self.part)
            cosines = as_dense(x[part] @ self.rows.T)
            chosen = np.argpartition(-cosines, nearest - 1, axis=1)[:, :nearest]
            weights = np.expm1(self.sharpness * np.clip(np.take_along_axis(cosines, chosen, axis=1), 0, 1))
            sums = np.einsum("ij,ijc->ic", weights, indicators[chosen]) + self.shares_weight * shares
            found[part] = np.log(np.maximum(sums, 1e-9) / (weights.sum(axis=1, keepdims=True) + self.shares_weight))
        return found

    @classmethod
    def joined(cls, models: Sequence[Self], x: sp.csr_array, y: np.ndarray) -> Self:
        """All rows."""
        return cls(models[0].classes).fit(x, y)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return {**csr_to_arrays("rows", self.rows), "labels": self.labels, "classes": np.array(self.classes)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `to_arrays`."""
        return cls(int(arrays["classes"])).fit(csr_from_arrays("rows", arrays), np.array(arrays["labels"]))


def _unit_columns(x: Table) -> Table:
    """Numbers with columns of variance 1 (`PublicRows` divides by sqrt(d)); words as they are."""
    return x if sp.issparse(x) else x * np.float32(np.sqrt(max(x.shape[1], 1)))
