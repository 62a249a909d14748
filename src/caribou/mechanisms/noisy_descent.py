"""Private training: clip the gradient of each example, add them up, add noise once per step.

Every step takes all examples: T Gaussian mechanisms, which compose exactly (mu^2 = T / z^2). The sum of clipped gradients
(`caribou.mechanisms.clipped_gradients`) moves by at most ``clip`` in L2 when one example is added or removed, the noise has
std = clip x noise_multiplier, and everything after it (momentum, Adam, averaging, shrinkage) is post-processing. Divisors are
declared constants: the number of examples is data. Modules are chains of layers; others could tie examples together, and are
refused.

The linear model works in NumPy on `Rows`, which keep sparse features sparse; modules work in torch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

from caribou._validate import below_one, integer, positive, unit_interval
from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.privacy.allocation import AllocatedPart

with deferred_imports():
    import numpy as np
    import scipy.sparse as sp
    import torch
    from torch import nn

    from caribou.mechanisms.bounded_rows import Rows
    from caribou.mechanisms.clipped_gradients import (
        chain_layers,
        clipped_gradient_sum,
        linear_clipped_sum,
    )
    from caribou.mechanisms.clipped_sum import ClippedSum, running_multiplier
    from caribou.mechanisms.noise_source import NoiseSource

# -- the linear model ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Descent:
    """The public schedule of full-batch descent: W <- W - step_size V, V = momentum V + (1 - momentum) (noisy sum).

    Args:
        steps: T, at least 1.
        clip: bound on the gradient of one example.
        step_size: contains the division by the declared number of training examples.
        momentum: in [0, 1).
    """

    steps: int
    clip: float
    step_size: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        integer(at_least=1, steps=self.steps)
        positive(clip=self.clip)
        positive(step_size=self.step_size)
        below_one(momentum=self.momentum)


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
    one example is the outer product z_i R_i', so its norm ||z_i|| ||R_i|| is known in closed form.

    Args:
        x: z, [n, d].
        labels: y, [n], in 0 .. C - 1.
        classes: C.
        schedule: steps, clip c, step size and momentum.
        calibrated: as many steps as the schedule has, with their noise multiplier z.
        noise: where the noise comes from.
        max_rows: a public bound on the number of examples (`row_count_bound`).
        sensitivity_multiple: by how many clips the protected unit moves G (from a theorem), at least 1; more if the unit is
            more than one example. The noise is that many times as large.

    Returns:
        The mean of the last half of the iterates, [d, C].

    Formal guarantee: adding or removing one example moves G by at most c, so all iterates together are T Gaussian mechanisms
    of multiplier z, i.e. exactly (sqrt(T)/z)-GDP. Assumes that the schedule, the number of classes and the rows' map were fixed
    without this example or released before.

    >>> from caribou.privacy.allocation import Part
    >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1])
    >>> schedule = Descent(steps=4, clip=1.0, step_size=0.5)
    >>> part = AllocatedPart(Part("training", steps=4), noise_multiplier=0.0)           # no privacy
    >>> weights = noisy_gradient_descent(x, y, classes=2, schedule=schedule, calibrated=part, noise=NoiseSource.seeded(0))
    >>> (x @ weights).argmax(axis=1).tolist()
    [0, 1]
    """
    rows = Rows.of(x)
    n, d = rows.shape
    y = _checked_labels(labels, n, classes)
    T = schedule.steps
    if calibrated.part.steps != T:
        raise InputError(f"part {calibrated.part.name!r} must be {T} steps, got {calibrated.part}")
    clipped = ClippedSum.of(
        calibrated,
        clip=schedule.clip,
        rows=n,
        entries=d * classes,
        max_rows=max_rows,
        sensitivity_multiple=sensitivity_multiple,
    )
    weights = np.zeros((d, classes))
    velocity = np.zeros((d, classes))
    average = np.zeros((d, classes))
    kept_from = T // 2
    for step in range(T):
        total = clipped.release(linear_clipped_sum(rows, y, weights, clipped.bound), noise)
        velocity = schedule.momentum * velocity + (1 - schedule.momentum) * total
        weights = weights - schedule.step_size * velocity
        if step >= kept_from:
            average += weights / (T - kept_from)
    return average


def average_noise_variance(schedule: Descent, calibrated: AllocatedPart, sensitivity_multiple: float = 1.0) -> float:
    """Variance that the noise leaves in each entry of the averaged weights: (2/3) T (step_size c z)^2.

    A Brownian path of variance s^2 at its end, averaged over its last half, has variance (2/3) s^2.
    """
    step_std = schedule.step_size * schedule.clip * running_multiplier(calibrated) * sensitivity_multiple
    return 2 / 3 * schedule.steps * step_std**2


# -- modules -------------------------------------------------------------------------------------------------------


DECAY, SECOND_DECAY = 0.9, 0.999
"""beta_1 and beta_2 of Adam."""


