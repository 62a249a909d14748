"""The spectral layer: Theorem L2 attacked at edge and node level; low-pass and high-pass."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch

from caribou.errors import CalibrationError, InputError
from caribou.graph import Graph
from caribou.layers import ContractiveGraphLayer, SpectralLayer
from caribou.privacy.budget import Budget
from caribou.privacy.sensitivity import Bounds, edge_sensitivity
from caribou.release import release
from graph_families import small_graphs, structured_node_cases
from layer_attacks import attack_edges, edge_pairs, matrix_of, node_change, star_pair

# -- the bound ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("floor", "theta0", "theta1"), [(0, 0.4, -0.6), (1, 0.0, 1.0), (3, -0.7, -0.3), (10, 0.5, 0.5)]
)
def test_edge_bound_is_never_exceeded_and_nearly_reached(floor: int, theta0: float, theta1: float) -> None:
    """All graphs with up to 5 nodes and the structured ones. A bound 5 % too small would be exceeded."""
    layer = SpectralLayer(theta0=theta0, theta1=theta1, contraction=1.0)
    assert attack_edges(lambda graph: layer, Bounds(floor), edge_pairs(24), floor) > 0.98


@pytest.mark.parametrize("floor", [2, 5, 20, 50])
def test_stars_nearly_reach_the_edge_bound_for_other_floors(floor: int) -> None:
    layer = SpectralLayer(theta0=0.5, theta1=-0.5, contraction=0.7)
    assert attack_edges(lambda graph: layer, Bounds(floor), [star_pair(floor)], floor) > 0.98


@pytest.mark.parametrize("floor", [2, 5, 20])
def test_node_bound_is_never_exceeded_and_reached_for_floor_equal_largest_degree(floor: int) -> None:
    layer = SpectralLayer(theta0=0.25, theta1=-0.75, contraction=1.0)
    best = best_other = 0.0
    cases = structured_node_cases(floor)
    cases += [(g, v) for g in small_graphs() for v in range(g.number_of_nodes())]
    for nxg, v in cases:
        bounds = Bounds(degree_floor=floor, nodes=nxg.number_of_nodes())
        bound = layer.sensitivity("node", bounds).at_degree(nxg.degree(v))
        others, reached = node_change(layer, nxg, v, bounds)
        assert reached <= bound * (1 + 1e-9), f"bound {bound} exceeded: {reached} by {nxg.edges}, node {v}"
        best = max(best, reached / bound)
        if nxg.degree(v):
            best_other = max(best_other, others / math.sqrt(bound**2 - 1))
    assert best > 0.99
    assert best_other > 0.99, f"the other rows reach only {best_other:.3f} of their part: a bound 5 % smaller must fail"


@pytest.mark.parametrize(("floor", "cap"), [(0, None), (3, None), (5, None), (3, 3), (8, 5)])
def test_node_bound_holds_in_every_graph_with_and_without_a_cut(floor: int, cap: int | None) -> None:
    layer = SpectralLayer(theta0=-0.4, theta1=0.6, contraction=0.9)
    for nxg, v in [case for size in (5, 20) for case in structured_node_cases(size)]:
        bounds = Bounds(floor, cap, nxg.number_of_nodes())
        bound = layer.sensitivity("node", bounds).at_degree(nxg.degree(v))
        assert node_change(layer, nxg, v, bounds)[1] <= bound * (1 + 1e-9)


def test_the_bound_scales_with_theta1_alone() -> None:
    bounds = Bounds(7)
    product = edge_sensitivity(contraction=0.8, alpha1=1.0, degree_floor=7)
    for theta0, theta1 in ((0.0, 1.0), (0.5, 0.25), (-0.75, -0.25)):
        layer = SpectralLayer(theta0=theta0, theta1=theta1, contraction=0.8)
        assert layer.sensitivity("edge", bounds).value == abs(theta1) * product
    node = Bounds(degree_cap=20)
    whole = SpectralLayer(theta0=0.0, theta1=1.0, contraction=0.8).sensitivity("node", node).value
    assert whole == pytest.approx(ContractiveGraphLayer(0.8).sensitivity("node", node).value, rel=1e-12)


# -- the map -----------------------------------------------------------------------------------------------------------


def test_low_pass_smooths_and_high_pass_sharpens() -> None:
    """A regular bipartite graph, whose two sides differ: W X is nearly -X there, and X where they are alike."""
    graph = Graph.from_edges(np.zeros((12, 1)), np.array(list(nx.complete_bipartite_graph(6, 6).edges)).T)
    sides = torch.tensor([[1.0]] * 6 + [[-1.0]] * 6, dtype=torch.float64)
    for theta1, differing, alike in ((0.5, 1 / 7, 1.0), (-0.5, 6 / 7, 0.0)):
        layer = SpectralLayer(theta0=0.5, theta1=theta1, contraction=1.0)
        operator = layer.operator(graph, Bounds(6))
        assert torch.allclose(layer(sides, operator), differing * sides)
        assert torch.allclose(layer(sides.abs(), operator), alike * sides.abs(), atol=1e-12)


def test_with_theta0_zero_it_is_the_contractive_layer() -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(np.zeros((20, 1)), rng.integers(0, 20, (2, 50)))
    layer = SpectralLayer(theta0=0.0, theta1=1.0, contraction=0.8)
    assert np.array_equal(matrix_of(layer, graph, Bounds(2)), matrix_of(ContractiveGraphLayer(0.8), graph, Bounds(2)))


def test_a_filter_that_expands_or_reads_no_edge_is_refused() -> None:
    with pytest.raises(InputError, match=r"\|theta0\| \+ \|theta1\| must be at most 1, got 0.6 and -0.5"):
        SpectralLayer(theta0=0.6, theta1=-0.5)
    graph = Graph.from_edges(np.ones((6, 2)), [[0, 1], [1, 2]])
    with pytest.raises(CalibrationError, match="sensitivity is 0"):
        release(graph, SpectralLayer(theta0=1.0, theta1=0.0), hops=1, budget=Budget(1), bounds=Bounds(2))
