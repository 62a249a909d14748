"""Private training: clip what each example says, add it up, add noise once per step.

Two ways to spend a budget. *Full batch*: T Gaussian mechanisms, which compose exactly (mu^2 = T / z^2). *Poisson samples*: each
example joins each step with probability p by a secret coin (DP-SGD). In both the sum of clipped gradients moves by at most
``clip`` in L2 when one example is added or removed, the noise has std = clip x noise_multiplier, and everything after it
(momentum, Adam, averaging, shrinkage) is post-processing. Divisors are declared constants: the number of examples that were
sampled is data. Batch statistics would tie examples together and are refused.

The linear model works in NumPy on `Rows`, which keep sparse features sparse; modules work in torch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import softmax
from torch import Tensor, nn

from caribou._validate import integer, positive, unit_interval
from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.models.features import Rows, bounded_rows, rounding_margin, running_multiplier
from caribou.models.public_weights import last_layer
from caribou.privacy.allocation import AllocatedPart

# -- the linear model ----------------------------------------------------------------------------------------------

LARGEST_PATH_MU = 4.0
"""Budgets beyond this GDP parameter (about epsilon 24 at delta 1e-5), and no privacy at all, use the schedule of this one."""
MOST_STEPS, MIN_STEPS, PATH_PER_STEP = 100, 6, 75.0
RANDOM_FEATURES, RANDOM_FEATURES_FROM = 500, 475.0
"""Random features of the linear model, and the mu n / C from which they are used."""


@dataclass(frozen=True)
class Descent:
    """The public schedule of full-batch descent: W <- W - step_size V, V = momentum V + (1 - momentum) (noisy sum).

    ``step_size`` contains the division by the declared number of training examples.
    """

    steps: int
    clip: float
    step_size: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        integer(at_least=1, steps=self.steps)
        positive(clip=self.clip)
        positive(step_size=self.step_size)
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum must be in [0, 1), got {self.momentum!r}")


def default_logit_noise(mu: float) -> float:
    """How much noise the logits of a unit row should carry: 0.8 mu^(-1/3), between 0.8 and 1.2.

    Measured: a flat optimum around 0.8 from epsilon 2 on; at epsilon 1 longer paths gain a point on Cora and Photo.
    """
    return min(1.2, max(0.8, 0.8 * mu ** (-1 / 3)))


def path_length_schedule(*, mu: float, train_size: int, logit_noise: float | None = None, clip: float = 0.3) -> Descent:
    """The schedule whose noise, seen in the logits of a unit row, is ``logit_noise`` whatever the data.

    ``logit_noise`` = None takes `default_logit_noise`. L = logit_noise mu n is the total path length (every step moves W by at
    most L / T); T = floor(L / 75) in [6, 100]; step L / (clip T n); momentum 0.8 once T has reached 100. mu = GDP parameter of
    the whole fit, n = declared number of training examples: public numbers only. The noise of all steps adds up to a walk of
    std L / (mu n) = logit_noise per entry of W.

    >>> path_length_schedule(mu=1.0, train_size=2000, logit_noise=0.75, clip=0.5)
    Descent(steps=20, clip=0.5, step_size=0.075, momentum=0.0)
    """
    n = integer(at_least=1, train_size=train_size)
    mu = min(mu, LARGEST_PATH_MU)
    spread = default_logit_noise(mu) if logit_noise is None else positive(logit_noise=logit_noise)
    length = spread * mu * n
    steps = min(MOST_STEPS, max(MIN_STEPS, math.floor(length / PATH_PER_STEP)))
    return Descent(steps, clip, length / (clip * steps * n), 0.8 if steps == MOST_STEPS else 0.0)


def noisy_gradient_descent(
    x: Rows | np.ndarray | sp.csr_array,
    labels: np.ndarray,
    *,
    classes: int,
    schedule: Descent,
    calibrated: AllocatedPart,
    noise: NoiseSource,
    max_rows: int | None = None,
    sensitivity_multiple: float = 1.0,
) -> np.ndarray:
    """A linear softmax model without bias by full-batch noisy gradient descent from 0. [n, d], [n] -> weights [d, C].

    Step: G = sum_i z_i R_i' min(1, c / (||z_i|| ||R_i||)) + c z N(0, I) with R_i = softmax(z_i W) - onehot(y_i). The gradient of
    one example is the outer product z_i R_i', so its norm ||z_i|| ||R_i|| is known in closed form. Returns the mean of the
    last half of the iterates. ``max_rows``: a public bound on the number of examples (`bounded_rows`).

    Formal guarantee: adding or removing one example moves G by at most c, so all iterates together are T Gaussian mechanisms
    of multiplier z, i.e. exactly (sqrt(T)/z)-GDP. If the protected unit is more than one example,
    ``sensitivity_multiple`` = by how many clips it moves G (from a theorem, at least 1), and the noise is that many times as
    large. Assumes that the schedule, the number of classes and the rows' map were fixed without this example or released before.
    """
    rows = Rows.of(x)
    n, d = rows.shape
    y = _checked_labels(labels, n, classes)
    T, c = schedule.steps, schedule.clip
    if calibrated.part.steps != T or calibrated.part.sampling_probability != 1:
        raise InputError(f"part {calibrated.part.name!r} must be {T} full-batch steps, got {calibrated.part}")
    if not sensitivity_multiple >= 1:
        raise InputError(f"sensitivity_multiple must be >= 1, got {sensitivity_multiple!r}")
    multiplier = running_multiplier(calibrated) * sensitivity_multiple  # noise in clips
    bound = c * (1 - rounding_margin(rows=bounded_rows(n, max_rows), entries=d * classes, noise_multiplier=multiplier))
    weights = np.zeros((d, classes))
    velocity = np.zeros((d, classes))
    average = np.zeros((d, classes))
    kept_from = T // 2
    for step in range(T):
        total = noise.add_gaussian(linear_clipped_sum(rows, y, weights, bound), std=c * multiplier)
        velocity = schedule.momentum * velocity + (1 - schedule.momentum) * total
        weights = weights - schedule.step_size * velocity
        if step >= kept_from:
            average += weights / (T - kept_from)
    return average


def linear_clipped_sum(rows: Rows, labels: np.ndarray, weights: np.ndarray, clip: float) -> np.ndarray:
    """sum_i z_i R_i' min(1, clip / (||z_i|| ||R_i||)), without noise. -> [d, C]."""
    residual = softmax(rows.times(weights), axis=1)
    residual[np.arange(len(labels)), labels] -= 1
    norms = rows.norms * np.sqrt(np.einsum("ij,ij->i", residual, residual))
    residual *= np.minimum(1, clip / np.maximum(norms, 1e-300))[:, None]
    return rows.sum_of_outer(residual)


