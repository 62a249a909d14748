"""``dpdgc-ndp``: DPDGC (Chien et al. 2023) with everything private, sound for a node with all its data. Transductive.

Features: the private model of `mlp-dp`. Structure: W trained privately on rows of A, degrees cut to D, rows at length 1; A W with
every row clipped to a radius and noise. Classifier: a linear model on logits and A W, trained privately.

Changed from the published method: W is bounded in the matrix that is multiplied, and the own row of a node is counted
(Theorem 6); the D + 1 examples that a node is in add up in the training of W, 1 + 1.137 D clips and not sqrt(D + 1)
(Theorem 8); no batch normalisation, and validation nodes choose nothing. Honest noise leaves little of the structure: training W
gets a small share of the budget, and the features carry the result.

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

from caribou._validate import integer, positive
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Fitted
from caribou.methods.edge.dpdgc import ROWS_OF_W, check_size, train_structure, transductive
from caribou.methods.node.gap import (
    check_shares,
    checked_base,
    messages,
)
from caribou.methods.node.mlp import (
    MlpDp,
    apply_model,
    checked_split,
    public_parameters,
    require_node_unit,
)
from caribou.methods.node.shared import (
    calibrate_node_sums,
    default_radius,
    fit_linear_head,
    node_certificate,
    side_by_side,
)
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedSums, budget_mu
from caribou.privacy.certificate import initial_state_assumption, sums_record
from caribou.privacy.events import Event
from caribou.privacy.sensitivity import adjacency_gradient_node_sensitivity
from caribou.randomness import Streams

NODE_TRAINING_THEOREM = (
    "a node is in its own example of softmax(a_i W) and in those of at most D neighbours: the sum of clipped gradients moves by "
    "at most 1 + 1.137 D clips (docs/privacy.md, Theorem 8); T steps are (sqrt(T) / multiplier)-GDP"
)


@dataclass(frozen=True)
class DpdgcNdp:
    """Public settings of ``dpdgc-ndp``.

    ``degree_cap`` = D, ``radius`` = r (None = `default_radius`): as in ``gap-ndp``. ``training_share``, ``sums_share``,
    ``classifier_share``: shares of mu^2 for training W, for A W and for the classifier; the rest is for the features. ``base``:
    the model of the features, or its settings by name.

    Formal guarantee: docs/privacy.md, Theorems 6 and 8, for the graph with degrees cut to D.
    """

    degree_cap: int = 20
    radius: float | None = None
    training_share: float = 0.05
    sums_share: float = 0.05
    classifier_share: float = 0.1
    base: MlpDp = field(default_factory=MlpDp)

    def __post_init__(self) -> None:
        integer(at_least=1, degree_cap=self.degree_cap)
        if self.radius is not None and positive(radius=self.radius) < 1:
            raise InputError(f"radius must be >= 1, the length of one message, got {self.radius!r}")
        object.__setattr__(self, "base", checked_base(self.base))
        check_shares(
            training_share=self.training_share, sums_share=self.sums_share, classifier_share=self.classifier_share
        )

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def fit(self, graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource) -> Fitted:
        """Private features, private W, noisy A W, private classifier."""
        split = checked_split(graph, budget)
        check_size(graph)
        mu = budget_mu(budget)
        left = 1 - self.training_share - self.sums_share - self.classifier_share
        features = self.base.fit_base(graph, math.sqrt(left) * mu, streams, noise)
        adjacency = bounded_adjacency(graph, self.degree_cap, streams.sampling)
        structure, trained = train_structure(
            adjacency,
            graph,
            split.train,
            mu=math.sqrt(self.training_share) * mu,
            sensitivity_multiple=adjacency_gradient_node_sensitivity(degree_cap=self.degree_cap),
            theorem=NODE_TRAINING_THEOREM,
            train_size=split.declared[0] if self.base.train_size is None else self.base.train_size,
            noise=noise.stream("structure"),
        )
        calibrated = self._calibrate(graph, math.sqrt(self.sums_share) * mu)
        (product,) = noisy_sums(adjacency, structure, calibrated, noise.stream("sums"))
        head, record = fit_linear_head(
            side_by_side([messages(features.logits(self.base.shrinkage)), product]),
            graph,
            mu=math.sqrt(self.classifier_share) * mu,
            train_size=self.base.train_size,
            noise=noise.stream("classifier"),
        )
        records = (*features.records, trained, sums_record(calibrated), record)
        groups = {
            "training nodes": tuple(r.event for r in records),
            "all other nodes": (trained.event, calibrated.event),
        }
        certificate = node_certificate(
            budget,
            records,
            groups,
            released=("the weights W", "the noisy product A W", "weights of the classifier", *features.released),
            parameters={**public_parameters(graph, split, self.settings()), "radius": self._radius},
            base=self.base,
            noise=noise,
            further=(initial_state_assumption(PrivacyUnit.NODE), ROWS_OF_W),
        )
        weights = features.parameters(self.base.shrinkage) | {"classifier": head}
        released = {"structure": structure, "product": product}
        return Fitted(self.predict(weights, released, graph), certificate, released, weights)

    def cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """What a training node pays, the costliest group: Gaussians that compose to the whole budget."""
        return self.base.cost(graph, budget)

    def release(
        self, weights: Mapping[str, np.ndarray], graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource
    ) -> NoReturn:
        """Not possible: W has one row per node of the graph it was trained on."""
        require_node_unit(budget)
        raise transductive("dpdgc-ndp")

    def release_cost(self, graph: Graph, budget: Budget) -> NoReturn:
        """Not possible, see `release`."""
        raise transductive("dpdgc-ndp")

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities from each node's own features and its row of the released product. [n, C]"""
        rows = side_by_side([messages(apply_model(weights, graph)), released["product"]])
        return np.asarray(softmax(rows @ weights["classifier"], axis=1))

    @property
    def _radius(self) -> float:
        return default_radius(self.degree_cap) if self.radius is None else float(self.radius)

    def _calibrate(self, graph: Graph, mu: float) -> CalibratedSums:
        return calibrate_node_sums(graph, mu, degree_cap=self.degree_cap, radius=self._radius)
