"""The node-level methods: contract, brute-force sensitivities of the votes, attacks on what is released, accounting."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.special import softmax

import caribou
from caribou import methods
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.graph.operator import pair_hash
from caribou.mechanisms.exponential import choose
from caribou.mechanisms.node_votes import VotePlan, clip_counts, release_votes, vote_counts
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.node.mlp import RANDOM_FEATURE_SHARE, SHRINKAGE_CHOICES, Base, MlpDp, full_batch
from caribou.methods.node.votes import SELECTION_SHARE, VotesNdp, base_mu, default_plan
from caribou.models.features import centred_unit_rows, unit_root_rows, with_random_features
from caribou.models.network import chain_logits
from caribou.models.public_weights import random_directions
from caribou.privacy.accounting import epsilon_of, pure_epsilon
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import EpsilonDelta, Gaussian, Laplace, NonPrivate, gaussian_mu
from caribou.privacy.mechanism_records import Group, groups_of
from caribou.privacy.sizes import Sizes
from caribou.privacy.verify import verify
from caribou.randomness import Streams

NODE = {"delta": 1e-5, "unit": "node"}
VOTING = VotesNdp(votes=VotePlan(2, 0.5))
RANDOM, NETWORK = MlpDp(random_features=40), MlpDp(hidden=8)
METHODS = [
    MlpDp(),
    MlpDp(choose_shrinkage=True),
    RANDOM,
    NETWORK,
    VOTING,
    VotesNdp(votes=VotePlan(2, 0.5), base=NETWORK),
]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return caribou.datasets.load("csbm:nodes=300", seed=1)


def graph_bytes(graph: Graph) -> list[bytes]:
    x = graph.features
    arrays = [x.data, x.indices, x.indptr] if sp.issparse(x) else [x]
    return [np.asarray(a).tobytes() for a in (*arrays, graph.indptr, graph.indices, graph.labels, graph.split.train)]


# -- the contract --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_contract(method, graph: Graph) -> None:
    before = graph_bytes(graph)
    budget = Budget(3.0, **NODE)
    fitted = [methods.fit(method, graph, budget, Streams(0), NoiseSource.seeded(s)) for s in (5, 5, 6)]
    assert fitted[0].probabilities.shape == (300, graph.num_classes)
    assert np.allclose(fitted[0].probabilities.sum(axis=1), 1)
    assert np.array_equal(fitted[0].probabilities, fitted[1].probabilities)
    assert not np.array_equal(fitted[0].probabilities, fitted[2].probabilities)
    assert graph_bytes(graph) == before
    certificate = fitted[0].certificate
    assert 2.98 < certificate.epsilon_spent <= 3.0
    assert certificate.epsilon_spent == epsilon_of(certificate.cost, 1e-5)
    assert certificate.status == "void"  # a fixed noise seed
    json.dumps(dict(method.settings()), allow_nan=False)


@pytest.mark.parametrize("method", [MlpDp(choose_shrinkage=True), VOTING])
def test_certificate_verifies_and_survives_a_file(method, graph: Graph, tmp_path: Path) -> None:
    certificate = methods.fit(method, graph, Budget(3.0, **NODE), Streams(0), NoiseSource.secure()).certificate
    certificate.save(tmp_path / "c.json")
    loaded = Certificate.load(tmp_path / "c.json")
    assert loaded.status == ("private in scope" if method is VOTING else "private")
    failed = [c for c in verify(loaded).checks if not c.passed]
    assert failed == []
    names = {a.name.value for a in loaded.assumptions}
    edges = "choice of receivers" if method is VOTING else "no edge is read"
    assert {edges, "own predictions", "parallel composition"} <= names


@pytest.mark.parametrize("method", METHODS)
def test_without_privacy_it_is_labelled(method, graph: Graph) -> None:
    noise = NoiseSource.secure()
    fitted = methods.fit(method, graph, Budget(math.inf, **NODE), Streams(0), noise)
    assert fitted.certificate.status == "no privacy"
    assert NonPrivate() in groups_of(fitted.certificate.mechanisms)[Group.TRAINING]
    again = methods.fit(method, graph, Budget(math.inf, **NODE), Streams(0), NoiseSource.secure())
    assert np.array_equal(fitted.probabilities, again.probabilities)  # there is no noise in it


@pytest.mark.parametrize("method", METHODS)
def test_the_unit_must_be_node_and_training_nodes_must_exist(method, graph: Graph) -> None:
    with pytest.raises(InputError, match="unit must be node"):
        methods.fit(method, graph, Budget(1.0, 1e-5, "edge"), Streams(0), NoiseSource.seeded(0))
    for bad in (graph.with_split(None), graph.with_split(Split([], graph.split.val, graph.split.test))):
        with pytest.raises(InputError, match="must have labels and a split with training nodes"):
            methods.fit(method, bad, Budget(1.0, **NODE), Streams(0), NoiseSource.seeded(0))


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (MlpDp(), {"logit_noise": 1.5}),
        (MlpDp(), {"clip": 0.1}),
        (MlpDp(), {"mean_share": 0.4}),
        (MlpDp(), {"shrinkage": 1.5}),
        (MlpDp(), {"train_size": 100}),
        (MlpDp(), {"random_features": 40}),
        (RANDOM, {"random_features": 41}),
        (MlpDp(), {"hidden": 8}),
        (NETWORK, {"hidden": 9}),
        (NETWORK, {"clip": 0.1}),
        (VOTING, {"base": NETWORK}),
        (MlpDp(shrinkage=10.0), {"choose_shrinkage": True}),
        (VOTING, {"votes": VotePlan(1, 0.5)}),
        (VOTING, {"votes": VotePlan(2, 0.3)}),
        (VOTING, {"weight": 3.0}),
        (VOTING, {"base": MlpDp(clip=0.1)}),
        (VotesNdp(), {"declared_average_degree": 20.0}),
    ],
)
def test_every_option_has_an_effect(base, changes: dict, graph: Graph) -> None:
    one, two = fitted_probabilities(base, graph), fitted_probabilities(dataclasses.replace(base, **changes), graph)
    assert not np.array_equal(one, two)


@functools.lru_cache
def fitted_probabilities(method, graph: Graph) -> np.ndarray:
    return methods.fit(method, graph, Budget(3.0, **NODE), Streams(0), NoiseSource.seeded(0)).probabilities


def test_streams_are_independent(graph: Graph) -> None:
    """Public coins do not touch the linear model; noise does not touch the choice of receivers."""
    budget = Budget(3.0, **NODE)
    one, two = (methods.fit(VOTING, graph, budget, Streams(s), NoiseSource.seeded(0)) for s in (0, 1))
    assert np.array_equal(one.weights["weights"], two.weights["weights"])
    mlp = [methods.fit(MlpDp(), graph, budget, Streams(s), NoiseSource.seeded(0)).probabilities for s in (0, 1)]
    assert np.array_equal(*mlp)
    # the votes differ by clipped counts alone: the noise is bit-identical, so rows without votes are equal
    coins = [int(Streams(s).sampling.integers(2**63)) for s in (0, 1)]
    counts = [vote_counts(graph, graph.split, VOTING.votes, c) for c in coins]
    same = (counts[0] == counts[1]).all(axis=1)
    assert 0 < same.sum() < 300
    assert np.array_equal(one.released["votes"][same], two.released["votes"][same])


@pytest.mark.parametrize("method", [RANDOM, NETWORK])
def test_the_public_seed_leaves_the_noise_as_it_is(method, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random features and initial weights follow the public seed; every draw of noise is bit-identical."""
    drawn: list[np.ndarray] = []
    original = NoiseSource.gaussian

    def spy(self, shape, **kwargs):
        drawn.append(original(self, shape, **kwargs))
        return drawn[-1]

    monkeypatch.setattr(NoiseSource, "gaussian", spy)
    one, two = (methods.fit(method, graph, Budget(3.0, **NODE), Streams(s), NoiseSource.seeded(0)) for s in (0, 1))
    half = len(drawn) // 2
    assert half > 1
    assert all(np.array_equal(a, b) for a, b in zip(drawn[:half], drawn[half:], strict=True))
    assert not np.array_equal(one.probabilities, two.probabilities)


