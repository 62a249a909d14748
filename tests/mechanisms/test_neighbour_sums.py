"""Noisy sums over neighbours: brute force on both sensitivities, exact arithmetic, the noise as it is drawn, attacks on runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from attack_support import require_std, small_graphs_one_edge_apart
from caribou.errors import CalibrationError, InputError
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import project_rows, unit_length
from caribou.mechanisms.neighbour_sums import (
    StagedSums,
    bounded_adjacency,
    bounded_messages,
    neighbour_sums,
    noisy_sums,
)
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.arithmetic import grid_spacing
from caribou.privacy.calibration import CalibratedSums, calibrate_sums, sums_mu
from caribou.privacy.events import Gaussian, NonPrivate, gaussian_mu
from caribou.privacy.sensitivity import Bounds, SumSensitivity, sum_node_sensitivity, sum_sensitivity
from graph_families import graph_of, small_graphs

E = np.eye(3)


def adjacency_of(graph: Graph, cap: int | None = None) -> sp.csr_array:
    return bounded_adjacency(graph, cap, np.random.default_rng(0))


def rows_to_try(n: int, rng: np.random.Generator) -> np.ndarray:
    """All sign patterns of one direction, and random rows on and in the ball. [ways, n, 3]"""
    patterns = [np.outer(signs, E[0]) for signs in itertools.product((1.0, -1.0), repeat=n) if signs[0] > 0]
    random = [rng.standard_normal((n, 3)) for _ in range(8)]
    on = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in random]
    return np.array([*patterns, *on, *(x * rng.random((n, 1)) for x in on)])


def calibrated_for(bound: SumSensitivity, n: int, hops: int = 1, mu: float = 1.0, columns: int = 3) -> CalibratedSums:
    return calibrate_sums(bound, hops=hops, mu=mu, nodes=n, columns=columns)


def sums_of_all(a: sp.csr_array, ways: np.ndarray, bound: SumSensitivity) -> np.ndarray:
    """The sums for every way to choose the rows, side by side in one graph. [ways, n, 3]"""
    many = sp.csr_array(sp.kron(sp.eye_array(len(ways)), a))
    rows = ways.reshape(-1, 3)
    return neighbour_sums(many, rows, calibrated_for(bound, len(rows))).reshape(ways.shape)


def moves(a: sp.csr_array, b: sp.csr_array, ways: np.ndarray, bound: SumSensitivity) -> np.ndarray:
    """How far the sums move between two worlds, for every way to choose the rows. [ways]"""
    return np.linalg.norm(sums_of_all(a, ways, bound) - sums_of_all(b, ways, bound), axis=(1, 2))


def test_edge_bound_is_never_exceeded_and_reached() -> None:
    rng = np.random.default_rng(0)
    bound, best = sum_sensitivity("edge"), 0.0
    for _, _, graph, other in small_graphs_one_edge_apart():
        moved = moves(adjacency_of(graph), adjacency_of(other), rows_to_try(graph.num_nodes, rng), bound)
        assert moved.max() <= bound.value
        best = max(best, float(moved.max()))
    assert best >= 0.999 * bound.value
    assert best > 1.4  # the published bound, 1, is for one directed entry: an undirected edge exceeds it


Worlds = tuple[int, int, int, sp.csr_array, sp.csr_array]


def worlds_without_a_node(cap: int | None, keys: int = 1) -> Iterator[Worlds]:
    """n, node, its degree, and A with and without it, for all small graphs and several orders of the pairs."""
    for nxg in small_graphs():
        graph = graph_of(nxg)
        for v, key in itertools.product(range(graph.num_nodes), range(keys)):
            worlds = (bounded_adjacency(g, cap, np.random.default_rng(key)) for g in (graph, graph.without_node(v)))
            yield graph.num_nodes, v, nxg.degree(v), *worlds


@pytest.mark.parametrize("relative_radius", [0.0, 0.5, 1.0, 2.0])
def test_node_bound_is_never_exceeded_and_reached(relative_radius: float) -> None:
    """Every edge read, r between 1 and beyond d. The removed node's own row differs between the worlds: nobody may read it."""
    rng = np.random.default_rng(1)
    best: dict[int, float] = {}
    for n, v, degree, a, b in worlds_without_a_node(None):
        radius = max(1.0, relative_radius * degree)
        bound = sum_sensitivity("node", bounds=Bounds(nodes=n), radius=radius)
        assert bound.at_degree(degree) == pytest.approx(math.sqrt(degree + min(radius, degree) ** 2))
        assert bound.value == bound.at_degree(max(1, n - 1))
        ways = rows_to_try(n, rng)
        without = ways.copy()
        without[:, v] = rng.standard_normal((len(ways), 3))
        moved = np.linalg.norm(sums_of_all(a, ways, bound) - sums_of_all(b, without, bound), axis=(1, 2))
        calibrated = calibrated_for(bound, n)
        allowed = bound.at_degree(degree) + 2 * calibrated.arithmetic.error(calibrated.noise_std)
        assert moved.max() <= allowed, f"exceeded by {a.toarray()}, node {v}"
        best[degree] = max(best.get(degree, 0.0), float(moved.max()))
    for degree in (1, 2, 3, 4):
        radius = max(1.0, relative_radius * degree)
        assert best[degree] >= 0.999 * sum_node_sensitivity(bounds=Bounds(nodes=5), radius=radius, degree=degree)
        # the published bound sqrt(D) forgets the own row, and is exceeded
        assert best[degree] > 1.1 * math.sqrt(degree)


