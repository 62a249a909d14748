"""Small networks on the principal components of public rows, one per fold, trained side by side in seconds.

Ridge regressions are fitted by squares. What they miss is what a loss of probabilities and a bend can see, and a few directions
are enough for that: on 64 components a network of 128 units takes a tenth of the time of one on all words, and adds more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from caribou.models.adam import Adam
from caribou.models.cross_fitting import by_class
from caribou.models.mlp_learner import MlpLearner
from caribou.models.public_weights import unit_weights
from caribou.models.trainer import take_steps

COMPONENTS = 64
"""Of 32, 64 and 128 the best on Photo and Computers."""
HIDDEN = 128
ROW_LENGTH = 32.0
"""Rows have length 1 or so; networks learn faster from longer ones. Of 8, 16, 32 and 64 the best on Photo."""
FOLDS = 3
EPOCHS = 15
BATCH = 512
LEARNING_RATE = 0.01
WEIGHT_DECAY = 1e-3
DROPOUT = 0.3


@dataclass(frozen=True, eq=False)
class ComponentLearner:
    """Networks of the components x V: their mean logits.

    Args:
        directions: V, [d, k], orthonormal.
        networks: of the components times ROW_LENGTH.
    """

    directions: np.ndarray
    networks: MlpLearner

    def scores(self, x: Tensor) -> np.ndarray:
        """For rows that no network was fitted on. [n, d] -> [n, C]"""
        return self.networks.scores(components(x, self.directions))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved model."""
        return {"directions": self.directions, **self.networks.to_arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ComponentLearner:
        """The inverse of `to_arrays`."""
        return cls(np.array(arrays["directions"]), MlpLearner.from_arrays(arrays))


def components(x: Tensor, directions: np.ndarray) -> Tensor:
    """The rows in the given directions, ROW_LENGTH times as long. [n, d], [d, k] -> [n, k], float32."""
    return ROW_LENGTH * (x @ torch.from_numpy(directions))


def fit_component_learner(
    x: Tensor,
    directions: np.ndarray,
    train: np.ndarray,
    labels: np.ndarray,
    classes: int,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> tuple[ComponentLearner, np.ndarray]:
    """The learner, and the scores of all rows, [n, C]; those of labelled rows by networks that were not fitted on them.

    All networks take every batch together, each with the rows of its own fold left out: one product instead of three.

    Args:
        x: [n, k], the components of all rows.
        directions: [d, k], what they are components in.
        train: [m], numbers of the labelled rows, in random order.
        labels: [n]; only those of ``train`` are read.
        classes: C.
        rng: draws initial weights, batches and dropout.
        weights: [C], of the classes in the loss; None: all are 1.
    """
    n, k = x.shape
    fold = np.full(n, -1)
    fold[by_class(train, labels)] = np.arange(len(train)) % FOLDS
    used = torch.from_numpy(fold != np.arange(FOLDS)[:, None])
    y = torch.from_numpy(np.maximum(labels, 0))
    weight = None if weights is None else torch.from_numpy(weights).float()
    layers = [
        torch.from_numpy(np.stack([unit_weights(a, b, rng).T for _ in range(FOLDS)])).float().requires_grad_()
        for a, b in ((k, HIDDEN), (HIDDEN, classes))
    ]
    biases = [torch.zeros(FOLDS, 1, width, requires_grad=True) for width in (HIDDEN, classes)]
    masks = torch.Generator().manual_seed(int(rng.integers(2**62)))
    each = math.ceil(len(train) / BATCH)
    batches: list[np.ndarray] = []

    def logits(rows: Tensor, dropout: float = 0.0) -> Tensor:
        h = torch.relu(torch.matmul(rows, layers[0]) + biases[0])
        if dropout > 0:
            h = h * (torch.rand(h.shape, generator=masks) >= dropout) / (1 - dropout)
        return torch.bmm(h, layers[1]) + biases[1]

    def loss(_: int) -> Tensor:
        if not batches:
            batches.extend(np.array_split(rng.permutation(train), each))
        rows = torch.from_numpy(batches.pop())
        losses = torch.nn.functional.cross_entropy(
            logits(x[rows], DROPOUT).transpose(1, 2), y[rows].expand(FOLDS, -1), weight=weight, reduction="none"
        )
        counted = used[:, rows]
        return ((losses * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)).sum()

    steps = EPOCHS * each
    take_steps(
        loss,
        Adam([*layers, *biases], LEARNING_RATE, WEIGHT_DECAY),
        steps=steps,
        learning_rate=lambda step: LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * (step - 1) / steps)),
        stage="encoder",
    )
    with torch.no_grad():
        networks = MlpLearner(
            tuple(w.detach().numpy() for w in layers), tuple(b.detach().numpy()[:, 0] for b in biases)
        )
        scores = networks.scores(x)
        for number in range(FOLDS):
            scores[fold == number] = networks.scores_of(number, x[torch.from_numpy(fold == number)])
    return ComponentLearner(directions, networks), scores
