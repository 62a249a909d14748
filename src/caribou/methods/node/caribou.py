"""``caribou-ndp``: the paper's pipeline with everything private, for a person with all their data.

Encoder: the private model of `mlp-dp`. Messages: label codes (training nodes) and the encoder's class probabilities (others).
Perturbed message passing over every edge, with a floor F from n alone and inner projection. Classification: logits of the
encoder plus gamma times the centred state, gamma chosen on validation nodes by the exponential mechanism, or a linear model on
both that is trained privately. A public rule gives the graph nothing where it would not pay: then this is `mlp-dp`.

Who pays what (PrivacyUnit.NODE; the split, its sizes and the number of classes are public):

* Every node is in the propagation: its message and its edges are one Gaussian mechanism (docs/privacy.md, Theorems 1 and 3).
  Row i of X^(0) is a function of node i's own data and of the released encoder.
* A **training node** is also in the encoder's Gaussians (and in those of a trained classifier). All Gaussians compose to mu of
  the budget.
* A **validation node** pays the propagation and, if gamma is chosen, the exponential mechanism with what is left of epsilon. A
  **test node** pays the propagation only. Groups are disjoint; the largest cost is that of training nodes, and each keeps the
  budget.
* No degree is cut and none is declared: Theorem 3 with the largest degree n - 1 holds for every node of every graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy.special import softmax

from caribou._validate import below_one, integer, non_negative, one_of, open_unit_interval
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.mechanisms.exponential import choose
from caribou.mechanisms.message_passing import propagate
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs, require_unit
from caribou.methods.node.mlp import MlpDp, apply_model, node_assumptions, public_parameters
from caribou.methods.node.shared import (
    centred,
    check_degrees,
    checked_base,
    fit_linear_head,
    plan_linear_head,
    side_by_side,
)
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedPropagation, budget_mu, calibrate_propagation, remaining_epsilon
from caribou.privacy.mechanism_records import NODES, PARTS, exponential_record, message_passing_record
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import declared_bounds
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Candidates for gamma; 0 ignores the graph."""
DEFAULT_WEIGHT = 3
CLASSIFIERS = ("chosen", "trained")
VERY_DENSE_FROM = 50.0


def default_graph_share(epsilon: float, declared_average_degree: float | None) -> float:
    """The share of mu^2 for message passing, from public numbers: nothing but on very dense graphs with a large epsilon.

    The own row of a node costs as much as all else it does to a state (Theorem 3), so one hop carries less than one standard
    deviation of signal below epsilon = 6 whatever the degrees.

    >>> [default_graph_share(e, 71) for e in (4, 8, 16)], default_graph_share(16, 4)
    ([0.0, 0.5, 0.85], 0.0)
    """
    if declared_average_degree is None or declared_average_degree < VERY_DENSE_FROM or epsilon < 6:
        return 0.0
    return 0.5 if epsilon < 12 else 0.85


