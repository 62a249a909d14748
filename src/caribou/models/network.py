"""The network with one hidden layer that is trained privately, and the outputs of any such chain of layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from caribou.mechanisms.bounded_rows import Rows
from caribou.mechanisms.clipped_gradients import affine, chain_layers


def selu_network(columns: int, hidden: int, classes: int, generator: np.random.Generator) -> nn.Sequential:
    """d - hidden - C with SELU, in double precision: last weights N(0, 1/hidden), everything else 0.

    So the first steps are those of a linear model seen through the random last layer. The global generator of torch is not
    touched.

    Args:
        columns: d.
        hidden: number of hidden units.
        classes: C.
        generator: of the public seed.

    >>> network = selu_network(3, 8, 2, np.random.default_rng(0))
    >>> chain_logits(network, np.ones((1, 3))).tolist()
    [[0.0, 0.0]]
    """
    first, last = (nn.utils.skip_init(nn.Linear, a, b) for a, b in ((columns, hidden), (hidden, classes)))
    with torch.no_grad():
        last.weight.copy_(torch.from_numpy(generator.standard_normal((classes, hidden)) / math.sqrt(hidden)))
        for zero in (first.weight, first.bias, last.bias):
            zero.zero_()
    return nn.Sequential(first, nn.SELU(), last).double()


def network_from_arrays(arrays: Mapping[str, np.ndarray]) -> nn.Sequential:
    """The network of `selu_network` with the parameters of a saved model.

    Args:
        arrays: ``0.weight`` [hidden, d], ``0.bias`` [hidden], ``2.weight`` [C, hidden], ``2.bias`` [C]; others are ignored.
    """
    first, last = (arrays[f"{i}.weight"] for i in (0, 2))
    # without initial values: drawing them would move the global generator of torch
    layers = (nn.utils.skip_init(nn.Linear, w.shape[1], w.shape[0]) for w in (first, last))
    module = nn.Sequential(next(layers), nn.SELU(), next(layers)).double()
    names = [name for name, _ in module.named_parameters()]
    module.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in names})
    return module


def chain_logits(module: nn.Module, x: np.ndarray | sp.csr_array | Rows) -> np.ndarray:
    """Outputs of a chain of linear layers and elementwise activations, for rows that may be sparse. [n, d] -> [n, C].

    >>> layer = nn.Linear(2, 1).double().requires_grad_(True)
    >>> chain_logits(layer, sp.csr_array(np.eye(2))).shape
    (2, 1)
    """
    h: Any = x
    with torch.no_grad():
        for layer in chain_layers(module):
            h = affine(layer, h).detach() if isinstance(layer, nn.Linear) else layer(h)
    return np.asarray(h.numpy())


def first_layer(module: nn.Module, x: np.ndarray | sp.csr_array | Rows) -> np.ndarray:
    """Outputs of the first linear layer of a chain, before its activation. [n, d] -> [n, hidden].

    >>> first_layer(selu_network(3, 8, 2, np.random.default_rng(0)), np.ones((1, 3))).shape
    (1, 8)
    """
    return chain_logits(chain_layers(module)[0], x)
