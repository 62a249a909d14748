"""Noisy sums over neighbours: the aggregation of GAP (Sajadmanesh et al. 2023), of which every hop is released."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import cap_degrees
from caribou.mechanisms.bounded_rows import project_rows, unit_length
from caribou.mechanisms.noise_source import NoiseSource
from caribou.memory import DOUBLE, require_memory
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
    check_pairing(adjacency, messages, calibrated)
    n, d = messages.shape
    size = f"{calibrated.hops} noisy sums of {n:,} nodes with {d:,} columns"
    require_memory(DOUBLE * n * d * (calibrated.hops + 5), size)
    sums: list[np.ndarray] = []
    z = messages
    for _ in range(calibrated.hops):
        total = neighbour_sums(adjacency, z, calibrated)
        sums.append(noise.add_gaussian(total, std=calibrated.noise_std))
        z = unit_length(sums[-1])
    return sums


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