def test_a_trained_network_leaves_the_global_generator_alone(graph: Graph) -> None:
    before = torch.random.get_rng_state()
    methods.fit(NETWORK, graph, Budget(3.0, **NODE), Streams(0), NoiseSource.seeded(0))
    assert torch.equal(before, torch.random.get_rng_state())


def test_stored_parameters_give_the_same_predictions(graph: Graph) -> None:
    """Whoever holds weights, mean and the coins of the random features can apply the model."""
    fitted = methods.fit(RANDOM, graph, Budget(3.0, **NODE), Streams(4), NoiseSource.seeded(0))
    stored = fitted.weights
    count, coins = stored["random_features"].tolist()
    directions = random_directions(graph.num_features, count, np.random.default_rng(coins))
    assert count == 40
    rows = with_random_features(
        centred_unit_rows(unit_root_rows(graph.features), stored["mean"]), directions, share=RANDOM_FEATURE_SHARE
    )
    assert np.allclose(softmax(rows.times(stored["weights"]), axis=1), fitted.probabilities)
    network = methods.fit(NETWORK, graph, Budget(3.0, **NODE), Streams(4), NoiseSource.seeded(0))
    assert {k: v.shape for k, v in network.weights.items()} == {
        "0.weight": (8, graph.num_features),
        "0.bias": (8,),
        "2.weight": (graph.num_classes, 8),
        "2.bias": (graph.num_classes,),
        "mean": (graph.num_features,),
    }


