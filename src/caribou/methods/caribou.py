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
training labels, and X^(0) is its last hidden layer. What is ours beside the paper (class messages, evidence, votes) is in
`caribou.methods.evidence` and switched on by settings.

``caribou-ndp``: everything is private, for a person with all their data, and all within one budget. The encoder is the private
model of `mlp-dp`. By default encoder and classification are linear: under the noise of private training a hidden layer costs
more than it explains (docs/decisions.md). ``base={"hidden": 64}`` and ``classifier="mlp"`` are the paper's MLPs, trained by
full-batch DP-SGD. Ours, not the paper's: label codes as messages, a weight of the state that is chosen on validation nodes,
and ``leave_graph``, by which a public rule gives the graph nothing where it would not pay: then this is `mlp-dp`.

Who pays what at node level (the split, its sizes and the number of classes are public):

* Every node is in the propagation: its message and its edges are one Gaussian mechanism (docs/privacy.md, Theorems 1 and 3).
  Row i of X^(0) is a function of node i's own data and of the released encoder.
* A **training node** is also in the Gaussians of encoder and classification. All Gaussians compose to mu of the budget.
* A **validation node** and a **test node** pay the propagation only. (With ``classifier="chosen"`` a validation node also pays
  an exponential mechanism with what is left of epsilon.) Groups are disjoint; the largest cost is that of training nodes, and
  each keeps the budget.
* No degree is cut and none is declared: Theorem 3 with the largest degree n - 1 holds for every node of every graph.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import softmax

from caribou._validate import below_one, boolean, integer, non_negative, one_of, open_unit_interval
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.layers import LAYERS, BoundedLayer, ContractiveGraphLayer, GCNLayer, layer_class
from caribou.machine.memory import DOUBLE, require_memory
from caribou.mechanisms.bounded_rows import unit_length
from caribou.mechanisms.exponential import choose
from caribou.mechanisms.message_passing import propagate
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Arrays, Outputs
from caribou.methods.catalogue import load_own_methods
from caribou.methods.edge_method import EncodedMethod, arrays_of, log_probabilities, module_of, prior_of
from caribou.methods.evidence import (
    EvidenceModel,
    Roles,
    View,
    allocate_edge,
    fit_evidence_model,
    labelled_nodes,
    message_sums,
    message_unit,
)
from caribou.methods.mlp import MlpDp, applied, base_model, centred
from caribou.methods.node_method import (
    DEFAULT_WEIGHT,
    WEIGHTS,
    NodeMethod,
    check_degrees,
    check_shares,
    fit_linear_head,
    fit_network_head,
    plan_head,
    side_by_side,
)
from caribou.methods.votes import Decoded, VotesEdge, require_labelled, run_rounds
from caribou.models.classifier import (
    ClassificationModule,
    classify,
    require_classifier_memory,
)
from caribou.models.features import sent_rows
from caribou.models.heads import Evidence, Head, fit_prior_head
from caribou.models.network import chain_logits, network_from_arrays
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedPropagation, calibrate_propagation, remaining_epsilon
from caribou.privacy.mechanism_records import (
    NODES,
    PARTS,
    ChoiceRecord,
    EdgeVotesRecord,
    MechanismRecord,
    message_passing_record,
)
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import Bounds, declared_bounds
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

MESSAGES = ("embeddings", "features", "labels", "probabilities")
CLASS_MESSAGES = ("labels", "probabilities")
CLASSIFIERS = ("evidence", "mlp")
THETA = "layer.theta"
STATES = 8
"""Arrays of the size of X^(0) that are in memory at once: X^(0), X^(k), the next one, its noise, and what is made on the way."""
LAYER_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "contractive": (),
    "attention": ("sharpness",),
    "spectral": ("theta0", "theta1"),
    "gcn": ("activation",),
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


def counting_floor(*, nodes: int, mu: float) -> int:
    """The degree floor for class messages over one hop: n - 1 with noise.

    Then nothing is normalised: the state is a count of classes over the neighbours, and its noise is the least there is,
    sqrt(2) messages per unit of mu.

    >>> counting_floor(nodes=2708, mu=0.27), counting_floor(nodes=2708, mu=math.inf)
    (2707, 10)
    """
    return 10 if math.isinf(mu) else max(1, nodes - 1)


