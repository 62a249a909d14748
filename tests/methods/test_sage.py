"""The methods sage-edp and sage-inf: contract, certificates, and the distribution of the whole release by enumeration.

The method sage-ndp: contract, attacks on its gradient bound, its rows and messages, and what each group of nodes pays.
"""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.special import softmax

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.bounded_rows import Rows, row_norms
from caribou.mechanisms.clipped_gradients import linear_clipped_sum
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import perturb
from caribou.methods.sage import SageEdge, SageNdp, messages, neighbourhood_rows
from caribou.model.verify import verify
from caribou.privacy.certificate import Certificate
from caribou.privacy.mechanism_records import Group, groups_of
from caribou.privacy.pair_response import (
    asymmetric_response,
    laplace_threshold_response,
    pair_count,
    split_pair_budget,
)
from caribou.privacy.sensitivity import Bounds, neighbourhood_gradient_sensitivity
from caribou.randomness import Streams

GRAPH = cb.datasets.load(
    "csbm", nodes=200, classes=3, average_degree=8.0, homophily=0.9, signal=0.8, features=6, seed=3
)

QUICK = SageEdge(epochs=25, hidden=16)


def fit(method: SageEdge, epsilon: float, graph: Graph = GRAPH, seed: int = 1, noise_seed: int = 1):
    return methods.fit(method, graph, cb.Budget(epsilon), Streams(seed), NoiseSource.seeded(noise_seed))


def test_errors_have_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("caribou.mechanisms.randomized_response.MOST_PAIRS", 10)
    with pytest.raises(InputError, match=r"at most 10 edges, got .* expected among 19,900 pairs"):
        fit(QUICK, 1.0)


def release_probabilities(edges: int, rule, plan, nodes: int = 3) -> dict[tuple[int, int, int], float]:
    """P(count = k, u of the graph's edges kept, w new ones), of one particular outcome each."""
    N = pair_count(nodes)
    a = math.exp(-plan.count)
    exact = {k: (1 - a) / (1 + a) * a ** abs(k - edges) for k in range(N + 1)}
    exact[0] = a**edges / (1 + a)  # everything below is clamped
    exact[N] = a ** (N - edges) / (1 + a)
    assert math.fsum(exact.values()) == pytest.approx(1)
    found = {}
    for k, p in exact.items():
        r = rule(epsilon=plan.pairs, edges=k, nodes=nodes)
        for kept, made in itertools.product(range(edges + 1), range(N - edges + 1)):
            ones = r.keep_one**kept * r.make_one**made
            zeros = (1 - r.keep_one) ** (edges - kept) * (1 - r.make_one) ** (N - edges - made)
            found[k, kept, made] = p * ones * zeros
    return found


@pytest.mark.parametrize("rule", [asymmetric_response, laplace_threshold_response])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_count_and_pairs_together_cost_epsilon_and_not_less(rule, epsilon: float) -> None:
    """Every graph with 3 nodes, every edge taken out, every outcome: the largest ratio of probabilities is e^epsilon."""
    plan = split_pair_budget(cb.Budget(epsilon), 0.2)
    worst = 0.0
    for edges in (1, 2, 3):
        whole, without = (release_probabilities(e, rule, plan) for e in (edges, edges - 1))
        for k, kept, made in whole:
            # the pair that differs is the last of the kept edges, or the first of the lost ones
            for answer in (0, 1):
                if (answer and kept == 0) or (not answer and kept == edges):
                    continue
                p, q = whole[k, kept, made], without[k, kept - answer, made + answer]
                if p or q:
                    worst = max(worst, abs(math.log(p / q)) if p and q else math.inf)
    # LapGraph costs less than promised where the threshold is between 0 and 1; then what it states exactly is reached
    stated = plan.count + max(rule(epsilon=plan.pairs, edges=k, nodes=3).epsilon for k in range(4))
    assert 0.9 * stated < worst <= epsilon
    assert rule is laplace_threshold_response or stated > 0.999 * epsilon


