"""``mlp-dp``: node-level private classification of nodes by their own features. No edge is read.

The recipe (one public rule for every graph and budget): roots of the features, rows of length 1, a private mean to centre them,
random features beside them where the budget per class carries them, a linear softmax model by full-batch noisy gradient descent,
rows of the weights shrunk by what noise alone would leave in them. Options: a trained hidden layer instead (``hidden``; at these
sizes and budgets it costs more noise than it explains), and a public sample of features (``public_features``), which gives
centre and directions at no cost.

Who is protected, and how (PrivacyUnit.NODE; the split, its sizes and the number of classes are public):

* A **training node** takes part in the mean and in every step of the descent, once each, by a bounded row. These are Gaussian
  mechanisms with sum of squares mu^2: exactly mu-GDP for the whole budget.
* A **validation node** takes part in nothing, or with ``choose_shrinkage`` in one exponential mechanism over post-processings
  of the released weights. Its count of correct answers moves by at most 1 for all candidates in the same direction, so
  exp(epsilon count) is epsilon-DP. No node is in both groups: by parallel composition the release costs the larger of the two.
* A **test node** takes part in nothing that is released.

Released are the weights and the mean. A node's *prediction* is a function of the release and of its own features, made for
whoever holds these features: it discloses nothing about other nodes beyond the guarantee, but publishing a node's own row
discloses what the model sees of that node. The certificate says so; it does not cover the table of predictions.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from scipy.special import softmax
from torch import nn

from caribou._validate import boolean, integer, non_negative, open_unit_interval, positive
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.mechanisms.bounded_rows import Rows
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.noisy_descent import Optimizer, average_noise_variance, noisy_gradient_descent, train_privately
from caribou.mechanisms.noisy_mean import private_mean
from caribou.methods.base import Fitted
from caribou.models.features import centred_unit_rows, unit_root_rows, with_random_features
from caribou.models.linear import path_length_schedule, random_feature_count, shrink_rows
from caribou.models.network import chain_logits, network_from_arrays, selu_network
from caribou.models.public_features import PublicBasis, public_basis, read_public_features
from caribou.models.public_weights import random_directions
from caribou.privacy.allocation import AllocatedPart, Part
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.certificate import (
    NOTHING_CUT,
    VOTERS_CHOOSE,
    Assumption,
    MechanismRecord,
    certify,
    standing_assumptions,
)
from caribou.privacy.events import EpsilonDelta, Event, Gaussian, NonPrivate, Parallel, event_to_dict
from caribou.randomness import Streams

RANDOM_FEATURE_SHARE = 0.1
"""What random features hold of a row's squared length."""
NETWORK_RATE = 0.2
"""Learning rate of Adam for a network. Plain descent at the linear model's step size diverges there."""
PROJECTED_UP_TO = 700.0
"""The mu n / C up to which rows are projected on public components."""
SHRINKAGE_CHOICES = (0.0, 0.2, 0.4, 0.8, 1.6, 3.2)
DESCENT_THEOREM = (
    "gradients clipped one by one: one example moves each sum by at most the clip in L2; T steps are "
    "(sqrt(T) / multiplier)-GDP (Dong, Roth and Su 2022, Corollary 2)"
)
PUBLIC_SAMPLE = Assumption(
    "public features",
    "Centre and projection are computed from a sample of feature rows that the curator declares public: it contains no row of "
    "this graph and was chosen without looking at it. The program cannot check that.",
)
OWN_PREDICTION = Assumption(
    "own predictions",
    "Covered is what is listed as released. The prediction for a node is computed from it and from the node's own features, "
    "for whoever already holds those features; publishing a node's own prediction discloses what the model sees of that node.",
)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows of every node, ready for training, with what they cost and what must be stored to make them again."""

    rows: Rows  # [n, d]
    extra_params: Mapping[str, np.ndarray]
    records: tuple[MechanismRecord, ...]
    released: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Base:
    """The private linear model with what it was made of: released weights, rows of every node and records of the cost."""

    averaged: np.ndarray  # [d, C], before shrinkage
    rows: Rows  # [n, d]
    noise_variance: float
    extra_params: Mapping[str, np.ndarray]  # what else is needed to apply the model: released or public
    records: tuple[MechanismRecord, ...]
    released: tuple[str, ...]

    def weights(self, shrinkage: float) -> np.ndarray:
        """The weights after row shrinkage. [d, C]"""
        return shrink_rows(self.averaged, noise_variance=self.noise_variance, strength=shrinkage)

    def logits(self, shrinkage: float) -> np.ndarray:
        """Logits of every node. [n, C]"""
        return self.rows.times(self.weights(shrinkage))

    def parameters(self, shrinkage: float) -> dict[str, np.ndarray]:
        """All that is needed to apply the model to a row."""
        return {"weights": self.weights(shrinkage), **self.extra_params}


@dataclass(frozen=True, eq=False)
class NetworkBase:
    """The private network with one hidden layer, in the place of `Base`. It is not shrunk."""

    module: nn.Module
    rows: Rows  # [n, d]
    extra_params: Mapping[str, np.ndarray]
    records: tuple[MechanismRecord, ...]
    released: tuple[str, ...]

    def logits(self, _: float) -> np.ndarray:
        """Logits of every node. [n, C]"""
        return chain_logits(self.module, self.rows)

    def parameters(self, _: float) -> dict[str, np.ndarray]:
        """All that is needed to apply the model to a row."""
        return {name: p.detach().numpy() for name, p in self.module.named_parameters()} | dict(self.extra_params)


@dataclass(frozen=True)
class MlpDp:
    """Public settings of ``mlp-dp``.

    ``logit_noise``: std of the noise in the logits of a unit row, which sets the length of training; None = a public function
    of the budget. ``clip``: bound on one example's gradient. ``mean_share``: the part of mu that the mean gets (its cost is
    the square). ``shrinkage``: strength of the row shrinkage; ``choose_shrinkage`` chooses it on validation nodes instead, at
    no further cost for training nodes. ``train_size``: declared number of training nodes; None = that of the (public) split
    (`Split.declared`, which does not change when a node is taken out).
    ``random_features``: how many; None = a public function of budget and sizes. ``hidden`` > 0 trains a network with that many
    hidden units instead of the linear model. ``public_features``: file
    with a public sample of feature rows, from which centre and projection are computed (`read_public_features`).

    >>> from caribou.datasets import load
    >>> fitted = MlpDp().fit(load("csbm:nodes=200", seed=0), Budget(4, 1e-5, "node"), Streams(0), NoiseSource.secure())
    >>> fitted.probabilities.shape, fitted.certificate.epsilon_spent <= 4
    ((200, 4), True)
    """

    logit_noise: float | None = None
    clip: float = 0.3
    mean_share: float = 0.2
    shrinkage: float = 0.4
    choose_shrinkage: bool = False
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
            integer(at_least=0, random_features=self.random_features)
        integer(at_least=0, hidden=self.hidden)
        if self.hidden and (self.choose_shrinkage or self.random_features):
            raise InputError("choose_shrinkage and random_features must be off with a hidden layer, got hidden > 0")
        boolean(choose_shrinkage=self.choose_shrinkage)
        if self.public_features is not None:
            if not isinstance(self.public_features, str | os.PathLike):
                raise InputError(f"public_features must be the path of a file, got {self.public_features!r}")
            object.__setattr__(self, "public_features", os.fspath(self.public_features))

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def fit(self, graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource) -> Fitted:
        """Train on the features and labels of the training nodes.

        Formal guarantee: (epsilon, delta)-DP at node level for the released weights and mean, for every graph: no edge is read,
        so no degree is bounded. Public coins (``streams``) draw random features and initial weights.
        """
        split = checked_split(graph, budget)
        base = self.fit_base(graph, budget_mu(budget), streams, noise)
        shrinkage, records = self.shrinkage, base.records
        groups: dict[str, tuple[Event, ...]] = {"training nodes": tuple(r.event for r in records)}
        released = base.released
        if self.choose_shrinkage:
            candidates = [base.logits(k)[split.val] for k in SHRINKAGE_CHOICES]
            chosen = choose(candidates, graph, split, budget.epsilon, noise.stream("choice"), default=2)
            shrinkage = SHRINKAGE_CHOICES[chosen]
            groups["validation nodes"] = (selection_event(budget.epsilon),)
            released = (*released, "strength of the row shrinkage")
        certificate = certify(
            budget,
            records,
            released=released,
            public_parameters=public_parameters(graph, split, self.settings()) | parallel_parameters(groups),
            assumptions=node_assumptions(noise, groups, reads_edges=False, base=self),
        )
        return Fitted(
            probabilities=softmax(base.logits(shrinkage), axis=1),
            certificate=certificate,
            released={"shrinkage": np.array(shrinkage)},
            weights=base.parameters(shrinkage),
        )

    def cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """The Gaussians of mean and training, which compose to the whole budget; beside them, what a validation node pays."""
        mu = budget_mu(budget)
        if not math.isfinite(mu):
            return (NonPrivate(),)
        training = (Gaussian(1 / mu),)
        return (Parallel((training, (selection_event(budget.epsilon),))),) if self.choose_shrinkage else training

    def release(
        self, weights: Mapping[str, np.ndarray], graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource
    ) -> Fitted:
        """Predict the nodes of another graph, each by its own features: nothing about that graph is released."""
        require_node_unit(budget)
        certificate = certify(
            budget,
            (nothing_released("each prediction is made from one node's own features", budget),),
            released=("nothing about this graph",),
            public_parameters={"nodes": graph.num_nodes, "columns": graph.num_features, "classes": graph.num_classes},
            assumptions=node_assumptions(noise, {}, reads_edges=False, base=self),
        )
        return Fitted(softmax(apply_model(weights, graph), axis=1), certificate, {}, weights)

    def release_cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """Nothing is released."""
        return ()

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of every node, by its own features. [n, C]"""
        return softmax(apply_model(weights, graph), axis=1)

    def fit_base(self, graph: Graph, mu: float, streams: Streams, noise: NoiseSource) -> Base | NetworkBase:
        """The model within a GDP parameter ``mu`` (inf = no noise): (share mu)^2 for the mean, the rest for training.

        With a public sample there is no private mean, and all of it is for training.
        """
        if self.public_features is None:
            prepared = self._private_rows(graph, mu, noise)
            left = math.sqrt(1 - self.mean_share**2) * mu
        else:
            prepared, left = self._public_rows(graph, mu), mu
        if self.hidden:
            return self._fit_network(graph, prepared, mu, left, streams, noise)
        return self._fit_linear(graph, prepared, mu, left, streams, noise)

    def _train_size(self, graph: Graph) -> int:
        return graph.for_learning()[0].declared[0] if self.train_size is None else self.train_size

    def _private_rows(self, graph: Graph, mu: float, noise: NoiseSource) -> Prepared:
        """Rows centred by a mean that is released at (share mu)^2."""
        train = graph.for_learning()[0].train
        centre = full_batch("mean of the training rows", 1, self.mean_share * mu)
        x = unit_root_rows(graph.features)
        mean = private_mean(
            x[train],
            centre,
            noise.stream("mean"),
            train_size=self._train_size(graph),
            max_rows=graph.num_nodes,
        )
        record = part_record(
            centre, "rows of norm at most 1: one row moves the sum by at most 1 in L2", sensitivity=1.0
        )
        return Prepared(centred_unit_rows(x, mean), {"mean": mean}, (record,), ("mean of the training rows",))

    def _public_rows(self, graph: Graph, mu: float) -> Prepared:
        """Rows in the coordinates of the public sample, at no cost."""
        sample = read_public_features(str(self.public_features), columns=graph.num_features)
        size = projection_size(mu=mu, train_size=self._train_size(graph), classes=graph.num_classes)
        basis = public_basis(sample, size)
        extra_params = {"public_mean": basis.mean}
        if basis.components is not None:
            extra_params["public_components"] = basis.components
        return Prepared(basis.rows(graph.features), extra_params, (), ())

    def _fit_linear(
        self, graph: Graph, prepared: Prepared, mu: float, left: float, streams: Streams, noise: NoiseSource
    ) -> Base:
        """Noisy gradient descent of the linear model within ``left``, on random features, too, where the rule says so."""
        split, labels = graph.for_learning()
        train_size, classes = self._train_size(graph), graph.num_classes
        rows, extra_params = prepared.rows, dict(prepared.extra_params)
        count = self.random_features
        if count is None:
            count = random_feature_count(mu=mu, train_size=train_size, classes=classes, nodes=graph.num_nodes)
        if count:
            coins = int(streams.generator("model").integers(2**62))
            rows = with_random_features(rows, drawn_directions(rows.shape[1], count, coins), share=RANDOM_FEATURE_SHARE)
            extra_params["random_features"] = np.array([count, coins], dtype=np.int64)
        schedule = path_length_schedule(mu=mu, train_size=train_size, logit_noise=self.logit_noise, clip=self.clip)
        descent = full_batch("noisy gradient descent", schedule.steps, left)
        averaged = noisy_gradient_descent(
            rows.take(split.train),
            labels[split.train],
            classes=classes,
            schedule=schedule,
            calibrated=descent,
            noise=noise.stream("training"),
            max_rows=graph.num_nodes,
        )
        records = (*prepared.records, part_record(descent, DESCENT_THEOREM, **asdict(schedule), random_features=count))
        released = ("weights of the linear model", *prepared.released)
        return Base(averaged, rows, average_noise_variance(schedule, descent), extra_params, records, released)

    def _fit_network(
        self, graph: Graph, prepared: Prepared, mu: float, left: float, streams: Streams, noise: NoiseSource
    ) -> NetworkBase:
        """Noisy Adam on the network d - hidden - C within ``left``, for as many steps as the linear model would take."""
        split, labels = graph.for_learning()
        train_size, rows = self._train_size(graph), prepared.rows
        schedule = path_length_schedule(mu=mu, train_size=train_size, logit_noise=self.logit_noise, clip=self.clip)
        descent = full_batch("noisy gradient descent", schedule.steps, left)
        module = train_privately(
            selu_network(rows.shape[1], self.hidden, graph.num_classes, streams.generator("model")),
            rows.take(split.train),
            labels[split.train],
            clip=schedule.clip,
            divisor=train_size,
            optimizer=Optimizer(NETWORK_RATE, "adam", average_from=0.5),
            calibrated=descent,
            noise=noise.stream("training"),
            max_rows=graph.num_nodes,
        )
        record = part_record(descent, DESCENT_THEOREM, steps=schedule.steps, clip=schedule.clip, hidden=self.hidden)
        records = (*prepared.records, record)
        return NetworkBase(module, rows, prepared.extra_params, records, ("weights of the network", *prepared.released))


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


