"""The K-round mechanism: what it computes without noise, how much noise it draws, and what an attacker sees of it."""

from __future__ import annotations

import math
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from attack_support import best_mu, require_std, side_by_side
from caribou.errors import CalibrationError, InputError
from caribou.graph import Graph
from caribou.graph.operator import Operator, normalize
from caribou.layers.bounded import BoundedLayer
from caribou.layers.contractive import ContractiveGraphLayer, project_rows
from caribou.layers.gcn import GCNLayer
from caribou.layers.spectral import SpectralLayer
from caribou.mechanisms.message_passing import propagate
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.arithmetic import double_precision
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import CalibratedPropagation, calibrate_propagation
from caribou.privacy.sensitivity import Bounds
from caribou.release import release
from graph_support import random_graph


def features(graph: Graph) -> torch.Tensor:
    return torch.from_numpy(np.array(graph.features, dtype=np.float64))


def prepared(
    graph: Graph, layer: ContractiveGraphLayer, unit: str, hops: int, mu: float, bounds: Bounds
) -> tuple[Operator, CalibratedPropagation]:
    operator = normalize(graph, bounds, np.random.default_rng(0))
    arithmetic = double_precision(nodes=graph.num_nodes, columns=graph.num_features, residual=layer.beta)
    calibrated = calibrate_propagation(layer.sensitivity(unit, bounds), hops=hops, mu=mu, arithmetic=arithmetic)
    return operator, calibrated


@pytest.mark.parametrize("unit", ["edge", "node"])
@pytest.mark.parametrize(
    ("hops", "contraction", "alpha1", "beta"), [(1, 0.8, 1.0, 0.0), (3, 0.9, 0.6, 0.7), (128, 1.0, 0.3, 1.5)]
)
def test_without_noise_it_is_the_plain_recursion(
    unit: str, hops: int, contraction: float, alpha1: float, beta: float
) -> None:
    graph = random_graph()
    bounds = Bounds(degree_floor=4, degree_cap=50 if unit == "node" else None, nodes=40)
    layer = ContractiveGraphLayer(contraction, alpha1, beta)
    operator, calibrated = prepared(graph, layer, unit, hops, math.inf, bounds)
    noise = NoiseSource.secure()
    ours = propagate(layer, operator, features(graph), calibrated, noise).numpy()
    assert noise.draws == 0

    A = np.asarray(graph.adjacency().todense(), dtype=float)
    s = np.maximum(A.sum(axis=1), 4) + 1
    W = (A + np.eye(40)) / np.sqrt(np.outer(s, s))

    def ball(X: np.ndarray) -> np.ndarray:
        return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))

    X0 = ball(np.array(graph.features, dtype=np.float64))
    X = X0
    for _ in range(hops):
        X = ball(contraction * (alpha1 * W @ X + (1 - alpha1) * X.mean(axis=0)) + beta * X0)
    assert np.abs(ours - X).max() < 1e-5


@pytest.mark.parametrize("hops", [1, 7])
def test_number_of_draws_equals_hops(hops: int) -> None:
    graph = random_graph()
    layer = ContractiveGraphLayer(0.8)
    operator, calibrated = prepared(graph, layer, "edge", hops, 1.0, Bounds(degree_floor=5))
    noise = NoiseSource.secure()
    propagate(layer, operator, features(graph), calibrated, noise)
    assert noise.draws == hops


def test_the_mechanism_adds_exactly_the_calibrated_noise() -> None:
    """One step on a graph without signal (X0 = 0): what comes out is Pi(noise), and noise this small stays inside the ball."""
    n, d = 2000, 40
    graph = Graph.from_edges(np.zeros((n, d)), np.zeros((2, 0), dtype=int))
    layer = ContractiveGraphLayer(0.9)
    operator, calibrated = prepared(graph, layer, "edge", 1, 0.5, Bounds(degree_floor=50))
    state = propagate(layer, operator, features(graph), calibrated, NoiseSource.secure()).numpy()
    assert np.linalg.norm(state, axis=1).max() < 1
    require_std(state.ravel(), calibrated.noise_std)