def test_the_release_has_the_enumerated_distribution() -> None:
    graph = Graph.from_edges(np.zeros((3, 1)), [[0], [1]])
    budget, runs = cb.Budget(2.0), 4_000
    pairs = split_pair_budget(budget, 0.3)
    expected = release_probabilities(1, asymmetric_response, pairs)
    ways = {key: math.comb(2, key[2]) for key in expected}
    seen = dict.fromkeys(expected, 0)
    source = NoiseSource.seeded(1)
    for run in range(runs):
        drawn = perturb(graph, pairs, source.stream(str(run)), asymmetric_response, max_edges=None)
        kept = int(((drawn.pairs[0] == 0) & (drawn.pairs[1] == 1)).sum())
        seen[drawn.count, kept, drawn.pairs.shape[1] - kept] += 1
    keys = [key for key in expected if expected[key] > 0]
    e = np.array([runs * expected[key] * ways[key] for key in keys])
    o = np.array([seen[key] for key in keys])
    assert o.sum() == runs
    assert stats.chi2.sf(((o - e) ** 2 / e).sum(), len(keys) - 1) > 1e-6


NODE = {"delta": 1e-5, "unit": "node"}


def node_fit(method: SageNdp, epsilon: float, graph: Graph = GRAPH):
    return methods.fit(method, graph, cb.Budget(epsilon, **NODE), Streams(1), NoiseSource.seeded(1))


def star_worlds(cap: int, own_share: float, seed: int) -> float:
    """How many clips the centre of a star moves the sum of gradients: hill climbing over rows and weights."""
    rng = np.random.default_rng(seed)
    d, C, w = 3, 3, own_share
    adjacency = sp.csr_array(nx.to_scipy_sparse_array(nx.star_graph(cap), format="csr"))

    def moved(z: np.ndarray, W: np.ndarray, y: np.ndarray) -> float:
        rows = Rows.of(z)
        everyone = np.arange(cap + 1)
        with_centre = neighbourhood_rows(rows, adjacency, everyone, cap, w)
        alone = neighbourhood_rows(rows, sp.csr_array(adjacency.shape), everyone[1:], cap, w)
        c = 1e-3  # far below the gradients' norms, so that the clip bites wherever it can
        return float(
            np.linalg.norm(linear_clipped_sum(with_centre, y, W, c) - linear_clipped_sum(alone, y[1:], W, c)) / c
        )

    def rows_of(z: np.ndarray) -> np.ndarray:
        return z / np.maximum(row_norms(z), 1)[:, None]

    best = 0.0
    for _ in range(6):
        z, W, y = (
            rows_of(rng.normal(size=(cap + 1, d)) * 3),
            rng.normal(size=(2 * d, C)) * 30,
            rng.integers(0, C, cap + 1),
        )
        y[1:] = y[1]
        z[1:] = z[1]
        value, step = moved(z, W, y), 0.5
        for _ in range(250):
            shift = rng.normal(size=(2, d)) * step
            z2 = rows_of(np.concatenate([z[:1] + shift[:1], np.repeat(z[1:2] + shift[1:], cap, axis=0)]))
            W2 = W + rng.normal(size=W.shape) * step * 30
            other = moved(z2, W2, y)
            if other > value:
                z, W, value = z2, W2, other
            else:
                step = max(0.01, step * 0.98)
        best = max(best, value)
    return best


@pytest.mark.parametrize(("cap", "own_share"), [(1, 0.5), (3, 0.5), (3, 0.85), (8, 0.7)])
def test_no_attack_on_a_star_exceeds_the_gradient_bound(cap: int, own_share: float) -> None:
    bounds = Bounds(nodes=100, declared_degree=cap)
    bound = neighbourhood_gradient_sensitivity(message_scale=cap, own_share=own_share, bounds=bounds)
    assert 0.88 * bound < star_worlds(cap, own_share, seed=cap) <= bound


