"""Clipped sums against brute force, against Opacus, and what one example can do to them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn

from caribou.errors import InputError
from caribou.mechanisms.bounded_rows import Rows
from caribou.mechanisms.clipped_gradients import (
    chain_layers,
    clipped_gradient_sum,
    linear_clipped_sum,
)
from caribou.models.features import centred_unit_rows, with_random_features
from descent_support import C, D, N, Residual, brute_force, data, mlp


@pytest.mark.parametrize("clip", [0.7, 100.0])
@pytest.mark.parametrize("module", [mlp(), mlp(bias=False), nn.Linear(D, C).double()])
def test_clipped_sums_equal_brute_force(module: nn.Module, clip: float) -> None:
    x, y = data()
    expected, norms = brute_force(module, x, y, clip)
    assert max(norms) <= clip * (1 + 1e-12)
    ours = clipped_gradient_sum(module, x, y, clip)
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected, strict=True):
        assert np.allclose(a.numpy(), b, rtol=1e-10, atol=1e-12)


def test_centred_sparse_rows_give_the_sums_of_the_explicit_matrix() -> None:
    x, y = data()
    rows = centred_unit_rows(sp.csr_array(x), np.full(D, 0.2))
    explicit = rows.times(np.eye(D))
    for a, b in zip(
        clipped_gradient_sum(mlp(), rows, y, 0.3), clipped_gradient_sum(mlp(), explicit, y, 0.3), strict=True
    ):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-12)


def test_sums_equal_opacus() -> None:
    opacus = pytest.importorskip("opacus")
    x, y = data()
    module = mlp(4)
    expected, _ = brute_force(module, x, y, 0.5)
    sample = opacus.GradSampleModule(mlp(4), loss_reduction="sum")
    nn.functional.cross_entropy(sample(torch.from_numpy(x)), torch.from_numpy(y), reduction="sum").backward()
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.SGD(sample.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=0.5,
        expected_batch_size=1,
        loss_reduction="sum",
    )
    optimizer.clip_and_accumulate()
    for ours, p, b in zip(clipped_gradient_sum(module, x, y, 0.5), sample.parameters(), expected, strict=True):
        # Opacus divides by norm + 1e-6
        assert np.allclose(ours.numpy(), p.summed_grad.numpy(), rtol=1e-4, atol=1e-5)
        assert np.allclose(ours.numpy(), b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("clip", [0.1, 0.9, 50.0])
def test_linear_sums_equal_brute_force(sparse: bool, clip: float) -> None:
    x, y = data(1)
    weights = np.random.default_rng(2).standard_normal((D, C))
    module = nn.Linear(D, C, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(weights.T))
    expected, _ = brute_force(module, x, y, clip)
    rows = Rows.of(sp.csr_array(x) if sparse else x)
    assert np.allclose(linear_clipped_sum(rows, y, weights, clip), expected[0].T, rtol=1e-10, atol=1e-12)


def test_removing_one_example_moves_the_sum_by_at_most_the_clip() -> None:
    x, y = data(5)
    clip = 0.4
    rows, weights = Rows.of(x), np.random.default_rng(0).standard_normal((D, C))
    modules = [mlp(7), mlp(8, bias=False)]
    linear = linear_clipped_sum(rows, y, weights, clip)
    others = [clipped_gradient_sum(m, x, y, clip) for m in modules]
    largest = 0.0
    for i in range(N):
        keep = np.delete(np.arange(N), i)
        moved = np.linalg.norm(linear - linear_clipped_sum(rows.take(keep), y[keep], weights, clip))
        assert moved <= clip * (1 + 1e-9)
        largest = max(largest, moved)
        for module, total in zip(modules, others, strict=True):
            less = clipped_gradient_sum(module, x[keep], y[keep], clip)
            assert math.sqrt(sum(float((a - b).square().sum()) for a, b in zip(total, less, strict=True))) <= clip * (
                1 + 1e-9
            )
    assert largest > 0.99 * clip  # the bound is reached: the test has teeth


def test_an_example_that_overflows_contributes_nothing() -> None:
    x, y = data(6)
    kept = clipped_gradient_sum(mlp(1), x[1:], y[1:], 0.5)
    for huge in (1e200, np.inf):
        broken = x.copy()
        broken[0] = huge
        for a, b in zip(clipped_gradient_sum(mlp(1), broken, y, 0.5), kept, strict=True):
            assert torch.allclose(a, b)


def test_every_contribution_with_random_features_is_clipped() -> None:
    """One example alone: its gradient has norm at most the clip, and the closed form is that of the explicit rows."""
    x, y = data(2)
    z = centred_unit_rows(x, np.zeros(D))
    joined = with_random_features(z, np.random.default_rng(0).standard_normal((D, 9)), share=0.1)
    weights = np.random.default_rng(1).standard_normal((D + 9, C))
    parts = [linear_clipped_sum(joined.take(np.array([i])), y[[i]], weights, 0.3) for i in range(N)]
    assert max(np.linalg.norm(p) for p in parts) <= 0.3 * (1 + 1e-12)
    assert np.allclose(sum(parts), linear_clipped_sum(Rows.of(joined.times(np.eye(D + 9))), y, weights, 0.3))


LINEAR, FROZEN = nn.Linear(3, 3), nn.Linear(3, 3).requires_grad_(False)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(LINEAR, nn.Tanh(), LINEAR),
        nn.Sequential(LINEAR, FROZEN),
        nn.Sequential(nn.Tanh(), LINEAR),
        nn.Sequential(LINEAR, nn.LayerNorm(3)),
        nn.Sequential(LINEAR, nn.BatchNorm1d(3)),
        nn.Sequential(LINEAR, nn.InstanceNorm1d(3, track_running_stats=True)),
        nn.Sequential(),
        Residual(),
    ],
)
def test_a_module_that_is_no_chain_is_refused(module: nn.Module) -> None:
    """A layer used twice, a frozen one, or one that may tie examples together."""
    with pytest.raises(InputError, match="must be a chain"):
        chain_layers(module)
