"""Features alone: what the graph has to beat. No edge is read.

``mlp``, edge level: the prior of votes, or a cross-fitted MLP. Features and labels are public there, so it spends nothing.

``mlp-dp``, node level: private classification of nodes by their own features. The recipe (one public rule for every graph and
budget): roots of the features, rows of length 1, a private mean to centre them, random features beside them where the budget
per class carries them, a linear softmax model by full-batch noisy gradient descent, rows of the weights shrunk by what noise
alone would leave in them. Options: a trained hidden layer instead (``hidden``; at these sizes and budgets it costs more noise
than it explains), and a public sample of features (``public_features``), which gives centre and directions at no cost.

Who is protected, and how (PrivacyUnit.NODE; the split, its sizes and the number of classes are public):

* A **training node** takes part in the mean and in every step of the descent, once each, by a bounded row. These are Gaussian
  mechanisms with sum of squares mu^2: exactly mu-GDP for the whole budget.
* A **validation or test node** takes part in nothing that is released.

Released are the weights and the mean. A node's *prediction* is a function of the release and of its own features, made for
whoever holds these features: it discloses nothing about other nodes beyond the guarantee, but publishing a node's own row
discloses what the model sees of that node. The certificate says so; it does not cover the table of predictions.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from caribou._validate import MAX_WIDTH, integer, non_negative, open_unit_interval, positive
from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.mechanisms.noisy_descent import (
    Adam,
    Descent,
    average_noise_variance,
    noisy_gradient_descent,
    train_privately,
)
from caribou.methods.catalogue import require_unit
from caribou.methods.edge_method import KEPT, EncodedMethod, Start
from caribou.models.encoder import widths
from caribou.models.linear import path_length_schedule, random_feature_count, shrink_rows
from caribou.privacy.allocation import AllocatedPart, Part
from caribou.privacy.assumptions import Assumption, AssumptionName
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.mechanism_records import (
    DescentRecord,
    MeanRecord,
    MechanismRecord,
    NoReleaseRecord,
)
from caribou.privacy.plan import ReleaseKind, ReleasePlan
from caribou.privacy.sizes import Sizes

with deferred_imports():
    import numpy as np
    from scipy.special import softmax
    from torch import nn

    from caribou.graph import Graph
    from caribou.mechanisms.bounded_rows import Rows, unit_length
    from caribou.mechanisms.clipped_gradients import take_rows
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.mechanisms.noisy_mean import private_mean
    from caribou.methods.base import Outputs, Weights
    from caribou.models.class_prior import class_probabilities
    from caribou.models.features import (
        PublicBasis,
        centred_unit_rows,
        public_basis,
        random_directions,
        read_public_features,
        require_row_memory,
        unit_root_rows,
        with_random_features,
    )
    from caribou.models.linear import chain_logits, first_layer, network_from_arrays, selu_network
    from caribou.randomness import Streams

RANDOM_FEATURE_SHARE = 0.1
"""What random features hold of a row's squared length."""
NETWORK_RATE = 0.2
"""Learning rate of Adam for a network. Plain descent at the linear model's step size diverges there."""
PROJECTED_UP_TO = 700.0
"""The mu n / C up to which rows are projected on public components."""