def worst_case(cap: int, own_share: float) -> tuple[float, float]:
    """What the centre of a star does to its neighbours' examples, and in all, in clips; the rows and weights of the proof.

    Every leaf has a helper that turns its neighbour part around when the centre leaves; the model is sure of two different wrong
    classes on the two sides.
    """
    edges = [(0, 1 + i) for i in range(cap)] + [(1 + i, 1 + cap + i) for i in range(cap)]
    n = 2 * cap + 1
    adjacency = sp.csr_array(nx.to_scipy_sparse_array(nx.Graph(edges), nodelist=range(n), format="csr", dtype=float))
    z = np.zeros((n, 3))
    z[0, 1], z[1 : cap + 1, 0], z[cap + 1 :, 1] = 1.0, 1.0, -0.5
    W = np.zeros((6, 3))
    W[0] = (-1e5, 0, 0)  # never the true class 0 of a leaf
    W[4, 1], W[4, 2] = 1e5, -1e5  # the sign of the neighbour part decides between 1 and 2
    leaves, clip = np.arange(1, cap + 1), 0.05
    mask = sp.diags_array((np.arange(n) != 0).astype(float))
    worlds = [adjacency, sp.csr_array(mask @ adjacency @ mask)]
    sums = [
        linear_clipped_sum(neighbourhood_rows(Rows.of(z), a, leaves, cap, own_share), np.zeros(cap, int), W, clip)
        for a in worlds
    ]
    own = neighbourhood_rows(Rows.of(z), adjacency, np.array([0]), cap, own_share)
    W_own = W.copy()
    totals = [np.linalg.norm(sums[0] - sums[1] + linear_clipped_sum(own, np.array([y]), W_own, clip)) for y in range(3)]
    return float(np.linalg.norm(sums[0] - sums[1])) / clip, max(totals) / clip


@pytest.mark.parametrize("cap", [2, 4, 8])
@pytest.mark.parametrize("own_share", [0.3, 0.5, 0.85])
def test_neighbours_examples_reach_the_bound(cap: int, own_share: float) -> None:
    setting = {"message_scale": cap, "own_share": own_share, "bounds": Bounds(nodes=100, declared_degree=cap)}
    reached, in_all = worst_case(cap, own_share)
    neighbours, whole = (neighbourhood_gradient_sensitivity(**setting, own_example=own) for own in (False, True))
    assert 0.9999 * neighbours < reached <= neighbours
    assert in_all <= whole
    assert reached > cap, "a bound of one clip per example (as for a missing example) is rejected"


def test_cosines_of_the_proof_by_random_search() -> None:
    rng = np.random.default_rng(0)
    smallest = 1.0
    for _ in range(20_000):
        p, q = softmax(rng.normal(size=(2, 4)) * rng.uniform(0, 10), axis=1)
        # the residual with the sum of the others in the place of 1 - p_y, which would round to 0 for a model that is sure
        R, S = (np.append(-t[1:].sum(), t[1:]) for t in (p, q))
        smallest = min(smallest, float(R @ S / np.linalg.norm(R) / np.linalg.norm(S)))
    assert 0.5 - 1e-9 <= smallest < 0.51


def test_the_statistic_of_a_whole_graph_moves_by_at_most_the_bound() -> None:
    """All graphs with up to 5 nodes, every node: the real rows of the method, random weights."""
    rng = np.random.default_rng(1)
    largest = 0.0
    for nxg in nx.graph_atlas_g():
        n = nxg.number_of_nodes()
        if not 3 <= n <= 5:
            continue
        adjacency = sp.csr_array(nx.to_scipy_sparse_array(nxg, nodelist=range(n), format="csr", dtype=float))
        z = rng.normal(size=(n, 2))
        rows = Rows.of(z / np.maximum(row_norms(z), 1)[:, None])
        W, y = rng.normal(size=(4, 3)) * 20, rng.integers(0, 3, n)
        whole = linear_clipped_sum(neighbourhood_rows(rows, adjacency, np.arange(n), 3, 0.5), y, W, 0.01)
        for v in range(n):
            keep = np.setdiff1d(np.arange(n), [v])
            mask = sp.diags_array((np.arange(n) != v).astype(float))
            without = sp.csr_array(mask @ adjacency @ mask)
            part = linear_clipped_sum(neighbourhood_rows(rows, without, keep, 3, 0.5), y[keep], W, 0.01)
            degree = int(adjacency[[v]].sum())
            moved = np.linalg.norm(whole - part) / 0.01
            bound = neighbourhood_gradient_sensitivity(
                message_scale=3, own_share=0.5, bounds=Bounds(nodes=n), degree=degree
            )
            assert moved <= bound + 1e-9
            largest = max(largest, moved)
    assert largest > 2