def test_released_values_lie_on_the_grid_before_projection() -> None:
    """No low-order bits of the value survive: with noise inside the ball, every entry is a multiple of the grid."""
    from caribou.privacy.arithmetic import grid_spacing

    graph = random_graph(30, columns=3)
    layer = ContractiveGraphLayer(0.9, beta=0.1)
    operator, calibrated = prepared(graph, layer, "edge", 1, 20.0, Bounds(degree_floor=50))
    state = propagate(layer, operator, 0.1 * features(graph), calibrated, NoiseSource.secure()).numpy()
    inside = state[np.linalg.norm(state, axis=1) < 0.99]
    grid = grid_spacing(noise_std=calibrated.noise_std)
    assert len(inside) > 10
    assert np.array_equal(inside, np.rint(inside / grid) * grid)


# -- pairing: the wrong noise cannot be used ------------------------------------------------------------------------


def test_noise_calibrated_for_something_else_is_refused() -> None:
    graph, layer, bounds = random_graph(), ContractiveGraphLayer(0.9), Bounds(degree_floor=5)
    operator, calibrated = prepared(graph, layer, "edge", 2, 1.0, bounds)
    _, other_bounds = prepared(graph, layer, "edge", 2, 1.0, Bounds(degree_floor=20))
    of_no_size = calibrate_propagation(layer.sensitivity("edge", bounds), hops=2, mu=1.0)
    noise = NoiseSource.secure()
    for own, noise_of, rule in (
        (ContractiveGraphLayer(0.8), calibrated, "belong to this layer"),
        (ContractiveGraphLayer(0.9, alpha1=0.9), calibrated, "belong to this layer"),
        (ContractiveGraphLayer(0.9, beta=1.0), calibrated, "belong to this layer"),
        (layer, other_bounds, "belong to this layer and these bounds"),
        (layer, of_no_size, "include the arithmetic error"),
    ):
        with pytest.raises(InputError, match=f"calibrated must {rule}"):
            propagate(own, operator, features(graph), noise_of, noise)
    assert noise.draws == 0


def test_a_cut_graph_is_refused_at_edge_level() -> None:
    """Cutting degrees reacts to one edge in more places than Theorem 2 counts, so no edge-level noise exists for it."""
    with pytest.raises(InputError, match="degree_cap must be None at edge level"):
        ContractiveGraphLayer(0.9).sensitivity("edge", Bounds(degree_cap=3))
    graph = random_graph()
    layer = ContractiveGraphLayer(0.9)
    _, calibrated = prepared(graph, layer, "edge", 2, 1.0, Bounds(degree_floor=3))
    cut = normalize(graph, Bounds(degree_cap=3), np.random.default_rng(0))
    with pytest.raises(InputError, match="degree_cap must be None at edge level"):
        propagate(layer, cut, features(graph), calibrated, NoiseSource.secure())


