"""The private model, linear or with one hidden layer: public choices around it, and what it says of rows.

Schedule, number of random features and shrinkage are functions of public numbers, or post-processing of released weights. Its
training is `caribou.mechanisms.noisy_descent`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from caribou._validate import integer, positive
from caribou.machine.deferred import deferred_imports
from caribou.mechanisms.noisy_descent import Descent

with deferred_imports():
    import numpy as np
    import scipy.sparse as sp
    import torch
    from torch import nn

    from caribou.mechanisms.bounded_rows import Rows
    from caribou.mechanisms.clipped_gradients import affine, chain_layers

LARGEST_PATH_MU = 4.0
"""Budgets beyond this GDP parameter (about epsilon 24 at delta 1e-5), and no privacy at all, use the schedule of this one."""
MIN_STEPS, MAX_STEPS, PATH_PER_STEP = 6, 100, 75.0
RANDOM_FEATURES, RANDOM_FEATURES_FROM = 500, 475.0
"""Random features of the linear model, and the mu n / C from which they are used."""


def default_logit_noise(mu: float) -> float:
    """How much noise the logits of a unit row should carry: 0.8 mu^(-1/3), between 0.8 and 1.2.

    Measured: a flat optimum around 0.8 from epsilon 2 on; at epsilon 1 longer paths gain a point on Cora and Photo.

    Args:
        mu: the GDP parameter of the whole fit.

    >>> [round(default_logit_noise(mu), 3) for mu in (0.1, 0.5, 4.0)]
    [1.2, 1.008, 0.8]
    """
    return min(1.2, max(0.8, 0.8 * mu ** (-1 / 3)))


def path_length_schedule(*, mu: float, train_size: int, logit_noise: float | None = None, clip: float = 0.3) -> Descent:
    """The schedule whose noise, seen in the logits of a unit row, is ``logit_noise`` whatever the data.

    L = logit_noise mu n is the total path length (every step moves W by at most L / T); T = floor(L / 75) in [6, 100];
    step L / (clip T n); momentum 0.8 once T has reached 100. The noise of all steps adds up to a walk of
    std L / (mu n) = logit_noise per entry of W. Public numbers only.

    Args:
        mu: the GDP parameter of the whole fit; inf for no privacy.
        train_size: n, the declared number of training examples.
        logit_noise: None takes `default_logit_noise`.
        clip: bound on the gradient of one example.

    >>> path_length_schedule(mu=1.0, train_size=2000, logit_noise=0.75, clip=0.5)
    Descent(steps=20, clip=0.5, step_size=0.075, momentum=0.0)
    """
    n = integer(at_least=1, train_size=train_size)
    mu = min(mu, LARGEST_PATH_MU)
    spread = default_logit_noise(mu) if logit_noise is None else positive(logit_noise=logit_noise)
    length = spread * mu * n
    steps = max(MIN_STEPS, math.floor(min(MAX_STEPS, length / PATH_PER_STEP)))
    return Descent(steps, clip, length / (clip * steps * n), 0.8 if steps == MAX_STEPS else 0.0)


def random_feature_count(*, mu: float, train_size: int, classes: int, nodes: int) -> int:
    """How many random features a linear model can use: a public function of budget and sizes; 0 = none.

    Measured: they pay from mu n / C of about 475 on and cost up to a point below (Cora and Photo at epsilon 1). For very large
    graphs fewer, so that they fit in 1 GiB.

    Args:
        mu: the GDP parameter of the whole fit; inf for no privacy.
        train_size: n, the declared number of training examples.
        classes: C.
        nodes: rows that will be given random features.

    >>> [random_feature_count(mu=mu, train_size=5000, classes=8, nodes=7000) for mu in (0.7, 0.8, math.inf)]
    [0, 500, 500]
    """
    per_class = min(mu, LARGEST_PATH_MU) * train_size / max(1, classes)
    return 0 if per_class < RANDOM_FEATURES_FROM else min(RANDOM_FEATURES, 2**27 // max(1, nodes))


def shrink_rows(weights: np.ndarray, *, noise_variance: float, strength: float) -> np.ndarray:
    """Centre the weights over the classes and shrink each row: W_j max(0, 1 - k (C - 1) s^2 / ||W_j||^2). Post-processing.

    Args:
        weights: W, [d, C].
        noise_variance: s^2, what the noise left in each entry (`caribou.mechanisms.noisy_descent.average_noise_variance`).
        strength: k; k = 1 is the positive-part rule of James and Stein up to a constant.

    >>> shrink_rows(np.array([[3.0, 1.0], [0.1, 0.0]]), noise_variance=1.0, strength=1.0).tolist()
    [[0.5, -0.5], [0.0, -0.0]]
    """
    centred = weights - weights.mean(axis=1, keepdims=True)
    lengths = np.einsum("ij,ij->i", centred, centred)
    excess = strength * (weights.shape[1] - 1) * noise_variance
    return centred * np.maximum(0, 1 - excess / np.maximum(lengths, 1e-300))[:, None]


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
