"""Votes at node level: brute force on both sensitivities, exact fractions, the noise as it is drawn, attacks on both ends."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from scipy.stats import norm

from attack_support import require_std
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.mechanisms.bounded_rows import project_rows
from caribou.mechanisms.node_votes import VotePlan, release_votes, vote_evidence, vote_sums, votes_pay
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.arithmetic import vote_arithmetic, vote_weight_bits
from caribou.privacy.calibration import CalibratedVotes, calibrate_votes
from caribou.privacy.events import Event, Gaussian, NonPrivate
from caribou.privacy.sensitivity import vote_receiver_sensitivity, vote_sender_sensitivity, vote_weight

LIMITS: tuple[int | None, ...] = (None, 1, 2, 3)
CLIP, VALIDATION_CLIP = 1.3, 0.8


def clipped(graph: Graph, split: Split, limit: int | None, clips: tuple[float, float]) -> np.ndarray:
    """What `release_votes` adds its noise to. [n, C]"""
    sums = vote_sums(graph, split, limit)
    rows = project_rows(sums, clips[0])
    rows[split.val] = project_rows(sums[split.val], clips[1])
    return rows


def attack_one_node(graph: Graph, v: int, degree: int, limit: int | None) -> float:
    """How much of its bound a node reaches when it leaves: never more than all of it."""
    assert graph.split is not None
    smaller = graph.without_node(v)
    assert smaller.split is not None
    before, after = (clipped(g, g.split, limit, (CLIP, VALIDATION_CLIP)) for g in (graph, smaller))
    moved = before - after
    if v in graph.split.train:
        bound = vote_sender_sensitivity(receivers_per_sender=limit, degree=degree)
        assert not before[v].any()  # a sender hears nothing
    else:
        row_clip = VALIDATION_CLIP if v in graph.split.val else CLIP
        bound = vote_receiver_sensitivity(receivers_per_sender=limit, row_clip=row_clip, degree=degree)
    reached = float(np.linalg.norm(moved))
    assert reached <= bound * (1 + 1e-9), f"{bound} exceeded: {reached}, node {v}, M = {limit}, {graph.edge_index}"
    return reached / bound if bound else 0.0


SENDER_0, SENDER_1, VALIDATION, OTHER = range(4)


def all_worlds(nodes: int) -> np.ndarray:
    """Every split into training, validation and other, with every class of the senders. [4^n, n]"""
    return np.array(list(itertools.product(range(4), repeat=nodes)))


def model_rows(adjacency: np.ndarray, roles: np.ndarray, limit: int | None) -> np.ndarray:
    """Clipped votes by their definition, for many worlds on one graph. [n, n], [B, n] -> [B, n, 2]"""
    is_sender = roles <= SENDER_1
    counts = (~is_sender).astype(int) @ adjacency.astype(int)
    weights = is_sender * np.vectorize(vote_weight)(counts, limit or 99)
    sums = np.stack([(weights * (roles == sender)) @ adjacency for sender in (SENDER_0, SENDER_1)], axis=2)
    sums *= ~is_sender[:, :, None]
    clips = np.where(roles == VALIDATION, VALIDATION_CLIP, CLIP)[:, :, None]
    return sums * np.minimum(1, clips / np.maximum(np.linalg.norm(sums, axis=2, keepdims=True), 1e-300))


def small_graphs(least: int = 2) -> list[nx.Graph]:
    graphs = (g for g in nx.graph_atlas_g() if least <= g.number_of_nodes() <= 5)
    return [g for g in graphs if g.number_of_edges() > 0]


@pytest.mark.parametrize("limit", LIMITS)
def test_one_node_moves_the_votes_as_claimed_on_all_small_graphs(limit: int | None) -> None:
    """All graphs with up to 5 nodes, all splits, all classes, every node that leaves: against the bound for its degree."""
    best = {"sender": 0.0, "receiver": 0.0}
    for nxg in small_graphs():
        n, adjacency = nxg.number_of_nodes(), nx.to_numpy_array(nxg)
        roles = all_worlds(n)
        before = model_rows(adjacency, roles, limit)
        for v in range(n):
            rest = adjacency.copy()
            rest[v] = rest[:, v] = 0
            moved = np.linalg.norm((before - model_rows(rest, roles, limit)).reshape(len(roles), -1), axis=1)
            degree = int(adjacency[v].sum())
            clips = {VALIDATION: VALIDATION_CLIP, OTHER: CLIP}
            for role in range(4):
                reached = float(moved[roles[:, v] == role].max())
                if role <= SENDER_1:
                    bound = vote_sender_sensitivity(receivers_per_sender=limit, degree=degree)
                else:
                    bound = vote_receiver_sensitivity(receivers_per_sender=limit, row_clip=clips[role], degree=degree)
                assert reached <= bound * (1 + 1e-12), f"{bound} exceeded: {reached}, node {v}, {nxg.edges}"
                word = "sender" if role <= SENDER_1 else "receiver"
                best[word] = max(best[word], reached / bound if degree else 0.0)
    assert best["sender"] > 0.99
    assert best["receiver"] > 0.95


def test_the_votes_are_those_of_their_definition() -> None:
    """`vote_sums` and the clip of the release against the model above, on random worlds."""
    rng = np.random.default_rng(0)
    for nxg in small_graphs(least=4)[::3]:
        n, adjacency = nxg.number_of_nodes(), nx.to_numpy_array(nxg)
        roles = rng.integers(0, 4, n)
        roles[0] = SENDER_0
        split = Split(*(np.flatnonzero(part) for part in (roles <= SENDER_1, roles == VALIDATION, roles == OTHER)))
        graph = Graph.from_edges(
            np.ones((n, 1)), np.array(list(nxg.edges)).T, labels=roles % 2, split=split, num_classes=2
        )
        for limit in LIMITS:
            votes = CalibratedVotes(limit, n, CLIP, VALIDATION_CLIP, 1e-9, votes_for(graph, limit, n).arithmetic)
            out = release_votes(vote_sums(graph, split, limit), split, votes, NoiseSource.seeded(0))
            assert out == pytest.approx(model_rows(adjacency, roles[None], limit)[0], abs=1e-7)
            for v in range(n):
                attack_one_node(graph, v, nxg.degree(v), limit)


def biclique(senders: int, receivers: int, classes: int = 2) -> Graph:
    """Every sender joined to every receiver; all senders of class 0."""
    n = senders + receivers
    edges = np.array([(u, v) for u in range(senders) for v in range(senders, n)]).T
    labels = np.array([0] * senders + [1] * receivers)
    split = Split(range(senders), [], range(senders, n))
    return Graph.from_edges(np.ones((n, 1)), edges, labels=labels, split=split, num_classes=classes)


@pytest.mark.parametrize(("limit", "degree"), [(1, 10), (2, 40), (8, 16), (20, 5), (50, 100)])
def test_the_worst_receiver_reaches_its_bound(limit: int, degree: int) -> None:
    """d senders with M + 1 receivers, all the same: every sender gives the M others more when one is gone."""
    graph = biclique(degree, limit + 1)
    smaller = graph.without_node(degree)
    for row_clip in (1.0, 0.5 * degree + 1, float(degree)):
        before, after = vote_sums(graph, graph.split, limit), vote_sums(smaller, smaller.split, limit)
        # other receivers may be of the other kind, with longer rows: they are not clipped here
        own = project_rows(before[[degree]], row_clip)
        others = np.delete(before - after, degree, axis=0)
        reached = math.hypot(float(np.linalg.norm(own)), float(np.linalg.norm(others)))
        bound = vote_receiver_sensitivity(receivers_per_sender=limit, row_clip=row_clip, degree=degree)
        # the own row holds d fractions sqrt(M / (M + 1)): all of the bound where it is clipped
        fraction = math.sqrt(limit / (limit + 1))
        least = 0.9999 if row_clip <= degree * fraction else 0.9999 * fraction
        assert least * bound <= reached <= bound * (1 + 1e-9)


@pytest.mark.parametrize(("limit", "receivers"), [(None, 7), (1, 1), (4, 4), (4, 5), (4, 400), (50, 30)])
def test_the_sender_reaches_its_bound(limit: int | None, receivers: int) -> None:
    graph = biclique(1, receivers)
    smaller = graph.without_node(0)
    moved = vote_sums(graph, graph.split, limit) - vote_sums(smaller, smaller.split, limit)
    bound = vote_sender_sensitivity(receivers_per_sender=limit, degree=receivers)
    assert 0.9999 * bound <= np.linalg.norm(moved) <= bound


def test_structured_graphs_never_exceed_the_bounds() -> None:
    """Hubs, bicliques and random graphs with random splits: every node."""
    rng = np.random.default_rng(0)
    cases = [nx.complete_bipartite_graph(3, 12), nx.complete_graph(12), nx.barabasi_albert_graph(40, 4, seed=0)]
    cases += [nx.gnp_random_graph(30, 0.3, seed=1), nx.star_graph(20), nx.windmill_graph(5, 5)]
    for nxg in cases:
        n = nxg.number_of_nodes()
        parts = rng.permutation(np.arange(n) % 3)
        split = Split(*(np.flatnonzero(parts == part) for part in range(3)))
        edges = np.array(list(nxg.edges)).T
        labels = rng.integers(0, 2, n)
        graph = Graph.from_edges(np.ones((n, 1)), edges, labels=labels, split=split, num_classes=2)
        for v, limit in itertools.product(range(n), LIMITS):
            attack_one_node(graph, v, nxg.degree(v), limit)


def test_fractions_sum_exactly_and_depend_on_the_own_receivers_alone() -> None:
    """Sums are those of rational arithmetic, in every order; another sender changes no weight."""
    rng = np.random.default_rng(0)
    n, limit = 300, 3
    edges = rng.integers(0, n, (2, 3000))
    split = Split(range(150), range(150, 200), range(200, n))
    graph = Graph.from_edges(np.ones((n, 1)), edges, labels=rng.integers(0, 3, n), split=split, num_classes=3)
    sums = vote_sums(graph, split, limit)
    senders, receivers = graph.edge_index
    asked = (senders < 150) & (receivers >= 150)
    counts = np.bincount(senders[asked], minlength=n)
    places = 2 ** vote_weight_bits(n)
    exact = {}
    for u, v in zip(senders[asked].tolist(), receivers[asked].tolist(), strict=True):
        weight = vote_weight(int(counts[u]), limit)
        fraction = Fraction(math.floor(weight * places), places)
        assert weight - 2.0**-40 < fraction <= weight
        key = (v, int(graph.labels[u]))
        exact[key] = exact.get(key, Fraction(0)) + fraction
    assert len({counts[u] for u in range(150)}) > 5
    assert max(counts) > limit
    for (v, label), total in exact.items():
        assert Fraction(float(sums[v, label])) == total  # bit by bit
    assert np.count_nonzero(sums) == len(exact)
    # a sender that goes takes its own votes with it, and nothing else moves
    gone = graph.without_node(0)
    own = np.zeros_like(sums)
    own[receivers[asked & (senders == 0)], graph.labels[0]] = (
        math.floor(vote_weight(counts[0], limit) * places) / places
    )
    assert np.array_equal(sums - vote_sums(gone, gone.split, limit), own)


def test_weights_are_whole_up_to_the_limit_and_of_constant_length_above() -> None:
    for limit in (1, 3, 10):
        for votes in range(1, 200):
            weight = vote_weight(votes, limit)
            assert weight == 1.0 if votes <= limit else votes * weight**2 == pytest.approx(limit)
    assert vote_weight(10**6, None) == 1.0
    assert (vote_weight_bits(1), vote_weight_bits(2**20)) == (51, 31)
    whole = vote_arithmetic(nodes=1000, columns=4, radius=20.0, fractions=False).error(3.0)
    cut_off = vote_arithmetic(nodes=1000, columns=4, radius=20.0, fractions=True).error(3.0)
    assert cut_off - whole == pytest.approx(1000**1.5 * 2.0**-43, rel=1e-6)


# -- calibration -------------------------------------------------------------------------------------------------------


def mu_of(event: Event | None) -> float:
    assert isinstance(event, Gaussian)
    assert event.count == 1
    return 1 / event.noise_multiplier


MUS = ((0.5, 1.0, 0.9), (1.0, 0.5, 0.4), (2.0, 0.05, 0.05), (0.1, 3.0, 2.0), (0.7, 0.7, 0.1))


PAIRS = itertools.product((None, 1, 5, 60), (1, 4, 30, 900))


@pytest.mark.parametrize(("limit", "degree", "mus"), [(*pair, MUS[k % len(MUS)]) for k, pair in enumerate(PAIRS)])
def test_calibration_never_overspends_and_0_1_percent_less_noise_would(
    limit: int | None, degree: int, mus: tuple[float, float, float]
) -> None:
    """The three groups at the declared degree, and at every smaller one."""
    sender, receiver, validation = mus
    votes = calibrate_votes(
        receivers_per_sender=limit,
        declared_degree=degree,
        sender_mu=sender,
        receiver_mu=receiver,
        validation_mu=validation,
        nodes=1000,
        columns=5,
    )

    def paid(calibrated: CalibratedVotes, at: int | None = None) -> list[float]:
        clips = (calibrated.row_clip, calibrated.validation_row_clip)
        return [
            mu_of(calibrated.sender_event(at)),
            *(mu_of(calibrated.receiver_event(clip, at)) for clip in clips),
        ]

    assert all(one <= allowed for one, allowed in zip(paid(votes), mus, strict=True))
    less = paid(replace(votes, noise_std=0.999 * votes.noise_std))
    assert any(one > allowed for one, allowed in zip(less, mus, strict=True))
    for smaller in {1, (degree + 1) // 2, degree}:
        assert all(one <= allowed for one, allowed in zip(paid(votes, smaller), mus, strict=True))
    assert votes.sender_event(0) is votes.receiver_event(votes.row_clip, 0) is None
    assert mu_of(votes.receiver_event(votes.row_clip, degree + 7)) >= mu_of(votes.receiver_event(votes.row_clip))
    # rows are as long as the budget allows: at least a vote, at most all of them
    for clip, allowed in ((votes.row_clip, receiver), (votes.validation_row_clip, validation)):
        assert 1.0 <= clip <= degree
        if clip < degree:
            assert mu_of(votes.receiver_event(1.001 * clip)) > allowed * (1 - 1e-6)


def test_without_privacy_there_is_no_noise() -> None:
    mus = dict.fromkeys(("sender_mu", "receiver_mu", "validation_mu"), math.inf)
    votes = calibrate_votes(receivers_per_sender=2, declared_degree=9, **mus, nodes=21, columns=2)
    assert votes.noise_std == 0
    assert votes.sender_event() == votes.receiver_event(votes.row_clip) == votes.sender_event(0) == NonPrivate()
    graph = biclique(1, 20)
    sums = vote_sums(graph, graph.split, 2)
    noise = NoiseSource.seeded(0)
    assert np.array_equal(release_votes(sums, graph.split, votes, noise), sums)
    assert np.array_equal(vote_evidence(sums, votes), sums)
    assert noise.draws == 0


# -- the release -------------------------------------------------------------------------------------------------------


def votes_for(
    graph: Graph, limit: int | None, degree: int, *, mu: float = 1.0, receiver_mu: float = 1.0
) -> CalibratedVotes:
    return calibrate_votes(
        receivers_per_sender=limit,
        declared_degree=degree,
        sender_mu=mu,
        receiver_mu=receiver_mu,
        validation_mu=receiver_mu,
        nodes=graph.num_nodes,
        columns=2,
    )


def test_votes_of_another_shape_are_refused() -> None:
    graph = biclique(3, 4)
    votes = votes_for(graph, 2, 4)
    noise = NoiseSource.seeded(0)
    for shape in ((7, 3), (6, 2), (8, 2), (2, 7), (14,)):
        with pytest.raises(InputError, match="calibrated must be for votes of shape"):
            release_votes(np.zeros(shape), graph.split, votes, noise)
    assert noise.draws == 0
    assert release_votes(np.zeros((7, 2)), graph.split, votes, noise).shape == (7, 2)


def test_rows_are_clipped_each_to_its_own_length_and_senders_get_noise_too() -> None:
    graph = biclique(40, 6)
    split = Split(range(40), range(40, 43), range(43, 46))
    votes = replace(votes_for(graph, None, 40), row_clip=9.0, validation_row_clip=4.0, noise_std=1e-3)
    out = release_votes(vote_sums(graph, split, None), split, votes, NoiseSource.seeded(0))
    assert np.linalg.norm(out[40:43], axis=1) == pytest.approx(4.0, abs=0.01)
    assert np.linalg.norm(out[43:], axis=1) == pytest.approx(9.0, abs=0.01)
    assert (out[:40] != 0).all()
    assert vote_evidence(out, votes) == pytest.approx(out / 1e-3)


def test_the_noise_has_the_calibrated_std_in_every_row() -> None:
    graph = biclique(3, 12_000)
    votes = votes_for(graph, 2, 5)
    sample = release_votes(np.zeros((graph.num_nodes, 2)), graph.split, votes, NoiseSource.seeded(1))
    require_std(sample, votes.noise_std)
    assert (sample != 0).all()


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_likelihood_ratio_attack_proves_the_claimed_mu_and_no_more(role: str) -> None:
    """The whole release on the worst pair, from the noise as it is drawn; halved noise would be rejected."""
    degree, runs, mu = 6, 3000, 1.0
    limit, leaving = (2, 0) if role == "sender" else (None, degree)
    graph = biclique(1, degree) if role == "sender" else biclique(degree, 1)
    smaller = graph.without_node(leaving)
    votes = votes_for(graph, limit, degree, mu=mu, receiver_mu=mu if role == "receiver" else 9.0)
    sums = [vote_sums(g, g.split, limit) for g in (smaller, graph)]
    means = [clipped(g, g.split, limit, (votes.row_clip, votes.validation_row_clip)) for g in (smaller, graph)]
    direction = means[1] - means[0]

    def proven(calibrated: CalibratedVotes) -> float:
        noise = NoiseSource.seeded(5)
        scores = [
            np.array([(release_votes(s, graph.split, calibrated, noise) * direction).sum() for _ in range(runs)])
            for s in sums
        ]
        threshold = (scores[0].mean() + scores[1].mean()) / 2
        return float(norm.ppf(np.mean(scores[1] > threshold)) - norm.ppf(np.mean(scores[0] > threshold)))

    error = 4 * math.sqrt(2 / runs) / norm.pdf(mu / 2) / 2
    assert mu - error <= proven(votes) <= mu + error
    assert proven(replace(votes, noise_std=votes.noise_std / 2)) > mu + error


def test_votes_are_asked_where_a_typical_node_hears_twice_the_noise() -> None:
    plan = VotePlan(16, 0.25)
    # min(d*, M) = 16: the ratio is 40 mu / 8
    for mu, pays in ((0.39, False), (0.41, True)):
        assert votes_pay(average_degree=40, declared_degree=100, mu=mu, plan=plan) == pays
    assert votes_pay(average_degree=40, declared_degree=1, mu=0.11, plan=VotePlan(None, 0.25))
    for arguments in ((0, 0.5), (2.5, 0.5), (4, 0.0), (4, 1.0)):
        with pytest.raises(InputError):
            VotePlan(*arguments)
