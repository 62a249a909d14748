"""Sums of clipped gradients, one clip per example: the bounded function of private training. No noise is drawn here.

Adding or removing one example moves each of these sums by at most ``clip`` in L2, whatever the parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import softmax
from torch import Tensor, nn

from caribou.errors import InputError
from caribou.mechanisms.bounded_rows import Rows


def linear_clipped_sum(rows: Rows, labels: np.ndarray, weights: np.ndarray, clip: float) -> np.ndarray:
    """sum_i z_i R_i' min(1, clip / (||z_i|| ||R_i||)) with R_i = softmax(z_i W) - onehot(y_i). -> [d, C].

    Args:
        rows: z, [n, d].
        labels: y, [n].
        weights: W, [d, C].
        clip: the bound on one contribution.

    >>> rows = Rows.of(np.array([[2.0, 0.0]]))
    >>> linear_clipped_sum(rows, np.array([0]), np.zeros((2, 2)), clip=10.0).tolist()
    [[-1.0, 1.0], [0.0, 0.0]]
    """
    residual = softmax(rows.times(weights), axis=1)
    residual[np.arange(len(labels)), labels] -= 1
    norms = rows.norms * np.sqrt(np.einsum("ij,ij->i", residual, residual))
    residual *= np.minimum(1, clip / np.maximum(norms, 1e-300))[:, None]
    return rows.sum_of_outer(residual)


def clipped_gradient_sum(
    module: nn.Module, x: np.ndarray | sp.csr_array | Rows, labels: np.ndarray, clip: float
) -> list[Tensor]:
    """sum_i g_i min(1, clip / ||g_i||), g_i the gradient of example i's cross-entropy in all parameters, in closed form.

    Args:
        module: a chain of layers (`chain_layers`), [n, d] -> logits [n, C], in double precision.
        x: [n, d], dense, CSR or `Rows`.
        labels: [n].
        clip: the bound on one contribution.

    Returns:
        One tensor per parameter, in the order of ``module.parameters()``.

    >>> module = nn.Linear(2, 2, bias=False).double()
    >>> (total,) = clipped_gradient_sum(module, np.array([[2.0, 0.0]]), np.array([0]), clip=0.1)
    >>> round(float(total.norm()), 6)
    0.1
    """
    return _chain_sum(chain_layers(module), x, torch.from_numpy(np.asarray(labels, dtype=np.int64)), clip)


_ELEMENTWISE = (nn.ReLU, nn.SELU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.Softplus, nn.Identity)


def chain_layers(module: nn.Module) -> list[nn.Module]:
    """The layers of a chain x -> linear -> activation -> linear ...; any other module is refused.

    In a chain no example has a part in the gradient of another one, as it would with batch normalisation.
    """
    layers = list(module) if type(module) is nn.Sequential else [module]
    linear = [layer for layer in layers if type(layer) is nn.Linear]
    plain = all(type(layer) is nn.Linear or isinstance(layer, _ELEMENTWISE) for layer in layers)
    trainable = all(p.requires_grad for layer in layers for p in layer.parameters())
    begins = bool(layers) and layers[0] in linear
    if not (begins and plain and trainable and len(set(linear)) == len(linear)):
        raise InputError(
            "module must be a chain of different trainable linear layers and elementwise activations that begins with a linear "
            f"one, got {type(module).__name__}"
        )
    return layers


def take_rows(x: Any, index: np.ndarray) -> Any:
    """The rows of an index list, of an array, of CSR or of `Rows`."""
    return x.take(index) if isinstance(x, Rows) else x[index]


def _chain_sum(layers: list[nn.Module], x: np.ndarray | sp.csr_array | Rows, y: Tensor, clip: float) -> list[Tensor]:
    """Ghost clipping: the gradient of a linear layer is the outer product dz h', with norm ||dz|| sqrt(||h||^2 + 1).

    So ||g_i||^2 = sum over layers of ||dz||^2 (||h||^2 + 1) (the 1 is the bias) needs no per-example gradient, and the clipped
    sum is one product per layer (Goodfellow 2015; Li, Tramer, Liang and Hashimoto 2022).
    """
    inputs: list[Any] = []
    outputs: list[Tensor] = []
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    h: Any = x
    with torch.enable_grad():
        for layer in layers:
            if isinstance(layer, nn.Linear):
                inputs.append(h.detach() if isinstance(h, Tensor) else h)
                z = affine(layer, h)
                outputs.append(z)
                h = z
            else:
                h = layer(h)
        loss = torch.nn.functional.cross_entropy(h, y, reduction="sum")
        signals = torch.autograd.grad(loss, outputs)
    squared = torch.zeros(len(y), dtype=torch.float64)
    for layer, h, dz in zip(linear, inputs, signals, strict=True):
        squared += dz.square().sum(dim=1) * (_squared_norms(h) + (layer.bias is not None))
    finite = torch.isfinite(squared).numpy()
    if not finite.all():
        # An overflow in one example must not reach the sum: such an example contributes nothing (decided on its row alone).
        return _chain_sum(layers, take_rows(x, np.flatnonzero(finite)), y[finite], clip)
    factor = (clip / squared.sqrt().clamp(min=1e-300)).clamp(max=1).unsqueeze(1)
    sums = []
    for layer, h, dz in zip(linear, inputs, signals, strict=True):
        scaled = dz * factor
        if isinstance(h, Tensor):
            sums.append(scaled.T @ h)
        elif isinstance(h, Rows):
            sums.append(torch.from_numpy(np.ascontiguousarray(h.sum_of_outer(scaled.numpy()).T)))
        else:
            sums.append(torch.from_numpy(np.ascontiguousarray((h.T @ scaled.numpy()).T)))
        if layer.bias is not None:
            sums.append(scaled.sum(dim=0))
    return [s.detach() for s in sums]


def affine(layer: nn.Linear, h: Any) -> Tensor:
    """h W' + b, as a tensor whose gradient is wanted. The first input may be an array, sparse or dense, or `Rows`."""
    if isinstance(h, Tensor):
        return layer(h)
    weight = layer.weight.detach().numpy().T
    z = torch.from_numpy(np.ascontiguousarray(h.times(weight) if isinstance(h, Rows) else h @ weight))
    if layer.bias is not None:
        z = z + layer.bias.detach()
    return z.requires_grad_()


def _squared_norms(h: Any) -> Tensor:
    if isinstance(h, Tensor):
        return h.square().sum(dim=1)
    if isinstance(h, Rows):
        return torch.from_numpy(h.norms**2)
    squares = h.multiply(h).sum(axis=1) if sp.issparse(h) else np.einsum("ij,ij->i", h, h)
    return torch.from_numpy(np.asarray(squares, dtype=np.float64).ravel())
