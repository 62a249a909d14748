"""The training loop: against a loop written out, which state is kept, when it looks, and arrays of a module."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from caribou.errors import InputError
from caribou.models.objective import Objective
from caribou.models.trainer import (
    Score,
    batches,
    load_arrays,
    module_arrays,
    module_logits,
    train_module,
    validation_score,
)

X = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0.5).long()


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.4), nn.ReLU(), nn.Linear(8, 3))


def walked(scores: list[float], **rules: int) -> tuple[float, list[int], Score]:
    """Step k moves a parameter by about 1 to k, and that state has the k-th score: where it ends, the looks, the best score."""
    module = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(module.weight)
    looks: list[int] = []

    def score() -> Score:
        looks.append(round(module.weight.item()))
        return (scores[looks[-1] - 1],)

    best = train_module(
        module,
        lambda _: -module.weight.sum(),
        steps=len(scores),
        learning_rate=1.0,
        weight_decay=0.0,
        score=score,
        **rules,
    )
    return module.weight.item(), looks, best


def test_it_is_the_loop_written_out() -> None:
    """Bit by bit, with dropout and a learning rate that falls: the loop draws nothing and leaves nothing over."""
    ours, theirs = network(1), network(1)
    torch.manual_seed(7)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=0.1, weight_decay=0.01, fused=True)
    for step in range(1, 13):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * 0.5 * (1 + math.cos(math.pi * (step - 1) / 12))
        loss = nn.functional.cross_entropy(theirs(X[step : step + 20]), Y[step : step + 20])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.manual_seed(7)
    train_module(
        ours,
        lambda step: nn.functional.cross_entropy(ours(X[step : step + 20]), Y[step : step + 20]),
        steps=12,
        learning_rate=0.1,
        weight_decay=0.01,
        cosine=True,
        score=lambda: (float(len(ours(X))),),  # all are equal, so the last is kept
    )
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not ours.training


@pytest.mark.parametrize(
    ("scores", "rules", "kept", "looks"),
    [
        ([1, 3, 2, 5, 4, 0], {}, 4, [1, 2, 3, 4, 5, 6]),
        ([1, 3, 3, 2, 3, 0], {}, 5, [1, 2, 3, 4, 5, 6]),  # of equal ones the last
        ([9, 9, 1, 9, 9, 2, 9, 0], {"every": 3}, 6, [3, 6, 8]),  # the last state is always looked at
        ([1, 3, 2, 2, 2, 5, 6], {"patience": 3}, 2, [1, 2, 3, 4, 5]),
    ],
)
def test_the_best_state_is_kept(scores: list[float], rules: dict[str, int], kept: int, looks: list[int]) -> None:
    end, seen, best = walked(scores, **rules)
    assert end == pytest.approx(kept, abs=1e-3)
    assert seen == looks
    assert best == (scores[kept - 1],)


def test_a_validation_score_is_accuracy_then_minus_cross_entropy() -> None:
    module = network(0).eval()
    logits = module(X).detach()
    accuracy, minus_loss = validation_score(lambda: logits, Y)()
    assert accuracy == pytest.approx(float((logits.argmax(dim=1) == Y).double().mean()))
    assert minus_loss == pytest.approx(-float(nn.functional.cross_entropy(logits, Y)))
    other = Objective("macro_f1")
    assert validation_score(lambda: logits, Y, other)()[0] == other.score(logits.double().numpy(), Y.numpy())


def test_without_validation_rows_nothing_is_predicted() -> None:
    def predict() -> Tensor:
        raise AssertionError("nobody to predict")

    assert validation_score(predict, Y[:0])() == ()


def test_no_steps_are_refused() -> None:
    with pytest.raises(InputError) as raised:
        train_module(network(0), lambda _: X.sum(), steps=0, learning_rate=0.1, weight_decay=0.0)
    assert raised.value.field == "steps"


def test_batches_go_through_all_rows_before_one_comes_again() -> None:
    drawn = batches(np.arange(100, 110), 3, np.random.default_rng(0))
    for _ in range(2):
        assert sorted(np.concatenate([next(drawn) for _ in range(3)])) == list(range(100, 110))


@pytest.mark.parametrize("make", [lambda: network(3), lambda: nn.Linear(4, 3)])
def test_arrays_of_a_module_are_its_state(make: Callable[[], nn.Module]) -> None:
    module, other = make(), make()
    arrays = module_arrays(module, "some.") | {"other": np.zeros(2)}
    load_arrays(other, arrays, "some.")
    rows = np.array([3, 0])
    assert torch.equal(module_logits(other, X.__getitem__, rows), module_logits(module, X.__getitem__, rows))