def average_noise_variance(schedule: Descent, calibrated: AllocatedPart, sensitivity_multiple: float = 1.0) -> float:
    """Variance that the noise leaves in each entry of the averaged weights: (2/3) T (step_size c z)^2.

    A Brownian path of variance s^2 at its end, averaged over its last half, has variance (2/3) s^2.
    """
    step_std = schedule.step_size * schedule.clip * running_multiplier(calibrated) * sensitivity_multiple
    return 2 / 3 * schedule.steps * step_std**2


def shrink_rows(weights: np.ndarray, *, noise_variance: float, strength: float) -> np.ndarray:
    """Centre the weights over the classes and shrink each row: W_j max(0, 1 - k (C - 1) s^2 / ||W_j||^2). Post-processing.

    ``strength`` = k (k = 1 is the positive-part rule of James and Stein up to a constant), ``noise_variance`` = s^2.
    """
    centred = weights - weights.mean(axis=1, keepdims=True)
    lengths = np.einsum("ij,ij->i", centred, centred)
    excess = strength * (weights.shape[1] - 1) * noise_variance
    return centred * np.maximum(0, 1 - excess / np.maximum(lengths, 1e-300))[:, None]


def random_feature_count(*, mu: float, train_size: int, classes: int, nodes: int) -> int:
    """How many random features a linear model can use: a public function of budget and sizes; 0 = none.

    Measured: they pay from mu n / C of about 475 on and cost up to a point below (Cora and Photo at epsilon 1). For very large
    graphs fewer, so that they fit in 1 GiB.

    >>> [random_feature_count(mu=mu, train_size=5000, classes=8, nodes=7000) for mu in (0.7, 0.8, math.inf)]
    [0, 500, 500]
    """
    per_class = min(mu, LARGEST_PATH_MU) * train_size / max(1, classes)
    return 0 if per_class < RANDOM_FEATURES_FROM else min(RANDOM_FEATURES, 2**27 // max(1, nodes))


# -- modules -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Optimizer:
    """How noisy gradients become steps; all of it is post-processing. ``rule``: "momentum" or "adam".

    ``decay`` is the momentum factor (0 = plain descent) resp. Adam's beta_1. ``average_from``: the share of steps after which
    iterates are averaged; 1 returns the last one.
    """

    learning_rate: float
    rule: str = "momentum"
    decay: float = 0.9
    second_decay: float = 0.999
    average_from: float = 1.0

    def __post_init__(self) -> None:
        positive(learning_rate=self.learning_rate)
        unit_interval(average_from=self.average_from)
        for name in ("decay", "second_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must be in [0, 1), got {getattr(self, name)!r}")
        if self.rule not in ("momentum", "adam"):
            raise InputError(f"rule must be one of momentum, adam, got {self.rule!r}")

    def updates(self, gradients: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
        """The step that each noisy gradient leads to, one by one."""
        first: np.ndarray | float = 0.0
        second: np.ndarray | float = 0.0
        for count, gradient in enumerate(gradients, start=1):
            if self.rule == "momentum":
                first = self.decay * first + gradient
                yield -self.learning_rate * first
            elif self.rule == "adam":
                first = self.decay * first + (1 - self.decay) * gradient
                second = self.second_decay * second + (1 - self.second_decay) * gradient**2
                root = np.sqrt(second / (1 - self.second_decay**count)) + 1e-8
                yield -self.learning_rate * (first / (1 - self.decay**count)) / root
            else:
                raise InputError(f"rule must be one of momentum, adam, got {self.rule!r}")


def train_privately(
    module: nn.Module,
    x: np.ndarray | sp.csr_array | Rows,
    labels: np.ndarray,
    *,
    clip: float,
    divisor: float,
    optimizer: Optimizer,
    calibrated: AllocatedPart,
    noise: NoiseSource,
    max_rows: int | None = None,
) -> nn.Module:
    """Fit a classifier by noisy gradient descent on the cross-entropy, full batch or on Poisson samples (DP-SGD).

    ``calibrated`` says how many steps, with which sampling probability and how much noise. ``divisor`` is a declared constant:
    the expected batch size p n, or n. Returns a trained copy in double precision; the module given holds the initial weights
    (from the model stream) and is not changed. Chains of ``nn.Linear`` and elementwise activations take ``x`` as CSR or `Rows`.

    Formal guarantee: each step adds N(0, (clip z)^2 I) to a sum that one example, if it was sampled at all, moves by at most
    ``clip``. The sampling coins are as secret as the noise and come from the same source (amplification needs that). So the
    whole sequence of iterates costs the part's event: T Gaussians, or T Poisson-subsampled Gaussians. An empty sample is a step
    of noise alone. Assumes that no module ties examples together, which is checked for batch normalisation.
    """
    clip, divisor = positive(clip=clip), positive(divisor=divisor)
    multiplier = running_multiplier(calibrated)
    refuse_batch_statistics(module)
    model = copy.deepcopy(module).double()
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise InputError("module must have parameters to train, got none")
    rows = _double(x)
    y = _checked_labels(labels, rows.shape[0], None)
    size = sum(p.numel() for p in parameters)
    probability = calibrated.part.sampling_probability
    bound = clip * (1 - rounding_margin(rows=bounded_rows(len(y), max_rows), entries=size, noise_multiplier=multiplier))
    coins = noise if probability == 1 else noise.stream("sampling")
    batches = poisson_samples(len(y), calibrated.part.steps, probability, coins)

    def gradients() -> Iterator[np.ndarray]:
        for batch in batches:
            total = np.zeros(size)
            if len(batch):
                everything = len(batch) == len(y)
                parts = clipped_gradient_sum(
                    model, rows if everything else _some(rows, batch), y if everything else y[batch], bound
                )
                total = torch.cat([part.reshape(-1) for part in parts]).numpy()
            yield noise.add_gaussian(total, std=clip * multiplier) / divisor

    steps = calibrated.part.steps
    average_after = min(steps - 1, math.floor(optimizer.average_from * steps))
    current = nn.utils.parameters_to_vector(parameters).detach().numpy().copy()
    average = np.zeros(size)
    for step, update in enumerate(optimizer.updates(gradients())):
        current += update
        if step >= average_after:
            average += current / (steps - average_after)
        _write(parameters, average if step == steps - 1 else current)
    return model


def selu_network(columns: int, hidden: int, classes: int, generator: np.random.Generator) -> nn.Sequential:
    """d - hidden - C with SELU, in double precision: last weights N(0, 1/hidden), everything else 0.

    So the first steps are those of a linear model seen through the random last layer. ``generator``: public coins.
    The global generator of torch is not touched.
    """
    first, last = (nn.utils.skip_init(nn.Linear, a, b) for a, b in ((columns, hidden), (hidden, classes)))
    with torch.no_grad():
        last.weight.copy_(torch.from_numpy(last_layer(hidden, classes, generator)))
        for zero in (first.weight, first.bias, last.bias):
            zero.zero_()
    return nn.Sequential(first, nn.SELU(), last).double()


def network_from_arrays(arrays: Mapping[str, np.ndarray]) -> nn.Sequential:
    """The network of `selu_network`, with the parameters of a saved run."""
    first, last = (arrays[f"{i}.weight"] for i in (0, 2))
    module = nn.Sequential(
        nn.Linear(first.shape[1], first.shape[0]), nn.SELU(), nn.Linear(last.shape[1], last.shape[0])
    ).double()
    names = [name for name, _ in module.named_parameters()]
    module.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in names})
    return module


