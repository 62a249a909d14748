"""``caribou-edp`` and ``caribou-inf``: the paper's pipeline at edge level. `Caribou.fit` reads as its Algorithm 1.

1. *Encoder*: an MLP learns the training labels; X^(0) is its last hidden layer, rows of length 1. Features, labels and split are
   public at edge level, so it costs nothing.
2. *PCMP*: K rounds of the contractive layer (CAM: `caribou.layers.contractive`) with noise (PAM:
   `caribou.privacy.calibration`) and projection (`caribou.mechanisms.message_passing`). Only X^(K) leaves.
3. *Classification module*: base layers on X^(0) and on X^(K), joined, and a head (`caribou.models.classifier`).

Changed from the paper, because the guarantee needs it: a public degree floor in the place of the smallest degree of the private
graph, and exact calibration. What is ours beside it (class messages, evidence, votes) is in `caribou.methods.evidence` and
switched on by settings. At node level: `caribou.methods.caribou`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import softmax

from caribou._validate import below_one, boolean, integer, one_of, open_unit_interval
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.layers import AttentionLayer, BoundedLayer, ContractiveGraphLayer, GCNLayer, SpectralLayer
from caribou.mechanisms.bounded_rows import unit_length
from caribou.mechanisms.message_passing import propagate
from caribou.mechanisms.noise_source import NoiseSource
from caribou.memory import DOUBLE, require_memory
from caribou.methods.base import Outputs
from caribou.methods.catalogue import require_unit
from caribou.methods.edge.votes import Decoded, VotesEdge, require_labelled, run_rounds
from caribou.methods.evidence import (
    EvidenceModel,
    Roles,
    View,
    allocate_edge,
    fit_evidence_model,
    labelled_nodes,
    log_probabilities,
    message_sums,
    message_unit,
)
from caribou.models.classifier import (
    ClassificationModule,
    ClassifierConfig,
    classify,
    fit_classifier,
    module_from_arrays,
    require_classifier_memory,
)
from caribou.models.encoder import HIDDEN, Encoder, cross_fit, fit_one, widths
from caribou.models.features import sent_rows
from caribou.models.heads import Evidence, PriorHead, fit_prior_head
from caribou.models.objective import Objective
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedPropagation, calibrate_propagation
from caribou.privacy.mechanism_records import edge_votes_record, message_passing_record
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import Bounds
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
"""The layers of ``--set layer=...`` and their own settings."""


def default_floor(mu: float) -> int:
    """The degree floor from public numbers: about 8 / mu between 2 and 20.

    A larger floor takes noise away and shrinks the signal of nodes whose degree is below it, by degree / F at every hop. Without
    noise the floor hardly matters.

    >>> [default_floor(mu) for mu in (0.27, 3.0, math.inf)]
    [20, 3, 2]
    """
    return round(min(20.0, max(2.0, 8 / mu)))


def counting_floor(*, nodes: int, mu: float) -> int:
    """The degree floor for class messages over one hop: n - 1 with noise.

    Then nothing is normalised: the state is a count of classes over the neighbours, and its noise is the least there is, sqrt(2)
    messages per unit of mu.

    >>> counting_floor(nodes=2708, mu=0.27), counting_floor(nodes=2708, mu=math.inf)
    (2707, 10)
    """
    return 10 if math.isinf(mu) else max(1, nodes - 1)


@dataclass(frozen=True)
class Caribou:
    """Public settings of ``caribou-edp`` and, with an infinite budget, of ``caribou-inf``. The defaults are the paper's method.

    ``hops`` = K, ``contraction`` = C_L, ``alpha1``, ``beta``: the layer (`ContractiveGraphLayer`). ``degree_floor``: F; None =
    `default_floor`. ``hidden``: widths of the encoder's hidden layers, () for none; the last one is the width of X^(0).
    ``cross_fit``: X^(0) of a training node comes from an encoder that was not fitted on it. ``classifier_hidden``: width of the
    base layers. ``layer``: "contractive" (the paper's), "attention", "spectral" or "gcn" (`caribou.layers`), ``layer_settings``:
    what it has besides contraction and beta (`LAYER_SETTINGS`).

    Ours beside the paper's: ``messages``, X^(0): "embeddings" (the paper's), "features" (no encoder), "labels" (class
    probabilities, and the labels of training nodes) or "probabilities". ``classifier``: "mlp" (the paper's) or "evidence" (Bayes
    and ridge heads on a model of the noisy sums; class messages only); None = "evidence" for class messages. ``calibration``:
    with label messages, the share of the training nodes that do not send their label; with the validation nodes they fit the
    classification module. ``votes``: share of epsilon for votes (`caribou.methods.edge.votes`), whose result joins X^(0) there.

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
    hidden: tuple[int, ...] = HIDDEN
    cross_fit: bool = False
    calibration: float = 0.1
    classifier: str | None = None
    classifier_hidden: int = 64
    votes: float = 0.0
    layer: str = "contractive"
    layer_settings: Mapping[str, Any] = field(default_factory=dict)
    metric: str | None = None
    class_weight: str | None = None

    def __post_init__(self) -> None:
        _ = self.objective  # checks its own settings
        integer(at_least=1, hops=self.hops)
        self._check_layer()
        if self.degree_floor is not None:
            integer(at_least=0, degree_floor=self.degree_floor)
        one_of(MESSAGES, messages=self.messages)
        object.__setattr__(self, "hidden", widths(self.hidden))
        if boolean(cross_fit=self.cross_fit) and self.messages == "features":
            raise InputError("cross_fit must be false for messages = features, which have no encoder, got True")
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

    @property
    def objective(self) -> Objective:
        """What checkpoints and heads are chosen by, on public labels."""
        return Objective(self.metric, self.class_weight)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self) | {"hidden": list(self.hidden)}

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """One Gaussian mechanism, whatever the number of hops, and the votes."""
        return self._plan(sizes, budget, "caribou-edp, fitted")

    def require_memory_for(self, sizes: Sizes) -> None:
        """Refuse what does not fit into memory, wherever the edges lie: states, votes and the classification module."""
        n, d = sizes.nodes, self._columns(sizes)
        if self.messages == "features":
            _require_rows_memory(n, d)
        arrays = STATES + (self.layer == "attention")  # its weights come from public rows
        require_memory(arrays * DOUBLE * n * d, f"states of {n:,} nodes with {d:,} columns and their noise")
        if self._classifier == "mlp":
            own = sizes.classes if self.messages in CLASS_MESSAGES else d
            require_classifier_memory(n, sizes.train + sizes.val, (own, d), self.classifier_hidden)
        if self.votes > 0:
            self._vote_rounds.require_memory_for(n, sizes.classes)

    def prepare(self, graph: Graph, streams: Streams) -> None:
        """Fit the encoder, which reads public values alone; what would not fit into memory is refused first."""
        self.require_memory_for(graph.sizes(PrivacyUnit.EDGE))
        if self.messages != "features":
            own = self.messages != "embeddings" or self.cross_fit
            (cross_fit if own else fit_one)(graph, streams, self.hidden, self.objective)

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """The paper's pipeline: encode, pass messages K times with noise, classify."""
        calibrated = plan.parts["propagation"]
        roles = Roles.draw(graph, self.calibration, streams)
        view = self._encode(graph, roles, streams)  # X^(0), rows in the unit ball: public
        state = self._propagate(graph, view, calibrated, noise)  # PCMP: only X^(K) comes back
        decoded = self._vote(plan, graph, view, streams, noise)
        view = view.after(decoded)
        model = self._classify(view, state, calibrated, roles, streams)
        return self._outputs(plan, view, model, state, decoded)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """One more release, about another graph's edges."""
        self.require_memory_for(sizes)
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
        state = self._propagate(graph, view, plan.parts["propagation"], noise)
        decoded = self._vote(plan, graph, view, streams, noise)
        return self._outputs(plan, view.after(decoded), model_from_arrays(weights), state, decoded)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes that the release is about; costs nothing."""
        return released["probabilities"]

    # -- its steps -------------------------------------------------------------------------------------------------

    def _encode(self, graph: Graph, roles: Roles, streams: Streams) -> View:
        """The encoder, fitted on public values, and X^(0)."""
        if self.messages == "features":
            arrays: dict[str, np.ndarray] = {}
            view = self._view(graph, arrays, roles.senders)
        elif self.messages == "embeddings":
            prior = (cross_fit if self.cross_fit else fit_one)(graph, streams, self.hidden, self.objective)
            start = sent_rows(graph, prior.embeddings(graph.features))
            view = View(start, start, prior.encoder.to_arrays())
        else:
            prior = cross_fit(graph, streams, self.hidden, self.objective)
            log_prior = log_probabilities(prior.probabilities)
            head = fit_prior_head(log_prior[roles.train], roles.labels[roles.train], self.objective)
            arrays = prior.encoder.to_arrays() | {f"calibration.{k}": v for k, v in head.to_arrays().items()}
            view = self._view(graph, arrays, roles.senders, log_prior)
        if self.layer != "gcn":
            return view
        # the matrix of a GCN layer is drawn from the public seed and kept with the model
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
            return View(unit_rows(graph), unit_rows(graph), arrays)
        encoder = Encoder.from_arrays(arrays)
        if self.messages == "embeddings":
            start = sent_rows(graph, encoder.embeddings(graph.features))
            return View(start, start, arrays)
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
        floor = self.degree_floor
        if floor is None:
            counts = self.hops == 1 and self.messages in CLASS_MESSAGES
            floor = counting_floor(nodes=n, mu=mu) if counts else default_floor(mu)
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
        return run_rounds(
            self._vote_rounds, graph, np.exp(view.own), plan.parts["votes"], streams, noise.stream("votes")
        )

    @property
    def _vote_rounds(self) -> VotesEdge:
        return VotesEdge(metric=self.metric, class_weight=self.class_weight, alphabet="class")

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

    def _propagate(self, graph: Graph, view: View, calibrated: CalibratedPropagation, noise: NoiseSource) -> np.ndarray:
        """PCMP on X^(0): the only step that reads the private edges."""
        layer = self.layer_of(view.start, view.arrays.get(THETA))
        operator = layer.operator(graph, calibrated.sensitivity.bounds)
        stream = noise.stream("propagation")
        return propagate(layer, operator, torch.from_numpy(view.start), calibrated, stream).numpy()

    def _classify(
        self, view: View, state: np.ndarray, calibrated: CalibratedPropagation, roles: Roles, streams: Streams
    ) -> Model:
        """The classification module on X^(0) and X^(K): fitted on public labels that no message carried."""
        if self._classifier == "evidence":
            return fit_evidence_model(
                view, message_sums(view, state, calibrated), roles, calibrated, streams, self.objective
            )
        own_label_sent = self.messages == "labels"
        module = fit_classifier(
            [view.own, state_columns(state, calibrated)],
            roles.labels,
            train=roles.calibration if own_label_sent else roles.train,
            val=roles.validation,
            classes=roles.classes,
            config=ClassifierConfig(hidden=self.classifier_hidden),
            seed=streams.model_seed,
            objective=self.objective,
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


# -- the classification module -------------------------------------------------------------------------------------


class Model(Protocol):
    """A fitted classification module."""

    def scores(self, view: View, state: np.ndarray, calibrated: CalibratedPropagation) -> np.ndarray: ...

    def to_arrays(self) -> dict[str, np.ndarray]: ...


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
    return ModuleModel(module_from_arrays(module)) if module else EvidenceModel.from_arrays(arrays)


def state_columns(state: np.ndarray, calibrated: CalibratedPropagation) -> np.ndarray:
    """The state for an MLP: in messages, but the noise of a row never longer than one unit, as long as the row beside it. [n, d]

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
