"""What methods at edge level share: public work before the charge, one frame for plans, and predictions that are released.

Features, labels and split are public at edge level. What is computed from them alone comes from one call,
`EdgeMethod.encoded`: `prepare` makes it before anything is charged, and `fit` and `predict_graph` find what it made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.methods.catalogue import require_unit
from caribou.models.encoder import HIDDEN, Encoder, Prior, cross_fit, fit_one, widths
from caribou.models.objective import Objective
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.plan import ReleaseKind, ReleasePlan
from caribou.privacy.sizes import Sizes

with deferred_imports():
    import numpy as np

    from caribou.graph import Graph
    from caribou.graph.checks import require_moderate
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.methods.base import Arrays, Outputs, Weights
    from caribou.models.class_prior import require_out_of_fold
    from caribou.models.classifier import ClassificationModule, ClassifierConfig, fit_classifier, module_from_arrays
    from caribou.randomness import Streams

MODULE = "module."
"""Names of the arrays of a classification module begin so."""

KEPT = (
    "the fitted prior, if none was given: weights, cells of labelled rows, digests of these rows under the owner's key"
)
"""What a run keeps of public features where the prior is `caribou.models.class_prior`'s."""


@dataclass(frozen=True)
class EdgeMethod:
    """A method at edge level: a name, settings, `release_plan`, `encoded` and `run`.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`objective`).
    """

    metric: str | None = None
    class_weight: str | None = None
    name: ClassVar[str]
    _ready: ClassVar[tuple[Graph, Any] | None] = None  # of a prepared copy: the graph, and what was made of it

    def __post_init__(self) -> None:
        _ = self.objective  # checks its own settings

    @property
    def takes_prior(self) -> bool:
        """Class probabilities from features are where it starts; the user may give them."""
        return True

    @property
    def objective(self) -> Objective:
        """What checkpoints and heads are chosen by, on public labels."""
        return Objective(self.metric, self.class_weight)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        values = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    # -- plans -----------------------------------------------------------------------------------------------------

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """What a fit releases and costs."""
        return self._planned(sizes, budget, ReleaseKind.FIT)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Weights) -> ReleasePlan:
        """What a prediction of another graph releases and costs: the same, about its edges."""
        require_same_start(sizes, weights)
        return self._planned(sizes, budget, ReleaseKind.PREDICTION)

    def _planned(self, sizes: Sizes, budget: Budget, kind: ReleaseKind) -> ReleasePlan:
        require_unit(budget, PrivacyUnit.EDGE, self.name)
        return replace(self.release_plan(sizes, budget), method=self.name, kind=kind)

    def release_plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """The plan of a release about one graph, whatever it is for."""
        raise NotImplementedError

    # -- fits ------------------------------------------------------------------------------------------------------

    def encoded(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> Any:
        """All that is computed from public values alone: by fitted ``weights``, or by what is fitted here."""
        raise NotImplementedError

    def require_memory_for(self, sizes: Sizes) -> None:
        """Refuse what does not fit into memory, before anything is fitted."""

    def prepare(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> Self:
        """A copy that holds what is computed from public values; what would not fit into memory is refused first."""
        self.require_memory_for(graph.sizes(PrivacyUnit.EDGE))
        if graph.prior is None:
            require_moderate(graph.features)
        ready = copy(self)
        object.__setattr__(ready, "_ready", (graph, self.encoded(plan, graph, streams, weights)))
        return ready

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Train on the graph by the plan."""
        return self._run(plan, None, graph, streams, noise)

    def predict_graph(
        self, plan: ReleasePlan, weights: Arrays, graph: Graph, streams: Streams, noise: NoiseSource
    ) -> Outputs:
        """Predict another graph with what was fitted."""
        return self._run(plan, weights, graph, streams, noise)

    def _run(
        self, plan: ReleasePlan, weights: Arrays | None, graph: Graph, streams: Streams, noise: NoiseSource
    ) -> Outputs:
        public = self.made_before(graph, lambda: self.encoded(plan, graph, streams, weights))
        return self.run(plan, graph, public, streams, noise, weights)

    def made_before(self, graph: Graph, make: Callable[[], Any]) -> Any:
        """What was prepared for the graph; ``make`` is called for a method that is tried by itself, without a release."""
        if self._ready is None:
            return make()
        prepared_for, public = self._ready
        if prepared_for is not graph:  # a second fit on public values would come after the charge
            raise InputError("graph must be the one that the method was prepared for, got another one")
        return public

    def run(
        self, plan: ReleasePlan, graph: Graph, public: Any, streams: Streams, noise: NoiseSource, weights: Weights
    ) -> Outputs:
        """A fit, or with fitted ``weights`` a prediction, given what was computed from ``public`` values (`encoded`)."""
        raise NotImplementedError

    def predict(self, weights: Arrays, released: Arrays, graph: Graph) -> np.ndarray:
        """Class probabilities of the nodes that the release is about; costs nothing. [n, C]"""
        return released["probabilities"]


@dataclass(frozen=True, eq=False)
class Start:
    """What is known without an edge: Z_0 or X^(0), rows of length at most 1 [n, d], and the arrays that make it again."""

    rows: np.ndarray
    arrays: Arrays


@dataclass(frozen=True)
class EncodedMethod(EdgeMethod):
    """One that starts from an encoder, and ends with a classification module.

    ``hidden``: widths of the encoder's hidden layers, () for none. ``cross_fitted``: training nodes are predicted by encoders
    that were not fitted on them.
    """

    hidden: tuple[int, ...] = HIDDEN
    cross_fitted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "hidden", widths(self.hidden))

    def columns_of(self, sizes: Sizes) -> int:
        """Of what the encoder says about a node: its last hidden layer, or class probabilities."""
        return self.hidden[-1] if self.hidden and not sizes.given else sizes.classes

    def encoded(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> Any:
        """The embeddings of the encoder."""
        encoder = self.prior(graph, streams, weights).encoder
        return Start(encoder.embeddings(graph.features), encoder.to_arrays())

    def prior(self, graph: Graph, streams: Streams, weights: Weights = None) -> Prior:
        """What an encoder says: by fitted ``weights``, as it came with the graph, or fitted here."""
        if weights is not None:
            return prior_of(weights, graph)
        if graph.prior is not None:
            require_out_of_fold(graph, graph.prior)
            return given_prior(graph.prior)
        return (cross_fit if self.cross_fitted else fit_one)(graph, streams, self.hidden, self.objective)

    def module(
        self,
        inputs: list[np.ndarray],
        graph: Graph,
        hidden: int,
        streams: Streams,
        weights: Weights = None,
        prefix: str = MODULE,
        train: np.ndarray | None = None,
    ) -> ClassificationModule:
        """A classification module on released and public rows: fitted here, or that of fitted ``weights`` under its ``prefix``.

        ``train``: the nodes that fit it; None: all training nodes.
        """
        if weights is not None:
            return module_from_arrays(
                {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
            )
        split, labels = graph.for_learning(public=True)
        return fit_classifier(
            inputs,
            np.array(labels),
            train=split.train if train is None else train,
            val=split.val,
            classes=graph.num_classes,
            config=ClassifierConfig(hidden=hidden),
            seed=streams.model_seed,
            objective=self.objective,
        )


@dataclass(frozen=True, eq=False)
class GivenEncoder:
    """Class probabilities that came with a graph, in the place of an `Encoder`: they are its embeddings, too. [n, C]"""

    given: np.ndarray

    def probabilities(self, features: Any) -> np.ndarray:
        """As they were given; ``features`` are those of their graph."""
        return self.given

    def embeddings(self, features: Any) -> np.ndarray:
        """The same: rows of class probabilities have length at most 1."""
        return self.given

    def to_arrays(self) -> dict[str, np.ndarray]:
        """None: they are no part of a saved model."""
        return {}


def given_prior(probabilities: np.ndarray) -> Prior:
    """Class probabilities of the user's own as what an encoder would say."""
    return Prior(probabilities, GivenEncoder(probabilities))


def prior_of(weights: Arrays, graph: Graph) -> Prior:
    """What the encoder of a fitted model says about another graph; without one, the class probabilities that came with it."""
    if holds_encoder(weights):
        encoder = Encoder.from_arrays(weights)
        return Prior(encoder.probabilities(graph.features), encoder)
    if graph.prior is None:
        raise InputError("graph must come with class probabilities, as the training graph did, got none (with_prior)")
    return given_prior(graph.prior)


def holds_encoder(weights: Arrays) -> bool:
    """Whether these are weights of a model that fitted its own encoder."""
    return "encoder.row_length" in weights


def require_same_start(sizes: Sizes, weights: Weights) -> None:
    """Class probabilities must not come with another graph where the model has an encoder of its own."""
    if weights is not None and holds_encoder(weights) and sizes.given:
        raise InputError(
            "graph must come without class probabilities, because the model has an encoder of its own, got some (with_prior)"
        )


def log_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """log p, p at least 1e-4."""
    return np.log(np.clip(probabilities, 1e-4, 1))


def arrays_of(module: ClassificationModule, prefix: str = MODULE) -> dict[str, np.ndarray]:
    """The arrays of a module, by names that begin so, for a saved run; `EncodedMethod.module` is the inverse."""
    return {f"{prefix}{name}": tensor.numpy() for name, tensor in module.state_dict().items()}
