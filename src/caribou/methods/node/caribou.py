"""``caribou-ndp``: the paper's pipeline with everything private, for a person with all their data. It always reads the graph.

1. *Encoder*: the private model of `mlp-dp`. X^(0) is its embedding of every node, rows of length 1.
2. *PCMP*: K rounds of the contractive layer over every edge (CAM), with inner projection, noise (PAM) and a floor F from n alone.
   Only X^(K) leaves.
3. *Classification module*: a model on X^(0) and X^(K) side by side, trained privately.

All three are within one budget. By default encoder and classification are linear: under the noise of private training a hidden
layer costs more than it explains (docs/decisions.md). ``base={"hidden": 64}`` and ``classifier="mlp"`` are the paper's MLPs,
trained by full-batch DP-SGD.

Who pays what (PrivacyUnit.NODE; the split, its sizes and the number of classes are public):

* Every node is in the propagation: its message and its edges are one Gaussian mechanism (docs/privacy.md, Theorems 1 and 3).
  Row i of X^(0) is a function of node i's own data and of the released encoder.
* A **training node** is also in the Gaussians of encoder and classification. All Gaussians compose to mu of the budget.
* A **validation node** and a **test node** pay the propagation only. (With ``classifier="chosen"`` a validation node also pays an
  exponential mechanism with what is left of epsilon.) Groups are disjoint; the largest cost is that of training nodes, and each
  keeps the budget.
* No degree is cut and none is declared: Theorem 3 with the largest degree n - 1 holds for every node of every graph.

Ours, not the paper's: label codes as messages, a weight of the state that is chosen on validation nodes, and ``leave_graph``, by
which a public rule gives the graph nothing where it would not pay: then this is `mlp-dp`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy.special import softmax

from caribou._validate import boolean, integer, non_negative, one_of
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.mechanisms.exponential import choose
from caribou.mechanisms.message_passing import propagate
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs
from caribou.methods.catalogue import require_unit
from caribou.methods.mlp import (
    MlpDp,
    apply_encoder,
    apply_model,
    centred,
    node_assumptions,
    public_parameters,
)
from caribou.methods.node_method import (
    check_degrees,
    check_shares,
    checked_base,
    fit_linear_head,
    fit_network_head,
    plan_head,
    side_by_side,
)
from caribou.models.features import sent_rows
from caribou.models.network import chain_logits, network_from_arrays
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
MESSAGES = ("embeddings", "labels")
CLASSIFIERS = ("linear", "mlp", "chosen")
VERY_DENSE_FROM = 50.0
LARGEST_SHARE = 0.85
"""Of mu^2, that label codes over one hop ever get by the public rule."""


def paying_share(epsilon: float, declared_average_degree: float | None) -> float:
    """The share of mu^2 that label codes over one hop are worth, from public numbers: nothing but on very dense graphs.

    The own row of a node costs as much as all else it does to a state (Theorem 3), so one hop carries less than one standard
    deviation of signal below epsilon = 6 whatever the degrees.

    >>> [paying_share(e, 71) for e in (4, 8, 16)], paying_share(16, 4)
    ([0.0, 0.5, 0.85], 0.0)
    """
    if declared_average_degree is None or declared_average_degree < VERY_DENSE_FROM or epsilon < 6:
        return 0.0
    return 0.5 if epsilon < 12 else LARGEST_SHARE


@dataclass(frozen=True)
class CaribouNdp:
    """Public settings of ``caribou-ndp``. The defaults are the paper's method.

    ``hops``, ``contraction``, ``alpha1``, ``beta``: the layer. ``degree_floor`` = F; None = the cap, else `node_floor` of n.
    ``degree_cap`` = M: degrees are cut to it, and the headline holds up to ``declared_degree`` (None = M); None = every edge is
    read, and the headline holds for every node. ``graph_share``, ``classifier_share``: shares of mu^2 for message passing and for
    the classification; the rest is the encoder's. ``classifier``: "linear", "mlp" with ``classifier_hidden`` units, or "chosen".
    ``base``: the encoder, or its settings by name.

    Ours beside the paper's: ``messages="labels"``: label codes (training nodes) and the encoder's class probabilities (others) in
    the place of embeddings. ``classifier="chosen"``: logits plus gamma times the centred state, gamma chosen on validation nodes
    by the exponential mechanism (label messages only). ``leave_graph``: with label messages, message passing gets `paying_share`
    in the place of ``graph_share``; where that is 0, this is `mlp-dp`. ``declared_average_degree``: for that rule, what the
    curator declares, never what is measured; None = not very dense.

    >>> sizes = Sizes(nodes=1000, columns=8, classes=3, train=600, val=100, test=300)
    >>> CaribouNdp(degree_cap=10).plan(sizes, Budget(2, 1e-5, "node")).scope.limit
    10
    """

    hops: int = 2
    contraction: float = 0.9
    alpha1: float = 1.0
    beta: float = 1.0
    degree_floor: int | None = None
    degree_cap: int | None = None
    declared_degree: int | None = None
    graph_share: float = 0.1
    classifier: str = "linear"
    classifier_share: float = 0.1
    classifier_hidden: int = 64
    base: MlpDp = field(default_factory=MlpDp)
    messages: str = "embeddings"
    leave_graph: bool = False
    declared_average_degree: float | None = None

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
        integer(at_least=1, classifier_hidden=self.classifier_hidden)
        check_shares(graph_share=self.graph_share, classifier_share=self.classifier_share)
        one_of(MESSAGES, messages=self.messages)
        if self.classifier == "chosen" and self.messages != "labels":
            raise InputError(f"messages must be labels for classifier = chosen, got {self.messages!r}")
        if boolean(leave_graph=self.leave_graph) and self.messages != "labels":
            raise InputError(f"messages must be labels for leave_graph = true, got {self.messages!r}")
        if self.leave_graph and self.classifier != "chosen" and self.classifier_share >= 1 - LARGEST_SHARE:
            raise InputError(
                f"classifier_share must be < {1 - LARGEST_SHARE:.2g} for leave_graph = true, got {self.classifier_share!r}"
            )

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    # -- the algorithm ---------------------------------------------------------------------------------------------

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Gaussians of encoder, message passing and classifier within one budget; a choice that validation nodes pay."""
        require_unit(budget, PrivacyUnit.NODE, "caribou-ndp")
        share, mu = self._share(budget), budget_mu(budget)
        if share == 0:
            return replace(self.base.plan(sizes, budget), description="caribou-ndp, fitted without the graph")
        trained = 0.0 if self.classifier == "chosen" else self.classifier_share
        base = self.base.plan_base(sizes, math.sqrt(1 - share - trained) * mu)
        calibrated = self._calibrate(sizes, math.sqrt(share) * mu)
        parts: dict[str, Any] = {"base": base, "propagation": calibrated}
        if self.classifier == "chosen":
            parts["choice"] = remaining_epsilon((calibrated.event,), budget)
            last = exponential_record("choice of the weight", epsilon=parts["choice"], candidates=len(WEIGHTS))
        else:
            hidden = self.classifier_hidden if self.classifier == "mlp" else 0
            parts["head"] = plan_head(sizes, math.sqrt(trained) * mu, self.base.train_size, hidden=hidden)
            last = parts["head"].record
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
        """The paper's pipeline: a private encoder, K rounds of message passing with noise, a private classification module."""
        if "propagation" not in plan.parts:
            return self.base.fit(plan, graph, streams, noise)
        encoder = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        weights = encoder.parameters(self.base.shrinkage)
        start = self._start(graph, weights)  # X^(0): row i from node i's own data and the released encoder
        state = self._propagate(graph, start, plan.parts["propagation"], streams, noise)  # PCMP: only X^(K) comes back
        weights |= self._classify(plan, graph, weights, state, streams, noise)
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
        start = self._start(graph, weights)
        released = {"state": self._propagate(graph, start, plan.parts["propagation"], streams, noise)}
        return Outputs(self.predict(weights, released, graph), released, weights)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities from each node's own features and its row of the released state. [n, C]"""
        if "state" not in released:
            return softmax(apply_model(weights, graph), axis=1)
        if "state_weight" in weights:
            scores = apply_model(weights, graph) + float(weights["state_weight"]) * centred(released["state"])
            return softmax(scores, axis=1)
        rows = self._rows(graph, weights, released["state"])
        if "classifier" in weights:
            return softmax(rows @ weights["classifier"], axis=1)
        return softmax(chain_logits(network_from_arrays(of_classifier(weights)), rows), axis=1)

    # -- its steps -------------------------------------------------------------------------------------------------

    def _share(self, budget: Budget) -> float:
        return paying_share(budget.epsilon, self.declared_average_degree) if self.leave_graph else self.graph_share

    def _start(self, graph: Graph, weights: Mapping[str, np.ndarray]) -> np.ndarray:
        """X^(0): embeddings, or label codes and class probabilities; 0 for nodes without features. [n, d]"""
        if self.messages == "embeddings":
            return sent_rows(graph, apply_encoder(weights, graph))
        start = softmax(apply_model(weights, graph), axis=1)
        start[graph.without_features] = 0
        if graph.labels is not None and graph.split is not None:
            train = graph.split.train[graph.labels[graph.split.train] >= 0]
            start[train] = np.eye(start.shape[1])[graph.labels[train]]
        return start

    def _rows(self, graph: Graph, weights: Mapping[str, np.ndarray], state: np.ndarray) -> np.ndarray:
        """What the classification module reads of every node: its embedding and its row of the state. [n, 2 d]"""
        if self.messages == "embeddings":
            return side_by_side([apply_encoder(weights, graph), state])
        return joint_rows(centred(apply_model(weights, graph)), state)

    def _columns(self, sizes: Sizes) -> int:
        """Of a message."""
        return self.base.hidden if self.messages == "embeddings" and self.base.hidden else sizes.classes

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
        arithmetic = sensitivity.arithmetic(nodes=sizes.nodes, columns=self._columns(sizes))
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
        self,
        plan: ReleasePlan,
        graph: Graph,
        weights: Mapping[str, np.ndarray],
        state: np.ndarray,
        streams: Streams,
        noise: NoiseSource,
    ) -> dict[str, np.ndarray]:
        """The arrays of the classification module."""
        if self.classifier == "chosen":
            return {"state_weight": np.array(WEIGHTS[self._choice(plan, graph, weights, state, noise)])}
        rows, head, stream = self._rows(graph, weights, state), plan.parts["head"], noise.stream("classifier")
        if self.classifier == "linear":
            return {"classifier": fit_linear_head(head, rows, graph, stream)}
        network = fit_network_head(head, rows, self.classifier_hidden, graph, streams, stream)
        return {f"{CLASSIFIER}{name}": array for name, array in network.items()}

    def _choice(
        self,
        plan: ReleasePlan,
        graph: Graph,
        weights: Mapping[str, np.ndarray],
        state: np.ndarray,
        noise: NoiseSource,
    ) -> int:
        """The number of the weight that validation nodes choose."""
        logits = centred(apply_model(weights, graph))
        split, labels = graph.for_learning()
        return choose(
            [logits[split.val] + gamma * centred(state[split.val]) for gamma in WEIGHTS],
            labels[split.val],
            declared=split.declared[1],
            epsilon=plan.parts["choice"],
            noise=noise.stream("choice"),
            default=DEFAULT_WEIGHT,
        )


CLASSIFIER = "classifier."
"""Names of the arrays of a classification module with a hidden layer begin so."""


def of_classifier(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of the classification module with a hidden layer."""
    return {n.removeprefix(CLASSIFIER): array for n, array in weights.items() if n.startswith(CLASSIFIER)}


def joint_rows(logits: np.ndarray, state: np.ndarray) -> np.ndarray:
    """Logits and centred state side by side: rows of length at most 1. [n, 2 C]"""
    return side_by_side([logits, centred(state)])