@dataclass(frozen=True)
class Adam:
    """How noisy gradients become steps (Kingma and Ba 2015); all of it is post-processing.

    Args:
        learning_rate: > 0.
        average_from: the share of steps after which iterates are averaged; 1 returns the last one.

    >>> [round(float(step[0]), 6) for step in Adam(0.5).updates(iter([np.array([2.0])]))]
    [-0.5]
    """

    learning_rate: float
    average_from: float = 0.5

    def __post_init__(self) -> None:
        positive(learning_rate=self.learning_rate)
        unit_interval(average_from=self.average_from)

    def updates(self, gradients: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
        """The step that each noisy gradient leads to, one by one."""
        first: np.ndarray | float = 0.0
        second: np.ndarray | float = 0.0
        for count, gradient in enumerate(gradients, start=1):
            first = DECAY * first + (1 - DECAY) * gradient
            second = SECOND_DECAY * second + (1 - SECOND_DECAY) * gradient**2
            root = np.sqrt(second / (1 - SECOND_DECAY**count)) + 1e-8
            yield -self.learning_rate * (first / (1 - DECAY**count)) / root


def train_privately(
    module: nn.Module,
    x: np.ndarray | sp.csr_array | Rows,
    labels: np.ndarray,
    *,
    clip: float,
    divisor: float,
    optimizer: Adam,
    calibrated: AllocatedPart,
    noise: NoiseSource,
    max_rows: int | None = None,
) -> nn.Module:
    """Fit a classifier by noisy gradient descent on the cross-entropy of all examples.

    Args:
        module: holds the initial weights (from the public seed) and is not changed.
        x: [n, d], dense; CSR or `Rows` too for chains of ``nn.Linear`` and elementwise activations.
        labels: [n], in 0 .. C - 1.
        clip: bound on the gradient of one example.
        divisor: a declared constant: the public number of examples.
        optimizer: how noisy gradients become steps.
        calibrated: how many steps, with how much noise.
        noise: where the noise comes from.
        max_rows: a public bound on the number of examples (`row_count_bound`).

    Returns:
        A trained copy of the module, in double precision.

    Formal guarantee: each step adds N(0, (clip z)^2 I) to a sum that one example moves by at most ``clip``. So the whole sequence
    of iterates costs the part's event: T Gaussians. A module that is no chain could tie examples together, and is refused.

    >>> from caribou.privacy.allocation import Part
    >>> part = AllocatedPart(Part("training", steps=3), noise_multiplier=1.0)
    >>> trained = train_privately(
    ...     nn.Linear(2, 2), np.eye(2), np.array([0, 1]), clip=1.0, divisor=1.0, optimizer=Adam(0.1),
    ...     calibrated=part, noise=NoiseSource.secure())
    >>> trained.weight.shape, trained.weight.dtype
    (torch.Size([2, 2]), torch.float64)
    """
    clip, divisor = positive(clip=clip), positive(divisor=divisor)
    chain_layers(module)
    model = copy.deepcopy(module).double()
    parameters = list(model.parameters())
    rows = _double(x)
    y = _checked_labels(labels, rows.shape[0], None)
    size = sum(p.numel() for p in parameters)
    clipped = ClippedSum.of(calibrated, clip=clip, rows=len(y), entries=size, max_rows=max_rows)
    steps = calibrated.part.steps

    def gradients() -> Iterator[np.ndarray]:
        for _ in range(steps):
            total = np.zeros(size)
            if len(y):
                parts = clipped_gradient_sum(model, rows, y, clipped.bound)
                total = torch.cat([part.reshape(-1) for part in parts]).numpy()
            yield clipped.release(total, noise) / divisor

    average_after = min(steps - 1, math.floor(optimizer.average_from * steps))
    current = nn.utils.parameters_to_vector(parameters).detach().numpy().copy()
    average = np.zeros(size)
    for step, update in enumerate(optimizer.updates(gradients())):
        current += update
        if step >= average_after:
            average += current / (steps - average_after)
        _write(parameters, average if step == steps - 1 else current)
    return model


def _write(parameters: list[nn.Parameter], values: np.ndarray) -> None:
    nn.utils.vector_to_parameters(torch.from_numpy(values.copy()), parameters)


def _checked_labels(labels: np.ndarray, n: int, classes: int | None) -> np.ndarray:
    y = np.asarray(labels)
    if y.shape != (n,) or y.dtype.kind not in "iu":
        raise InputError(f"labels must be one whole number per row ({n}), got {y.dtype} of shape {y.shape}")
    if n and (int(y.min()) < 0 or (classes is not None and int(y.max()) >= classes)):
        rule = "classes from 0" if classes is None else f"classes 0 to {classes - 1}"
        raise InputError(f"labels must be {rule}, got {int(y.min())} to {int(y.max())}")
    return y.astype(np.int64)


def _double(x: np.ndarray | sp.csr_array | Rows) -> np.ndarray | sp.csr_array | Rows:
    if isinstance(x, Rows):
        return x
    return sp.csr_array(x, dtype=np.float64) if sp.issparse(x) else np.ascontiguousarray(x, dtype=np.float64)
