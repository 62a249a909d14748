"""A search that promises what its winner promises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.known_bad_mechanisms.known_bad import KnownBad, gaussian_claim, graph
from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair
from caribou.audit.targets import AuditTarget
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu


@dataclass(frozen=True)
class ScopeOfTheWinner:
    """Two settings are tried. One reads no edge and holds for every graph; the other holds for degrees up to 2.

    The score of each trial gets the noise of its own scope, and the certificate takes the scope of the winner: every graph.
    A hub moves the score of the second setting far beyond its noise, and with it which setting wins.
    """

    budget: Budget
    cap: int = 2

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        std = self.cap / budget_mu(self.budget)
        reads_edges = -g.degrees.sum() / 2 + noise.gaussian((runs,), std=std)
        return {"winner": (reads_edges > -8)[:, None].astype(np.float64)}


def scope_of_the_winner(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    star = graph(61, [(0, leaf) for leaf in range(1, 61)])
    pair = Pair("a hub", star.without_node(0), star, PrivacyUnit.NODE, hidden=0)
    return ScopeOfTheWinner(budget), pair, gaussian_claim(budget)


MECHANISMS = {
    "the scope of a search is that of its winner": KnownBad(
        "a search tries settings whose promise has conditions, and certifies the one that won",
        scope_of_the_winner,
        runs=2000,
        unit="node",
    ),
}