def chain_logits(module: nn.Module, x: np.ndarray | sp.csr_array | Rows) -> np.ndarray:
    """Outputs of a chain of linear layers and elementwise activations, for rows that may be sparse. [n, d] -> [n, C]."""
    layers = _chain(module)
    if layers is None:
        raise InputError(f"module must be a chain of linear layers and activations, got {type(module).__name__}")
    h: Any = x
    with torch.no_grad():
        for layer in layers:
            h = _affine(layer, h).detach() if isinstance(layer, nn.Linear) else layer(h)
    return np.asarray(h.numpy())


def poisson_samples(examples: int, steps: int, probability: float, coins: NoiseSource) -> Iterator[np.ndarray]:
    """Per step the indices of the examples that take part, each independently with ``probability``; 1 = all of them.

    A Gumbel variable is at most -log(-log p) with probability p. ``coins`` must be secret.
    """
    everyone = np.arange(examples)
    if probability == 1:
        for _ in range(steps):
            yield everyone
        return
    threshold = -math.log(-math.log(probability))
    for _ in range(steps):
        yield everyone[coins.gumbel((examples,)) <= threshold]


def refuse_batch_statistics(module: nn.Module) -> None:
    """Raise for modules that let one example change another's gradient."""
    for name, part in module.named_modules():
        tied = isinstance(part, nn.modules.batchnorm._BatchNorm) or getattr(part, "track_running_stats", False)
        if tied:
            raise InputError(
                f"module must not contain batch normalisation (it ties examples together), "
                f"got {type(part).__name__} at {name or 'the top'!r}"
            )


