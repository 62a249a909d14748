"""The contractive layer: shapes, inputs of three kinds, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.privacy.sensitivity import Bounds


def test_graph_operator_and_edge_index_agree_and_direction_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 20, (2, 50))
    graph = Graph.from_edges(np.zeros((20, 1)), edges)
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    layer = ContractiveGraphLayer(0.7, 0.6, 0.2)
    bounds = Bounds(degree_floor=2)
    by_graph = layer(x, graph, x, bounds=bounds)
    assert by_graph.dtype == torch.float32
    assert torch.equal(by_graph, layer(x, normalize(graph, bounds), x))
    assert torch.equal(by_graph, layer(x, torch.from_numpy(edges), x, bounds=bounds))
    assert torch.equal(by_graph, layer(x, torch.from_numpy(edges[::-1].copy()), x, bounds=bounds))


def test_it_is_a_module_with_gradients() -> None:
    graph = Graph.from_edges(np.zeros((4, 1)), np.array([[0, 1, 2], [1, 2, 3]]))
    operator = normalize(graph, Bounds(degree_floor=1))
    layer = ContractiveGraphLayer(0.5, 0.8, 0.3)
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(1))
    x0 = x.detach().clone()
    assert torch.autograd.gradcheck(lambda t: layer(t, operator, x0), (x,))
    assert "contraction=0.5" in repr(layer)


def test_isolated_nodes_and_no_edges() -> None:
    graph = Graph.from_edges(np.zeros((3, 1)), np.zeros((2, 0), dtype=int))
    x = torch.eye(3, dtype=torch.float64)
    assert torch.equal(ContractiveGraphLayer(0.5)(x, graph), 0.5 * x)
    single = Graph.from_edges(np.zeros((1, 1)), np.zeros((2, 0), dtype=int))
    assert ContractiveGraphLayer(0.5)(torch.ones(1, 1), single).shape == (1, 1)


def test_what_is_no_adjacency_is_refused() -> None:
    with pytest.raises(InputError, match="adjacency must be"):
        ContractiveGraphLayer(0.5)(torch.eye(3), "graph")  # type: ignore[arg-type]
