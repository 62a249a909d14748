"""A method of your own in 30 lines, with public names only.

    caribou --methods examples/own_method.py train label-counts --dataset csbm:nodes=600 --epsilon 4
    caribou --methods examples/own_method.py audit label-counts --epsilon 4 --attack distinguish --runs 400

Every node gets a noisy count of the labels of its neighbours. One edge adds 1 to one count of either end, so the counts move by
2 in L1, and Laplace noise of scale 2 / epsilon makes them epsilon-DP at edge level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import caribou as cb


@dataclass(frozen=True)
class LabelCounts:
    """``smoothing``: added to every count, so that a node without neighbours is undecided."""

    smoothing: float = 1.0

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def plan(self, sizes: Any, budget: cb.Budget) -> cb.ReleasePlan:
        """What will be released, and its cost, from public numbers alone."""
        theorem = "an edge adds 1 to one count of either end: 2 in L1; Laplace noise of scale 2 / epsilon"
        counts = cb.own_mechanism("counts of labels", theorem, budget.unit, cb.Laplace(1 / budget.epsilon))
        public = {"nodes": sizes.nodes, "classes": sizes.classes, **self.settings()}
        return cb.ReleasePlan(budget, (counts,), ("noisy counts of labels",), "label-counts", public)

    def fit(self, plan: cb.ReleasePlan, graph: cb.Graph, streams: Any, noise: cb.NoiseSource) -> cb.Outputs:
        """The only function that reads edges."""
        split, labels = graph.for_learning(public=True)
        sent = np.zeros((graph.num_nodes, graph.num_classes))
        sent[split.train, np.array(labels)[split.train]] = 1
        counts = noise.add_laplace(graph.adjacency(np.float64) @ sent, scale=2 / plan.budget.epsilon)
        believed = np.maximum(counts, 0) + self.smoothing
        probabilities = believed / believed.sum(axis=1, keepdims=True)
        return cb.Outputs(probabilities, released={"counts": counts, "probabilities": probabilities})

    def predict(self, weights: Any, released: Mapping[str, np.ndarray], graph: cb.Graph) -> np.ndarray:
        """From what was released; costs nothing."""
        return released["probabilities"]


cb.register("label-counts", LabelCounts, unit="edge", summary="noisy counts of the labels of neighbours")