def poisoned() -> torch.Tensor:
    x = features(random_graph())
    x[3, 2] = math.nan
    return x


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"budget": 4}, "budget"),
        ({"bounds": {}}, "bounds"),
        ({"ledger": 3}, "ledger"),
        ({"noise": 1}, "noise"),
        ({"noise": NoiseSource.seeded(1)}, "noise"),
        ({"start": "x"}, "start"),
        ({"start": torch.zeros(40, 2, dtype=torch.complex64)}, "start"),
        ({"start": torch.zeros(40, 2).to_sparse()}, "start"),
        ({"start": torch.zeros(39, 2)}, "start"),
        ({"start": torch.zeros(40)}, "start"),
        ({"start": torch.zeros(40, 0)}, "start"),
        ({"start": poisoned()}, "start"),
    ],
)
def test_the_border_names_what_is_wrong(wrong: dict[str, object], field: str, tmp_path: Path) -> None:
    """Before any noise, and before a ledger is made."""
    noise = NoiseSource.secure()
    good = {"hops": 2, "budget": Budget(1), "bounds": Bounds(degree_floor=5), "noise": noise}
    with pytest.raises(InputError) as caught:
        release(random_graph(), ContractiveGraphLayer(0.9), **{**good, "ledger": tmp_path / "l.sqlite", **wrong})
    assert caught.value.field == field
    assert noise.draws == 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_release_cannot_be_of() -> None:
    graph, layer = random_graph(), ContractiveGraphLayer(0.9)
    good = {"hops": 2, "budget": Budget(1), "bounds": Bounds(degree_floor=5)}
    with pytest.raises(InputError, match="graph must be a Graph, got str"):
        release("graph.npz", layer, **good)
    with pytest.raises(CalibrationError, match="sensitivity is 0"):
        release(graph, ContractiveGraphLayer(0.9, alpha1=0.0), **good)
    with pytest.warns(UserWarning, match="above 1/n"):
        release(graph, layer, hops=1, budget=Budget(1, 0.1), bounds=Bounds(degree_floor=5))
    by_array = release(graph, layer, start=np.array(graph.features), **good)
    assert by_array.certificate.public_parameters["start"] == "given by the curator"


# -- release ----------------------------------------------------------------------------------------------------------


# -- attacks on the release -------------------------------------------------------------------------------------------


def worst_pair(floor: int) -> tuple[Graph, Graph, torch.Tensor]:
    """Two hubs with `floor` leaves each, joined or not: opposite signs on the two stars nearly attain the edge bound."""
    leaves = range(floor)
    edges = [(0, 2 + i) for i in leaves] + [(1, 2 + floor + i) for i in leaves]
    n = 2 + 2 * floor
    without = Graph.from_edges(np.zeros((n, 1)), np.array(edges).T)
    x = torch.ones(n, 1, dtype=torch.float64)
    x[1] = -1
    x[2 + floor :] = -1
    return without, without.with_edge(0, 1), x


def one_hop_scores(graph: Graph, x: torch.Tensor, direction: np.ndarray, noise_factor: float, runs: int) -> np.ndarray:
    """The likelihood-ratio statistic of one noisy hop, before projection cuts anything (small signal)."""
    layer = ContractiveGraphLayer(0.9)
    bounds = Bounds(degree_floor=3)
    operator = normalize(graph, bounds)
    # columns are independent copies of the experiment: one call is `runs` runs
    arithmetic = double_precision(nodes=graph.num_nodes, columns=runs, residual=0.0)
    calibrated = calibrate_propagation(layer.sensitivity("edge", bounds), hops=1, mu=1.0, arithmetic=arithmetic)
    values = layer(x, operator).numpy()
    z = NoiseSource.secure().gaussian((graph.num_nodes, runs), std=calibrated.noise_std * noise_factor)
    return direction @ (values + z)


@pytest.mark.parametrize("noise_factor", [1.0, 0.5])
def test_likelihood_ratio_attack_reaches_but_does_not_exceed_the_claim(noise_factor: float) -> None:
    """On the worst pair, the best test between the two worlds proves mu: about 1 as claimed; 2 if the noise is halved."""
    runs = 40_000
    without, with_edge, x = worst_pair(3)
    layer = ContractiveGraphLayer(0.9)
    bounds = Bounds(degree_floor=3)
    shift = (layer(x, normalize(with_edge, bounds)) - layer(x, normalize(without, bounds))).numpy().ravel()
    direction = shift / np.linalg.norm(shift)
    a = one_hop_scores(without, x, direction, noise_factor, runs)
    b = one_hop_scores(with_edge, x, direction, noise_factor, runs)
    proven = (b.mean() - a.mean()) / math.sqrt((a.var() + b.var()) / 2)
    error = 4 * math.sqrt(2 / runs)
    if noise_factor == 1.0:
        assert 0.9 < proven < 1 + error
    else:
        assert proven > 1.5


