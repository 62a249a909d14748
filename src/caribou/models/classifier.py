"""The classification module: X^(0) and X^(K) through a base layer each, joined, then a head (the paper, Putting it Together)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from caribou._validate import MAX_EPOCHS, MAX_WIDTH, integer, unit_interval
from caribou.errors import InputError
from caribou.machine.memory import DOUBLE, SINGLE, require_memory
from caribou.models.fit_context import one_thread
from caribou.models.objective import USUAL, Objective
from caribou.models.trainer import Validation, take_steps

PART = 1 << 16
"""Rows whose scores are computed together."""


@dataclass(frozen=True)
class ClassifierConfig:
    """Width and training of the module: Adam on the full batch.

    Args:
        hidden: width of each base layer's output, at least 1.
        dropout: share of the joined values that training drops, in [0, 1].
        learning_rate: of Adam.
        weight_decay: of Adam.
        epochs: steps that are taken, at least 1.
    """

    hidden: int = 64
    dropout: float = 0.3
    learning_rate: float = 0.01
    weight_decay: float = 1e-3
    epochs: int = 100

    def __post_init__(self) -> None:
        integer(at_least=1, at_most=MAX_WIDTH, hidden=self.hidden)
        integer(at_least=1, at_most=MAX_EPOCHS, epochs=self.epochs)
        unit_interval(dropout=self.dropout)


class ByteDropout(nn.Module):
    """Dropout by one random byte per value: several times faster on a CPU than torch's. Probabilities are multiples of 1/256.

    Args:
        probability: that a value is dropped, in [0, 1]; rounded to a multiple of 1/256.
        seed: of the bytes.

    >>> ByteDropout(0.5, seed=0).eval()(torch.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, probability: float, *, seed: int) -> None:
        super().__init__()
        self._dropped = round(256 * probability)
        self._bytes = np.random.default_rng(seed)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self._dropped == 0:
            return x
        drawn = np.frombuffer(self._bytes.bytes(x.numel()), dtype=np.uint8).reshape(x.shape)
        kept = torch.from_numpy(drawn >= self._dropped).to(x.dtype)
        return x * kept * (256 / max(1, 256 - self._dropped))


class ClassificationModule(nn.Module):
    """A linear base layer per input, joined, SELU, dropout, a linear head. No batch normalisation.

    Shapes: one [n, d_i] per base -> scores [n, C].

    >>> module = ClassificationModule((3, 5), classes=4, config=ClassifierConfig(hidden=8))
    >>> module([torch.zeros(2, 3), torch.zeros(2, 5)]).shape
    torch.Size([2, 4])
    """

    def __init__(self, columns: tuple[int, ...], *, classes: int, config: ClassifierConfig, seed: int = 0) -> None:
        super().__init__()
        # each in a Sequential: the names of the arrays in saved models, bases.0.0.weight
        self.bases = nn.ModuleList(nn.Sequential(nn.Linear(d, config.hidden)) for d in columns)
        self.dropout = ByteDropout(config.dropout, seed=seed)
        self.head = nn.Linear(config.hidden * len(columns), classes)

    def forward(self, inputs: list[Tensor]) -> Tensor:
        joined = torch.cat([base(x) for base, x in zip(self.bases, inputs, strict=True)], dim=1)
        return self.head(self.dropout(torch.selu(joined)))