def clipped_gradient_sum(
    module: nn.Module, x: np.ndarray | sp.csr_array | Rows, labels: np.ndarray, clip: float
) -> list[Tensor]:
    """sum_i g_i min(1, clip / ||g_i||), g_i the gradient of example i's cross-entropy in all trainable parameters.

    In closed form for chains of linear layers and elementwise activations; by ``torch.func`` otherwise (dense x only). One
    tensor per trainable parameter, in the order of ``module.parameters()``.
    """
    y = torch.from_numpy(np.asarray(labels, dtype=np.int64))
    layers = _chain(module)
    if layers is not None:
        return _chain_sum(layers, x, y, clip)
    if sp.issparse(x) or isinstance(x, Rows):
        kind = "Rows" if isinstance(x, Rows) else "CSR"
        raise InputError(
            f"x must be dense for a module that is not a chain of layers, got {kind} and {type(module).__name__}"
        )
    return _functional_sum(module, torch.from_numpy(np.asarray(x)), y, clip)


_ELEMENTWISE = (nn.ReLU, nn.SELU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.Softplus, nn.Identity)


def _chain(module: nn.Module) -> list[nn.Module] | None:
    """The layers of a chain x -> linear -> activation -> linear ..., or None for any other module."""
    layers: list[nn.Module] = []
    if isinstance(module, nn.Linear):
        layers = [module]
    elif type(module) is nn.Sequential:
        layers = list(module)
    plain = all(type(layer) is nn.Linear or isinstance(layer, _ELEMENTWISE) for layer in layers)
    trainable = all(p.requires_grad for layer in layers for p in layer.parameters())
    distinct = len({id(layer) for layer in layers if isinstance(layer, nn.Linear)})
    begins = bool(layers) and isinstance(layers[0], nn.Linear)
    return layers if begins and plain and trainable and distinct == _linear_count(layers) else None


