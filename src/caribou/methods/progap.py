"""ProGAP (Sajadmanesh and Gatica-Perez 2024) at both units, sound for an undirected edge and for a node with all its data.

``progap-edp``, ``progap-inf``: stage 0 is an encoder with a head of its own (public at edge level). Stage s sums the
embeddings of stage s - 1 over neighbours, once and with noise, and trains a layer on the sum and a head on the embeddings of
all stages. Earlier stages are frozen, and no sum is made again. What is sent in a later hop is so learned from the hop before;
GAP sends the sums on as they are. Changed from the published method: the noise covers both rows that an edge moves
(sensitivity sqrt(2), not 1), and nothing is batch-normalised.

``progap-ndp``: stage 0 is the private model of `mlp-dp`; its centred logits, at length 1, are Z_0. Stage s sums Z_(s-1) with
every row clipped to a radius before the noise, and trains a linear head privately on Z_0 .. Z_(s-1) and the sum. The centred
logits of that head, at length 1, are Z_s. Row i of Z_s is computed from node i's own features, from rows i of the released
sums and from released weights. So it is what Theorem 6 asks of messages, in every stage and not in the first alone. Changed
from the published method: as in `gap-ndp` (`caribou.methods.gap`).

Who pays what at node level (the split, its sizes and the number of classes are public): every node pays the sums; a **training
node** also the Gaussians of the encoder and of the head of every stage. All Gaussians compose to mu of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from caribou._validate import MAX_ROUNDS, integer
from caribou.machine.deferred import deferred_imports
from caribou.methods.edge_method import EncodedMethod, Start, arrays_of
from caribou.methods.gap import plan_sums
from caribou.methods.mlp import applied
from caribou.methods.node_method import (
    StackedMethod,
    fit_linear_head,
    messages,
    plan_head,
    side_by_side,
)
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import CalibratedSums
from caribou.privacy.mechanism_records import PARTS, SumsRecord
from caribou.privacy.plan import ReleaseKind, ReleasePlan
from caribou.privacy.sizes import Sizes

with deferred_imports():
    import numpy as np
    from scipy.special import softmax

    from caribou.graph import Graph
    from caribou.mechanisms.bounded_rows import unit_length
    from caribou.mechanisms.neighbour_sums import StagedSums, bounded_adjacency
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.methods.base import Arrays, Outputs, Weights
    from caribou.models.classifier import classify, embed
    from caribou.randomness import Streams


@dataclass(frozen=True)
class Progap(EncodedMethod):
    """Public settings of ``progap-edp`` and, with an infinite budget, of ``progap-inf``.

    ``hops`` = K, the stages after the encoder. ``hidden``: widths of the encoder's hidden layers; the last one is the width of
    the embeddings of every stage.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    Formal guarantee: all K sums together are mu-GDP at edge level with mu of the budget (docs/privacy.md, Theorem 5): the
    embeddings of a stage are computed from earlier sums and from public values, as all else is.
    """

    hops: int = 2
    name: ClassVar[str] = "progap-edp"

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(at_least=1, at_most=MAX_ROUNDS, hops=self.hops)

    def release_plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """K Gaussian mechanisms, which compose to the whole budget."""
        return plan_sums(self, sizes, budget, self.hops, "the noisy sums of every stage")

    def run(
        self, plan: ReleasePlan, graph: Graph, public: Start, streams: Streams, noise: NoiseSource, weights: Weights
    ) -> Outputs:
        """Stage by stage: sum with noise, then train on the sum; no edge is read there."""
        sums = StagedSums(bounded_adjacency(graph, None, streams.sampling), plan.parts["sums"], noise.stream("sums"))
        embeddings, arrays = [public.rows], dict(public.arrays)
        released: dict[str, np.ndarray] = {}
        for stage in range(1, self.hops + 1):
            released[f"sums_{stage}"] = sums.release(embeddings[-1])
            inputs = [*embeddings, unit_length(released[f"sums_{stage}"])]
            module = self.module(inputs, graph, public.rows.shape[1], streams, weights, f"stage_{stage}.")
            scores = classify(module, inputs)
            embeddings.append(unit_length(embed(module, inputs[-1])))
            arrays |= arrays_of(module, f"stage_{stage}.")
        probabilities = np.asarray(softmax(scores, axis=1))
        return Outputs(probabilities, released | {"probabilities": probabilities}, arrays)


@dataclass(frozen=True)
class ProgapNdp(StackedMethod):
    """Public settings of ``progap-ndp``.

    ``hops`` = K, the stages after the encoder. ``declared_degree``, ``degree_cap`` and ``radius``: as in ``gap-ndp``.
    ``sums_share``, ``classifier_share``: shares of mu^2 for all K sums and for all K heads; the rest is the encoder's.
    ``base``: the encoder, or its settings by name.

    Formal guarantee: docs/privacy.md, Theorems 6 and 9, for every graph, by degree.
    """

    hops: int = 2
    name: ClassVar[str] = "progap-ndp"
    sums_in_words: ClassVar[str] = "the noisy sums of every stage"

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(at_least=1, at_most=MAX_ROUNDS, hops=self.hops)

    @property
    def times(self) -> int:
        """K."""
        return self.hops

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Gaussians of encoder, sums and heads, which compose to the whole budget for a training node."""
        mu = self.mu_of(budget)
        left = 1 - self.sums_share - self.classifier_share
        base = self.base.plan_base(sizes, math.sqrt(left) * mu)
        sums = self.calibrate(sizes, math.sqrt(self.sums_share) * mu)
        each = math.sqrt(self.classifier_share / self.hops) * mu
        heads = tuple(
            plan_head(sizes, each, self.base.train_size, f"training of the head of stage {stage}")
            for stage in range(1, self.hops + 1)
        )
        return self.planned(
            sizes,
            budget,
            ReleaseKind.FIT,
            (*base.records, SumsRecord(calibrated=sums, payers=PARTS), *(head.record for head in heads)),
            (self.sums_in_words, "weights of the head of every stage", *base.released),
            {"base": base, "sums": sums, "heads": heads},
        )

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Private encoder; then stage by stage: sum with noise, private head on the sum."""
        encoder = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        start = messages(encoder.logits())  # Z_0: row i from node i's own data and the encoder

        def trained(stage: int, rows: np.ndarray) -> np.ndarray:
            return fit_linear_head(plan.parts["heads"][stage - 1], rows, graph, noise.stream(f"head of stage {stage}"))

        released, heads = self._stages(graph, start, plan.parts["sums"], trained, streams, noise)
        weights = encoder.parameters | heads
        return self.outputs(graph, released, weights)

    def predict_graph(
        self, plan: ReleasePlan, weights: Arrays, graph: Graph, streams: Streams, noise: NoiseSource
    ) -> Outputs:
        """Noisy sums over another graph; encoder and heads are used as they are."""
        start = messages(applied(weights, graph).logits())
        released, _ = self._stages(graph, start, plan.parts["sums"], lambda s, _: weights[f"head_{s}"], streams, noise)
        return self.outputs(graph, released, weights)

    def predict(self, weights: Arrays, released: Arrays, graph: Graph) -> np.ndarray:
        """Class probabilities from each node's own features and its rows of the released sums. [n, C]"""
        embeddings = [messages(applied(weights, graph).logits())]
        for stage in range(1, self.hops + 1):
            logits = side_by_side([*embeddings, released[f"sums_{stage}"]]) @ weights[f"head_{stage}"]
            embeddings.append(messages(logits))
        return np.asarray(softmax(logits, axis=1))

    # -- its steps -------------------------------------------------------------------------------------------------

    def _stages(
        self,
        graph: Graph,
        start: np.ndarray,
        calibrated: CalibratedSums,
        head_of: Callable[[int, np.ndarray], np.ndarray],
        streams: Streams,
        noise: NoiseSource,
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The sums and heads of every stage, by name. ``head_of``: the stage and its rows -> its head, trained privately."""
        adjacency = bounded_adjacency(graph, self.degree_cap, streams.sampling)
        sums = StagedSums(adjacency, calibrated, noise.stream("sums"))
        embeddings, released, heads = [start], {}, {}
        for stage in range(1, self.hops + 1):
            released[f"sums_{stage}"] = sums.release(embeddings[-1])
            rows = side_by_side([*embeddings, released[f"sums_{stage}"]])
            heads[f"head_{stage}"] = head_of(stage, rows)
            embeddings.append(messages(rows @ heads[f"head_{stage}"]))
        return released, heads
