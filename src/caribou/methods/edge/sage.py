"""``sage-edp``: GraphSAGE on a graph perturbed by asymmetric randomized response; ``sage-inf``: on the graph itself.

At edge level features, labels and split are public. The edge count is released with noise, every unordered pair of nodes is
answered once with probabilities that follow from it, and everything after (training, choice of the epoch, predictions) reads the
perturbed graph only: post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from caribou._validate import integer, open_unit_interval
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import PerturbedGraph, perturb
from caribou.methods.base import Outputs
from caribou.methods.catalogue import METHODS, require_unit
from caribou.models.objective import Objective
from caribou.models.sage import Neighbourhoods, SageConfig, SageModel, fit_sage
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.mechanism_records import (
    MechanismRecord,
    edge_count_record,
    no_noise_record,
    randomized_response_record,
)
from caribou.privacy.pair_response import asymmetric_response, split_pair_budget
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams


@dataclass(frozen=True)
class SageEdge:
    """Public settings of ``sage-edp`` and, with an infinite budget, of ``sage-inf``.

    ``hidden``, ``layers``, ``aggregator``, ``dropout``, ``epochs``: the network (`SageConfig`). ``count_share``: share of epsilon
    for the edge count. ``max_edges``: a declared bound; a larger noisy count is cut to it before use. None = n (n - 1) / 2,
    with an error where the perturbed graph would not fit.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    Formal guarantee: edge count and perturbed graph are together budget.epsilon-DP at edge level, with delta = 0
    (docs/methods/sage.md, Theorem E); everything else is computed from them and from public values.
    """

    hidden: int = 64
    layers: int = 2
    aggregator: str = "mean"
    dropout: float = 0.5
    epochs: int = 80
    count_share: float = 0.01
    max_edges: int | None = None
    metric: str | None = None
    class_weight: str | None = None
    name: ClassVar[str] = "sage-edp"

    def __post_init__(self) -> None:
        _ = self.objective  # checks its own settings
        _ = self.network  # checks its own settings
        open_unit_interval(count_share=self.count_share)
        if self.max_edges is not None:
            integer(at_least=0, max_edges=self.max_edges)

    @property
    def network(self) -> SageConfig:
        """The network's part of the settings."""
        return SageConfig(self.hidden, self.layers, self.aggregator, self.dropout, epochs=self.epochs)

    @property
    def objective(self) -> Objective:
        """What checkpoints and heads are chosen by, on public labels."""
        return Objective(self.metric, self.class_weight)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Edge count and pairs, at their promised epsilons."""
        return self._plan(sizes, budget, f"{self.name}, fitted")

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Perturb the graph, then train GraphSAGE on what was released."""
        split, labels = graph.for_learning(public=True)
        perturbed = self._perturb(plan, graph, noise)
        around = Neighbourhoods.of(perturbed.pairs, graph.num_nodes)
        model = fit_sage(
            graph.features,
            around,
            labels,
            train=split.train,
            val=split.val,
            classes=graph.num_classes,
            config=self.network,
            seed=streams.model_seed,
            objective=self.objective,
        )
        return self._outputs(plan, graph, model, perturbed, around)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """The perturbed graph of another graph is one more release, about its edges."""
        return self._plan(sizes, budget, f"{self.name}, predicted")

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Predict another graph with a fitted network."""
        perturbed = self._perturb(plan, graph, noise)
        around = Neighbourhoods.of(perturbed.pairs, graph.num_nodes)
        return self._outputs(plan, graph, SageModel.from_arrays(weights, self.network), perturbed, around)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes that the release is about; costs nothing."""
        return released["probabilities"]

    # -- its steps -------------------------------------------------------------------------------------------------

    def _plan(self, sizes: Sizes, budget: Budget, description: str) -> ReleasePlan:
        require_unit(budget, PrivacyUnit.EDGE, self.name)
        pairs = split_pair_budget(budget, self.count_share)
        records: tuple[MechanismRecord, ...] = (no_noise_record(PrivacyUnit.EDGE, "the graph itself"),)
        graph = ("the noisy edge count", "the perturbed graph and everything computed from it")
        if budget.is_private:
            records = (edge_count_record(epsilon=pairs.count), randomized_response_record(epsilon=pairs.pairs))
        return ReleasePlan(
            budget,
            records,
            released=(*(graph if budget.is_private else ()), "class probabilities of every node"),
            description=description,
            public_parameters={"nodes": sizes.nodes, "classes": sizes.classes, **self.settings()},
            parts={"pairs": pairs},
        )

    def _perturb(self, plan: ReleasePlan, graph: Graph, noise: NoiseSource) -> PerturbedGraph:
        rule = METHODS[self.name].response or asymmetric_response
        return perturb(graph, plan.parts["pairs"], noise, rule, max_edges=self.max_edges)

    def _outputs(
        self, plan: ReleasePlan, graph: Graph, model: SageModel, perturbed: PerturbedGraph, around: Neighbourhoods
    ) -> Outputs:
        probabilities = softmax(model.scores(graph.features, around), axis=1)
        released = {"probabilities": probabilities}
        if plan.budget.is_private:  # without noise it is the graph itself, which no model carries
            released |= {"edge_count": np.array(perturbed.count), "edges": perturbed.pairs}
        return Outputs(probabilities, released, model.to_arrays(), perturbed.details)
