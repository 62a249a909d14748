"""LinkTeller: who is joined to whom, from how the output of one node reacts to the features of another.

Wu, Long, Zhang and Li, "LinkTeller: Recovering private edges from graph neural networks via influence analysis", IEEE S&P 2022.
The adversary owns the features and may query the model with any; the owner of the model owns the edges. Of all pairs of 500
nodes, those are called edges where the reaction is strongest.

Noise must not differ between two queries: divided by the step of 1e-4, fresh noise would hide any leak. So the ways of
`caribou.audit.query_modes` are told apart, and the result says which one it is about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou._validate import integer, one_of, positive
from caribou.audit import fits
from caribou.audit.metrics import (
    AttackResult,
    Progress,
    Scored,
    area_under_curve,
    average_precision,
    edge_rates,
    summarise,
    top_scores,
)
from caribou.audit.query_modes import NOTES, WAYS, Query, logits, query_of, refusal
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Method
from caribou.privacy.budget import Budget
from caribou.privacy.events import Event
from caribou.randomness import Streams

NODES = 500
STEP = 1e-4
BELIEFS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The adversary's belief about the density, in units of the true one."""
ENTRIES = ("all", "half")
STRATA = ("all", "low", "high")


@dataclass(frozen=True)
class Setting:
    """``nodes``: how many nodes are drawn; all their pairs are judged. ``step``: Delta, entries of x_v times 1 + Delta.

    ``entries``: "all" of the row, as published, or every other one that is not 0 ("half"). A model that scales rows to one length
    does not feel the former, whatever it leaks; the latter it does. ``stratum``: draw among all nodes, among those with at most
    the median degree ("low"), or above it ("high").
    """

    nodes: int = NODES
    step: float = STEP
    entries: str = "half"
    stratum: str = "all"

    def __post_init__(self) -> None:
        integer(at_least=2, nodes=self.nodes)
        positive(step=self.step)
        one_of(ENTRIES, entries=self.entries)
        one_of(STRATA, stratum=self.stratum)


# -- the attack ----------------------------------------------------------------------------------------------------


def attack(
    method: Method,
    graph: Graph,
    budget: Budget,
    streams: Streams,
    *,
    runs: int,
    progress: Progress | None = None,
    ways: Sequence[str] | None = None,
    setting: Setting | None = None,
) -> AttackResult:
    """Fit ``runs`` times, each with its own coins, noise and node draw, and attack every fit in all ``ways``.

    ``ways`` = None: all three; where there is no noise, ``fresh`` is left out. The headline is the way that the certificate
    covers: ``cached`` for a private budget. Without privacy it is ``fixed``, one forward pass per query, unless the method
    predicts no other graph. All ways are in ``details["ways"]``.
    """
    integer(at_least=1, runs=runs)
    setting = setting or Setting()
    refused = refusal(method, graph, budget)
    ways = possible_ways(ways, budget, refused)
    found: dict[str, list[Scored]] = {way: [] for way in ways}
    strata: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    events: tuple[Event, ...] = ()
    for run in range(runs):
        own, secret = streams.child(f"linkteller run {run}"), streams.child(f"linkteller noise {run}")
        fitted = fits.fit(method, graph, budget, own, NoiseSource.seeded(secret.seed))
        events = fitted.certificate.cost
        chosen = draw_nodes(graph, setting, own.attack)
        for way in ways:
            query = query_of(way, method, fitted, graph, budget, own, secret)
            matrix = influence(query, graph.features, chosen, setting)
            found[way].append(Scored(*pairs_of(matrix, graph, chosen)))
            strata[way].append(by_degree(matrix, graph, chosen))
        if progress is not None:
            progress(run + 1, runs)
    headline = preferred(ways, budget)
    covered = events if headline == "cached" else None
    return summarise(
        "linkteller",
        found[headline],
        allowed=edge_rates(covered, budget),
        details={
            **asdict(setting),
            "way": headline,
            "ways": {way: way_details(found[way], strata[way]) for way in ways},
            "refused": refused,
            "bound_applies": False,
        },
        note=f"LinkTeller on all pairs of {len(chosen)} nodes: {NOTES[headline]}.",
    )


def possible_ways(ways: Sequence[str] | None, budget: Budget, refused: str) -> tuple[str, ...]:
    """What was asked for, or else all that makes sense; a method that predicts no other graph has its one release only."""
    chosen = tuple(ways or (WAYS if budget.is_private else WAYS[:2]))
    for way in chosen:
        one_of(WAYS, way=way)
    return ("cached",) if refused else chosen


def attack_black_box(
    query: Query, graph: Graph, streams: Streams, *, runs: int = 1, setting: Setting | None = None
) -> AttackResult:
    """Attack a model that is reached through its predictions only. ``graph``: features for the queries, edges as the truth."""
    integer(at_least=1, runs=runs)
    setting = setting or Setting()
    found, strata = [], []
    for run in range(runs):
        chosen = draw_nodes(graph, setting, streams.generator(f"linkteller nodes {run}"))
        matrix = influence(query, graph.features, chosen, setting)
        found.append(Scored(*pairs_of(matrix, graph, chosen)))
        strata.append(by_degree(matrix, graph, chosen))
    details = {**asdict(setting), "way": "black box", "ways": {"black box": way_details(found, strata)}}
    return summarise(
        "linkteller",
        found,
        allowed=edge_rates(None, None),
        details={**details, "bound_applies": False},
        note="LinkTeller on a black box: whether its noise is the same in all queries is up to the box.",
    )


def preferred(ways: Sequence[str], budget: Budget) -> str:
    """The way whose figures are the headline."""
    order = WAYS if budget.is_private else ("fixed", "fresh", "cached")
    return next(way for way in order if way in ways)


def draw_nodes(graph: Graph, setting: Setting, rng: np.random.Generator) -> np.ndarray:
    """Uniform without replacement; all nodes of the stratum if there are no more. Sorted. [m]"""
    degrees = graph.degrees
    low = degrees <= np.median(degrees)
    inside = {"all": np.ones(len(degrees), dtype=bool), "low": low, "high": ~low}[setting.stratum]
    candidates = np.flatnonzero(inside)
    if len(candidates) < 2:
        raise InputError(f"stratum must hold at least 2 nodes, got {len(candidates)} in {setting.stratum}")
    return np.sort(rng.choice(candidates, min(setting.nodes, len(candidates)), replace=False))


def influence(query: Query, features: Any, chosen: np.ndarray, setting: Setting) -> np.ndarray:
    """Entry i, j: ||f(X')_u - f(X)_u|| / step for u = chosen[i], v = chosen[j], X' = X with a larger x_v. m + 1 queries. [m, m]

    f: the logits up to a constant per row, from the posteriors.
    """
    before = logits(query(features))[chosen]
    columns = [logits(query(enlarged(features, int(v), setting)))[chosen] - before for v in chosen]
    return np.stack([np.linalg.norm(change, axis=1) / setting.step for change in columns], axis=1)


def enlarged(features: Any, node: int, setting: Setting) -> Any:
    """A copy of the features in which the entries of one row, all or every other, are multiplied by 1 + step."""
    changed = features.copy()
    row = changed.data[changed.indptr[node] : changed.indptr[node + 1]] if sp.issparse(changed) else changed[node]
    which = np.flatnonzero(row)[:: 2 if setting.entries == "half" else 1]
    row[which] *= 1 + setting.step  # a slice of the copy
    return changed


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


def way_details(runs: Sequence[Scored], strata: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of one way to query, as means over runs, in plain JSON."""
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
            name: float(np.mean(known)) if (known := [s[name] for s in strata if s[name] is not None]) else None
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
