"""Posterior similarity: joined nodes get similar predictions. The baseline that an influence attack must beat.

LSA2-post of He, Jia, Backes, Gong and Zhang, "Stealing links from graph neural networks", USENIX Security 2021, as LinkTeller
uses it: the correlation of two posteriors, centred over the nodes that are attacked. Similar nodes are joined more often
whatever a model reveals, so the attack also measures the same score on the features alone (LSA2-attr).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from caribou import methods
from caribou._validate import integer
from caribou.audit.attack import Findings, MeasuringAttack, Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.linkteller import NODES, draw_nodes, pairs_of
from caribou.audit.metrics import edge_rates, summarise
from caribou.mechanisms.noise_source import NoiseSource
from caribou.metrics import Scored, area_under_curve
from caribou.privacy.events import Event


@dataclass(frozen=True)
class Similarity(MeasuringAttack):
    """The attack on all pairs of ``nodes`` nodes."""

    name: ClassVar[str] = "similarity"

    nodes: int = NODES

    def __post_init__(self) -> None:
        integer(at_least=2, nodes=self.nodes)

    def run(self, audited: AuditedMethod, terms: Terms) -> Findings:
        """Fit several times, each with public randomness, noise and nodes of its own, and correlate posteriors of all pairs."""
        method, graph, budget, streams = audited.method, audited.own_graph, audited.budget, audited.streams
        found: list[Scored] = []
        by_features: list[float] = []
        events: tuple[Event, ...] = ()
        for run in self.each_run(terms):
            own, secret = streams.child(f"similarity run {run}"), streams.child(f"similarity noise {run}")
            fitted = methods.fit(method, graph, budget, own, NoiseSource.seeded(secret.seed))
            events = fitted.certificate.cost
            chosen = draw_nodes(graph, self.nodes, own.attack)
            found.append(Scored(*pairs_of(correlations(fitted.probabilities[chosen]), graph, chosen)))
            by_features.append(area_under_curve(Scored(*pairs_of(correlations(graph.features[chosen]), graph, chosen))))
        note = f"Correlation of the published posteriors on all pairs of {len(chosen)} nodes; one release with one noise per run."
        result = summarise(
            self.name,
            found,
            allowed=edge_rates(events, budget),
            details={
                "nodes": len(chosen),
                "edges": [int(run.members.sum()) for run in found],
                "auc_of_features": float(np.mean(by_features)),
                "bound_applies": False,
            },
            note=note,
        )
        return Findings({self.name: result})


def correlations(rows: Any) -> np.ndarray:
    """Cosine of all pairs of rows, centred by the mean row; a row without length is similar to none. [m, d] -> [m, m]"""
    dense = np.asarray(rows.todense() if sp.issparse(rows) else rows, dtype=np.float64)
    centred = dense - dense.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = np.divide(centred, lengths, out=np.zeros_like(centred), where=lengths > 1e-12)
    return unit @ unit.T
