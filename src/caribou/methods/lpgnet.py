"""``lpgnet-edp``: LPGNet (Kolluri et al. 2022), sound for an undirected edge.

An MLP on features alone (public at edge level) predicts a class for every node. Each stage then releases, with noise, how many
neighbours of each class every node has. Another MLP is fitted on this and on what the first one said, and predicts the classes
of the next stage.

`votes-edp` counts classes of neighbours, too. It asks every pair once and in one direction, where a stage here asks in both and
T stages ask T times: its noise is 2 T times smaller. And its labelled nodes send their labels, not predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from caribou._validate import MAX_ROUNDS, MAX_WIDTH, integer
from caribou.machine.deferred import deferred_imports
from caribou.methods.edge_method import EncodedMethod, arrays_of, log_probabilities
from caribou.models.encoder import Prior
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import CalibratedCounts
from caribou.privacy.mechanism_records import CountsRecord
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sizes import Sizes

with deferred_imports():
    import numpy as np
    from scipy.special import softmax

    from caribou.graph import Graph
    from caribou.mechanisms.neighbour_counts import NoisyNeighbourCounts
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.methods.base import Outputs, Weights
    from caribou.models.classifier import classify
    from caribou.randomness import Streams


@dataclass(frozen=True, eq=False)
class FirstStage:
    """What the encoder says: ``prior`` out of fold, and its models ``together``. [n, C]"""

    prior: Prior
    together: np.ndarray


@dataclass(frozen=True)
class LpgNet(EncodedMethod):
    """Public settings of ``lpgnet-edp``.

    ``stages`` = T: how often neighbours are counted, each time for an equal share of epsilon. ``hidden``: widths of the hidden
    layers of the first MLP. ``classifier_hidden``: width of each base layer of the others.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    Formal guarantee: the counts of all stages together are budget.epsilon-DP at edge level, with delta = 0 (docs/privacy.md,
    Theorem 12); all else is computed from them and from public values.
    """

    stages: int = 2
    classifier_hidden: int = 64
    name: ClassVar[str] = "lpgnet-edp"

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(at_least=1, at_most=MAX_ROUNDS, stages=self.stages)
        integer(at_least=1, at_most=MAX_WIDTH, classifier_hidden=self.classifier_hidden)

    def release_plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """The counts of all stages, within the whole budget."""
        counts = CalibratedCounts(self.stages, budget.epsilon)
        return ReleasePlan(
            budget,
            (CountsRecord(calibrated=counts),),
            released=("the noisy counts of every stage", "class probabilities of every node"),
            public_parameters={"nodes": sizes.nodes, "classes": sizes.classes, **self.settings()},
            parts={"counts": counts},
        )

    def encoded(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> FirstStage:
        """What the encoder says."""
        prior = self.prior(graph, streams, weights)
        return FirstStage(prior, prior.encoder.probabilities(graph.features))

    def run(
        self,
        plan: ReleasePlan,
        graph: Graph,
        public: FirstStage,
        streams: Streams,
        noise: NoiseSource,
        weights: Weights,
    ) -> Outputs:
        """Stage by stage: count under the classes predicted so far, fit and predict again."""
        counts = NoisyNeighbourCounts(graph, graph.num_classes, plan.parts["counts"], noise.stream("counts"))
        prior, probabilities = public.prior, public.together
        inputs, arrays = [log_probabilities(prior.probabilities)], prior.encoder.to_arrays()
        released: dict[str, np.ndarray] = {}
        for stage in range(1, self.stages + 1):
            released[f"counts_{stage}"] = counts.ask(probabilities.argmax(axis=1))
            inputs = [*inputs, class_shares(released[f"counts_{stage}"])]
            module = self.module(inputs, graph, self.classifier_hidden, streams, weights, f"stage_{stage}.")
            arrays |= arrays_of(module, f"stage_{stage}.")
            probabilities = softmax(classify(module, inputs), axis=1)
        return Outputs(probabilities, released | {"probabilities": probabilities}, arrays)


def class_shares(counts: np.ndarray) -> np.ndarray:
    """Noisy counts as shares of a row: negative ones are 0, a row of zeros stays one. [n, C]

    >>> class_shares(np.array([[3, 1, -2], [0, -1, 0]])).tolist()
    [[0.75, 0.25, 0.0], [0.0, 0.0, 0.0]]
    """
    positive = np.maximum(counts, 0)
    return np.asarray(positive / np.maximum(positive.sum(axis=1, keepdims=True), 1))