@dataclass(frozen=True)
class Mlp(EncodedMethod):
    """``hidden``: None for the prior of votes (`caribou.models.class_prior`); or widths of a cross-fitted MLP, () if linear.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    At edge level this spends nothing. Features and labels are not protected.
    """

    hidden: tuple[int, ...] | None = None  # type: ignore[assignment]
    name: ClassVar[str] = "mlp"

    def __post_init__(self) -> None:
        _ = self.objective  # checks its own settings
        object.__setattr__(self, "hidden", None if self.hidden is None else widths(self.hidden))

    def release_plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """No edge is read."""
        return ReleasePlan(
            budget,
            (
                NoReleaseRecord(
                    unit=PrivacyUnit.EDGE, why="no edge is read; features and labels are public at edge level"
                ),
            ),
            released=("class probabilities of every node", *((KEPT,) if self.hidden is None else ())),
            public_parameters={"nodes": sizes.nodes, "classes": sizes.classes, **self.settings()},
        )

    def encoded(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> Start:
        """Class probabilities, and what they are computed with. Training nodes are predicted by models not fitted on them."""
        if self.hidden is None:
            return Start(*class_probabilities(graph, streams, self.objective, weights))
        prior = self.prior(graph, streams, weights)
        return Start(prior.probabilities, prior.encoder.to_arrays())

    def run(
        self, plan: ReleasePlan, graph: Graph, public: Start, streams: Streams, noise: NoiseSource, weights: Weights
    ) -> Outputs:
        """The class probabilities are all there is."""
        return Outputs(public.rows, {"probabilities": public.rows}, public.arrays)


@dataclass(frozen=True)
class BasePlan:
    """The private model within its share of a budget: noise of the mean (None: none is needed) and of the training."""

    mu: float
    mean: AllocatedPart | None
    descent: AllocatedPart
    schedule: Descent
    train_size: int
    random_features: int
    records: tuple[MechanismRecord, ...]
    released: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Base:
    """The private model, linear or with one hidden layer.

    Args:
        rows: [n, d], of every node, as the model takes them.
        parameters: all that is needed to apply the model to a row: released or public.
    """

    rows: Rows
    parameters: dict[str, np.ndarray]

    def logits(self) -> np.ndarray:
        """Logits of every node. [n, C]"""
        if "weights" in self.parameters:
            return self.rows.times(self.parameters["weights"])
        return chain_logits(network_from_arrays(self.parameters), self.rows)

    def embeddings(self) -> np.ndarray:
        """Rows of length 1: the hidden layer before its activation, or the centred logits of a linear model. [n, h]"""
        if "weights" in self.parameters:
            return unit_length(centred(self.logits()))
        return unit_length(first_layer(network_from_arrays(self.parameters), self.rows))


@dataclass(frozen=True)
class MlpDp:
    """Public settings of ``mlp-dp``.

    ``logit_noise``: std of the noise in the logits of a unit row, which sets the length of training; None = a public function
    of the budget. ``clip``: bound on one example's gradient. ``mean_share``: the part of mu that the mean gets (its cost is
    the square). ``shrinkage``: strength of the row shrinkage. ``train_size``: declared number of training nodes; None = that of
    the (public) split (`Split.declared`, which does not change when a node is taken out).
    ``random_features``: how many; None = a public function of budget and sizes. ``hidden`` > 0 trains a network with that many
    hidden units instead of the linear model. ``public_features``: file
    with a public sample of feature rows, from which centre and projection are computed (`read_public_features`).

    >>> from caribou.datasets import load
    >>> from caribou.methods import fit
    >>> fitted = fit(MlpDp(), load("csbm:nodes=200", seed=0), Budget(4, 1e-5, "node"), Streams(0))
    >>> fitted.probabilities.shape, fitted.certificate.epsilon_spent <= 4
    ((200, 4), True)
    """

    logit_noise: float | None = None
    clip: float = 0.3
    mean_share: float = 0.2
    shrinkage: float = 0.4
    train_size: int | None = None
    random_features: int | None = None
    hidden: int = 0
    public_features: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.logit_noise is not None:
            positive(logit_noise=self.logit_noise)
        positive(clip=self.clip)
        open_unit_interval(mean_share=self.mean_share)
        non_negative(shrinkage=self.shrinkage)
        if self.train_size is not None:
            integer(at_least=1, train_size=self.train_size)
        if self.random_features is not None:
            integer(at_least=0, at_most=MAX_WIDTH, random_features=self.random_features)
        integer(at_least=0, at_most=MAX_WIDTH, hidden=self.hidden)
        if self.hidden and self.random_features:
            raise InputError("random_features must be off with a hidden layer, got hidden > 0")
        if self.public_features is not None:
            if not isinstance(self.public_features, str | os.PathLike):
                raise InputError(f"public_features must be the path of a file, got {self.public_features!r}")
            object.__setattr__(self, "public_features", os.fspath(self.public_features))

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Gaussians of mean and training, which compose to the whole budget."""
        require_unit(budget, PrivacyUnit.NODE, "mlp-dp")
        base = self.plan_base(sizes, budget_mu(budget))
        return ReleasePlan(
            budget,
            base.records,
            released=base.released,
            method="mlp-dp",
            kind=ReleaseKind.FIT,
            public_parameters=public_parameters(sizes, self.settings()),
            assumptions=node_assumptions(self),
            parts={"base": base},
        )

    def prepare(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> Self:
        """What would not fit into memory is refused before anything is charged."""
        base = plan.parts.get("base")
        require_row_memory(graph.features, 0 if base is None else base.random_features)
        return self

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Train on the features and labels of the training nodes.

        Formal guarantee: (epsilon, delta)-DP at node level for the released weights and mean, for every graph: no edge is read,
        so no degree is bounded. The public seed (``streams``) draws random features and initial weights.
        """
        base = self.fit_base(plan.parts["base"], graph, streams, noise)
        return Outputs(probabilities=softmax(base.logits(), axis=1), released={}, weights=base.parameters)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Weights) -> ReleasePlan:
        """Nothing is released: each prediction is made from one node's own features."""
        require_unit(budget, PrivacyUnit.NODE, "mlp-dp")
        return ReleasePlan(
            budget,
            (NoReleaseRecord(unit=PrivacyUnit.NODE, why="each prediction is made from one node's own features"),),
            released=("nothing about this graph",),
            method="mlp-dp",
            kind=ReleaseKind.PREDICTION,
            public_parameters={"nodes": sizes.nodes, "columns": sizes.columns, "classes": sizes.classes},
            assumptions=node_assumptions(self),
        )

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Predict the nodes of another graph, each by its own features."""
        return Outputs(self.predict(weights, {}, graph), {}, weights)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of every node, by its own features. [n, C]"""
        return softmax(applied(weights, graph).logits(), axis=1)

    # -- the model, also under other methods ---------------------------------------------------------------------------

    def plan_base(self, sizes: Sizes, mu: float) -> BasePlan:
        """The model within a GDP parameter ``mu`` (inf = no noise): (share mu)^2 for the mean, the rest for training.

        With a public sample there is no private mean, and all of it is for training.
        """
        size = sizes.train if self.train_size is None else self.train_size
        schedule = path_length_schedule(mu=mu, train_size=size, logit_noise=self.logit_noise, clip=self.clip)
        count = self.random_features
        if self.hidden:
            count = 0
        elif count is None:
            count = random_feature_count(mu=mu, train_size=size, classes=sizes.classes, nodes=sizes.nodes)
        mean, left = None, mu
        records: tuple[MechanismRecord, ...] = ()
        released: tuple[str, ...] = ("weights of the network" if self.hidden else "weights of the linear model",)
        if self.public_features is None:
            mean = full_batch("mean of the training rows", 1, self.mean_share * mu)
            left = math.sqrt(1 - self.mean_share**2) * mu
            records = (MeanRecord(name=mean.part.name, noise_std=mean.noise_multiplier),)
            released = (*released, "mean of the training rows")
        descent = full_batch("noisy gradient descent", schedule.steps, left)
        further = {"random_features": count} | ({"hidden": self.hidden} if self.hidden else {})
        records = (*records, training_record(descent, schedule, further))
        return BasePlan(mu, mean, descent, schedule, size, count, records, released)

    def fit_base(self, plan: BasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Base:
        """The model by its plan."""
        if plan.mean is not None:
            rows, own = self._private_rows(plan.mean, plan.train_size, graph, noise)
        else:
            rows, own = self._public_rows(plan, graph)
        if self.hidden:
            initial = selu_network(rows.shape[1], self.hidden, graph.num_classes, streams.generator("model"))
            module = train_network(
                initial, rows, graph, plan.schedule, plan.descent, plan.train_size, noise.stream("training")
            )
            return Base(rows, own | {name: p.detach().numpy() for name, p in module.named_parameters()})
        return self._fit_linear(plan, graph, rows, own, streams, noise)

    def _private_rows(
        self, mean_part: AllocatedPart, train_size: int, graph: Graph, noise: NoiseSource
    ) -> tuple[Rows, dict[str, np.ndarray]]:
        """Rows centred by a released mean, with what must be stored to make them again."""
        x = unit_root_rows(graph.features)
        mean = private_mean(
            x[graph.for_learning()[0].train],
            mean_part,
            noise.stream("mean"),
            train_size=train_size,
            max_rows=graph.num_nodes,
        )
        return centred_unit_rows(x, mean), {"mean": mean}

    def _public_rows(self, plan: BasePlan, graph: Graph) -> tuple[Rows, dict[str, np.ndarray]]:
        """Rows in the coordinates of the public sample, at no cost."""
        sample = read_public_features(str(self.public_features), columns=graph.num_features)
        size = projection_size(mu=plan.mu, train_size=plan.train_size, classes=graph.num_classes)
        basis = public_basis(sample, size)
        extra_params = {"public_mean": basis.mean}
        if basis.components is not None:
            extra_params["public_components"] = basis.components
        return basis.rows(graph.features), extra_params

    def _fit_linear(
        self,
        plan: BasePlan,
        graph: Graph,
        rows: Rows,
        own: dict[str, np.ndarray],
        streams: Streams,
        noise: NoiseSource,
    ) -> Base:
        """Noisy gradient descent of the linear model, on random features, too, where the rule says so."""
        split, labels = graph.for_learning()
        if plan.random_features:
            seed = int(streams.generator("model").integers(2**62))
            own = {**own, "random_features": np.array([plan.random_features, seed], dtype=np.int64)}
            rows = with_drawn_features(rows, own)
        averaged = noisy_gradient_descent(
            rows.take(split.train),
            labels[split.train],
            classes=graph.num_classes,
            schedule=plan.schedule,
            calibrated=plan.descent,
            noise=noise.stream("training"),
            max_rows=graph.num_nodes,
        )
        variance = average_noise_variance(plan.schedule, plan.descent)
        return Base(rows, {"weights": shrink_rows(averaged, noise_variance=variance, strength=self.shrinkage), **own})


def train_network(
    initial: nn.Module,
    rows: Rows | np.ndarray,
    graph: Graph,
    schedule: Descent,
    descent: AllocatedPart,
    train_size: int,
    noise: NoiseSource,
) -> nn.Module:
    """Noisy Adam on the rows of the training nodes, full batch, averaged over the last half of the steps."""
    split, labels = graph.for_learning()
    return train_privately(
        initial,
        take_rows(rows, split.train),
        labels[split.train],
        clip=schedule.clip,
        divisor=train_size,
        optimizer=Adam(NETWORK_RATE),
        calibrated=descent,
        noise=noise,
        max_rows=graph.num_nodes,
    )


def base_model(value: Any) -> MlpDp:
    """The model under another method, or one from its settings by name (from the command line or a saved run)."""
    if isinstance(value, MlpDp):
        return value
    known = [f.name for f in fields(MlpDp)]
    if isinstance(value, Mapping) and set(value) <= set(known):
        return MlpDp(**value)
    got = ", ".join(sorted(set(value) - set(known))) if isinstance(value, Mapping) else repr(value)
    raise InputError(f"base must have settings of mlp-dp ({', '.join(known)}), got {got}")


# -- a fitted model, applied ---------------------------------------------------------------------------------------


def with_drawn_features(rows: Rows, parameters: Mapping[str, np.ndarray]) -> Rows:
    """The rows with random features, whose number and public seed a saved model keeps; without them as they are."""
    if "random_features" not in parameters:
        return rows
    count, seed = (int(v) for v in parameters["random_features"])
    directions = random_directions(rows.shape[1], count, seed)
    return with_random_features(rows, directions, share=RANDOM_FEATURE_SHARE)


def applied(weights: Mapping[str, np.ndarray], graph: Graph) -> Base:
    """A released model on the nodes of a graph, each by its own features."""
    mean = weights.get("mean", weights.get("public_mean"))
    columns = 0 if mean is None else len(mean)
    if mean is None or columns != graph.num_features:
        raise InputError(f"graph must have the {columns} columns of the model, got {graph.num_features}")
    rows = PublicBasis(mean, weights.get("public_components")).rows(graph.features)
    return Base(with_drawn_features(rows, weights), dict(weights))


def centred(scores: np.ndarray) -> np.ndarray:
    """Scores with mean 0 over the classes. [n, C]"""
    return scores - scores.mean(axis=1, keepdims=True)


# -- shared by the node-level methods ------------------------------------------------------------------------------


def projection_size(*, mu: float, train_size: int, classes: int) -> int:
    """How many public components are kept: a public function of budget and sizes, mu n / C in [50, 300]; 0 = no projection.

    Measured: beyond mu n / C of about 700 a projection cuts off more than noise does.

    >>> [projection_size(mu=mu, train_size=5000, classes=8) for mu in (0.01, 0.2, 1.0, math.inf)]
    [50, 125, 300, 0]
    """
    per_class = mu * train_size / max(1, classes)
    return 0 if per_class > PROJECTED_UP_TO else int(min(300, max(50, per_class)))


def full_batch(name: str, steps: int, mu: float) -> AllocatedPart:
    """``steps`` full-batch Gaussians that are mu-GDP together; the noise is rounded up, so that mu never is."""
    part = Part(name, steps)
    return AllocatedPart(part, 0.0 if math.isinf(mu) else part.noise_multiplier(mu) * (1 + 2.0**-44))


def training_record(
    descent: AllocatedPart, schedule: Descent, further: Mapping[str, Any] | None = None
) -> MechanismRecord:
    """Full-batch descent on rows of each node's own, as a line of a certificate."""
    return DescentRecord(
        name=descent.part.name,
        unit=PrivacyUnit.NODE,
        steps=schedule.steps,
        noise_multiplier=descent.noise_multiplier,
        clip=schedule.clip,
        schedule={"step_size": schedule.step_size, "momentum": schedule.momentum, **(further or {})},
    )


class StatedSample(str):
    """What a certificate says of a public sample of features, for a plan that is made again from it: there is no file."""


def public_parameters(sizes: Sizes, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes that are public by declaration, and the settings."""
    parts = {"train_nodes": sizes.train, "val_nodes": sizes.val, "test_nodes": sizes.test}
    model = settings.get("base", settings)
    if model["train_size"] is not None:
        parts["train_nodes"] = model["train_size"]
    sample = model["public_features"]
    if sample is not None and not isinstance(sample, StatedSample):  # a word and the size, not where the file lies
        rows = read_public_features(sample, columns=sizes.columns).shape[0]
        model = {**model, "public_features": f"{rows} rows"}
    settings = {**settings, "base": model} if "base" in settings else model
    return {"nodes": sizes.nodes, "columns": sizes.columns, "classes": sizes.classes, **parts, **settings}


def node_assumptions(base: MlpDp | None) -> tuple[Assumption, ...]:
    """What every node-level method assumes beside its mechanisms: about predictions, and about a public sample."""
    sample = base is not None and base.public_features is not None
    return (
        Assumption(AssumptionName.OWN_PREDICTIONS),
        *((Assumption(AssumptionName.PUBLIC_FEATURES),) if sample else ()),
    )
