"""The training loop: steps of an optimiser, and the best of the states that validation looked at.

Randomness (batches, dropout) belongs to the caller's loss, and the loop draws nothing: a fit is as deterministic as its loss. All
steps are taken, whatever validation says, unless the caller has a patience; only the state that is returned depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from caribou._validate import integer
from caribou.models.fit_context import tell
from caribou.models.objective import USUAL, Objective

State = TypeVar("State")
Score = tuple[float, float]
"""Larger is better; the second decides between equal first ones, if the rule of the validation asks for it."""


def at_least(new: Score, best: Score) -> bool:
    """Of equal scores the last is kept. Without validation nodes all are equal, so the last state is kept.

    >>> at_least((0.9, -0.3), (0.9, -0.3)), at_least((0.9, -0.4), (0.9, -0.3))
    (True, False)
    """
    return new >= best


def first_larger(new: Score, best: Score) -> bool:
    """Only the first entry counts, and of equal ones the first is kept.

    >>> first_larger((0.9, 0.0), (0.9, -1.0)), first_larger((0.91, 0.0), (0.9, 0.0))
    (False, True)
    """
    return new[0] > best[0]


@dataclass(frozen=True, eq=False)
class Checkpoint(Generic[State]):
    """A state that was kept: after which step, with which score."""

    step: int
    score: Score
    state: State


@dataclass(frozen=True, eq=False)
class Validation(Generic[State]):
    """How the states of a fit are scored and kept. Several models may be trained side by side, each with a best state of its own.

    Args:
        scores: one score per model, of its present state. Must draw nothing from the generators of training.
        state: the number of a model -> a copy of its present state.
        improves: (new score, best score so far) -> whether the new state takes the place of the best one.
        due: the number of a step, from 1 -> whether states are scored after it. After the last step they always are.
    """

    scores: Callable[[], Sequence[Score]]
    state: Callable[[int], State]
    improves: Callable[[Score, Score], bool] = at_least
    due: Callable[[int], bool] = lambda step: True

    @staticmethod
    def of_module(
        module: nn.Module,
        predict: Callable[[], Tensor],
        labels: Tensor,
        *,
        every: int = 1,
        objective: Objective = USUAL,
    ) -> Validation[dict[str, Tensor]]:
        """One module, scored by accuracy or the metric of the objective, then cross-entropy, on validation rows.

        Of equal scores the last is kept.

        Args:
            module: it is put into evaluation mode before it is scored.
            predict: the module's logits for the validation rows, [n, C].
            labels: [n]; with n = 0 nothing is predicted, and the last state is kept.
            every: steps between two looks.
            objective: what is best.
        """

        def scores() -> list[Score]:
            if len(labels) == 0:
                return [(0.0, 0.0)]
            module.eval()
            with torch.no_grad():
                logits = predict()
            if objective.metric is None:
                first = float((logits.argmax(dim=1) == labels).double().mean())
            else:
                first = objective.score(logits.double().numpy(), labels.numpy())
            return [(first, -float(nn.functional.cross_entropy(logits, labels)))]

        def state(_: int) -> dict[str, Tensor]:
            return {name: value.clone() for name, value in module.state_dict().items()}

        return Validation(scores, state, due=lambda step: step % every == 0)


def take_steps(
    loss: Callable[[int], Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    steps: int,
    validation: Validation[State] | None = None,
    learning_rate: Callable[[int], float] | None = None,
    patience: int | None = None,
    stage: str = "training",
) -> list[Checkpoint[State]]:
    """Take ``steps`` steps of ``optimizer`` on ``loss``, and keep the best state of every model.

    Args:
        loss: the number of a step, from 1 -> the loss of that step, full batch or not, dropout included: a scalar.
        optimizer: of the parameters, which are changed in place.
        steps: how many steps are taken, at least 1.
        validation: how states are scored; None keeps none of them.
        learning_rate: the number of a step -> the learning rate of that step; None leaves it as it is.
        patience: end after so many looks in a row that improved no model; None takes all steps.
        stage: what is trained, for whoever listens (`caribou.models.fit_context`).

    Returns:
        The best checkpoint of each model, in the order of ``validation.scores``. The model is left in its last state: loading
        the best one is up to the caller.

    >>> x = torch.tensor([4.0], requires_grad=True)
    >>> halve = torch.optim.SGD([x], lr=0.25)                              # x <- x - 0.25 (2 x)
    >>> near_one = Validation(lambda: [(-abs(x.item() - 1), 0.0)], lambda _: x.item())
    >>> take_steps(lambda step: (x**2).sum(), halve, steps=5, validation=near_one)
    [Checkpoint(step=2, score=(-0.0, 0.0), state=1.0)]
    >>> x.item()
    0.125
    """
    integer(at_least=1, steps=steps)
    best: list[Checkpoint[State]] = []
    looks_in_vain = 0
    for step in range(1, steps + 1):
        if learning_rate is not None:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step)
        value = loss(step)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        tell(stage, step, steps)
        if validation is not None and (validation.due(step) or step == steps):
            looks_in_vain = 0 if _keep(best, step, validation) else looks_in_vain + 1
            if looks_in_vain == patience:
                break
    return best


def _keep(best: list[Checkpoint[State]], step: int, validation: Validation[State]) -> bool:
    """Put the present state of each model in the place of its best one, if it improves on it; whether any does."""
    improved = False
    for model, score in enumerate(validation.scores()):
        if model == len(best):
            best.append(Checkpoint(step, score, validation.state(model)))
        elif validation.improves(score, best[model].score):
            best[model] = Checkpoint(step, score, validation.state(model))
        else:
            continue
        improved = True
    return improved
