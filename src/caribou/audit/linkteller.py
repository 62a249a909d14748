"""LinkTeller: which nodes are joined?

Wu, Long, Zhang and Li, "LinkTeller: Recovering private edges from graph neural networks via influence analysis", IEEE S&P 2022.
The adversary owns the features and may query the model with any; the owner of the model owns the edges. Among all pairs of 500
nodes, `LinkTeller` calls those edges where the output of one node reacts strongest to the features of the other.

The noise of two queries must be equal: divided by the step of 1e-4, fresh noise would hide any leak. So the result says in which
query mode it was found:

- ``cached``: the prediction that was made once answers every query (`Method.predict`). A certificate covers this mode, and a
  transductive service works in it.
- ``fixed``: every query predicts the graph again under the same noise key. Equal noise cancels, so this mode measures the map
  without noise. No certificate covers noise that is used twice: the figure says what that mistake would cost.
- ``fresh``: every query predicts the graph again with new noise. Each query costs its own budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from caribou._validate import integer, one_of, positive
from caribou.audit.attack import Findings, MeasuringAttack, Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.metrics import allowed_rates, summarise
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.methods import Fitted
from caribou.metrics import Scored, area_under_curve, average_precision
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.randomness import Streams

NODES = 500
STEP = 1e-4
ENTRIES = ("all", "half")
CACHED, FIXED, FRESH = QUERY_MODES = ("cached", "fixed", "fresh")
NOTES = {
    CACHED: "all queries were answered from one release, whose noise is therefore the same in all of them",
    FIXED: "every query was a new release under the same noise key, so that the noise of two queries cancels",
    FRESH: "every query was a new release with fresh noise",
}
SMALLEST = 1e-30
"""Smaller probabilities count as this one: their logarithm must be finite."""

Query = Callable[[Any], np.ndarray]
"""A black box: features [n, d] -> posteriors [n, C]."""

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
        graph, budget = audited.own_graph, audited.budget
        modes = possible_modes(tuple(self.query_modes) if self.query_modes else None, budget, audited.refusal)
        found: dict[str, list[Scored]] = {mode: [] for mode in modes}
        for run in self.each_run(terms):
            own, secret = (audited.streams.child(f"linkteller {kind} {run}") for kind in ("run", "noise"))
            fitted = audited.fit(graph, own, secret)
            chosen = draw_nodes(graph, self.nodes, own.attack)
            for mode in modes:
                found[mode].append(self.scored(query_of(mode, audited, fitted, own, secret), graph, chosen))
        headline = preferred_mode(modes, budget)
        result = summarise(
            self.name,
            found[headline],
            allowed=allowed_rates(fitted.certificate.cost if headline == CACHED else None, budget, PrivacyUnit.EDGE),
            details={**self.figures(headline, found), "refused": audited.refusal},
            note=f"LinkTeller on all pairs of {len(chosen)} nodes: {NOTES[headline]}.",
        )
        return Findings({self.name: result})

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

    def figures(self, headline: str, found: Mapping[str, Sequence[Scored]]) -> dict[str, Any]:
        """The settings, and what was found in every query mode, in plain JSON."""
        return {
            "nodes": self.nodes,
            "step": self.step,
            "entries": self.entries,
            "bound_applies": False,
            "query_mode": headline,
            "query_modes": {mode: mode_details(runs) for mode, runs in found.items()},
        }


def draw_nodes(graph: Graph, nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform without replacement; all nodes if there are no more. Sorted. [m]"""
    if graph.num_nodes < 2:
        raise InputError(f"graph must have at least 2 nodes for an attack on pairs, got {graph.num_nodes}")
    return np.sort(rng.choice(np.arange(graph.num_nodes), min(nodes, graph.num_nodes), replace=False))


# -- queries -------------------------------------------------------------------------------------------------------


def query_of(mode: str, audited: AuditedMethod, fitted: Fitted, streams: Streams, secret: Streams) -> Query:
    """A fitted method as a black box. ``streams``: the public randomness of the fit; ``secret``: seeds the noise of queries."""
    graph, queries = audited.own_graph, 0

    def cached(features: Any) -> np.ndarray:
        return audited.method.predict(fitted.weights, fitted.released, replace(graph, features=features))

    def predicted(features: Any) -> np.ndarray:
        nonlocal queries
        queries += 1
        noise = secret.child("query" if mode == FIXED else f"query {queries}")
        return audited.predict(fitted, replace(graph, features=features), streams, noise).probabilities

    return cached if mode == CACHED else predicted


def possible_modes(asked: tuple[str, ...] | None, budget: Budget, refused: str) -> tuple[str, ...]:
    """The modes that were asked for, or all that make sense: without noise, ``fresh`` is ``fixed``.

    ``refused``: why the method predicts no other graph; it then has its one release only.
    """
    if refused:
        return (CACHED,)
    return asked or (QUERY_MODES if budget.is_private else (CACHED, FIXED))


def preferred_mode(modes: tuple[str, ...], budget: Budget) -> str:
    """The mode whose figures are the headline: what the certificate covers, or without privacy one forward pass per query."""
    order = QUERY_MODES if budget.is_private else (FIXED, FRESH, CACHED)
    return next(mode for mode in order if mode in modes)


def logits(posteriors: np.ndarray) -> np.ndarray:
    """log p minus its mean over classes: the input of the softmax, up to a constant per row. [n, C] -> [n, C]"""
    logs = np.log(np.maximum(np.asarray(posteriors, dtype=np.float64), SMALLEST))
    return logs - logs.mean(axis=1, keepdims=True)


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