@pytest.mark.parametrize(("cap", "least"), [(1, 0.7), (2, 0.7), (3, 0.7)])
def test_node_bound_holds_where_degrees_are_cut(cap: int, least: float) -> None:
    """Theorem 9: places that the node frees go to other edges, by several orders of the pairs."""
    rng = np.random.default_rng(cap)
    best = 0.0
    for n, v, degree, a, b in worlds_without_a_node(cap, keys=2):
        radius = float(cap)
        bound = sum_sensitivity("node", bounds=Bounds(degree_cap=cap), radius=radius)
        moved = float(moves(a, b, rows_to_try(n, rng), bound).max())
        assert moved <= bound.at_degree(degree) * (1 + 1e-12), f"exceeded by {a.toarray()}, node {v}"
        best = max(best, moved / bound.at_degree(degree) if degree else 0.0)
    assert best >= least, f"only {best:.3f} of the bound is reached"


@pytest.mark.parametrize("radius", [0.3, 0.5, 0.8])
def test_node_bound_holds_for_a_radius_below_one_message(radius: float) -> None:
    """It is not tight there: a projected row moves by 2 r at most."""
    rng = np.random.default_rng(1)
    for n, v, degree, a, b in worlds_without_a_node(None):
        bound = sum_sensitivity("node", bounds=Bounds(nodes=n), radius=radius)
        ways = rows_to_try(n, rng)
        assert moves(a, b, ways, bound).max() <= bound.at_degree(degree), f"exceeded by {a.toarray()}, node {v}"
        assert np.linalg.norm(sums_of_all(a, ways, bound), axis=2).max() <= radius * (1 + 1e-12)


@pytest.mark.parametrize(
    ("degree", "radius"), [(8, math.sqrt(8)), (20, math.sqrt(20)), (20, 5.0), (100, 10.0), (50, 80.0)]
)
def test_stars_reach_the_node_bound_and_without_the_own_row_it_would_be_exceeded(degree: int, radius: float) -> None:
    bound = sum_sensitivity("node", bounds=Bounds(nodes=degree + 1), radius=radius)
    graph = graph_of(nx.star_graph(degree))
    calibrated = calibrated_for(bound, degree + 1)
    z = np.tile(E[0], (degree + 1, 1))
    moved = neighbour_sums(adjacency_of(graph), z, calibrated)
    moved -= neighbour_sums(adjacency_of(graph.without_node(0)), z, calibrated)
    assert 0.9999 * bound.value <= np.linalg.norm(moved) <= bound.value * (1 + 1e-6)
    others = np.linalg.norm(moved[1:])
    assert others <= math.sqrt(degree) < np.linalg.norm(moved)
    # without clipping the own row is d: a mechanism that skips Pi_r is rejected by its own bound
    if radius < degree:
        raw = np.asarray(adjacency_of(graph) @ z - adjacency_of(graph.without_node(0)) @ z)
        assert np.linalg.norm(raw) > 1.2 * bound.value


def test_messages_are_shorter_than_one_in_exact_arithmetic_and_on_the_grid() -> None:
    rng = np.random.default_rng(1)
    for std in (0.01, 1.0, 37.0):
        z = rng.standard_normal((200, 16)) * rng.choice([1e-3, 1, 1e8], (200, 1))
        sent = bounded_messages(z, noise_std=std)
        grid = Fraction(grid_spacing(noise_std=std))
        for row in sent:
            assert sum(Fraction(float(x)) ** 2 for x in row) <= 1
            assert all((Fraction(float(x)) / grid).denominator == 1 for x in row)


def test_sums_are_exact_so_rows_that_an_edge_does_not_touch_are_bit_identical() -> None:
    rng = np.random.default_rng(2)
    n = 400
    graph = graph_of(nx.gnp_random_graph(n, 0.2, seed=1))
    calibrated = calibrated_for(sum_sensitivity("edge"), n, columns=16)
    z = rng.standard_normal((n, 16))
    whole = neighbour_sums(adjacency_of(graph), z, calibrated)
    backwards = neighbour_sums(adjacency_of(graph)[:, ::-1], z[::-1], calibrated)
    assert np.array_equal(whole, backwards)
    u, v = (int(x) for x in graph.edge_index[:, 0])
    less = neighbour_sums(adjacency_of(graph.without_edge(u, v)), z, calibrated)
    touched = np.flatnonzero((whole != less).any(axis=1))
    assert touched.tolist() == sorted((u, v))


