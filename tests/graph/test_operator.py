"""The bounded operator: W by hand, its norm, the degree cap, and what a node that leaves can change."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
import torch

from blocked_support import cut
from caribou.errors import CaribouError, InputError
from caribou.graph import Graph
from caribou.graph.operator import (
    first_of_each_row,
    normalize,
    pair_hash,
)
from caribou.layers import AttentionLayer, ContractiveGraphLayer
from caribou.privacy.sensitivity import Bounds
from graph_families import graph_of, small_graphs, structured_edge_cases
from graph_support import random_graph


def test_a_cut_needs_an_order_of_the_pairs() -> None:
    with pytest.raises(InputError, match="sampling must be a generator"):
        normalize(graph_of(nx.star_graph(9)), Bounds(degree_cap=3))


FLOORS = (0, 1, 2, 3, 4, 5, 10)


def dense_operator(graph: Graph, bounds: Bounds) -> np.ndarray:
    return normalize(graph, bounds, np.random.default_rng(0)).matrix.to_dense().numpy()


def test_operator_norm_is_at_most_one() -> None:
    graphs = [g for g, _ in structured_edge_cases()] + small_graphs() + [nx.complete_graph(60), nx.star_graph(59)]
    for graph, floor in itertools.product(map(graph_of, graphs), FLOORS):
        norm = np.linalg.norm(dense_operator(graph, Bounds(degree_floor=floor)), 2)
        assert norm <= 1 + 1e-6


def test_degree_cap_holds_and_is_symmetric() -> None:
    rng = np.random.default_rng(3)
    for nxg in (nx.star_graph(30), nx.complete_graph(20), nx.gnp_random_graph(60, 0.3, seed=1), nx.empty_graph(3)):
        for cap in (1, 2, 7):
            operator = normalize(graph_of(nxg), Bounds(degree_cap=cap), rng).matrix.to_dense().numpy()
            adjacency = (operator - np.diag(np.diag(operator))) > 0
            assert adjacency.sum(axis=1).max(initial=0) <= cap
            assert (adjacency == adjacency.T).all()


def test_a_path_by_hand() -> None:
    """W = S^(-1/2) (A + I) S^(-1/2) with s = max(degree, F) + 1: of 0 - 1 - 2 with F = 0, s = 2, 3, 2."""
    path = Graph.from_edges(np.zeros((3, 1)), [[0, 1], [1, 2]])
    root = 1 / math.sqrt(6)
    by_hand = np.array([[1 / 2, root, 0], [root, 1 / 3, root], [0, root, 1 / 2]])
    assert np.allclose(dense_operator(path, Bounds(degree_floor=0)), by_hand)
    assert np.allclose(dense_operator(path, Bounds(degree_floor=9)), (path.adjacency().toarray() + np.eye(3)) / 10)
    operator = normalize(path, Bounds(degree_floor=0))
    x = torch.arange(6, dtype=torch.float64).reshape(3, 2)
    assert torch.allclose(operator.aggregate(x), torch.from_numpy(by_hand) @ x)
    assert operator.mean(x).tolist() == [[2.0, 3.0]]
    assert operator.mask(x) is x


def test_an_absent_node_is_in_no_row_and_in_no_mean() -> None:
    graph = Graph.from_edges(np.ones((3, 1)), [[0, 1], [1, 2]]).without_node(2)
    operator = normalize(graph, Bounds(degree_floor=1))
    assert (operator.matrix.to_dense()[2] == 0).all()
    x = torch.ones(3, 2, dtype=torch.float64)
    assert operator.mean(x).tolist() == [[2 / 3, 2 / 3], [2 / 3, 2 / 3], [0.0, 0.0]], "n stays"
    assert operator.mask(x)[2].tolist() == [0.0, 0.0]


def test_the_order_of_pairs_does_not_depend_on_other_pairs_nor_on_the_end_that_asks() -> None:
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 20, (2, 200))
    kept = first_of_each_row(rows, columns, 3, key=7)
    for v in range(20):
        assert kept[rows == v].sum() == min(3, (rows == v).sum())
    # without the entries of one row, the others keep theirs
    others = rows != 4
    assert np.array_equal(first_of_each_row(rows[others], columns[others], 3, key=7), kept[others])
    forth, back = first_of_each_row(np.array([3, 3, 8]), np.array([8, 1, 3]), 1, key=7)[[0, 2]]
    assert back, "the only pair of its row"
    assert forth == first_of_each_row(np.array([3, 3]), np.array([1, 8]), 1, key=7)[1]
    u, v = np.array([3, 8]), np.array([8, 3])
    assert len(set(pair_hash(1, u, v).tolist())) == 2, "ordered pairs have hashes of their own"


@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_over_blocks_every_row_of_the_product_has_the_bits_that_it_has_in_memory(size: int, weighted: bool) -> None:
    graph, bounds = random_graph(), Bounds(degree_floor=3, nodes=40)
    layer = AttentionLayer(graph.features, sharpness=1.5) if weighted else ContractiveGraphLayer()
    blocked = layer.operator(cut(graph, size, order=lambda firsts: firsts[::-1]), bounds)
    whole = layer.operator(graph, bounds)
    assert (blocked.bounds, blocked.weighting, blocked.num_nodes) == (whole.bounds, whole.weighting, 40)
    for columns in (1, 5):
        for dtype in (torch.float64, torch.float32):
            x = torch.from_numpy(np.random.default_rng(columns).standard_normal((40, columns))).to(dtype)
            assert blocked.aggregate(x).numpy().tobytes() == whole.aggregate(x).numpy().tobytes()
            assert torch.equal(layer(x, blocked), layer(x, whole))


def test_what_the_operator_of_a_graph_in_blocks_cannot_do_is_refused() -> None:
    graph = cut(random_graph(), 9)
    operator = normalize(graph, Bounds(3))
    with pytest.raises(InputError, match="edges must be in memory for this, got the operator of a graph in blocks"):
        _ = operator.matrix
    with pytest.raises(InputError, match="edges must be in memory for this, got the operator of a graph in blocks"):
        operator.without_own_rows(np.arange(40) == 3)
    assert operator.without_own_rows(np.zeros(40, dtype=bool)) is operator
    with pytest.raises(InputError, match="degree_cap must be None for a graph in blocks, got 5"):
        normalize(graph, Bounds(degree_cap=5), np.random.default_rng(0))
    assert "40" in repr(operator), "and no edge"
    for order in (lambda firsts: firsts[1:], lambda firsts: [*firsts, 0]):
        with pytest.raises(CaribouError, match="blocks must hold every row once"):
            normalize(cut(random_graph(), 9, order=order), Bounds(3))