@one_thread()
def fit_classifier(
    inputs: list[np.ndarray],
    labels: np.ndarray,
    *,
    train: np.ndarray,
    val: np.ndarray,
    classes: int,
    config: ClassifierConfig,
    seed: int,
    objective: Objective = USUAL,
) -> ClassificationModule:
    """Fit on ``train`` rows, and keep the best epoch by accuracy (or the objective), then loss, on ``val`` rows. Not private.

    Args:
        inputs: [n, d_i] each.
        labels: [n]; only those of ``train`` and ``val`` are read.
        train: indices of the rows to fit on.
        val: indices of the rows that choose the epoch; without any the last epoch is kept.
        classes: C.
        config: width and training.
        seed: of initial weights and dropout. The global generator of torch is left as it was.
        objective: which epoch is best, and how much each class counts.

    Returns:
        The module in evaluation mode.
    """
    require_classifier_memory(len(inputs[0]), len(train) + len(val), [part.shape[1] for part in inputs], config.hidden)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        columns = tuple(part.shape[1] for part in inputs)
        module = ClassificationModule(columns, classes=classes, config=config, seed=seed)
        y = torch.from_numpy(np.array(labels, dtype=np.int64))
        of_train, of_val = (
            [torch.from_numpy(np.array(part[nodes], dtype=np.float32)) for part in inputs] for nodes in (train, val)
        )
        y_train, y_val = (y[torch.from_numpy(np.array(nodes))] for nodes in (train, val))
        optimizer = torch.optim.Adam(module.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)

        weights = class_weights(objective, y_train, classes)

        def loss(_: int) -> Tensor:
            return nn.functional.cross_entropy(module.train()(of_train), y_train, weight=weights)

        validation = Validation.of_module(module, lambda: module(of_val), y_val, objective=objective)
        (best,) = take_steps(loss, optimizer, steps=config.epochs, validation=validation, stage="classifier")
    module.load_state_dict(best.state)
    return module.eval()


def class_weights(objective: Objective, labels: Tensor, classes: int) -> Tensor | None:
    """The weight of every class in a loss, single precision; None where all nodes count the same. [n] -> [C]"""
    weights = objective.class_weights(labels.numpy(), classes)
    return None if weights is None else torch.from_numpy(weights.astype(np.float32))


def classify(module: ClassificationModule, inputs: list[np.ndarray]) -> np.ndarray:
    """Scores of the module. [n, d_i] each -> [n, C], float64.

    >>> module = ClassificationModule((3,), classes=4, config=ClassifierConfig(hidden=8))
    >>> classify(module, [np.zeros((2, 3))]).shape
    (2, 4)
    """
    module.eval()
    scores = []
    with torch.no_grad():
        for first in range(0, len(inputs[0]), PART):
            rows = [np.array(part[first : first + PART], dtype=np.float32) for part in inputs]
            scores.append(module([torch.from_numpy(part) for part in rows]).double().numpy())
    return np.concatenate(scores)


def embed(module: ClassificationModule, last: np.ndarray) -> np.ndarray:
    """What the last base layer makes of its input, after SELU. [n, d] -> [n, hidden], float64.

    >>> module = ClassificationModule((3, 5), classes=4, config=ClassifierConfig(hidden=8))
    >>> embed(module, np.zeros((2, 5))).shape
    (2, 8)
    """
    with torch.no_grad():
        values = torch.selu(module.eval().bases[-1](torch.from_numpy(np.array(last, dtype=np.float32))))
    return values.double().numpy()


def module_from_arrays(arrays: Mapping[str, np.ndarray]) -> ClassificationModule:
    """The module of a saved model, from the arrays of its ``state_dict``."""
    numbers = sorted({int(name.split(".")[1]) for name in arrays if name.startswith("bases.")})
    columns = tuple(arrays[f"bases.{i}.0.weight"].shape[1] for i in numbers)
    hidden, (classes, width) = arrays["bases.0.0.weight"].shape[0], arrays["head.weight"].shape
    if width != hidden * len(columns):
        raise InputError(f"head.weight must have {hidden * len(columns)} columns, got {width}")
    with torch.random.fork_rng(devices=[]):  # initial weights are drawn, and thrown away
        module = ClassificationModule(columns, classes=classes, config=ClassifierConfig(hidden=hidden))
    module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    return module.eval()


def require_classifier_memory(nodes: int, fitted: int, columns: Sequence[int], hidden: int) -> None:
    """Refuse what does not fit: values of the rows that are ``fitted`` on or judged by, with gradients, and inputs of all."""
    layer = hidden * len(columns)
    needed = SINGLE * (fitted * (sum(columns) + 5 * layer) + min(nodes, PART) * 4 * layer) + DOUBLE * nodes * sum(
        columns
    )
    require_memory(
        needed, f"the classifier of {nodes:,} nodes with {len(columns)} inputs and hidden = {hidden}, {fitted:,} labels"
    )
