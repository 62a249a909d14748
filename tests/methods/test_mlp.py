"""The method mlp: it reads no edge, draws no noise and spends nothing.

The method mlp-dp, alone and under votes: contract, certificates, options, public samples, and an attack on membership.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import caribou
import caribou as cb
from caribou import methods
from caribou.graph import Graph, Split
from caribou.mechanisms.node_votes import VotePlan
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.mlp import Mlp, MlpDp, applied, full_batch
from caribou.methods.votes import VotesNdp
from caribou.models.class_prior import fit_class_prior
from caribou.models.encoder import cross_fit
from caribou.models.features import unit_root_rows
from caribou.models.linear import chain_logits, network_from_arrays
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import (
    Gaussian,
    gaussian_mu,
)
from caribou.randomness import Streams

GRAPH = cb.datasets.load("csbm:nodes=120,signal=3", seed=2)

pytestmark = pytest.mark.usefixtures("quick_learning")


@pytest.mark.parametrize("hidden", [None, (64, 16)])
def test_it_is_the_encoder_whatever_the_edges_and_the_noise(hidden: tuple[int, ...] | None) -> None:
    bare = Graph.from_edges(GRAPH.features, GRAPH.edge_index[:, :0], GRAPH.labels, GRAPH.split)
    noise = NoiseSource.secure()
    fits = [methods.fit(Mlp(hidden=hidden), graph, cb.Budget(1.0), Streams(0), noise) for graph in (GRAPH, bare)]
    assert np.array_equal(fits[0].probabilities, fits[1].probabilities)
    prior = fit_class_prior(GRAPH, Streams(0))[1] if hidden is None else cross_fit(GRAPH, Streams(0)).probabilities
    assert np.array_equal(fits[0].probabilities, prior)
    assert noise.draws == 0
    assert fits[0].certificate.epsilon_spent == 0
    assert fits[0].certificate.status == "private"


NODE = {"delta": 1e-5, "unit": "node"}


VOTING = VotesNdp(declared_degree=30, votes=VotePlan(2, 0.5))


RANDOM, NETWORK = MlpDp(random_features=40), MlpDp(hidden=8)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return caribou.datasets.load("csbm:nodes=300", seed=1)


@functools.lru_cache
def fitted_probabilities(method, graph: Graph) -> np.ndarray:
    return methods.fit(method, graph, Budget(3.0, **NODE), Streams(0), NoiseSource.seeded(0)).probabilities


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
    return Graph.from_edges(
        extra, graph.edge_index, labels=graph.labels, split=graph.split, num_classes=graph.num_classes
    )


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


def test_private_rows_do_not_move_the_public_basis(graph: Graph, sample: Path) -> None:
    """Without one training node, the basis and every other node's row stay as they are."""
    graph = wide(graph)
    v = int(graph.split.train[0])
    method = MlpDp(public_features=sample, train_size=len(graph.split.train))
    one, two = (
        method.fit_base(method.plan_base(g.sizes(PrivacyUnit.NODE), 0.5), g, Streams(0), NoiseSource.seeded(0))
        for g in (graph, graph.without_node(v))
    )
    assert np.array_equal(one.parameters["public_components"], two.parameters["public_components"])
    assert np.array_equal(one.parameters["public_mean"], two.parameters["public_mean"])
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
        Graph.from_edges(x, nothing, labels=[0, 1] * 6, split=split, num_classes=2),
        Graph.from_edges(x, [[0, 1], [8, 9]], labels=[0] * 12, split=split, num_classes=2),
        Graph.from_edges(x, [[0, 1], [8, 9]], labels=[0, 1] * 3 + [2] * 6, split=split, num_classes=3),
        Graph.from_edges(np.zeros((12, 4)), [[0], [8]], labels=[0, 1] * 6, split=split, num_classes=2),
        Graph.from_edges(x, [[0], [8]], labels=[0, 1] * 6, split=Split([0], [], [8]), num_classes=2),
        Graph.from_edges(x[:1], nothing, labels=[0], split=Split([0], [], []), num_classes=2),
    ]
    combinations = [(g, m, 8.0) for g in graphs for m in (MlpDp(), RANDOM, NETWORK)]
    combinations += [(g, VOTING, math.inf) for g in graphs]
    for g, method, epsilon in [*combinations, (graphs[0], VOTING, 3.0), (graphs[4], VOTING, 3.0)]:
        fitted = methods.fit(method, g, Budget(epsilon, **NODE), Streams(0), NoiseSource.seeded(0))
        assert np.isfinite(fitted.probabilities).all()


def test_sparse_features_stay_sparse_and_give_the_same_model(graph: Graph) -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((200, 300)) < 0.03) * rng.random((200, 300))
    y = (x[:, :150].sum(axis=1) > x[:, 150:].sum(axis=1)).astype(int)
    split = Split(range(140), range(140, 160), range(160, 200))
    dense = Graph.from_edges(x, [[0], [1]], labels=y, split=split, num_classes=2)
    sparse = Graph.from_edges(sp.csr_array(x), [[0], [1]], labels=y, split=split, num_classes=2)
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


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0, 16.0])
def test_the_base_spends_exactly_its_mu(graph: Graph, epsilon: float) -> None:
    fitted = methods.fit(MlpDp(), graph, Budget(epsilon, **NODE), Streams(0), NoiseSource.seeded(0))
    assert all(isinstance(e, Gaussian) for e in fitted.certificate.cost)
    assert epsilon * (1 - 1e-6) < fitted.certificate.epsilon_spent <= epsilon
    base = MlpDp().plan_base(graph.sizes(PrivacyUnit.NODE), 0.7)
    assert gaussian_mu([r.event for r in base.records]) == pytest.approx(0.7, rel=1e-9)
    assert gaussian_mu([r.event for r in base.records]) <= 0.7
    assert gaussian_mu([full_batch("x", 9, 0.5).event]) <= 0.5


def class_weight(fit, row: np.ndarray) -> float:
    """What the released weights say of class 2 in the direction of one row; of a network, its output for the row."""
    if "weights" in fit.parameters:
        return float(row @ fit.parameters["weights"][: len(row), 2])
    return float(chain_logits(network_from_arrays(fit.parameters), row[None])[0, 2])


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


@pytest.mark.parametrize("sparse", [False, True])
def test_predictions_of_others_do_not_show_how_many_entries_a_node_has(sparse: bool) -> None:
    """A fifth of all entries is filled, less without node 0. Given the same weights, nobody else's row may move by one bit."""
    rng = np.random.default_rng(0)
    n, d = 30, 40
    x = np.zeros((n, d))
    x.ravel()[rng.permutation(np.arange(d, n * d))[: n * d // 5 - 9]] = rng.random(n * d // 5 - 9) + 0.1
    x[0, :10] = 1.0
    assert (x != 0).sum() > 0.2 * x.size > (x[1:] != 0).sum()
    features = sp.csr_array(x) if sparse else x
    split = Split(range(20), range(20, 25), range(25, n))
    graph = Graph.from_edges(features, [[0], [1]], labels=np.arange(n) % 3, split=split, num_classes=3)
    smaller = graph.without_node(0)
    for base in (MlpDp(), MlpDp(random_features=8), MlpDp(hidden=3)):
        fitted = methods.fit(base, graph, Budget(4.0, **NODE), Streams(0), NoiseSource.seeded(0))
        logits = [applied(fitted.weights, g).logits()[1:] for g in (graph, smaller)]
        assert np.array_equal(*logits)
