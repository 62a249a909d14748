"""GraphSAGE (Hamilton, Ying and Leskovec 2017): a base MLP, layers that join a node with its neighbours, a head.

It reads whatever graph it is given. On a perturbed graph all of it is post-processing; on a private graph it is not private.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from caribou.machine.memory import SINGLE, require_memory
from caribou.models.classifier import class_weights
from caribou.models.encoder import Scaling
from caribou.models.fit_context import one_thread
from caribou.models.objective import USUAL, Objective
from caribou.models.sage_config import SageConfig
from caribou.models.trainer import Validation, take_steps

CHECK_EVERY = 5
"""Epochs between two looks at the validation nodes."""


class FixedProduct(torch.autograd.Function):
    """A X for a fixed sparse A, given with its transpose, which gives the gradient."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, x: Tensor) -> Tensor:
        ctx.transposed = transposed
        return matrix @ x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transposed @ gradients[0]


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """A symmetric 0/1 matrix and 1 / max(degree, 1).

    >>> path = Neighbourhoods.of(np.array([[0, 1], [1, 2]]), nodes=3)                 # 0 - 1 - 2
    >>> path.aggregate(torch.tensor([[1.0], [2.0], [5.0]]), "mean").ravel().tolist()
    [2.0, 3.0, 2.0]
    """

    matrix: Tensor  # [n, n], sparse CSR, float32
    inverse_degree: Tensor  # [n, 1]

    @classmethod
    def of(cls, pairs: np.ndarray, nodes: int) -> Neighbourhoods:
        """From the edges u < v, [2, E], of a graph with ``nodes`` nodes."""
        ends = np.concatenate([pairs, pairs[::-1]], axis=1)
        rows = sp.csr_array((np.ones(ends.shape[1], dtype=np.float32), (ends[0], ends[1])), shape=(nodes, nodes))
        degree = np.maximum(np.diff(rows.indptr), 1).astype(np.float32)
        return cls(_csr_tensor(rows), torch.from_numpy(1 / degree)[:, None])

    def aggregate(self, x: Tensor, aggregator: str) -> Tensor:
        """Sum or mean over the neighbours; 0 for a node without any. [n, h] -> [n, h]."""
        total = FixedProduct.apply(self.matrix, self.matrix, x)
        return total * self.inverse_degree if aggregator == "mean" else total


@dataclass(frozen=True, eq=False)
class Inputs:
    """Scaled features; sparse ones stay sparse, with their transpose for the gradient of the first layer."""

    matrix: Tensor  # [n, d], dense or sparse CSR
    transposed: Tensor | None

    @classmethod
    def of(cls, x: np.ndarray | sp.csr_array) -> Inputs:
        """From features as `Scaling` gives them."""
        if sp.issparse(x):
            return cls(_csr_tensor(x), _csr_tensor(sp.csr_array(x.T)))
        return cls(torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)), None)

    def times(self, weight: Tensor) -> Tensor:
        """Features times weights. [d, h] -> [n, h]."""
        if self.transposed is None:
            return self.matrix @ weight
        return FixedProduct.apply(self.matrix, self.transposed, weight)


def _csr_tensor(rows: sp.csr_array) -> Tensor:
    index = np.int32 if rows.nnz < 2**31 else np.int64
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            torch.from_numpy(rows.indptr.astype(index)),
            torch.from_numpy(rows.indices.astype(index)),
            torch.from_numpy(rows.data.astype(np.float32)),
            size=rows.shape,
            check_invariants=False,
        )


