"""CARIBOU: encoder, perturbed contractive message passing, classification module, under one budget.

At edge level (``caribou-edp``) features, labels and split are public: encoder and classification module cost nothing, and the
messages may carry labels. At node level (``caribou-ndp``, `caribou.methods.node.caribou`) encoder and classification are
private, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import softmax

from caribou._validate import below_one, integer, one_of, open_unit_interval
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.layers import AttentionLayer, BoundedLayer, ContractiveGraphLayer, GCNLayer, SpectralLayer
from caribou.mechanisms.bounded_rows import unit_length
from caribou.mechanisms.edge_votes import VoteBudget
from caribou.mechanisms.message_passing import propagate
from caribou.mechanisms.noise_source import NoiseSource
from caribou.memory import DOUBLE, require_memory
from caribou.methods.base import Outputs, require_unit
from caribou.methods.edge.votes import Decoded, VotesEdge, require_labelled, run_rounds
from caribou.models.classifier import (
    ClassificationModule,
    ClassifierConfig,
    classify,
    fit_classifier,
    module_from_arrays,
)
from caribou.models.encoder import HIDDEN, Encoder, Prior, cross_fit, widths
from caribou.models.heads import Evidence, Head, PriorHead, choose_head_by_folds, fit_prior_head, head_from_arrays
from caribou.models.sum_likelihood import SumModel, fit_sum_model
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import (
    CalibratedPropagation,
    budget_mu,
    calibrate_propagation,
    smallest_noise_multiplier,
)
from caribou.privacy.events import Gaussian
from caribou.privacy.mechanism_records import edge_votes_record, message_passing_record
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import Bounds
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

MESSAGES = ("labels", "probabilities", "embeddings", "features")
CLASS_MESSAGES = ("labels", "probabilities")
CLASSIFIERS = ("evidence", "mlp")
THETA = "layer.theta"
LAYER_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "contractive": (),
    "attention": ("sharpness",),
    "spectral": ("theta0", "theta1"),
    "gcn": ("activation",),
}
"""The layers of ``--set layer=...`` and their own settings."""
SMALLEST_NOISE = 0.2
"""Noise, in messages, that the model of sums assumes at least; sums of soft messages are never exact counts."""


def default_floor(*, hops: int, nodes: int, mu: float) -> int:
    """The degree floor from public numbers: n - 1 for one private hop, else about 8 / mu between 2 and 20.

    With one hop and F = n - 1 nothing is normalised and the noise is the least there is: sqrt(2) messages per unit of mu. With
    more hops a large floor would shrink the signal by degree / F at each of them. Without noise the floor hardly matters.

    >>> [default_floor(hops=hops, nodes=2708, mu=mu) for hops, mu in ((1, 0.27), (1, float("inf")), (4, 0.27), (4, 3.0))]
    [2707, 10, 20, 3]
    """
    if mu == float("inf"):
        return 10 if hops == 1 else 2
    if hops == 1:
        return max(1, nodes - 1)
    return round(min(20.0, max(2.0, 8 / mu)))


@dataclass(frozen=True)
class Caribou:
    """Public settings of ``caribou-edp`` and, with an infinite budget, of ``caribou-inf``.

    ``hops`` = K, ``contraction`` = C_L, ``alpha1``, ``beta``: the layer (`ContractiveGraphLayer`). ``degree_floor``: F; None =
    `default_floor`. ``messages``, X^(0): "labels" (class probabilities, and the labels of training nodes), "probabilities",
    "embeddings" (last hidden layer of the encoder) or "features" (no encoder). ``hidden``: widths of the encoder's hidden
    layers, () for none. ``calibration``: share of the training nodes that do not send their label; with the validation nodes
    they fit the classification module. ``classifier``: "evidence" (Bayes and ridge heads on a model of the noisy sums; class
    messages only) or "mlp" (base MLPs on X^(0) and X^(K), combined); None = "evidence" where it can be.
    ``classifier_hidden``: width of the base MLPs. ``votes``: share of epsilon for votes (`caribou.methods.edge.votes`) whose
    result joins X^(0) in the classification module; 0 = none. ``layer``: "contractive" (the paper's), "attention", "spectral" or
    "gcn" (`caribou.layers`), ``layer_settings``: what it has besides contraction and beta (`LAYER_SETTINGS`).

    Formal guarantee: X^(K) is mu-GDP at edge level with mu of the budget (docs/privacy.md, Theorems 1 and 2), or with what is
    left of it besides the votes (Theorem 4), composed by PLD; all else is computed from the releases and from public values.

    >>> plan = Caribou(hops=4).plan(Sizes(nodes=100, columns=8, classes=3, train=60), Budget(2))
    >>> plan.scope.words, len(plan.cost)
    ('every graph', 1)
    """

    hops: int = 1
    contraction: float = 0.9
    alpha1: float = 1.0
    beta: float = 0.0
    degree_floor: int | None = None
    messages: str = "labels"
    hidden: tuple[int, ...] = HIDDEN
    calibration: float = 0.1
    classifier: str | None = None
    classifier_hidden: int = 64
    votes: float = 0.0
    layer: str = "contractive"
    layer_settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        integer(at_least=1, hops=self.hops)
        self._check_layer()
        if self.degree_floor is not None:
            integer(at_least=0, degree_floor=self.degree_floor)
        one_of(MESSAGES, messages=self.messages)
        object.__setattr__(self, "hidden", widths(self.hidden))
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
        one_of(tuple(LAYER_SETTINGS), layer=self.layer)
        known = LAYER_SETTINGS[self.layer]
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

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self) | {"hidden": list(self.hidden)}

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """One Gaussian mechanism, whatever the number of hops, and the votes."""
        return self._plan(sizes, budget, "caribou-edp, fitted")

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """The paper's pipeline: encode, pass messages K times with noise, classify."""
        roles = Roles.draw(graph, self.calibration, streams)
        view = self._with_theta(self._encode(graph, roles, streams), streams)  # X^(0), rows in the unit ball: public
        theta = view.arrays.get(THETA)
        state = self._propagate(graph, view.start, plan.parts["propagation"], theta, noise)  # only X^(K) comes back
        decoded = self._vote(plan, graph, view, streams, noise)
        view = view.after(decoded)
        model = self._classify(view, state, plan.parts["propagation"], roles, streams)
        return self._outputs(plan, view, model, state, decoded)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """One more release, about another graph's edges."""
        if self.votes > 0:
            require_labelled(sizes)
        return self._plan(sizes, budget, "caribou-edp, predicted")

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Predict another graph. With label messages its training nodes send their labels, if it has any."""
        view = self._view(graph, weights, labelled_nodes(graph))
        state = self._propagate(graph, view.start, plan.parts["propagation"], weights.get(THETA), noise)
        decoded = self._vote(plan, graph, view, streams, noise)
        return self._outputs(plan, view.after(decoded), model_from_arrays(weights), state, decoded)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes that the release is about; costs nothing."""
        return released["probabilities"]

    # -- its steps -------------------------------------------------------------------------------------------------

    def _encode(self, graph: Graph, roles: Roles, streams: Streams) -> View:
        if self.messages == "features":
            return self._view(graph, {}, roles.senders)
        prior = cross_fit(graph, streams, self.hidden)
        log_prior = log_probabilities(prior.probabilities)
        head = fit_prior_head(log_prior[roles.train], roles.labels[roles.train])
        arrays = prior.encoder.to_arrays() | {f"calibration.{k}": v for k, v in head.to_arrays().items()}
        return self._view(graph, arrays, roles.senders, log_prior)

    def _with_theta(self, view: View, streams: Streams) -> View:
        """With the matrix of a GCN layer, drawn from the public seed and kept with the model."""
        if self.layer != "gcn":
            return view
        theta = GCNLayer(view.start.shape[1], seed=streams.seed).theta.numpy()
        return replace(view, arrays={**view.arrays, THETA: theta})

    def _view(
        self,
        graph: Graph,
        arrays: Mapping[str, np.ndarray],
        senders: np.ndarray,
        log_prior: np.ndarray | None = None,
    ) -> View:
        """What is public about every node, and its message. ``log_prior`` = None: by the encoder alone, for a new graph."""
        if self.messages == "features":
            return View(unit_rows(graph), unit_rows(graph), {})
        encoder = Encoder.from_arrays(arrays)
        if self.messages == "embeddings":
            embeddings = encoder.embeddings(graph.features)
            return View(embeddings, embeddings, arrays)
        if log_prior is None:
            log_prior = log_probabilities(encoder.probabilities(graph.features))
        head = PriorHead(arrays["calibration.prior.theta"])
        start = softmax(head(Evidence.of_prior(log_prior)), axis=1)
        if self.messages == "labels" and graph.labels is not None:
            start[senders] = np.eye(start.shape[1])[graph.labels[senders]]
        return View(log_prior, start, arrays)

    def _plan(self, sizes: Sizes, budget: Budget, description: str) -> ReleasePlan:
        require_unit(budget, PrivacyUnit.EDGE, "caribou-edp")
        mu, votes = allocate_edge(budget, self.votes)
        calibrated = self._calibrate(sizes, mu)
        records = [message_passing_record(calibrated)]
        if votes is not None:
            records.append(edge_votes_record(epsilon=votes.epsilon, mu=votes.mu))
        return ReleasePlan(
            budget,
            tuple(records),
            released=(
                "the last state X^(K) and everything computed from it",
                *(() if votes is None else ("the counts of every round of the votes",)),
                "class probabilities of every node",
            ),
            description=description,
            public_parameters={**self.settings(), "classes": sizes.classes},
            parts={"propagation": calibrated, "votes": votes},
        )

    def _columns(self, sizes: Sizes) -> int:
        """Of a message."""
        if self.messages == "features":
            return sizes.columns
        return self.hidden[-1] if self.messages == "embeddings" and self.hidden else sizes.classes

    def _calibrate(self, sizes: Sizes, mu: float) -> CalibratedPropagation:
        n, columns = sizes.nodes, self._columns(sizes)
        floor = default_floor(hops=self.hops, nodes=n, mu=mu) if self.degree_floor is None else self.degree_floor
        # the bound does not depend on the public rows or the public matrix, so any will do
        layer = self.layer_of(np.zeros((1, columns)))
        sensitivity = layer.sensitivity(PrivacyUnit.EDGE, Bounds(degree_floor=floor, nodes=n))
        arithmetic = sensitivity.arithmetic(nodes=n, columns=columns)
        return calibrate_propagation(sensitivity, hops=self.hops, mu=mu, arithmetic=arithmetic)

    def _vote(
        self, plan: ReleasePlan, graph: Graph, view: View, streams: Streams, noise: NoiseSource
    ) -> Decoded | None:
        if plan.parts["votes"] is None:
            return None
        prior = Prior(np.exp(view.own), float("nan"), Encoder.from_arrays(view.arrays))
        return run_rounds(VotesEdge(), graph, prior, plan.parts["votes"], streams, noise.stream("votes"))

    def layer_of(self, start: np.ndarray, theta: np.ndarray | None = None) -> BoundedLayer:
        """The layer. ``start``: the public X^(0), whose rows give the weights of attention; ``theta``: the matrix of a GCN."""
        common: dict[str, Any] = {"contraction": self.contraction, "beta": self.beta}
        if self.layer == "contractive":
            return ContractiveGraphLayer(alpha1=self.alpha1, **common)
        if self.layer == "attention":
            return AttentionLayer(start, **common, **self.layer_settings)
        if self.layer == "spectral":
            return SpectralLayer(**common, **self.layer_settings)
        if self.layer == "gcn":
            d = start.shape[1]
            return GCNLayer(d, theta=np.eye(d) if theta is None else theta, **common, **self.layer_settings)
        raise InputError(f"layer must be one of {', '.join(LAYER_SETTINGS)}, got {self.layer!r}")

    def _propagate(
        self,
        graph: Graph,
        start: np.ndarray,
        calibrated: CalibratedPropagation,
        theta: np.ndarray | None,
        noise: NoiseSource,
    ) -> np.ndarray:
        layer = self.layer_of(start, theta)
        operator = layer.operator(graph, calibrated.sensitivity.bounds)
        stream = noise.stream("propagation")
        return propagate(layer, operator, torch.from_numpy(start), calibrated, stream).numpy()

    def _classify(
        self, view: View, state: np.ndarray, calibrated: CalibratedPropagation, roles: Roles, streams: Streams
    ) -> Model:
        """The classification module on X^(0) and X^(K): fitted on public labels that no message carried."""
        if self._classifier == "evidence":
            return fit_evidence_model(view, message_sums(view, state, calibrated), roles, calibrated, streams)
        own_label_sent = self.messages == "labels"
        module = fit_classifier(
            [view.own, state_columns(state, calibrated)],
            roles.labels,
            train=roles.calibration if own_label_sent else roles.train,
            val=roles.validation,
            classes=roles.classes,
            config=ClassifierConfig(hidden=self.classifier_hidden),
            seed=streams.model_seed,
        )
        return ModuleModel(module)

    @property
    def _classifier(self) -> str:
        if self.classifier is None:
            return "evidence" if self.messages in CLASS_MESSAGES and self.layer == "contractive" else "mlp"
        return self.classifier

    def _outputs(
        self, plan: ReleasePlan, view: View, model: Model, state: np.ndarray, decoded: Decoded | None
    ) -> Outputs:
        probabilities = softmax(model.scores(view, state, plan.parts["propagation"]), axis=1)
        transcript = {} if decoded is None else decoded.transcript
        released = {"state": state, "probabilities": probabilities, **transcript}
        return Outputs(probabilities, released, {**view.arrays, **model.to_arrays()})


# -- who knows what ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Roles:
    """The public roles of labelled nodes. Senders' labels are messages; calibration and validation nodes keep theirs."""

    labels: np.ndarray
    classes: int
    train: np.ndarray
    senders: np.ndarray
    calibration: np.ndarray
    validation: np.ndarray

    @classmethod
    def draw(cls, graph: Graph, share: float, streams: Streams) -> Roles:
        """A random ``share`` of the training nodes keeps its labels."""
        split, labels = graph.for_learning(public=True)
        # the order of the votes: its last nodes keep their labels here, and hear the most votes there
        train = streams.generator("votes").permutation(split.train)
        sent = len(train) - max(1, round(share * len(train)))
        return cls(np.array(labels), graph.num_classes, train, train[:sent], train[sent:], np.array(split.val))

    @property
    def calibration_nodes(self) -> np.ndarray:
        """Nodes whose label was never sent: on them the classification module is fitted and judged."""
        return np.concatenate([self.calibration, self.validation])

    @property
    def shares(self) -> np.ndarray:
        """Class shares of the training nodes."""
        return np.maximum(np.bincount(self.labels[self.train], minlength=self.classes) / len(self.train), 1e-6)


@dataclass(frozen=True, eq=False)
class View:
    """What is known about every node without an edge. own: what the classification module reads; start: X^(0), the message;
    arrays: the encoder."""

    own: np.ndarray
    start: np.ndarray
    arrays: Mapping[str, np.ndarray]

    def after(self, decoded: Decoded | None) -> View:
        """With the result of the votes in the place of the encoder's probabilities."""
        return self if decoded is None else replace(self, own=log_probabilities(decoded.probabilities))


@lru_cache(maxsize=64)
def allocate_edge(budget: Budget, votes: float) -> tuple[float, VoteBudget | None]:
    """One budget over message passing (mu) and votes: ``votes`` of epsilon, and the Gaussian that composes with them."""
    if votes == 0:
        return budget_mu(budget), None
    if not budget.is_private:
        return math.inf, VoteBudget(math.inf)
    share = VoteBudget(votes * budget.epsilon)
    multiplier = smallest_noise_multiplier(lambda m: [Gaussian(m), share.event], budget, precision=1e-3)
    return 1 / multiplier, share


# -- the classification module -------------------------------------------------------------------------------------


class Model(Protocol):
    """A fitted classification module."""

    def scores(self, view: View, state: np.ndarray, calibrated: CalibratedPropagation) -> np.ndarray: ...

    def to_arrays(self) -> dict[str, np.ndarray]: ...


@dataclass(frozen=True, eq=False)
class EvidenceModel:
    """Bayes' rule on the noisy sums of messages, and a head that corrects it."""

    sums: SumModel
    head: Head

    def scores(self, view: View, state: np.ndarray, calibrated: CalibratedPropagation) -> np.ndarray:
        """[n, C]"""
        sums = message_sums(view, state, calibrated)
        return self.head(Evidence(view.own, self.sums.evidence(sums), sums))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved run."""
        return self.sums.to_arrays() | {f"head.{name}": array for name, array in self.head.to_arrays().items()}


@dataclass(frozen=True, eq=False)
class ModuleModel:
    """Base MLPs, combination and head."""

    module: ClassificationModule

    def scores(self, view: View, state: np.ndarray, calibrated: CalibratedPropagation) -> np.ndarray:
        """[n, C]"""
        return classify(self.module, [view.own, state_columns(state, calibrated)])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays, for a saved run."""
        return {f"module.{name}": tensor.numpy() for name, tensor in self.module.state_dict().items()}


def model_from_arrays(arrays: Mapping[str, np.ndarray]) -> Model:
    """The inverse of `Model.to_arrays`."""
    module = {name.removeprefix("module."): array for name, array in arrays.items() if name.startswith("module.")}
    if module:
        return ModuleModel(module_from_arrays(module))
    head = {name.removeprefix("head."): array for name, array in arrays.items() if name.startswith("head.")}
    sums = SumModel(arrays["sums.profiles"], arrays["sums.weights"], float(arrays["sums.noise_std"]))
    return EvidenceModel(sums, head_from_arrays(head))


def fit_evidence_model(
    view: View, sums: np.ndarray, roles: Roles, calibrated: CalibratedPropagation, streams: Streams
) -> EvidenceModel:
    """Model of the sums and head, both fitted on the calibration_nodes; the head is chosen out of fold."""
    calibration_nodes = roles.calibration_nodes
    noise_std = max(SMALLEST_NOISE, calibrated.noise_std * message_unit(calibrated))
    model = fit_sum_model(sums, calibration_nodes, roles.labels, view.start, roles.shares, noise_std)
    known = Evidence(view.own, model.evidence(sums), sums)
    fallback = PriorHead(view.arrays["calibration.prior.theta"])
    labels = roles.labels[calibration_nodes]
    head, _ = choose_head_by_folds(known.rows(calibration_nodes), labels, fallback, streams.generator("folds"))
    return EvidenceModel(model, head)


def message_unit(calibrated: CalibratedPropagation) -> float:
    """One message is this part of a state: (F + 1) / (C_L alpha_1); |theta_1| in the place of alpha_1 for a spectral layer."""
    s = calibrated.sensitivity
    numbers = dict(s.parameters)
    return (s.bounds.degree_floor + 1) / max(
        s.contraction * abs(numbers.get("alpha1", numbers.get("theta1", 1.0))), 1e-12
    )


def message_sums(view: View, state: np.ndarray, calibrated: CalibratedPropagation) -> np.ndarray:
    """The state in messages; after one hop without the node's own message, which is known. [n, C]"""
    unit = message_unit(calibrated)
    if calibrated.hops > 1:
        return state * unit
    return (state - calibrated.sensitivity.residual * view.start) * unit - view.start


def state_columns(state: np.ndarray, calibrated: CalibratedPropagation) -> np.ndarray:
    """The state for an MLP: in messages, but the noise of a row never longer than one unit, as long as the row beside it. [n, d]

    Per column is not enough: with a thousand columns of noise at one unit each the MLP learns nothing but the noise.
    """
    length = calibrated.noise_std * math.sqrt(state.shape[1])
    return state * min(message_unit(calibrated), 1 / max(length, 1e-12))


def log_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """log p, p at least 1e-4."""
    return np.log(np.clip(probabilities, 1e-4, 1))


def unit_rows(graph: Graph) -> np.ndarray:
    """Dense features with rows of length 1 (or 0)."""
    x = graph.features
    n, d = x.shape
    require_memory(6 * DOUBLE * n * d, f"messages of {n:,} nodes with all {d:,} features")
    dense = np.asarray(x.todense() if sp.issparse(x) else x, dtype=np.float64)
    return unit_length(dense)


def labelled_nodes(graph: Graph) -> np.ndarray:
    """Training nodes with a label; none if the graph has no labels or no split."""
    if graph.labels is None or graph.split is None:
        return np.zeros(0, dtype=np.int64)
    train = np.array(graph.split.train)
    return train[graph.labels[train] >= 0]
