"""Sound noise, handled badly: its seed is stored, or it is drawn again for every question."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.known_bad_mechanisms.known_bad import KnownBad, edge_pair, gaussian_claim, graph
from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair
from caribou.audit.targets import AuditTarget, asked
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu

NODES, COLUMNS = 12, 8


def sums(g: Graph) -> np.ndarray:
    """A X with unit rows: one edge moves it by sqrt(2)."""
    rows = np.eye(NODES)[:, :COLUMNS]
    return g.adjacency(np.float64) @ rows


def noise_std(budget: Budget) -> float:
    return float(np.sqrt(2) / budget_mu(budget))


@dataclass(frozen=True)
class SeedBesideTheRelease:
    """For reproducibility the seed of the noise is saved with the result."""

    budget: Budget

    def __call__(self, g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        seed = int(noise.integers(1, below=2**31)[0])
        z = NoiseSource.seeded(seed).gaussian((NODES, COLUMNS), std=noise_std(self.budget))
        return {"sums": sums(g) + z, "seed": np.array(seed)}


def stored_seed(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    return (
        SeedBesideTheRelease(budget),
        edge_pair("two of twelve", graph(NODES, [(4, 5)]), 0, 1),
        gaussian_claim(budget),
    )


@dataclass(frozen=True)
class NoiseAtEveryQuery:
    """A service that answers from the private graph and adds new noise of the right size each time."""

    budget: Budget

    def __call__(self, g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        exact, std = sums(g), noise_std(self.budget)
        return asked(lambda: exact + noise.gaussian(exact.shape, std=std), slice(None))


def fresh_noise(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    return NoiseAtEveryQuery(budget), edge_pair("two of twelve", graph(NODES, [(4, 5)]), 0, 1), gaussian_claim(budget)


MECHANISMS = {
    "the noise seed stored beside the release": KnownBad(
        "the seed is saved for reproducibility, so anybody can subtract the noise", stored_seed, runs=400
    ),
    "fresh noise at every query of the same release": KnownBad(
        "every question is answered with new noise, so the mean of the answers has less", fresh_noise, runs=1600
    ),
}
