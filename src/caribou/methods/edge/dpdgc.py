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
from caribou.mechanisms.noisy_descent import Descent, average_noise_variance, noisy_gradient_descent
from caribou.memory import DOUBLE, require_memory
from caribou.methods.base import Outputs
from caribou.methods.catalogue import require_unit
from caribou.methods.edge.caribou import log_probabilities
from caribou.methods.node.mlp import full_batch
from caribou.models.classifier import ClassifierConfig, classify, fit_classifier
from caribou.models.encoder import HIDDEN, cross_fit, widths
from caribou.models.linear import path_length_schedule, shrink_rows
from caribou.models.objective import Objective
from caribou.privacy.allocation import AllocatedPart
from caribou.privacy.assumptions import Assumption, AssumptionName
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu, calibrate_sums
from caribou.privacy.mechanism_records import (
    Examples,
    MechanismRecord,
    descent_record,
    descent_sensitivity,
    sums_record,
)
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import Bounds, sum_sensitivity
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

CLIP = 0.3
SHRINKAGE = 0.4


@dataclass(frozen=True)
class Dpdgc:
    """Public settings of ``dpdgc-edp`` and, with an infinite budget, of ``dpdgc-inf``.

    ``training_share``: share of mu^2 for training W; the rest is for the release of A W. ``structure_share``: share of the
    training nodes that train W; the others, and no node of these, fit the classification module. ``hidden``: widths of the
    feature branch's hidden layers. ``classifier_hidden``: width of each base MLP.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    Formal guarantee: W and the noisy A W together are mu-GDP at edge level with mu of the budget (docs/privacy.md, Theorems 5
    and 7).
    """

    training_share: float = 0.5
    structure_share: float = 0.5
    hidden: tuple[int, ...] = HIDDEN
    classifier_hidden: int = 64
    metric: str | None = None
    class_weight: str | None = None

    def __post_init__(self) -> None:
        _ = self.objective  # checks its own settings
        open_unit_interval(training_share=self.training_share)
        open_unit_interval(structure_share=self.structure_share)
        object.__setattr__(self, "hidden", widths(self.hidden))
        integer(at_least=1, classifier_hidden=self.classifier_hidden)

    @property
    def objective(self) -> Objective:
        """What checkpoints and heads are chosen by, on public labels."""
        return Objective(self.metric, self.class_weight)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self) | {"hidden": list(self.hidden)}

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """The Gaussians of training and release, which compose to the whole budget."""
        require_unit(budget, PrivacyUnit.EDGE, "dpdgc-edp")
        mu = budget_mu(budget)
        structure = plan_structure(
            PrivacyUnit.EDGE, mu=math.sqrt(self.training_share) * mu, train_size=self._structure_size(sizes.train)
        )
        sums = calibrate_sums(
            sum_sensitivity("edge"),
            hops=1,
            mu=math.sqrt(1 - self.training_share) * mu,
            nodes=sizes.nodes,
            columns=sizes.classes,
        )
        return ReleasePlan(
            budget,
            (structure.record, sums_record(sums)),
            released=("the weights W", "the noisy product A W", "class probabilities of every node"),
            description="dpdgc-edp, fitted",
            public_parameters={
                **self.settings(),
                "nodes": sizes.nodes,
                "columns": sizes.classes,
                "classes": sizes.classes,
            },
            assumptions=(RELEASED_WEIGHTS,),
            parts={"structure": structure, "sums": sums},
        )

    def prepare(self, graph: Graph, streams: Streams) -> None:
        """Fit the encoder, which reads public values alone."""
        cross_fit(graph, streams, self.hidden)

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Train W privately, release A W, classify features and structure."""
        check_size(graph)
        own = log_probabilities(cross_fit(graph, streams, self.hidden, self.objective).probabilities)  # public
        structure_nodes, calibration_nodes = self._roles(graph, streams)
        adjacency = bounded_adjacency(graph, None, streams.sampling)
        weights = train_structure(plan.parts["structure"], adjacency, graph, structure_nodes, noise.stream("structure"))
        (product,) = noisy_sums(adjacency, weights, plan.parts["sums"], noise.stream("sums"))
        probabilities = self._classify(graph, own, product, calibration_nodes, streams)
        return Outputs(probabilities, {"structure": weights, "product": product, "probabilities": probabilities}, {})

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> NoReturn:
        """Not possible: W has one row per node of the graph it was trained on."""
        require_unit(budget, PrivacyUnit.EDGE, "dpdgc-edp")
        raise transductive("dpdgc-edp")

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> NoReturn:
        """Not possible, see `plan_graph`."""
        raise transductive("dpdgc-edp")

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes of the training graph; costs nothing."""
        return released["probabilities"]

    # -- its steps -------------------------------------------------------------------------------------------------

    def _structure_size(self, train: int) -> int:
        """How many training nodes train W; a single one does both."""
        return max(1, min(train - 1, round(self.structure_share * train)))

    def _roles(self, graph: Graph, streams: Streams) -> tuple[np.ndarray, np.ndarray]:
        """Training nodes that train W, and those that fit the classification module."""
        train = streams.generator("structure").permutation(graph.for_learning(public=True)[0].train)
        count = self._structure_size(len(train))
        return train[:count], train[count:] if len(train) > 1 else train

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
            objective=self.objective,
        )
        return np.asarray(softmax(classify(module, inputs), axis=1))


# -- shared with dpdgc-ndp -----------------------------------------------------------------------------------------

RELEASED_WEIGHTS = Assumption(AssumptionName.RELEASED_WEIGHTS)


@dataclass(frozen=True)
class StructurePlan:
    """Training of W on rows of A within its share of a budget. ``sensitivity_multiple``: clips that one unit moves a sum by."""

    schedule: Descent
    descent: AllocatedPart
    sensitivity_multiple: float
    record: MechanismRecord


def plan_structure(unit: PrivacyUnit, *, mu: float, train_size: int, bounds: Bounds | None = None) -> StructurePlan:
    """Noisy descent of softmax(a_i W) on rows of A that is mu-GDP."""
    multiple, _ = descent_sensitivity(Examples.ROWS_OF_A, unit, bounds=bounds)
    schedule = path_length_schedule(mu=mu / multiple, train_size=train_size, clip=CLIP)
    descent = full_batch("training of W on rows of A", schedule.steps, mu)
    record = descent_record(
        descent.part.name,
        unit=unit,
        steps=schedule.steps,
        noise_multiplier=descent.noise_multiplier,
        clip=schedule.clip,
        examples=Examples.ROWS_OF_A,
        bounds=bounds,
        schedule={"step_size": schedule.step_size, "momentum": schedule.momentum},
    )
    return StructurePlan(schedule, descent, multiple, record)


def train_structure(
    plan: StructurePlan, adjacency: sp.csr_array, graph: Graph, examples: np.ndarray, noise: NoiseSource
) -> np.ndarray:
    """W by its plan: [n, C] with rows of length 1 (0 where noise alone is left)."""
    trained = noisy_gradient_descent(
        sp.csr_array(adjacency[examples]),
        graph.for_learning()[1][examples],
        classes=graph.num_classes,
        schedule=plan.schedule,
        calibrated=plan.descent,
        noise=noise,
        max_rows=graph.num_nodes,
        sensitivity_multiple=plan.sensitivity_multiple,
    )
    left = average_noise_variance(plan.schedule, plan.descent, plan.sensitivity_multiple)
    return unit_length(shrink_rows(trained, noise_variance=left, strength=SHRINKAGE))


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
