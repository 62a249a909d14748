"""Any torch module as a classifier of public rows: mini-batches, a cosine learning rate, early stopping.

Rows are asked for batch by batch, so a tall table is read and not held. The number of steps follows the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from caribou.models.public_rows import blocks
from caribou.models.trainer import Validation, take_steps

BATCHES = (32, 512)
"""A sixteenth of the rows, but at least and at most so many."""
STEPS = 1600
EPOCHS = (8, 80)
"""STEPS batches are taken, but at least and at most so many passes over the rows."""
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-4
HELD_OUT, MOST_HELD_OUT = 0.1, 5000
"""Share of the rows, and how many at most, that choose when to stop; no step is taken on them."""
LOOKS, PATIENCE = 16, 4
"""The held-out rows are looked at so often, and training ends after so many looks without a smaller loss."""

RowSource = Callable[[np.ndarray], Tensor]
"""Numbers of rows, [m] -> the rows, [m, d], float32."""


def batches_and_steps(rows: int) -> tuple[int, int]:
    """How many batches a pass over the rows has, and how many are taken in all.

    >>> batches_and_steps(450), batches_and_steps(15_000), batches_and_steps(400_000)
    ((15, 1200), (30, 1600), (782, 6256))
    """
    each = -(-rows // int(np.clip(rows // 16, *BATCHES)))
    return each, int(np.clip(STEPS, EPOCHS[0] * each, EPOCHS[1] * each))


def train_module(
    module: nn.Module,
    rows: RowSource,
    train: np.ndarray,
    labels: np.ndarray,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> nn.Module:
    """Minimise the cross-entropy of the module's logits, and put it into the state with the least loss on held-out rows.

    Args:
        module: [m, d] -> logits, [m, C]; it is changed in place. Its own randomness (dropout) is torch's global generator.
        rows: of any numbers.
        train: [m], numbers of the labelled rows; a random part of them is held out.
        labels: [n]; only those of ``train`` are read.
        rng: draws held-out rows and batches.
        weights: [C], of the classes in the loss; None: all are 1.

    Returns:
        The module, in evaluation mode.
    """
    order = rng.permutation(train)
    held = order[: min(MOST_HELD_OUT, int(HELD_OUT * len(order)))]
    used = order[len(held) :]
    y = torch.from_numpy(np.array(labels))
    weight = None if weights is None else torch.from_numpy(weights).float()
    optimizer = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    each, steps = batches_and_steps(len(used))
    batches: list[np.ndarray] = []

    def loss(step: int) -> Tensor:
        if not batches:
            batches.extend(np.array_split(rng.permutation(used), each))
        batch = batches.pop()
        module.train()
        return nn.functional.cross_entropy(module(rows(batch)), y[batch], weight=weight)

    def scores() -> list[tuple[float, float]]:
        if len(held) == 0:
            return [(0.0, 0.0)]
        logits = module_logits(module, rows, held)
        return [(-float(nn.functional.cross_entropy(logits, y[held], weight=weight)), 0.0)]

    def state(_: int) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in module.state_dict().items()}

    look = max(1, steps // LOOKS)
    (best,) = take_steps(
        loss,
        optimizer,
        steps=steps,
        validation=Validation(scores, state, due=lambda step: step % look == 0),
        learning_rate=lambda step: LEARNING_RATE * 0.5 * (1 + float(np.cos(np.pi * (step - 1) / steps))),
        patience=PATIENCE,
        stage="encoder",
    )
    module.load_state_dict(best.state)
    return module.eval()


def module_logits(module: nn.Module, rows: RowSource, numbers: np.ndarray) -> Tensor:
    """Logits of some rows, in evaluation mode, block by block. [m] -> [m, C]"""
    module.eval()
    with torch.no_grad():
        return torch.cat([module(rows(block)) for block in blocks(numbers)] or [module(rows(numbers))])