def test_certificates_name_what_each_model_releases(graph: Graph) -> None:
    budget = Budget(3.0, **NODE)
    linear, network = (
        methods.fit(m, graph, budget, Streams(0), NoiseSource.seeded(0)).certificate for m in (RANDOM, NETWORK)
    )
    assert linear.released == ("weights of the linear model", "mean of the training rows")
    assert network.released == ("weights of the network", "mean of the training rows")
    assert len(linear.cost) == len(network.cost) == 2
    for bad in ({"hidden": 4, "choose_shrinkage": True}, {"hidden": 4, "random_features": 5}):
        with pytest.raises(InputError, match="must be off with a hidden layer"):
            MlpDp(**bad)
    for bad in ({"hidden": -1}, {"random_features": -1}, {"random_features": 1.5}):
        with pytest.raises(InputError, match="must be"):
            MlpDp(**bad)


# -- a public sample of features -----------------------------------------------------------------------------------


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Rows of another graph of the same kind, with the columns of `wide`."""
    file = tmp_path / "sample.npy"
    np.save(file, wide(caribou.datasets.load("csbm:nodes=200", seed=9)).features)
    return file


def wide(graph: Graph) -> Graph:
    """The graph with 28 columns more: more than the 50 components that are kept at least."""
    x = np.asarray(graph.features, dtype=np.float64)
    extra = np.hstack([x, x[:, :28] ** 2])
    return Graph.from_edges(extra, graph.edge_index, labels=graph.labels, split=graph.split)


@pytest.mark.parametrize("hidden", [0, 8])
def test_a_public_sample_replaces_the_private_mean(graph: Graph, sample: Path, hidden: int) -> None:
    graph = wide(graph)
    method = MlpDp(public_features=sample, hidden=hidden)
    json.dumps(dict(method.settings()))
    fits = [methods.fit(method, graph, Budget(3.0, **NODE), Streams(0), NoiseSource.seeded(s)) for s in (0, 0, 1)]
    certificate = fits[0].certificate
    assert len(certificate.mechanisms) == 1  # no mean
    assert 2.98 < certificate.epsilon_spent <= 3.0
    assert np.array_equal(fits[0].probabilities, fits[1].probabilities)
    assert not np.array_equal(fits[0].probabilities, fits[2].probabilities)
    assert not np.array_equal(fits[0].probabilities, fitted_probabilities(MlpDp(hidden=hidden), graph))
    assert certificate.public_parameters["public_features"] == "200 rows"
    assert "sample.npy" not in json.dumps(certificate.to_dict())
    assert "public features" in {a.name.value for a in certificate.assumptions}
    assert "mean of the training rows" not in certificate.released
    assert fits[0].weights["public_components"].shape == (60, 50)
    few = dataclasses.replace(method, train_size=10_000)  # a budget that carries more components than the sample has
    assert (
        "public_components"
        not in methods.fit(few, graph, Budget(3.0, **NODE), Streams(0), NoiseSource.seeded(0)).weights
    )


def test_a_public_sample_under_votes(graph: Graph, sample: Path) -> None:
    graph = wide(graph)
    method = VotesNdp(votes=VotePlan(2, 0.5), base={"public_features": str(sample)})
    assert method.base == MlpDp(public_features=str(sample))
    certificate = methods.fit(method, graph, Budget(3.0, **NODE), Streams(0), NoiseSource.seeded(0)).certificate
    assert certificate.public_parameters["base"]["public_features"] == "200 rows"
    assert "sample.npy" not in json.dumps(certificate.to_dict())
    assert "public features" in {a.name.value for a in certificate.assumptions}


def test_private_rows_do_not_move_the_public_basis(graph: Graph, sample: Path) -> None:
    """Without one training node, the basis and every other node's row stay as they are."""
    graph = wide(graph)
    v = int(graph.split.train[0])
    method = MlpDp(public_features=sample, train_size=len(graph.split.train))
    one, two = (
        method.fit_base(method.plan_base(g.sizes(PrivacyUnit.NODE), 0.5), g, Streams(0), NoiseSource.seeded(0))
        for g in (graph, graph.without_node(v))
    )
    assert np.array_equal(one.extra_params["public_components"], two.extra_params["public_components"])
    assert np.array_equal(one.extra_params["public_mean"], two.extra_params["public_mean"])
    others = np.delete(np.arange(graph.num_nodes), v)
    assert np.array_equal(one.rows.take(others).matrix, two.rows.take(others).matrix)
    assert one.rows.norms.max() <= 1 + 1e-12


