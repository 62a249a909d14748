"""Private training: the noise against its claim, determinism, optimisers, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from attack_support import require_std
from caribou.errors import InputError
from caribou.mechanisms.clipped_gradients import clipped_gradient_sum
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.noisy_descent import (
    Adam,
    Descent,
    average_noise_variance,
    noisy_gradient_descent,
    train_privately,
)
from descent_support import C, D, N, data, full_batch, mlp, vector


@dataclass(frozen=True)
class Plain(Adam):
    """Steps that are the noisy gradients themselves, so that noise can be seen in them; the last iterate is returned."""

    average_from: float = 1.0

    def updates(self, gradients: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
        for gradient in gradients:
            yield -self.learning_rate * gradient


def test_noise_of_the_linear_model_has_the_claimed_std() -> None:
    """No example at all: the first iterate is minus step_size times the noise."""
    schedule, multiplier = Descent(steps=1, clip=0.3, step_size=2.0), 5.0
    x, y = np.zeros((0, 5000)), np.zeros(0, dtype=np.int64)
    weights = noisy_gradient_descent(
        x, y, classes=8, schedule=schedule, calibrated=full_batch(1, multiplier), noise=NoiseSource.secure()
    )
    require_std(weights.ravel() / schedule.step_size, 0.3 * multiplier)


def test_noise_of_a_module_has_the_claimed_std_and_is_divided_by_the_constant() -> None:
    module = nn.Linear(3000, 10)
    x, y = np.zeros((0, 3000)), np.zeros(0, dtype=np.int64)
    trained = train_privately(
        module,
        x,
        y,
        clip=0.5,
        divisor=64,
        optimizer=Plain(2.0),
        calibrated=full_batch(1, 4.0),
        noise=NoiseSource.secure(),
    )
    before = nn.utils.parameters_to_vector(module.parameters()).double()
    sample = (nn.utils.parameters_to_vector(trained.parameters()) - before).detach().numpy() * 64 / 2
    require_std(sample, 2.0)


@pytest.mark.parametrize("steps", [1, 17])
def test_draws_equal_steps(steps: int) -> None:
    x, y = data()
    noise = NoiseSource.seeded(0)
    schedule = Descent(steps=steps, clip=0.3, step_size=0.1)
    noisy_gradient_descent(x, y, classes=C, schedule=schedule, calibrated=full_batch(steps, 1.0), noise=noise)
    assert noise.draws == steps
    noise = NoiseSource.seeded(0)
    fit(mlp(), steps, noise=noise)
    assert noise.draws == steps


def test_without_privacy_nothing_is_drawn_and_with_no_share_nothing_runs() -> None:
    x, y = data()
    noise = NoiseSource.seeded(0)
    schedule = Descent(steps=3, clip=0.3, step_size=0.1)
    noisy_gradient_descent(x, y, classes=C, schedule=schedule, calibrated=full_batch(3, 0.0), noise=noise)
    assert noise.draws == 0
    with pytest.raises(InputError, match="must have a share of the budget"):
        noisy_gradient_descent(x, y, classes=C, schedule=schedule, calibrated=full_batch(3, math.inf), noise=noise)


def fit(
    module: nn.Module,
    steps: int,
    *,
    multiplier: float = 1.0,
    optimizer: Adam | None = None,
    noise: NoiseSource,
    x: np.ndarray | None = None,
    y: np.ndarray | None = None,
) -> nn.Module:
    features, labels = data()
    return train_privately(
        module,
        features if x is None else x,
        labels if y is None else y,
        clip=0.5,
        divisor=N,
        optimizer=optimizer or Plain(0.1),
        calibrated=full_batch(steps, multiplier),
        noise=noise,
    )


def test_adam_agrees_with_that_of_torch() -> None:
    """With a huge clip and no noise it is the optimiser of torch on the full batch."""
    x, y = data()
    ours = fit(mlp(), 12, multiplier=0.0, optimizer=Adam(0.05, average_from=1.0), noise=NoiseSource.seeded(0))
    theirs = mlp()
    torch_rule = torch.optim.Adam(theirs.parameters(), 0.05)
    for _ in range(12):
        sums = clipped_gradient_sum(theirs, x, y, 0.5)
        for p, g in zip(theirs.parameters(), sums, strict=True):
            p.grad = g / N
        torch_rule.step()
    assert np.allclose(vector(ours), vector(theirs), atol=1e-4)


def test_noise_does_not_depend_on_the_model_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing the initial weights leaves the noise bit-identical, and the reverse."""
    drawn: list[np.ndarray] = []
    original = NoiseSource.gaussian

    def spy(self, shape, **kwargs):
        drawn.append(original(self, shape, **kwargs))
        return drawn[-1]

    monkeypatch.setattr(NoiseSource, "gaussian", spy)
    for seed in (0, 1):
        fit(mlp(seed), 4, noise=NoiseSource.seeded(9))
    assert all(np.array_equal(a, b) for a, b in zip(drawn[:4], drawn[4:], strict=True))