@dataclass(frozen=True)
class Caribou(EncodedMethod):
    """Public settings of ``caribou-edp`` and, with an infinite budget, of ``caribou-inf``. The defaults are the paper's method.

    ``hops`` = K, ``contraction`` = C_L, ``alpha1``, ``beta``: the layer (`ContractiveGraphLayer`). ``degree_floor``: F; None =
    `default_floor`. ``hidden``: widths of the encoder's hidden layers, () for none; the last one is the width of X^(0).
    ``classifier_hidden``: width of the base layers.
    ``layer``: "contractive" (the paper's), "attention", "spectral" or "gcn" (`caribou.layers`),
    ``layer_settings``: what it has besides contraction and beta (`LAYER_SETTINGS`).

    Ours beside the paper's: ``messages``, X^(0): "embeddings" (the paper's), "features" (no encoder), "labels" (class
    probabilities, and the labels of training nodes) or "probabilities". ``classifier``: "mlp" (the paper's) or "evidence"
    (Bayes and ridge heads on a model of the noisy sums; class messages only); None = "evidence" for class messages.
    ``calibration``: with label messages, the share of the training nodes that do not send their label; with the validation
    nodes they fit the classification module. ``votes``: share of epsilon for votes (`caribou.methods.votes`), whose
    result joins X^(0) there.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    Formal guarantee: X^(K) is mu-GDP at edge level with mu of the budget (docs/privacy.md, Theorems 1 and 2), or with what is
    left of it besides the votes (Theorem 4), composed by PLD; all else is computed from the releases and from public values.

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
    calibration: float = 0.1
    classifier: str | None = None
    classifier_hidden: int = 64
    votes: float = 0.0
    layer: str = "contractive"
    layer_settings: Mapping[str, Any] = field(default_factory=dict)
    name: ClassVar[str] = "caribou-edp"

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(at_least=1, hops=self.hops)
        self._check_layer()
        if self.degree_floor is not None:
            integer(at_least=0, degree_floor=self.degree_floor)
        one_of(MESSAGES, messages=self.messages)
        open_unit_interval(calibration=self.calibration)
        if self.classifier is not None:
            one_of(CLASSIFIERS, classifier=self.classifier)
        if self.classifier == "evidence" and self.messages not in CLASS_MESSAGES:
            raise InputError(f"classifier must be mlp for messages = {self.messages}, got 'evidence'")
        integer(at_least=1, classifier_hidden=self.classifier_hidden)
        below_one(votes=self.votes)
        if self.votes > 0 and self._classifier != "evidence":
            raise InputError(f"votes must be 0 unless the classifier is evidence, got {self.votes!r}")

    def _check_layer(self) -> None:
        if self.layer not in LAYERS:
            load_own_methods()
        own = layer_class(self.layer)  # an unknown one is refused
        known = LAYER_SETTINGS.get(self.layer, own_settings(own))
        if not isinstance(self.layer_settings, Mapping) or set(self.layer_settings) - set(known):
            raise InputError(
                f"layer_settings must be of {', '.join(known) or 'nothing'} for {self.layer}, got {self.layer_settings!r}"
            )
        object.__setattr__(self, "layer_settings", dict(self.layer_settings))
        if self.layer != "contractive" and self.alpha1 != 1:
            raise InputError(f"alpha1 must be 1 for the layer {self.layer}, got {self.alpha1!r}")
        if self.layer != "contractive" and self.classifier == "evidence":
            raise InputError(f"classifier must be mlp for the layer {self.layer}, got 'evidence'")
        self.layer_of(np.zeros((1, 1)))  # checks its own arguments

    @property
    def takes_prior(self) -> bool:
        """X^(0) is made from class probabilities or embeddings, unless it is the features themselves."""
        return self.messages != "features"

    # -- PAM: noise from public numbers ----------------------------------------------------------------------------

    def release_plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """One Gaussian mechanism, whatever the number of hops, and the votes."""
        mu, votes = allocate_edge(budget, self.votes)
        calibrated = self._calibrate(sizes, mu)
        records: list[MechanismRecord] = [message_passing_record(calibrated)]
        if votes is not None:
            records.append(EdgeVotesRecord(epsilon=votes.epsilon, mu=votes.mu))
        return ReleasePlan(
            budget,
            tuple(records),
            released=(
                "the last state X^(K) and everything computed from it",
                *(() if votes is None else ("the counts of every round of the votes",)),
                "class probabilities of every node",
            ),
            description=self.name,
            public_parameters={**self.settings(), "classes": sizes.classes},
            parts={"propagation": calibrated, "votes": votes},
        )

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Arrays) -> ReleasePlan:
        """One more release, about another graph's edges."""
        self.require_memory_for(sizes)
        if self.votes > 0:
            require_labelled(sizes)
        return super().plan_graph(sizes, budget, weights)

    def columns_of(self, sizes: Sizes) -> int:
        """Of a message."""
        if self.messages == "features":
            return sizes.columns
        return super().columns_of(sizes) if self.messages == "embeddings" else sizes.classes

    def _calibrate(self, sizes: Sizes, mu: float) -> CalibratedPropagation:
        n, columns = sizes.nodes, self.columns_of(sizes)
        floor = self.degree_floor
        if floor is None:
            counts = self.hops == 1 and self.messages in CLASS_MESSAGES
            floor = counting_floor(nodes=n, mu=mu) if counts else default_floor(mu)
        # the bound does not depend on the public rows or the public matrix, so any will do
        layer = self.layer_of(np.zeros((1, columns)))
        sensitivity = layer.sensitivity(PrivacyUnit.EDGE, Bounds(degree_floor=floor, nodes=n))
        arithmetic = sensitivity.arithmetic(nodes=n, columns=columns)
        return calibrate_propagation(sensitivity, hops=self.hops, mu=mu, arithmetic=arithmetic)

    def require_memory_for(self, sizes: Sizes) -> None:
        """Refuse what does not fit into memory, wherever the edges lie: states, votes and the classification module."""
        n, d = sizes.nodes, self.columns_of(sizes)
        if self.messages == "features":
            _require_rows_memory(n, d)
        arrays = STATES + (self.layer == "attention")  # its weights come from public rows
        require_memory(arrays * DOUBLE * n * d, f"states of {n:,} nodes with {d:,} columns and their noise")
        if self._classifier == "mlp":
            own = sizes.classes if self.messages in CLASS_MESSAGES else d
            require_classifier_memory(n, sizes.train + sizes.val, (own, d), self.classifier_hidden)
        if self.votes > 0:
            self._vote_rounds.require_memory_for(sizes)

    # -- Algorithm 1 -----------------------------------------------------------------------------------------------

    def encoded(self, graph: Graph, streams: Streams) -> View:
        """X^(0), from public values alone."""
        return self._encode(graph, Roles.draw(graph, self.calibration, streams), streams)

    def run(self, plan: ReleasePlan, graph: Graph, public: View, streams: Streams, noise: NoiseSource) -> Outputs:
        """The paper's pipeline: encode, pass messages K times with noise, classify."""
        calibrated = plan.parts["propagation"]
        roles = Roles.draw(graph, self.calibration, streams)
        state = self._aggregate(graph, public, calibrated, noise)  # CAM with the noise of PAM: only X^(K) comes back
        decoded = self._vote(plan, graph, public, streams, noise)
        view = public.after(decoded)
        model = self._classify(graph, view, state, calibrated, roles, streams)
        return self._outputs(plan, view, model, state, decoded)

    def predict_graph(
        self, plan: ReleasePlan, weights: Arrays, graph: Graph, streams: Streams, noise: NoiseSource
    ) -> Outputs:
        """Predict another graph. With label messages its training nodes send their labels, if it has any."""
        view = self._view(graph, weights, labelled_nodes(graph))
        state = self._aggregate(graph, view, plan.parts["propagation"], noise)
        decoded = self._vote(plan, graph, view, streams, noise)
        return self._outputs(plan, view.after(decoded), model_from_arrays(weights), state, decoded)

    # -- its steps -------------------------------------------------------------------------------------------------

    def _encode(self, graph: Graph, roles: Roles, streams: Streams) -> View:
        """The encoder, fitted on public values, and X^(0)."""
        if self.messages == "features":
            arrays: dict[str, np.ndarray] = {}
            view = self._view(graph, arrays, roles.senders)
        elif self.messages == "embeddings":
            prior = self.prior(graph, streams, cross=False)
            start = sent_rows(graph, prior.encoder.embeddings(graph.features))
            view = View(start, start, prior.encoder.to_arrays())
        else:
            prior = self.prior(graph, streams)
            log_prior = log_probabilities(prior.probabilities)
            head = fit_prior_head(log_prior[roles.train], roles.labels[roles.train], self.objective)
            arrays = prior.encoder.to_arrays() | {f"calibration.{k}": v for k, v in head.to_arrays().items()}
            view = self._view(graph, arrays, roles.senders, log_prior)
        if self.layer != "gcn":
            return view
        # the matrix of a GCN layer is drawn from the public seed and kept with the model
        theta = GCNLayer(view.start.shape[1], seed=streams.seed).theta.numpy()
        return replace(view, arrays={**view.arrays, THETA: theta})

    def _view(self, graph: Graph, arrays: Arrays, senders: np.ndarray, log_prior: np.ndarray | None = None) -> View:
        """What is public about every node, and its message. ``log_prior`` = None: by the encoder alone, for a new graph."""
        if self.messages == "features":
            return View(unit_rows(graph), unit_rows(graph), arrays)
        if self.messages == "embeddings":
            start = sent_rows(graph, prior_of(arrays, graph).encoder.embeddings(graph.features))
            return View(start, start, arrays)
        if log_prior is None:
            log_prior = log_probabilities(prior_of(arrays, graph).probabilities)
        head = Head(arrays["calibration.theta"])
        start = softmax(head(Evidence.of_prior(log_prior)), axis=1)
        if self.messages == "labels" and graph.labels is not None:
            start[senders] = np.eye(start.shape[1])[graph.labels[senders]]
        return View(log_prior, start, arrays)

    def _vote(
        self, plan: ReleasePlan, graph: Graph, view: View, streams: Streams, noise: NoiseSource
    ) -> Decoded | None:
        if plan.parts["votes"] is None:
            return None
        return run_rounds(
            self._vote_rounds, graph, np.exp(view.own), plan.parts["votes"], streams, noise.stream("votes")
        )

    @property
    def _vote_rounds(self) -> VotesEdge:
        return VotesEdge(metric=self.metric, class_weight=self.class_weight, alphabet="class")

    def layer_of(self, start: np.ndarray, theta: np.ndarray | None = None) -> BoundedLayer:
        """The layer. ``start``: the public X^(0), whose rows give the weights of attention; ``theta``: the matrix of a GCN."""
        numbers: dict[str, Any] = {"contraction": self.contraction, "beta": self.beta, **self.layer_settings}
        public: dict[str, Any] = {}
        if self.layer == "contractive":
            numbers["alpha1"] = self.alpha1
        elif self.layer == "attention":
            public["rows"] = start
        elif self.layer == "gcn":
            public |= {"columns": start.shape[1], "theta": np.eye(start.shape[1]) if theta is None else theta}
        return layer_class(self.layer).from_parameters(numbers, **public)

    def _aggregate(self, graph: Graph, view: View, calibrated: CalibratedPropagation, noise: NoiseSource) -> np.ndarray:
        """CAM: K noisy contractive rounds from X^(0). The only step that reads the private edges."""
        layer = self.layer_of(view.start, view.arrays.get(THETA))
        operator = layer.operator(graph, calibrated.sensitivity.bounds)
        stream = noise.stream("propagation")
        return propagate(layer, operator, torch.from_numpy(view.start), calibrated, stream).numpy()

    def _classify(
        self,
        graph: Graph,
        view: View,
        state: np.ndarray,
        calibrated: CalibratedPropagation,
        roles: Roles,
        streams: Streams,
    ) -> ModuleModel | EvidenceModel:
        """The classification module on X^(0) and X^(K): fitted on public labels that no message carried."""
        if self._classifier == "evidence":
            return fit_evidence_model(
                view, message_sums(view, state, calibrated), roles, calibrated, streams, self.objective
            )
        train = roles.calibration if self.messages == "labels" else roles.train  # nodes whose own label was not sent
        inputs = [view.own, state_columns(state, calibrated)]
        module = self.fit_module(inputs, graph, self.classifier_hidden, streams, train=train)
        return ModuleModel(module)

    @property
    def _classifier(self) -> str:
        if self.classifier is None:
            return "evidence" if self.messages in CLASS_MESSAGES and self.layer == "contractive" else "mlp"
        return self.classifier

    def _outputs(
        self,
        plan: ReleasePlan,
        view: View,
        model: ModuleModel | EvidenceModel,
        state: np.ndarray,
        decoded: Decoded | None,
    ) -> Outputs:
        probabilities = softmax(model.scores(view, state, plan.parts["propagation"]), axis=1)
        transcript = {} if decoded is None else decoded.transcript
        released = {"state": state, "probabilities": probabilities, **transcript}
        return Outputs(probabilities, released, {**view.arrays, **model.to_arrays()})


