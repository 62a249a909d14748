"""Likelihood ratios for edges and nodes: how the output about one target differs between runs with it and runs without it.

After Carlini, Chien, Nasr, Song, Terzis and Tramer, "Membership inference attacks from first principles", IEEE S&P 2022. Many
targets are attacked at once: in every run each of them is in the graph by a fair coin of its own. One half of the runs is judged,
target by target, with Gaussians that were fitted to the other half, and the reverse; so no run has a part in its own verdict.
Variances are steadied by those of the other targets, so that few runs are enough. (Leaving out one run at a time would use more
runs per fit, but biases the AUC below 1/2: what is left out is missing from the mean of its own kind.)

The adversary knows everything but the coins and the noise: graph, method, settings, and the public coins of the fit, which are
therefore the same in all runs. Membership is decided by coins, so no true positive rate may exceed what the certificate allows,
up to chance. The unit of the budget decides what is attacked:

- **edge**: targets are edges between nodes of small degree, no two of which share a node; seen are the logits of both ends.
- **node**: targets are training nodes, taken out by `Graph.without_node`; seen is the logit-scaled confidence in the target's
  class when the fitted weights are asked about the whole graph (`Method.release`). A method that predicts no other graph is seen
  through the target's neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from caribou._validate import integer
from caribou.audit import fits
from caribou.audit.metrics import AttackResult, Progress, Scored, edge_rates, node_rates, summarise
from caribou.audit.query_modes import SMALLEST, logits, refusal
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Fitted, Method
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.events import Event
from caribou.randomness import Streams

TARGETS = 50
MIN_RUNS = 8
PRIOR_RUNS = 8.0
"""How many runs the variance of the other targets counts for, beside a target's own."""


def attack(
    method: Method,
    graph: Graph,
    budget: Budget,
    streams: Streams,
    *,
    runs: int,
    progress: Progress | None = None,
    targets: int = TARGETS,
) -> AttackResult:
    """Fit ``runs`` times with every target in or out by its coin, and judge every target in every run by the other half."""
    integer(at_least=MIN_RUNS, runs=runs)
    integer(at_least=1, targets=targets)
    game = edge_game(graph, targets, streams) if budget.unit is PrivacyUnit.EDGE else node_game(graph, targets, streams)
    inductive = not refusal(method, graph, budget)
    coins = streams.generator("lira coins").random((runs, len(game.targets))) < 0.5
    seen: list[np.ndarray] = []
    events: tuple[Event, ...] = ()
    for run in range(runs):
        world = game.world(coins[run])
        secret = streams.child(f"lira noise {run}")
        fitted = fits.fit(method, world, budget, streams, NoiseSource.seeded(secret.seed))
        events = fitted.certificate.cost
        seen.append(game.observe(method, fitted, budget, streams, secret, inductive))
        if progress is not None:
            progress(run + 1, runs)
    judged = cross_judged(np.stack(seen), coins)
    edges = budget.unit is PrivacyUnit.EDGE
    return summarise(
        "lira",
        judged,
        allowed=edge_rates(events, budget) if edges else node_rates(events, budget),
        details={
            "unit": budget.unit.value,
            "targets": len(game.targets),
            "fits": runs,
            "judged": sum(len(half.scores) for half in judged),
            "seen": game.words(inductive),
            "bound_applies": True,
        },
        note=f"Likelihood ratios of {len(game.targets)} {budget.unit.value}s over {runs} fits, each with fresh noise of its own.",
    )


# -- the two games -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EdgeGame:
    """``targets``: edges of the graph, no node twice. [m, 2]"""

    graph: Graph
    targets: np.ndarray

    def world(self, present: np.ndarray) -> Graph:
        """The graph without the targets whose coin says so."""
        return without_edges(self.graph, self.targets[~present])

    def observe(
        self, method: Method, fitted: Fitted, budget: Budget, streams: Streams, secret: Streams, inductive: bool
    ) -> np.ndarray:
        """Published logits of both ends. [m, 2 C]"""
        published = logits(fitted.probabilities)
        return np.concatenate([published[self.targets[:, 0]], published[self.targets[:, 1]]], axis=1)

    def words(self, inductive: bool) -> str:
        """What the adversary looks at."""
        return "the published logits of both ends"


@dataclass(frozen=True, eq=False)
class NodeGame:
    """``targets``: training nodes of the graph. [m]"""

    graph: Graph
    targets: np.ndarray

    def world(self, present: np.ndarray) -> Graph:
        """The graph without the targets whose coin says so."""
        world = self.graph
        for node in self.targets[~present]:
            world = world.without_node(int(node))
        return world

    def observe(
        self, method: Method, fitted: Fitted, budget: Budget, streams: Streams, secret: Streams, inductive: bool
    ) -> np.ndarray:
        """Confidence in the target's class: its own by the weights, or the mean of its neighbours. [m, 1]"""
        classes = np.asarray(self.graph.labels)[self.targets]
        if inductive:
            noise = NoiseSource.seeded(secret.child("query").seed)
            asked = fits.predict_graph(method, fitted.weights, self.graph, budget, streams, noise).probabilities
            return scaled_confidence(asked[self.targets, classes])[:, None]
        confident = scaled_confidence(fitted.probabilities)
        around = [confident[self.graph.neighbours(int(v)), y] for v, y in zip(self.targets, classes, strict=True)]
        return np.array([[part.mean() if len(part) else 0.0] for part in around])

    def words(self, inductive: bool) -> str:
        """What the adversary looks at."""
        own = "the fitted weights' confidence in the target's class, asked about the whole graph"
        return own if inductive else "the neighbours' published confidence in the target's class"


