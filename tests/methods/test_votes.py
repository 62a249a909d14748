"""The method votes-edp: votes help, one edge moves one entry of the transcript, certificates, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import caribou as cb
from caribou import methods
from caribou.mechanisms import edge_votes as mechanism
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.votes import VotesEdge
from caribou.randomness import Streams

pytestmark = pytest.mark.usefixtures("kept_encoder")
GRAPH = cb.datasets.load(
    "csbm", nodes=400, classes=3, average_degree=8.0, homophily=0.85, signal=1.0, features=6, seed=3
)


def accuracy(fitted: object, graph: cb.Graph = GRAPH) -> float:
    test = graph.split.test
    return float(np.mean(fitted.probabilities[test].argmax(axis=1) == graph.labels[test]))  # type: ignore[attr-defined]


def fit(method: VotesEdge, epsilon: float, graph: cb.Graph = GRAPH, seed: int = 1, noise_seed: int = 1):
    return methods.fit(method, graph, cb.Budget(epsilon), Streams(seed), NoiseSource.seeded(noise_seed))


def transcript(fitted: object) -> dict[str, np.ndarray]:
    """The released counts, without what is computed from them."""
    return {k: v for k, v in fitted.released.items() if k != "probabilities"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("noise", ["discrete_laplace", "gaussian"])
def test_votes_help(noise: str) -> None:
    method = VotesEdge(noise=noise)
    assert accuracy(fit(method, 8.0)) > accuracy(fit(method, 0.05)) + 0.03


def test_replaying_a_transcript_on_a_neighbouring_graph_moves_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record what the method asks; ask the same on the graph without one edge: one stage, one entry, by one."""
    asked: list[tuple] = []
    original = mechanism.NoisyCounts.ask

    def recorded(self: mechanism.NoisyCounts, *arguments: np.ndarray) -> np.ndarray:
        asked.append(arguments)
        return original(self, *arguments)

    monkeypatch.setattr(mechanism.NoisyCounts, "ask", recorded)
    fit(VotesEdge(), 2.0)
    monkeypatch.undo()

    def replay(graph: cb.Graph) -> np.ndarray:
        box = mechanism.NoisyCounts(graph, 3, mechanism.VoteBudget(math.inf), NoiseSource.secure())
        return np.concatenate([box.ask(*arguments).ravel() for arguments in asked])

    whole = replay(GRAPH)
    edges = GRAPH.edge_index[:, GRAPH.edge_index[0] < GRAPH.edge_index[1]]
    moved = [np.abs(whole - replay(GRAPH.without_edge(int(u), int(v)))).sum() for u, v in edges.T[::12]]
    assert set(moved) <= {0, 1}
    assert np.mean(moved) > 0.5


def test_long_range_chains() -> None:
    """Information travels from the head of a chain to its end, round by round, at the cost of one question per edge."""
    graph = cb.datasets.load("chain-s:75", seed=0)
    fitted = methods.fit(VotesEdge(), graph, cb.Budget(16.0), Streams(0), NoiseSource.secure())
    assert accuracy(fitted, graph) >= 0.97
    assert len(transcript(fitted)) > 4


def test_a_class_that_no_labelled_node_has_costs_no_accuracy() -> None:
    """As many published files declare one. Rates of the other classes must not follow the noise of its counts."""
    empty = replace(GRAPH, num_classes=GRAPH.num_classes + 1, class_names=None)
    for seed in range(3):
        assert accuracy(fit(VotesEdge(), 4.0, empty, noise_seed=seed), empty) > 0.9
