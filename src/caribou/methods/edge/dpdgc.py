"""``dpdgc-edp`` and ``dpdgc-inf``: DPDGC (Chien et al. 2023), sound for an undirected edge. Transductive.

Decoupled and LINKX-like: a structure embedding Z = A W of rows of A, a branch of features, and a classification module on both.
W is trained privately on rows of A, its rows are brought to length 1 *in the matrix that is then multiplied*, and A W is
released with noise.

Changed from the published method, whose weight normalisation is lost in a copy (its noise is about 10^8 times too small):

* rows of W really have length 1 before the product, and an edge moves two rows: sensitivity sqrt(2) (Theorem 5);
* training W counts both examples that an edge is in (Theorem 7), as full-batch noisy descent, exactly composed; W has one column
  per class and no activation, so that the frozen head is the identity;
* the labels that train W do not fit the classification module: row i of A W carries the label of i back to i over every
  neighbour. The two sets of training nodes are public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from caribou._validate import integer, open_unit_interval
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import unit_length
from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.noisy_descent import average_noise_variance, noisy_gradient_descent
from caribou.memory import DOUBLE, require_memory
from caribou.methods.base import Fitted
from caribou.methods.edge.caribou import log_probabilities
from caribou.methods.edge.votes import require_edge_unit
from caribou.methods.node.mlp import full_batch, part_record
from caribou.models.classifier import ClassifierConfig, classify, fit_classifier
from caribou.models.encoder import HIDDEN, cross_fit, widths
from caribou.models.linear import path_length_schedule, shrink_rows
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import CalibratedSums, budget_mu, calibrate_sums
from caribou.privacy.certificate import (
    Assumption,
    MechanismRecord,
    certify,
    initial_state_assumption,
    standing_assumptions,
    sums_record,
)
from caribou.privacy.events import Event, Gaussian, NonPrivate
from caribou.privacy.sensitivity import adjacency_gradient_edge_sensitivity, sum_sensitivity
from caribou.randomness import Streams

CLIP = 0.3
SHRINKAGE = 0.4
EDGE_TRAINING_THEOREM = (
    "an edge is in two examples of softmax(a_i W): the sum of clipped gradients moves by at most 2.0425 clips "
    "(docs/privacy.md, Theorem 7); T steps are (sqrt(T) / multiplier)-GDP"
)


@dataclass(frozen=True)
class Dpdgc:
    """Public settings of ``dpdgc-edp`` and, with an infinite budget, of ``dpdgc-inf``.

    ``training_share``: share of mu^2 for training W; the rest is for the release of A W. ``structure_share``: share of the
    training nodes that train W; the others, and no node of these, fit the classification module. ``hidden``: widths of the
    feature branch's hidden layers. ``classifier_hidden``: width of each base MLP.

    Formal guarantee: W and the noisy A W together are mu-GDP at edge level with mu of the budget (docs/privacy.md, Theorems 5
    and 7).
    """

    training_share: float = 0.5
    structure_share: float = 0.5
    hidden: tuple[int, ...] = HIDDEN
    classifier_hidden: int = 64

    def __post_init__(self) -> None:
        open_unit_interval(training_share=self.training_share)
        open_unit_interval(structure_share=self.structure_share)
        object.__setattr__(self, "hidden", widths(self.hidden))
        integer(at_least=1, classifier_hidden=self.classifier_hidden)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self) | {"hidden": list(self.hidden)}

    def fit(self, graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource) -> Fitted:
        """Train W privately, release A W, classify features and structure."""
        require_edge_unit(budget, "dpdgc-edp")
        check_size(graph)
        mu = budget_mu(budget)
        own = log_probabilities(cross_fit(graph, streams, self.hidden).probabilities)  # public
        structure, calibration_nodes = self._roles(graph, streams)
        adjacency = bounded_adjacency(graph, None, streams.sampling)
        weights, record = train_structure(
            adjacency,
            graph,
            structure,
            mu=math.sqrt(self.training_share) * mu,
            sensitivity_multiple=adjacency_gradient_edge_sensitivity(),
            theorem=EDGE_TRAINING_THEOREM,
            train_size=len(structure),
            noise=noise.stream("structure"),
        )
        calibrated = self._calibrate(graph, mu)
        (product,) = noisy_sums(adjacency, weights, calibrated, noise.stream("sums"))
        probabilities = self._classify(graph, own, product, calibration_nodes, streams)
        certificate = certify(
            budget,
            [record, sums_record(calibrated)],
            released=["the weights W", "the noisy product A W", "class probabilities of every node"],
            public_parameters={
                **self.settings(),
                "nodes": graph.num_nodes,
                "columns": graph.num_classes,
                "classes": graph.num_classes,
            },
            assumptions=[
                *standing_assumptions(budget.unit, noise_is_secret=noise.is_secret, noise_origin=noise.origin),
                initial_state_assumption(budget.unit),
                ROWS_OF_W,
            ],
        )
        released = {"structure": weights, "product": product, "probabilities": probabilities}
        return Fitted(probabilities, certificate, released, {})

    def cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """The Gaussians of training and release, which compose to the whole budget."""
        mu = budget_mu(budget)
        return (Gaussian(1 / mu),) if math.isfinite(mu) else (NonPrivate(),)

    def release(
        self, weights: Mapping[str, np.ndarray], graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource
    ) -> NoReturn:
        """Not possible: W has one row per node of the graph it was trained on."""
        require_edge_unit(budget, "dpdgc-edp")
        raise transductive("dpdgc-edp")

    def release_cost(self, graph: Graph, budget: Budget) -> NoReturn:
        """Not possible, see `release`."""
        raise transductive("dpdgc-edp")

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes of the training graph; costs nothing."""
        return released["probabilities"]

    # -- its steps -------------------------------------------------------------------------------------------------

    def _roles(self, graph: Graph, streams: Streams) -> tuple[np.ndarray, np.ndarray]:
        """Training nodes that train W, and those that fit the classification module; a single one does both."""
        train = streams.generator("structure").permutation(graph.for_learning(public=True)[0].train)
        count = max(1, min(len(train) - 1, round(self.structure_share * len(train))))
        return train[:count], train[count:] if len(train) > 1 else train

    def _calibrate(self, graph: Graph, mu: float) -> CalibratedSums:
        size = {"nodes": graph.num_nodes, "columns": graph.num_classes}
        return calibrate_sums(sum_sensitivity("edge"), hops=1, mu=math.sqrt(1 - self.training_share) * mu, **size)

    def _classify(
        self, graph: Graph, own: np.ndarray, product: np.ndarray, calibration_nodes: np.ndarray, streams: Streams
    ) -> np.ndarray:
        split, labels = graph.for_learning(public=True)
        inputs = [own, unit_length(product)]
        module = fit_classifier(
            inputs,
            np.array(labels),
            train=calibration_nodes,
            val=split.val,
            classes=graph.num_classes,
            config=ClassifierConfig(hidden=self.classifier_hidden),
            seed=streams.model_seed,
        )
        return np.asarray(softmax(classify(module, inputs), axis=1))