def test_odd_graphs() -> None:
    """No edges, one class of two, a class missing from training, features of zeros, a single training node, no validation."""
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_normal((12, 4)))
    split = Split(range(6), range(6, 8), range(8, 12))
    nothing = np.empty((2, 0), dtype=int)
    graphs = [
        Graph.from_edges(x, nothing, labels=[0, 1] * 6, split=split),
        Graph.from_edges(x, [[0, 1], [8, 9]], labels=[0] * 12, split=split, num_classes=2),
        Graph.from_edges(x, [[0, 1], [8, 9]], labels=[0, 1] * 3 + [2] * 6, split=split),
        Graph.from_edges(np.zeros((12, 4)), [[0], [8]], labels=[0, 1] * 6, split=split),
        Graph.from_edges(x, [[0], [8]], labels=[0, 1] * 6, split=Split([0], [], [8])),
        Graph.from_edges(x[:1], nothing, labels=[0], split=Split([0], [], []), num_classes=2),
    ]
    choosing = MlpDp(choose_shrinkage=True)
    combinations = [(g, m, 8.0) for g in graphs for m in (choosing, RANDOM, NETWORK)]
    combinations += [(g, VOTING, math.inf) for g in graphs]
    for g, method, epsilon in [*combinations, (graphs[0], VOTING, 3.0), (graphs[4], VOTING, 3.0)]:
        fitted = methods.fit(method, g, Budget(epsilon, **NODE), Streams(0), NoiseSource.seeded(0))
        assert np.isfinite(fitted.probabilities).all()


def test_sparse_features_stay_sparse_and_give_the_same_model(graph: Graph) -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((200, 300)) < 0.03) * rng.random((200, 300))
    y = (x[:, :150].sum(axis=1) > x[:, 150:].sum(axis=1)).astype(int)
    split = Split(range(140), range(140, 160), range(160, 200))
    dense = Graph.from_edges(x, [[0], [1]], labels=y, split=split)
    sparse = Graph.from_edges(sp.csr_array(x), [[0], [1]], labels=y, split=split)
    budget = Budget(4.0, **NODE)
    base = MlpDp().fit_base(
        MlpDp().plan_base(sparse.sizes(PrivacyUnit.NODE), 1.0), sparse, Streams(0), NoiseSource.seeded(0)
    )
    assert sp.issparse(base.rows.matrix)
    network = NETWORK.fit_base(
        NETWORK.plan_base(sparse.sizes(PrivacyUnit.NODE), 1.0), sparse, Streams(0), NoiseSource.seeded(0)
    )
    assert sp.issparse(network.rows.matrix)
    for method in (MlpDp(), RANDOM, NETWORK):
        a, b = (
            methods.fit(method, g, budget, Streams(0), NoiseSource.seeded(0)).probabilities for g in (dense, sparse)
        )
        assert np.allclose(a, b)


# -- accounting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0, 16.0])
def test_the_base_spends_exactly_its_mu(graph: Graph, epsilon: float) -> None:
    fitted = methods.fit(MlpDp(), graph, Budget(epsilon, **NODE), Streams(0), NoiseSource.seeded(0))
    assert all(isinstance(e, Gaussian) for e in fitted.certificate.cost)
    assert epsilon * (1 - 1e-6) < fitted.certificate.epsilon_spent <= epsilon
    base = MlpDp().plan_base(graph.sizes(PrivacyUnit.NODE), 0.7)
    assert gaussian_mu([r.event for r in base.records]) == pytest.approx(0.7, rel=1e-9)
    assert gaussian_mu([r.event for r in base.records]) <= 0.7
    assert full_batch("x", 9, 0.5).mu <= 0.5