def final_states(graph: Graph, x: torch.Tensor, hops: int, copies: int, extra_hop: bool) -> np.ndarray:
    """`copies` independent runs of the real mechanism on one small graph. [copies, n]"""
    layer, many = ContractiveGraphLayer(0.9), side_by_side(graph, copies)
    operator, calibrated = prepared(many, layer, "edge", hops, 1.0, Bounds(degree_floor=3))
    state = propagate(layer, operator, x.repeat(copies, 1), calibrated, NoiseSource.secure())
    if extra_hop:
        state = project_rows(layer(state, operator))
    return state.numpy().reshape(copies, graph.num_nodes)


def test_twins_cannot_be_read_off_the_release_and_an_unnoised_last_hop_is_rejected() -> None:
    """Adjacent nodes with equal closed neighbourhoods have equal rows after an un-noised hop, with probability 1."""
    clique = Graph.from_edges(np.zeros((5, 1)), np.array(list(nx.complete_graph(5).edges)).T)
    x = torch.linspace(-1, 1, 5, dtype=torch.float64).reshape(-1, 1)
    honest = final_states(clique, x, 3, 500, extra_hop=False)
    inside = np.abs(honest).max(axis=1) < 1
    assert not np.isclose(honest[inside, 0], honest[inside, 1], atol=1e-9).any()
    leaky = final_states(clique, x, 3, 500, extra_hop=True)
    assert np.isclose(leaky[:, 0], leaky[:, 1], atol=1e-9).all(), "this is the leak of an un-noised hop"


def node_states(graph: Graph, copies: int, inner_projection: bool) -> np.ndarray:
    """The real mechanism at node level on copies of a small graph (alpha1 = 1, so that the copies do not meet).

    Without the inner projection it is the faulty variant in which a strong residual carries the own row past the bound.
    """
    layer = ContractiveGraphLayer(0.9, beta=4.0)
    n = graph.num_nodes
    many = side_by_side(graph, copies)
    bounds = Bounds(degree_cap=3)
    operator = normalize(many, bounds, np.random.default_rng(0))
    if len(graph.absent):
        present = torch.ones(n, 1, dtype=torch.float64)
        present[torch.from_numpy(np.array(graph.absent))] = 0
        operator = Operator(
            _without_loops(operator.matrix, present.repeat(copies, 1)), bounds, present.repeat(copies, 1)
        )
    arithmetic = double_precision(nodes=many.num_nodes, columns=1, residual=4.0)
    unit = "node"
    calibrated = calibrate_propagation(layer.sensitivity(unit, bounds), hops=2, mu=1.0, arithmetic=arithmetic)
    x = torch.ones(n, 1, dtype=torch.float64).repeat(copies, 1)
    if inner_projection:
        state = propagate(layer, operator, x, calibrated, NoiseSource.secure())
    else:
        x0 = state = operator.mask(x)
        noise = NoiseSource.secure()
        for _ in range(2):
            z = torch.from_numpy(noise.gaussian(tuple(state.shape), std=calibrated.noise_std))
            state = project_rows(layer(state, operator, x0) + z)
    return state.numpy().reshape(copies, n)


