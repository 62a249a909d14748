"""The posterior-similarity link attack: joined nodes get similar predictions. The baseline that an influence attack must beat.

LSA2-post of He, Jia, Backes, Gong and Zhang, "Stealing links from graph neural networks", USENIX Security 2021, as LinkTeller
uses it: the correlation of two posteriors, centred over the nodes that are attacked. Similar nodes are joined more often
whatever a model reveals, so the same score on the features alone (LSA2-attr) is measured beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou._validate import integer
from caribou.audit import fits
from caribou.audit.linkteller import Setting, draw_nodes, pairs_of
from caribou.audit.metrics import AttackResult, Progress, Scored, area_under_curve, edge_rates, summarise
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Method
from caribou.privacy.budget import Budget
from caribou.privacy.events import Event
from caribou.randomness import Streams


def attack(
    method: Method,
    graph: Graph,
    budget: Budget,
    streams: Streams,
    *,
    runs: int,
    progress: Progress | None = None,
    setting: Setting | None = None,
) -> AttackResult:
    """Fit ``runs`` times, each with its own coins, noise and node draw, and correlate the posteriors of all pairs."""
    integer(at_least=1, runs=runs)
    setting = setting or Setting()
    found: list[Scored] = []
    by_features: list[float] = []
    events: tuple[Event, ...] = ()
    for run in range(runs):
        own, secret = streams.child(f"similarity run {run}"), streams.child(f"similarity noise {run}")
        fitted = fits.fit(method, graph, budget, own, NoiseSource.seeded(secret.seed))
        events = fitted.certificate.cost
        chosen = draw_nodes(graph, setting, own.attack)
        found.append(Scored(*pairs_of(correlations(fitted.probabilities[chosen]), graph, chosen)))
        by_features.append(area_under_curve(Scored(*pairs_of(correlations(graph.features[chosen]), graph, chosen))))
        if progress is not None:
            progress(run + 1, runs)
    return summarise(
        "similarity",
        found,
        allowed=edge_rates(events, budget),
        details={
            "nodes": len(chosen),
            "edges": [int(run.members.sum()) for run in found],
            "auc_of_features": float(np.mean(by_features)),
            "bound_applies": False,
        },
        note=f"Correlation of the published posteriors on all pairs of {len(chosen)} nodes; one release with one noise per run.",
    )


def correlations(rows: Any) -> np.ndarray:
    """Cosine of all pairs of rows, centred by the mean row; a row without length is similar to none. [m, d] -> [m, m]"""
    dense = np.asarray(rows.todense() if sp.issparse(rows) else rows, dtype=np.float64)
    centred = dense - dense.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = np.divide(centred, lengths, out=np.zeros_like(centred), where=lengths > 1e-12)
    return unit @ unit.T
