"""The attack on a layer, whichever it is: the worst rows for a pair of neighbouring graphs, and the mechanism in two worlds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import cache

import networkx as nx
import numpy as np
import torch

from attack_support import best_mu, side_by_side
from audit.sensitivity_attack import largest_change
from caribou.audit.pairs import worst_rows
from caribou.graph import Graph
from caribou.layers import BoundedLayer, project_rows
from caribou.mechanisms.message_passing import propagate
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.calibration import CalibratedPropagation, calibrate_propagation
from caribou.privacy.sensitivity import Bounds
from graph_families import double_star, graph_of, small_graphs, structured_edge_cases

Pair = tuple[Graph, Graph]


@cache
def edge_pairs(largest: int = 60) -> tuple[Pair, ...]:
    """All graphs with up to 5 nodes with all pairs of nodes, and the structured ones with up to ``largest`` nodes."""
    cases = [(g, pair) for g, pair in structured_edge_cases() if g.number_of_nodes() <= largest]
    for g in small_graphs():
        cases += [(g, pair) for pair in itertools.combinations(range(g.number_of_nodes()), 2)]
    pairs = []
    for nxg, (u, v) in cases:
        graph = graph_of(nxg)
        pairs.append((graph, graph.without_edge(u, v) if graph.has_edge(u, v) else graph.with_edge(u, v)))
    return tuple(pairs)


def star_pair(leaves: int) -> Pair:
    """Two hubs with ``leaves`` leaves each, apart and joined: at floor F = leaves the worst pair of the edge sensitivity."""
    graph = graph_of(double_star(leaves, leaves))
    return graph, graph.with_edge(0, 1)


def star_rows(leaves: int) -> np.ndarray:
    """The worst X for `star_pair`: opposite signs on the two stars. [n, 1]"""
    return np.array([[1.0], [-1.0]] + [[1.0]] * leaves + [[-1.0]] * leaves)


def matrix_of(layer: BoundedLayer, graph: Graph, bounds: Bounds) -> np.ndarray:
    """A linear layer as a matrix, by its own forward. [n, n]"""
    operator = layer.operator(graph, bounds, np.random.default_rng(0))
    return layer(torch.eye(graph.num_nodes, dtype=torch.float64), operator).numpy()


def attack_edges(layer_of: Callable[[Graph], BoundedLayer], bounds: Bounds, pairs: Iterable[Pair], seed: int) -> float:
    """The largest change of a linear layer over pairs of graphs, relative to its bound; never above 1."""
    rng = np.random.default_rng(seed)
    best = 0.0
    for graph, other in pairs:
        layer = layer_of(graph)
        bound = layer.sensitivity("edge", bounds).value
        reached = largest_change(matrix_of(layer, graph, bounds) - matrix_of(layer, other, bounds), rng, 16, 40)
        assert reached <= bound * (1 + 1e-9), f"bound {bound} exceeded: {reached} by {graph.edge_index.tolist()}"
        best = max(best, reached / bound)
    return best


def ascend(
    first: torch.Tensor,
    other: torch.Tensor,
    step: Callable[[torch.Tensor], torch.Tensor],
    columns: int,
    starts: int = 24,
) -> float:
    """max ||step(W X) - step(W' X)||_F over rows in the unit ball, for any step, by projected gradients. [n, n] -> number"""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(starts, len(first), columns, dtype=torch.float64, generator=generator)
    x[: starts // 3] = x[: starts // 3].abs()  # all signs alike: where an activation cuts off one sign
    x = torch.nn.functional.normalize(x, dim=-1)
    reached = 0.0
    for k in range(150):
        x.requires_grad_(True)
        change = (step(first @ x) - step(other @ x)).flatten(1).square().sum(dim=1)
        reached = max(reached, float(change.detach().max()))
        (gradient,) = torch.autograd.grad(change.sum(), x)
        with torch.no_grad():
            direction = torch.nn.functional.normalize(gradient, dim=-1)
            x = project_rows(x + (2.0 if k < 50 else 60.0 / (k + 1)) * direction)
    return reached**0.5


def node_change(layer: BoundedLayer, nxg: nx.Graph, v: int, bounds: Bounds) -> tuple[float, float]:
    """The largest change of phi = Pi o layer when node v is zeroed out: (of the other rows, of all). For linear maps of X.

    The residual that pushes the own row of v to the surface of the ball is added by hand, so that the other rows are not cut.
    """
    graph = graph_of(nxg)
    keep = np.arange(graph.num_nodes) != v
    difference = (matrix_of(layer, graph, bounds) - matrix_of(layer, graph.without_node(v), bounds))[keep]
    x = torch.from_numpy(worst_rows(difference, np.random.default_rng(0), 16, 40))

    def phi(world: Graph) -> torch.Tensor:
        operator = layer.operator(world, bounds, np.random.default_rng(0))
        out = layer(x, operator)
        pushed = torch.zeros_like(out)
        pushed[v, 0] = 10.0
        return project_rows(out + operator.mask(pushed))

    change = phi(graph) - phi(graph.without_node(v))
    return float(torch.linalg.norm(change[keep])), float(torch.linalg.norm(change))


def proven_mu(
    layer_of: Callable[[int], BoundedLayer],
    pair: Pair,
    start: np.ndarray,
    bounds: Bounds,
    *,
    hops: int,
    noise_factor: float = 1.0,
    copies: int = 20_000,
) -> float:
    """A lower bound at 99.99 % on the mu of X^(K) in two worlds, for noise that was calibrated to mu = 1 (edge level).

    One call of `propagate` on disjoint copies of the graph is as many runs; ``layer_of`` makes the layer for that many copies. A
    linear score is fitted on half of the runs; for mu-GDP, Phi^-1(TPR) - Phi^-1(FPR) <= mu at every threshold on the other half.
    """
    worlds = []
    for graph in pair:
        many = side_by_side(graph, copies)
        layer = layer_of(copies)
        sensitivity = layer.sensitivity("edge", bounds)
        arithmetic = sensitivity.arithmetic(nodes=many.num_nodes, columns=start.shape[1])
        c = calibrate_propagation(sensitivity, hops=hops, mu=1.0, arithmetic=arithmetic)
        c = CalibratedPropagation(sensitivity, hops, c.kappa, c.mu, c.noise_std * noise_factor, arithmetic)
        x = torch.from_numpy(np.tile(start, (copies, 1)))
        state = propagate(layer, layer.operator(many, bounds), x, c, NoiseSource.secure())
        worlds.append(state.numpy().reshape(copies, -1))
    return best_mu(*worlds)