def test_rows_of_a_neighbourhood_are_bounded_and_as_stated() -> None:
    z = np.random.default_rng(2).normal(size=(5, 3))
    z /= row_norms(z)[:, None]
    adjacency = sp.csr_array(nx.to_scipy_sparse_array(nx.path_graph(5), format="csr", dtype=float))
    h = neighbourhood_rows(Rows.of(z), adjacency, np.array([1, 3]), 2, 0.5)
    by_hand = np.sqrt(0.5) * np.concatenate([z[1], (z[0] + z[2]) / 2])
    assert np.allclose(h.times(np.eye(6))[0], by_hand)
    assert np.allclose(h.norms, row_norms(h.times(np.eye(6))))
    centred = Rows(sp.csr_array(z), row_norms(z - 0.1), np.full(3, 0.1), np.ones(5))
    dense = Rows.of(z - 0.1)
    one, two = (neighbourhood_rows(r, adjacency, np.arange(5), 2, 0.6).times(np.eye(6)) for r in (centred, dense))
    assert np.allclose(one, two)


@pytest.mark.parametrize("radius", [None, 0.5, 3.0])
def test_the_noise_of_the_sums_follows_from_the_certificate(radius: float | None) -> None:
    """The line of the sums is recomputed by verify; with a little less noise or another radius it fails."""
    method, budget = SageNdp(declared_degree=3, radius=radius), cb.Budget(4.0, 1e-5, "node")
    certificate = methods.fit(method, GRAPH, budget, Streams(0), NoiseSource.secure()).certificate
    assert verify(certificate).passed
    (place,) = [k for k, m in enumerate(certificate.mechanisms) if m.name == "noisy sums over neighbours"]
    line = certificate.mechanisms[place]
    used = math.sqrt(3) if radius is None else radius
    assert certificate.public_parameters["radius"] == line.details["sensitivity"]["radius"] == used
    assert line.details["sensitivity"]["value"] == pytest.approx(math.sqrt(3 + used**2))
    for change in (
        {"noise_std": 0.999 * line.details["noise_std"]},
        {"sensitivity": line.details["sensitivity"] | {"radius": 0.9 * used}},
    ):
        forged = certificate.to_dict()
        forged["mechanisms"][place]["details"] |= change
        assert not verify(Certificate.from_dict(forged)).passed


def test_what_a_node_without_its_own_example_pays_is_less() -> None:
    groups = groups_of(node_fit(SageNdp(), 4.0).certificate.mechanisms)
    assert set(groups) == {Group.TRAINING, Group.VALIDATION, Group.OTHERS}
    training, neighbour = groups[Group.TRAINING][1], groups[Group.OTHERS][0]
    assert training.count == neighbour.count
    ratio = neighbour.noise_multiplier / training.noise_multiplier
    cap = {"message_scale": 2, "own_share": 0.85, "bounds": Bounds(nodes=200, declared_degree=100)}
    assert ratio == pytest.approx(
        neighbourhood_gradient_sensitivity(**cap) / neighbourhood_gradient_sensitivity(**cap, own_example=False)
    )


def test_messages_are_unit_rows_of_own_data() -> None:
    z = np.random.default_rng(0).normal(size=(6, 4))
    layer = np.random.default_rng(1).normal(size=(8, 3))
    said = messages(Rows.of(z), layer)
    assert np.allclose(row_norms(said), 1)
    changed = z.copy()
    changed[2] += 1
    assert np.flatnonzero(~np.isclose(messages(Rows.of(changed), layer), said).all(axis=1)).tolist() == [2]
    assert (messages(Rows.of(z), np.zeros((8, 3))) == 0).all()
