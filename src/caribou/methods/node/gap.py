"""``gap-ndp``: GAP (Sajadmanesh et al. 2023) with everything private, sound for a node with all its data.

Encoder: the private model of `mlp-dp`; its centred logits, at length 1, are Z_0. K noisy sums over neighbours, every row clipped
to a radius before noise. Classifier: a linear model on Z_0 .. Z_K, trained privately.

Changed from the published method: a node's own row of the sums is counted (sqrt(d + r^2), not sqrt(D), which needs the clipping
to r). Every edge is read by default, so the bound needs no condition on the graph: a node pays for its own degree d, and noise
is calibrated for a declared one. Where degrees are cut to D, what the cut does when a node leaves is counted. Training is the
full-batch descent of `mlp-dp`, without batch normalisation, and validation nodes choose nothing.

Who pays what (PrivacyUnit.NODE; the split, its sizes and the number of classes are public): every node pays the sums; a
**training node** also the Gaussians of encoder and classifier. All Gaussians compose to mu of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import softmax

from caribou._validate import integer
from caribou.graph import Graph
from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs
from caribou.methods.catalogue import require_unit
from caribou.methods.node.mlp import MlpDp, apply_model, node_assumptions, public_parameters
from caribou.methods.node.shared import (
    calibrate_node_sums,
    check_degrees,
    check_radius,
    check_shares,
    checked_base,
    fit_linear_head,
    messages,
    node_bounds,
    plan_head,
    side_by_side,
)
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedSums, budget_mu
from caribou.privacy.mechanism_records import NODES, PARTS, sums_record
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams


@dataclass(frozen=True)
class GapNdp:
    """Public settings of ``gap-ndp``.

    ``hops`` = K. ``declared_degree``: the degree up to which a node gets the headline epsilon; None = the cap, else 100.
    ``degree_cap`` = D: degrees are cut to it; None = every edge is read. ``radius`` = r: rows of the sums are clipped to it; None
    = the root of the declared degree. ``sums_share``, ``classifier_share``: shares of mu^2; the rest is the encoder's.
    ``base``: the encoder, or its settings by name.

    Formal guarantee: docs/privacy.md, Theorems 6 and 9, for every graph, by degree.
    """

    hops: int = 1
    declared_degree: int | None = None
    degree_cap: int | None = None
    radius: float | None = None
    sums_share: float = 0.1
    classifier_share: float = 0.1
    base: MlpDp = field(default_factory=MlpDp)

    def __post_init__(self) -> None:
        integer(at_least=1, hops=self.hops)
        check_degrees(self.degree_cap, self.declared_degree)
        check_radius(self.radius)
        object.__setattr__(self, "base", checked_base(self.base, "validation nodes choose nothing"))
        check_shares(sums_share=self.sums_share, classifier_share=self.classifier_share)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Gaussians of encoder, sums and classifier, which compose to the whole budget for a training node."""
        require_unit(budget, PrivacyUnit.NODE, "gap-ndp")
        mu = budget_mu(budget)
        left = 1 - self.sums_share - self.classifier_share
        base = self.base.plan_base(sizes, math.sqrt(left) * mu)
        sums = self._calibrate(sizes, math.sqrt(self.sums_share) * mu)
        head = plan_head(sizes, math.sqrt(self.classifier_share) * mu, self.base.train_size)
        return ReleasePlan(
            budget,
            (*base.records, sums_record(sums, PARTS), head.record),
            released=("the noisy sums of every hop", "weights of the classifier", *base.released),
            description="gap-ndp, fitted",
            public_parameters=public_parameters(sizes, self.settings()),
            assumptions=node_assumptions(self.base),
            parts={"base": base, "sums": sums, "head": head},
        )

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Private encoder, noisy sums, private classifier."""
        encoder = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        start = messages(encoder.logits(self.base.shrinkage))  # Z_0: row i from node i's own data and the encoder
        sums = self._aggregate(graph, start, plan.parts["sums"], streams, noise)
        head = fit_linear_head(plan.parts["head"], side_by_side([start, *sums]), graph, noise.stream("classifier"))
        return self._outputs(graph, sums, encoder.parameters(self.base.shrinkage) | {"classifier": head})

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """K Gaussian mechanisms within the whole budget."""
        require_unit(budget, PrivacyUnit.NODE, "gap-ndp")
        sums = self._calibrate(sizes, budget_mu(budget))
        return ReleasePlan(
            budget,
            (sums_record(sums, NODES),),
            released=("the noisy sums of every hop",),
            description="gap-ndp, predicted",
            public_parameters=public_parameters(sizes, self.settings()),
            assumptions=node_assumptions(self.base),
            parts={"sums": sums},
        )

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Noisy sums over another graph; encoder and classifier are used as they are."""
        start = messages(apply_model(weights, graph))
        return self._outputs(graph, self._aggregate(graph, start, plan.parts["sums"], streams, noise), weights)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities from each node's own features and its rows of the released sums. [n, C]"""
        sums = [released[f"sums_{k}"] for k in range(1, self.hops + 1)]
        rows = side_by_side([messages(apply_model(weights, graph)), *sums])
        return np.asarray(softmax(rows @ weights["classifier"], axis=1))

    # -- its steps -------------------------------------------------------------------------------------------------

    def _calibrate(self, sizes: Sizes, mu: float) -> CalibratedSums:
        bounds = node_bounds(sizes, self.degree_cap, self.declared_degree)
        return calibrate_node_sums(sizes, mu, bounds=bounds, radius=self.radius, hops=self.hops)

    def _aggregate(
        self, graph: Graph, start: np.ndarray, calibrated: CalibratedSums, streams: Streams, noise: NoiseSource
    ) -> list[np.ndarray]:
        adjacency = bounded_adjacency(graph, self.degree_cap, streams.sampling)
        return noisy_sums(adjacency, start, calibrated, noise.stream("sums"))

    def _outputs(self, graph: Graph, sums: list[np.ndarray], weights: Mapping[str, np.ndarray]) -> Outputs:
        released = {f"sums_{k}": s for k, s in enumerate(sums, start=1)}
        return Outputs(self.predict(weights, released, graph), released, weights)
