"""Hidden pairs are hidden, rows read no edge, halves are crossed, and the graphs that test did not train."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from caribou.datasets import load
from caribou.datasets.graph_collections import load_collection
from caribou.errors import InputError
from caribou.experiments.downstream import (
    hide_edges,
    inductive_accuracy,
    link_figures,
    rows_by_name,
    training_graphs,
    transductive_accuracy,
)
from caribou.graph import Graph
from caribou.methods import fit, method_info
from caribou.metrics import Scored, area_under_curve
from caribou.models.graph_classifier import GraphClassifier
from caribou.models.links import LinkPredictor
from caribou.privacy.budget import Budget
from caribou.randomness import Streams

GRAPH = load("csbm:nodes=150,average_degree=12,signal=2", seed=3)


def codes(pairs: np.ndarray) -> set[tuple[int, int]]:
    return {(min(u, v), max(u, v)) for u, v in pairs.T.tolist()}


def test_hidden_edges_are_gone_and_other_pairs_are_no_edges() -> None:
    hidden = hide_edges(GRAPH, Streams(0))
    whole, left = codes(GRAPH.edge_index), codes(hidden.graph.edge_index)
    edges, others = codes(hidden.pairs[:, hidden.labels == 1]), codes(hidden.pairs[:, hidden.labels == 0])
    assert len(edges) == len(others) == 90
    assert edges | left == whole
    assert not edges & left
    assert not others & whole
    assert np.array_equal(hidden.graph.split.train, GRAPH.split.train)


def test_the_seed_hides_and_nothing_else() -> None:
    one, again, other = (hide_edges(GRAPH, Streams(seed)) for seed in (0, 0, 1))
    assert np.array_equal(one.pairs, again.pairs)
    assert codes(one.pairs) != codes(other.pairs)


def test_other_pairs_are_uniform() -> None:
    """On 12 nodes every pair that is no edge is drawn about equally often."""
    graph = Graph.from_edges(np.eye(12), np.stack([np.arange(11), np.arange(1, 12)]))
    counts: dict[tuple[int, int], int] = {}
    for seed in range(550):
        hidden = hide_edges(graph, Streams(seed), share=0.5)
        for pair in codes(hidden.pairs[:, hidden.labels == 0]):
            counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 55
    assert 550 * 6 / 55 == 60
    assert 32 < min(counts.values()) < max(counts.values()) < 92, "60 on average, standard deviation 7.3"


@pytest.mark.parametrize("share", [0.0, 1.0, 0.001])
def test_bad_shares(share: float) -> None:
    with pytest.raises(InputError, match="share must"):
        hide_edges(GRAPH, Streams(0), share)


@pytest.mark.usefixtures("quick_encoder")
@pytest.mark.parametrize(
    ("name", "rows"),
    [("caribou-edp", ["released", "joined"]), ("gap-edp", ["released", "joined"]), ("mlp", ["embeddings", "features"])],
)
def test_rows_read_no_edge(name: str, rows: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"messages": "embeddings"} if name.startswith("caribou") else {}
    settings |= {"hidden": [64, 16]} if name == "mlp" else {}
    budget = Budget(4.0)
    fitted = fit(method_info(name).create(**settings), GRAPH, budget, Streams(0))
    expected = rows_by_name(fitted.released, fitted.weights, GRAPH)

    def read(*_: object) -> None:
        raise AssertionError("an edge was read")

    hidden = hide_edges(GRAPH, Streams(0))
    for attribute in ("indptr", "indices"):  # a data descriptor comes before the field of the same name
        monkeypatch.setattr(Graph, attribute, property(read), raising=False)
    for attribute in ("edge_index", "degrees", "num_edges"):
        monkeypatch.setattr(Graph, attribute, property(read))
    with pytest.raises(AssertionError, match="an edge was read"):
        _ = GRAPH.indices
    found = rows_by_name(fitted.released, fitted.weights, GRAPH)
    assert list(found) == rows
    assert all(np.array_equal(found[key], expected[key]) for key in rows)
    link_figures(found[rows[0]], hidden.pairs, hidden.labels)
    groups = np.arange(150) % 30
    GraphClassifier().fit(found[rows[0]], groups, np.arange(30) % 2).predict(found[rows[0]], groups)


def test_a_logistic_predictor_is_scored_on_the_half_it_was_not_fitted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, fitted = hide_edges(GRAPH, Streams(0)), []
    rows = np.asarray(GRAPH.features, np.float64)
    original, scores = LinkPredictor.fit, LinkPredictor.scores

    def watched_fit(self: LinkPredictor, state: Any, pairs: np.ndarray, labels: np.ndarray) -> LinkPredictor:
        fitted.append(codes(pairs))
        return original(self, state, pairs, labels)

    def watched_scores(self: LinkPredictor, state: Any, pairs: np.ndarray) -> np.ndarray:
        if self.kind == "logistic":
            assert not codes(pairs) & fitted[-1]
            assert codes(pairs) | fitted[-1] == codes(hidden.pairs)
        return scores(self, state, pairs)

    monkeypatch.setattr(LinkPredictor, "fit", watched_fit)
    monkeypatch.setattr(LinkPredictor, "scores", watched_scores)
    found = link_figures(rows, hidden.pairs, hidden.labels)
    assert len(fitted) == 2
    plain = scores(LinkPredictor(), rows, hidden.pairs)
    assert found["cosine"]["auc"] == area_under_curve(Scored(plain, hidden.labels == 1))


def test_training_graphs_are_half_of_every_class() -> None:
    collection = load_collection("hubs:graphs=16", seed=1)
    train = training_graphs(collection, Streams(0))
    assert np.bincount(collection.labels[train]).tolist() == [2, 2, 2, 2]


def test_classes_of_test_graphs_do_not_train(monkeypatch: pytest.MonkeyPatch) -> None:
    collection = load_collection("chain-s:6", seed=1)
    train, seen = training_graphs(collection, Streams(0)), []
    original = GraphClassifier.fit

    def watched(self: GraphClassifier, state: Any, groups: Any, labels: np.ndarray) -> GraphClassifier:
        seen.append(labels.copy())
        return original(self, state, groups, labels)

    monkeypatch.setattr(GraphClassifier, "fit", watched)
    rows = np.asarray(collection.graph.features, np.float64)
    assert transductive_accuracy(rows, collection, train) == {"linear": 1.0, "mlp": 1.0}
    for labels in seen:
        assert set(np.flatnonzero(labels >= 0)) == set(train)


def test_another_collection_is_predicted() -> None:
    first, other = load_collection("chain-s:6"), load_collection("chain-m:9")
    rows = [np.asarray(c.graph.features, np.float64) for c in (first, other)]
    assert inductive_accuracy(rows[0], first, rows[1], other) == {"linear": 1.0, "mlp": 1.0}
    blind = np.random.default_rng(0).standard_normal(rows[1].shape)
    assert inductive_accuracy(rows[0], first, blind, other)["linear"] < 0.9