def drawn_directions(columns: int, count: int, coins: int) -> np.ndarray:
    """The public directions of the random features, from the public coins that a run keeps. [columns, count]"""
    return random_directions(columns, count, np.random.default_rng(coins))


def nothing_released(why: str, budget: Budget) -> MechanismRecord:
    """The record of a step that reads nothing protected, or of one that protects nothing."""
    return MechanismRecord("no release", EpsilonDelta(0.0) if budget.is_private else NonPrivate(), {"theorem": why})


def apply_model(weights: Mapping[str, np.ndarray], graph: Graph) -> np.ndarray:
    """Logits of every node from its own features and the released model. [n, C]"""
    mean = weights.get("mean", weights.get("public_mean"))
    columns = 0 if mean is None else len(mean)
    if mean is None or columns != graph.num_features:
        raise InputError(f"graph must have the {columns} columns of the model, got {graph.num_features}")
    rows = PublicBasis(mean, weights.get("public_components")).rows(graph.features)
    if "weights" not in weights:
        return chain_logits(network_from_arrays(weights), rows)
    if "random_features" in weights:
        count, coins = (int(v) for v in weights["random_features"])
        rows = with_random_features(rows, drawn_directions(rows.shape[1], count, coins), share=RANDOM_FEATURE_SHARE)
    return rows.times(weights["weights"])