def _without_loops(matrix: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    coo = matrix.to_sparse_coo().coalesce()
    rows, columns = coo.indices()
    keep = present.ravel()[rows] * present.ravel()[columns]
    return torch.sparse_coo_tensor(
        coo.indices(), coo.values() * keep, coo.shape, check_invariants=False
    ).to_sparse_csr()


@pytest.mark.slow
def test_node_level_is_consistent_and_a_missing_inner_projection_is_rejected() -> None:
    star = Graph.from_edges(np.zeros((4, 1)), np.array([[0, 0, 0], [1, 2, 3]]))
    gone = star.without_node(0)
    honest = best_mu(node_states(gone, 40_000, True), node_states(star, 40_000, True))
    assert 0.15 < honest <= 1.0, f"proven mu {honest}"
    broken = best_mu(node_states(gone, 40_000, False), node_states(star, 40_000, False))
    assert broken > 1.0, f"the missing inner projection must be rejected, got {broken}"


# -- rows without data of their own (docs/privacy.md, Lemma B) -------------------------------------------------------


LAYERS_OF_NODE_LEVEL = [
    ContractiveGraphLayer(0.9, 1.0, 0.0),
    ContractiveGraphLayer(0.9, 0.0, 2.0),
    ContractiveGraphLayer(1.0, 0.4, 0.7),
    SpectralLayer(theta0=0.5, theta1=-0.5, contraction=0.9, beta=0.3),
    GCNLayer(2, contraction=1.0, beta=0.3),
]
layers_of_node_level = pytest.mark.parametrize("layer", LAYERS_OF_NODE_LEVEL, ids=str)


def star(x: np.ndarray, leaves: int = 4) -> Graph:
    """Node 0 in the middle of its leaves, one edge beside them, and a node alone."""
    edges = [[0] * leaves + [leaves + 1], [*range(1, leaves + 1), leaves + 2]]
    return Graph.from_edges(x, edges)


def blank_copy(graph: Graph, node: int) -> Graph:
    """What a reader makes of the same tables after a person's data were deleted: a row of zeros, and no edges."""
    x, (u, v) = np.array(graph.features), graph.edge_index
    x[node] = 0
    return Graph.from_edges(x, graph.edge_index[:, (u != node) & (v != node)])


def steps_moved(
    layer: BoundedLayer, worlds: tuple[Graph, Graph], own: tuple[np.ndarray, np.ndarray], x: np.ndarray
) -> float:
    """How far Pi(phi(X)) moves between two worlds with their rows without data; X: rows in the unit ball."""
    bounds = Bounds(degree_cap=6, nodes=worlds[0].num_nodes)
    rows = []
    for graph, ownless in zip(worlds, own, strict=True):
        operator = layer.operator(graph, bounds, np.random.default_rng(0)).without_own_rows(ownless)
        start = project_rows(torch.from_numpy(np.array(graph.features, dtype=np.float64)))
        rows.append(project_rows(layer(torch.from_numpy(x), operator, start)).numpy())
    return float(np.linalg.norm(rows[0] - rows[1]))


@layers_of_node_level
def test_a_blank_row_is_the_zeroed_out_node_bit_by_bit(layer: BoundedLayer) -> None:
    graph = random_graph(16, seed=2, columns=2)
    bounds = Bounds(degree_cap=5, nodes=16)
    sensitivity = layer.sensitivity("node", bounds)
    arithmetic = sensitivity.arithmetic(nodes=16, columns=2)
    calibrated = calibrate_propagation(sensitivity, hops=3, mu=1.0, arithmetic=arithmetic)
    for node in range(16):
        states = []
        for world in (graph.without_node(node), blank_copy(graph, node)):
            operator = layer.operator(world, bounds, np.random.default_rng(0))
            states.append(propagate(layer, operator, features(world), calibrated, NoiseSource.seeded(3)))
        assert torch.equal(*states)


def test_a_blank_row_would_move_twice_the_bound_if_it_were_a_person_with_zeros() -> None:
    """alpha_1 = 0, beta = 2: the mean comes from one side and X^(0) from the other, so the row of v turns round."""
    n, layer = 400, ContractiveGraphLayer(1.0, 0.0, 2.0)
    x = np.zeros((n, 1))
    x[:] = 1.0
    x[0] = -1.0
    graph = Graph.from_edges(x, np.empty((2, 0), int))
    bounds = Bounds(degree_cap=1, nodes=n)
    delta = layer.sensitivity("node", bounds).value
    gone, state = blank_copy(graph, 0), project_rows(features(graph)).numpy()
    nobody = np.zeros(n, bool)
    kept = steps_moved(layer, (graph, gone), (nobody, nobody), state)
    assert kept > 1.9 * delta, "as a person with zeros it keeps the mean"
    ruled = steps_moved(layer, (graph, gone), (graph.without_features, gone.without_features), state)
    assert ruled <= delta * (1 + 1e-12)


@layers_of_node_level
def test_the_bound_holds_for_every_set_of_rows_without_data(layer: BoundedLayer) -> None:
    """Theorem 3 for a given set D of nodes with a row of their own: the two worlds have the same D outside v."""
    rng = np.random.default_rng(0)
    delta = layer.sensitivity("node", Bounds(degree_cap=6, nodes=8)).value
    worst = 0.0
    for trial in range(100):
        x = np.where(rng.random((8, 1)) < 0.5, 0.0, rng.standard_normal((8, 2)))
        pairs = np.array([(u, v) for u in range(8) for v in range(u) if rng.random() < 0.3 or (v == 0 and trial % 2)])
        graph = Graph.from_edges(x, pairs.reshape(-1, 2).T)
        if graph.degrees.max() > 6:
            continue
        gone = graph.without_node(0)
        state = rng.choice([-1.0, 1.0]) * np.ones((8, 2)) / math.sqrt(2) if trial % 3 else rng.standard_normal((8, 2))
        state = project_rows(torch.from_numpy(state)).numpy()
        found = steps_moved(layer, (graph, gone), (graph.without_features, gone.without_features), state)
        worst = max(worst, found)
        assert found <= delta * (1 + 1e-12)
    assert worst > 0.4 * delta


def test_a_rule_that_looks_at_edges_would_break_the_bound() -> None:
    """If "no features and no edge" made a node absent, the leaves of v would leave with it, and every one of them would count."""
    layer = ContractiveGraphLayer(1.0, 0.0, 0.0)
    graph = star(np.array([[1.0]] + [[0.0]] * 4 + [[1.0]] * 2))
    worlds = graph, graph.without_node(0)
    delta = layer.sensitivity("node", Bounds(degree_cap=6, nodes=7)).value
    by_data = tuple(world.without_features for world in worlds)
    by_edges = tuple(world.without_features & (world.degrees == 0) for world in worlds)
    assert [int(blank.sum()) for blank in by_edges] == [0, 5]
    assert steps_moved(layer, worlds, by_data, np.ones((7, 1))) <= delta * (1 + 1e-12)
    assert steps_moved(layer, worlds, by_edges, np.ones((7, 1))) > 1.9 * delta


@pytest.mark.parametrize("hops", [1, 3])
def test_at_edge_level_rows_of_zeros_are_rows_like_others(hops: int) -> None:
    """There edges are private: a rule on "has no edge" would let one edge turn a node on or off."""
    layer, bounds = ContractiveGraphLayer(0.9, 0.5, 0.0), Bounds(degree_floor=1, nodes=6)
    x = np.array([[1.0], [1.0], [1.0], [0.0], [0.0], [0.0]])
    graph = Graph.from_edges(x, [[0, 1, 3], [1, 2, 2]])  # 3 hangs on one edge, 4 and 5 are alone
    operator, calibrated = prepared(graph, layer, "edge", hops, math.inf, bounds)
    state = propagate(layer, operator, features(graph), calibrated, NoiseSource.seeded(0)).numpy()
    W, mine = operator.matrix.to_dense().numpy(), x
    for _ in range(hops):
        mine = 0.9 * (0.5 * W @ mine + 0.5 * mine.mean(axis=0))
        mine = mine / np.maximum(1, np.abs(mine))
    assert np.allclose(state, mine)
    assert (state[4:] > 0).all(), "a node alone still gets the mean"
    operator, _ = prepared(graph.without_edge(2, 3), layer, "edge", hops, math.inf, bounds)
    assert operator.own is None
