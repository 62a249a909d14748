"""``progap-edp`` and ``progap-inf``: ProGAP (Sajadmanesh and Gatica-Perez 2024), sound for an undirected edge.

Stage 0 is an encoder with a head of its own (public at edge level). Stage s sums the embeddings of stage s - 1 over neighbours,
once and with noise, and trains a layer on the sum and a head on the embeddings of all stages. Earlier stages are frozen, and no
sum is made again. What is sent in a later hop is so learned from the hop before; GAP sends the sums on as they are.

Changed from the published method: the noise covers both rows that an edge moves (sensitivity sqrt(2), not 1), and nothing is
batch-normalised. At node level: `caribou.methods.node.progap`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from caribou._validate import integer
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import unit_length
from caribou.mechanisms.neighbour_sums import StagedSums, bounded_adjacency
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs
from caribou.methods.catalogue import require_unit
from caribou.models.classifier import (
    ClassificationModule,
    ClassifierConfig,
    classify,
    embed,
    fit_classifier,
    module_from_arrays,
)
from caribou.models.encoder import HIDDEN, Encoder, cross_fit, widths
from caribou.models.objective import Objective
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu, calibrate_sums
from caribou.privacy.mechanism_records import sums_record
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import sum_sensitivity
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams


@dataclass(frozen=True)
class Progap:
    """Public settings of ``progap-edp`` and, with an infinite budget, of ``progap-inf``.

    ``hops`` = K, the stages after the encoder. ``hidden``: widths of the encoder's hidden layers; the last one is the width of
    the embeddings of every stage.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    Formal guarantee: all K sums together are mu-GDP at edge level with mu of the budget (docs/privacy.md, Theorem 5): the
    embeddings of a stage are computed from earlier sums and from public values, as all else is.
    """

    hops: int = 2
    hidden: tuple[int, ...] = HIDDEN
    metric: str | None = None
    class_weight: str | None = None

    def __post_init__(self) -> None:
        _ = self.objective  # checks its own settings
        integer(at_least=1, hops=self.hops)
        object.__setattr__(self, "hidden", widths(self.hidden))

    @property
    def objective(self) -> Objective:
        """What checkpoints and heads are chosen by, on public labels."""
        return Objective(self.metric, self.class_weight)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self) | {"hidden": list(self.hidden)}

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """K Gaussian mechanisms, which compose to the whole budget."""
        return self._plan(sizes, budget, "progap-edp, fitted")

    def prepare(self, graph: Graph, streams: Streams) -> None:
        """Fit the encoder, which reads public values alone."""
        cross_fit(graph, streams, self.hidden)

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Stage by stage: sum with noise, then train on the sum."""
        split, labels = graph.for_learning(public=True)
        encoder = cross_fit(graph, streams, self.hidden, self.objective).encoder
        start = encoder.embeddings(graph.features)  # Z_0, rows of length 1: public

        def trained(_: int, inputs: list[np.ndarray]) -> ClassificationModule:
            return fit_classifier(
                inputs,
                np.array(labels),
                train=split.train,
                val=split.val,
                classes=graph.num_classes,
                config=ClassifierConfig(hidden=start.shape[1]),
                seed=streams.model_seed,
                objective=self.objective,
            )

        return self._stages(plan, graph, start, encoder.to_arrays(), trained, streams, noise)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """K sums over another graph, within the budget."""
        return self._plan(sizes, budget, "progap-edp, predicted")

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Predict another graph with the stages of a fitted model."""
        encoder = Encoder.from_arrays(weights)

        def fitted(stage: int, _: list[np.ndarray]) -> ClassificationModule:
            prefix = f"stage_{stage}."
            return module_from_arrays({k.removeprefix(prefix): a for k, a in weights.items() if k.startswith(prefix)})

        start = encoder.embeddings(graph.features)
        return self._stages(plan, graph, start, encoder.to_arrays(), fitted, streams, noise)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes that the release is about; costs nothing."""
        return released["probabilities"]

    # -- its steps -------------------------------------------------------------------------------------------------

    def _plan(self, sizes: Sizes, budget: Budget, description: str) -> ReleasePlan:
        require_unit(budget, PrivacyUnit.EDGE, "progap-edp")
        columns = self.hidden[-1] if self.hidden else sizes.classes
        sums = calibrate_sums(
            sum_sensitivity(budget.unit), hops=self.hops, mu=budget_mu(budget), nodes=sizes.nodes, columns=columns
        )
        return ReleasePlan(
            budget,
            (sums_record(sums),),
            released=("the noisy sums of every stage", "class probabilities of every node"),
            description=description,
            public_parameters={**self.settings(), "columns": columns, "classes": sizes.classes},
            parts={"sums": sums},
        )

    def _stages(
        self,
        plan: ReleasePlan,
        graph: Graph,
        start: np.ndarray,
        weights: Mapping[str, np.ndarray],
        module_of: Callable[[int, list[np.ndarray]], ClassificationModule],
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Every stage in its order. ``module_of``: the stage and its inputs -> its layer and head; no edge is read there."""
        sums = StagedSums(bounded_adjacency(graph, None, streams.sampling), plan.parts["sums"], noise.stream("sums"))
        embeddings, weights = [start], dict(weights)
        released: dict[str, np.ndarray] = {}
        for stage in range(1, self.hops + 1):
            released[f"sums_{stage}"] = sums.release(embeddings[-1])
            inputs = [*embeddings, unit_length(released[f"sums_{stage}"])]
            module = module_of(stage, inputs)
            scores = classify(module, inputs)
            embeddings.append(unit_length(embed(module, inputs[-1])))
            weights |= {f"stage_{stage}.{name}": tensor.numpy() for name, tensor in module.state_dict().items()}
        probabilities = np.asarray(softmax(scores, axis=1))
        return Outputs(probabilities, released | {"probabilities": probabilities}, weights)
