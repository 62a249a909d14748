"""Shared by the tests of the baselines: one graph, checks that hold at either unit, and attacks on gradients."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import caribou as cb
from caribou import methods
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import Rows
from caribou.mechanisms.clipped_gradients import linear_clipped_sum
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


def check_contract(method: Method, graph: Graph, budget: Budget) -> None:
    """A fit is a function of its seeds, changes no input, predicts again what it predicted, and survives JSON."""
    x = graph.features
    arrays = (x.data if sp.issparse(x) else x, graph.indices, graph.indptr, graph.labels)
    before = [np.asarray(a).tobytes() for a in arrays]
    one, two, three = (methods.fit(method, graph, budget, Streams(1), NoiseSource.seeded(s)) for s in (5, 5, 6))
    assert one.probabilities.shape == (graph.num_nodes, graph.num_classes)
    assert np.allclose(one.probabilities.sum(axis=1), 1)
    assert np.array_equal(one.probabilities, two.probabilities)
    assert not np.array_equal(one.probabilities, three.probabilities)
    assert before == [np.asarray(a).tobytes() for a in arrays]
    assert one.certificate.status == "void"  # a fixed noise seed
    assert np.array_equal(method.predict(one.weights, one.released, graph), one.probabilities)
    assert json.loads(json.dumps(dict(method.settings()))) == dict(method.settings())


def verified_certificate(method: Method, budget: Budget, folder: Path, graph: Graph = GRAPH) -> Certificate:
    """The certificate of a fit with secret noise, through a file: it verifies, and says what its unit promises."""
    certificate = methods.fit(method, graph, budget, Streams(0), NoiseSource.secure()).certificate
    certificate.save(folder / "c.json")
    loaded = Certificate.load(folder / "c.json")
    at_node_level = budget.unit is PrivacyUnit.NODE
    assert loaded.status == ("private by degree" if at_node_level else "private")
    assert [c for c in verify(loaded).checks if not c.passed] == []
    cut = at_node_level and getattr(method, "degree_cap", None) is not None
    assert ("order of pairs" in {a.name.value for a in loaded.assumptions}) == cut
    assert bool(loaded.epsilon_by_degree) == at_node_level
    if at_node_level:
        assert dict(loaded.epsilon_by_degree)[loaded.scope.limit] == pytest.approx(loaded.epsilon_spent, rel=1e-6)
        assert [e for _, e in loaded.epsilon_by_degree] == sorted(e for _, e in loaded.epsilon_by_degree)
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


def gradient_sum(adjacency: np.ndarray, labels: np.ndarray, weights: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """What the method adds noise to, with clip 1. [n, C]"""
    rows = Rows.of(sp.csr_array(adjacency[examples]))
    return linear_clipped_sum(rows, labels[examples], weights, 1.0)


def weights_to_try(n: int, classes: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Random weights of all sizes, and saturated ones: every node shouts for one class, some louder than others."""
    random = [rng.standard_normal((n, classes)) * size for size in (0.3, 3.0, 100.0)]
    shouted = []
    for _ in range(6):
        w = np.zeros((n, classes))
        w[np.arange(n), rng.integers(classes, size=n)] = 100.0 * 10.0 ** rng.integers(0, 3, size=n)
        shouted.append(w)
    return random + shouted


def dense(nxg: nx.Graph) -> np.ndarray:
    return nx.to_numpy_array(nxg, nodelist=range(nxg.number_of_nodes()))
