"""Training of torch modules: steps of Adam, batches, the best of the states that were scored, and the arrays of a module.

Randomness (batches, dropout) belongs to the caller's loss, and the loop draws nothing: a fit is as deterministic as its loss. All
steps are taken, whatever the scores are, unless the caller has a patience; only the state that is kept depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from caribou._validate import integer
from caribou.models.objective import USUAL, Objective
from caribou.models.progress import tell
from caribou.models.public_rows import blocks

Score = tuple[float, ...]
"""Larger is better; later entries decide between equal first ones."""
RowSource = Callable[[np.ndarray], Any]
"""Numbers of rows, [m] -> the rows, [m, d], as the module takes them."""


def train_module(
    module: nn.Module,
    loss: Callable[[int], Tensor],
    *,
    steps: int,
    learning_rate: float,
    weight_decay: float,
    cosine: bool = False,
    score: Callable[[], Score] = tuple,
    every: int = 1,
    patience: int | None = None,
    stage: str = "training",
) -> Score:
    """Take steps of Adam on ``loss``, and leave the module in its best state, in evaluation mode.

    Args:
        module: it is changed in place. It is in training mode when ``loss`` is called, and in evaluation mode for ``score``.
        loss: the number of a step, from 1 -> the loss of that step, full batch or not, dropout included: a scalar.
        steps: how many steps are taken, at least 1.
        learning_rate: of Adam.
        weight_decay: of Adam.
        cosine: whether the learning rate falls to 0 along a cosine.
        score: of the present state; it must draw nothing from the generators of training. Of equal scores the last is kept.
        every: steps between two looks at the score. After the last step it is always looked at.
        patience: end after so many looks in a row that improved nothing; None takes all steps.
        stage: what is trained, for whoever listens (`caribou.models.progress`).

    Returns:
        The best score.

    >>> line = nn.Linear(1, 1)
    >>> best = train_module(
    ...     line,
    ...     lambda step: (line.weight - 3).square().sum(),
    ...     steps=90, learning_rate=0.1, weight_decay=0.0, score=lambda: (-abs(line.weight.item() - 2),),
    ... )
    >>> round(line.weight.item(), 1)
    2.0
    """
    integer(at_least=1, steps=steps)
    optimizer = torch.optim.Adam(module.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True)
    best: Score | None = None
    state: dict[str, Tensor] = {}
    in_vain = 0
    for step in range(1, steps + 1):
        if cosine:
            optimizer.param_groups[0]["lr"] = learning_rate * 0.5 * (1 + math.cos(math.pi * (step - 1) / steps))
        module.train()
        value = loss(step)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        tell(stage, step, steps)
        if step % every and step < steps:
            continue
        module.eval()
        with torch.no_grad():
            new = score()
        if best is None or new >= best:
            best, in_vain = new, 0
            state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        else:
            in_vain += 1
        if in_vain == patience:
            break
    module.load_state_dict(state)
    module.eval()
    return best or ()


def validation_score(
    predict: Callable[[], Tensor], labels: Tensor, objective: Objective = USUAL
) -> Callable[[], Score]:
    """Accuracy or the metric of the objective, then cross-entropy, on validation rows; without any all states are equal.

    Args:
        predict: the module's logits for the validation rows, [n, C].
        labels: [n].
        objective: what is best.
    """

    def score() -> Score:
        if len(labels) == 0:
            return ()
        logits = predict()
        if objective.metric is None:
            first = float((logits.argmax(dim=1) == labels).double().mean())
        else:
            first = objective.score(logits.double().numpy(), labels.numpy())
        return first, -float(nn.functional.cross_entropy(logits, labels))

    return score


def class_weights(objective: Objective, labels: Tensor, classes: int) -> Tensor | None:
    """The weight of every class in a loss, single precision; None where all nodes count the same. [n] -> [C]"""
    weights = objective.class_weights(labels.numpy(), classes)
    return None if weights is None else torch.from_numpy(weights.astype(np.float32))


def batches(rows: np.ndarray, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Batches without end: all rows in a random order, in ``count`` parts, then in another order.

    >>> taken = batches(np.arange(5), 2, np.random.default_rng(0))
    >>> sorted(np.concatenate([next(taken), next(taken)]).tolist())
    [0, 1, 2, 3, 4]
    """
    while True:
        yield from np.array_split(rng.permutation(rows), count)


def module_logits(module: nn.Module, rows: RowSource, numbers: np.ndarray) -> Tensor:
    """Outputs for some rows, in evaluation mode, block by block. [m] -> [m, C]"""
    module.eval()
    with torch.no_grad():
        return torch.cat([module(rows(block)) for block in blocks(numbers)] or [module(rows(numbers))])


def module_arrays(module: nn.Module, prefix: str = "") -> dict[str, np.ndarray]:
    """The state of a module as arrays for a saved model; their names begin with ``prefix``."""
    return {prefix + name: tensor.numpy() for name, tensor in module.state_dict().items()}


def load_arrays(module: nn.Module, arrays: Mapping[str, np.ndarray], prefix: str = "") -> None:
    """The inverse of `module_arrays`; other arrays may stand beside them."""
    names = module.state_dict()
    module.load_state_dict({name: torch.from_numpy(np.array(arrays[prefix + name])) for name in names})
    module.eval()