@pytest.mark.parametrize(
    ("epsilon", "plan", "expected"),
    [(2, VotePlan(16, 0.5), 0.438), (4, VotePlan(8, 0.7), 0.469), (8, VotePlan(2, 0.5), 0.977)],
)
def test_golden_composition_of_votes_and_training(epsilon: float, plan: VotePlan, expected: float) -> None:
    """votes.md, node level: mu_1 at delta 1e-5 (there from a coarser search)."""
    budget = Budget(epsilon, **NODE)
    mu = base_mu(budget, plan)
    assert mu == pytest.approx(expected, rel=0.01)
    assert (
        epsilon_of([Gaussian(1 / mu), Laplace(plan.noise_scale(epsilon), plan.receivers_per_sender)], 1e-5) <= epsilon
    )
    assert (
        epsilon_of([Gaussian(0.997 / mu), Laplace(plan.noise_scale(epsilon), plan.receivers_per_sender)], 1e-5)
        > epsilon
    )


@pytest.mark.parametrize("chooses", [True, False])
@pytest.mark.parametrize("epsilon", [0.7, 6.0])
def test_every_group_keeps_the_budget(epsilon: float, chooses: bool) -> None:
    budget = Budget(epsilon, **NODE)
    plan = VotePlan(2, 0.5)
    method = VotesNdp(votes=plan, weight=None if chooses else 1.0)
    groups = groups_of(method.plan(Sizes(300, 8, 3, 200, 40, 60), budget).mechanisms)
    assert epsilon_of(groups[Group.TRAINING], 1e-5) <= epsilon
    for group in (Group.VALIDATION, Group.OTHERS):
        assert epsilon * (1 - 1e-9) < pure_epsilon(groups[group]) <= epsilon
    spent_on_choice = [e.epsilon for e in groups[Group.VALIDATION] if isinstance(e, EpsilonDelta)]
    assert spent_on_choice == ([pytest.approx(SELECTION_SHARE * epsilon)] if chooses else [])


def test_one_shift_on_one_entry_is_the_worst_row() -> None:
    """Hockey-stick divergence of Laplace(1) shifted by (t, s - t) against (s, 0): never larger (proof in the module)."""
    grid = np.linspace(-25, 26, 20_001)
    step = grid[1] - grid[0]
    density = np.exp(-np.abs(grid)) / 2

    def loss(t: float) -> np.ndarray:
        return np.abs(grid - t) - np.abs(grid)

    for s in (0.25, 1.0, 3.0):
        for t in (0.1 * s, 0.5 * s, 0.8 * s):
            for e in (-0.9 * s, 0.0, 0.3 * s, 0.9 * s):
                whole = max(0.0, 1 - math.exp((e - s) / 2), 1 - math.exp(e))
                rest = e - loss(s - t)
                one = np.maximum(0, np.maximum(1 - np.exp((rest - t) / 2), 1 - np.exp(rest)))
                split = float((density * one).sum() * step)
                assert split <= whole + 1e-5


# -- sensitivity of the votes by brute force -----------------------------------------------------------------------


def rescaled(counts: np.ndarray, row_clip: float) -> np.ndarray:
    """The wrong clip: scale a row down to length tau."""
    total = counts.sum(axis=1, keepdims=True)
    return counts * np.minimum(1, row_clip / np.maximum(total, 1))


def largest_single_vote_move(clip, tau: float, most: int) -> float:
    rows = np.array(list(itertools.product(range(most), repeat=3)), dtype=float)
    before = clip(rows, tau)
    return max(float(np.abs(clip(rows + np.eye(3)[c], tau) - before).sum(axis=1).max()) for c in range(3))


@pytest.mark.parametrize("tau", [0.8, 2.0, 3.2, 4.0, 11.4])
def test_the_clip_is_1_lipschitz_and_plain_rescaling_is_not(tau: float) -> None:
    most = math.ceil(3 * tau) + 3
    assert 0.5 < largest_single_vote_move(clip_counts, tau, most) <= 1 + 1e-12
    rows = np.array(list(itertools.product(range(most), repeat=3)), dtype=float)
    norms = np.abs(clip_counts(rows, tau)).sum(axis=1)
    assert 0.99 * tau < norms.max() <= tau * (1 + 1e-12)
    if tau >= 2:
        assert largest_single_vote_move(rescaled, tau, most) > 1.2


def all_graphs(pairs: list[tuple[int, int]]) -> list[np.ndarray]:
    """Every set of these pairs, as 2 x E arrays."""
    masks = itertools.product((False, True), repeat=len(pairs))
    return [
        np.array([p for p, kept in zip(pairs, mask, strict=True) if kept], dtype=int).reshape(-1, 2).T for mask in masks
    ]


