"""Splits: their rules, random ones, and the declared sizes that no node changes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caribou.datasets import read_graph, write_graph
from caribou.errors import InputError
from caribou.graph import Graph, Split
from graph_support import assert_same, path_graph


def test_split_rules():
    split = Split([3, 1], (), [0])
    assert split.train.tolist() == [1, 3]
    assert split.sizes == (2, 0, 1)
    for parts, message in (
        (([0, 1], [1], [2]), "disjoint, got node 1 in train and val"),
        (([0, 0], [1], [2]), "split.train must not repeat a node"),
        (([0], [-1], [2]), "split.val must hold node indices >= 0, got -1"),
        (([0], [1], [True]), "split.test must be a 1-D array of integer|split.test must be a 1-D integer"),
        (([0], [1], [0.5]), "float64"),
    ):
        with pytest.raises(InputError, match=message):
            Split(*parts)


def test_random_split():
    labels = np.where(np.arange(110) < 10, -1, np.arange(110) % 3)
    graph = Graph.from_edges(np.zeros((110, 1)), np.empty((2, 0)), labels=labels)
    split = graph.random_split(5).split
    assert all(abs(a - b) <= 4 for a, b in zip(split.sizes, (70, 10, 20), strict=True))
    assert sorted(np.concatenate([split.train, split.val, split.test])) == list(range(10, 110))
    assert graph.split is None
    assert_same(graph.random_split(5), graph.random_split(5))
    assert graph.random_split(6).split.train.tolist() != split.train.tolist()


@given(st.integers(10, 400))
@settings(max_examples=30)
def test_random_split_sizes_sum_up(n):
    graph = Graph.from_edges(np.zeros((n, 1)), np.empty((2, 0)), labels=np.zeros(n, int))
    sizes = graph.random_split(0, (0.6, 0.2, 0.2)).split.sizes
    assert sum(sizes) == n
    assert all(abs(size - share * n) <= 1 for size, share in zip(sizes, (0.6, 0.2, 0.2), strict=True))


def test_random_split_errors():
    with pytest.raises(InputError, match="without labels"):
        Graph.from_edges(np.zeros((9, 1)), [[0], [1]]).random_split(0)
    with pytest.raises(InputError, match="no validation node"):
        path_graph(4).random_split(0)
    for fractions in ((0.5, 0.5), (0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (0.5, float("nan"), 0.5), (1.2, -0.1, -0.1)):
        with pytest.raises(InputError, match="fractions must be three positive numbers"):
            path_graph(40).random_split(0, fractions)
    with pytest.raises(InputError, match="seed"):
        path_graph(40).random_split(-1)


def test_a_label_does_not_move_other_nodes_between_parts() -> None:
    labels = np.arange(60) % 3
    labels[::7] = -1
    whole = Graph.from_edges(np.zeros((60, 1)), np.empty((2, 0), int), labels=labels).random_split(4)
    node = int(whole.split.train[0])
    labels[node] = -1
    without = Graph.from_edges(np.zeros((60, 1)), np.empty((2, 0), int), labels=labels).random_split(4)
    assert set(whole.split.train.tolist()) - {node} == set(without.split.train.tolist())
    assert np.array_equal(whole.split.val, without.split.val)
    assert np.array_equal(whole.split.test, without.split.test)


class TestDeclaredSizes:
    """What is public about a split does not change when a node is zeroed out, before or after the split was drawn."""

    def graph(self) -> Graph:
        return Graph.from_edges(np.eye(20), [[0, 1], [1, 2]], labels=[0, 1] * 10)

    def test_they_follow_from_the_seed_alone(self) -> None:
        whole = self.graph().random_split(3)
        for node in range(20):
            early = self.graph().without_node(node).random_split(3)
            late = whole.without_node(node)
            assert early.split.declared == late.split.declared == whole.split.declared == (14, 2, 4)
            assert [p.tolist() for p in (early.split.train, early.split.val, early.split.test)] == [
                p.tolist() for p in (late.split.train, late.split.val, late.split.test)
            ]

    def test_a_file_keeps_them(self, tmp_path: Path) -> None:
        smaller = self.graph().random_split(3).without_node(5)
        again = read_graph(write_graph(smaller, tmp_path / "g.npz"))
        assert again.split.declared == smaller.split.declared == (14, 2, 4)

    def test_one_declared_training_node_that_is_gone_is_no_refusal(self) -> None:
        split = Split([0], [1], [2, 3])
        graph = Graph.from_edges(np.eye(4), [[0], [1]], labels=[0, 1, 0, 1], split=split)
        graph.for_learning()
        graph.without_node(0).for_learning()
