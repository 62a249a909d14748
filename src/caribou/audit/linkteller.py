"""LinkTeller: which nodes are joined, from how the output of one node reacts to the features of another.

Wu, Long, Zhang and Li, "LinkTeller: Recovering private edges from graph neural networks via influence analysis", IEEE S&P 2022.
The adversary owns the features and may query the model with any; the owner of the model owns the edges. Among all pairs of 500
nodes, the attack calls those edges whose reaction is strongest.

The noise of two queries must be equal: divided by the step of 1e-4, fresh noise would hide any leak. So the result says to which
of the `caribou.audit.query_modes` it belongs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from caribou import methods
from caribou._validate import integer, one_of, positive
from caribou.audit.attack import Findings, MeasuringAttack, Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.metrics import AttackResult, edge_rates, summarise, top_scores
from caribou.audit.query_modes import (
    CACHED,
    NOTES,
    QUERY_MODES,
    Query,
    logits,
    possible_modes,
    preferred_mode,
    query_of,
    refusal,
)
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.metrics import Scored, area_under_curve, average_precision
from caribou.privacy.events import Event
from caribou.randomness import Streams

NODES = 500
STEP = 1e-4
BELIEFS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The adversary's belief about the density, in units of the true one."""
ENTRIES = ("all", "half")
BLACK_BOX = "black box"


# -- the attack ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinkTeller(MeasuringAttack):
    """The attack with its settings.

    Args:
        nodes: how many nodes are drawn; all their pairs are judged.
        step: Delta; entries of x_v are multiplied by 1 + Delta.
        entries: "all" of the row, as published, or every other one that is not 0 ("half"). A model that scales rows to one
            length does not feel the former, whatever it leaks; it feels the latter.
        query_modes: None = all three; without noise, ``fresh`` is left out.
    """

    name: ClassVar[str] = "linkteller"

    nodes: int = NODES
    step: float = STEP
    entries: str = "half"
    query_modes: Sequence[str] | None = None

    def __post_init__(self) -> None:
        integer(at_least=2, nodes=self.nodes)
        positive(step=self.step)
        one_of(ENTRIES, entries=self.entries)
        for mode in self.query_modes or ():
            one_of(QUERY_MODES, query_mode=mode)

    def run(self, audited: AuditedMethod, terms: Terms) -> Findings:
        """Fit several times, each with public randomness, noise and node draw of its own, and query every fit in all modes.

        The headline is the mode that the certificate covers: ``cached`` for a private budget. Without privacy it is ``fixed``,
        one forward pass per query, unless the method predicts no other graph. All modes are in ``details["query_modes"]``.
        """
        method, graph, budget, streams = audited.method, audited.own_graph, audited.budget, audited.streams
        refused = refusal(method, graph, budget)
        modes = possible_modes(tuple(self.query_modes) if self.query_modes else None, budget, refused)
        found: dict[str, list[Scored]] = {mode: [] for mode in modes}
        by_degrees: dict[str, list[dict[str, Any]]] = {mode: [] for mode in modes}
        events: tuple[Event, ...] = ()
        for run in self.each_run(terms):
            own, secret = streams.child(f"linkteller run {run}"), streams.child(f"linkteller noise {run}")
            fitted = methods.fit(method, graph, budget, own, NoiseSource.seeded(secret.seed))
            events = fitted.certificate.cost
            chosen = draw_nodes(graph, self.nodes, own.attack)
            for mode in modes:
                query = query_of(mode, method, fitted, graph, budget, own, secret)
                matrix = self.influence(query, graph.features, chosen)
                found[mode].append(Scored(*pairs_of(matrix, graph, chosen)))
                by_degrees[mode].append(by_degree(matrix, graph, chosen))
        headline = preferred_mode(modes, budget)
        result = summarise(
            self.name,
            found[headline],
            allowed=edge_rates(events if headline == CACHED else None, budget),
            details={
                **self._settings(),
                "query_mode": headline,
                "query_modes": {mode: mode_details(found[mode], by_degrees[mode]) for mode in modes},
                "refused": refused,
            },
            note=f"LinkTeller on all pairs of {len(chosen)} nodes: {NOTES[headline]}.",
        )
        return Findings({self.name: result})

    def run_black_box(self, query: Query, graph: Graph, streams: Streams, *, runs: int = 1) -> AttackResult:
        """Attack a model that is reached through predictions only. ``graph``: features for the queries, edges as the truth."""
        integer(at_least=1, runs=runs)
        found, by_degrees = [], []
        for run in range(runs):
            chosen = draw_nodes(graph, self.nodes, streams.generator(f"linkteller nodes {run}"))
            matrix = self.influence(query, graph.features, chosen)
            found.append(Scored(*pairs_of(matrix, graph, chosen)))
            by_degrees.append(by_degree(matrix, graph, chosen))
        modes = {BLACK_BOX: mode_details(found, by_degrees)}
        return summarise(
            self.name,
            found,
            allowed=edge_rates(None, None),
            details={**self._settings(), "query_mode": BLACK_BOX, "query_modes": modes},
            note="LinkTeller on a black box: whether its noise is the same in all queries is up to the box.",
        )

    def influence(self, query: Query, features: Any, chosen: np.ndarray) -> np.ndarray:
        """Entry i, j: ||f(X')_u - f(X)_u|| / step for u = chosen[i], v = chosen[j], X' = X with a larger x_v. [m, m]

        f: the logits up to a constant per row, from the posteriors. It takes m + 1 queries.
        """
        before = logits(query(features))[chosen]
        columns = [logits(query(self.enlarged(features, int(v))))[chosen] - before for v in chosen]
        return np.stack([np.linalg.norm(change, axis=1) / self.step for change in columns], axis=1)

    def enlarged(self, features: Any, node: int) -> Any:
        """A copy of the features in which the entries of one row, all or every other, are multiplied by 1 + step."""
        changed = features.copy()
        row = changed.data[changed.indptr[node] : changed.indptr[node + 1]] if sp.issparse(changed) else changed[node]
        which = np.flatnonzero(row)[:: 2 if self.entries == "half" else 1]
        row[which] *= 1 + self.step  # a slice of the copy
        return changed

    def _settings(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "step": self.step, "entries": self.entries, "bound_applies": False}