def test_the_noise_has_the_calibrated_std_at_every_hop() -> None:
    n = 4000
    graph = Graph.from_edges(np.zeros((n, 1)), graph_of(nx.star_graph(3)).edge_index)
    calibrated = calibrate_sums(sum_sensitivity("edge"), hops=3, mu=0.7, nodes=n, columns=16)
    z = project_rows(np.random.default_rng(0).standard_normal((n, 16)), 1.0)
    for sums in noisy_sums(adjacency_of(graph), z, calibrated, NoiseSource.seeded(3)):
        require_std(sums[4:], calibrated.noise_std)  # rows without a neighbour are noise alone


def proven_mu(one: np.ndarray, two: np.ndarray) -> float:
    """mu from the best threshold of a score in two worlds: Phi^-1(TPR) - Phi^-1(FPR) at the middle."""
    threshold = (one.mean() + two.mean()) / 2
    true, false = np.mean(two > threshold), np.mean(one > threshold)
    return float(norm.ppf(true) - norm.ppf(false))


RUNS = 6000


def worst_worlds(unit: str, hops: int, mu: float = 1.0) -> tuple[CalibratedSums, list[sp.csr_array], int]:
    """The noise, a star with and without an edge or its middle, many runs side by side, and the nodes of one run."""
    graph = graph_of(nx.star_graph(5))
    bound, other = sum_sensitivity("edge"), graph.without_edge(0, 1)
    if unit == "node":
        bound, other = sum_sensitivity("node", bounds=Bounds(nodes=6), radius=2.0), graph.without_node(0)
    calibrated = calibrate_sums(bound, hops=hops, mu=mu, nodes=6 * RUNS, columns=2)
    return calibrated, [sp.csr_array(sp.kron(sp.eye_array(RUNS), adjacency_of(g))) for g in (other, graph)], 6


def log_ratios(
    released: np.ndarray, sent: np.ndarray, worlds: list[sp.csr_array], calibrated: CalibratedSums
) -> np.ndarray:
    """Of one stage, for every run."""
    without, with_it = (((released - neighbour_sums(a, sent, calibrated)) ** 2).sum(axis=1) for a in worlds)
    return np.asarray((without - with_it).reshape(RUNS, -1).sum(axis=1) / (2 * calibrated.noise_std**2))


@pytest.mark.parametrize(("unit", "hops"), [("edge", 1), ("edge", 2), ("node", 1), ("node", 2)])
def test_a_likelihood_ratio_attack_proves_the_claimed_mu_and_no_more(unit: str, hops: int) -> None:
    """The whole transcript on the worst pair; halved noise would be rejected."""
    mu = 1.0
    calibrated, worlds, n = worst_worlds(unit, hops, mu)
    z = np.tile([1.0, 0.0], (n * RUNS, 1))

    def scores(adjacency: sp.csr_array, noise: NoiseSource) -> np.ndarray:
        total, before = np.zeros(RUNS), z
        for s in noisy_sums(adjacency, z, calibrated, noise):
            total += log_ratios(s, before, worlds, calibrated)
            before = s / np.maximum(np.linalg.norm(s, axis=1, keepdims=True), 1e-300)
        return total

    noise = NoiseSource.seeded(7)
    proven = proven_mu(*(scores(a, noise) for a in worlds))
    error = 4 * math.sqrt(2 / RUNS) / norm.pdf(mu / 2)  # generous
    assert proven <= mu + error * 0.5
    # the second hop sends what noise left of the first: its messages are not the worst ones at node level
    assert proven >= (0.9 if hops == 1 or unit == "edge" else 0.7) * mu


@pytest.mark.parametrize("unit", ["edge", "node"])
def test_stages_that_learn_from_their_sums_prove_the_claimed_mu_and_no_more(unit: str) -> None:
    """All nodes send the same, the worst messages; in the second stage in a direction that the first sums chose."""
    mu = 1.0
    calibrated, worlds, n = worst_worlds(unit, 2, mu)
    start = np.tile([1.0, 0.0], (n * RUNS, 1))

    def scores(adjacency: sp.csr_array, noise: NoiseSource) -> np.ndarray:
        sums = StagedSums(adjacency, calibrated, noise)
        first = sums.release(start)
        learned = np.repeat(unit_length(first.reshape(RUNS, n, 2).sum(axis=1)), n, axis=0)
        stages = (first, start), (sums.release(learned), learned)
        return np.sum([log_ratios(released, sent, worlds, calibrated) for released, sent in stages], axis=0)

    proven = proven_mu(*(scores(a, NoiseSource.seeded(k)) for k, a in enumerate(worlds)))
    error = 2 * math.sqrt(2 / RUNS) / norm.pdf(mu / 2)
    assert abs(proven - mu) < error < 0.11, "the bound is kept, and reached in both stages"


