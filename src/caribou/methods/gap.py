"""GAP (Sajadmanesh et al. 2023) at both units, sound for an undirected edge and for a node with all its data.

``gap-edp``, ``gap-inf``: an encoder (public at edge level), K noisy sums of unit-length embeddings over neighbours, K + 1 base
MLPs, combined, and a head. Changed from the published method: the noise covers both rows that an edge moves (sensitivity
sqrt(2), not 1), and nothing is batch-normalised.

``gap-ndp``: the encoder is the private model of `mlp-dp`; its centred logits, at length 1, are Z_0. Every row of the sums is
clipped to a radius before noise. Classifier: a linear model on Z_0 .. Z_K, trained privately. Changed from the published
method: a node's own row of the sums is counted (sqrt(d + r^2), not sqrt(D), which needs the clipping to r). Every edge is read
by default, so the bound needs no condition on the graph: a node pays for its own degree d, and noise is calibrated for a
declared one. Where degrees are cut to D, what the cut does when a node leaves is counted. Training is the full-batch descent
of `mlp-dp`, without batch normalisation, and validation nodes choose nothing.

Who pays what at node level (the split, its sizes and the number of classes are public): every node pays the sums; a **training
node** also the Gaussians of encoder and classifier. All Gaussians compose to mu of the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from caribou._validate import MAX_ROUNDS, MAX_WIDTH, integer
from caribou.machine.deferred import deferred_imports
from caribou.methods.edge_method import EncodedMethod, Start, arrays_of
from caribou.methods.mlp import applied
from caribou.methods.node_method import (
    StackedMethod,
    fit_linear_head,
    messages,
    plan_head,
    side_by_side,
)
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import CalibratedSums, budget_mu, calibrate_sums
from caribou.privacy.mechanism_records import PARTS, SumsRecord
from caribou.privacy.plan import ReleaseKind, ReleasePlan
from caribou.privacy.sensitivity import sum_sensitivity
from caribou.privacy.sizes import Sizes

with deferred_imports():
    import numpy as np
    from scipy.special import softmax

    from caribou.graph import Graph
    from caribou.mechanisms.bounded_rows import unit_length
    from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.methods.base import Arrays, Outputs, Weights
    from caribou.models.classifier import classify
    from caribou.randomness import Streams


def default_hops(mu: float) -> int:
    """Hops from the budget alone: 1 with noise, 4 without.

    Published are 2 with noise. Every hop is paid for, and the second sends on what noise left of the first; measured, neither
    is clearly better (docs/decisions.md), and one is cheaper.

    >>> default_hops(0.9), default_hops(math.inf)
    (1, 4)
    """
    return 4 if math.isinf(mu) else 1


def plan_sums(method: EncodedMethod, sizes: Sizes, budget: Budget, hops: int, released: str) -> ReleasePlan:
    """K noisy sums of embeddings at edge level: Gaussian mechanisms, which compose to the whole budget."""
    mu, columns = budget_mu(budget), method.columns_of(sizes)
    sums = calibrate_sums(sum_sensitivity(budget.unit), hops=hops, mu=mu, nodes=sizes.nodes, columns=columns)
    return ReleasePlan(
        budget,
        (SumsRecord(calibrated=sums),),
        released=(released, "class probabilities of every node"),
        public_parameters={**method.settings(), "hops": hops, "columns": columns, "classes": sizes.classes},
        parts={"sums": sums},
    )


@dataclass(frozen=True)
class Gap(EncodedMethod):
    """Public settings of ``gap-edp`` and, with an infinite budget, of ``gap-inf``.

    ``hops`` = K; None = `default_hops`. ``hidden``: widths of the encoder's hidden layers; the last one is the message.
    ``classifier_hidden``: width of each base MLP.

    ``metric`` and ``class_weight``: what is best on validation nodes, and what classes weigh in the losses (`Objective`).

    Formal guarantee: all K sums together are mu-GDP at edge level with mu of the budget (docs/privacy.md, Theorem 5); all else
    is computed from them and from public values.
    """

    hops: int | None = None
    classifier_hidden: int = 64
    cross_fitted: ClassVar[bool] = False
    name: ClassVar[str] = "gap-edp"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hops is not None:
            integer(at_least=1, at_most=MAX_ROUNDS, hops=self.hops)
        integer(at_least=1, at_most=MAX_WIDTH, classifier_hidden=self.classifier_hidden)

    def release_plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """K Gaussian mechanisms, which compose to the whole budget."""
        hops = default_hops(budget_mu(budget)) if self.hops is None else self.hops
        return plan_sums(self, sizes, budget, hops, "the noisy sums of every hop")

    def run(
        self, plan: ReleasePlan, graph: Graph, public: Start, streams: Streams, noise: NoiseSource, weights: Weights
    ) -> Outputs:
        """Sum the public embeddings K times with noise, classify."""
        sums = _sums(graph, None, public.rows, plan.parts["sums"], streams, noise)
        inputs = [public.rows, *(unit_length(s) for s in sums)]  # Z_0 .. Z_K, rows of length 1
        module = self.module(inputs, graph, self.classifier_hidden, streams, weights)
        probabilities = softmax(classify(module, inputs), axis=1)
        released = released_sums(sums) | {"probabilities": probabilities}
        return Outputs(probabilities, released, {**public.arrays, **arrays_of(module)})


@dataclass(frozen=True)
class GapNdp(StackedMethod):
    """Public settings of ``gap-ndp``.

    ``hops`` = K. ``declared_degree``: the degree up to which a node gets the headline epsilon; None = the cap, else 100.
    ``degree_cap`` = D: degrees are cut to it; None = every edge is read. ``radius`` = r: rows of the sums are clipped to it;
    None = the root of the declared degree. ``sums_share``, ``classifier_share``: shares of mu^2; the rest is the encoder's.
    ``base``: the encoder, or its settings by name.

    Formal guarantee: docs/privacy.md, Theorems 6 and 9, for every graph, by degree.
    """

    hops: int = 1
    name: ClassVar[str] = "gap-ndp"
    sums_in_words: ClassVar[str] = "the noisy sums of every hop"

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(at_least=1, at_most=MAX_ROUNDS, hops=self.hops)

    @property
    def times(self) -> int:
        """K."""
        return self.hops

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """Gaussians of encoder, sums and classifier, which compose to the whole budget for a training node."""
        mu = self.mu_of(budget)
        left = 1 - self.sums_share - self.classifier_share
        base = self.base.plan_base(sizes, math.sqrt(left) * mu)
        sums = self.calibrate(sizes, math.sqrt(self.sums_share) * mu)
        head = plan_head(sizes, math.sqrt(self.classifier_share) * mu, self.base.train_size)
        return self.planned(
            sizes,
            budget,
            ReleaseKind.FIT,
            (*base.records, SumsRecord(calibrated=sums, payers=PARTS), head.record),
            (self.sums_in_words, "weights of the classifier", *base.released),
            {"base": base, "sums": sums, "head": head},
        )

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Private encoder, noisy sums, private classifier."""
        encoder = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        start = messages(encoder.logits())  # Z_0: row i from node i's own data and the encoder
        sums = _sums(graph, self.degree_cap, start, plan.parts["sums"], streams, noise)
        head = fit_linear_head(plan.parts["head"], side_by_side([start, *sums]), graph, noise.stream("classifier"))
        return self.outputs(graph, released_sums(sums), encoder.parameters | {"classifier": head})

    def predict_graph(
        self, plan: ReleasePlan, weights: Arrays, graph: Graph, streams: Streams, noise: NoiseSource
    ) -> Outputs:
        """Noisy sums over another graph; encoder and classifier are used as they are."""
        start = messages(applied(weights, graph).logits())
        sums = _sums(graph, self.degree_cap, start, plan.parts["sums"], streams, noise)
        return self.outputs(graph, released_sums(sums), weights)

    def predict(self, weights: Arrays, released: Arrays, graph: Graph) -> np.ndarray:
        """Class probabilities from each node's own features and its rows of the released sums. [n, C]"""
        sums = [released[f"sums_{k}"] for k in range(1, self.hops + 1)]
        rows = side_by_side([messages(applied(weights, graph).logits()), *sums])
        return np.asarray(softmax(rows @ weights["classifier"], axis=1))


# -- at both units -------------------------------------------------------------------------------------------------


def _sums(
    graph: Graph,
    degree_cap: int | None,
    start: np.ndarray,
    calibrated: CalibratedSums,
    streams: Streams,
    noise: NoiseSource,
) -> list[np.ndarray]:
    adjacency = bounded_adjacency(graph, degree_cap, streams.sampling)
    return noisy_sums(adjacency, start, calibrated, noise.stream("sums"))


def released_sums(sums: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The sums of every hop, by name."""
    return {f"sums_{k}": s for k, s in enumerate(sums, start=1)}
