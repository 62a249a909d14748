"""LinkTeller: which nodes are joined, from how the output of one node reacts to the features of another.

Wu, Long, Zhang and Li, "LinkTeller: Recovering private edges from graph neural networks via influence analysis", IEEE S&P 2022.
The adversary owns the features and may query the model with any; the owner of the model owns the edges. Among all pairs of 500
nodes, the attack calls those edges whose reaction is strongest.

The noise of two queries must be equal: divided by the step of 1e-4, fresh noise would hide any leak. So the result says to which
of the `caribou.audit.query_modes` it belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from caribou import methods
from caribou._validate import integer, one_of, positive
from caribou.audit.attack import Findings, MeasuringAttack, Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.metrics import AttackResult, edge_rates, summarise
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
        events: tuple[Event, ...] = ()
        for run in self.each_run(terms):
            own, secret = streams.child(f"linkteller run {run}"), streams.child(f"linkteller noise {run}")
            fitted = methods.fit(method, graph, budget, own, NoiseSource.seeded(secret.seed))
            events = fitted.certificate.cost
            chosen = draw_nodes(graph, self.nodes, own.attack)
            for mode in modes:
                query = query_of(mode, method, fitted, graph, budget, own, secret)
                found[mode].append(self.scored(query, graph, chosen))
        headline = preferred_mode(modes, budget)
        result = summarise(
            self.name,
            found[headline],
            allowed=edge_rates(events if headline == CACHED else None, budget),
            details={
                **self._settings(),
                "query_mode": headline,
                "query_modes": {mode: mode_details(found[mode]) for mode in modes},
                "refused": refused,
            },
            note=f"LinkTeller on all pairs of {len(chosen)} nodes: {NOTES[headline]}.",
        )
        return Findings({self.name: result})

    def run_black_box(self, query: Query, graph: Graph, streams: Streams, *, runs: int = 1) -> AttackResult:
        """Attack a model that is reached through predictions only. ``graph``: features for the queries, edges as the truth."""
        integer(at_least=1, runs=runs)
        draws = [streams.generator(f"linkteller nodes {run}") for run in range(runs)]
        found = [self.scored(query, graph, draw_nodes(graph, self.nodes, draw)) for draw in draws]
        return summarise(
            self.name,
            found,
            allowed=edge_rates(None, None),
            details={**self._settings(), "query_mode": BLACK_BOX, "query_modes": {BLACK_BOX: mode_details(found)}},
            note="LinkTeller on a black box: whether its noise is the same in all queries is up to the box.",
        )

    def scored(self, query: Query, graph: Graph, chosen: np.ndarray) -> Scored:
        """The reactions of all pairs of the chosen nodes, and which of them are joined."""
        return Scored(*pairs_of(self.influence(query, graph.features, chosen), graph, chosen))

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


def mode_details(runs: Sequence[Scored]) -> dict[str, Any]:
    """The figures of one query mode, as means over runs, in plain JSON."""
    areas = [area_under_curve(run) for run in runs]
    return {
        "auc": float(np.mean(areas)),
        "auc_of_runs": areas,
        "average_precision": float(np.mean([average_precision(run) for run in runs])),
        "edges": [int(run.members.sum()) for run in runs],
        "pairs": [len(run.members) for run in runs],
        "pairs_with_influence": float(np.mean([(run.scores > 0).mean() for run in runs])),
    }