def test_one_node_moves_the_votes_as_claimed_on_all_small_graphs() -> None:
    """All graphs on 4 nodes, and all graphs between 2 senders and 4 receivers.

    A sender moves at most M rows by at most 1 each, whatever is truncated; a receiver moves its own row by at most tau, where
    nothing is truncated.
    """
    two_by_four = [(u, v) for u in (0, 1) for v in range(2, 6)]
    cases = [(4, [0, 1], edges) for edges in all_graphs(list(itertools.combinations(range(4), 2)))]
    cases += [(6, [0, 1], edges) for edges in all_graphs(two_by_four)]
    max_rows, largest = 0, 0.0
    for n, train, edges in cases:
        others = [v for v in range(n) if v not in train]
        split = Split(train, others[:1], others[1:])
        graph = Graph.from_edges(np.ones((n, 1)), edges, labels=np.arange(n) % 2, split=split, num_classes=2)
        for plan, tau in ((VotePlan(1, 0.5), 2.0), (VotePlan(2, 1.0), 0.7)):
            full = clip_counts(vote_counts(graph, split, plan, 11), tau)
            for v in train:
                smaller = graph.without_node(v)
                moved = np.abs(full - clip_counts(vote_counts(smaller, smaller.split, plan, 11), tau)).sum(axis=1)
                max_rows, largest = max(max_rows, int((moved > 0).sum())), max(largest, float(moved.max()))
                assert (moved > 0).sum() <= plan.receivers_per_sender
                assert moved.max() <= 1 + 1e-12
        everything = clip_counts(vote_counts(graph, split, None, 11), 0.7)
        for v in others:
            smaller = graph.without_node(v)
            moved = np.abs(everything - clip_counts(vote_counts(smaller, smaller.split, None, 11), 0.7)).sum(axis=1)
            assert moved[v] <= 0.7 + 1e-12
            assert np.delete(moved, v).max() == 0
    assert max_rows == 2
    assert largest > 0.8


def test_a_removed_receiver_frees_a_place_which_is_why_truncation_is_an_assumption() -> None:
    """The known gap, kept visible: above M, removing a receiver moves another row."""
    split = Split([0], [], [1, 2])
    graph = Graph.from_edges(np.ones((3, 1)), [[0, 0], [1, 2]], labels=[0, 1, 1], split=split)
    plan = VotePlan(1, 0.5)
    chosen = int(vote_counts(graph, split, plan, 0).sum(axis=1).argmax())
    smaller = graph.without_node(chosen)
    moved = np.abs(vote_counts(graph, split, plan, 0) - vote_counts(smaller, smaller.split, plan, 0)).sum(axis=1)
    assert np.delete(moved, chosen).max() == 1


def test_selection_is_uniform_and_a_function_of_the_pair() -> None:
    n = 400
    receivers = np.arange(1, n)
    graph = Graph.from_edges(
        np.ones((n, 1)), np.stack([np.zeros(n - 1, int), receivers]), labels=[0] * n, split=Split([0], [], receivers)
    )
    taken = sum(vote_counts(graph, graph.split, VotePlan(40, 0.5), coins).sum(axis=1) for coins in range(500))
    expected = 500 * 40 / (n - 1)
    assert abs(taken[1:] - expected).max() < 6 * math.sqrt(expected)
    hashes = pair_hash(3, np.zeros(5, int), np.arange(5))
    assert np.array_equal(hashes[2:], pair_hash(3, np.zeros(3, int), np.arange(2, 5)))
    assert len(set(hashes.tolist()) | set(pair_hash(3, np.arange(5), np.zeros(5, int)).tolist())) == 9


def test_average_degree_is_never_read_from_the_graph() -> None:
    """The same settings ask the same way on an empty and on a complete graph."""
    n = 60
    pairs = np.array(list(itertools.combinations(range(n), 2))).T
    labels = np.arange(n) % 2
    split = Split(range(40), range(40, 50), range(50, n))
    certificates = [
        methods.fit(
            VotesNdp(declared_average_degree=d),
            Graph.from_edges(np.ones((n, 2)), edges, labels=labels, split=split),
            Budget(3.0, **NODE),
            Streams(0),
            noise,
        ).certificate
        for d in (None, 30.0)
        for edges, noise in ((pairs, NoiseSource.seeded(0)), (pairs[:, :0], NoiseSource.seeded(0)))
    ]
    events = [groups_of(c.mechanisms)[Group.TRAINING] for c in certificates]
    assert [c.cost for c in certificates[::2]] == [c.cost for c in certificates[1::2]]
    assert events[0] == events[1]
    assert events[2] == events[3]
    assert not any(isinstance(e, Laplace) for e in events[0])
    assert any(isinstance(e, Laplace) for e in events[2])