def _linear_count(layers: list[nn.Module]) -> int:
    return sum(isinstance(layer, nn.Linear) for layer in layers)


def _double(x: np.ndarray | sp.csr_array | Rows) -> np.ndarray | sp.csr_array | Rows:
    if isinstance(x, Rows):
        return x
    return sp.csr_array(x, dtype=np.float64) if sp.issparse(x) else np.ascontiguousarray(x, dtype=np.float64)


def _some(x: Any, index: np.ndarray) -> Any:
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
                z = _affine(layer, h)
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
        return _chain_sum(layers, _some(x, np.flatnonzero(finite)), y[finite], clip)
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


def _affine(layer: nn.Linear, h: Any) -> Tensor:
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


def _functional_sum(module: nn.Module, x: Tensor, y: Tensor, clip: float) -> list[Tensor]:
    """Per-example gradients of any module by vmap(grad): memory of one gradient per example."""
    trainable = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
    fixed = {name: p.detach() for name, p in module.named_parameters() if not p.requires_grad}
    fixed |= {name: b.detach() for name, b in module.named_buffers()}

    def loss(values: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        logits = torch.func.functional_call(module, {**fixed, **values}, (row.unsqueeze(0),))
        return torch.nn.functional.cross_entropy(logits, label.unsqueeze(0))

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(trainable, x, y)
    squared = torch.stack([g.flatten(1).square().sum(dim=1) for g in each.values()]).sum(dim=0)
    finite = torch.isfinite(squared)
    factor = (clip / squared[finite].sqrt().clamp(min=1e-300)).clamp(max=1)
    return [torch.tensordot(factor, g[finite], dims=1).detach() for g in each.values()]


def _write(parameters: list[nn.Parameter], values: np.ndarray) -> None:
    nn.utils.vector_to_parameters(torch.from_numpy(values.copy()), parameters)


def _checked_labels(labels: np.ndarray, n: int, classes: int | None) -> np.ndarray:
    y = np.asarray(labels)
    if y.shape != (n,) or y.dtype.kind not in "iu":
        raise InputError(f"labels must be one whole number per row ({n}), got {y.dtype} of shape {y.shape}")
    if n and (int(y.min()) < 0 or (classes is not None and int(y.max()) >= classes)):
        raise InputError(f"labels must be classes 0 to {classes}, got {int(y.min())} to {int(y.max())}")
    return y.astype(np.int64)
