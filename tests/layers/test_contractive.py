"""The contractive layer: shapes, inputs of three kinds, gradients, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer, project_rows
from caribou.privacy.sensitivity import Bounds


@given(seed=st.integers(0, 2**16), scale=st.floats(0.01, 10))
def test_projection_is_onto_the_ball_and_nonexpansive(seed: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = (scale * torch.randn(5, 4, dtype=torch.float64, generator=generator) for _ in range(2))
    assert torch.linalg.vector_norm(project_rows(x), dim=1).max() <= 1 + 1e-12
    assert torch.linalg.norm(project_rows(x) - project_rows(y)) <= torch.linalg.norm(x - y) * (1 + 1e-12)
    short = x / (2 * torch.linalg.vector_norm(x, dim=1, keepdim=True))
    assert torch.equal(project_rows(short), short)
    assert torch.equal(project_rows(torch.zeros(2, 3)), torch.zeros(2, 3))


def test_a_literal_path() -> None:
    """0 - 1 - 2 with F = 0: s = (2, 3, 2)."""
    edge_index = torch.tensor([[0, 1], [1, 2]])
    x = torch.eye(3, dtype=torch.float64)
    out = ContractiveGraphLayer(1.0)(x, edge_index)
    root = 1 / math.sqrt(6)
    expected = torch.tensor([[0.5, root, 0], [root, 1 / 3, root], [0, root, 0.5]], dtype=torch.float64)
    assert torch.allclose(out, expected, atol=1e-12)
    floored = ContractiveGraphLayer(1.0)(x, edge_index, bounds=Bounds(degree_floor=3))
    assert torch.allclose(floored, torch.tensor([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=torch.float64) / 4)


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


def test_errors() -> None:
    graph = Graph.from_edges(np.zeros((3, 1)), np.array([[0], [1]]))
    x = torch.eye(3)
    for arguments, match in (
        ({"contraction": 1.2}, "contraction must be in .*got 1.2"),
        ({"contraction": 0}, "contraction"),
        ({"alpha1": -0.1}, "alpha1 must be in"),
        ({"beta": -1}, "beta must be a finite number >= 0, got -1"),
        ({"beta": math.nan}, "beta"),
    ):
        with pytest.raises(InputError, match=match):
            ContractiveGraphLayer(**arguments)
    with pytest.raises(InputError, match="x must have shape"):
        ContractiveGraphLayer(0.5)(torch.ones(3), graph)
    with pytest.raises(InputError, match="adjacency must be"):
        ContractiveGraphLayer(0.5)(x, "graph")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="nodes must be the number of nodes"):
        normalize(graph, Bounds(nodes=7))