def test_switch() -> None:
    assert [default_plan(e, None) is None for e in (1, 5.9, 6, 16)] == [True, True, False, False]
    assert [default_plan(e, 49) for e in (2.9, 3.0, 6.0)] == [None, VotePlan(8, 0.5), VotePlan(8, 0.7)]
    assert [default_plan(e, 50) for e in (1.9, 2.0)] == [None, VotePlan(16, 0.85)]
    assert default_plan(8.0, 9.99) == VotePlan(2, 0.5)


# -- attacks -------------------------------------------------------------------------------------------------------


def star(senders: int, receivers: int) -> Graph:
    """Every sender joined to every receiver; all senders of class 0."""
    n = senders + receivers
    edges = np.array([(u, v) for u in range(senders) for v in range(senders, n)]).T
    labels = np.array([0] * senders + [1] * receivers)
    return Graph.from_edges(
        np.ones((n, 1)), edges, labels=labels, split=Split(range(senders), [], range(senders, n)), num_classes=2
    )


def test_likelihood_ratio_attack_on_a_receiver_stays_within_epsilon_and_comes_close() -> None:
    """A test node with as many equal votes as fill its clip, against its absence: the log ratio of the whole release."""
    epsilon, plan = 3.0, VotePlan(2, 0.5)
    budget = Budget(epsilon, **NODE)
    graph = star(senders=60, receivers=1)
    with_node = vote_counts(graph, graph.split, plan, 0)
    smaller = graph.without_node(60)
    without = vote_counts(smaller, smaller.split, plan, 0)
    means = [clip_counts(c, plan.row_clip()) for c in (with_node, without)]
    b = plan.noise_scale(epsilon)
    ratios = []
    for seed in range(300):
        votes = release_votes(
            with_node, graph.split, plan, budget.epsilon, NoiseSource.seeded(seed), validation_share=1 - SELECTION_SHARE
        )
        ratios.append(float((np.abs(votes - means[1]) - np.abs(votes - means[0])).sum()) / b)
    assert max(ratios) <= epsilon
    assert max(ratios) > 0.9 * epsilon
    # the fault that this must convict: no clip at all
    unclipped = (np.abs(with_node + b - without) - np.abs(with_node + b - with_node)).sum() / b
    assert unclipped > 2 * epsilon


def test_likelihood_ratio_attack_on_a_sender_stays_within_the_composed_budget() -> None:
    """A sender in M rows and in the Gaussians: delta(epsilon) estimated from exact log ratios, against the claim."""
    epsilon, delta, plan = 1.0, 0.05, VotePlan(3, 0.5)
    budget = Budget(epsilon, delta, "node")
    graph = star(senders=1, receivers=10)
    counts = vote_counts(graph, graph.split, plan, 0)
    assert counts.sum() == 3
    mean, b = clip_counts(counts, plan.row_clip()), plan.noise_scale(epsilon)
    mu = base_mu(budget, plan)
    rng = np.random.default_rng(0)
    draws = 20_000
    children = NoiseSource.seeded(0).laplace((draws, *counts.shape), scale=b)
    gaussians = mu * (mu / 2 + rng.standard_normal(draws))  # log ratio of a mu-GDP release under its worst pair
    votes = mean + children
    ratios = (np.abs(votes) - np.abs(votes - mean)).sum(axis=(1, 2)) / b + gaussians
    estimate = np.maximum(0, 1 - np.exp(epsilon - ratios))
    error = estimate.std() / math.sqrt(draws)
    assert estimate.mean() - 4 * error <= delta
    assert estimate.mean() > 0.6 * delta  # the clip leaves a vote at 1 - 1/(4 tau) of its worst case
    # planted fault: half the noise in the votes is convicted
    votes = mean + children / 2
    wrong = (np.abs(votes) - np.abs(votes - mean)).sum(axis=(1, 2)) / (b / 2) + gaussians
    assert np.maximum(0, 1 - np.exp(epsilon - wrong)).mean() > 1.3 * delta


def test_votes_noise_has_the_claimed_scale_in_every_row() -> None:
    graph = star(senders=3, receivers=20_000)
    plan, budget = VotePlan(2, 0.5), Budget(2.0, **NODE)
    empty = np.zeros((graph.num_nodes, 2))
    sample = np.abs(
        release_votes(
            empty, graph.split, plan, budget.epsilon, NoiseSource.secure(), validation_share=1 - SELECTION_SHARE
        )
    ).ravel()
    b = plan.noise_scale(2.0)
    assert b == pytest.approx(2.0)
    error = b / math.sqrt(len(sample))
    assert abs(sample.mean() - b) < 4.5 * error  # |Laplace| is exponential: mean b, std b
    assert abs(sample.mean() - 1.05 * b) > 4.5 * error
    assert abs(sample.mean() - 0.95 * b) > 4.5 * error
    assert (sample > 0).all()


