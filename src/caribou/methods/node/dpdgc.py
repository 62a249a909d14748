"""``dpdgc-ndp``: DPDGC (Chien et al. 2023) with everything private, sound for a node with all its data. Transductive.

Features: the private model of `mlp-dp`. Structure: W trained privately on rows of A, rows at length 1; A W with every row clipped
to a radius and noise. Classifier: a linear model on logits and A W, trained privately.

Changed from the published method: W is bounded in the matrix that is multiplied, and the own row of a node is counted (Theorem
6); the d + 1 examples that a node is in add up in the training of W, 1 + 1.137 d clips and not sqrt(D + 1) (Theorem 8); every
edge is read by default, and noise is calibrated for a declared degree (Theorem 9); no batch normalisation, and validation nodes
choose nothing. Honest noise leaves little of the structure: training W gets a small share of the budget, and the features carry
the result.

Who pays what (PrivacyUnit.NODE; the split, its sizes and the number of classes are public): every node pays for W (it is in its
neighbours' rows) and for A W; a **training node** also the Gaussians of features and classifier. All compose to mu of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

import numpy as np
from scipy.special import softmax

from caribou.graph import Graph
from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs
from caribou.methods.catalogue import require_unit
from caribou.methods.edge.dpdgc import RELEASED_WEIGHTS, check_size, plan_structure, train_structure, transductive
from caribou.methods.node.mlp import MlpDp, apply_model, node_assumptions, public_parameters
from caribou.methods.node.shared import (
    calibrate_node_sums,
    check_degrees,
    check_radius,
    check_shares,
    checked_base,
    fit_linear_head,
    messages,
    node_bounds,
    plan_head,
    side_by_side,
)
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedSums, budget_mu
from caribou.privacy.mechanism_records import PARTS, sums_record
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import Bounds
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams


@dataclass(frozen=True)
class DpdgcNdp:
    """Public settings of ``dpdgc-ndp``.

    ``declared_degree``, ``degree_cap`` and ``radius``: as in ``gap-ndp``. ``training_share``, ``sums_share``,
    ``classifier_share``: shares of mu^2 for training W, for A W and for the classifier; the rest is for the features. ``base``:
    the model of the features, or its settings by name.

    Formal guarantee: docs/privacy.md, Theorems 6, 8 and 9, for every graph, by degree.
    """

    declared_degree: int | None = None
    degree_cap: int | None = None
    radius: float | None = None
    training_share: float = 0.05
    sums_share: float = 0.05
    classifier_share: float = 0.1
    base: MlpDp = field(default_factory=MlpDp)

    def __post_init__(self) -> None:
        check_degrees(self.degree_cap, self.declared_degree)
        check_radius(self.radius)
        object.__setattr__(self, "base", checked_base(self.base, "validation nodes choose nothing"))
        check_shares(
            training_share=self.training_share, sums_share=self.sums_share, classifier_share=self.classifier_share
        )

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Gaussians of features, W, A W and classifier, which compose to the whole budget for a training node."""
        require_unit(budget, PrivacyUnit.NODE, "dpdgc-ndp")
        mu = budget_mu(budget)
        left = 1 - self.training_share - self.sums_share - self.classifier_share
        base = self.base.plan_base(sizes, math.sqrt(left) * mu)
        structure = plan_structure(
            PrivacyUnit.NODE,
            mu=math.sqrt(self.training_share) * mu,
            train_size=sizes.train if self.base.train_size is None else self.base.train_size,
            bounds=self._bounds(sizes),
        )
        sums = self._calibrate(sizes, math.sqrt(self.sums_share) * mu)
        head = plan_head(sizes, math.sqrt(self.classifier_share) * mu, self.base.train_size)
        return ReleasePlan(
            budget,
            (*base.records, structure.record, sums_record(sums, PARTS), head.record),
            released=("the weights W", "the noisy product A W", "weights of the classifier", *base.released),
            description="dpdgc-ndp, fitted",
            public_parameters=public_parameters(sizes, self.settings()),
            assumptions=(*node_assumptions(self.base), RELEASED_WEIGHTS),
            parts={"base": base, "structure": structure, "sums": sums, "head": head},
        )

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Private features, private W, noisy A W, private classifier."""
        check_size(graph)
        features = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        adjacency = bounded_adjacency(graph, self.degree_cap, streams.sampling)
        examples = graph.for_learning()[0].train
        structure = train_structure(plan.parts["structure"], adjacency, graph, examples, noise.stream("structure"))
        (product,) = noisy_sums(adjacency, structure, plan.parts["sums"], noise.stream("sums"))
        rows = side_by_side([messages(features.logits(self.base.shrinkage)), product])
        head = fit_linear_head(plan.parts["head"], rows, graph, noise.stream("classifier"))
        weights = features.parameters(self.base.shrinkage) | {"classifier": head}
        released = {"structure": structure, "product": product}
        return Outputs(self.predict(weights, released, graph), released, weights)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> NoReturn:
        """Not possible: W has one row per node of the graph it was trained on."""
        require_unit(budget, PrivacyUnit.NODE, "dpdgc-ndp")
        raise transductive("dpdgc-ndp")

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> NoReturn:
        """Not possible, see `plan_graph`."""
        raise transductive("dpdgc-ndp")

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities from each node's own features and its row of the released product. [n, C]"""
        rows = side_by_side([messages(apply_model(weights, graph)), released["product"]])
        return np.asarray(softmax(rows @ weights["classifier"], axis=1))

    def _bounds(self, sizes: Sizes) -> Bounds:
        return node_bounds(sizes, self.degree_cap, self.declared_degree)

    def _calibrate(self, sizes: Sizes, mu: float) -> CalibratedSums:
        return calibrate_node_sums(sizes, mu, bounds=self._bounds(sizes), radius=self.radius)
