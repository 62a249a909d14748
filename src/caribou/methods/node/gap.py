"""``gap-ndp``: GAP (Sajadmanesh et al. 2023) with everything private, sound for a node with all its data.

Encoder: the private model of `mlp-dp`; its centred logits, at length 1, are Z_0. K noisy sums over neighbours on the graph with
degrees cut to D, every row clipped to a radius before noise. Classifier: a linear model on Z_0 .. Z_K, trained privately.

Changed from the published method: a node's own row of the sums is counted (sqrt(D + r^2), not sqrt(D), which needs the clipping
to r), training is the full-batch descent of `mlp-dp`, without batch normalisation, and validation nodes choose nothing.

Who pays what (PrivacyUnit.NODE; the split, its sizes and the number of classes are public): every node pays the sums; a
**training node** also the Gaussians of encoder and classifier. All Gaussians compose to mu of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import softmax

from caribou._validate import integer, open_unit_interval, positive
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import unit_length
from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Fitted
from caribou.methods.node.mlp import (
    MlpDp,
    apply_model,
    base_model,
    checked_split,
    public_parameters,
    require_node_unit,
)
from caribou.methods.node.shared import (
    calibrate_node_sums,
    centred,
    default_radius,
    fit_linear_head,
    node_certificate,
    side_by_side,
)
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedSums, budget_mu
from caribou.privacy.certificate import (
    Certificate,
    MechanismRecord,
    initial_state_assumption,
    sums_record,
)
from caribou.privacy.events import Event
from caribou.randomness import Streams


@dataclass(frozen=True)
class GapNdp:
    """Public settings of ``gap-ndp``.

    ``hops`` = K. ``degree_cap`` = D: degrees are cut to it. ``radius`` = r: rows of the sums are clipped to it; None =
    `default_radius`. ``sums_share``, ``classifier_share``: shares of mu^2; the rest is the encoder's. ``base``: the encoder, or
    its settings by name.

    Formal guarantee: docs/privacy.md, Theorem 6, for the graph with degrees cut to D.
    """

    hops: int = 1
    degree_cap: int = 20
    radius: float | None = None
    sums_share: float = 0.1
    classifier_share: float = 0.1
    base: MlpDp = field(default_factory=MlpDp)

    def __post_init__(self) -> None:
        integer(at_least=1, hops=self.hops)
        integer(at_least=1, degree_cap=self.degree_cap)
        if self.radius is not None and positive(radius=self.radius) < 1:
            raise InputError(f"radius must be >= 1, the length of one message, got {self.radius!r}")
        object.__setattr__(self, "base", checked_base(self.base))
        check_shares(sums_share=self.sums_share, classifier_share=self.classifier_share)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def fit(self, graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource) -> Fitted:
        """Private encoder, noisy sums, private classifier."""
        checked_split(graph, budget)
        mu = budget_mu(budget)
        left = 1 - self.sums_share - self.classifier_share
        encoder = self.base.fit_base(graph, math.sqrt(left) * mu, streams, noise)
        model = encoder.parameters(self.base.shrinkage)
        start = messages(encoder.logits(self.base.shrinkage))  # Z_0: row i from node i's own data and the encoder
        calibrated = self._calibrate(graph, math.sqrt(self.sums_share) * mu)
        sums = self._aggregate(graph, start, calibrated, streams, noise)
        head, record = fit_linear_head(
            side_by_side([start, *sums]),
            graph,
            mu=math.sqrt(self.classifier_share) * mu,
            train_size=self.base.train_size,
            noise=noise.stream("classifier"),
        )
        records = (*encoder.records, sums_record(calibrated), record)
        groups = {"training nodes": tuple(r.event for r in records), "all other nodes": (calibrated.event,)}
        released = ("the noisy sums of every hop", "weights of the classifier", *encoder.released)
        certificate = self._certificate(graph, budget, records, groups, released, noise)
        return self._fitted(graph, sums, certificate, model | {"classifier": head})

    def cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """What a training node pays, the costliest group: Gaussians that compose to the whole budget."""
        return self.base.cost(graph, budget)

    def release(
        self, weights: Mapping[str, np.ndarray], graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource
    ) -> Fitted:
        """Predict another graph: noisy sums over it are a release about it; encoder and classifier are used as they are."""
        require_node_unit(budget)
        calibrated = self._calibrate(graph, budget_mu(budget))
        sums = self._aggregate(graph, messages(apply_model(weights, graph)), calibrated, streams, noise)
        record = sums_record(calibrated)
        groups = {"every node": (record.event,)}
        certificate = self._certificate(graph, budget, (record,), groups, ("the noisy sums of every hop",), noise)
        return self._fitted(graph, sums, certificate, weights)

    def release_cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """K Gaussian mechanisms within the whole budget."""
        return (self._calibrate(graph, budget_mu(budget)).event,)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities from each node's own features and its rows of the released sums. [n, C]"""
        sums = [released[f"sums_{k}"] for k in range(1, self.hops + 1)]
        rows = side_by_side([messages(apply_model(weights, graph)), *sums])
        return np.asarray(softmax(rows @ weights["classifier"], axis=1))

    # -- its steps -------------------------------------------------------------------------------------------------

    @property
    def _radius(self) -> float:
        return default_radius(self.degree_cap) if self.radius is None else float(self.radius)

    def _calibrate(self, graph: Graph, mu: float) -> CalibratedSums:
        return calibrate_node_sums(graph, mu, degree_cap=self.degree_cap, radius=self._radius, hops=self.hops)

    def _aggregate(
        self, graph: Graph, start: np.ndarray, calibrated: CalibratedSums, streams: Streams, noise: NoiseSource
    ) -> list[np.ndarray]:
        adjacency = bounded_adjacency(graph, self.degree_cap, streams.sampling)
        return noisy_sums(adjacency, start, calibrated, noise.stream("sums"))

    def _fitted(
        self, graph: Graph, sums: list[np.ndarray], certificate: Certificate, weights: Mapping[str, np.ndarray]
    ) -> Fitted:
        released = {f"sums_{k}": s for k, s in enumerate(sums, start=1)}
        return Fitted(self.predict(weights, released, graph), certificate, released, weights)

    def _certificate(
        self,
        graph: Graph,
        budget: Budget,
        records: tuple[MechanismRecord, ...],
        groups: Mapping[str, tuple[Event, ...]],
        released: tuple[str, ...],
        noise: NoiseSource,
    ) -> Certificate:
        return node_certificate(
            budget,
            records,
            groups,
            released=released,
            parameters={**public_parameters(graph, graph.split, self.settings()), "radius": self._radius},
            base=self.base,
            noise=noise,
            further=(initial_state_assumption(PrivacyUnit.NODE),),
        )


# -- shared with dpdgc-ndp -----------------------------------------------------------------------------------------


def checked_base(base: MlpDp | Mapping[str, Any]) -> MlpDp:
    """The encoder, or its settings by name (from the command line). It may not use validation nodes."""
    model = base_model(base)
    if model.choose_shrinkage:
        raise InputError("choose_shrinkage must be False here: validation nodes choose nothing, got True")
    return model


def check_shares(**shares: float) -> None:
    """Shares of mu^2 in (0, 1) that leave something for the encoder."""
    for name, share in shares.items():
        open_unit_interval(**{name: share})
    if not sum(shares.values()) < 1:
        raise InputError(f"{' + '.join(shares)} must be < 1 (the rest is the encoder's), got {sum(shares.values()):g}")


def messages(logits: np.ndarray) -> np.ndarray:
    """Centred logits at length 1. Acts on each row alone. [n, C]"""
    return unit_length(centred(logits))
