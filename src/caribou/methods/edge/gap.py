"""``gap-edp`` and ``gap-inf``: GAP (Sajadmanesh et al. 2023), sound for an undirected edge.

Encoder (public at edge level), K noisy sums of unit-length embeddings over neighbours, K + 1 base MLPs, combined, and a head.
Changed from the published method: the noise covers both rows that an edge moves (sensitivity sqrt(2), not 1), and nothing is
batch-normalised. At node level: `caribou.methods.node.gap`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from caribou._validate import integer
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import unit_length
from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs
from caribou.methods.catalogue import require_unit
from caribou.models.classifier import ClassifierConfig, classify, fit_classifier, module_from_arrays
from caribou.models.encoder import HIDDEN, Encoder, fit_one, widths
from caribou.models.objective import Objective
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedSums, budget_mu, calibrate_sums
from caribou.privacy.mechanism_records import sums_record
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import sum_sensitivity
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams


def default_hops(mu: float) -> int:
    """Hops from the budget alone: 1 with noise, 4 without.

    Published are 2 with noise. Every hop is paid for, and the second sends on what noise left of the first; measured, neither
    is clearly better (docs/decisions.md), and one is cheaper.

    >>> default_hops(0.9), default_hops(math.inf)
    (1, 4)
    """
    return 4 if math.isinf(mu) else 1


@dataclass(frozen=True)
class Gap:
    """Public settings of ``gap-edp`` and, with an infinite budget, of ``gap-inf``.

    ``hops`` = K; None = `default_hops`. ``hidden``: widths of the encoder's hidden layers; the last one is the message.
    ``classifier_hidden``: width of each base MLP.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    Formal guarantee: all K sums together are mu-GDP at edge level with mu of the budget (docs/privacy.md, Theorem 5); all else is
    computed from them and from public values.
    """

    hops: int | None = None
    hidden: tuple[int, ...] = HIDDEN
    classifier_hidden: int = 64
    metric: str | None = None
    class_weight: str | None = None

    def __post_init__(self) -> None:
        _ = self.objective  # checks its own settings
        if self.hops is not None:
            integer(at_least=1, hops=self.hops)
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
        """K Gaussian mechanisms, which compose to the whole budget."""
        return self._plan(sizes, budget, "gap-edp, fitted")

    def prepare(self, graph: Graph, streams: Streams) -> None:
        """Fit the encoder, which reads public values alone."""
        fit_one(graph, streams, self.hidden)

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Encode, sum K times with noise, classify."""
        split, labels = graph.for_learning(public=True)
        encoder = fit_one(graph, streams, self.hidden, self.objective).encoder
        start = encoder.embeddings(graph.features)  # Z_0, rows of length 1: public
        sums = self._aggregate(graph, start, plan.parts["sums"], streams, noise)
        module = fit_classifier(
            classifier_inputs(start, sums),
            np.array(labels),
            train=split.train,
            val=split.val,
            classes=graph.num_classes,
            config=ClassifierConfig(hidden=self.classifier_hidden),
            seed=streams.model_seed,
            objective=self.objective,
        )
        arrays = {f"module.{name}": tensor.numpy() for name, tensor in module.state_dict().items()}
        return self._outputs(start, sums, encoder.to_arrays() | arrays)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """K sums over another graph, within the budget."""
        return self._plan(sizes, budget, "gap-edp, predicted")

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Predict another graph with a fitted model."""
        start = Encoder.from_arrays(weights).embeddings(graph.features)
        return self._outputs(start, self._aggregate(graph, start, plan.parts["sums"], streams, noise), weights)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes that the release is about; costs nothing."""
        return released["probabilities"]

    # -- its steps -------------------------------------------------------------------------------------------------

    def _plan(self, sizes: Sizes, budget: Budget, description: str) -> ReleasePlan:
        require_unit(budget, PrivacyUnit.EDGE, "gap-edp")
        mu = budget_mu(budget)
        hops = default_hops(mu) if self.hops is None else self.hops
        columns = self.hidden[-1] if self.hidden else sizes.classes
        sums = calibrate_sums(sum_sensitivity(budget.unit), hops=hops, mu=mu, nodes=sizes.nodes, columns=columns)
        return ReleasePlan(
            budget,
            (sums_record(sums),),
            released=("the noisy sums of every hop", "class probabilities of every node"),
            description=description,
            public_parameters={**self.settings(), "hops": hops, "columns": columns, "classes": sizes.classes},
            parts={"sums": sums},
        )

    def _aggregate(
        self, graph: Graph, start: np.ndarray, calibrated: CalibratedSums, streams: Streams, noise: NoiseSource
    ) -> list[np.ndarray]:
        adjacency = bounded_adjacency(graph, None, streams.sampling)
        return noisy_sums(adjacency, start, calibrated, noise.stream("sums"))

    def _outputs(self, start: np.ndarray, sums: list[np.ndarray], weights: Mapping[str, np.ndarray]) -> Outputs:
        arrays = {name.removeprefix("module."): a for name, a in weights.items() if name.startswith("module.")}
        probabilities = softmax(classify(module_from_arrays(arrays), classifier_inputs(start, sums)), axis=1)
        released = {f"sums_{k}": s for k, s in enumerate(sums, start=1)}
        return Outputs(probabilities, released | {"probabilities": probabilities}, weights)


def classifier_inputs(start: np.ndarray, sums: list[np.ndarray]) -> list[np.ndarray]:
    """Z_0 .. Z_K, rows of length 1. [n, d] each"""
    return [start, *(unit_length(s) for s in sums)]
