"""GraphSAGE at both units.

``sage-edp``: on a graph perturbed by asymmetric randomized response; ``sage-inf``: on the graph itself. At edge level
features, labels and split are public. The edge count is released with noise, every unordered pair of nodes is answered once
with probabilities that follow from it, and everything after (training, choice of the epoch, predictions) reads the perturbed
graph only: post-processing.

``sage-ndp``: one SAGE layer, trained on 1-hop neighbourhoods (after Daigavane et al. 2021), applied privately.

Layer: h_i = (sqrt(w) z_i, sqrt(1 - w) a_i) with z_i the centred unit row of node i and a_i = ||z_i|| / m times the sum of its
neighbours' rows, brought to length at most ||z_i||; logits h_i W. Training: full-batch noisy gradient descent on the clipped
gradients of the *target* nodes; one node is in its own example and in those of its neighbours. Prediction: the neighbours' part
of the logits is released once, for all nodes, as noisy sums of unit messages; its weight is chosen on validation nodes.

Who pays what (PrivacyUnit.NODE; the split, its sizes and the number of classes are public):

* A **training node**: the mean of the rows, its own example and its neighbours' in every step, and the sums. All are Gaussian
  mechanisms that compose to mu of the budget.
* A **validation node** is in its neighbours' examples and in the sums, but in no example of its own; with what that leaves of
  epsilon it takes part in the choice of the weight. **Test nodes** and the rest: the same without the choice.
* Noise is calibrated for a declared degree; a node of any other degree pays what the curve by degree says, in every graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from caribou._validate import integer, non_negative, open_unit_interval, positive
from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.machine.memory import DOUBLE, require_memory
from caribou.mechanisms.noisy_descent import average_noise_variance, noisy_gradient_descent
from caribou.methods.catalogue import METHODS
from caribou.methods.edge_method import EdgeMethod
from caribou.methods.mlp import centred, full_batch
from caribou.methods.node_method import DEFAULT_WEIGHT, WEIGHTS, DescentPlan, SummingMethod, plan_descent
from caribou.models.linear import shrink_rows
from caribou.models.sage_config import SageConfig
from caribou.privacy.allocation import AllocatedPart
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import remaining_epsilon
from caribou.privacy.mechanism_records import (
    PARTS,
    ChoiceRecord,
    EdgeCountRecord,
    Examples,
    Group,
    MeanRecord,
    MechanismRecord,
    NoNoiseRecord,
    ResponseRecord,
    SumsRecord,
    groups_of,
)
from caribou.privacy.pair_response import asymmetric_response, split_pair_budget
from caribou.privacy.plan import ReleaseKind, ReleasePlan
from caribou.privacy.sensitivity import Bounds, neighbourhood_gradient_sensitivity
from caribou.privacy.sizes import Sizes

with deferred_imports():
    import numpy as np
    import scipy.sparse as sp
    from scipy.special import softmax

    from caribou.graph import Graph
    from caribou.mechanisms.bounded_rows import Rows, project_rows, row_norms, unit_length
    from caribou.mechanisms.exponential import choose
    from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.mechanisms.noisy_mean import private_mean
    from caribou.mechanisms.randomized_response import perturb
    from caribou.methods.base import Arrays, Outputs, Weights
    from caribou.models.features import centred_unit_rows, unit_root_rows
    from caribou.models.sage import Neighbourhoods, SageModel, fit_sage
    from caribou.randomness import Streams


@dataclass(frozen=True)
class SageEdge(EdgeMethod):
    """Public settings of ``sage-edp`` and, with an infinite budget, of ``sage-inf``.

    ``hidden``, ``layers``, ``aggregator``, ``dropout``, ``epochs``: the network (`SageConfig`). ``count_share``: share of
    epsilon for the edge count. ``max_edges``: a declared bound; a larger noisy count is cut to it before use. None = n (n - 1)
    / 2, with an error where the perturbed graph would not fit.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    Formal guarantee: edge count and perturbed graph are together budget.epsilon-DP at edge level, with delta = 0
    (docs/methods/sage.md, Theorem E); everything else is computed from them and from public values.
    """

    hidden: int = 64
    layers: int = 2
    aggregator: str = "mean"
    dropout: float = 0.5
    epochs: int = 80
    count_share: float = 0.01
    max_edges: int | None = None
    name: ClassVar[str] = "sage-edp"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.network  # checks its own settings
        open_unit_interval(count_share=self.count_share)
        if self.max_edges is not None:
            integer(at_least=0, max_edges=self.max_edges)

    @property
    def network(self) -> SageConfig:
        """The network's part of the settings."""
        return SageConfig(self.hidden, self.layers, self.aggregator, self.dropout, epochs=self.epochs)

    @property
    def takes_prior(self) -> bool:
        """It starts from features: the network is trained on the perturbed graph as a whole."""
        return False

    def release_plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Edge count and pairs, at their promised epsilons."""
        pairs = split_pair_budget(budget, self.count_share)
        records: tuple[MechanismRecord, ...] = (NoNoiseRecord(unit=PrivacyUnit.EDGE, name="the graph itself"),)
        graph = ("the noisy edge count", "the perturbed graph and everything computed from it")
        if budget.is_private:
            records = (EdgeCountRecord(epsilon=pairs.count), ResponseRecord(epsilon=pairs.pairs))
        return ReleasePlan(
            budget,
            records,
            released=(*(graph if budget.is_private else ()), "class probabilities of every node"),
            public_parameters={"nodes": sizes.nodes, "classes": sizes.classes, **self.settings()},
            parts={"pairs": pairs},
        )

    def encoded(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> None:
        """Nothing: the network reads the perturbed graph."""

    def run(
        self, plan: ReleasePlan, graph: Graph, public: None, streams: Streams, noise: NoiseSource, weights: Weights
    ) -> Outputs:
        """Perturb the graph, then train GraphSAGE on what was released, or apply a fitted network."""
        rule = METHODS[self.name].response or asymmetric_response
        perturbed = perturb(graph, plan.parts["pairs"], noise, rule, max_edges=self.max_edges)
        around = Neighbourhoods.of(perturbed.pairs, graph.num_nodes)
        fitted = None if weights is None else SageModel.from_arrays(weights, self.network)
        model = fitted or self._trained(graph, around, streams)
        probabilities = softmax(model.scores(graph.features, around), axis=1)
        released = {"probabilities": probabilities}
        if plan.budget.is_private:  # without noise it is the graph itself, which no model carries
            released |= {"edge_count": np.array(perturbed.count), "edges": perturbed.pairs}
        return Outputs(probabilities, released, model.to_arrays(), perturbed.details)

    def _trained(self, graph: Graph, around: Neighbourhoods, streams: Streams) -> SageModel:
        split, labels = graph.for_learning(public=True)
        return fit_sage(
            graph.features,
            around,
            labels,
            train=split.train,
            val=split.val,
            classes=graph.num_classes,
            config=self.network,
            seed=streams.model_seed,
            objective=self.objective,
        )


@dataclass(frozen=True)
class SageNdp(SummingMethod):
    """Public settings of ``sage-ndp``.

    ``declared_degree``, ``degree_cap`` and ``radius``: as in `GapNdp`. ``message_scale`` = m: so many equal rows of neighbours
    have the length of the own row; ``own_share`` = w, what a node's own row holds of its example. ``mean_share``: the part of
    mu for the mean; ``sums_share``: share of mu^2 for the released sums. ``clip``, ``shrinkage``, ``train_size``: as in
    `MlpDp`.
    """

    message_scale: int = 2
    own_share: float = 0.85
    mean_share: float = 0.2
    sums_share: float = 0.15
    clip: float = 0.3
    shrinkage: float = 0.4
    train_size: int | None = None
    name: ClassVar[str] = "sage-ndp"
    sums_in_words: ClassVar[str] = "the noisy sums of messages of all nodes"

    def __post_init__(self) -> None:
        super().__post_init__()
        one = Bounds(nodes=2, declared_degree=1)
        neighbourhood_gradient_sensitivity(
            message_scale=self.message_scale, own_share=self.own_share, bounds=one
        )  # checks both
        open_unit_interval(mean_share=self.mean_share)
        open_unit_interval(sums_share=self.sums_share)
        if self.mean_share**2 + self.sums_share >= 1:
            raise InputError(f"sums_share must be below 1 - mean_share^2, got {self.sums_share!r}")
        positive(clip=self.clip)
        non_negative(shrinkage=self.shrinkage)
        if self.train_size is not None:
            integer(at_least=1, train_size=self.train_size)

    # -- the algorithm ---------------------------------------------------------------------------------------------

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Mean, training and sums as Gaussians that compose to the whole budget, and a choice that validation nodes pay."""
        mu, share = self.mu_of(budget), math.sqrt(1 - self.mean_share**2 - self.sums_share)
        mean = full_batch("mean of the training rows", 1, self.mean_share * mu)
        training = plan_descent(
            "training on neighbourhoods",
            mu=share * mu,
            train_size=self._size(sizes),
            examples=Examples.NEIGHBOURHOODS,
            clip=self.clip,
            bounds=self.bounds(sizes),
            own_share=self.own_share,
            message_scale=self.message_scale,
        )
        sums = self.calibrate(sizes, math.sqrt(self.sums_share) * mu)
        records: tuple[MechanismRecord, ...] = (
            MeanRecord(name=mean.part.name, noise_std=mean.noise_multiplier),
            training.record,
            SumsRecord(calibrated=sums, payers=PARTS),
        )
        choice = remaining_epsilon(groups_of(records)[Group.VALIDATION], budget)
        chosen = ChoiceRecord(name="choice of the weight", epsilon=choice, candidates=len(WEIGHTS))
        return self.planned(
            sizes,
            budget,
            ReleaseKind.FIT,
            (*records, chosen),
            ("mean of the training rows", "weights of the layer", "weight of the sums", self.sums_in_words),
            {"mean": mean, "training": training, "sums": sums, "choice": choice},
        )

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Private centre, private training on neighbourhoods, private sums for prediction, a private choice of their weight."""
        split, labels = graph.for_learning()
        adjacency = self._bounded(graph, streams)
        mean = self._centre(graph, plan.parts["mean"], noise)
        rows = self._rows(graph, mean)
        layer = self._train(graph, rows, adjacency, plan.parts["training"], noise)
        (sums,) = noisy_sums(adjacency, messages(rows, layer), plan.parts["sums"], noise.stream("sums"))
        chosen = choose(
            [self._logits(rows, layer, sums, gamma)[split.val] for gamma in WEIGHTS],
            labels[split.val],
            declared=split.declared[1],
            epsilon=plan.parts["choice"],
            noise=noise.stream("choice"),
            default=DEFAULT_WEIGHT,
        )
        weights = {"mean": mean, "layer": layer, "sums_weight": np.array(WEIGHTS[chosen])}
        return self.outputs(graph, {"sums": sums}, weights)

    def predict_graph(
        self, plan: ReleasePlan, weights: Arrays, graph: Graph, streams: Streams, noise: NoiseSource
    ) -> Outputs:
        """Sums over another graph; the layer is used as it is."""
        sent = messages(self._rows(graph, weights["mean"]), weights["layer"])
        (sums,) = noisy_sums(self._bounded(graph, streams), sent, plan.parts["sums"], noise.stream("sums"))
        return self.outputs(graph, {"sums": sums}, weights)

    def predict(self, weights: Arrays, released: Arrays, graph: Graph) -> np.ndarray:
        """Class probabilities from each node's own features and its row of the released sums. [n, C]"""
        rows = self._rows(graph, weights["mean"])
        gamma = float(weights["sums_weight"])
        return softmax(self._logits(rows, weights["layer"], released["sums"], gamma), axis=1)

    # -- its steps -------------------------------------------------------------------------------------------------

    def require_memory_for(self, sizes: Sizes) -> None:
        """Sums over neighbours are dense, whatever the features are: three arrays [training nodes, d]."""
        size, d = self._size(sizes), sizes.columns
        needed = 3 * DOUBLE * size * d
        require_memory(needed, f"the neighbourhoods of {size:,} training nodes with {d:,} columns")

    def _bounded(self, graph: Graph, streams: Streams) -> sp.csr_array:
        return bounded_adjacency(graph, self.degree_cap, streams.sampling)

    def _size(self, sizes: Sizes) -> int:
        return sizes.train if self.train_size is None else self.train_size

    def public(self, sizes: Sizes) -> dict[str, Any]:
        """Sizes that are public by declaration, and the settings."""
        size = {"train_nodes": self._size(sizes)} if sizes.train else {}
        return {"nodes": sizes.nodes, "columns": sizes.columns, "classes": sizes.classes, **size, **self.settings()}

    def _centre(self, graph: Graph, plan: AllocatedPart, noise: NoiseSource) -> np.ndarray:
        x = unit_root_rows(graph.features)[graph.for_learning()[0].train]
        size = self._size(graph.sizes(PrivacyUnit.NODE))
        return private_mean(x, plan, noise.stream("mean"), train_size=size, max_rows=graph.num_nodes)

    def _rows(self, graph: Graph, mean: np.ndarray) -> Rows:
        if len(mean) != graph.num_features:
            raise InputError(f"graph must have the {len(mean)} columns of the model, got {graph.num_features}")
        return centred_unit_rows(unit_root_rows(graph.features), mean)

    def _train(
        self, graph: Graph, rows: Rows, adjacency: sp.csr_array, plan: DescentPlan, noise: NoiseSource
    ) -> np.ndarray:
        """The layer's weights. [2 d, C]"""
        split, labels = graph.for_learning()
        wide = plan.descent.widened(plan.sensitivity)
        averaged = noisy_gradient_descent(
            neighbourhood_rows(rows, adjacency, split.train, self.message_scale, self.own_share),
            labels[split.train],
            classes=graph.num_classes,
            schedule=plan.schedule,
            calibrated=wide,
            noise=noise.stream("training"),
            max_rows=graph.num_nodes,
        )
        variance = average_noise_variance(plan.schedule, wide)
        return shrink_rows(averaged, noise_variance=variance, strength=self.shrinkage)

    def _logits(self, rows: Rows, layer: np.ndarray, sums: np.ndarray, gamma: float) -> np.ndarray:
        own = math.sqrt(self.own_share) * rows.times(layer[: len(layer) // 2])
        return own + gamma * centred(sums)


# -- the layer -----------------------------------------------------------------------------------------------------


def neighbourhood_rows(
    rows: Rows, adjacency: sp.csr_array, targets: np.ndarray, message_scale: int, own_share: float
) -> Rows:
    """h_i = (sqrt(w) z_i, sqrt(1 - w) a_i), a_i = ||z_i|| / m times the sum of z_j over the neighbours, projected onto the ball
    of radius ||z_i||. [targets, 2 d]
    """
    near = sp.csr_array(adjacency[targets], dtype=np.float64)
    scaled = near if rows.scale is None else near @ sp.diags_array(rows.scale)
    sums = scaled @ rows.matrix
    around = np.asarray(sums.todense() if sp.issparse(sums) else sums)
    if rows.shift is not None:
        around = around - np.outer(np.asarray(scaled.sum(axis=1)).ravel(), rows.shift)
    # first to length 1, then to that of the own row: one product for rows of different radius
    around = project_rows(around / message_scale, 1.0) * rows.norms[targets][:, None]
    own = rows.take(targets)
    w = own_share
    scale = np.full(len(targets), math.sqrt(w)) * (1 if own.scale is None else own.scale)
    norms = np.sqrt(w * own.norms**2 + (1 - w) * row_norms(around) ** 2)
    return Rows(own.matrix, norms, own.shift, scale, math.sqrt(1 - w) * around)


def messages(rows: Rows, layer: np.ndarray) -> np.ndarray:
    """What a node sends to its neighbours: its row through the neighbours' half of the weights, length 1 (or 0). [n, C]"""
    return unit_length(centred(rows.times(layer[len(layer) // 2 :])))
