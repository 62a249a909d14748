"""Pooling by hand, both heads learn, an unknown class trains nothing, and another release can be predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import caribou as cb
from caribou.errors import InputError
from caribou.models.graph_classifier import GraphClassifier, pool


def many_graphs(seed: int, graphs: int = 60, size: int = 9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy rows around a centre per class of graph. [n, 5], [n], [g]"""
    rng = np.random.default_rng(seed)
    labels = np.arange(graphs) % 3
    groups = np.repeat(np.arange(graphs), size)
    return np.eye(5)[labels[groups]] + 1.5 * rng.standard_normal((graphs * size, 5)), groups, labels


def test_pooling_by_hand() -> None:
    state, groups = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [9.0, 9.0]], [1, 0, 1, -1]
    assert pool(state, groups, "sum").tolist() == [[3.0, 4.0], [6.0, 8.0]]
    assert pool(state, groups, "mean").tolist() == [[3.0, 4.0], [3.0, 4.0]]


@pytest.mark.parametrize("head", ["linear", "mlp"])
@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_graphs_of_unknown_class_are_predicted(pooling: str, head: str) -> None:
    state, groups, labels = many_graphs(0)
    known = np.where(np.arange(60) < 30, labels, -1)
    classifier = GraphClassifier(pooling, head).fit(state, groups, known)
    found = classifier.predict(state, groups)
    assert np.mean(found[30:] == labels[30:]) > 0.6, "three classes"
    assert classifier.predict_proba(state, groups).sum(axis=1) == pytest.approx(1)


def test_an_unknown_class_does_not_train() -> None:
    state, groups, labels = many_graphs(0)
    known = np.where(np.arange(60) < 30, labels, -1)
    some = groups < 30
    fitted = GraphClassifier().fit(state, groups, known).predict_proba(state, groups)
    alone = GraphClassifier().fit(state[some], groups[some], labels[:30]).predict_proba(state, groups)
    assert np.array_equal(fitted, alone)


@pytest.mark.parametrize("argument", ["state", "groups", "public_labels"])
def test_the_private_graph_is_refused_everywhere(argument: str) -> None:
    state, groups, labels = many_graphs(0)
    graph = cb.datasets.load("csbm", nodes=60, seed=1)
    for private in (graph, graph.to_pyg(), graph.adjacency()):
        given = {"state": state, "groups": groups, "public_labels": labels, argument: private}
        with pytest.raises(InputError, match=rf"{argument} must be .*not covered by the certificate"):
            GraphClassifier().fit(**given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": [0, 0]}, r"groups must be whole numbers of shape \[3\]"),
        ({"groups": [0, 2, 2]}, "groups must give every graph a node, got none for 1"),
        ({"public_labels": [0, -3]}, "public_labels must be classes from 0 on, or -1"),
        ({"public_labels": [1, -1]}, "public_labels must be of at least 2 classes, got 1"),
    ],
)
def test_bad_input(change: dict[str, Any], message: str) -> None:
    given = {"state": np.eye(3), "groups": [0, 1, 1], "public_labels": [0, 1], **change}
    with pytest.raises(InputError, match=message):
        GraphClassifier().fit(**given)


def test_a_column_that_hardly_varies_in_the_fit_does_not_decide_alone_elsewhere() -> None:
    """In a unit of its own it would lie a thousand spreads away in the other release."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    first = np.column_stack([labels + 0.1 * rng.standard_normal(40), 1e-3 * rng.standard_normal(40)])
    second = np.column_stack([labels + 0.1 * rng.standard_normal(40), 1.0 + 1e-3 * rng.standard_normal(40)])
    for head in ("linear", "mlp"):
        model = GraphClassifier(head=head).fit(first, np.arange(40), labels)
        assert (model.predict(second, np.arange(40)) == labels).mean() >= 0.95
        assert model.predict(second[:1], np.zeros(1, dtype=int)).tolist() == [0], "one graph alone"