def test_no_more_sums_are_released_than_the_noise_is_for() -> None:
    a, z = adjacency_of(graph_of(nx.star_graph(3))), np.ones((4, 3))
    sums = StagedSums(a, calibrated_for(sum_sensitivity("edge"), 4, hops=2), NoiseSource.seeded(0))
    with pytest.raises(InputError, match="finite"):
        sums.release(z * math.nan)
    drawn = [sums.release(z), sums.release(z)]
    assert sums.left == 0
    assert not np.isclose(*drawn).any(), "the noise of one stage was used in another"
    with pytest.raises(InputError, match="summed 2 times at most, which the noise is for, got one more"):
        sums.release(z)


def test_calibration_is_exact_and_composes() -> None:
    declared, cut = Bounds(nodes=1000, declared_degree=30), Bounds(degree_cap=30, nodes=1000)
    at_nodes = [sum_sensitivity("node", bounds=bounds, radius=4.0) for bounds in (declared, cut)]
    for hops in (1, 2, 5):
        for bound in (sum_sensitivity("edge"), *at_nodes):
            c = calibrate_sums(bound, hops=hops, mu=0.8, nodes=1000, columns=16)
            error = c.arithmetic.error(c.noise_std)
            again = sums_mu(sensitivity=bound.value, hops=hops, noise_std=c.noise_std, arithmetic_error=error)
            assert 0.8 * (1 - 1e-9) <= again <= 0.8
            assert c.event == Gaussian(math.sqrt(hops) / c.mu, hops)
            assert 0.8 * (1 - 1e-9) <= gaussian_mu([c.event]) <= 0.8
            assert c.noise_std == pytest.approx(bound.value * math.sqrt(hops) / 0.8, rel=1e-4)
        for bound in at_nodes:
            c = calibrate_sums(bound, hops=hops, mu=0.8, nodes=1000, columns=16)
            assert gaussian_mu([c.event_at(30)]) == pytest.approx(c.mu, rel=1e-9)
            for degree in (0, 7, 29, 31, 999):
                ratio = gaussian_mu([c.event_at(degree)]) / c.mu
                assert ratio == pytest.approx(bound.at_degree(degree) / bound.value, abs=1e-4)
                assert (ratio > 1) == (degree > 30)
    free = calibrate_sums(sum_sensitivity("edge"), hops=2, mu=math.inf, nodes=10, columns=3)
    assert (free.noise_std, free.event, free.event_at(3)) == (0.0, NonPrivate(), NonPrivate())


def test_errors() -> None:
    graph = graph_of(nx.star_graph(3))
    a, z = adjacency_of(graph), np.ones((4, 3))
    node = calibrated_for(sum_sensitivity("node", bounds=Bounds(degree_cap=2), radius=1.0), 4)
    with pytest.raises(InputError, match="degrees of at most the cap 2"):
        noisy_sums(a, z, node, NoiseSource.seeded(0))
    noisy_sums(adjacency_of(graph, 2), z, node, NoiseSource.seeded(0))
    edge = calibrated_for(sum_sensitivity("edge"), 4)
    for bad, message in ((np.ones((3, 3)), "shape"), (np.ones((4, 2)), "4 x 2"), (z * math.nan, "finite")):
        with pytest.raises(InputError, match=message):
            noisy_sums(a, bad, edge, NoiseSource.seeded(0))
    with pytest.raises(InputError, match="for exact sums"):
        noisy_sums(a, z, calibrated_for(sum_sensitivity("edge"), 4, mu=1e9), NoiseSource.seeded(0))
    with pytest.raises(CalibrationError, match="double precision"):
        calibrated_for(sum_sensitivity("node", bounds=Bounds(degree_cap=2), radius=1.0), 10**6, mu=1e-9)
    for arguments in ({"bounds": Bounds(degree_cap=3)}, {"radius": 2.0}):
        with pytest.raises(InputError, match="None at edge level"):
            sum_sensitivity("edge", **arguments)
        with pytest.raises(InputError, match="must be given at node level"):
            sum_sensitivity("node", **arguments)
    with pytest.raises(InputError, match="radius must be a finite number > 0"):
        sum_node_sensitivity(bounds=Bounds(degree_cap=3), radius=0.0)
    with pytest.raises(InputError, match="mu must be > 0"):
        calibrate_sums(sum_sensitivity("edge"), hops=1, mu=0.0, nodes=4, columns=1)
