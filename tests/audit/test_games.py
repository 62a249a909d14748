"""The auditing game: membership bits are fair, points are what the bit says, and adversaries see answers only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from caribou.audit.games import Challenge, Game, Model, of_method
from caribou.datasets import load
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.node.mlp import MlpDp
from caribou.metrics import area_under_curve
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.randomness import Streams

GRAPH = load("csbm:nodes=120", seed=2)


def parrot(seen: Graph) -> Model:
    """A model that has learned everything by heart: the mean label of a node's neighbours, and its own if it was in training."""
    codes = np.eye(seen.num_classes)[np.maximum(seen.labels, 0)] * (np.asarray(seen.labels) >= 0)[:, None]
    told = np.zeros_like(codes)
    told[seen.split.train] = codes[seen.split.train]
    answers = 0.01 + told + 0.5 * (seen.adjacency(np.float64) @ codes)
    return lambda asked: answers / answers.sum(axis=1, keepdims=True)


@dataclass
class Noting:
    """Keeps what it is shown."""

    challenges: list[Challenge] = field(default_factory=list)

    def __call__(self, challenge: Challenge, model: Model) -> float:
        self.challenges.append(challenge)
        return float(model(challenge.graph)[challenge.point[0]].max())


@pytest.mark.parametrize("inductive", [False, True])
@pytest.mark.parametrize("unit", list(PrivacyUnit))
def test_points_are_what_the_membership_bit_says(unit: PrivacyUnit, inductive: bool) -> None:
    seen: list[Graph] = []

    def train(graph: Graph) -> Model:
        seen.append(graph)
        return parrot(graph)

    adversary = Noting()
    scored = Game(GRAPH, unit, inductive, seed=5).play(train, adversary, rounds=60)
    assert len(seen) == 1
    assert 15 < scored.members.sum() < 45
    for challenge, member in zip(adversary.challenges, scored.members, strict=True):
        if unit is PrivacyUnit.EDGE:
            assert seen[0].has_edge(*challenge.point) == member
            assert challenge.graph.num_edges == 0, "edges are what the adversary is to find out"
        else:
            assert (challenge.point[0] in seen[0].split.train) == member
            assert challenge.point[0] not in seen[0].split.val
    if inductive:
        assert seen[0].num_edges < GRAPH.num_edges


def test_a_parrot_loses_and_the_same_seed_plays_the_same_game() -> None:
    def own_label(challenge: Challenge, model: Model) -> float:
        (node,) = challenge.point
        return float(model(challenge.graph)[node, challenge.graph.labels[node]])

    game = Game(GRAPH, PrivacyUnit.NODE, seed=1)
    scored = game.play(parrot, own_label, rounds=200)
    assert area_under_curve(scored) > 0.6
    assert np.array_equal(game.play(parrot, own_label, rounds=200).scores, scored.scores)


@pytest.mark.parametrize("inductive", [False, True])
def test_any_method_can_be_put_in(inductive: bool) -> None:
    calls: list[Any] = []
    budget = Budget(4.0, 1e-5, "node")
    train = of_method(MlpDp(), budget, Streams(0), NoiseSource.seeded(1))

    def adversary(challenge: Challenge, model: Model) -> float:
        answer = model(challenge.graph)
        calls.append(answer.shape)
        return float(answer[challenge.point[0]].max())

    scored = Game(GRAPH, PrivacyUnit.NODE, inductive).play(train, adversary, rounds=12, models=2)
    assert calls == [(GRAPH.num_nodes, GRAPH.num_classes)] * 12
    assert len(scored.scores) == 12


def test_a_graph_without_edges_cannot_be_played_at_edge_level() -> None:
    bare = Graph.from_edges(np.zeros((20, 1)), np.empty((2, 0), dtype=int), labels=[0, 1] * 10).random_split(0)
    with pytest.raises(InputError, match="graph must have an edge"):
        Game(bare, PrivacyUnit.EDGE, seed=3).play(parrot, Noting(), rounds=20)
