"""Shared by the tests of the baselines GAP and DPDGC: one graph, and checks that hold at either unit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import caribou as cb
from caribou import methods
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Method
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.verify import verify
from caribou.randomness import Streams

GRAPH = cb.datasets.load(
    "csbm", nodes=300, classes=3, average_degree=8.0, homophily=0.85, signal=1.0, features=6, seed=3
)


def accuracy(probabilities: np.ndarray, graph: Graph = GRAPH) -> float:
    test = graph.split.test
    return float(np.mean(probabilities[test].argmax(axis=1) == graph.labels[test]))


def verified_certificate(method: Method, budget: Budget, folder: Path) -> Certificate:
    """The certificate of a fit with secret noise, through a file: it verifies, and says what its unit promises."""
    certificate = methods.fit(method, GRAPH, budget, Streams(0), NoiseSource.secure()).certificate
    certificate.save(folder / "c.json")
    loaded = Certificate.load(folder / "c.json")
    at_node_level = budget.unit is PrivacyUnit.NODE
    assert loaded.status == ("private in scope" if at_node_level else "private")
    assert [c for c in verify(loaded).checks if not c.passed] == []
    assert ("truncation" in {a.name.value for a in loaded.assumptions}) == at_node_level
    return loaded


def some_edges(graph: Graph, count: int) -> list[Graph]:
    """The graph without one edge, ``count`` times."""
    pairs = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].T
    return [graph.without_edge(int(u), int(v)) for u, v in pairs[:: max(1, len(pairs) // count)]]


def wrong_sums_are_found(document: dict) -> None:
    """Half the noise, more hops, or a smaller sensitivity than the theorem's: none of them verifies."""
    sums = next(m for m in document["mechanisms"] if m["name"] == "noisy sums over neighbours")
    assert "Theorem" in sums["theorem"]
    for change in ({"noise_std": sums["details"]["noise_std"] / 2}, {"hops": 3}):
        original = dict(sums["details"])
        sums["details"].update(change)
        assert not verify(Certificate.from_dict(document)).passed, change
        sums["details"].update(original)
    sums["details"]["sensitivity"]["value"] = 1.0  # a directed entry, or a forgotten own row
    assert not verify(Certificate.from_dict(document)).passed
