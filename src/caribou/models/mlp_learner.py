"""The MLP of tall dense tables: two layers of 256 units, one network per fold, as plain arrays.

Ridge regressions need their kernel at as many rows as a class has shapes; a network does not. It takes a minute where they take
half of one, so it is fitted where there are rows enough to pay for it (`caribou.models.class_prior`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from caribou.models.cross_fitting import by_class, cross_fitted
from caribou.models.module_training import RowSource, module_logits, train_module
from caribou.models.public_weights import he_weights

HIDDEN = (256, 256)
FOLDS = 3


@dataclass(frozen=True, eq=False)
class MlpLearner:
    """Networks with ReLU between their layers, one per fold.

    Args:
        weights: one [folds, a, b] per layer.
        biases: one [folds, b] per layer.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]

    def scores(self, x: Tensor) -> np.ndarray:
        """The mean of the networks' logits, for rows that none of them was fitted on. [n, d] -> [n, C]"""
        return np.asarray(np.mean([self.scores_of(k, x) for k in range(len(self.weights[0]))], axis=0))

    def scores_of(self, fold: int, x: Tensor) -> np.ndarray:
        """The logits of one network. [n, d] -> [n, C]"""
        h = x
        for i, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = (torch.relu(h) if i else h) @ torch.from_numpy(w[fold]) + torch.from_numpy(b[fold])
        return _centred(h)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return {
            **{f"weight_{i}": w for i, w in enumerate(self.weights)},
            **{f"bias_{i}": b for i, b in enumerate(self.biases)},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> MlpLearner:
        """The inverse of `to_arrays`."""
        layers = range(sum(name.startswith("weight_") for name in arrays))
        return cls(
            tuple(np.array(arrays[f"weight_{i}"]) for i in layers), tuple(np.array(arrays[f"bias_{i}"]) for i in layers)
        )


def fit_mlp_learner(
    rows: RowSource,
    count: int,
    train: np.ndarray,
    labels: np.ndarray,
    classes: int,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> tuple[MlpLearner, np.ndarray]:
    """The learner, and the scores of all rows, [n, C]; those of labelled rows by networks that were not fitted on them.

    Args:
        rows: of any numbers, with columns of variance 1.
        count: n.
        train: [m], numbers of the labelled rows, in random order.
        labels: [n]; only those of ``train`` are read.
        classes: C.
        rng: draws initial weights and batches.
        weights: [C], of the classes in the loss; None: all are 1.
    """
    d = rows(train[:1]).shape[1]

    def fit(part: np.ndarray, _: int) -> nn.Sequential:
        network = _network((d, *HIDDEN, classes), rng)
        train_module(network, rows, part, labels, rng, weights)
        return network

    networks, scores = cross_fitted(
        fit,
        lambda network, numbers: _centred(module_logits(network, rows, numbers)),
        count,
        by_class(train, labels),
        FOLDS,
    )
    layers = [[layer for layer in network if isinstance(layer, nn.Linear)] for network in networks]
    learner = MlpLearner(
        tuple(np.stack([layer.weight.detach().numpy().T for layer in each]) for each in zip(*layers, strict=True)),
        tuple(np.stack([layer.bias.detach().numpy() for layer in each]) for each in zip(*layers, strict=True)),
    )
    return learner, scores


def _network(sizes: tuple[int, ...], rng: np.random.Generator) -> nn.Sequential:
    """He's initial weights from the public seed; the global generator of torch is not touched."""
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layer = nn.utils.skip_init(nn.Linear, a, b)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(he_weights(a, b, rng)))
            layer.bias.zero_()
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _centred(logits: Tensor) -> np.ndarray:
    """Logits with mean 0 in every row: a constant says nothing, and networks would differ by it."""
    return (logits - logits.mean(dim=1, keepdim=True)).double().numpy()
