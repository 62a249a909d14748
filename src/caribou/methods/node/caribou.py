"""``caribou-ndp``: the paper's pipeline with everything private, for a person with all their data.

Encoder: the private model of `mlp-dp`. Messages: label codes (training nodes) and the encoder's class probabilities (others).
Perturbed message passing on the graph with degrees cut to M, floor F = M, inner projection. Classification: logits of the
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
* The cut to M is not covered (Theorem 3 is for graphs of degree at most M); the certificate says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.special import softmax

from caribou._validate import below_one, integer, non_negative, one_of, open_unit_interval
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.mechanisms.message_passing import propagate
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Fitted
from caribou.methods.node.mlp import (
    MlpDp,
    apply_model,
    base_model,
    checked_split,
    choose,
    public_parameters,
    require_node_unit,
    selection_event,
)
from caribou.methods.node.shared import centred, fit_linear_head, node_certificate, side_by_side
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedPropagation, budget_mu, calibrate_propagation, remaining_epsilon
from caribou.privacy.certificate import (
    Certificate,
    MechanismRecord,
    initial_state_assumption,
    propagation_record,
)
from caribou.privacy.events import Event, Parallel
from caribou.privacy.sensitivity import Bounds, double_precision
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

    ``hops``, ``contraction``, ``alpha1``, ``beta``: the layer. ``degree_cap`` = M, and floor F = M. ``declared_average_degree``:
    what the curator declares, never what is measured; None = not very dense. ``graph_share``: share of mu^2 for message passing;
    None = `default_graph_share`; 0 = `mlp-dp`. ``classifier``: "chosen" (gamma on validation nodes) or "trained" (a private
    linear model on logits and state, for ``classifier_share`` of mu^2). ``base``: the encoder, or its settings by name.
    """

    hops: int = 1
    contraction: float = 0.9
    alpha1: float = 1.0
    beta: float = 0.0
    degree_cap: int = 20
    declared_average_degree: float | None = None
    graph_share: float | None = None
    classifier: str = "chosen"
    classifier_share: float = 0.05
    base: MlpDp = field(default_factory=MlpDp)

    def __post_init__(self) -> None:
        integer(at_least=1, hops=self.hops)
        integer(at_least=1, degree_cap=self.degree_cap)
        ContractiveGraphLayer(self.contraction, self.alpha1, self.beta)  # checks its own arguments
        object.__setattr__(self, "base", base_model(self.base))
        if self.declared_average_degree is not None:
            non_negative(declared_average_degree=self.declared_average_degree)
        one_of(CLASSIFIERS, classifier=self.classifier)
        open_unit_interval(classifier_share=self.classifier_share)
        if self.graph_share is not None:
            below_one(graph_share=self.graph_share)
        taken = self.classifier_share if self.classifier == "trained" else 0.0
        if self.graph_share is not None and not 0 <= self.graph_share < 1 - taken:
            raise InputError(f"graph_share must be in [0, {1 - taken:g}), got {self.graph_share!r}")
        if self.base.choose_shrinkage:
            raise InputError("choose_shrinkage must be False here: validation nodes choose the weight, got True")

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    # -- the algorithm ---------------------------------------------------------------------------------------------

    def fit(self, graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource) -> Fitted:
        """Private encoder, perturbed message passing, private classification; without the graph where the rule says so."""
        split = checked_split(graph, budget)
        share = self._share(budget)
        if share == 0:
            return self.base.fit(graph, budget, streams, noise)
        mu = budget_mu(budget)
        trained = self.classifier_share if self.classifier == "trained" else 0.0
        encoder = self.base.fit_base(graph, math.sqrt(1 - share - trained) * mu, streams, noise)
        logits = centred(encoder.logits(self.base.shrinkage))
        start = self._messages(graph, logits)  # X^(0): row i from node i's own data and the released encoder
        calibrated = self._calibrate(graph, math.sqrt(share) * mu)
        state = self._propagate(graph, start, calibrated, streams, noise)  # only X^(K) comes back
        classifier, records, groups = self._classify(graph, split, logits, state, budget, calibrated, noise)
        parts = (*encoder.records, propagation_record(calibrated), *records)
        groups = {"training nodes": tuple(r.event for r in parts), **groups}
        weights = encoder.parameters(self.base.shrinkage) | classifier
        released = {"state": state}
        return Fitted(
            probabilities=self.predict(weights, released, graph),
            certificate=self._certificate(graph, budget, calibrated, parts, groups, encoder.released, noise),
            released=released,
            weights=weights,
        )

    def cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """What a training node pays, Gaussians that compose to the whole budget; beside it, what a validation node pays."""
        training = self.base.cost(graph, budget)
        share = self._share(budget)
        if share == 0 or self.classifier == "trained" or not budget.is_private:
            return training
        alone = self._calibrate(graph, math.sqrt(share) * budget_mu(budget)).event
        return (Parallel((training, (alone, selection_event(remaining_epsilon((alone,), budget))))),)

    def release(
        self, weights: Mapping[str, np.ndarray], graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource
    ) -> Fitted:
        """Predict another graph: message passing on it is a release about it; encoder and classifier are used as they are."""
        if self._share(budget) == 0:
            return self.base.release(weights, graph, budget, streams, noise)
        require_node_unit(budget)
        calibrated = self._calibrate(graph, budget_mu(budget))
        start = self._messages(graph, centred(apply_model(weights, graph)))
        state = self._propagate(graph, start, calibrated, streams, noise)
        record = propagation_record(calibrated)
        certificate = self._certificate(
            graph, budget, calibrated, (record,), {"every node": (record.event,)}, (), noise
        )
        released = {"state": state}
        return Fitted(self.predict(weights, released, graph), certificate, released, weights)

    def release_cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """One Gaussian mechanism, whatever the number of hops; nothing without the graph."""
        return () if self._share(budget) == 0 else self.base.cost(graph, budget)

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
        """Label codes of training nodes, class probabilities of the others: rows of length at most 1. [n, C]"""
        start = softmax(logits, axis=1)
        if graph.labels is not None and graph.split is not None:
            train = graph.split.train[graph.labels[graph.split.train] >= 0]
            start[train] = np.eye(logits.shape[1])[graph.labels[train]]
        return start

    @property
    def _layer(self) -> ContractiveGraphLayer:
        return ContractiveGraphLayer(self.contraction, self.alpha1, self.beta)

    def _calibrate(self, graph: Graph, mu: float) -> CalibratedPropagation:
        n = graph.num_nodes
        return calibrate_propagation(
            self._layer.sensitivity(PrivacyUnit.NODE, Bounds(degree_cap=self.degree_cap, nodes=n)),
            hops=self.hops,
            mu=mu,
            arithmetic=double_precision(nodes=n, columns=graph.num_classes, residual=self.beta),
        )

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
        self,
        graph: Graph,
        split: Split,
        logits: np.ndarray,
        state: np.ndarray,
        budget: Budget,
        calibrated: CalibratedPropagation,
        noise: NoiseSource,
    ) -> tuple[dict[str, np.ndarray], tuple[MechanismRecord, ...], dict[str, tuple[Event, ...]]]:
        """The classifier's arrays, its records, and the events of the other groups of nodes."""
        alone = (calibrated.event,)
        if self.classifier == "trained":
            head, record = fit_linear_head(
                joint_rows(logits, state),
                graph,
                mu=math.sqrt(self.classifier_share) * budget_mu(budget),
                train_size=self.base.train_size,
                noise=noise.stream("classifier"),
            )
            return {"classifier": head}, (record,), {"validation and test nodes": alone}
        left = remaining_epsilon((calibrated.event,), budget)
        candidates = [logits[split.val] + gamma * centred(state[split.val]) for gamma in WEIGHTS]
        chosen = choose(candidates, graph, split, left, noise.stream("choice"), default=DEFAULT_WEIGHT)
        groups = {"validation nodes": (*alone, selection_event(left)), "test nodes and the rest": alone}
        return {"state_weight": np.array(WEIGHTS[chosen])}, (), groups

    def _certificate(
        self,
        graph: Graph,
        budget: Budget,
        calibrated: CalibratedPropagation,
        parts: tuple[MechanismRecord, ...],
        groups: Mapping[str, tuple[Event, ...]],
        released: tuple[str, ...],
        noise: NoiseSource,
    ) -> Certificate:
        bounds = calibrated.sensitivity.bounds
        used = {"columns": graph.num_classes, "degree_floor": bounds.degree_floor, "degree_cap": bounds.degree_cap}
        return node_certificate(
            budget,
            parts,
            groups,
            released=(*released, "the last state X^(K) of all nodes", "the classifier on top of it"),
            parameters={**public_parameters(graph, graph.split, self.settings()), **used},
            base=self.base,
            noise=noise,
            further=(initial_state_assumption(PrivacyUnit.NODE),),
        )


def joint_rows(logits: np.ndarray, state: np.ndarray) -> np.ndarray:
    """Logits and centred state side by side: rows of length at most 1. [n, 2 C]"""
    return side_by_side([logits, centred(state)])
