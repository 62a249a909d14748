"""The public schedule of the linear model, its random features, and shrinkage."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from caribou.models import linear
from caribou.models.features import centred_unit_rows
from caribou.models.linear import chain_logits, default_logit_noise, path_length_schedule, selu_network, shrink_rows
from descent_support import C, D, data, mlp


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


def test_centred_sparse_rows_give_the_outputs_of_the_explicit_matrix() -> None:
    rows = centred_unit_rows(sp.csr_array(data()[0]), np.full(D, 0.2))
    assert np.allclose(chain_logits(mlp(), rows), chain_logits(mlp(), rows.times(np.eye(D))))


def test_only_the_last_weights_are_drawn_and_not_by_the_global_generator() -> None:
    before = torch.get_rng_state()
    network = selu_network(D, 400, C, np.random.default_rng(0))
    assert torch.equal(torch.get_rng_state(), before)
    values = {name: p.detach() for name, p in network.named_parameters()}
    assert all(float(values[name].abs().max()) == 0 for name in ("0.weight", "0.bias", "2.bias"))
    assert float(values["2.weight"].std()) == pytest.approx(400**-0.5, rel=0.1)
    assert all(p.dtype == torch.float64 and p.requires_grad for p in network.parameters())
