"""LiRA: likelihood ratios for edges and nodes, from how outputs differ between runs with a target and runs without it.

After Carlini, Chien, Nasr, Song, Terzis and Tramer, "Membership inference attacks from first principles", IEEE S&P 2022. The
attack has many targets at once: in every run a fair membership bit puts each of them into the graph, or not. Gaussians that are
fitted to one half of the runs judge the other half, target by target, and the reverse; so no run has a part in its own score.
Variances lean on those of the other targets, so that few runs are enough. (Leaving out one run at a time would use more runs per
fit, but biases the AUC below 1/2: the run that is left out is missing from the mean of its own kind.)

The adversary knows everything but the membership bits and the noise: graph, method, settings, and the public seed of the fit,
which is therefore the same in all runs. The attack draws the membership bits, so no true positive rate may exceed what the
certificate allows, up to chance. The unit of the budget decides what is attacked:

- **edge**: targets are edges between nodes of small degree that share no node. The adversary sees the logits of both ends.
- **node**: targets are training nodes, taken out by `Graph.without_node`. The adversary sees the logit-scaled confidence in the
  target's class when the fitted weights predict the whole graph. It sees a method that predicts no other graph through the
  target's neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from caribou._validate import integer
from caribou.audit.attack import Findings, MeasuringAttack, Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.linkteller import SMALLEST, logits
from caribou.audit.metrics import allowed_rates, summarise
from caribou.audit.targets import without_pairs
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.methods import Fitted
from caribou.metrics import Scored
from caribou.privacy.budget import PrivacyUnit
from caribou.randomness import Streams

TARGETS = 50
PRIOR_RUNS = 8.0
"""How many runs the variance of the other targets counts for, beside a target's own."""
SEEN_OF_EDGES = "the published logits of both ends"
SEEN_INSIDE = "the fitted weights' confidence in the target's class, asked about the whole graph"
SEEN_AROUND = "the neighbours' published confidence in the target's class"
MEMBERSHIP = "lira coins"
"""The public stream of the membership bits. The label is part of every recorded result, so it stays."""


@dataclass(frozen=True)
class Lira(MeasuringAttack):
    """The attack; ``targets``: how many edges or nodes are attacked at once."""

    name: ClassVar[str] = "lira"
    default_runs: ClassVar[int] = 16
    least_runs: ClassVar[int] = 8

    targets: int = TARGETS

    def __post_init__(self) -> None:
        integer(at_least=1, targets=self.targets)

    def run(self, audited: AuditedMethod, terms: Terms) -> Findings:
        """Draw the membership bits of every run, fit, and judge every target in every run by the other half of the runs."""
        unit, graph, streams = audited.budget.unit, audited.own_graph, audited.streams
        edges = unit is PrivacyUnit.EDGE
        game = (edge_game if edges else node_game)(graph, self.targets, streams)
        runs = self.wanted_runs(terms)
        members = streams.generator(MEMBERSHIP).random((runs, len(game.targets))) < 0.5
        seen: list[np.ndarray] = []
        for run in self.each_run(terms):
            secret = streams.child(f"lira noise {run}")
            fitted = audited.fit(game.world(members[run]), streams, secret)
            seen.append(game.observe(audited, fitted, secret))
        judged = cross_judged(np.stack(seen), members)
        count = len(game.targets)
        confidence = SEEN_AROUND if audited.refusal else SEEN_INSIDE
        result = summarise(
            self.name,
            judged,
            allowed=allowed_rates(fitted.certificate.cost, audited.budget, unit),
            details={
                "unit": unit.value,
                "targets": count,
                "fits": runs,
                "judged": sum(len(half.scores) for half in judged),
                "seen": SEEN_OF_EDGES if edges else confidence,
                "bound_applies": True,
            },
            note=f"Likelihood ratios of {count} {unit.value}s over {runs} fits, each with fresh noise of its own.",
        )
        return Findings({self.name: result})


# -- the two games -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EdgeGame:
    """``targets``: edges of the graph, no node twice. [m, 2]"""

    graph: Graph
    targets: np.ndarray

    def world(self, present: np.ndarray) -> Graph:
        """The graph without the targets whose membership bit is 0."""
        return without_pairs(self.graph, self.targets[~present].T)

    def observe(self, audited: AuditedMethod, fitted: Fitted, secret: Streams) -> np.ndarray:
        """Published logits of both ends. [m, 2 C]"""
        published = logits(fitted.probabilities)
        return np.concatenate([published[self.targets[:, 0]], published[self.targets[:, 1]]], axis=1)


@dataclass(frozen=True, eq=False)
class NodeGame:
    """``targets``: training nodes of the graph. [m]"""

    graph: Graph
    targets: np.ndarray

    def world(self, present: np.ndarray) -> Graph:
        """The graph without the targets whose membership bit is 0."""
        world = self.graph
        for node in self.targets[~present]:
            world = world.without_node(int(node))
        return world

    def observe(self, audited: AuditedMethod, fitted: Fitted, secret: Streams) -> np.ndarray:
        """Confidence in the target's class: its own by the weights, or the mean of its neighbours. [m, 1]"""
        classes = np.asarray(self.graph.labels)[self.targets]
        if not audited.refusal:
            asked = audited.predict(fitted, self.graph, audited.streams, secret.child("query")).probabilities
            return scaled_confidence(asked[self.targets, classes])[:, None]
        confident = scaled_confidence(fitted.probabilities)
        around = [confident[self.graph.neighbours(int(v)), y] for v, y in zip(self.targets, classes, strict=True)]
        return np.array([[part.mean() if len(part) else 0.0] for part in around])


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


def scaled_confidence(p: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)), finite: close to a Gaussian where p itself is not."""
    return np.log(np.maximum(p, SMALLEST)) - np.log(np.maximum(1 - p, 1e-12))


# -- the likelihood ratio ------------------------------------------------------------------------------------------


def cross_judged(seen: np.ndarray, members: np.ndarray) -> list[Scored]:
    """The scores of the even runs by the odd ones, and the reverse. [R, m, D], [R, m]

    Targets that were in, or out, less than twice in the fitting half are not judged.
    """
    found = []
    for first in (0, 1):
        model = TargetModel.fit(seen[1 - first :: 2], members[1 - first :: 2])
        scores, truth = model.ratios(seen[first::2])[:, model.usable], members[first::2][:, model.usable]
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
    def fit(cls, seen: np.ndarray, members: np.ndarray) -> TargetModel:
        """Means of both kinds; the variance inside them, shrunk towards its mean over the other targets."""
        x = np.asarray(seen, dtype=np.float64)
        weights = [kind[:, :, None].astype(np.float64) for kind in (members, ~members)]
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
