"""``progap-ndp``: ProGAP (Sajadmanesh and Gatica-Perez 2024) with everything private, sound for a node with all its data.

Stage 0 is the private model of `mlp-dp`; its centred logits, at length 1, are Z_0. Stage s sums Z_(s-1) over neighbours, once and
with noise, every row clipped to a radius before it, and trains a linear head privately on Z_0 .. Z_(s-1) and the sum. The centred
logits of that head, at length 1, are Z_s. Earlier stages are frozen, and no sum is made again.

Row i of Z_s is computed from node i's own features, from rows i of the released sums and from released weights. So it is what
Theorem 6 asks of messages, in every stage and not in the first alone.

Changed from the published method: as in `gap-ndp`. A node's own row of the sums is counted (sqrt(d + r^2), not sqrt(D), which
needs the clipping to r). Every edge is read by default, a node pays for its own degree d, and noise is calibrated for a declared
one. Training is the full-batch descent of `mlp-dp`, without batch normalisation, and validation nodes choose nothing.

Who pays what (PrivacyUnit.NODE; the split, its sizes and the number of classes are public): every node pays the sums; a
**training node** also the Gaussians of the encoder and of the head of every stage. All Gaussians compose to mu of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import softmax

from caribou._validate import integer
from caribou.graph import Graph
from caribou.mechanisms.neighbour_sums import StagedSums, bounded_adjacency
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
class ProgapNdp:
    """Public settings of ``progap-ndp``.

    ``hops`` = K, the stages after the encoder. ``declared_degree``, ``degree_cap`` and ``radius``: as in ``gap-ndp``.
    ``sums_share``, ``classifier_share``: shares of mu^2 for all K sums and for all K heads; the rest is the encoder's. ``base``:
    the encoder, or its settings by name.

    Formal guarantee: docs/privacy.md, Theorems 6 and 9, for every graph, by degree.
    """

    hops: int = 2
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
        """Gaussians of encoder, sums and heads, which compose to the whole budget for a training node."""
        require_unit(budget, PrivacyUnit.NODE, "progap-ndp")
        mu = budget_mu(budget)
        left = 1 - self.sums_share - self.classifier_share
        base = self.base.plan_base(sizes, math.sqrt(left) * mu)
        sums = self._calibrate(sizes, math.sqrt(self.sums_share) * mu)
        each = math.sqrt(self.classifier_share / self.hops) * mu
        heads = tuple(
            plan_head(sizes, each, self.base.train_size, f"training of the head of stage {stage}")
            for stage in range(1, self.hops + 1)
        )
        return ReleasePlan(
            budget,
            (*base.records, sums_record(sums, PARTS), *(head.record for head in heads)),
            released=("the noisy sums of every stage", "weights of the head of every stage", *base.released),
            description="progap-ndp, fitted",
            public_parameters=public_parameters(sizes, self.settings()),
            assumptions=node_assumptions(self.base),
            parts={"base": base, "sums": sums, "heads": heads},
        )

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Private encoder; then stage by stage: sum with noise, private head on the sum."""
        encoder = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        start = messages(encoder.logits(self.base.shrinkage))  # Z_0: row i from node i's own data and the encoder

        def trained(stage: int, rows: np.ndarray) -> np.ndarray:
            return fit_linear_head(plan.parts["heads"][stage - 1], rows, graph, noise.stream(f"head of stage {stage}"))

        released, heads = self._stages(graph, start, plan.parts["sums"], trained, streams, noise)
        weights = encoder.parameters(self.base.shrinkage) | heads
        return Outputs(self.predict(weights, released, graph), released, weights)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """K Gaussian mechanisms within the whole budget."""
        require_unit(budget, PrivacyUnit.NODE, "progap-ndp")
        sums = self._calibrate(sizes, budget_mu(budget))
        return ReleasePlan(
            budget,
            (sums_record(sums, NODES),),
            released=("the noisy sums of every stage",),
            description="progap-ndp, predicted",
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
        """Noisy sums over another graph; encoder and heads are used as they are."""
        start = messages(apply_model(weights, graph))
        released, _ = self._stages(graph, start, plan.parts["sums"], lambda s, _: weights[f"head_{s}"], streams, noise)
        return Outputs(self.predict(weights, released, graph), released, weights)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities from each node's own features and its rows of the released sums. [n, C]"""
        embeddings = [messages(apply_model(weights, graph))]
        for stage in range(1, self.hops + 1):
            logits = side_by_side([*embeddings, released[f"sums_{stage}"]]) @ weights[f"head_{stage}"]
            embeddings.append(messages(logits))
        return np.asarray(softmax(logits, axis=1))

    # -- its steps -------------------------------------------------------------------------------------------------

    def _calibrate(self, sizes: Sizes, mu: float) -> CalibratedSums:
        bounds = node_bounds(sizes, self.degree_cap, self.declared_degree)
        return calibrate_node_sums(sizes, mu, bounds=bounds, radius=self.radius, hops=self.hops)

    def _stages(
        self,
        graph: Graph,
        start: np.ndarray,
        calibrated: CalibratedSums,
        head_of: Callable[[int, np.ndarray], np.ndarray],
        streams: Streams,
        noise: NoiseSource,
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The sums and heads of every stage, by name. ``head_of``: the stage and its rows -> its head, trained privately."""
        adjacency = bounded_adjacency(graph, self.degree_cap, streams.sampling)
        sums = StagedSums(adjacency, calibrated, noise.stream("sums"))
        embeddings, released, heads = [start], {}, {}
        for stage in range(1, self.hops + 1):
            released[f"sums_{stage}"] = sums.release(embeddings[-1])
            rows = side_by_side([*embeddings, released[f"sums_{stage}"]])
            heads[f"head_{stage}"] = head_of(stage, rows)
            embeddings.append(messages(rows @ heads[f"head_{stage}"]))
        return released, heads
