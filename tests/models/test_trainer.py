"""The training loop: against a loop written out, which state is kept, and when it looks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from caribou.models.trainer import Score, Validation, at_least, first_larger, take_steps


def counter() -> tuple[Tensor, torch.optim.Optimizer, Callable[[int], Tensor]]:
    """A parameter that every step raises by 1."""
    x = torch.zeros(1, requires_grad=True)
    return x, torch.optim.SGD([x], lr=1.0), lambda step: -x.sum()


def scored(x: Tensor, scores: list[float], **rules) -> Validation[float]:
    """The state after step k has the k-th score."""
    return Validation(lambda: [(scores[round(x.item()) - 1], 0.0)], lambda _: x.item(), **rules)


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.4), nn.ReLU(), nn.Linear(8, 3))


X = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0.5).long()


def test_it_is_the_loop_written_out() -> None:
    """Bit by bit, with dropout and a learning rate that falls: the loop draws nothing and leaves nothing over."""
    ours, theirs = network(1), network(1)
    torch.manual_seed(7)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=0.1)
    for step in range(1, 13):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / step
        loss = nn.functional.cross_entropy(theirs(X[step : step + 20]), Y[step : step + 20])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.manual_seed(7)
    take_steps(
        lambda step: nn.functional.cross_entropy(ours.train()(X[step : step + 20]), Y[step : step + 20]),
        torch.optim.Adam(ours.parameters(), lr=0.1),
        steps=12,
        validation=Validation.of_module(ours, lambda: ours(X), Y),
        learning_rate=lambda step: 0.1 / step,
    )
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_best_state_is_kept_and_the_model_left_in_its_last() -> None:
    x, optimizer, loss = counter()
    (best,) = take_steps(loss, optimizer, steps=6, validation=scored(x, [1, 3, 2, 5, 4, 0]))
    assert (best.step, best.score, best.state) == (4, (5, 0.0), 4.0)
    assert x.item() == 6


@pytest.mark.parametrize(("improves", "kept"), [(at_least, 5), (first_larger, 2)])
def test_of_equal_scores_the_rule_decides(improves: Callable[[Score, Score], bool], kept: int) -> None:
    x, optimizer, loss = counter()
    validation = scored(x, [1, 3, 3, 2, 3, 0], improves=improves)
    (best,) = take_steps(loss, optimizer, steps=6, validation=validation)
    assert best.step == kept


class TestOfModule:
    def test_the_kept_state_is_a_copy_and_the_best_of_the_fit(self) -> None:
        """Labels of validation that training moves away from: an early state is the best, and later steps do not touch it."""
        module = network(2)
        opposed = (Y + 1) % 3
        validation = Validation.of_module(module, lambda: module(X), opposed)
        torch.manual_seed(0)
        (best,) = take_steps(
            lambda _: nn.functional.cross_entropy(module.train()(X), Y),
            torch.optim.Adam(module.parameters(), lr=0.05),
            steps=40,
            validation=validation,
        )
        assert best.step < 40
        assert validation.scores()[0] < best.score
        module.load_state_dict(best.state)
        assert validation.scores()[0] == best.score


def test_patience_ends_after_looks_that_improved_nothing() -> None:
    x = torch.tensor([4.0], requires_grad=True)
    taken: list[int] = []

    def loss(step: int) -> torch.Tensor:
        taken.append(step)
        return (x**2).sum()

    near_one = Validation(lambda: [(-abs(x.item() - 1), 0.0)], lambda _: x.item())
    (best,) = take_steps(loss, torch.optim.SGD([x], lr=0.25), steps=50, validation=near_one, patience=3)
    assert best.step == 2
    assert taken == [1, 2, 3, 4, 5]
