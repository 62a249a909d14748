"""The GCN layer: Theorem L3 attacked at edge and node level for every activation; the norm of Theta."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from caribou.errors import InputError
from caribou.graph import Graph
from caribou.layers import ContractiveGraphLayer, GCNLayer, project_rows
from caribou.layers.gcn import FUNCTIONS, spectral_norm_bound
from caribou.privacy.sensitivity import ACTIVATIONS, Bounds
from graph_families import structured_node_cases
from layer_attacks import Pair, ascend, edge_pairs, node_change, star_pair

# -- the bound ---------------------------------------------------------------------------------------------------------


def attack(layer: GCNLayer, pairs: tuple[Pair, ...], bounds: Bounds, starts: int = 24) -> float:
    """The largest change over pairs of graphs relative to the bound, by gradients through a dense copy of the step."""
    bound = layer.sensitivity("edge", bounds).value
    best = 0.0
    operator = layer.operator(pairs[0][0], bounds)
    x = torch.randn(operator.num_nodes, layer.columns, dtype=torch.float64)
    dense = FUNCTIONS[layer.activation](operator.matrix.to_dense() @ x @ layer.theta)
    assert torch.allclose(layer(x, operator), layer.contraction * dense, atol=1e-12), "the copy is not the layer"
    for pair in pairs:
        first, other = (layer.operator(graph, bounds).matrix.to_dense() for graph in pair)
        reached = layer.contraction * ascend(
            first, other, lambda y: FUNCTIONS[layer.activation](y @ layer.theta), layer.columns, starts
        )
        assert reached <= bound * (1 + 1e-9), f"bound {bound} exceeded: {reached} by {pair[0].edge_index.tolist()}"
        best = max(best, reached / bound)
    return best


@pytest.mark.parametrize(
    ("activation", "columns", "floor", "least"),
    [
        ("identity", 3, 0, 0.99),
        ("identity", 3, 3, 0.98),
        ("identity", 3, 10, 0.98),
        ("tanh", 32, 0, 0.96),
        ("tanh", 32, 10, 0.96),
        ("relu", 3, 0, 0.70),
        ("relu", 3, 10, 0.93),
        ("relu", 3, 40, 0.96),
    ],
)
def test_stars_nearly_reach_the_edge_bound(activation: str, columns: int, floor: int, least: float) -> None:
    """The bound is for any activation: a linear one reaches it, and tanh with many columns, where it is nearly linear.

    relu gives it away at small floors: it drops one of two opposite signs. A bound 5 % too small would be exceeded.
    """
    layer = GCNLayer(columns, activation=activation, contraction=1.0)
    assert attack(layer, (star_pair(floor),), Bounds(floor)) > least


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("floor", [0, 1, 3])
def test_edge_bound_is_never_exceeded(activation: str, floor: int) -> None:
    """All graphs with 5 nodes with all pairs, in one batch, and some of the structured ones."""
    layer = GCNLayer(3, activation=activation, seed=floor, contraction=1.0)
    bounds = Bounds(floor)
    bound = layer.sensitivity("edge", bounds).value
    generator = torch.Generator().manual_seed(floor)
    small = [pair for pair in edge_pairs(24) if pair[0].num_nodes == 5]
    assert len(small) > 340
    first, other = (
        torch.stack([layer.operator(pair[k], bounds).matrix.to_dense() for pair in small])[:, None] for k in (0, 1)
    )
    x = torch.randn(len(small), 6, 5, 3, dtype=torch.float64, generator=generator)
    x[:, :2] = x[:, :2].abs()
    x = torch.nn.functional.normalize(x, dim=-1)
    for k in range(60):
        x.requires_grad_(True)
        outs = [FUNCTIONS[activation](world @ x @ layer.theta) for world in (first, other)]
        change = (outs[0] - outs[1]).flatten(2).square().sum(dim=2)
        assert float(change.detach().max()) <= (bound * (1 + 1e-9)) ** 2
        (gradient,) = torch.autograd.grad(change.sum(), x)
        with torch.no_grad():
            step = 2.0 if k < 20 else 20.0 / (k + 1)
            x = project_rows(x + step * torch.nn.functional.normalize(gradient, dim=-1))
    larger = tuple(pair for pair in edge_pairs(24) if pair[0].num_nodes > 5)[floor::12]
    attack(layer, larger, bounds, starts=8)


@pytest.mark.parametrize("floor", [2, 5, 20])
def test_node_bound_is_reached_by_a_linear_activation_and_never_exceeded(floor: int) -> None:
    """With Theta a number, so that the layer is linear and acts on any number of columns. Reached where F is n - 1."""

    class Linear(GCNLayer):
        def forward(self, x: torch.Tensor, operator: object, x0: torch.Tensor | None = None) -> torch.Tensor:
            columns = [GCNLayer.forward(self, x[:, k : k + 1], operator) for k in range(x.size(1))]  # type: ignore[arg-type]
            return torch.cat(columns, dim=1)

    layer = Linear(1, theta=np.array([[5.0]]), activation="identity", contraction=1.0)
    best = best_other = 0.0
    for nxg, v in structured_node_cases(floor):
        bounds = Bounds(degree_floor=floor, nodes=nxg.number_of_nodes())
        bound = layer.sensitivity("node", bounds).at_degree(nxg.degree(v))
        others, reached = node_change(layer, nxg, v, bounds)
        assert reached <= bound * (1 + 1e-9), f"bound {bound} exceeded: {reached} by {nxg.edges}, node {v}"
        best, best_other = max(best, reached / bound), max(best_other, others / math.sqrt(bound**2 - 1))
    assert best > 0.99
    assert best_other > 0.99


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_node_bound_holds_for_the_other_activations(activation: str) -> None:
    """Random rows and all rows alike; the residual pushes the own row to the surface of the ball."""
    rng = np.random.default_rng(0)
    layer = GCNLayer(4, activation=activation, contraction=1.0, beta=10.0)
    for size, cap in itertools.product((2, 5), (None, 2, 4)):
        for nxg, v in structured_node_cases(size):
            bounds = Bounds(degree_floor=size, nodes=nxg.number_of_nodes()) if cap is None else Bounds(degree_cap=cap)
            bound = layer.sensitivity("node", bounds).at_degree(nxg.degree(v))
            edges = np.array(list(nxg.edges), dtype=np.int64).reshape(-1, 2).T
            graph = Graph.from_edges(np.zeros((nxg.number_of_nodes(), 1)), edges)
            operators = [layer.operator(g, bounds, np.random.default_rng(0)) for g in (graph, graph.without_node(v))]
            x0 = torch.zeros(graph.num_nodes, 4, dtype=torch.float64)
            x0[v, 0] = 1.0
            for rows in (
                rng.standard_normal((graph.num_nodes, 4)),
                np.ones((graph.num_nodes, 4)) @ layer.theta.numpy().T,
            ):
                x = torch.nn.functional.normalize(torch.from_numpy(rows), dim=1)
                world, less = (project_rows(layer(x, operator, operator.mask(x0))) for operator in operators)
                assert torch.linalg.norm(world - less) <= bound * (1 + 1e-9)


# -- Theta -------------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(columns=st.integers(1, 40), seed=st.integers(0, 2**16), scale=st.sampled_from([1e-3, 0.1, 1.0, 1e3, 1e200]))
def test_theta_has_norm_at_most_one_and_is_scaled_only_if_needed(columns: int, seed: int, scale: float) -> None:
    theta = scale * np.random.default_rng(seed).standard_normal((columns, columns))
    kept = GCNLayer(columns, theta=theta).theta.numpy()
    assert spectral_norm_bound(kept) <= 1 + 1e-9
    # in extended precision: ||Theta' Theta x|| <= ||x|| for the leading vector
    x = np.linalg.svd(kept)[2][0].astype(np.longdouble)
    assert np.linalg.norm((kept.astype(np.longdouble) @ x).astype(np.float64)) <= np.linalg.norm(x.astype(np.float64))
    if np.linalg.norm(theta, 2) < 0.999:
        assert np.array_equal(kept, theta)
    else:
        assert np.linalg.norm(kept, 2) == pytest.approx(1, abs=1e-9)


def test_a_public_seed_draws_an_orthogonal_matrix() -> None:
    first, again, another = GCNLayer(16, seed=1).theta, GCNLayer(16, seed=1).theta, GCNLayer(16, seed=2).theta
    assert torch.equal(first, again)
    assert not torch.allclose(first, another, atol=0.1)
    assert torch.allclose(first @ first.T, torch.eye(16, dtype=torch.float64), atol=1e-9)
    layer = GCNLayer(3)
    layer.theta.mul_(7)  # a copy: the layer's own cannot grow
    assert float(torch.linalg.matrix_norm(layer.theta, 2)) <= 1


# -- the map -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_one_lipschitz_and_zero_at_zero(activation: str) -> None:
    grid = torch.linspace(-5, 5, 2001, dtype=torch.float64)
    values = FUNCTIONS[activation](grid)
    assert (values.diff().abs() <= grid.diff() * (1 + 1e-9)).all()
    assert float(FUNCTIONS[activation](torch.zeros(1))) == 0


def test_identity_with_the_unit_matrix_is_the_contractive_layer() -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(np.zeros((20, 1)), rng.integers(0, 20, (2, 50)))
    layer = GCNLayer(4, theta=np.eye(4), activation="identity", contraction=0.8, beta=0.5)
    x = torch.from_numpy(rng.standard_normal((20, 4)))
    operator = layer.operator(graph, Bounds(2))
    assert torch.allclose(layer(x, operator, x), ContractiveGraphLayer(0.8, beta=0.5)(x, operator, x), atol=1e-9)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_rounding_error_is_within_its_bound(activation: str) -> None:
    """Against extended precision, with many columns."""
    rng = np.random.default_rng(0)
    n, d = 60, 128
    graph = Graph.from_edges(np.zeros((n, 1)), rng.integers(0, n, (2, 400)))
    layer = GCNLayer(d, activation=activation, contraction=1.0)
    operator = layer.operator(graph, Bounds(3))
    x = torch.nn.functional.normalize(torch.from_numpy(rng.standard_normal((n, d))), dim=1)
    A = graph.adjacency(np.float64).toarray().astype(np.longdouble) + np.eye(n)
    s = np.maximum(A.sum(axis=1) - 1, 3) + 1
    exact = (A / np.sqrt(np.outer(s, s)) @ x.numpy().astype(np.longdouble)) @ layer.theta.numpy().astype(np.longdouble)
    exact = {"identity": exact, "relu": np.maximum(exact, 0), "tanh": np.tanh(exact)}[activation]
    error = float(np.sqrt(((layer(x, operator).numpy() - exact) ** 2).sum()))
    assert error < layer.sensitivity("edge", Bounds(3)).arithmetic(nodes=n, columns=d).fixed


def test_rows_of_another_length_are_refused() -> None:
    layer, graph = GCNLayer(3), Graph.from_edges(np.ones((6, 2)), [[0, 1], [1, 2]])
    with pytest.raises(InputError, match="x must have 3 columns, the size of Theta, got 2"):
        layer(torch.ones(6, 2), layer.operator(graph, Bounds(2)))
