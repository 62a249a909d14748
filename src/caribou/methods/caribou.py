"""The paper's CARIBOU at both units. `Caribou.run` and `CaribouNdp.fit` read as its Algorithm 1.

1. *Encoder*: X^(0), rows of length at most 1.
2. *CAM*, contractive aggregation: K rounds of the contractive layer (`caribou.layers.contractive`) with noise and projection
   (`caribou.mechanisms.message_passing`). Only X^(K) leaves.
3. *PAM*, privacy allocation: the noise of these rounds (`caribou.privacy.calibration`), planned from the budget and public
   numbers before anything is read.
4. *Classification module* on X^(0) and X^(K).

*PDM*, privacy auditing, attacks what is released (`caribou.audit`). Changed from the paper, because the guarantee needs it: a
public degree floor in the place of the smallest degree of the private graph, and exact calibration.

``caribou-edp``, ``caribou-inf``: features, labels and split are public, so the encoder costs nothing: an MLP learns the
training labels, and X^(0) is its last hidden layer.

``caribou-ndp``: everything is private, for a person with all their data, and all within one budget. The encoder is the private
model of `mlp-dp`. By default encoder and classification are linear: under the noise of private training a hidden layer costs
more than it explains (docs/decisions.md). ``base={"hidden": 64}`` and ``classifier="mlp"`` are the paper's MLPs, trained by
full-batch DP-SGD.

Who pays what at node level (the split, its sizes and the number of classes are public):

* Every node is in the propagation: its message and its edges are one Gaussian mechanism (docs/privacy.md, Theorems 1 and 3).
  Row i of X^(0) is a function of node i's own data and of the released encoder.
* A **training node** is also in the Gaussians of encoder and classification. All Gaussians compose to mu of the budget.
* A **validation node** and a **test node** pay the propagation only. Groups are disjoint; the largest cost is that of training
  nodes, and each keeps the budget.
* No degree is cut and none is declared: Theorem 3 with the largest degree n - 1 holds for every node of every graph.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from caribou._validate import MAX_ROUNDS, MAX_WIDTH, integer, one_of, unit_interval
from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.machine.memory import DOUBLE, require_memory
from caribou.methods.catalogue import load_own_methods
from caribou.methods.edge_method import EncodedMethod, Start, arrays_of
from caribou.methods.mlp import MlpDp, applied, base_model
from caribou.methods.node_method import (
    NodeMethod,
    check_degrees,
    check_shares,
    fit_linear_head,
    fit_network_head,
    plan_head,
    side_by_side,
)
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedPropagation, budget_mu, calibrate_propagation
from caribou.privacy.mechanism_records import NODES, PARTS, message_passing_record
from caribou.privacy.plan import ReleaseKind, ReleasePlan
from caribou.privacy.sensitivity import LAYER_THEOREMS, Bounds, Sensitivity, declared_bounds, layer_sensitivity
from caribou.privacy.sizes import Sizes

with deferred_imports():
    import numpy as np
    import scipy.sparse as sp
    import torch
    from scipy.special import softmax

    from caribou.graph import Graph
    from caribou.graph.operator import normalize
    from caribou.layers import BoundedLayer, ContractiveGraphLayer, GCNLayer, layer_class
    from caribou.mechanisms.bounded_rows import unit_length
    from caribou.mechanisms.message_passing import propagate
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.methods.base import Arrays, Outputs, Weights
    from caribou.models.classifier import (
        classify,
        require_classifier_memory,
    )
    from caribou.models.features import sent_rows
    from caribou.models.linear import chain_logits, network_from_arrays
    from caribou.randomness import Streams

MESSAGES = ("embeddings", "features")
NODE_CLASSIFIERS = ("linear", "mlp")
THETA = "layer.theta"
STATES = 8
"""Arrays of the size of X^(0) that are in memory at once: X^(0), X^(k), the next one, its noise, and what is made on the way."""
LAYER_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "contractive": {},
    "attention": {"sharpness": 2.0},
    "spectral": {"theta0": 0.5, "theta1": 0.5},
    "gcn": {"activation": "tanh"},
}
"""The library's layers for ``--set layer=...`` and their own settings; a layer of one's own takes what its constructor does."""


def own_settings(layer: type[BoundedLayer]) -> tuple[str, ...]:
    """What the constructor of a layer of one's own takes beside contraction and beta."""
    return tuple(name for name in inspect.signature(layer).parameters if name not in ("contraction", "beta"))