# -- shared by the node-level methods ------------------------------------------------------------------------------


def checked_split(graph: Graph, budget: Budget) -> Split:
    """The split of a graph that a node-level method can be fitted on; one clear error otherwise."""
    require_node_unit(budget)
    return graph.for_learning()[0]


def require_node_unit(budget: Budget) -> None:
    """One clear error for a budget of the wrong unit: an edge-level certificate must not cover what protects nodes only."""
    if budget.unit is not PrivacyUnit.NODE:
        raise InputError(f"unit of the budget must be node for this method, got {budget.unit.value}")


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


def choose(
    candidates: list[np.ndarray], graph: Graph, split: Split, epsilon: float, noise: NoiseSource, *, default: int
) -> int:
    """The exponential mechanism over candidate logits of the validation nodes: argmax(epsilon correct_k + Gumbel).

    Formal guarantee: epsilon-DP for validation nodes. A node adds 0 or 1 to every candidate's count, all in the same
    direction, so the factor 1/2 of the general mechanism is not needed (McSherry and Talwar 2007, monotone scores). Without
    validation nodes in the declared split the default is taken.
    """
    if split.declared[1] == 0:
        return default
    labels = graph.labels[split.val]  # type: ignore[index]
    correct = np.array([int((logits.argmax(axis=1) == labels).sum()) for logits in candidates], dtype=np.float64)
    if math.isinf(epsilon):
        return int(correct.argmax())
    return int((epsilon * correct + noise.gumbel(correct.shape)).argmax())