# -- the classification module -------------------------------------------------------------------------------------

MODULE = "module."
"""Names of the arrays of a classification module of MLPs begin so."""


@dataclass(frozen=True, eq=False)
class ModuleModel:
    """Base MLPs, combination and head; beside it there is `EvidenceModel`."""

    module: ClassificationModule

    def scores(self, view: View, state: np.ndarray, calibrated: CalibratedPropagation) -> np.ndarray:
        """[n, C]"""
        return classify(self.module, [view.own, state_columns(state, calibrated)])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved run."""
        return arrays_of(self.module, MODULE)


def model_from_arrays(arrays: Arrays) -> ModuleModel | EvidenceModel:
    """The inverse of ``to_arrays``."""
    if any(name.startswith(MODULE) for name in arrays):
        return ModuleModel(module_of(arrays, MODULE))
    return EvidenceModel.from_arrays(arrays)


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

NODE_MESSAGES = ("embeddings", "labels")
NODE_CLASSIFIERS = ("linear", "mlp", "chosen")
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
class CaribouNdp(NodeMethod):
    """Public settings of ``caribou-ndp``. The defaults are the paper's method.

    ``hops``, ``contraction``, ``alpha1``, ``beta``: the layer. ``degree_floor`` = F; None = the cap, else `node_floor` of n.
    ``degree_cap`` = M: degrees are cut to it, and the headline holds up to ``declared_degree`` (None = M); None = every edge
    is read, and the headline holds for every node. ``graph_share``, ``classifier_share``: shares of mu^2 for message passing
    and for the classification; the rest is the encoder's. ``classifier``: "linear", "mlp" with ``classifier_hidden`` units, or
    "chosen". ``base``: the encoder, or its settings by name.

    Ours beside the paper's: ``messages="labels"``: label codes (training nodes) and the encoder's class probabilities (others)
    in the place of embeddings. ``classifier="chosen"``: logits plus gamma times the centred state, gamma chosen on validation
    nodes by the exponential mechanism (label messages only). ``leave_graph``: with label messages, message passing gets
    `paying_share` in the place of ``graph_share``; where that is 0, this is `mlp-dp`. ``declared_average_degree``: for that
    rule, what the curator declares, never what is measured; None = not very dense.

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
    name: ClassVar[str] = "caribou-ndp"

    def __post_init__(self) -> None:
        integer(at_least=1, hops=self.hops)
        check_degrees(self.degree_cap, self.declared_degree)
        if self.degree_floor is not None:
            integer(at_least=0, degree_floor=self.degree_floor)
        ContractiveGraphLayer(self.contraction, self.alpha1, self.beta)  # checks its own arguments
        object.__setattr__(self, "base", base_model(self.base))
        if self.declared_average_degree is not None:
            non_negative(declared_average_degree=self.declared_average_degree)
        one_of(NODE_CLASSIFIERS, classifier=self.classifier)
        integer(at_least=1, classifier_hidden=self.classifier_hidden)
        check_shares(graph_share=self.graph_share, classifier_share=self.classifier_share)
        one_of(NODE_MESSAGES, messages=self.messages)
        if self.classifier == "chosen" and self.messages != "labels":
            raise InputError(f"messages must be labels for classifier = chosen, got {self.messages!r}")
        if boolean(leave_graph=self.leave_graph) and self.messages != "labels":
            raise InputError(f"messages must be labels for leave_graph = true, got {self.messages!r}")
        if self.leave_graph and self.classifier != "chosen" and self.classifier_share >= 1 - LARGEST_SHARE:
            raise InputError(
                f"classifier_share must be < {1 - LARGEST_SHARE:.2g} for leave_graph = true, got {self.classifier_share!r}"
            )

    # -- PAM: one budget over encoder, message passing and classification ---------------------------------------------

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Gaussians of encoder, message passing and classifier within one budget; a choice that validation nodes pay."""
        share, mu = self._share(budget), self.mu_of(budget)
        if share == 0:
            return replace(self.base.plan(sizes, budget), description="caribou-ndp, fitted without the graph")
        trained = 0.0 if self.classifier == "chosen" else self.classifier_share
        base = self.base.plan_base(sizes, math.sqrt(1 - share - trained) * mu)
        calibrated = self._calibrate(sizes, math.sqrt(share) * mu)
        parts: dict[str, Any] = {"base": base, "propagation": calibrated}
        if self.classifier == "chosen":
            parts["choice"] = remaining_epsilon((calibrated.event,), budget)
            last = ChoiceRecord(name="choice of the weight", epsilon=parts["choice"], candidates=len(WEIGHTS))
        else:
            hidden = self.classifier_hidden if self.classifier == "mlp" else 0
            parts["head"] = plan_head(sizes, math.sqrt(trained) * mu, self.base.train_size, hidden=hidden)
            last = parts["head"].record
        return self.planned(
            sizes,
            budget,
            "fitted",
            (*base.records, message_passing_record(calibrated, PARTS), last),
            (*base.released, "the last state X^(K) of all nodes", "the classifier on top of it"),
            parts,
        )

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Arrays) -> ReleasePlan:
        """One Gaussian mechanism, whatever the number of hops; nothing without the graph."""
        mu = self.mu_of(budget)
        if self._share(budget) == 0:
            return self.base.plan_graph(sizes, budget, weights)
        calibrated = self._calibrate(sizes, mu)
        return self.planned(
            sizes,
            budget,
            "predicted",
            (message_passing_record(calibrated, NODES),),
            ("the last state X^(K) of all nodes",),
            {"propagation": calibrated},
        )

    # -- Algorithm 1 -----------------------------------------------------------------------------------------------

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """The paper's pipeline: a private encoder, K rounds of message passing with noise, a private classification module."""
        if "propagation" not in plan.parts:
            return self.base.fit(plan, graph, streams, noise)
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
        if "propagation" not in plan.parts:
            return self.base.predict_graph(plan, weights, graph, streams, noise)
        start = self._start(graph, weights)
        state = self._aggregate(graph, start, plan.parts["propagation"], streams, noise)
        return self.outputs(graph, {"state": state}, weights)

    def predict(self, weights: Arrays, released: Arrays, graph: Graph) -> np.ndarray:
        """Class probabilities from each node's own features and its row of the released state. [n, C]"""
        if "state" not in released:
            return softmax(applied(weights, graph).logits(), axis=1)
        if "state_weight" in weights:
            scores = applied(weights, graph).logits() + float(weights["state_weight"]) * centred(released["state"])
            return softmax(scores, axis=1)
        rows = self._rows(graph, weights, released["state"])
        if "classifier" in weights:
            return softmax(rows @ weights["classifier"], axis=1)
        return softmax(chain_logits(network_from_arrays(of_classifier(weights)), rows), axis=1)

    # -- its steps -------------------------------------------------------------------------------------------------

    def _share(self, budget: Budget) -> float:
        return paying_share(budget.epsilon, self.declared_average_degree) if self.leave_graph else self.graph_share

    def _start(self, graph: Graph, weights: Arrays) -> np.ndarray:
        """X^(0): embeddings, or label codes and class probabilities; 0 for nodes without features. [n, d]"""
        if self.messages == "embeddings":
            return sent_rows(graph, applied(weights, graph).embeddings())
        start = softmax(applied(weights, graph).logits(), axis=1)
        start[graph.without_features] = 0
        if graph.labels is not None and graph.split is not None:
            train = graph.split.train[graph.labels[graph.split.train] >= 0]
            start[train] = np.eye(start.shape[1])[graph.labels[train]]
        return start

    def _rows(self, graph: Graph, weights: Arrays, state: np.ndarray) -> np.ndarray:
        """What the classification module reads of every node: its embedding and its row of the state. [n, 2 d]"""
        if self.messages == "embeddings":
            return side_by_side([applied(weights, graph).embeddings(), state])
        return joint_rows(centred(applied(weights, graph).logits()), state)

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
        if self.classifier == "chosen":
            return {"state_weight": np.array(WEIGHTS[self._choice(plan, graph, weights, state, noise)])}
        rows, head, stream = self._rows(graph, weights, state), plan.parts["head"], noise.stream("classifier")
        if self.classifier == "linear":
            return {"classifier": fit_linear_head(head, rows, graph, stream)}
        network = fit_network_head(head, rows, self.classifier_hidden, graph, streams, stream)
        return {f"{CLASSIFIER}{name}": array for name, array in network.items()}

    def _choice(self, plan: ReleasePlan, graph: Graph, weights: Arrays, state: np.ndarray, noise: NoiseSource) -> int:
        """The number of the weight that validation nodes choose."""
        logits = centred(applied(weights, graph).logits())
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


def of_classifier(weights: Arrays) -> dict[str, np.ndarray]:
    """The arrays of the classification module with a hidden layer."""
    return {n.removeprefix(CLASSIFIER): array for n, array in weights.items() if n.startswith(CLASSIFIER)}


def joint_rows(logits: np.ndarray, state: np.ndarray) -> np.ndarray:
    """Logits and centred state side by side: rows of length at most 1. [n, 2 C]"""
    return side_by_side([logits, centred(state)])
