"""The graph privacy auditing game (the paper's Definition): challenger, membership bit, adversary.

1. The challenger trains on a graph (transductive), or on a part of its nodes (inductive).
2. It draws a membership bit: 1, a point that was used in training; 0, a fresh one that was not.
3. The adversary gets the point and query access to the model, and answers with a score: the larger, the surer of 1.

A point is an edge or a node, by the privacy unit. The game takes any `Method` (`of_method`), and anything else that trains on a
graph and answers with class probabilities (`Trainer`): the adversary never sees more than answers to its questions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from caribou._validate import integer
from caribou.audit import fits
from caribou.audit.targets import without_edges
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Method
from caribou.metrics import Scored
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.randomness import Streams

Model = Callable[[Graph], np.ndarray]
"""A trained model, reached through questions: class probabilities of every node of a graph. [n, C]"""
Trainer = Callable[[Graph], Model]
"""The challenger's training algorithm."""


@dataclass(frozen=True, eq=False)
class Challenge:
    """What the adversary gets: the point (a node, or two nodes) and the graph to ask about.

    ``graph``: at edge level the nodes, features, labels and split, with no edge at all (edges are what is secret); at node
    level the graph of the nodes that the adversary may ask about.
    """

    point: tuple[int, ...]
    graph: Graph


class Adversary(Protocol):
    """Guesses the membership bit."""

    def __call__(self, challenge: Challenge, model: Model) -> float:
        """A score; larger where the point is believed to have been used in training."""
        ...


@dataclass(frozen=True, eq=False)
class Game:
    """The game on one ``graph`` at a privacy ``unit``, with a public ``seed``.

    ``inductive``: the model is trained on half of the nodes, fresh nodes come from the other half.

    At edge level a used point is an edge, a fresh one a pair that is not joined. At node level a used point is a training node; a
    fresh one is a test node (transductive), or a node of the half that was never seen (inductive).

    >>> from caribou.datasets import load
    >>> graph = load("csbm:nodes=60", seed=1)
    >>> game = Game(graph, PrivacyUnit.EDGE)
    >>> features_alone = lambda seen: lambda asked: np.full((asked.num_nodes, asked.num_classes), 1 / asked.num_classes)
    >>> likeness = lambda challenge, model: float(model(challenge.graph)[list(challenge.point)].prod(axis=0).sum())
    >>> scored = game.play(features_alone, likeness, rounds=20)
    >>> len(scored.scores), len(set(scored.scores))
    (20, 1)
    """

    graph: Graph
    unit: PrivacyUnit
    inductive: bool = False
    seed: int = 0

    def play(self, train: Trainer, adversary: Adversary, *, rounds: int, models: int = 1) -> Scored:
        """``rounds`` challenges over ``models`` trained models; one score per challenge, for `caribou.audit.metrics`."""
        rounds, models = integer(at_least=2, rounds=rounds), integer(at_least=1, models=models)
        rng = Streams(self.seed).generator("auditing game")
        scores: list[float] = []
        members: list[bool] = []
        for number in range(models):
            seen = self._training_graph(rng)
            model = train(seen)
            for _ in range(rounds // models + (number < rounds % models)):
                member = bool(rng.integers(2))
                challenge = self._challenge(seen, member, rng)
                scores.append(float(adversary(challenge, model)))
                members.append(member)
        return Scored(np.array(scores), np.array(members))

    # -- the challenger --------------------------------------------------------------------------------------------

    def _training_graph(self, rng: np.random.Generator) -> Graph:
        """The graph, or that of a random half of its nodes: indices stay, the edges and labels of the others are left out."""
        if not self.inductive:
            return self.graph
        split, labels = self.graph.for_learning()
        chosen = np.zeros(self.graph.num_nodes, dtype=bool)
        chosen[rng.permutation(self.graph.num_nodes)[: self.graph.num_nodes // 2]] = True
        edges = self.graph.edge_index
        kept = edges[:, chosen[edges[0]] & chosen[edges[1]]]
        parts = [part[chosen[part]] for part in (split.train, split.val, split.test)]
        return Graph.from_edges(
            self.graph.features,
            kept,
            labels=np.where(chosen, labels, -1),
            split=Split(*parts),
            name=self.graph.name,
            num_classes=self.graph.num_classes,
        )

    def _challenge(self, seen: Graph, member: bool, rng: np.random.Generator) -> Challenge:
        if self.unit is PrivacyUnit.EDGE:
            return Challenge(self._pair(seen, member, rng), without_edges(seen))
        split = seen.for_learning()[0]
        inside = np.array(split.train)
        outside = np.array(split.test)
        if self.inductive:
            outside = np.flatnonzero((np.asarray(seen.labels) < 0) & (np.asarray(self.graph.labels) >= 0))
        nodes = inside if member else outside
        if len(nodes) == 0:
            raise InputError("graph must have training nodes and fresh nodes for the game, got none of one kind")
        return Challenge((int(rng.choice(nodes)),), self.graph if self.inductive else seen)

    def _pair(self, seen: Graph, member: bool, rng: np.random.Generator) -> tuple[int, int]:
        if member:
            edges = seen.edge_index
            if edges.shape[1] == 0:
                raise InputError("graph must have an edge for the game, got none")
            u, v = edges[:, int(rng.integers(edges.shape[1]))]
            return int(u), int(v)
        for _ in range(1000):
            u, v = (int(w) for w in rng.integers(seen.num_nodes, size=2))
            if u != v and not seen.has_edge(u, v):
                return u, v
        raise InputError("graph must have pairs that are not joined, got (nearly) a complete graph")


def of_method(method: Method, budget: Budget, streams: Streams, noise: NoiseSource | None = None) -> Trainer:
    """A method as a trainer. The fit answers questions about the training nodes, a prediction those about other nodes."""
    source, numbers = noise or NoiseSource.secure(), itertools.count()

    def train(seen: Graph) -> Model:
        fitted = fits.fit(method, seen, budget, streams, source.stream(f"run {next(numbers)}"))

        def model(asked: Graph) -> np.ndarray:
            if asked is seen or np.array_equal(np.asarray(asked.labels), np.asarray(seen.labels)):
                return fitted.probabilities
            return fits.predict_graph(
                method, fitted.weights, asked, budget, streams, source.stream(f"run {next(numbers)}")
            ).probabilities

        return model

    return train
