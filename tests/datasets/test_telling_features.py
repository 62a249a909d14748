"""Graphs in which a neighbour's features tell the class: what they say about themselves is true."""

from __future__ import annotations

import numpy as np
import pytest

import caribou as cb
from caribou.errors import InputError


def neighbour_means(graph: cb.Graph, values: np.ndarray) -> np.ndarray:
    u, v = graph.edge_index
    total = np.zeros((graph.num_nodes, values.shape[1]))
    np.add.at(total, v, values[u])
    return total / np.maximum(np.bincount(v, minlength=graph.num_nodes), 1)[:, None]


def test_a_board_counts_its_mines() -> None:
    graph = cb.datasets.load("grid-game:400", seed=2)
    mines = neighbour_means(graph, np.asarray(graph.labels)[:, None])[:, 0] * graph.degrees
    shown = graph.features.argmax(axis=1)
    open_cells = shown < 9
    assert np.array_equal(shown[open_cells], mines[open_cells].round().astype(int))
    assert 0.35 < open_cells.mean() < 0.65
    assert sorted(set(graph.degrees.tolist())) == [3, 5, 8]


def test_neighbours_features_tell_the_class_and_nothing_else_does() -> None:
    graph = cb.datasets.load("neighbour-features", seed=1)
    labels = np.asarray(graph.labels)
    classes = np.eye(4)[labels]

    def separation(values: np.ndarray) -> float:
        """Variance between classes as a share of all."""
        means = np.stack([values[labels == k].mean(axis=0) for k in range(4)])
        return float(means.var(axis=0).sum() / values.var(axis=0).sum())

    own, theirs, their_classes = graph.features, neighbour_means(graph, graph.features), neighbour_means(graph, classes)
    assert separation(theirs) > 0.2
    assert separation(own) < 0.01
    assert separation(their_classes) < 0.01


@pytest.mark.parametrize("name", ["grid-game:400", "neighbour-features:300"])
def test_a_seed_gives_one_graph(name: str) -> None:
    first, second, other = (cb.datasets.load(name, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.edge_index, second.edge_index)
    assert np.array_equal(first.features, second.features)
    assert not np.array_equal(first.labels, other.labels)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("grid-game:10", "square number"),
        ("grid-game:9", "side must be"),
        ("neighbour-features:x", "whole number, got 'x'"),
        ("neighbour-features:7", "nodes must be"),
    ],
)
def test_bad_sizes(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        cb.datasets.load(name)
