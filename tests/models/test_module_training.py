"""Training of a module: it learns, keeps its best state, and follows the seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from caribou.models import module_training
from caribou.models.module_training import STEPS, batches_and_steps, module_logits, train_module

pytestmark = pytest.mark.usefixtures("short_training")
RNG = np.random.default_rng(0)
X = torch.from_numpy(RNG.standard_normal((700, 3)).astype(np.float32))
LABELS = (X[:, 0] * X[:, 1] > 0).long().numpy()


def trained(seed: int, weights: np.ndarray | None = None) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2))
    return train_module(module, X.__getitem__, np.arange(500), LABELS, np.random.default_rng(seed), weights)


def test_it_learns_what_is_not_linear_and_follows_the_seed() -> None:
    first, again = (module_logits(trained(0), X.__getitem__, np.arange(500, 700)) for _ in range(2))
    assert torch.equal(first, again)
    assert (first.argmax(dim=1).numpy() == LABELS[500:]).mean() > 0.75


def test_class_weights_move_the_decision() -> None:
    shares = [
        float((module_logits(trained(0, w), X.__getitem__, np.arange(700)).argmax(dim=1) == 1).double().mean())
        for w in (np.array([1.0, 0.02]), np.array([0.02, 1.0]))
    ]
    assert shares[0] + 0.2 < shares[1]


def test_steps_follow_the_rows_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_training, "EPOCHS", (8, 80))
    assert batches_and_steps(32) == (1, 80)
    assert batches_and_steps(50 * 512) == (50, STEPS)
    assert batches_and_steps(1000 * 512) == (1000, 8 * 1000)
