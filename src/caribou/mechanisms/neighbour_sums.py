"""Noisy sums over neighbours: the aggregation of GAP (Sajadmanesh et al. 2023) and ProGAP (2024), every hop released."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import cap_degrees
from caribou.machine.memory import DOUBLE, require_memory
from caribou.mechanisms.bounded_rows import project_rows, unit_length
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.arithmetic import grid_spacing
from caribou.privacy.calibration import CalibratedSums


def noisy_sums(
    adjacency: sp.csr_array, messages: np.ndarray, calibrated: CalibratedSums, noise: NoiseSource
) -> list[np.ndarray]:
    """S_k = Pi_r(A Z_(k-1)) + noise_std N(0, I) for k = 1 .. K, with Z_k the rows of S_k at length 1. Returns all S_k, [n, d].

    Rows of ``messages`` = Z_0 are shortened to length 1 if they are longer. No self loops, no normalisation by degrees. Pi_r
    projects onto the ball of the declared radius and is there at node level only. Z_k is computed from the release.

    Formal guarantee: S_1 .. S_K together are calibrated.mu-GDP at calibrated.sensitivity.unit (docs/privacy.md, Theorems 5
    and 6), given that ``messages`` are public or released before, or, at node level, that row i is a function of node i's own
    data and of such values; for a node of another degree than the declared one `CalibratedSums.event_at` says what it pays.
    Where a cap is declared, ``adjacency`` must be cut to it (`bounded_adjacency`).
    """
    staged = StagedSums(adjacency, calibrated, noise)
    sums: list[np.ndarray] = []
    z = messages
    for _ in range(calibrated.hops):
        sums.append(staged.release(z))
        z = unit_length(sums[-1])
    return sums


class StagedSums:
    """The K sums of one calibration, released one by one: the messages of a stage may be learned from the sums before it.

    Formal guarantee: as `noisy_sums` (docs/privacy.md, Sums of learned messages). What is said there of Z_0 is asked of the
    messages of every stage: they are public or computed from earlier releases, or, at node level, row i is a function of node
    i's own data and of such values. Noise was calibrated for K sums, so a further one is refused before an edge is read.

    >>> from caribou.privacy.calibration import calibrate_sums
    >>> from caribou.privacy.sensitivity import sum_sensitivity
    >>> calibrated = calibrate_sums(sum_sensitivity("edge"), hops=2, mu=1.0, nodes=2, columns=1)
    >>> sums = StagedSums(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]), calibrated, NoiseSource.seeded(0))
    >>> first = sums.release(np.array([[1.0], [-1.0]]))
    >>> sums.release(np.sign(first)).shape, sums.left
    ((2, 1), 0)
    """

    def __init__(self, adjacency: sp.csr_array, calibrated: CalibratedSums, noise: NoiseSource) -> None:
        self._adjacency, self._calibrated, self._noise = adjacency, calibrated, noise
        self.left = calibrated.hops

    def release(self, messages: np.ndarray) -> np.ndarray:
        """The next sum, Pi_r(A Z) + noise_std N(0, I), with fresh noise. [n, d]"""
        hops = self._calibrated.hops
        if self.left < 1:
            raise InputError(f"messages must be summed {hops} times at most, which the noise is for, got one more")
        check_pairing(self._adjacency, messages, self._calibrated)
        n, d = messages.shape
        require_memory(DOUBLE * n * d * (hops + 5), f"{hops} noisy sums of {n:,} nodes with {d:,} columns")
        self.left -= 1
        total = neighbour_sums(self._adjacency, messages, self._calibrated)
        return self._noise.add_gaussian(total, std=self._calibrated.noise_std)


def neighbour_sums(adjacency: sp.csr_array, messages: np.ndarray, calibrated: CalibratedSums) -> np.ndarray:
    """Pi_r(A Z) before noise. Messages lie on the grid of the noise, so that sums are exact in any order. [n, d]"""
    total = np.asarray(adjacency @ bounded_messages(messages, noise_std=calibrated.noise_std), dtype=np.float64)
    return total if calibrated.sensitivity.radius is None else project_rows(total, calibrated.sensitivity.radius)


def bounded_messages(messages: np.ndarray, *, noise_std: float) -> np.ndarray:
    """Rows of length at most 1, cut off (towards 0) to multiples of the grid of the noise. Acts on each row alone."""
    z = project_rows(np.asarray(messages, dtype=np.float64), 1.0)
    if noise_std == 0:
        return z
    grid = grid_spacing(noise_std=noise_std)
    return np.trunc(z * ((1 - 2.0**-30) / grid)) * grid  # the factor: the computed length 1 may be a little more


def bounded_adjacency(graph: Graph, degree_cap: int | None, sampling: np.random.Generator) -> sp.csr_array:
    """A in double precision, with degrees cut to the cap if there is one (by a public order of pairs)."""
    adjacency = graph.adjacency(np.float64)
    return adjacency if degree_cap is None else cap_degrees(adjacency, degree_cap, sampling)


def check_pairing(adjacency: sp.csr_array, messages: np.ndarray, calibrated: CalibratedSums) -> None:
    """The noise must have been calibrated for this size, the sums must be exact, and the messages usable."""
    n, s = adjacency.shape[0], calibrated.sensitivity
    if messages.ndim != 2 or messages.shape[0] != n or messages.shape[1] < 1:
        raise InputError(f"messages must have shape [{n}, columns >= 1], got {messages.shape}")
    if not np.isfinite(messages).all():
        raise InputError("messages must be finite, got NaN or infinity (it would carry edges past the noise)")
    sizes = (calibrated.arithmetic.nodes, calibrated.arithmetic.columns)
    if sizes != messages.shape:
        raise InputError(f"calibrated must be for {messages.shape[0]} x {messages.shape[1]} messages, got {sizes}")
    cap = s.bounds.degree_cap
    if cap is not None and int(np.diff(adjacency.indptr).max(initial=0)) > cap:
        raise InputError(f"adjacency must have degrees of at most the cap {cap}; cut it first")
    std = calibrated.noise_std
    if std > 0 and n + 14 * std > 2.0**52 * grid_spacing(noise_std=std):
        raise InputError(
            f"noise_std must be at least {n} nodes / 2^23 for exact sums, got {std:g}; use a smaller epsilon"
        )