def selection_event(epsilon: float) -> Event:
    """What `choose` costs a validation node."""
    return EpsilonDelta(epsilon) if math.isfinite(epsilon) else NonPrivate()


def public_parameters(graph: Graph, split: Split | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes that are public by declaration, and the settings."""
    parts = (0, 0, 0) if split is None else split.declared
    sizes = dict(zip(("train_nodes", "val_nodes", "test_nodes"), parts, strict=True))
    model = settings.get("base", settings)
    if model["train_size"] is not None:
        sizes["train_nodes"] = model["train_size"]
    if model["public_features"] is not None:  # a word and the size, not where the file lies
        rows = read_public_features(model["public_features"], columns=graph.num_features).shape[0]
        model = {**model, "public_features": f"{rows} rows"}
    settings = {**settings, "base": model} if "base" in settings else model
    return {"nodes": graph.num_nodes, "columns": graph.num_features, "classes": graph.num_classes, **sizes, **settings}


def parallel_parameters(groups: Mapping[str, tuple[Event, ...]]) -> dict[str, Any]:
    """The cost of each group of nodes in plain values, so that the claim "the larger of them" can be recomputed."""
    return {"groups": {name: [event_to_dict(e) for e in events] for name, events in groups.items()}}


def node_assumptions(
    noise: NoiseSource,
    groups: Mapping[str, tuple[Event, ...]],
    *,
    reads_edges: bool,
    base: MlpDp,
    cuts_degrees: bool = False,
) -> tuple[Assumption, ...]:
    """The standing assumptions, with truncation in this method's words, plus those on predictions and parallel groups."""
    standing = standing_assumptions(PrivacyUnit.NODE, noise_is_secret=noise.is_secret, noise_origin=noise.origin)
    truncation = (
        f"{VOTERS_CHOOSE}, chosen by public coins of the pair. For training nodes that needs no "
        "condition: their votes go with them and nobody else's change. For validation and test nodes the guarantee is for the "
        "graph after that choice: if one of them were missing, a voter with more than M neighbours would vote for another, "
        "which is not covered. Whether there is such a voter is private and therefore not stated."
        if reads_edges
        else f"{NOTHING_CUT}: no edge is read."
    )
    kept = (
        standing
        if cuts_degrees
        else (*(a for a in standing if a.name != "truncation"), Assumption("truncation", truncation))
    )
    parallel = Assumption(
        "parallel composition",
        "The split is public and its parts are disjoint: a node pays for the mechanisms of its own group only, and the events "
        f"listed are those of the costliest group. Groups: {', '.join(groups)}.",
    )
    sample = () if base.public_features is None else (PUBLIC_SAMPLE,)
    return (
        *kept,
        OWN_PREDICTION,
        *sample,
        *((parallel,) if len(groups) > 1 else ()),
    )


def part_record(calibrated: AllocatedPart, theorem: str, **figures: Any) -> MechanismRecord:
    """A part of the budget as a line of a certificate."""
    event = calibrated.event
    if event is None:
        raise InputError(f"part {calibrated.part.name!r} must have a share of the budget, got none")
    return MechanismRecord(calibrated.part.name, event, {"theorem": theorem, **figures})
