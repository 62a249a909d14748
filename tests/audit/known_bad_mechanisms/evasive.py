"""What an audit could miss: leaks in errors, in digits, on large graphs only, and answers that were kept from another run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from audit.known_bad_mechanisms.known_bad import KnownBad, edge_pair, gaussian_claim, graph
from audit.known_bad_mechanisms.whole_methods import Sound
from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair
from caribou.audit.targets import AuditTarget
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu


@dataclass(frozen=True)
class RefusedGraph:
    """A sound release that checks its input first: a graph with a node without neighbours is refused."""

    budget: Budget

    def __call__(self, g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        if g.degrees.min() == 0:
            raise InputError("graph must have a neighbour for every node")
        sums = g.adjacency(np.float64) @ np.ones((g.num_nodes, 1))
        return {"sums": noise.add_gaussian(sums, std=math.sqrt(2) / budget_mu(self.budget))}


def refused_graph(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    return RefusedGraph(budget), edge_pair("two lonely nodes", graph(6, [(2, 3), (4, 5)]), 0, 1), gaussian_claim(budget)


@dataclass(frozen=True)
class NoiseOfSinglePrecision:
    """Noise with the digits of single precision is added to a double: where the sum is noise alone, it has few digits."""

    budget: Budget

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        means = (g.adjacency(np.float64) @ np.full((g.num_nodes, 1), 1 / 3)) / np.maximum(1, g.degrees)[:, None]
        z = noise.gaussian((runs, *means.shape), std=math.sqrt(2) / budget_mu(self.budget))
        return {"means": means + z.astype(np.float32)}


def single_precision(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    pair = edge_pair("two lonely nodes", graph(6, [(2, 3), (4, 5)]), 0, 1)
    return NoiseOfSinglePrecision(budget), pair, gaussian_claim(budget)


class ExactOnLargeGraphs(Sound):
    """Above 100 nodes another path is taken, which forgets the noise: no pair of small graphs shows it."""

    def sums(self, graph: Graph, budget: Budget, noise: NoiseSource) -> np.ndarray:
        return super().sums(graph, budget, noise) if graph.num_nodes <= 100 else self.clean(graph)


@dataclass(frozen=True)
class KeptAnswers(Sound):
    """Answers are kept under names of public things, so that the second graph is answered with the release of the first."""

    kept: dict[int, np.ndarray] = field(default_factory=dict, compare=False)

    def sums(self, graph: Graph, budget: Budget, noise: NoiseSource) -> np.ndarray:
        return self.kept.setdefault(graph.num_nodes, super().sums(graph, budget, noise))


MECHANISMS = {
    "an error that depends on the graph": KnownBad(
        "a check of the private graph refuses some of them", refused_graph, runs=200
    ),
    "digits that show where there is nothing but noise": KnownBad(
        "noise of single precision is added to values of double precision", single_precision, runs=400
    ),
}
"""`ExactOnLargeGraphs` is for one run with canaries, `KeptAnswers` is never consistent."""