def edge_game(graph: Graph, targets: int, streams: Streams) -> EdgeGame:
    """Edges between nodes of small degree first, where one neighbour weighs most; equal ones at random."""
    rows, columns = graph.edge_index
    pairs = np.stack([rows, columns], axis=1)[rows < columns]
    pairs = streams.generator("lira targets").permutation(pairs)
    weight = graph.degrees[pairs].max(axis=1)
    chosen: list[np.ndarray] = []
    used: set[int] = set()
    for pair in pairs[np.argsort(weight, kind="stable")]:
        if len(chosen) == targets:
            break
        if used.isdisjoint(pair.tolist()):
            chosen.append(pair)
            used.update(pair.tolist())
    if not chosen:
        raise InputError(f"graph must have an edge to attack, got {graph!r} without")
    return EdgeGame(graph, np.stack(chosen))


def node_game(graph: Graph, targets: int, streams: Streams) -> NodeGame:
    """Random training nodes, at most half of them: the others keep the model alive."""
    train = graph.for_learning()[0].train
    order = streams.generator("lira targets").permutation(train)
    return NodeGame(graph, np.sort(order[: min(targets, max(1, len(train) // 2))]))


def without_edges(graph: Graph, pairs: np.ndarray) -> Graph:
    """The graph without these edges, each given once. [k, 2]"""
    n = graph.num_nodes
    rows, columns = graph.edge_index
    gone = np.concatenate([pairs[:, 0] * n + pairs[:, 1], pairs[:, 1] * n + pairs[:, 0]])
    keep = ~np.isin(rows * n + columns, gone)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[keep], minlength=n))])
    return replace(graph, indptr=indptr, indices=graph.indices[keep])


def scaled_confidence(p: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)), finite: close to a Gaussian where p itself is not."""
    return np.log(np.maximum(p, SMALLEST)) - np.log(np.maximum(1 - p, 1e-12))


# -- the likelihood ratio ------------------------------------------------------------------------------------------


def cross_judged(seen: np.ndarray, coins: np.ndarray) -> list[Scored]:
    """The scores of the even runs by the odd ones, and the reverse. [R, m, D], [R, m]

    Targets that were in, or out, less than twice in the fitting half are not judged.
    """
    found = []
    for first in (0, 1):
        model = TargetModel.fit(seen[1 - first :: 2], coins[1 - first :: 2])
        scores, truth = model.ratios(seen[first::2])[:, model.usable], coins[first::2][:, model.usable]
        found.append(Scored(scores.ravel(), truth.ravel()))
    return found


@dataclass(frozen=True, eq=False)
class TargetModel:
    """Two Gaussians per target with one variance per column: mean with the target, mean without it. [m, D] each; usable: [m]"""

    inside: np.ndarray
    outside: np.ndarray
    variance: np.ndarray
    usable: np.ndarray

    @classmethod
    def fit(cls, seen: np.ndarray, coins: np.ndarray) -> TargetModel:
        """Means of both kinds; the variance inside them, shrunk towards its mean over the other targets."""
        x = np.asarray(seen, dtype=np.float64)
        weights = [kind[:, :, None].astype(np.float64) for kind in (coins, ~coins)]
        counts = [w.sum(axis=0) for w in weights]
        inside, outside = ((w * x).sum(axis=0) / np.maximum(n, 1) for w, n in zip(weights, counts, strict=True))
        squares = (weights[0] * (x - inside) ** 2 + weights[1] * (x - outside) ** 2).sum(axis=0)
        freedom = max(len(x) - 2, 1)
        own, m = squares / freedom, x.shape[1]
        others = own if m == 1 else (own.sum(axis=0) - own) / (m - 1)
        variance = (freedom * own + PRIOR_RUNS * others) / (freedom + PRIOR_RUNS)
        smallest = 1e-12 * (1 + np.abs(x).max())  # runs without noise may agree to the last bit
        return cls(inside, outside, np.maximum(variance, smallest), (np.minimum(*counts) >= 2)[:, 0])

    def ratios(self, seen: np.ndarray) -> np.ndarray:
        """log N(x; inside, variance) - log N(x; outside, variance), added up over columns. [R, m, D] -> [R, m]"""
        middle = (self.inside + self.outside) / 2
        return np.asarray(((self.inside - self.outside) * (seen - middle) / self.variance).sum(axis=2))