def default_floor(mu: float) -> int:
    """The degree floor from public numbers: about 8 / mu between 2 and 20.

    A larger floor takes noise away and shrinks the signal of nodes whose degree is below it, by degree / F at every hop.
    Without noise the floor hardly matters.

    >>> [default_floor(mu) for mu in (0.27, 3.0, math.inf)]
    [20, 3, 2]
    """
    return round(min(20.0, max(2.0, 8 / mu)))


@dataclass(frozen=True)
class Caribou(EncodedMethod):
    """Public settings of ``caribou-edp`` and, with an infinite budget, of ``caribou-inf``. The defaults are the paper's method.

    ``hops`` = K, ``contraction`` = C_L, ``alpha1``, ``beta``: the layer (`ContractiveGraphLayer`). ``degree_floor``: F; None =
    `default_floor`. ``hidden``: widths of the encoder's hidden layers, () for none; the last one is the width of X^(0).
    ``classifier_hidden``: width of the base layers.
    ``layer``: "contractive" (the paper's), "attention", "spectral" or "gcn" (`caribou.layers`),
    ``layer_settings``: what it has besides contraction and beta (`LAYER_SETTINGS`).

    ``messages``, X^(0): "embeddings" (the paper's) or "features" (no encoder).

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    Formal guarantee: X^(K) is mu-GDP at edge level with mu of the budget (docs/privacy.md, Theorems 1 and 2); all else is
    computed from the release and from public values.

    >>> plan = Caribou(hops=4).plan(Sizes(nodes=100, columns=8, classes=3, train=60), Budget(2))
    >>> plan.scope.words, len(plan.cost)
    ('every graph', 1)
    """

    hops: int = 2
    contraction: float = 0.9
    alpha1: float = 1.0
    beta: float = 1.0
    degree_floor: int | None = None
    messages: str = "embeddings"
    classifier_hidden: int = 64
    layer: str = "contractive"
    layer_settings: Mapping[str, Any] = field(default_factory=dict)
    cross_fitted: ClassVar[bool] = False
    name: ClassVar[str] = "caribou-edp"

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(at_least=1, at_most=MAX_ROUNDS, hops=self.hops)
        self._check_layer()
        if self.degree_floor is not None:
            integer(at_least=0, degree_floor=self.degree_floor)
        one_of(MESSAGES, messages=self.messages)
        integer(at_least=1, at_most=MAX_WIDTH, classifier_hidden=self.classifier_hidden)

    def _check_layer(self) -> None:
        known: Iterable[str]
        if not isinstance(self.layer, str):
            raise InputError.of("layer", "be the name of a layer", self.layer)
        if self.layer in LAYER_SETTINGS:
            known = LAYER_SETTINGS[self.layer]
        else:
            load_own_methods()
            known = own_settings(layer_class(self.layer))  # an unknown one is refused
        if not isinstance(self.layer_settings, Mapping) or set(self.layer_settings) - set(known):
            raise InputError(
                f"layer_settings must be of {', '.join(known) or 'nothing'} for {self.layer}, got {self.layer_settings!r}"
            )
        object.__setattr__(self, "layer_settings", dict(self.layer_settings))
        if unit_interval(alpha1=self.alpha1) != 1 and self.layer != "contractive":
            raise InputError(f"alpha1 must be 1 for the layer {self.layer}, got {self.alpha1!r}")
        self.sensitivity(1, Bounds())  # checks the numbers of the layer

    @property
    def takes_prior(self) -> bool:
        """X^(0) is made by the encoder, unless it is the features themselves."""
        return self.messages != "features"

    # -- PAM: noise from public numbers ----------------------------------------------------------------------------

    def release_plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """One Gaussian mechanism, whatever the number of hops."""
        calibrated = self._calibrate(sizes, budget_mu(budget))
        return ReleasePlan(
            budget,
            (message_passing_record(calibrated),),
            released=("the last state X^(K) and everything computed from it", "class probabilities of every node"),
            public_parameters={**self.settings(), "nodes": sizes.nodes, "classes": sizes.classes},
            parts={"propagation": calibrated},
        )

    def columns_of(self, sizes: Sizes) -> int:
        """Of a message."""
        return sizes.columns if self.messages == "features" else super().columns_of(sizes)

    def _calibrate(self, sizes: Sizes, mu: float) -> CalibratedPropagation:
        n, columns = sizes.nodes, self.columns_of(sizes)
        floor = default_floor(mu) if self.degree_floor is None else self.degree_floor
        sensitivity = self.sensitivity(columns, Bounds(degree_floor=floor, nodes=n))
        arithmetic = sensitivity.arithmetic(nodes=n, columns=columns)
        return calibrate_propagation(sensitivity, hops=self.hops, mu=mu, arithmetic=arithmetic)

    def sensitivity(self, columns: int, bounds: Bounds) -> Sensitivity:
        """The bound of one step on states with so many columns, by the theorem of the layer; that of an owner's is declared."""
        if self.layer in LAYER_SETTINGS:
            return LAYER_THEOREMS[self.layer](PrivacyUnit.EDGE, self._numbers(columns), bounds, None)
        return self.layer_of(np.zeros((1, columns))).sensitivity(PrivacyUnit.EDGE, bounds)

    def _numbers(self, columns: int) -> dict[str, Any]:
        """The public parameters of the layer: all that its theorem takes."""
        own = {**LAYER_SETTINGS.get(self.layer, {}), **self.layer_settings}
        numbers: dict[str, Any] = {"contraction": self.contraction, "beta": self.beta, **own}
        if self.layer == "contractive":
            numbers["alpha1"] = self.alpha1
        elif self.layer == "gcn":
            numbers |= {"columns": columns, "spectral_norm": 1.0}
        return numbers

    def require_memory_for(self, sizes: Sizes) -> None:
        """Refuse what does not fit into memory, wherever the edges lie: states and the classification module."""
        n, d = sizes.nodes, self.columns_of(sizes)
        if self.messages == "features":
            _require_rows_memory(n, d)
        arrays = STATES + (self.layer == "attention")  # its weights come from public rows
        require_memory(arrays * DOUBLE * n * d, f"states of {n:,} nodes with {d:,} columns and their noise")
        require_classifier_memory(n, sizes.train + sizes.val, (d, d), self.classifier_hidden)

    # -- Algorithm 1 -----------------------------------------------------------------------------------------------

    def encoded(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> Start:
        """X^(0), from public values alone."""
        if self.messages == "features":
            start = Start(unit_rows(graph), {})
        else:
            start = super().encoded(plan, graph, streams, weights)
            start = Start(sent_rows(graph, start.rows), start.arrays)
        if self.layer != "gcn":
            return start
        # its matrix is drawn from the public seed of the fit and kept with the model
        theta = GCNLayer(start.rows.shape[1], seed=streams.seed).theta.numpy() if weights is None else weights[THETA]
        return Start(start.rows, {**start.arrays, THETA: theta})

    def run(
        self, plan: ReleasePlan, graph: Graph, public: Start, streams: Streams, noise: NoiseSource, weights: Weights
    ) -> Outputs:
        """The paper's pipeline: pass the encoder's messages K times with noise, classify."""
        calibrated = plan.parts["propagation"]
        state = self.aggregate(graph, public, calibrated, noise)  # CAM with the noise of PAM: only X^(K) comes back
        return self.classified(graph, public, state, calibrated, streams, weights)

    def classified(
        self,
        graph: Graph,
        public: Start,
        state: np.ndarray,
        calibrated: CalibratedPropagation,
        streams: Streams,
        weights: Weights = None,
    ) -> Outputs:
        """The classification module on X^(0) and X^(K), on public labels, and what it says."""
        inputs = [public.rows, state_columns(state, calibrated)]
        module = self.module(inputs, graph, self.classifier_hidden, streams, weights)
        probabilities = softmax(classify(module, inputs), axis=1)
        released = {"state": state, "probabilities": probabilities}
        return Outputs(probabilities, released, {**public.arrays, **arrays_of(module)})

    # -- its steps -------------------------------------------------------------------------------------------------

    def layer_of(self, start: np.ndarray, theta: np.ndarray | None = None) -> BoundedLayer:
        """The layer. ``start``: the public X^(0), whose rows give the weights of attention; ``theta``: the matrix of a GCN."""
        public: dict[str, Any] = {}
        if self.layer == "attention":
            public["rows"] = start
        elif self.layer == "gcn":
            public["theta"] = np.eye(start.shape[1]) if theta is None else theta
        return layer_class(self.layer).from_parameters(self._numbers(start.shape[1]), **public)

    def aggregate(
        self, graph: Graph, start: Start, calibrated: CalibratedPropagation, noise: NoiseSource
    ) -> np.ndarray:
        """CAM: K noisy contractive rounds from X^(0). The only step that reads the private edges."""
        layer = self.layer_of(start.rows, start.arrays.get(THETA))
        operator = layer.operator(graph, calibrated.sensitivity.bounds)
        stream = noise.stream("propagation")
        return propagate(layer, operator, torch.from_numpy(start.rows), calibrated, stream).numpy()


# -- the classification module -------------------------------------------------------------------------------------


def message_unit(calibrated: CalibratedPropagation) -> float:
    """One message is this part of a state: (F + 1) / (C_L alpha_1); |theta_1| in the place of alpha_1 for a spectral layer."""
    s = calibrated.sensitivity
    numbers = dict(s.parameters)
    return (s.bounds.degree_floor + 1) / max(
        s.contraction * abs(numbers.get("alpha1", numbers.get("theta1", 1.0))), 1e-12
    )


def state_columns(state: np.ndarray, calibrated: CalibratedPropagation) -> np.ndarray:
    """The state for an MLP: in messages, but the noise of a row never longer than one unit, as long as the row beside it. [n,
    d]

    Per column is not enough: with a thousand columns of noise at one unit each the MLP learns nothing but the noise.
    """
    length = calibrated.noise_std * math.sqrt(state.shape[1])
    return state * min(message_unit(calibrated), 1 / max(length, 1e-12))


def unit_rows(graph: Graph) -> np.ndarray:
    """Dense features with rows of length 1 (or 0)."""
    x = graph.features
    _require_rows_memory(*x.shape)
    dense = np.asarray(x.todense() if sp.issparse(x) else x, dtype=np.float64)
    return unit_length(dense)


def _require_rows_memory(nodes: int, columns: int) -> None:
    require_memory(6 * DOUBLE * nodes * columns, f"messages of {nodes:,} nodes with all {columns:,} features")


# -- node level ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CaribouNdp(NodeMethod):
    """Public settings of ``caribou-ndp``. The defaults are the paper's method.

    ``hops``, ``contraction``, ``alpha1``, ``beta``: the layer. ``degree_floor`` = F; None = the cap, else `node_floor` of n.
    ``degree_cap`` = M: degrees are cut to it, and the headline holds up to ``declared_degree`` (None = M); None = every edge
    is read, and the headline holds for every node. ``graph_share``, ``classifier_share``: shares of mu^2 for message passing
    and for the classification; the rest is the encoder's. ``classifier``: "linear", or "mlp" with ``classifier_hidden`` units.
    ``base``: the encoder, or its settings by name.

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
    name: ClassVar[str] = "caribou-ndp"

    def __post_init__(self) -> None:
        integer(at_least=1, at_most=MAX_ROUNDS, hops=self.hops)
        check_degrees(self.degree_cap, self.declared_degree)
        if self.degree_floor is not None:
            integer(at_least=0, degree_floor=self.degree_floor)
        self._sensitivity(PrivacyUnit.EDGE, Bounds())  # checks the numbers of the layer
        object.__setattr__(self, "base", base_model(self.base))
        one_of(NODE_CLASSIFIERS, classifier=self.classifier)
        integer(at_least=1, at_most=MAX_WIDTH, classifier_hidden=self.classifier_hidden)
        check_shares(graph_share=self.graph_share, classifier_share=self.classifier_share)

    # -- PAM: one budget over encoder, message passing and classification ---------------------------------------------

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Gaussians of encoder, message passing and classifier within one budget."""
        share, trained, mu = self.graph_share, self.classifier_share, self.mu_of(budget)
        base = self.base.plan_base(sizes, math.sqrt(1 - share - trained) * mu)
        calibrated = self._calibrate(sizes, math.sqrt(share) * mu)
        hidden = self.classifier_hidden if self.classifier == "mlp" else 0
        head = plan_head(sizes, math.sqrt(trained) * mu, self.base.train_size, hidden=hidden)
        return self.planned(
            sizes,
            budget,
            ReleaseKind.FIT,
            (*base.records, message_passing_record(calibrated, PARTS), head.record),
            (*base.released, "the last state X^(K) of all nodes", "the classifier on top of it"),
            {"base": base, "propagation": calibrated, "head": head},
        )

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Weights) -> ReleasePlan:
        """One Gaussian mechanism, whatever the number of hops."""
        calibrated = self._calibrate(sizes, self.mu_of(budget))
        return self.planned(
            sizes,
            budget,
            ReleaseKind.PREDICTION,
            (message_passing_record(calibrated, NODES),),
            ("the last state X^(K) of all nodes",),
            {"propagation": calibrated},
        )

    # -- Algorithm 1 -----------------------------------------------------------------------------------------------

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """The paper's pipeline: a private encoder, K rounds of message passing with noise, a private classification module."""
        encoder = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        weights = dict(encoder.parameters)
        start = self._start(graph, weights)  # X^(0): row i from node i's own data and the released encoder
        state = self._aggregate(graph, start, plan.parts["propagation"], streams, noise)  # CAM: only X^(K) comes back
        weights |= self._classify(plan, graph, weights, state, streams, noise)
        return self.outputs(graph, {"state": state}, weights)

    def predict_graph(
        self, plan: ReleasePlan, weights: Arrays, graph: Graph, streams: Streams, noise: NoiseSource
    ) -> Outputs:
        """Message passing on another graph; encoder and classifier are used as they are."""
        start = self._start(graph, weights)
        state = self._aggregate(graph, start, plan.parts["propagation"], streams, noise)
        return self.outputs(graph, {"state": state}, weights)

    def predict(self, weights: Arrays, released: Arrays, graph: Graph) -> np.ndarray:
        """Class probabilities from each node's own features and its row of the released state. [n, C]"""
        rows = self._rows(graph, weights, released["state"])
        if "classifier" in weights:
            return softmax(rows @ weights["classifier"], axis=1)
        return softmax(chain_logits(network_from_arrays(of_classifier(weights)), rows), axis=1)

    # -- its steps -------------------------------------------------------------------------------------------------

    def _start(self, graph: Graph, weights: Arrays) -> np.ndarray:
        """X^(0): embeddings; 0 for nodes without features. [n, d]"""
        return sent_rows(graph, applied(weights, graph).embeddings())

    def _rows(self, graph: Graph, weights: Arrays, state: np.ndarray) -> np.ndarray:
        """What the classification module reads of every node: its embedding and its row of the state. [n, 2 d]"""
        return side_by_side([applied(weights, graph).embeddings(), state])

    def _columns(self, sizes: Sizes) -> int:
        """Of a message."""
        return self.base.hidden or sizes.classes

    @property
    def _layer(self) -> ContractiveGraphLayer:
        return ContractiveGraphLayer(self.contraction, self.alpha1, self.beta)

    def _sensitivity(self, unit: PrivacyUnit, bounds: Bounds) -> Sensitivity:
        return layer_sensitivity(unit, contraction=self.contraction, alpha1=self.alpha1, beta=self.beta, bounds=bounds)

    def _calibrate(self, sizes: Sizes, mu: float) -> CalibratedPropagation:
        bounds = declared_bounds(
            PrivacyUnit.NODE,
            nodes=sizes.nodes,
            degree_floor=self.degree_floor,
            degree_cap=self.degree_cap,
            declared_degree=self.declared_degree,
        )
        sensitivity = self._sensitivity(PrivacyUnit.NODE, bounds)
        arithmetic = sensitivity.arithmetic(nodes=sizes.nodes, columns=self._columns(sizes))
        return calibrate_propagation(sensitivity, hops=self.hops, mu=mu, arithmetic=arithmetic)

    def _aggregate(
        self, graph: Graph, start: np.ndarray, calibrated: CalibratedPropagation, streams: Streams, noise: NoiseSource
    ) -> np.ndarray:
        operator = normalize(graph, calibrated.sensitivity.bounds, streams.sampling)
        stream = noise.stream("propagation")
        return propagate(self._layer, operator, torch.from_numpy(start), calibrated, stream).numpy()

    def _classify(
        self, plan: ReleasePlan, graph: Graph, weights: Arrays, state: np.ndarray, streams: Streams, noise: NoiseSource
    ) -> dict[str, np.ndarray]:
        """The arrays of the classification module."""
        rows, head, stream = self._rows(graph, weights, state), plan.parts["head"], noise.stream("classifier")
        if self.classifier == "linear":
            return {"classifier": fit_linear_head(head, rows, graph, stream)}
        network = fit_network_head(head, rows, self.classifier_hidden, graph, streams, stream)
        return {f"{CLASSIFIER}{name}": array for name, array in network.items()}


CLASSIFIER = "classifier."
"""Names of the arrays of a classification module with a hidden layer begin so."""


def of_classifier(weights: Arrays) -> dict[str, np.ndarray]:
    """The arrays of the classification module with a hidden layer."""
    return {n.removeprefix(CLASSIFIER): array for n, array in weights.items() if n.startswith(CLASSIFIER)}
