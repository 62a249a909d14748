"""Sound noise that is used twice: in two parameters, or in two releases. What both share cancels."""

from __future__ import annotations

import math
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
class OneTensorForTwoParameters:
    """Sums and degrees have one shape, so they get one tensor of noise; their difference has none. [n, columns]"""

    budget: Budget
    columns: int = 2

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        rows = np.linspace(-1, 1, g.num_nodes * self.columns).reshape(-1, self.columns)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        sums = g.adjacency(np.float64) @ rows
        degrees = np.tile(g.degrees[:, None] / math.sqrt(self.columns), (1, self.columns))
        # each moves by sqrt(2) with an edge, and has half of mu^2
        z = noise.gaussian((runs, *sums.shape), std=2 / budget_mu(self.budget))
        return {"first": sums + z, "second": degrees + z}


def one_tensor(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    pair = edge_pair("two of six", graph(6, [(2, 3)]), 0, 1)
    return OneTensorForTwoParameters(budget), pair, gaussian_claim(budget)


def one_wide_tensor(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    pair = edge_pair("two of twelve", graph(12, [(2, 3)]), 0, 1)
    return OneTensorForTwoParameters(budget, columns=40), pair, gaussian_claim(budget)


@dataclass(frozen=True)
class OneKeyForTwoBudgets:
    """A third and the rest of the budget: two releases under the same key, so that one noise is a multiple of the other."""

    budget: Budget

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        sums = g.adjacency(np.float64) @ np.ones((g.num_nodes, 1))
        z = noise.gaussian((runs, *sums.shape), std=math.sqrt(2) / budget_mu(self.budget))
        return {"first": sums + z * math.sqrt(3), "second": sums + z * math.sqrt(3 / 2)}


def one_key(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    pair = edge_pair("two of six", graph(6, [(2, 3)]), 0, 1)
    return OneKeyForTwoBudgets(budget), pair, gaussian_claim(budget)


MECHANISMS = {
    "one noise tensor for two parameters of a shape": KnownBad(
        "a gradient hook draws noise once per shape, not once per parameter", one_tensor, runs=400
    ),
    "one noise tensor for two wide parameters": KnownBad(
        "the same, with more columns than correlations can be estimated of", one_wide_tensor, runs=400
    ),
    "noise replayed over two budgets": KnownBad(
        "two releases under the same key: their weighted difference is exact", one_key, runs=400
    ),
}