class SageNetwork(nn.Module):
    """x -> SELU(x W + b) -> linear -> layers normalise(h R + agg(h) N + b), SELU between -> head. [n, d] -> [n, C].

    Args:
        columns: d.
        classes: C.
        config: widths, layers, aggregator and dropout.
    """

    def __init__(self, columns: int, classes: int, config: SageConfig) -> None:
        super().__init__()
        h, self.config = config.hidden, config
        self.first = nn.Linear(columns, h)
        self.second = nn.Linear(h, h)
        self.roots = nn.ModuleList(nn.Linear(h, h) for _ in range(config.layers))
        self.neighbours = nn.ModuleList(nn.Linear(h, h, bias=False) for _ in range(config.layers))
        self.head = nn.Linear(h, classes)

    def forward(self, x: Inputs, around: Neighbourhoods) -> Tensor:
        h = x.times(self.first.weight.T) + self.first.bias
        h = self.second(self._dropped(torch.selu(h)))
        for root, neighbour in zip(self.roots, self.neighbours, strict=True):
            h = self._dropped(torch.selu(h))
            h = root(h) + neighbour(around.aggregate(h, self.config.aggregator))
            h = nn.functional.normalize(h, dim=1)
        return self.head(torch.selu(h) * self.config.hidden**0.5)

    def _dropped(self, h: Tensor) -> Tensor:
        return nn.functional.dropout(h, self.config.dropout, self.training)


@dataclass(frozen=True, eq=False)
class SageModel:
    """A fitted network with the scaling of its features."""

    scaling: Scaling
    network: SageNetwork

    def scores(self, features: Any, around: Neighbourhoods) -> np.ndarray:
        """Scores of every node. ``features``: [n, d], of the graph ``around`` -> [n, C], float64."""
        with torch.no_grad(), one_thread():
            return self.network.eval()(Inputs.of(self.scaling(features)), around).double().numpy()

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        arrays = {f"sage.{name}": tensor.numpy() for name, tensor in self.network.state_dict().items()}
        return arrays | self.scaling.to_arrays("scaling")

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], config: SageConfig) -> SageModel:
        """The inverse of `to_arrays`; ``config`` as it was when the model was fitted."""
        state = {k.removeprefix("sage."): torch.from_numpy(np.array(v)) for k, v in arrays.items() if "sage." in k}
        network = SageNetwork(state["first.weight"].shape[1], state["head.weight"].shape[0], config)
        network.load_state_dict(state)
        return cls(Scaling.from_arrays(arrays, "scaling"), network.eval())


@one_thread()
def fit_sage(
    features: Any,
    around: Neighbourhoods,
    labels: np.ndarray,
    *,
    train: np.ndarray,
    val: np.ndarray,
    classes: int,
    config: SageConfig,
    seed: int,
    objective: Objective = USUAL,
) -> SageModel:
    """Fit on the labels of ``train``, and keep the epoch with the best accuracy, then loss, on ``val``. Not private.

    Args:
        features: [n, d], dense or CSR.
        around: the neighbourhoods, of all n nodes.
        labels: [n]; only those of ``train`` and ``val`` are read.
        train: indices of the nodes to fit on.
        val: indices of the nodes that choose the epoch; without any the last epoch is kept.
        classes: C.
        config: widths and training.
        seed: of initial weights and dropout. The global generator of torch is left as it was.
        objective: which epoch is best, and how much each class counts.
    """
    _check_memory(features.shape[0], features.shape[1], config)
    scaling = Scaling.of(features, row_length=4.0)
    x = Inputs.of(scaling(features))
    y = torch.from_numpy(np.array(labels))
    rows, held = torch.from_numpy(np.array(train)), torch.from_numpy(np.array(val))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = SageNetwork(x.matrix.shape[1], classes, config)
        optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)

        weights = class_weights(objective, y[rows], classes)

        def loss(_: int) -> Tensor:
            return nn.functional.cross_entropy(network.train()(x, around)[rows], y[rows], weight=weights)

        validation = Validation.of_module(
            network, lambda: network(x, around)[held], y[held], every=CHECK_EVERY, objective=objective
        )
        (best,) = take_steps(loss, optimizer, steps=config.epochs, validation=validation, stage="GraphSAGE")
    network.load_state_dict(best.state)
    return SageModel(scaling, network.eval())


def _check_memory(nodes: int, columns: int, config: SageConfig) -> None:
    """About eight arrays [n, h] per layer for values and gradients, and the first weights with gradient and moments."""
    numbers = 8 * (config.layers + 1) * nodes * config.hidden + 5 * columns * config.hidden
    require_memory(
        SINGLE * numbers, f"GraphSAGE on {nodes:,} nodes with hidden = {config.hidden}, layers = {config.layers}"
    )
