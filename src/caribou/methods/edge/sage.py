"""``sage-edp``: GraphSAGE on a graph perturbed by asymmetric randomized response; ``sage-inf``: on the graph itself.

At edge level features, labels and split are public. The edge count is released with noise, every unordered pair of nodes is
answered once with probabilities that follow from it, and everything after (training, choice of the epoch, predictions) reads the
perturbed graph only: post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from caribou._validate import integer, open_unit_interval
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import (
    BYTES_PER_PAIR,
    noisy_edge_count,
    pair_numbers,
    pairs_of_numbers,
    perturbed_pairs,
    require_room,
)
from caribou.memory import require_memory
from caribou.methods.base import Fitted
from caribou.methods.edge.votes import require_edge_unit
from caribou.models.sage import Neighbourhoods, SageConfig, SageModel, fit_sage
from caribou.privacy.budget import Budget
from caribou.privacy.certificate import MechanismRecord, certify, standing_assumptions
from caribou.privacy.events import Event
from caribou.privacy.pair_response import PairResponse, asymmetric_response, split_pair_budget
from caribou.randomness import Streams

COUNT_THEOREM = "one undirected edge moves the edge count by 1; discrete Laplace noise; clamped to [0, n (n - 1) / 2]"
PAIR_THEOREM = (
    "every unordered pair is answered once and by itself, so one undirected edge changes one answer: "
    "epsilon = max |log| of the likelihood ratios of its two values (docs/methods/sage.md, Theorem E)"
)


@dataclass(frozen=True)
class SageEdge:
    """Public settings of ``sage-edp`` and, with an infinite budget, of ``sage-inf``.

    ``hidden``, ``layers``, ``aggregator``, ``dropout``, ``epochs``: the network (`SageConfig`). ``count_share``: share of epsilon
    for the edge count. ``max_edges``: a declared bound; a larger noisy count is cut to it before use. None = n (n - 1) / 2,
    with an error where the perturbed graph would not fit.

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
    name: ClassVar[str] = "sage-edp"

    def __post_init__(self) -> None:
        _ = self.network  # checks its own settings
        open_unit_interval(count_share=self.count_share)
        if self.max_edges is not None:
            integer(at_least=0, max_edges=self.max_edges)

    @property
    def network(self) -> SageConfig:
        """The network's part of the settings."""
        return SageConfig(self.hidden, self.layers, self.aggregator, self.dropout, epochs=self.epochs)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def fit(self, graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource) -> Fitted:
        """Perturb the graph, then train GraphSAGE on what was released."""
        require_edge_unit(budget, self.name)
        split, labels = graph.for_learning(public=True)
        perturbed = self._perturb(graph, budget, noise)
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
        )
        return self._fitted(graph, budget, model, perturbed, around, noise)

    def release(
        self, weights: Mapping[str, np.ndarray], graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource
    ) -> Fitted:
        """Predict another graph with a fitted network: its perturbed graph is one more release, about its edges."""
        require_edge_unit(budget, self.name)
        model = SageModel.from_arrays(weights, self.network)
        perturbed = self._perturb(graph, budget, noise)
        around = Neighbourhoods.of(perturbed.pairs, graph.num_nodes)
        return self._fitted(graph, budget, model, perturbed, around, noise)

    def cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """Edge count and pairs, at their promised epsilons."""
        return split_pair_budget(budget, self.count_share).events

    def release_cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """The same as `cost`."""
        return self.cost(graph, budget)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes that the release is about; costs nothing."""
        return released["probabilities"]

    # -- its steps -------------------------------------------------------------------------------------------------

    def _response(self) -> Callable[..., PairResponse]:
        """How the released count becomes probabilities."""
        return asymmetric_response

    def _perturb(self, graph: Graph, budget: Budget, noise: NoiseSource) -> Perturbed:
        return perturb(graph, budget, noise, self._response(), count_share=self.count_share, max_edges=self.max_edges)

    def _fitted(
        self,
        graph: Graph,
        budget: Budget,
        model: SageModel,
        perturbed: Perturbed,
        around: Neighbourhoods,
        noise: NoiseSource,
    ) -> Fitted:
        probabilities = softmax(model.scores(graph.features, around), axis=1)
        certificate = certify(
            budget,
            perturbed.records,
            released=[
                "the noisy edge count",
                "the perturbed graph and everything computed from it",
                "class probabilities of every node",
            ],
            public_parameters={"nodes": graph.num_nodes, "classes": graph.num_classes, **self.settings()},
            assumptions=standing_assumptions(budget.unit, noise_is_secret=noise.is_secret, noise_origin=noise.origin),
        )
        released = {
            "edge_count": np.array(perturbed.count),
            "edges": perturbed.pairs,
            "probabilities": probabilities,
        }
        return Fitted(probabilities, certificate, released, model.to_arrays())


# -- shared by the methods that perturb the graph ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Perturbed:
    """A released graph: the noisy edge count, the edges u < v, and what both cost."""

    count: int
    pairs: np.ndarray  # [2, E']
    records: tuple[MechanismRecord, ...]


def perturb(
    graph: Graph,
    budget: Budget,
    noise: NoiseSource,
    response_of: Callable[..., PairResponse],
    *,
    count_share: float,
    max_edges: int | None,
) -> Perturbed:
    """Release the edge count, turn it into probabilities by ``response_of``, and answer every pair with them.

    Formal guarantee: budget.epsilon-DP at edge level; an infinite budget gives the graph itself.
    """
    plan = split_pair_budget(budget, count_share)
    if not budget.is_private:
        require_memory(BYTES_PER_PAIR * graph.num_edges, f"GraphSAGE on {graph.num_edges:,} edges")
        record = MechanismRecord("the graph itself", plan.events[0], {"theorem": "none: no noise"})
        return Perturbed(graph.num_edges, pairs_of_numbers(pair_numbers(graph)), (record,))
    count = noisy_edge_count(graph, epsilon=plan.count, noise=noise.stream("edge count"))
    count = count if max_edges is None else min(count, max_edges)
    response = response_of(epsilon=plan.pairs, edges=count, nodes=graph.num_nodes)
    require_room(response, edges=count, nodes=graph.num_nodes)
    pairs = perturbed_pairs(graph, response, noise.stream("pairs"))
    of_count, of_pairs = plan.events
    figures = {"theorem": PAIR_THEOREM, "released_edge_count": count, **response.to_dict()}
    records = (
        MechanismRecord("edge count", of_count, {"theorem": COUNT_THEOREM}),
        MechanismRecord("randomized response on pairs", of_pairs, figures),
    )
    return Perturbed(count, pairs, records)
