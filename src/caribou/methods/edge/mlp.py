"""``mlp``: the cross-fitted encoder alone. No edge is read and no noise is added: what the graph has to beat at edge level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Fitted
from caribou.methods.edge.votes import require_edge_unit
from caribou.methods.node.mlp import nothing_released
from caribou.models.encoder import HIDDEN, Encoder, cross_fit, widths
from caribou.privacy.budget import Budget
from caribou.privacy.certificate import certify, standing_assumptions
from caribou.privacy.events import Event
from caribou.randomness import Streams


@dataclass(frozen=True)
class Mlp:
    """``hidden``: widths of the hidden layers, () for a linear model.

    At edge level this spends nothing. Features and labels are not protected.
    """

    hidden: tuple[int, ...] = HIDDEN

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", widths(self.hidden))

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self) | {"hidden": list(self.hidden)}

    def fit(self, graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource) -> Fitted:
        """Fit the encoder. Training nodes are predicted by models that were not fitted on them."""
        require_edge_unit(budget, "mlp")
        prior = cross_fit(graph, streams, self.hidden)
        return self._fitted(prior.probabilities, prior.encoder.to_arrays(), graph, budget, noise)

    def cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """No edge is read."""
        return ()

    def release(
        self, weights: Mapping[str, np.ndarray], graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource
    ) -> Fitted:
        """Predict another graph by its features."""
        require_edge_unit(budget, "mlp")
        probabilities = Encoder.from_arrays(weights).probabilities(graph.features)
        return self._fitted(probabilities, weights, graph, budget, noise)

    def release_cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """No edge is read."""
        return ()

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the graph that was fitted."""
        return released["probabilities"]

    def _fitted(
        self,
        probabilities: np.ndarray,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        budget: Budget,
        noise: NoiseSource,
    ) -> Fitted:
        certificate = certify(
            budget,
            [nothing_released("no edge is read; features and labels are public at edge level", budget)],
            released=["class probabilities of every node"],
            public_parameters={"nodes": graph.num_nodes, "classes": graph.num_classes, **self.settings()},
            assumptions=standing_assumptions(budget.unit, noise_is_secret=noise.is_secret, noise_origin=noise.origin),
        )
        return Fitted(probabilities, certificate, {"probabilities": probabilities}, weights)