def choose_on(graph: Graph, candidates: list[np.ndarray], epsilon: float, noise: NoiseSource, default: int) -> int:
    split, labels = graph.split, graph.labels[graph.split.val]
    return choose(candidates, labels, declared=split.declared[1], epsilon=epsilon, noise=noise, default=default)


def test_the_choice_on_validation_nodes_is_epsilon_dp() -> None:
    """Exact probabilities of the exponential mechanism for two candidates, with and without one validation node."""
    labels = np.array([0, 0, 0, 1])
    graph = Graph.from_edges(np.ones((4, 1)), [[0], [1]], labels=labels, split=Split([3], [0, 1, 2], []))
    right, wrong = np.array([[1.0, 0.0]] * 3), np.array([[0.0, 1.0]] * 3)
    epsilon, runs = 1.0, 4000
    noise = NoiseSource.seeded(0)
    shares = []
    for g, size in ((graph, 3), (graph.without_node(2), 2)):
        picks = [choose_on(g, [right[:size], wrong[:size]], epsilon, noise, default=0) for _ in range(runs)]
        shares.append(1 - np.mean(picks))
    for share, count in zip(shares, (3, 2), strict=True):
        expected = 1 / (1 + math.exp(-epsilon * count))
        assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / runs)
    empty = Graph.from_edges(np.ones((2, 1)), [[0], [1]], labels=[0, 1], split=Split([0], [], [1]))
    assert choose_on(empty, [right[:0], wrong[:0]], epsilon, noise, default=1) == 1
    assert len(SHRINKAGE_CHOICES) > 3


def class_weight(fit, row: np.ndarray) -> float:
    """What the released weights say of class 2 in the direction of one row; of a network, its output for the row."""
    if isinstance(fit, Base):
        return float(row @ fit.weights(0.0)[: len(row), 2])
    return float(chain_logits(fit.module, row[None])[0, 2])


@pytest.mark.parametrize("extra", [{}, {"random_features": 10}, {"hidden": 4}])
def test_node_membership_attack_on_the_whole_base(extra: dict) -> None:
    """A training node with a label of its own class, in or out, 250 fits each: the measured epsilon stays below the claim.

    The statistic is the weight of the class that only this node has: the strongest linear test of its gradients.
    """
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_normal((20, 6))) + 0.1
    labels = np.array([0, 1] * 9 + [2, 0])
    graph = Graph.from_edges(x, [[0], [1]], labels=labels, split=Split(range(19), [], [19]), num_classes=3)
    smaller = graph.without_node(18)
    epsilon, delta, runs = 1.0, 0.05, 250
    method, budget = MlpDp(train_size=19, shrinkage=0.0, **extra), Budget(epsilon, delta, "node")
    scores = []
    for g in (graph, smaller):
        fits = [
            method.fit_base(
                method.plan_base(g.sizes(PrivacyUnit.NODE), budget_mu(budget)), g, Streams(0), NoiseSource.seeded(s)
            )
            for s in range(runs)
        ]
        # the last logit of a row that is the same in both worlds: the removed node's own, made from the full graph's features
        scores.append(np.array([class_weight(fit, unit_root_rows(x)[18]) for fit in fits]))
    separation = abs(scores[0].mean() - scores[1].mean()) / math.sqrt((scores[0].var() + scores[1].var()) / 2)
    mu = gaussian_mu(methods.fit(method, graph, budget, Streams(0), NoiseSource.seeded(0)).certificate.cost)
    assert mu is not None
    assert separation <= mu + 4 * math.sqrt(2 / runs)
    assert separation > 0.1 * mu  # the attack sees the node


# -- real data -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    not (Path(os.environ.get("CARIBOU_DATA", "/nonexistent")) / "cora.npz").exists(), reason="no data folder"
)
@pytest.mark.parametrize(
    ("epsilon", "floor", "seeds"), [(1.0, 0.51, 3), (4.0, 0.68, 3), (8.0, 0.74, 1), (math.inf, 0.82, 1)]
)
def test_cora(epsilon: float, floor: float, seeds: int) -> None:
    scores = []
    for seed in range(seeds):
        graph = caribou.datasets.load("cora", seed=seed)
        fitted = methods.fit(VotesNdp(), graph, Budget(epsilon, **NODE), Streams(seed), NoiseSource.seeded(seed))
        test = graph.split.test
        scores.append((fitted.probabilities[test].argmax(axis=1) == graph.labels[test]).mean())
    assert np.mean(scores) > floor
