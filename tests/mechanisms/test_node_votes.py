"""Votes at node level: brute force on both sensitivities, exact fractions, the noise as it is drawn, attacks on both ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from scipy.stats import norm

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


def worlds(largest: int) -> Iterator[tuple[Graph, np.ndarray]]:
    """All graphs with up to so many nodes, all splits into training, validation and other, all labels of senders in 2 classes.

    Graphs up to isomorphism with every assignment of parts are all labelled graphs. Labels of receivers are read by nothing.
    """
    for nxg in (g for g in nx.graph_atlas_g() if 2 <= g.number_of_nodes() <= largest and g.number_of_edges() > 0):
        n = nxg.number_of_nodes()
        edges = np.array(list(nxg.edges)).T
        degrees = np.array([nxg.degree(v) for v in range(n)])
        for parts in itertools.product((0, 1, 2), repeat=n):
            train, val, rest = (tuple(v for v in range(n) if parts[v] == part) for part in (0, 1, 2))
            if not train or len(train) == n:
                continue
            for classes in itertools.product((0, 1), repeat=len(train) - 1):
                labels = np.zeros(n, dtype=int)
                labels[list(train[1:])] = classes  # the class of the first is 0: names of classes do not matter
                split = Split(train, val, rest)
                yield Graph.from_edges(np.ones((n, 1)), edges, labels=labels, split=split, num_classes=2), degrees


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


@pytest.mark.parametrize("limit", LIMITS)
def test_one_node_moves_the_votes_as_claimed_on_all_small_graphs(limit: int | None) -> None:
    """All graphs with up to 4 nodes, all splits, all labels, every node of every part; and of those with 5 every 150th."""
    best = {"sender": 0.0, "receiver": 0.0}
    small = worlds(4)
    large = (case for number, case in enumerate(worlds(5)) if case[0].num_nodes == 5 and number % 150 == 0)
    for graph, degrees in itertools.chain(small, large):
        assert graph.split is not None
        for v in range(graph.num_nodes):
            role = "sender" if v in graph.split.train else "receiver"
            best[role] = max(best[role], attack_one_node(graph, v, int(degrees[v]), limit))
    assert best["sender"] > 0.99
    assert best["receiver"] > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("limit", LIMITS)
def test_one_node_moves_the_votes_as_claimed_on_all_graphs_with_five_nodes(limit: int | None) -> None:
    for graph, degrees in worlds(5):
        for v in range(graph.num_nodes):
            attack_one_node(graph, v, int(degrees[v]), limit)


def biclique(senders: int, receivers: int, classes: int = 2) -> Graph:
    """Every sender joined to every receiver; all senders of class 0."""
    n = senders + receivers
    edges = np.array([(u, v) for u in range(senders) for v in range(senders, n)]).T
    labels = np.array([0] * senders + [1] * receivers)
    split = Split(range(senders), [], range(senders, n))
    return Graph.from_edges(np.ones((n, 1)), edges, labels=labels, split=split, num_classes=classes)


@pytest.mark.parametrize(("limit", "degree"), [(1, 1), (1, 10), (2, 40), (8, 16), (20, 5), (50, 100)])
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
        least = math.sqrt(limit / (limit + 1)) if row_clip > degree * math.sqrt(limit / (limit + 1)) else 0.9999
        assert min(least, 0.95 if limit >= 10 else least) * bound <= reached <= bound * (1 + 1e-9)
        if row_clip == 1.0:
            assert reached >= 0.95 * bound


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


GRID = list(
    itertools.product(
        (None, 1, 5, 60),
        (1, 4, 30, 900),
        ((0.5, 1.0, 0.9), (1.0, 0.5, 0.4), (2.0, 0.05, 0.05), (0.1, 3.0, 2.0), (0.7, 0.7, 0.1)),
    )
)


@pytest.mark.parametrize(("limit", "degree", "mus"), GRID)
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


def votes_for(graph: Graph, limit: int | None, degree: int, *, mu: float = 1.0) -> CalibratedVotes:
    return calibrate_votes(
        receivers_per_sender=limit,
        declared_degree=degree,
        sender_mu=mu,
        receiver_mu=mu,
        validation_mu=mu,
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


@pytest.mark.parametrize("factor", [0.5, 0.95, 1.0, 1.05])
def test_the_noise_has_the_calibrated_std_in_every_row(factor: float) -> None:
    """Two-sided: right noise passes, 5 % off or half is seen."""
    graph = biclique(3, 5000)
    votes = votes_for(graph, 2, 5)
    wrong = replace(votes, noise_std=factor * votes.noise_std)
    sample = release_votes(np.zeros((graph.num_nodes, 2)), graph.split, wrong, NoiseSource.seeded(1))
    deviation = (float((sample / votes.noise_std).std()) - 1) * math.sqrt(2 * sample.size)
    assert (abs(deviation) < 5) == (factor == 1.0)
    assert (sample != 0).all()


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_likelihood_ratio_attack_proves_the_claimed_mu_and_no_more(role: str) -> None:
    """The whole release on the worst pair, from the noise as it is drawn; halved noise would be rejected."""
    limit, degree, runs, mu = 2, 6, 4000, 1.0
    graph = biclique(1, degree) if role == "sender" else biclique(degree, limit + 1)
    leaving = 0 if role == "sender" else degree
    smaller = graph.without_node(leaving)
    votes = votes_for(graph, limit, degree, mu=mu)
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
    # of the receiver's bound the clipped rows of the others leave a part
    assert (0.95 if role == "sender" else 0.6) * mu - error <= proven(votes) <= mu + error
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
