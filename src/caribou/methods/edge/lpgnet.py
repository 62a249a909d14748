"""``lpgnet-edp``: LPGNet (Kolluri et al. 2022), sound for an undirected edge.

An MLP on features alone (public at edge level) predicts a class for every node. Each stage then releases, with noise, how many
neighbours of each class every node has. Another MLP is fitted on this and on what the first one said, and predicts the classes
of the next stage.

`votes-edp` counts classes of neighbours, too. It asks every pair once and in one direction, where a stage here asks in both and
T stages ask T times: its noise is 2 T times smaller. And its labelled nodes send their labels, not predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from caribou._validate import integer
from caribou.graph import Graph
from caribou.mechanisms.neighbour_counts import NoisyNeighbourCounts
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs
from caribou.methods.catalogue import require_unit
from caribou.models.classifier import (
    ClassificationModule,
    ClassifierConfig,
    classify,
    fit_classifier,
    module_from_arrays,
)
from caribou.models.encoder import HIDDEN, Encoder, Prior, cross_fit, widths
from caribou.models.objective import Objective
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedCounts
from caribou.privacy.mechanism_records import counts_record
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams


@dataclass(frozen=True)
class LpgNet:
    """Public settings of ``lpgnet-edp``.

    ``stages`` = T: how often neighbours are counted, each time for an equal share of epsilon. ``hidden``: widths of the hidden
    layers of the first MLP. ``classifier_hidden``: width of each base layer of the others.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    Formal guarantee: the counts of all stages together are budget.epsilon-DP at edge level, with delta = 0 (docs/privacy.md,
    Theorem 12); all else is computed from them and from public values.
    """

    stages: int = 2
    hidden: tuple[int, ...] = HIDDEN
    classifier_hidden: int = 64
    metric: str | None = None
    class_weight: str | None = None

    def __post_init__(self) -> None:
        _ = self.objective  # checks its own settings
        integer(at_least=1, stages=self.stages)
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
        """The counts of all stages, within the whole budget."""
        return self._plan(sizes, budget, "lpgnet-edp, fitted")

    def prepare(self, graph: Graph, streams: Streams) -> None:
        """Fit the encoder, which reads public values alone."""
        cross_fit(graph, streams, self.hidden)

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Predict from features, then count and fit, stage by stage."""
        split, labels = graph.for_learning(public=True)
        prior = cross_fit(graph, streams, self.hidden, self.objective)

        def fitted(stage: int, inputs: list[np.ndarray]) -> ClassificationModule:
            return fit_classifier(
                inputs,
                np.array(labels),
                train=split.train,
                val=split.val,
                classes=graph.num_classes,
                config=ClassifierConfig(hidden=self.classifier_hidden),
                seed=streams.model_seed,
                objective=self.objective,
            )

        return self._run_stages(plan, graph, prior, fitted, noise)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """The counts of all stages over another graph, within the budget."""
        return self._plan(sizes, budget, "lpgnet-edp, predicted")

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Predict another graph with the fitted MLPs."""
        encoder = Encoder.from_arrays(weights)
        prior = Prior(encoder.probabilities(graph.features), float("nan"), encoder)
        return self._run_stages(plan, graph, prior, lambda stage, inputs: module_of_stage(weights, stage), noise)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes that the release is about; costs nothing."""
        return released["probabilities"]

    # -- its steps -------------------------------------------------------------------------------------------------

    def _plan(self, sizes: Sizes, budget: Budget, description: str) -> ReleasePlan:
        require_unit(budget, PrivacyUnit.EDGE, "lpgnet-edp")
        counts = CalibratedCounts(self.stages, budget.epsilon)
        return ReleasePlan(
            budget,
            (counts_record(counts),),
            released=("the noisy counts of every stage", "class probabilities of every node"),
            description=description,
            public_parameters={"nodes": sizes.nodes, "classes": sizes.classes, **self.settings()},
            parts={"counts": counts},
        )

    def _run_stages(
        self,
        plan: ReleasePlan,
        graph: Graph,
        prior: Prior,
        module_at: Callable[[int, list[np.ndarray]], ClassificationModule],
        noise: NoiseSource,
    ) -> Outputs:
        """Count under the classes predicted so far, and predict again. ``module_at``: the MLP of a stage, given its inputs."""
        counts = NoisyNeighbourCounts(graph, graph.num_classes, plan.parts["counts"], noise.stream("counts"))
        inputs = [log_probabilities(prior)]
        probabilities = prior.encoder.probabilities(graph.features)
        released: dict[str, np.ndarray] = {}
        weights = prior.encoder.to_arrays()
        for stage in range(1, self.stages + 1):
            released[f"counts_{stage}"] = counts.ask(probabilities.argmax(axis=1))
            inputs = [*inputs, class_shares(released[f"counts_{stage}"])]
            module = module_at(stage, inputs)
            weights |= {f"stage_{stage}.{name}": tensor.numpy() for name, tensor in module.state_dict().items()}
            probabilities = softmax(classify(module, inputs), axis=1)
        return Outputs(probabilities, released | {"probabilities": probabilities}, weights)


def log_probabilities(prior: Prior) -> np.ndarray:
    """What the MLP on features says about every node, out of fold for training nodes. [n, C]"""
    return np.log(np.clip(prior.probabilities, 1e-4, 1))


def module_of_stage(weights: Mapping[str, np.ndarray], stage: int) -> ClassificationModule:
    """The MLP of a stage, from the arrays of a fitted model."""
    prefix = f"stage_{stage}."
    return module_from_arrays({name.removeprefix(prefix): a for name, a in weights.items() if name.startswith(prefix)})


def class_shares(counts: np.ndarray) -> np.ndarray:
    """Noisy counts as shares of a row: negative ones are 0, a row of zeros stays one. [n, C]

    >>> class_shares(np.array([[3, 1, -2], [0, -1, 0]])).tolist()
    [[0.75, 0.25, 0.0], [0.0, 0.0, 0.0]]
    """
    positive = np.maximum(counts, 0)
    return np.asarray(positive / np.maximum(positive.sum(axis=1, keepdims=True), 1))
