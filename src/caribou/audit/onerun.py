"""One run is enough for a lower bound: many canary edges at once, each there or not by a coin of its own.

The auditor knows everything but the coins (Steinke, Nasr and Jagielski 2023). Canaries are pairs of nodes that share no node with
each other: a labelled node and another one. A score per canary is learned on shadow runs, which the auditor makes with coins of
its own; then the real run is made once, the auditor guesses the coins it is surest of, and right guesses are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from caribou._validate import integer, open_unit_interval
from caribou.audit.bounds import one_run_bound
from caribou.audit.releases import Release
from caribou.audit.scores import Scored
from caribou.audit.separation import discriminant
from caribou.audit.views import View
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise import NoiseSource
from caribou.randomness import Streams, stream_seed

SHADOWS = 3
GUESS_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Which share of the canaries is guessed; chosen on a shadow run, never on the real one."""
MOST_CANARIES = 1000


@dataclass(frozen=True, eq=False)
class OneRun:
    """The outcome: ``correct`` of ``guesses`` coins among ``canaries`` were guessed after one run."""

    canaries: int
    guesses: int
    correct: int
    delta: float
    confidence: float
    epsilon_lower: float
    scored: Scored
    seed: int

    def describe(self) -> str:
        """In one sentence."""
        return (
            f"one run: {self.correct} of {self.guesses} guesses about {self.canaries} canary edges are right, which proves "
            f"epsilon >= {self.epsilon_lower:.3g} at delta = {self.delta:g} and confidence {self.confidence:.4g}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "canaries": self.canaries,
            "guesses": self.guesses,
            "correct": self.correct,
            "epsilon_lower": self.epsilon_lower,
            "confidence": self.confidence,
            "seed": self.seed,
        }


def one_run(
    release: Release,
    graph: Graph,
    *,
    delta: float,
    canaries: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    shadows: int = SHADOWS,
    progress: Callable[[int, int], None] | None = None,
) -> OneRun:
    """Audit ``release`` on ``graph`` with one run (and ``shadows`` runs that the auditor makes to learn its score).

    Assumes: edge level. ``delta`` is the claimed one (0 for a pure claim). Everything follows from ``seed``.
    """
    integer(at_least=2, shadows=shadows)
    open_unit_interval(confidence=confidence)
    streams = Streams(seed)
    base, pairs = plant(graph, canaries, streams.attack)
    played: list[tuple[np.ndarray, np.ndarray]] = []
    for run in range(shadows + 1):
        coins = np.less(streams.generator(f"canary coins {run}").random(pairs.shape[1]), 0.5)
        noise = NoiseSource.seeded(stream_seed(seed, f"canary noise {run}") >> 11)
        view = release(with_canaries(base, pairs[:, coins]), noise)
        played.append((canary_scores(view, pairs, graph), coins))
        if progress:
            progress(run + 1, shadows + 1)
    scores, coins = played[-1]
    direction, sure = _learn(played[:-1], delta, confidence)
    guesses, correct, total = _guess(scores @ direction, coins, sure)
    bound = one_run_bound(correct, guesses, pairs.shape[1], delta, confidence)
    return OneRun(pairs.shape[1], guesses, correct, delta, confidence, bound, Scored(total, coins), seed)


def plant(graph: Graph, canaries: int | None, rng: np.random.Generator) -> tuple[Graph, np.ndarray]:
    """The graph without any of the canary pairs, and the pairs: one end labelled for training, no node twice. [2, m]"""
    if graph.split is None or graph.labels is None:
        raise InputError("graph must have labels and a split to plant canary edges, got none")
    train = rng.permutation(graph.split.train)
    rest = rng.permutation(np.setdiff1d(np.arange(graph.num_nodes), graph.split.train))
    if len(rest) < 2:  # nearly all nodes are for training
        train, rest = train[::2], train[1::2]
    most = min(len(train), len(rest), MOST_CANARIES)
    count = most if canaries is None else min(integer(at_least=1, canaries=canaries), most)
    if count < 1:
        raise InputError(f"graph must have room for a canary edge, got {graph.num_nodes} nodes")
    pairs = np.stack([train[:count], rest[:count]])
    edges = graph.edge_index
    planted = np.sort(pairs, axis=0)
    keys = planted[0] * graph.num_nodes + planted[1]
    kept = ~np.isin(edges.min(axis=0) * graph.num_nodes + edges.max(axis=0), keys)
    return _with_edges(graph, edges[:, kept]), pairs


def with_canaries(graph: Graph, pairs: np.ndarray) -> Graph:
    """The graph with these edges beside its own."""
    return _with_edges(graph, np.concatenate([graph.edge_index, pairs], axis=1))


def _with_edges(graph: Graph, edges: np.ndarray) -> Graph:
    return Graph.from_edges(
        graph.features, edges, labels=graph.labels, split=graph.split, name=graph.name, num_classes=graph.num_classes
    )


def canary_scores(view: View, pairs: np.ndarray, graph: Graph) -> np.ndarray:
    """Per canary: what every released table says about its ends, each alone and crossed with the other's class. [m, k]"""
    u, v = pairs
    labels = np.maximum(np.asarray(graph.labels), 0)
    columns = []
    for array in map(np.asarray, view.values()):
        if array.ndim != 2:
            continue
        if array.dtype.kind in "iu" and array.shape[0] == 2:  # a list of pairs
            listed = np.sort(array, axis=0)
            ends = np.sort(pairs, axis=0)
            columns.append(np.isin(ends[0] * graph.num_nodes + ends[1], listed[0] * graph.num_nodes + listed[1]))
        elif len(array) == graph.num_nodes:
            columns.append((array[u] * array[v]).sum(axis=1))
            if array.shape[1] >= graph.num_classes:
                columns += [array[v, labels[u]], array[u, labels[v]]]
                columns += [array[v, labels[u]] - array[v].mean(axis=1), array[u, labels[v]] - array[u].mean(axis=1)]
    if not columns:
        raise InputError("release must hand out a table with one row per node, or a list of pairs, got neither")
    return np.stack(columns, axis=1).astype(np.float64)


def _learn(
    shadows: Sequence[tuple[np.ndarray, np.ndarray]], delta: float, confidence: float
) -> tuple[np.ndarray, float]:
    """The direction that tells canaries from other pairs on shadow runs; the share of guesses that proves most on the last."""
    scores, coins = shadows[-1]
    inside = np.concatenate([s[c] for s, c in shadows[:-1]])
    outside = np.concatenate([s[~c] for s, c in shadows[:-1]])
    direction = discriminant(outside, inside)

    def proven(share: float) -> float:
        guesses, correct, _ = _guess(scores @ direction, coins, share)
        return one_run_bound(correct, guesses, len(coins), delta, confidence)

    return direction, max(GUESS_SHARES, key=proven)


def _guess(total: np.ndarray, coins: np.ndarray, share: float) -> tuple[int, int, np.ndarray]:
    """The highest scores are guessed to be in, as many lowest to be out. Guesses, right ones, and the scores."""
    each = max(1, round(share * len(coins) / 2))
    order = np.argsort(total, kind="stable")
    low, high = order[:each], order[len(order) - each :]
    return 2 * each, int((~coins[low]).sum() + coins[high].sum()), total
