"""Sums of messages over neighbours, released once with Gaussian noise: a bound on every row, then noise on every row."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from caribou.errors import InputError
from caribou.mechanisms.aggregation import clip_rows
from caribou.mechanisms.noise import NoiseSource
from caribou.privacy.calibration import CalibratedNeighbourSums


def clipped_sums(adjacency: sp.csr_array, messages: np.ndarray, radius: float) -> np.ndarray:
    """Row i: the sum of the neighbours' messages, projected onto the ball of ``radius``. [n, d] -> [n, d]"""
    return clip_rows(np.asarray(adjacency.astype(np.float64) @ messages), radius)


def noisy_neighbour_sums(
    adjacency: sp.csr_array, messages: np.ndarray, calibrated: CalibratedNeighbourSums, noise: NoiseSource
) -> np.ndarray:
    """`clipped_sums` plus Gaussian noise. messages: [n, d], rows of length at most 1; adjacency: degrees at most the cap.

    Formal guarantee: calibrated.mu-GDP at node level between graphs whose degrees are at most the cap, for messages that are
    functions of each node's own data and of earlier releases (`neighbour_sum_sensitivity`).
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", messages, messages))
    if not lengths.max(initial=0.0) <= 1 + 1e-9:
        raise InputError(f"messages must have length <= 1, got {float(lengths.max())!r}")
    degree = int(np.diff(adjacency.indptr).max(initial=0))
    if degree > calibrated.degree_cap:
        raise InputError(f"degrees must be cut to the cap {calibrated.degree_cap} first, got {degree}")
    sums = clipped_sums(adjacency, messages / np.maximum(lengths, 1)[:, None], calibrated.radius)
    return noise.add_gaussian(sums, std=calibrated.noise_std)
