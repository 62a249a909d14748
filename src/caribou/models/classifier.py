"""The classification module: X^(0) and X^(K) through a base MLP each, combined, then a head (the paper, Putting it Together)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from caribou._validate import integer, one_of, unit_interval
from caribou.errors import InputError
from caribou.memory import SINGLE, require_memory
from caribou.models.threads import one_thread
from caribou.models.trainer import Validation, take_steps

COMBINE = ("cat", "sum", "max")


@dataclass(frozen=True)
class ClassifierConfig:
    """Widths and training of the module. ``hidden``: width of each base MLP's output; ``layers``: linear layers per base MLP.

    Adam on the full batch; the epoch with the best validation accuracy (then loss) is kept.
    """

    hidden: int = 64
    layers: int = 1
    combine: str = "cat"
    dropout: float = 0.3
    learning_rate: float = 0.01
    weight_decay: float = 1e-3
    epochs: int = 200

    def __post_init__(self) -> None:
        integer(at_least=1, hidden=self.hidden)
        integer(at_least=1, layers=self.layers)
        integer(at_least=1, epochs=self.epochs)
        unit_interval(dropout=self.dropout)
        one_of(COMBINE, combine=self.combine)


class ClassificationModule(nn.Module):
    """Base MLPs, combination, SELU, head. Inputs: one [n, d_i] per base -> scores [n, C]. No batch normalisation.

    >>> module = ClassificationModule((3, 5), classes=4, config=ClassifierConfig(hidden=8))
    >>> module([torch.zeros(2, 3), torch.zeros(2, 5)]).shape
    torch.Size([2, 4])
    """

    def __init__(self, columns: tuple[int, ...], *, classes: int, config: ClassifierConfig) -> None:
        super().__init__()
        self.bases = nn.ModuleList(_mlp(d, config.hidden, config.layers) for d in columns)
        self.combine = config.combine
        self.dropout = nn.Dropout(config.dropout)
        width = config.hidden * (len(columns) if config.combine == "cat" else 1)
        self.head = nn.Linear(width, classes)

    def forward(self, inputs: list[Tensor]) -> Tensor:
        parts = [base(x) for base, x in zip(self.bases, inputs, strict=True)]
        if self.combine == "cat":
            mixed = torch.cat(parts, dim=1)
        elif self.combine == "sum":
            mixed = torch.stack(parts).sum(dim=0)
        elif self.combine == "max":
            mixed = torch.stack(parts).amax(dim=0)
        else:
            raise InputError(f"combine must be one of {', '.join(COMBINE)}, got {self.combine!r}")
        return self.head(self.dropout(torch.selu(mixed)))


def _check_memory(inputs: list[np.ndarray], hidden: int) -> None:
    """Every input in single precision, and the base MLPs' values, joined and once more."""
    n = len(inputs[0])
    numbers = n * sum(part.shape[1] + 3 * hidden for part in inputs)
    require_memory(SINGLE * numbers, f"the classifier of {n:,} nodes with {len(inputs)} inputs and hidden = {hidden}")


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
) -> ClassificationModule:
    """Fit on ``train`` rows, keep the epoch that validates best. inputs: [n, d_i] each; labels: [n]. Not private."""
    _check_memory(inputs, config.hidden)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = ClassificationModule(tuple(x.shape[1] for x in inputs), classes=classes, config=config)
        x = [torch.from_numpy(np.asarray(part, dtype=np.float32)) for part in inputs]
        y = torch.from_numpy(np.asarray(labels, dtype=np.int64))
        rows, held = torch.from_numpy(np.array(train)), torch.from_numpy(np.array(val))
        optimizer = torch.optim.Adam(module.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)

        def loss(_: int) -> Tensor:
            return nn.functional.cross_entropy(module.train()([part[rows] for part in x]), y[rows])

        validation = Validation.of_module(module, lambda: module([part[held] for part in x]), y[held])
        (best,) = take_steps(loss, optimizer, steps=config.epochs, validation=validation)
    module.load_state_dict(best.state)
    return module.eval()


def classify(module: ClassificationModule, inputs: list[np.ndarray]) -> np.ndarray:
    """Scores of the module. -> [n, C], float64."""
    with torch.no_grad():
        scores = module.eval()([torch.from_numpy(np.asarray(part, dtype=np.float32)) for part in inputs])
    return scores.double().numpy()


def module_from_arrays(arrays: Mapping[str, np.ndarray]) -> ClassificationModule:
    """The module of a saved run, from the arrays of its ``state_dict``."""
    numbers = sorted({int(name.split(".")[1]) for name in arrays if name.startswith("bases.")})
    columns = tuple(arrays[f"bases.{i}.0.weight"].shape[1] for i in numbers)
    layers = sum(1 for name in arrays if name.startswith("bases.0.") and name.endswith(".weight"))
    hidden, (classes, width) = arrays["bases.0.0.weight"].shape[0], arrays["head.weight"].shape
    # "sum" and "max" have the same arrays; a run is saved with "cat" only
    if width != hidden * len(columns):
        raise InputError(f"head.weight must have {hidden * len(columns)} columns, got {width}")
    config = ClassifierConfig(hidden=hidden, layers=layers)
    with torch.random.fork_rng(devices=[]):  # initial weights are drawn, and thrown away
        module = ClassificationModule(columns, classes=classes, config=config)
    module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    return module.eval()


def _mlp(columns: int, hidden: int, layers: int) -> nn.Sequential:
    parts: list[nn.Module] = [nn.Linear(columns, hidden)]
    for _ in range(layers - 1):
        parts += [nn.SELU(), nn.Linear(hidden, hidden)]
    return nn.Sequential(*parts)
