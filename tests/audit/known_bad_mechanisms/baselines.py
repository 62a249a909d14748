"""Faults of published baselines: DPDGC, SAGE, degree caps, and node-level training."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from audit.known_bad_mechanisms.known_bad import KnownBad, edge_pair, gaussian_claim, graph, pure_claim
from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair, member_pair
from caribou.audit.targets import AuditTarget, FitTarget
from caribou.graph import Graph, Split
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Outputs
from caribou.methods.caribou import CaribouNdp
from caribou.methods.mlp import MlpDp
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import Bounds, sum_sensitivity
from caribou.randomness import Streams

# -- DPDGC ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LostCopy:
    """Weights are normalised in the copy that ``state_dict`` returned; the product uses the others."""

    weight: np.ndarray
    norm_scale: float
    noise_multiplier: float

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        state = {"weight": self.weight.copy()}
        state["weight"] *= self.norm_scale / np.linalg.norm(state["weight"], axis=1, keepdims=True)  # and it is lost
        product = g.adjacency(np.float64) @ self.weight
        z = noise.gaussian((runs, *product.shape), std=self.noise_multiplier * math.sqrt(2) * self.norm_scale)
        return {"product": product + z}


def lost_copy(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    weight = np.linspace(-0.9, 0.9, 12).reshape(6, 2)
    release = LostCopy(weight, norm_scale=1e-8, noise_multiplier=1 / budget_mu(budget))
    return release, edge_pair("two nodes of six", graph(6, [(2, 3)]), 0, 1), gaussian_claim(budget)


# -- SAGE ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DensityPerChunk:
    """The density of every chunk of rows, with the Laplace noise for the density of the whole matrix, 1 / n^2."""

    epsilon: float
    chunk: int = 3

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        n, share = g.num_nodes, 0.1
        densities = g.degrees.reshape(-1, self.chunk).sum(axis=1) / (self.chunk * n)
        z = noise.laplace((runs, len(densities)), scale=1 / n**2 / (share * self.epsilon))
        return {"densities": densities + z}


def density_per_chunk(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    return DensityPerChunk(budget.epsilon), edge_pair("two chunks", graph(60, [(5, 9)]), 0, 30), pure_claim(budget)


# -- degree caps ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CapUndoneBySymmetrisation:
    """Every row keeps M of its entries; then A is symmetrised again, and a hub that all its neighbours kept is back."""

    cap: int
    noise_std: float

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        rows = [(v, int(u)) for v in range(g.num_nodes) for u in g.neighbours(v)[: self.cap]]
        kept = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        directed = sp.coo_array((np.ones(kept.shape[1]), kept), shape=(g.num_nodes,) * 2).tocsr()
        adjacency = ((directed + directed.T) > 0).astype(np.float64)
        total = adjacency @ np.ones((g.num_nodes, 1))
        total /= np.maximum(1, np.linalg.norm(total, axis=1, keepdims=True))
        return {"sums": total + noise.gaussian((runs, *total.shape), std=self.noise_std)}


def undone_cap(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    """A star with 30 leaves and a cap of 2, with or without its centre."""
    star = graph(31, [(0, leaf) for leaf in range(1, 31)])
    pair = Pair("a hub", star.without_node(0), star, PrivacyUnit.NODE, hidden=0)
    noise_std = sum_sensitivity("node", bounds=Bounds(nodes=31, declared_degree=2), radius=1.0).value / budget_mu(
        budget
    )
    return CapUndoneBySymmetrisation(2, noise_std), pair, gaussian_claim(budget)


# -- node-level training -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlainClassifier(CaribouNdp):
    """The private state is classified by a ridge regression on private labels, without any noise."""

    def _classify(self, plan, graph, weights, state, streams, noise):  # type: ignore[no-untyped-def]
        train = graph.split.train
        rows, labels = self._rows(graph, weights, state)[train], graph.labels[train]
        gram = rows.T @ rows + 0.1 * np.eye(rows.shape[1])
        head = np.linalg.solve(gram, rows.T @ np.eye(graph.num_classes)[labels])
        return {"classifier": head}


def plain_classifier(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    method = PlainClassifier(graph_share=0.5, degree_cap=2)
    return fitted(method, budget)


@dataclass(frozen=True)
class BatchNormalised(MlpDp):
    """Features are standardised by mean and variance of the batch, which are stored with the model, without noise."""

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        batch = np.asarray(graph.features)[graph.split.train]
        result = super().fit(plan, graph, streams, noise)
        buffers = {"running_mean": batch.mean(axis=0), "running_var": batch.var(axis=0)}
        return replace(result, weights={**result.weights, **buffers})


def batch_normalised(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    return fitted(BatchNormalised(), budget)


@dataclass(frozen=True)
class MeanOfTrainingRows:
    """The noisy sum of training rows, divided by how many there are: a number that the hidden node changes."""

    budget: Budget
    declared: bool = False

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        total = np.asarray(g.features)[g.split.train].sum(axis=0)
        size = g.split.declared[0] if self.declared else len(g.split.train)
        return {"mean": (total + noise.gaussian((runs, *total.shape), std=1 / budget_mu(self.budget))) / size}


def opposite_member() -> Pair:
    """One of five training nodes with the opposite row, there or not: sum and divisor move the mean the same way."""
    rows = np.array([[-1.0], [1.0], [1.0], [1.0], [1.0]])
    without_edges = np.empty((2, 0), dtype=np.int64)
    g = Graph.from_edges(rows, without_edges, labels=[1, 0, 0, 0, 0], split=Split(np.arange(5), [], []))
    return Pair("an opposite row", g.without_node(0), g, PrivacyUnit.NODE, hidden=0)


def counted_divisor(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    return MeanOfTrainingRows(budget), opposite_member(), gaussian_claim(budget)


def fitted(method: MlpDp | CaribouNdp, budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    pair = member_pair()
    return FitTarget(method, budget, hidden=pair.hidden), pair, gaussian_claim(budget)


MECHANISMS = {
    "weights normalised in a lost copy": KnownBad(
        "normalisation is written into the dictionary that state_dict() returned (DPDGC)", lost_copy, runs=400
    ),
    "density sensitivity of the whole for a chunk": KnownBad(
        "chunks of rows release their density with the noise for 1 / n^2 (SAGE)", density_per_chunk, runs=30_000
    ),
    "degree cap undone by symmetrisation": KnownBad(
        "out-degrees are bounded, then the graph is made undirected again", undone_cap, runs=2000, unit="node"
    ),
    "classifier trained without DP at node level": KnownBad(
        "only encoder and message passing are private (CARIBOU's artifact)", plain_classifier, runs=200, unit="node"
    ),
    "a divisor that counts private nodes": KnownBad(
        "a mean is divided by the length of a list that holds the hidden node", counted_divisor, runs=6000, unit="node"
    ),
    "batch normalisation": KnownBad(
        "running statistics of private features are part of the model", batch_normalised, runs=200, unit="node"
    ),
}
