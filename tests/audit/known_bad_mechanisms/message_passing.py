"""Broken message passing at edge level."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from audit.known_bad_mechanisms.known_bad import KnownBad, edge_pair, gaussian_claim, graph
from caribou.audit.batched_mechanisms import BatchedPropagation
from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair, star_graphs
from caribou.audit.targets import AuditTarget
from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.sensitivity import (
    Bounds,
    convergence_factor,
    edge_sensitivity,
)
from paper_formulas import paper_edge_sensitivity

C = 0.9


def sound(budget: Budget, start: np.ndarray, floor: int, hops: int = 1) -> BatchedPropagation:
    """The real mechanism with the noise that it needs."""
    delta = edge_sensitivity(contraction=C, alpha1=1.0, degree_floor=floor)
    noise_std = delta * math.sqrt(convergence_factor(hops=hops, contraction=C)) / budget_mu(budget)
    return BatchedPropagation(ContractiveGraphLayer(C), Bounds(degree_floor=floor), hops, noise_std, start)


def opposite_signs(leaves: int) -> np.ndarray:
    """The worst rows of two stars: one sign each."""
    return np.array([1.0, -1.0] + [1.0] * leaves + [-1.0] * leaves)[:, None]


# -- noise, then the private graph once more -----------------------------------------------------------------------


class UnnoisedLastHop(BatchedPropagation):
    """The state is multiplied by the clean operator after the last noise."""

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        W = normalize(g, self.bounds).matrix.to_dense().numpy()
        return {"state": C * W @ super().many(g, runs, noise)["state"]}


def unnoised_last_hop(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    """Two nodes with the same two neighbours: if they are joined, their closed neighbourhoods and so their rows are equal."""
    right = sound(budget, np.zeros((4, 2)), floor=3, hops=2)
    pair = edge_pair("twins", graph(4, [(0, 2), (1, 2), (0, 3), (1, 3)]), 0, 1)
    return (
        UnnoisedLastHop(right.layer, right.bounds, right.hops, right.noise_std, right.start),
        pair,
        gaussian_claim(budget),
    )


# -- too little noise ----------------------------------------------------------------------------------------------


def halved_noise(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    """Half the standard deviation: sigma^2 was halved once too often, or a variance was used as a deviation."""
    right = sound(budget, opposite_signs(3), floor=3)
    pair = Pair("stars", *star_graphs(3), PrivacyUnit.EDGE)
    return replace(right, noise_std=right.noise_std / 2), pair, gaussian_claim(budget)


@dataclass(frozen=True)
class WithoutSelfLoops:
    """D^-1/2 A D^-1/2 without self loops, with the noise of the bound for (A + I): one edge moves 1.66 times as much."""

    noise_std: float

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        root = 1 / np.sqrt(np.maximum(g.degrees, 1))
        state = C * (root[:, None] * g.adjacency(np.float64).toarray() * root) @ opposite_signs(0)
        return {"state": state + noise.gaussian((runs, *state.shape), std=self.noise_std)}


def without_self_loops(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    noise_std = edge_sensitivity(contraction=C, alpha1=1.0, degree_floor=1) / budget_mu(budget)
    return WithoutSelfLoops(noise_std), edge_pair("two nodes", graph(2, []), 0, 1), gaussian_claim(budget)


# -- a scale that reads the private graph --------------------------------------------------------------------------


@dataclass(frozen=True)
class MinimumDegreeOfTheGraph:
    """The sensitivity takes D_min from the private graph, so the noise itself tells the graphs apart."""

    budget: Budget

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        delta = paper_edge_sensitivity(contraction=C, alpha1=1.0, minimum_degree=int(g.degrees.min()))
        z = noise.gaussian((runs, g.num_nodes, 4), std=delta / budget_mu(self.budget))
        return {"state": z}  # rows of X^(0) are zero: nothing but the noise is released


def minimum_degree(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    """A cycle, or the same without one edge: D_min is 2 or 1."""
    path = graph(12, [(i, i + 1) for i in range(11)])
    return MinimumDegreeOfTheGraph(budget), edge_pair("path and cycle", path, 0, 11), gaussian_claim(budget)


# -- not Lipschitz -------------------------------------------------------------------------------------------------


class SphereInsteadOfBall(BatchedPropagation):
    """Rows are brought to length 1 before the noise, also short ones: that is not a projection and not 1-Lipschitz."""

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        x = C * normalize(g, self.bounds).matrix.to_dense().numpy() @ self.start
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        return {"state": x + noise.gaussian((runs, *x.shape), std=self.noise_std)}


def sphere(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    """Node 0 has a zero row and a neighbour with a tiny message; the edge in question brings a long one of the other sign."""
    start = np.array([[0.0, 0.0], [-1.0, 0.0], [0.01, 0.0]])
    right = sound(budget, start, floor=3)
    pair = edge_pair("a short row", graph(3, [(0, 2)]), 0, 1)
    return SphereInsteadOfBall(right.layer, right.bounds, 1, right.noise_std, start), pair, gaussian_claim(budget)


MECHANISMS = {
    "un-noised convolution after the noise": KnownBad(
        "noise is added, then the clean adjacency is applied once more before the classifier (CARIBOU's artifact)",
        unnoised_last_hop,
        runs=400,
    ),
    "noise std halved": KnownBad("half the calibrated noise", halved_noise, runs=6000),
    "sensitivity of another operator": KnownBad(
        "the bound of the operator with self loops is used for the operator without them",
        without_self_loops,
        runs=12000,
    ),
    "minimum degree read from the graph": KnownBad(
        "D_min in the noise scale is computed from the private graph (CARIBOU's artifact)", minimum_degree, runs=400
    ),
    "normalisation to the sphere": KnownBad(
        "rows are normalised where the proof needs a projection onto the ball", sphere, runs=2000
    ),
}
