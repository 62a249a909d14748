"""What changes with a node beside what the proof counts: places, classes, rows, divisors, batches and choices."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from audit.known_bad_mechanisms.known_bad import (
    KnownBad,
    Made,
    Outcome,
    gaussian_claim,
    graph,
    many_runs,
    single_runs,
)
from caribou.audit.pairs import Pair, member_pair
from caribou.audit.targets import FitTarget
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

# -- a place that is taken by another ------------------------------------------------------------------------------


def hub_pair(full: Graph) -> Pair:
    """With or without node 0."""
    return Pair("a hub", full.without_node(0), full, PrivacyUnit.NODE, hidden=0)


def first_entries(g: Graph, cap: int) -> sp.csr_array:
    """The first entries of every row. [n, n]"""
    kept = np.array([(v, int(u)) for v in range(g.num_nodes) for u in g.neighbours(v)[:cap]], dtype=np.int64)
    return sp.coo_array((np.ones(len(kept)), kept.reshape(-1, 2).T), shape=(g.num_nodes,) * 2).tocsr()


def noisy_sums(budget: Budget, adjacency: sp.csr_array, degree: int, runs: int, noise: NoiseSource) -> Outcome:
    """A 1, in rows of at most length 1, with the noise of a node with so many edges."""
    n = adjacency.shape[0]
    total = adjacency @ np.ones((n, 1))
    total /= np.maximum(1, np.linalg.norm(total, axis=1, keepdims=True))
    std = sum_sensitivity("node", bounds=Bounds(nodes=n, declared_degree=degree), radius=1.0).value / budget_mu(budget)
    return {"sums": total + noise.gaussian((runs, n, 1), std=std)}


def refilled_truncation(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """An edge stays if it is the first of both its ends. If a node leaves, others take the places that it held.

    The noise is that of a node with at most one edge, which is what is left of it after the cut.
    """
    directed = first_entries(g, 1)
    return noisy_sums(budget, directed.multiply(directed.T), 1, runs, noise)


FIRST_OF_ALL = hub_pair(
    graph(41, [(0, leaf) for leaf in range(1, 41)] + [(leaf, leaf + 1) for leaf in range(1, 40, 2)])
)
"""A hub is the first neighbour of 40 nodes, and keeps one of them; without it, they keep each other in pairs."""


def undone_cap(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """Every row keeps 2 of its entries; then A is symmetrised again, and a hub that all its neighbours kept is back."""
    directed = first_entries(g, 2)
    return noisy_sums(budget, ((directed + directed.T) > 0).astype(np.float64), 2, runs, noise)


# -- classes, rows and divisors that are read from the data --------------------------------------------------------


def measured_classes(budget: Budget, g: Graph, noise: NoiseSource) -> Outcome:
    """A noisy histogram of the labels, with as many classes as there are labels."""
    labels = np.asarray(g.labels)
    counts = np.bincount(labels[labels >= 0]).astype(np.float64)
    return {"counts": noise.add_gaussian(counts, std=1 / budget_mu(budget))}


def member_of_five(name: str, rows: list[float], labels: list[int]) -> Pair:
    """One of five training nodes without edges, there or not."""
    none = np.empty((2, 0), dtype=np.int64)
    g = Graph.from_edges(np.array(rows)[:, None], none, labels=labels, split=Split(np.arange(5), [], []))
    return Pair(name, g.without_node(0), g, PrivacyUnit.NODE, hidden=0)


OPPOSITE_ROW = member_of_five("an opposite row", [-1.0, 1.0, 1.0, 1.0, 1.0], [1, 0, 0, 0, 0])
"""Sum and divisor move the mean the same way."""


def blank_row(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """Rows are centred and brought to length 1, also the blank row of a node that is not there: it moves by 2, not by 1."""
    rows = np.asarray(g.features) - 0.5
    total = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).sum(axis=0)
    return {"sum": total + noise.gaussian((runs, *total.shape), std=1 / budget_mu(budget))}


def mean_of_training_rows(budget: Budget, g: Graph, runs: int, noise: NoiseSource, declared: bool = False) -> Outcome:
    """The noisy sum of training rows, divided by how many there are: a number that the hidden node changes."""
    total = np.asarray(g.features)[g.split.train].sum(axis=0)
    size = g.split.declared[0] if declared else len(g.split.train)
    return {"mean": (total + noise.gaussian((runs, *total.shape), std=1 / budget_mu(budget))) / size}


def scope_of_the_winner(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """Two settings are tried. One reads no edge and holds for every graph; the other holds for degrees up to 2.

    The score of each trial gets the noise of its own scope, and the certificate takes the scope of the winner: every graph.
    A hub moves the score of the second setting far beyond its noise, and with it which setting wins.
    """
    reads_edges = -g.degrees.sum() / 2 + noise.gaussian((runs,), std=2 / budget_mu(budget))
    return {"winner": (reads_edges > -8)[:, None].astype(np.float64)}


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


@dataclass(frozen=True)
class BatchNormalised(MlpDp):
    """Features are standardised by mean and variance of the batch, which are stored with the model, without noise."""

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        batch = np.asarray(graph.features)[graph.split.train]
        result = super().fit(plan, graph, streams, noise)
        buffers = {"running_mean": batch.mean(axis=0), "running_var": batch.var(axis=0)}
        return replace(result, weights={**result.weights, **buffers})


def fitted(method: MlpDp | CaribouNdp) -> Made:
    pair = member_pair()
    return lambda budget: (FitTarget(method, budget, hidden=pair.hidden), pair, gaussian_claim(budget))


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
    "degree cap undone by symmetrisation": KnownBad(
        "out-degrees are bounded, then the graph is made undirected again",
        many_runs(undone_cap, hub_pair(graph(31, [(0, leaf) for leaf in range(1, 31)]))),
        runs=2000,
        unit="node",
    ),
    "classifier trained without DP at node level": KnownBad(
        "only encoder and message passing are private (CARIBOU's artifact)",
        fitted(PlainClassifier(graph_share=0.5, degree_cap=2)),
        runs=200,
        unit="node",
    ),
    "a divisor that counts private nodes": KnownBad(
        "a mean is divided by the length of a list that holds the hidden node",
        many_runs(mean_of_training_rows, OPPOSITE_ROW),
        runs=6000,
        unit="node",
    ),
    "batch normalisation": KnownBad(
        "running statistics of private features are part of the model",
        fitted(BatchNormalised()),
        runs=200,
        unit="node",
    ),
    "a freed place is taken by another edge": KnownBad(
        "degrees are cut to the first M, and a node that leaves makes room",
        many_runs(refilled_truncation, FIRST_OF_ALL),
        runs=2000,
        unit="node",
    ),
    "classes measured from labels": KnownBad(
        "the number of classes is read from private labels",
        single_runs(measured_classes, member_pair()),
        runs=400,
        unit="node",
    ),
    "a blank row in place of an absent one": KnownBad(
        "the row of a node that is not there is centred like any other",
        many_runs(blank_row, member_of_five("a row", [1.0] * 5, [0] * 5)),
        runs=6000,
        unit="node",
    ),
    "the scope of a search is that of its winner": KnownBad(
        "a search tries settings whose promise has conditions, and certifies the one that won",
        many_runs(scope_of_the_winner, hub_pair(graph(61, [(0, leaf) for leaf in range(1, 61)]))),
        runs=2000,
        unit="node",
    ),
}
