"""Noise on a part of a factorisation, and the other part as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.known_bad_mechanisms.known_bad import KnownBad, edge_pair, gaussian_claim, graph
from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair
from caribou.audit.targets import AuditTarget
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu


@dataclass(frozen=True)
class ExactSingularVectors:
    """Singular values get noise (one edge moves them by at most sqrt(2)); the vectors that are multiplied back are exact."""

    budget: Budget

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        U, values, V = np.linalg.svd(g.adjacency(np.float64).toarray())
        noisy = values + noise.gaussian((runs, len(values)), std=float(np.sqrt(2)) / budget_mu(self.budget))
        return {"adjacency": np.einsum("ik,rk,kj->rij", U, noisy, V)}


def exact_singular_vectors(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    pair = edge_pair("two of eight", graph(8, [(2, 3), (3, 4), (4, 5)]), 0, 1)
    return ExactSingularVectors(budget), pair, gaussian_claim(budget)


MECHANISMS = {
    "exact singular vectors beside noisy singular values": KnownBad(
        "a low-rank model adds noise to the spectrum and multiplies by clean vectors", exact_singular_vectors, runs=400
    ),
}
