"""Shared by the tests of private training: small data, modules, and one backward pass per example."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from caribou.privacy.allocation import AllocatedPart, Part

N, D, C = 30, 7, 4


def data(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, D)) * (rng.random((n, D)) < 0.6), rng.integers(C, size=n)


def full_batch(steps: int, multiplier: float) -> AllocatedPart:
    return AllocatedPart(Part("training", steps), multiplier)


def mlp(seed: int = 0, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = (nn.Linear(D, 6, bias=bias), nn.SELU(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, C))
    return nn.Sequential(*layers).double()


class Residual(nn.Module):
    """A module that is no chain, with a layer norm and a frozen part."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.norm, self.last = nn.Linear(D, D), nn.LayerNorm(D), nn.Linear(D, C)
        self.frozen = nn.Linear(D, D).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(x + torch.relu(self.first(x)) + self.frozen(x)))


def brute_force(module: nn.Module, x: np.ndarray, y: np.ndarray, clip: float) -> tuple[list[np.ndarray], list[float]]:
    """One backward pass per example. The clipped sum, and the norm of every clipped contribution."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    total, norms = [np.zeros(tuple(p.shape)) for p in parameters], []
    for row, label in zip(x, y, strict=True):
        loss = nn.functional.cross_entropy(module(torch.from_numpy(row[None])), torch.tensor([label]))
        grads = torch.autograd.grad(loss, parameters)
        norm = math.sqrt(sum(float(g.square().sum()) for g in grads))
        factor = min(1.0, clip / norm)
        norms.append(norm * factor)
        total = [t + factor * g.numpy() for t, g in zip(total, grads, strict=True)]
    return total, norms


def vector(module: nn.Module) -> np.ndarray:
    return nn.utils.parameters_to_vector(module.parameters()).detach().double().numpy()
