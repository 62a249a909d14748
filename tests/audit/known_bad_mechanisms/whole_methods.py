"""Whole methods, as a user writes them: one noisy sum of class codes over neighbours, and what goes wrong beside the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from scipy.special import softmax

from audit.known_bad_mechanisms.known_bad import KnownBad, gaussian_claim
from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair, worst_pairs
from caribou.audit.targets import AuditTarget, FitTarget
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Method, Outputs
from caribou.privacy.accounting import gdp_epsilon
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import Gaussian
from caribou.privacy.mechanism_records import EDGES, Mechanism, OwnRecord
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

mu_of = cache(budget_mu)
"""Computed once for a budget: runs of an audit are many."""
OPEN = ("edges", "note", "joined")
"""Figures that a plan leaves open, for what is known after a draw: the only place where a certificate could leak."""


@dataclass(frozen=True)
class Sound:
    """S = A Y with Y the codes of all labels: one edge moves it by sqrt(2). Nothing is wrong with it."""

    def settings(self) -> Mapping[str, Any]:
        return {}

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        cost = dict.fromkeys(EDGES, (Gaussian(1 / mu_of(budget)),))
        record = OwnRecord(name="sums of codes", why="a test", unit=budget.unit, paid=cost, notes=dict.fromkeys(OPEN))
        public = {"nodes": sizes.nodes}
        return ReleasePlan(budget, (record,), released=("sums",), method="sums", public_parameters=public)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        return self.plan(sizes, budget)

    def clean(self, graph: Graph) -> np.ndarray:
        return np.asarray(graph.adjacency(np.float64) @ np.eye(graph.num_classes)[graph.labels])

    def sums(self, graph: Graph, budget: Budget, noise: NoiseSource) -> np.ndarray:
        return noise.add_gaussian(self.clean(graph), std=math.sqrt(2) / mu_of(budget))

    def details(self, graph: Graph) -> dict[str, Any]:
        return {}

    def weights(self, graph: Graph) -> dict[str, np.ndarray]:
        return {"bias": np.zeros(graph.num_classes)}

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        return self.predict_graph(plan, self.weights(graph), graph, streams, noise)

    def predict_graph(
        self, plan: ReleasePlan, weights: Mapping[str, np.ndarray], graph: Graph, streams: Streams, noise: NoiseSource
    ) -> Outputs:
        return self.outputs(graph, self.sums(graph, plan.budget, noise), weights)

    def outputs(self, graph: Graph, sums: np.ndarray, weights: Mapping[str, np.ndarray]) -> Outputs:
        released = {"sums": sums}
        details = {Mechanism.OWN: self.details(graph)}
        return Outputs(self.predict(weights, released, graph), released, weights, details)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        return np.asarray(softmax(released["sums"][:, : graph.num_classes] + weights["bias"], axis=1))


# -- edges of a kind that gets no noise ----------------------------------------------------------------------------


class ExactValidationRows(Sound):
    """Validation rows only choose a hyper-parameter, so they get no noise; they are published with the rest."""

    def sums(self, graph: Graph, budget: Budget, noise: NoiseSource) -> np.ndarray:
        out = super().sums(graph, budget, noise)
        out[graph.split.val] = self.clean(graph)[graph.split.val]
        return out


class ExactTestEdges(Sound):
    """Edges between two test nodes arrive with the question, so they are taken for public."""

    def sums(self, graph: Graph, budget: Budget, noise: NoiseSource) -> np.ndarray:
        among = np.isin(np.arange(graph.num_nodes), graph.split.test).astype(np.float64)
        exact = among * (graph.adjacency(np.float64) @ among)
        return np.concatenate([super().sums(graph, budget, noise), exact[:, None]], axis=1)


class ExactTriangles(Sound):
    """The number of triangles of every node is taken for a feature."""

    def sums(self, graph: Graph, budget: Budget, noise: NoiseSource) -> np.ndarray:
        A = graph.adjacency(np.float64).toarray()
        return np.concatenate([super().sums(graph, budget, noise), np.diag(A @ A @ A)[:, None] / 2], axis=1)


# -- a fit and a release that differ -------------------------------------------------------------------------------


class CleanFit(Sound):
    """Weights are fitted to sums without noise; only what is released afterwards gets it."""

    def weights(self, graph: Graph) -> dict[str, np.ndarray]:
        S, Y = self.clean(graph), np.eye(graph.num_classes)[graph.labels]
        return {"bias": np.linalg.solve(S.T @ S + np.eye(S.shape[1]), S.T @ Y).sum(axis=0)}


class HalfNoiseInTheFit(Sound):
    """A fit has half the noise of a release."""

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        S = noise.add_gaussian(self.clean(graph), std=math.sqrt(2) / mu_of(plan.budget) / 2)
        return self.outputs(graph, S, {"bias": np.zeros(2)})


class LargerSensitivityOfTheFit(Sound):
    """A fit forgets to bound what it sums: ten times the sensitivity of a release, under the same noise."""

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        S = noise.add_gaussian(10 * self.clean(graph), std=math.sqrt(2) / mu_of(plan.budget))
        return self.outputs(graph, S, {"bias": np.zeros(2)})


class CleanRelease(Sound):
    """A fit is private; a release about another graph adds nothing."""

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        return Sound().fit(plan, graph, streams, noise)

    def sums(self, graph: Graph, budget: Budget, noise: NoiseSource) -> np.ndarray:
        return self.clean(graph)


class CleanPredict(Sound):
    """Fit and release are sound; a prediction multiplies by the clean adjacency once more."""

    def outputs(self, graph: Graph, sums: np.ndarray, weights: Mapping[str, np.ndarray]) -> Outputs:
        return Sound().outputs(graph, sums, weights)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        return super().predict(weights, {"sums": released["sums"] + 100 * self.clean(graph)}, graph)


class CheapFit(Sound):
    """Nothing is wrong with it: a fit spends a third of mu and says so, a release the whole budget."""

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        third = gdp_epsilon(mu=mu_of(budget) / 3, delta=budget.delta)
        return super().plan(sizes, Budget(third, budget.delta, budget.unit))

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        return super().plan(sizes, budget)


class LargerClaim(Sound):
    """The budget that was asked for is ignored: epsilon = 8 is claimed, and spent."""

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        return super().plan(sizes, Budget(8.0, budget.delta, budget.unit))


# -- what an audit could miss ---------------------------------------------------------------------------------------


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


# -- what is stated beside the release -----------------------------------------------------------------------------


class CountInDetails(Sound):
    """The number of edges is taken for a figure that may be published."""

    def details(self, graph: Graph) -> dict[str, Any]:
        return {"edges": graph.num_edges}


class CountInWords(Sound):
    """The certificate tells in words what the model was trained on."""

    def details(self, graph: Graph) -> dict[str, Any]:
        return {"note": f"trained on {graph.num_edges} edges"}


class TruthInDetails(Sound):
    """A flag of the certificate is read from the private graph."""

    def details(self, graph: Graph) -> dict[str, Any]:
        return {"joined": bool(graph.degrees.sum() % 4 == 2)}


def on_worst_pairs(method: Method) -> Any:
    def make(budget: Budget) -> tuple[AuditTarget, tuple[Pair, ...], Claim]:
        return FitTarget(method, budget), worst_pairs("edge"), gaussian_claim(budget)

    return make


MECHANISMS = {
    "validation rows without noise": KnownBad(
        "validation nodes only choose a hyper-parameter, so their rows stay exact",
        on_worst_pairs(ExactValidationRows()),
        runs=240,
    ),
    "edges between test nodes without noise": KnownBad(
        "the edges of the graph that is asked about are taken for public", on_worst_pairs(ExactTestEdges()), runs=240
    ),
    "triangle counts without noise": KnownBad(
        "structural features are computed from the private graph", on_worst_pairs(ExactTriangles()), runs=240
    ),
    "edge count among the figures": KnownBad(
        "the certificate publishes a count of the private graph", on_worst_pairs(CountInDetails()), runs=240
    ),
    "edge count in words": KnownBad(
        "a sentence of the certificate holds a private number", on_worst_pairs(CountInWords()), runs=240
    ),
    "a truth about the graph in the certificate": KnownBad(
        "a flag of the certificate follows from the private graph", on_worst_pairs(TruthInDetails()), runs=240
    ),
}
"""`ExactOnLargeGraphs` is for one run with canaries, `KeptAnswers` is never consistent."""
