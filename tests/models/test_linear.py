"""The public schedule of the linear model, its random features, and shrinkage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from caribou.models import linear
from caribou.models.linear import default_logit_noise, path_length_schedule, shrink_rows


@pytest.mark.parametrize("mu", [0.05, 0.4, 1.0, 3.9])
@pytest.mark.parametrize("train_size", [30, 2000, 90_000])
def test_the_schedule_leaves_the_stated_noise_in_the_logits(mu: float, train_size: int) -> None:
    """T steps of std step_size c z, z = sqrt(T) / mu: a walk whose end has std logit_noise in every entry of W."""
    for logit_noise in (None, 0.5):
        schedule = path_length_schedule(mu=mu, train_size=train_size, logit_noise=logit_noise, clip=0.3)
        z = math.sqrt(schedule.steps) / mu
        end = math.sqrt(schedule.steps) * schedule.step_size * schedule.clip * z
        assert end == pytest.approx(logit_noise or default_logit_noise(mu), rel=1e-12)
        assert linear.MIN_STEPS <= schedule.steps <= linear.MAX_STEPS
        assert schedule.momentum == (0.8 if schedule.steps == linear.MAX_STEPS else 0.0)


def test_shrinkage_by_hand() -> None:
    """||W_j||^2 after centring is 2, 18 and 0; k (C - 1) s^2 = 0.5 * 2 * 6 = 6."""
    weights = np.array([[1.0, 0.0, -1.0], [5.0, 2.0, -1.0], [7.0, 7.0, 7.0]])
    shrunk = shrink_rows(weights, noise_variance=6.0, strength=0.5)
    assert np.allclose(shrunk, [[0, 0, 0], [2, 0, -2], [0, 0, 0]])
    assert np.allclose(shrink_rows(weights, noise_variance=6.0, strength=0.0), weights - weights.mean(axis=1)[:, None])