def test_iterates_are_averaged() -> None:
    last = vector(fit(mlp(), 8, optimizer=Plain(0.5), noise=NoiseSource.seeded(0)))
    averaged = vector(fit(mlp(), 8, optimizer=Plain(0.5, average_from=0.5), noise=NoiseSource.seeded(0)))
    partial = [vector(fit(mlp(), k, optimizer=Plain(0.5), noise=NoiseSource.seeded(0))) for k in (5, 6, 7, 8)]
    assert not np.allclose(last, averaged)
    assert np.allclose(averaged, np.mean(partial, axis=0))


def test_the_divisor_is_declared() -> None:
    """The number of rows enters the sum, not the divisor: doubling the divisor halves every step exactly."""
    x, y = data()
    kwargs = {"clip": 0.5, "optimizer": Plain(0.1), "noise": NoiseSource.seeded(3)}
    part = full_batch(1, 1.0)
    start = vector(mlp())
    one = vector(train_privately(mlp(), x, y, divisor=10, calibrated=part, **kwargs)) - start
    kwargs["noise"] = NoiseSource.seeded(3)
    two = vector(train_privately(mlp(), x, y, divisor=20, calibrated=part, **kwargs)) - start
    assert np.allclose(one, 2 * two)


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(6), nn.InstanceNorm1d(6, track_running_stats=True)])
def test_batch_statistics_are_refused(norm: nn.Module) -> None:
    with pytest.raises(InputError, match="must be a chain"):
        fit(nn.Sequential(nn.Linear(D, 6), norm, nn.Linear(6, C)), 2, noise=NoiseSource.seeded(0))


def test_descent_is_the_loop_written_out() -> None:
    """Without noise: heavy-ball momentum on clipped gradients, and the mean of the last half of the iterates."""
    x, y = data()
    schedule = Descent(steps=5, clip=0.4, step_size=0.3, momentum=0.8)
    weights, velocity, iterates = np.zeros((D, C)), np.zeros((D, C)), []
    for _ in range(5):
        total = np.zeros((D, C))
        for row, label in zip(x, y, strict=True):
            scores = np.exp(row @ weights)
            gradient = np.outer(row, scores / scores.sum() - np.eye(C)[label])
            total += gradient * min(1, 0.4 / np.linalg.norm(gradient))
        velocity = 0.8 * velocity + 0.2 * total
        weights = weights - 0.3 * velocity
        iterates.append(weights)
    ours = noisy_gradient_descent(
        x, y, classes=C, schedule=schedule, calibrated=full_batch(5, 0.0), noise=NoiseSource.seeded(0)
    )
    assert np.allclose(ours, np.mean(iterates[2:], axis=0), rtol=1e-5)


def test_a_sensitivity_of_more_clips_means_so_much_more_noise() -> None:
    schedule = Descent(steps=1, clip=0.3, step_size=1.0)
    x, y = np.zeros((0, 50)), np.zeros(0, dtype=np.int64)
    noise = [
        noisy_gradient_descent(
            x,
            y,
            classes=C,
            schedule=schedule,
            calibrated=full_batch(1, 2.0),
            noise=NoiseSource.seeded(0),
            sensitivity_multiple=multiple,
        )
        for multiple in (1.0, 8.0)
    ]
    assert np.allclose(noise[1], 8 * noise[0], rtol=1e-6)
    part = full_batch(1, 2.0)
    assert average_noise_variance(schedule, part, 8.0) == pytest.approx(64 * average_noise_variance(schedule, part))


def test_bad_arguments() -> None:
    x, y = data()
    noise = NoiseSource.seeded(0)
    descent = {"classes": C, "schedule": Descent(steps=3, clip=0.3, step_size=0.1), "noise": noise}
    good = {"labels": y, "calibrated": full_batch(3, 1.0)}
    for change, message in (
        ({"calibrated": full_batch(4, 1.0)}, "must be 3 steps"),
        ({"labels": y - 1}, f"labels must be classes 0 to {C - 1}, got -1 to"),
        ({"labels": y[1:]}, r"labels must be one whole number per row \(30\)"),
        ({"labels": y.astype(float)}, "labels must be one whole number per row"),
        ({"max_rows": 29}, "rows must be at most max_rows = 29, got 30"),
    ):
        given = {**good, **change}
        with pytest.raises(InputError, match=message):
            noisy_gradient_descent(x, given.pop("labels"), **descent, **given)
    with pytest.raises(InputError, match="labels must be classes from 0, got -1"):
        fit(mlp(), 2, noise=noise, y=y - 1)
    with pytest.raises(InputError, match="momentum must be in"):
        Descent(steps=3, clip=0.3, step_size=0.1, momentum=1.0)
    with pytest.raises(InputError, match="must be a chain"):
        fit(nn.Identity(), 2, noise=noise)
    assert noise.draws == 0
