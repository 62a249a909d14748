"""``sage-ndp``: one SAGE layer at node level, trained on 1-hop neighbourhoods (after Daigavane et al. 2021), applied privately.

Layer: h_i = (sqrt(w) z_i, sqrt(1 - w) a_i) with z_i the centred unit row of node i and a_i = ||z_i|| / M times the sum of its
neighbours' rows, on the graph with degrees cut to M; logits h_i W. Training: full-batch noisy gradient descent on the clipped
gradients of the *target* nodes; one node is in its own example and in those of at most M neighbours. Prediction: the
neighbours' part of the logits is released once, for all nodes, as noisy sums of unit messages; its weight is chosen on
validation nodes.

Who pays what (PrivacyUnit.NODE; the split, its sizes and the number of classes are public):

* A **training node**: the mean of the rows, its own example and its neighbours' in every step, and the sums. All are Gaussian
  mechanisms that compose to mu of the budget.
* A **validation node** is in its neighbours' examples and in the sums, but in no example of its own; with what that leaves of
  epsilon it takes part in the choice of the weight. **Test nodes** and the rest: the same without the choice.
* The cut to M is not covered; the certificate says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from caribou._validate import integer, non_negative, open_unit_interval, positive
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import Rows, row_norms, unit_length
from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.noisy_descent import Descent, average_noise_variance, noisy_gradient_descent
from caribou.mechanisms.noisy_mean import private_mean
from caribou.memory import DOUBLE, require_memory
from caribou.methods.base import Fitted
from caribou.methods.node.caribou import DEFAULT_WEIGHT, WEIGHTS
from caribou.methods.node.mlp import (
    MlpDp,
    checked_split,
    choose,
    full_batch,
    part_record,
    require_node_unit,
    selection_event,
)
from caribou.methods.node.shared import calibrate_node_sums, centred, default_radius, node_certificate
from caribou.models.features import centred_unit_rows, unit_root_rows
from caribou.models.linear import path_length_schedule, shrink_rows
from caribou.privacy.allocation import AllocatedPart
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import CalibratedSums, budget_mu, remaining_epsilon
from caribou.privacy.certificate import Certificate, MechanismRecord, sums_record
from caribou.privacy.events import Event, NonPrivate, Parallel
from caribou.privacy.sensitivity import neighbourhood_gradient_sensitivity
from caribou.randomness import Streams

TRAINING_THEOREM = (
    "clipped gradients of target nodes: one node moves each sum by at most 1 + M sqrt(2 - k) clips; T steps are "
    "(sqrt(T) / multiplier)-GDP (docs/methods/sage.md, Theorem N1)"
)
MEAN_THEOREM = "rows of norm at most 1: one row moves the sum by at most 1 in L2"


@dataclass(frozen=True)
class SageNdp:
    """Public settings of ``sage-ndp``.

    ``degree_cap`` = M; ``own_share`` = w, what a node's own row holds of its example. ``mean_share``: the part of mu for the
    mean; ``sums_share``: share of mu^2 for the released sums. ``radius``: bound r on a row of sums; None = sqrt(M). ``clip``,
    ``shrinkage``, ``train_size``: as in `MlpDp`.
    """

    degree_cap: int = 2
    own_share: float = 0.85
    mean_share: float = 0.2
    sums_share: float = 0.15
    radius: float | None = None
    clip: float = 0.3
    shrinkage: float = 0.4
    train_size: int | None = None

    def __post_init__(self) -> None:
        neighbourhood_gradient_sensitivity(degree_cap=self.degree_cap, own_share=self.own_share)  # checks both
        open_unit_interval(mean_share=self.mean_share)
        open_unit_interval(sums_share=self.sums_share)
        if self.mean_share**2 + self.sums_share >= 1:
            raise InputError(f"sums_share must be below 1 - mean_share^2, got {self.sums_share!r}")
        if self.radius is not None:
            positive(radius=self.radius)
        positive(clip=self.clip)
        non_negative(shrinkage=self.shrinkage)
        if self.train_size is not None:
            integer(at_least=1, train_size=self.train_size)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    # -- the algorithm ---------------------------------------------------------------------------------------------

    def fit(self, graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource) -> Fitted:
        """Private centre, private training on neighbourhoods, private sums for prediction, a private choice of their weight."""
        split = checked_split(graph, budget)
        self._check_memory(graph)
        plan = self._plan(graph, budget)
        adjacency = self._bounded(graph, streams)
        mean = self._centre(graph, plan, noise)
        rows = self._rows(graph, mean)
        layer = self._train(graph, rows, adjacency, plan, noise)
        (sums,) = noisy_sums(adjacency, messages(rows, layer), plan.sums, noise.stream("sums"))
        candidates = [self._logits(rows, layer, sums, gamma)[split.val] for gamma in WEIGHTS]
        chosen = choose(candidates, graph, split, plan.choice, noise.stream("choice"), default=DEFAULT_WEIGHT)
        weights = {"mean": mean, "layer": layer, "sums_weight": np.array(WEIGHTS[chosen])}
        released = {"sums": sums}
        names = ("mean of the training rows", "weights of the layer", "weight of the sums")
        certificate = self._certificate(graph, budget, plan.records, plan.groups, names, noise)
        return Fitted(self.predict(weights, released, graph), certificate, released, weights)

    def cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """What a training node pays, Gaussians that compose to the whole budget; beside it, what the other groups pay."""
        if not budget.is_private:
            return (NonPrivate(),)
        return (Parallel(tuple(self._plan(graph, budget).groups.values())),)

    def release(
        self, weights: Mapping[str, np.ndarray], graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource
    ) -> Fitted:
        """Predict another graph: the sums over its edges are a release about it; the layer is used as it is."""
        require_node_unit(budget)
        calibrated = self._calibrate(graph, budget_mu(budget))
        adjacency = self._bounded(graph, streams)
        said = messages(self._rows(graph, weights["mean"]), weights["layer"])
        (sums,) = noisy_sums(adjacency, said, calibrated, noise.stream("sums"))
        released = {"sums": sums}
        record = sums_record(calibrated)
        certificate = self._certificate(graph, budget, (record,), {"every node": (record.event,)}, (), noise)
        return Fitted(self.predict(weights, released, graph), certificate, released, weights)

    def release_cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """One Gaussian mechanism."""
        return (self._calibrate(graph, budget_mu(budget)).event,)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities from each node's own features and its row of the released sums. [n, C]"""
        rows = self._rows(graph, weights["mean"])
        gamma = float(weights["sums_weight"])
        return softmax(self._logits(rows, weights["layer"], released["sums"], gamma), axis=1)

    # -- its steps -------------------------------------------------------------------------------------------------

    def _check_memory(self, graph: Graph) -> None:
        """Sums over neighbours are dense, whatever the features are: three arrays [training nodes, d]."""
        size, d = self._size(graph), graph.num_features
        needed = 3 * DOUBLE * size * d
        require_memory(needed, f"the neighbourhoods of {size:,} training nodes with {d:,} columns")

    def _bounded(self, graph: Graph, streams: Streams) -> sp.csr_array:
        return bounded_adjacency(graph, self.degree_cap, streams.sampling)

    def _size(self, graph: Graph) -> int:
        return graph.for_learning()[0].declared[0] if self.train_size is None else self.train_size

    def _plan(self, graph: Graph, budget: Budget) -> Plan:
        """One budget over mean, training and sums, from public numbers alone."""
        mu, size = budget_mu(budget), self._size(graph)
        M, w = self.degree_cap, self.own_share
        sensitivity = neighbourhood_gradient_sensitivity(degree_cap=M, own_share=w)
        as_neighbour = neighbourhood_gradient_sensitivity(degree_cap=M, own_share=w, own_example=False)
        share = math.sqrt(1 - self.mean_share**2 - self.sums_share)
        schedule = path_length_schedule(mu=share * mu / sensitivity, train_size=size, clip=self.clip)
        sums = self._calibrate(graph, math.sqrt(self.sums_share) * mu)
        return Plan(
            mean=full_batch("mean of the training rows", 1, self.mean_share * mu),
            schedule=schedule,
            training=full_batch("training on neighbourhoods", schedule.steps, share * mu),
            sensitivity=sensitivity,
            as_neighbour=as_neighbour,
            sums=sums,
            budget=budget,
        )

    def _centre(self, graph: Graph, plan: Plan, noise: NoiseSource) -> np.ndarray:
        x = unit_root_rows(graph.features)[graph.for_learning()[0].train]
        size, most = self._size(graph), graph.num_nodes
        return private_mean(x, plan.mean, noise.stream("mean"), train_size=size, max_rows=most)

    def _rows(self, graph: Graph, mean: np.ndarray) -> Rows:
        if len(mean) != graph.num_features:
            raise InputError(f"graph must have the {len(mean)} columns of the model, got {graph.num_features}")
        return centred_unit_rows(unit_root_rows(graph.features), mean)

    def _train(self, graph: Graph, rows: Rows, adjacency: sp.csr_array, plan: Plan, noise: NoiseSource) -> np.ndarray:
        """The layer's weights. [2 d, C]"""
        split, labels = graph.for_learning()
        wide = plan.training.widened(plan.sensitivity)
        averaged = noisy_gradient_descent(
            neighbourhood_rows(rows, adjacency, split.train, self.degree_cap, self.own_share),
            labels[split.train],
            classes=graph.num_classes,
            schedule=plan.schedule,
            calibrated=wide,
            noise=noise.stream("training"),
            max_rows=graph.num_nodes,
        )
        variance = average_noise_variance(plan.schedule, wide)
        return shrink_rows(averaged, noise_variance=variance, strength=self.shrinkage)

    @property
    def _radius(self) -> float:
        return default_radius(self.degree_cap) if self.radius is None else float(self.radius)

    def _calibrate(self, graph: Graph, mu: float) -> CalibratedSums:
        return calibrate_node_sums(graph, mu, degree_cap=self.degree_cap, radius=self._radius)

    def _logits(self, rows: Rows, layer: np.ndarray, sums: np.ndarray, gamma: float) -> np.ndarray:
        own = math.sqrt(self.own_share) * rows.times(layer[: len(layer) // 2])
        return own + gamma * centred(sums)

    def _certificate(
        self,
        graph: Graph,
        budget: Budget,
        records: tuple[MechanismRecord, ...],
        groups: Mapping[str, tuple[Event, ...]],
        released: tuple[str, ...],
        noise: NoiseSource,
    ) -> Certificate:
        sizes = {"nodes": graph.num_nodes, "columns": graph.num_features, "classes": graph.num_classes}
        if graph.split is not None:
            sizes["train_nodes"] = self._size(graph)
        return node_certificate(
            budget,
            records,
            groups,
            released=(*released, "the noisy sums of messages of all nodes"),
            parameters={**sizes, **self.settings(), "radius": self._radius},
            base=MlpDp(),
            noise=noise,
        )


@dataclass(frozen=True)
class Plan:
    """The parts of the budget with their noise, and what each group of nodes pays."""

    mean: AllocatedPart
    schedule: Descent
    training: AllocatedPart
    sensitivity: float  # of the training sum, in clips
    as_neighbour: float  # the same for a node without its own example
    sums: CalibratedSums
    budget: Budget

    @property
    def records(self) -> tuple[MechanismRecord, ...]:
        """What a training node pays."""
        figures = {"sensitivity_in_clips": self.sensitivity, **asdict(self.schedule)}
        return (
            part_record(self.mean, MEAN_THEOREM, sensitivity=1.0),
            part_record(self.training, TRAINING_THEOREM, **figures),
            sums_record(self.sums),
        )

    @property
    def others(self) -> tuple[Event, ...]:
        """What every other node pays: the same noise, per unit of what such a node can do."""
        smaller = self.training.widened(self.sensitivity / self.as_neighbour)
        return smaller.event or NonPrivate(), self.sums.event

    @cached_property
    def choice(self) -> float:
        """The epsilon of a validation node for the choice of the weight."""
        return remaining_epsilon(self.others, self.budget)

    @property
    def groups(self) -> dict[str, tuple[Event, ...]]:
        """Training, validation and other nodes."""
        return {
            "training nodes": tuple(r.event for r in self.records),
            "validation nodes": (*self.others, selection_event(self.choice)),
            "test nodes and the rest": self.others,
        }


# -- the layer -----------------------------------------------------------------------------------------------------


def neighbourhood_rows(
    rows: Rows, adjacency: sp.csr_array, targets: np.ndarray, degree_cap: int, own_share: float
) -> Rows:
    """h_i = (sqrt(w) z_i, sqrt(1 - w) a_i), a_i = ||z_i|| / M times the sum of z_j over the neighbours. [targets, 2 d]"""
    near = sp.csr_array(adjacency[targets], dtype=np.float64)
    scaled = near if rows.scale is None else near @ sp.diags_array(rows.scale)
    sums = scaled @ rows.matrix
    around = np.asarray(sums.todense() if sp.issparse(sums) else sums)
    if rows.shift is not None:
        around = around - np.outer(np.asarray(scaled.sum(axis=1)).ravel(), rows.shift)
    around *= (rows.norms[targets] / degree_cap)[:, None]
    own = rows.take(targets)
    w = own_share
    scale = np.full(len(targets), math.sqrt(w)) * (1 if own.scale is None else own.scale)
    norms = np.sqrt(w * own.norms**2 + (1 - w) * row_norms(around) ** 2)
    return Rows(own.matrix, norms, own.shift, scale, math.sqrt(1 - w) * around)


def messages(rows: Rows, layer: np.ndarray) -> np.ndarray:
    """What a node says to its neighbours: its row through the neighbours' half of the weights, length 1 (or 0). [n, C]"""
    return unit_length(centred(rows.times(layer[len(layer) // 2 :])))
