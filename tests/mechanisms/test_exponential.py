"""The exponential mechanism over candidates: its exact probabilities, and what it does without validation nodes."""

from __future__ import annotations

import math

import numpy as np

from caribou.graph import Graph, Split
from caribou.mechanisms.exponential import choose
from caribou.mechanisms.noise_source import NoiseSource


def choose_on(graph: Graph, candidates: list[np.ndarray], epsilon: float, noise: NoiseSource, default: int) -> int:
    split, labels = graph.split, graph.labels[graph.split.val]
    return choose(candidates, labels, declared=split.declared[1], epsilon=epsilon, noise=noise, default=default)


def test_the_choice_on_validation_nodes_is_epsilon_dp() -> None:
    """Exact probabilities of the exponential mechanism for two candidates, with and without one validation node."""
    labels = np.array([0, 0, 0, 1])
    graph = Graph.from_edges(np.ones((4, 1)), [[0], [1]], labels=labels, split=Split([3], [0, 1, 2], []))
    right, wrong = np.array([[1.0, 0.0]] * 3), np.array([[0.0, 1.0]] * 3)
    epsilon, runs = 1.0, 4000
    noise = NoiseSource.seeded(0)
    shares = []
    for g, size in ((graph, 3), (graph.without_node(2), 2)):
        picks = [choose_on(g, [right[:size], wrong[:size]], epsilon, noise, default=0) for _ in range(runs)]
        shares.append(1 - np.mean(picks))
    for share, count in zip(shares, (3, 2), strict=True):
        expected = 1 / (1 + math.exp(-epsilon * count))
        assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / runs)
    empty = Graph.from_edges(np.ones((2, 1)), [[0], [1]], labels=[0, 1], split=Split([0], [], [1]))
    assert choose_on(empty, [right[:0], wrong[:0]], epsilon, noise, default=1) == 1
