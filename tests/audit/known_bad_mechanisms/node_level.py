"""What changes with a node beside what the proof counts: places, classes, rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from audit.known_bad_mechanisms.known_bad import KnownBad, gaussian_claim, graph
from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair, member_pair
from caribou.audit.targets import AuditTarget
from caribou.graph import Graph, Split
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Outputs
from caribou.methods.mlp import MlpDp
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import Bounds, sum_sensitivity
from caribou.randomness import Streams

# -- a place that is taken by another ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RefilledTruncation:
    """An edge stays if it is among the first M of both its ends. If a node leaves, others take the places that it held.

    The noise is that of a node with at most M edges, which is what is left of it after the cut.
    """

    cap: int
    noise_std: float

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        first = [(v, int(u)) for v in range(g.num_nodes) for u in g.neighbours(v)[: self.cap]]
        kept = np.array(first, dtype=np.int64).reshape(-1, 2).T
        directed = sp.coo_array((np.ones(kept.shape[1]), kept), shape=(g.num_nodes,) * 2).tocsr()
        sums = directed.multiply(directed.T) @ np.ones((g.num_nodes, 1))
        sums /= np.maximum(1, np.linalg.norm(sums, axis=1, keepdims=True))
        return {"sums": sums + noise.gaussian((runs, *sums.shape), std=self.noise_std)}


def refilled_truncation(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    """A hub is the first neighbour of 40 nodes, and keeps one of them; without it, they keep each other in pairs."""
    leaves = [(0, leaf) for leaf in range(1, 41)] + [(leaf, leaf + 1) for leaf in range(1, 40, 2)]
    full = graph(41, leaves)
    pair = Pair("a hub", full.without_node(0), full, PrivacyUnit.NODE, hidden=0)
    noise_std = sum_sensitivity("node", bounds=Bounds(nodes=41, declared_degree=1), radius=1.0).value / budget_mu(
        budget
    )
    return RefilledTruncation(1, noise_std), pair, gaussian_claim(budget)


# -- classes and rows that are read from the data ------------------------------------------------------------------


@dataclass(frozen=True)
class MeasuredClasses:
    """A noisy histogram of the labels, with as many classes as there are labels."""

    budget: Budget

    def __call__(self, g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        labels = np.asarray(g.labels)
        counts = np.bincount(labels[labels >= 0]).astype(np.float64)
        return {"counts": noise.add_gaussian(counts, std=1 / budget_mu(self.budget))}


def measured_classes(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    return MeasuredClasses(budget), member_pair(), gaussian_claim(budget)


@dataclass(frozen=True)
class BlankRow:
    """Rows are centred and brought to length 1, also the blank row of a node that is not there: it moves by 2, not by 1."""

    budget: Budget

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        rows = np.asarray(g.features) - 0.5
        total = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).sum(axis=0)
        return {"sum": total + noise.gaussian((runs, *total.shape), std=1 / budget_mu(self.budget))}


def blank_row(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    none = np.empty((2, 0), dtype=np.int64)
    g = Graph.from_edges(np.ones((5, 1)), none, labels=[0] * 5, split=Split(np.arange(5), [], []))
    return BlankRow(budget), Pair("a row", g.without_node(0), g, PrivacyUnit.NODE, hidden=0), gaussian_claim(budget)


class ExactTestRows(MlpDp):
    """Training nodes are protected; the mean row of the test nodes is stored for a later check of drift."""

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        result = super().fit(plan, graph, streams, noise)
        rows = np.asarray(graph.features)[graph.split.test]
        return replace(result, weights={**result.weights, "drift": rows.sum(axis=0)})


class ExactHubs(MlpDp):
    """The number of nodes that have more neighbours than half of all nodes."""

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        result = super().fit(plan, graph, streams, noise)
        hubs = np.array([float((graph.degrees > graph.num_nodes / 2).sum())])
        return replace(result, weights={**result.weights, "hubs": hubs})


MECHANISMS = {
    "a freed place is taken by another edge": KnownBad(
        "degrees are cut to the first M, and a node that leaves makes room", refilled_truncation, runs=2000, unit="node"
    ),
    "classes measured from labels": KnownBad(
        "the number of classes is read from private labels", measured_classes, runs=400, unit="node"
    ),
    "a blank row in place of an absent one": KnownBad(
        "the row of a node that is not there is centred like any other", blank_row, runs=6000, unit="node"
    ),
}