@dataclass(frozen=True)
class CaribouNdp:
    """Public settings of ``caribou-ndp``.

    ``hops``, ``contraction``, ``alpha1``, ``beta``: the layer. ``degree_floor`` = F; None = the cap, else `node_floor` of n.
    ``degree_cap`` = M: degrees are cut to it, and the headline holds up to ``declared_degree`` (None = M); None = every edge is
    read, and the headline holds for every node. ``declared_average_degree``: what the curator declares, never what is measured;
    None = not very dense. ``graph_share``: share of mu^2 for message passing; None = `default_graph_share`; 0 = `mlp-dp`.
    ``classifier``: "chosen" (gamma on validation nodes) or "trained" (a private linear model on logits and state, for
    ``classifier_share`` of mu^2). ``base``: the encoder, or its settings by name.

    >>> sizes = Sizes(nodes=1000, columns=8, classes=3, train=600, val=100, test=300)
    >>> CaribouNdp(degree_cap=10, graph_share=0.5).plan(sizes, Budget(2, 1e-5, "node")).scope.limit
    10
    """

    hops: int = 1
    contraction: float = 0.9
    alpha1: float = 1.0
    beta: float = 0.0
    degree_floor: int | None = None
    degree_cap: int | None = None
    declared_degree: int | None = None
    declared_average_degree: float | None = None
    graph_share: float | None = None
    classifier: str = "chosen"
    classifier_share: float = 0.05
    base: MlpDp = field(default_factory=MlpDp)

    def __post_init__(self) -> None:
        integer(at_least=1, hops=self.hops)
        check_degrees(self.degree_cap, self.declared_degree)
        if self.degree_floor is not None:
            integer(at_least=0, degree_floor=self.degree_floor)
        ContractiveGraphLayer(self.contraction, self.alpha1, self.beta)  # checks its own arguments
        object.__setattr__(self, "base", checked_base(self.base, "validation nodes choose the weight"))
        if self.declared_average_degree is not None:
            non_negative(declared_average_degree=self.declared_average_degree)
        one_of(CLASSIFIERS, classifier=self.classifier)
        open_unit_interval(classifier_share=self.classifier_share)
        if self.graph_share is not None:
            below_one(graph_share=self.graph_share)
        taken = self.classifier_share if self.classifier == "trained" else 0.0
        if self.graph_share is not None and not 0 <= self.graph_share < 1 - taken:
            raise InputError(f"graph_share must be in [0, {1 - taken:g}), got {self.graph_share!r}")

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    # -- the algorithm ---------------------------------------------------------------------------------------------

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Gaussians of encoder, message passing and classifier within one budget; a choice that validation nodes pay."""
        require_unit(budget, PrivacyUnit.NODE, "caribou-ndp")
        share = self._share(budget)
        if share == 0:
            return replace(self.base.plan(sizes, budget), description="caribou-ndp, fitted without the graph")
        mu = budget_mu(budget)
        trained = self.classifier_share if self.classifier == "trained" else 0.0
        base = self.base.plan_base(sizes, math.sqrt(1 - share - trained) * mu)
        calibrated = self._calibrate(sizes, math.sqrt(share) * mu)
        parts: dict[str, Any] = {"base": base, "propagation": calibrated}
        if self.classifier == "trained":
            parts["head"] = plan_linear_head(sizes, math.sqrt(trained) * mu, self.base.train_size)
            last = parts["head"].record
        else:
            parts["choice"] = remaining_epsilon((calibrated.event,), budget)
            last = exponential_record("choice of the weight", epsilon=parts["choice"], candidates=len(WEIGHTS))
        return ReleasePlan(
            budget,
            (*base.records, message_passing_record(calibrated, PARTS), last),
            released=(*base.released, "the last state X^(K) of all nodes", "the classifier on top of it"),
            description="caribou-ndp, fitted",
            public_parameters=public_parameters(sizes, self.settings()),
            assumptions=node_assumptions(self.base),
            parts=parts,
        )

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Private encoder, perturbed message passing, private classification; without the graph where the rule says so."""
        if "propagation" not in plan.parts:
            return self.base.fit(plan, graph, streams, noise)
        encoder = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        logits = centred(encoder.logits(self.base.shrinkage))
        start = self._messages(graph, logits)  # X^(0): row i from node i's own data and the released encoder
        state = self._propagate(graph, start, plan.parts["propagation"], streams, noise)  # only X^(K) comes back
        weights = encoder.parameters(self.base.shrinkage) | self._classify(plan, graph, logits, state, noise)
        released = {"state": state}
        return Outputs(self.predict(weights, released, graph), released, weights)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """One Gaussian mechanism, whatever the number of hops; nothing without the graph."""
        require_unit(budget, PrivacyUnit.NODE, "caribou-ndp")
        if self._share(budget) == 0:
            return self.base.plan_graph(sizes, budget, weights)
        calibrated = self._calibrate(sizes, budget_mu(budget))
        return ReleasePlan(
            budget,
            (message_passing_record(calibrated, NODES),),
            released=("the last state X^(K) of all nodes",),
            description="caribou-ndp, predicted",
            public_parameters=public_parameters(sizes, self.settings()),
            assumptions=node_assumptions(self.base),
            parts={"propagation": calibrated},
        )

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Message passing on another graph; encoder and classifier are used as they are."""
        if "propagation" not in plan.parts:
            return self.base.predict_graph(plan, weights, graph, streams, noise)
        start = self._messages(graph, centred(apply_model(weights, graph)))
        released = {"state": self._propagate(graph, start, plan.parts["propagation"], streams, noise)}
        return Outputs(self.predict(weights, released, graph), released, weights)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities from each node's own features and its row of the released state. [n, C]"""
        logits = apply_model(weights, graph)
        if "state" not in released:
            return softmax(logits, axis=1)
        if "classifier" in weights:
            return softmax(joint_rows(centred(logits), released["state"]) @ weights["classifier"], axis=1)
        return softmax(logits + float(weights["state_weight"]) * centred(released["state"]), axis=1)

    # -- its steps -------------------------------------------------------------------------------------------------

    def _share(self, budget: Budget) -> float:
        if self.graph_share is not None:
            return self.graph_share
        return default_graph_share(budget.epsilon, self.declared_average_degree)

    def _messages(self, graph: Graph, logits: np.ndarray) -> np.ndarray:
        """Label codes of training nodes, class probabilities of the others, 0 of those without features. [n, C]"""
        start = softmax(logits, axis=1)
        start[graph.without_features] = 0
        if graph.labels is not None and graph.split is not None:
            train = graph.split.train[graph.labels[graph.split.train] >= 0]
            start[train] = np.eye(logits.shape[1])[graph.labels[train]]
        return start

    @property
    def _layer(self) -> ContractiveGraphLayer:
        return ContractiveGraphLayer(self.contraction, self.alpha1, self.beta)

    def _calibrate(self, sizes: Sizes, mu: float) -> CalibratedPropagation:
        bounds = declared_bounds(
            PrivacyUnit.NODE,
            nodes=sizes.nodes,
            degree_floor=self.degree_floor,
            degree_cap=self.degree_cap,
            declared_degree=self.declared_degree,
        )
        sensitivity = self._layer.sensitivity(PrivacyUnit.NODE, bounds)
        arithmetic = sensitivity.arithmetic(nodes=sizes.nodes, columns=sizes.classes)
        return calibrate_propagation(sensitivity, hops=self.hops, mu=mu, arithmetic=arithmetic)

    def _propagate(
        self,
        graph: Graph,
        start: np.ndarray,
        calibrated: CalibratedPropagation,
        streams: Streams,
        noise: NoiseSource,
    ) -> np.ndarray:
        operator = normalize(graph, calibrated.sensitivity.bounds, streams.sampling)
        stream = noise.stream("propagation")
        return propagate(self._layer, operator, torch.from_numpy(start), calibrated, stream).numpy()

    def _classify(
        self, plan: ReleasePlan, graph: Graph, logits: np.ndarray, state: np.ndarray, noise: NoiseSource
    ) -> dict[str, np.ndarray]:
        """The classifier's arrays."""
        if self.classifier == "trained":
            rows = joint_rows(logits, state)
            return {"classifier": fit_linear_head(plan.parts["head"], rows, graph, noise.stream("classifier"))}
        split, labels = graph.for_learning()
        chosen = choose(
            [logits[split.val] + gamma * centred(state[split.val]) for gamma in WEIGHTS],
            labels[split.val],
            declared=split.declared[1],
            epsilon=plan.parts["choice"],
            noise=noise.stream("choice"),
            default=DEFAULT_WEIGHT,
        )
        return {"state_weight": np.array(WEIGHTS[chosen])}


def joint_rows(logits: np.ndarray, state: np.ndarray) -> np.ndarray:
    """Logits and centred state side by side: rows of length at most 1. [n, 2 C]"""
    return side_by_side([logits, centred(state)])