# -- shared with dpdgc-ndp -----------------------------------------------------------------------------------------

ROWS_OF_W = Assumption(
    "weights", "W was released before A W was computed, and its rows were brought to length 1 in place."
)


def train_structure(
    adjacency: sp.csr_array,
    graph: Graph,
    examples: np.ndarray,
    *,
    mu: float,
    sensitivity_multiple: float,
    theorem: str,
    noise: NoiseSource,
    train_size: int,
) -> tuple[np.ndarray, MechanismRecord]:
    """W by noisy descent of softmax(a_i W) on rows of A, mu-GDP: [n, C] with rows of length 1 (0 where noise alone is left)."""
    labels = graph.for_learning()[1]
    schedule = path_length_schedule(mu=mu / sensitivity_multiple, train_size=train_size, clip=CLIP)
    descent = full_batch("training of W on rows of A", schedule.steps, mu)
    trained = noisy_gradient_descent(
        sp.csr_array(adjacency[examples]),
        labels[examples],
        classes=graph.num_classes,
        schedule=schedule,
        calibrated=descent,
        noise=noise,
        max_rows=graph.num_nodes,
        sensitivity_multiple=sensitivity_multiple,
    )
    left = average_noise_variance(schedule, descent, sensitivity_multiple)
    weights = unit_length(shrink_rows(trained, noise_variance=left, strength=SHRINKAGE))
    return weights, part_record(descent, theorem, **asdict(schedule), sensitivity_in_clips=sensitivity_multiple)


def check_size(graph: Graph) -> None:
    """W, its average, gradient and noise, and the product A W must fit into memory: n x C each."""
    n, C = graph.num_nodes, graph.num_classes
    require_memory(6 * DOUBLE * n * C, f"the weights of dpdgc, a row for each of {n:,} nodes and {C} classes,")


def transductive(method: str) -> InputError:
    """The one error for a graph other than the training graph."""
    return InputError(
        f"graph must be the training graph: {method} is transductive, W has one row per node of that graph; "
        "use gap-edp or caribou-edp to predict another graph"
    )