def draw_nodes(graph: Graph, nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform without replacement; all nodes if there are no more. Sorted. [m]"""
    if graph.num_nodes < 2:
        raise InputError(f"graph must have at least 2 nodes for an attack on pairs, got {graph.num_nodes}")
    return np.sort(rng.choice(np.arange(graph.num_nodes), min(nodes, graph.num_nodes), replace=False))


# -- what was found ------------------------------------------------------------------------------------------------


def pairs_of(matrix: np.ndarray, graph: Graph, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and truth of all pairs i < j of the chosen nodes; the score is the reaction at i to j, one direction only."""
    i, j = np.triu_indices(len(chosen), 1)
    joined = np.asarray(graph.adjacency()[chosen][:, chosen].todense()) > 0
    return matrix[i, j], joined[i, j]


def by_degree(matrix: np.ndarray, graph: Graph, chosen: np.ndarray) -> dict[str, Any]:
    """AUC among the chosen nodes of at most the median degree, and among those above it; None without an edge there."""
    degrees = graph.degrees
    low = degrees[chosen] <= np.median(degrees)
    areas: dict[str, Any] = {}
    for name, part in (("low", np.flatnonzero(low)), ("high", np.flatnonzero(~low))):
        scores, joined = pairs_of(matrix[np.ix_(part, part)], graph, chosen[part])
        areas[name] = area_under_curve(Scored(scores, joined)) if joined.any() and not joined.all() else None
    return areas


def mode_details(runs: Sequence[Scored], by_degrees: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of one query mode, as means over runs, in plain JSON."""
    beliefs = [at_beliefs(run) for run in runs]
    return {
        "auc": float(np.mean([area_under_curve(run) for run in runs])),
        "auc_of_runs": [area_under_curve(run) for run in runs],
        "average_precision": float(np.mean([average_precision(run) for run in runs])),
        "edges": [int(run.members.sum()) for run in runs],
        "pairs": [len(run.members) for run in runs],
        "pairs_with_influence": float(np.mean([(run.scores > 0).mean() for run in runs])),
        "at_belief": {
            belief: {name: float(np.mean([b[belief][name] for b in beliefs])) for name in beliefs[0][belief]}
            for belief in beliefs[0]
        },
        "auc_by_degree": {
            name: float(np.mean(known))
            if (known := [each[name] for each in by_degrees if each[name] is not None])
            else None
            for name in ("low", "high")
        },
    }


def at_beliefs(scored: Scored) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of the top ceil(k_hat pairs), k_hat = k/4 .. 4k, k = the density to one significant digit."""
    pairs = len(scored.members)
    density = one_digit(float(scored.members.mean()))
    found = {}
    for belief in BELIEFS:
        top = top_scores(scored, math.ceil(min(1.0, belief * density) * pairs))
        found[f"{belief:g}k"] = {
            "precision": top.precision,
            "recall": top.recall,
            "f1": top.f1,
            "hits": float(top.hits),
        }
    return found


def one_digit(x: float) -> float:
    """Rounded to one significant digit.

    >>> one_digit(0.00147), one_digit(0.0996)
    (0.001, 0.1)
    """
    return float(f"{x:.0e}")
