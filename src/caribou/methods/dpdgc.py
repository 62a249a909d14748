"""DPDGC (Chien et al. 2023) at both units, sound for an undirected edge and for a node with all its data. Transductive.

``dpdgc-edp``, ``dpdgc-inf``: decoupled and LINKX-like: a structure embedding Z = A W of rows of A, a branch of features, and a
classification module on both. W is trained privately on rows of A, its rows are brought to length 1 *in the matrix that is then
multiplied*, and A W is released with noise.

Changed from the published method, whose weight normalisation is lost in a copy (its noise is about 10^8 times too small):

* rows of W really have length 1 before the product, and an edge moves two rows: sensitivity sqrt(2) (Theorem 5);
* training W counts both examples that an edge is in (Theorem 7), as full-batch noisy descent, exactly composed; W has one
  column per class and no activation, so that the frozen head is the identity;
* the labels that train W do not fit the classification module: row i of A W carries the label of i back to i over every
  neighbour. The two sets of training nodes are public.

``dpdgc-ndp``, everything private. Features: the private model of `mlp-dp`. Structure: W trained privately on rows of A, rows
at length 1; A W with every row clipped to a radius and noise. Classifier: a linear model on logits and A W, trained privately.

Changed from the published method: W is bounded in the matrix that is multiplied, and the own row of a node is counted (Theorem
6); the d + 1 examples that a node is in add up in the training of W, 1 + 1.137 d clips and not sqrt(D + 1) (Theorem 8); every
edge is read by default, and noise is calibrated for a declared degree (Theorem 9); no batch normalisation, and validation nodes
choose nothing. Honest noise leaves little of the structure: training W gets a small share of the budget, and the features carry
the result.

Who pays what (PrivacyUnit.NODE; the split, its sizes and the number of classes are public): every node pays for W (it is in
its neighbours' rows) and for A W; a **training node** also the Gaussians of features and classifier. All compose to mu of the
budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from caribou._validate import MAX_WIDTH, integer, open_unit_interval
from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.machine.memory import DOUBLE, require_memory
from caribou.mechanisms.noisy_descent import average_noise_variance, noisy_gradient_descent
from caribou.methods.catalogue import METHODS, require_unit
from caribou.methods.edge_method import EncodedMethod, log_probabilities
from caribou.methods.mlp import applied
from caribou.methods.node_method import (
    DescentPlan,
    StackedMethod,
    fit_linear_head,
    messages,
    plan_descent,
    plan_head,
    side_by_side,
)
from caribou.models.encoder import Prior
from caribou.models.linear import shrink_rows
from caribou.privacy.assumptions import Assumption, AssumptionName
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu, calibrate_sums
from caribou.privacy.mechanism_records import (
    PARTS,
    Examples,
    SumsRecord,
)
from caribou.privacy.plan import ReleaseKind, ReleasePlan
from caribou.privacy.sensitivity import Bounds, sum_sensitivity
from caribou.privacy.sizes import Sizes

with deferred_imports():
    import numpy as np
    import scipy.sparse as sp
    from scipy.special import softmax

    from caribou.graph import Graph
    from caribou.mechanisms.bounded_rows import unit_length
    from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.methods.base import Arrays, Outputs, Weights
    from caribou.models.classifier import classify
    from caribou.randomness import Streams

SHRINKAGE = 0.4
RELEASED_WEIGHTS = Assumption(AssumptionName.RELEASED_WEIGHTS)


class Transductive:
    """W has one row per node of the graph that it was trained on, so no other graph can be predicted."""

    name: ClassVar[str]

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Weights) -> NoReturn:
        """Not possible."""
        require_unit(budget, METHODS[self.name].unit, self.name)
        raise InputError(
            f"graph must be the training graph: {self.name} is transductive, W has one row per node of that graph; "
            "use gap-edp or caribou-edp to predict another graph"
        )


@dataclass(frozen=True)
class Dpdgc(Transductive, EncodedMethod):
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
    classifier_hidden: int = 64
    name: ClassVar[str] = "dpdgc-edp"

    def __post_init__(self) -> None:
        super().__post_init__()
        open_unit_interval(training_share=self.training_share)
        open_unit_interval(structure_share=self.structure_share)
        integer(at_least=1, at_most=MAX_WIDTH, classifier_hidden=self.classifier_hidden)

    def release_plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """The Gaussians of training and release, which compose to the whole budget."""
        mu = budget_mu(budget)
        size = self._structure_size(sizes.train)
        structure = plan_structure(math.sqrt(self.training_share) * mu, size, PrivacyUnit.EDGE)
        sums = calibrate_sums(
            sum_sensitivity("edge"),
            hops=1,
            mu=math.sqrt(1 - self.training_share) * mu,
            nodes=sizes.nodes,
            columns=sizes.classes,
        )
        return ReleasePlan(
            budget,
            (structure.record, SumsRecord(calibrated=sums)),
            released=("the weights W", "the noisy product A W", "class probabilities of every node"),
            public_parameters={
                **self.settings(),
                "nodes": sizes.nodes,
                "columns": sizes.classes,
                "classes": sizes.classes,
                "train_nodes": sizes.train,
            },
            assumptions=(RELEASED_WEIGHTS,),
            parts={"structure": structure, "sums": sums},
        )

    def require_memory_for(self, sizes: Sizes) -> None:
        """The weights W and the product A W must fit into memory."""
        check_size(sizes)

    def encoded(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> Prior:
        """What the encoder says."""
        return self.prior(graph, streams, weights)

    def run(
        self, plan: ReleasePlan, graph: Graph, public: Prior, streams: Streams, noise: NoiseSource, weights: Weights
    ) -> Outputs:
        """Train W privately, release A W, classify features and structure."""
        structure_nodes, calibration_nodes = self._roles(graph, streams)
        adjacency = bounded_adjacency(graph, None, streams.sampling)
        structure = train_structure(
            plan.parts["structure"], adjacency, graph, structure_nodes, noise.stream("structure")
        )
        (product,) = noisy_sums(adjacency, structure, plan.parts["sums"], noise.stream("sums"))
        inputs = [log_probabilities(public.probabilities), unit_length(product)]
        module = self.module(inputs, graph, self.classifier_hidden, streams, train=calibration_nodes)
        probabilities = np.asarray(softmax(classify(module, inputs), axis=1))
        return Outputs(probabilities, {"structure": structure, "product": product, "probabilities": probabilities}, {})

    # -- its steps -------------------------------------------------------------------------------------------------

    def _structure_size(self, train: int) -> int:
        """How many training nodes train W; a single one does both."""
        return max(1, min(train - 1, round(self.structure_share * train)))

    def _roles(self, graph: Graph, streams: Streams) -> tuple[np.ndarray, np.ndarray]:
        """Training nodes that train W, and those that fit the classification module."""
        train = streams.generator("structure").permutation(graph.for_learning(public=True)[0].train)
        count = self._structure_size(len(train))
        return train[:count], train[count:] if len(train) > 1 else train


@dataclass(frozen=True)
class DpdgcNdp(Transductive, StackedMethod):
    """Public settings of ``dpdgc-ndp``.

    ``declared_degree``, ``degree_cap`` and ``radius``: as in ``gap-ndp``. ``training_share``, ``sums_share``,
    ``classifier_share``: shares of mu^2 for training W, for A W and for the classifier; the rest is for the features. ``base``:
    the model of the features, or its settings by name.

    Formal guarantee: docs/privacy.md, Theorems 6, 8 and 9, for every graph, by degree.
    """

    training_share: float = 0.05
    sums_share: float = 0.05
    name: ClassVar[str] = "dpdgc-ndp"

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Gaussians of features, W, A W and classifier, which compose to the whole budget for a training node."""
        mu = self.mu_of(budget)
        left = 1 - self.training_share - self.sums_share - self.classifier_share
        base = self.base.plan_base(sizes, math.sqrt(left) * mu)
        size = sizes.train if self.base.train_size is None else self.base.train_size
        structure = plan_structure(
            math.sqrt(self.training_share) * mu, size, PrivacyUnit.NODE, bounds=self.bounds(sizes)
        )
        sums = self.calibrate(sizes, math.sqrt(self.sums_share) * mu)
        head = plan_head(sizes, math.sqrt(self.classifier_share) * mu, self.base.train_size)
        return self.planned(
            sizes,
            budget,
            ReleaseKind.FIT,
            (*base.records, structure.record, SumsRecord(calibrated=sums, payers=PARTS), head.record),
            ("the weights W", "the noisy product A W", "weights of the classifier", *base.released),
            {"base": base, "structure": structure, "sums": sums, "head": head},
        )

    def require_memory_for(self, sizes: Sizes) -> None:
        """The weights W and the product A W must fit into memory."""
        check_size(sizes)

    def assumptions(self) -> tuple[Assumption, ...]:
        """And what is said about released weights."""
        return (*super().assumptions(), RELEASED_WEIGHTS)

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Private features, private W, noisy A W, private classifier."""
        features = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        adjacency = bounded_adjacency(graph, self.degree_cap, streams.sampling)
        examples = graph.for_learning()[0].train
        structure = train_structure(plan.parts["structure"], adjacency, graph, examples, noise.stream("structure"))
        (product,) = noisy_sums(adjacency, structure, plan.parts["sums"], noise.stream("sums"))
        rows = side_by_side([messages(features.logits()), product])
        head = fit_linear_head(plan.parts["head"], rows, graph, noise.stream("classifier"))
        weights = features.parameters | {"classifier": head}
        released = {"structure": structure, "product": product}
        return self.outputs(graph, released, weights)

    def predict(self, weights: Arrays, released: Arrays, graph: Graph) -> np.ndarray:
        """Class probabilities from each node's own features and its row of the released product. [n, C]"""
        rows = side_by_side([messages(applied(weights, graph).logits()), released["product"]])
        return np.asarray(softmax(rows @ weights["classifier"], axis=1))


# -- W, at both units ----------------------------------------------------------------------------------------------


def plan_structure(mu: float, train_size: int, unit: PrivacyUnit, bounds: Bounds | None = None) -> DescentPlan:
    """Noisy descent of softmax(a_i W) on rows of A that is mu-GDP."""
    name, examples = "training of W on rows of A", Examples.ROWS_OF_A
    return plan_descent(name, mu=mu, train_size=train_size, unit=unit, examples=examples, bounds=bounds)


def train_structure(
    plan: DescentPlan, adjacency: sp.csr_array, graph: Graph, examples: np.ndarray, noise: NoiseSource
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
        sensitivity_multiple=plan.sensitivity,
    )
    left = average_noise_variance(plan.schedule, plan.descent, plan.sensitivity)
    return unit_length(shrink_rows(trained, noise_variance=left, strength=SHRINKAGE))


def check_size(sizes: Sizes) -> None:
    """W, its average, gradient and noise, and the product A W must fit into memory: n x C each."""
    n, C = sizes.nodes, sizes.classes
    require_memory(6 * DOUBLE * n * C, f"the weights of dpdgc, a row for each of {n:,} nodes and {C} classes,")
