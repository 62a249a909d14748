"""``mlp``: the features alone. No edge is read and no noise is added: what the graph has to beat at edge level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs
from caribou.methods.catalogue import require_unit
from caribou.models.class_prior import class_probabilities, probabilities_by
from caribou.models.encoder import Encoder, cross_fit, widths
from caribou.models.objective import Objective
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.mechanism_records import no_release_record
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams


@dataclass(frozen=True)
class Mlp:
    """``hidden``: None for the prior of votes (`caribou.models.class_prior`); or widths of a cross-fitted MLP, () if linear.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    At edge level this spends nothing. Features and labels are not protected.
    """

    hidden: tuple[int, ...] | None = None
    metric: str | None = None
    class_weight: str | None = None

    def __post_init__(self) -> None:
        _ = self.objective  # checks its own settings
        object.__setattr__(self, "hidden", None if self.hidden is None else widths(self.hidden))

    @property
    def takes_prior(self) -> bool:
        """Class probabilities from features are what it returns; the user may give them, unless an MLP is asked for."""
        return self.hidden is None

    @property
    def objective(self) -> Objective:
        """What checkpoints and heads are chosen by, on public labels."""
        return Objective(self.metric, self.class_weight)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self) | {"hidden": None if self.hidden is None else list(self.hidden)}

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """No edge is read."""
        return self._plan(sizes, budget, "mlp, fitted")

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Fit the prior. Training nodes are predicted by models that were not fitted on them."""
        if self.hidden is None:
            probabilities, weights = class_probabilities(graph, streams, self.objective)
        else:
            prior = cross_fit(graph, streams, self.hidden, self.objective)
            probabilities, weights = prior.probabilities, prior.encoder.to_arrays()
        return Outputs(probabilities, {"probabilities": probabilities}, weights)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """No edge is read."""
        return self._plan(sizes, budget, "mlp, predicted")

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Predict another graph by its features."""
        if self.hidden is None:
            probabilities = probabilities_by(weights, graph)
        else:
            probabilities = Encoder.from_arrays(weights).probabilities(graph.features)
        return Outputs(probabilities, {"probabilities": probabilities}, weights)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the graph that was fitted."""
        return released["probabilities"]

    def _plan(self, sizes: Sizes, budget: Budget, description: str) -> ReleasePlan:
        require_unit(budget, PrivacyUnit.EDGE, "mlp")
        return ReleasePlan(
            budget,
            (no_release_record(PrivacyUnit.EDGE, "no edge is read; features and labels are public at edge level"),),
            released=("class probabilities of every node",),
            description=description,
            public_parameters={"nodes": sizes.nodes, "classes": sizes.classes, **self.settings()},
        )
