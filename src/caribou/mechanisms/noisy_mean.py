"""The mean of rows of bounded norm, released with Gaussian noise."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from caribou.errors import InputError
from caribou.mechanisms.bounded_rows import row_norms
from caribou.mechanisms.clipped_sum import ClippedSum, running_multiplier
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.allocation import AllocatedPart


def private_mean(
    x: np.ndarray | sp.csr_array,
    calibrated: AllocatedPart,
    noise: NoiseSource,
    *,
    train_size: int,
    max_rows: int | None = None,
) -> np.ndarray:
    """The mean of rows of norm <= 1, released with Gaussian noise and shrunk towards 0. [n, d] -> [d].

    m = (1/n)(sum_i x_i + N(0, z^2 I)), z = the noise multiplier; then James and Stein: m max(0, 1 - d s^2 / ||m||^2),
    s = z / n.

    Args:
        x: [n, d], rows of norm <= 1; longer ones are refused.
        calibrated: one release.
        noise: where the noise comes from.
        train_size: n, a declared constant.
        max_rows: a public bound on the number of rows (`row_count_bound`).

    Formal guarantee: adding or removing one row moves the sum by at most 1 in L2, so the release is one Gaussian mechanism of
    multiplier z, i.e. (1/z)-GDP. Shrinkage is post-processing.

    >>> from caribou.privacy.allocation import Part
    >>> without_noise = AllocatedPart(Part("mean"), 0.0)
    >>> private_mean(np.eye(4), without_noise, NoiseSource.seeded(0), train_size=4).round(4).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    multiplier = running_multiplier(calibrated)
    if calibrated.part.steps != 1:
        raise InputError(f"part {calibrated.part.name!r} must be one release, got {calibrated.part}")
    norms = row_norms(x)
    if len(norms) and not float(norms.max()) <= 1 + 1e-9:
        raise InputError(f"rows must have norm <= 1, got {float(norms.max())!r}")
    n, d = x.shape
    clipped = ClippedSum.of(calibrated, clip=1.0, rows=n, entries=d, max_rows=max_rows)
    total = clipped.bound * np.asarray(x.sum(axis=0), dtype=np.float64).ravel()
    mean = clipped.release(total, noise) / train_size
    length = float(mean @ mean)
    if length == 0:
        return mean
    return mean * max(0.0, 1 - d * (multiplier / train_size) ** 2 / length)
