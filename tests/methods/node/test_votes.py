"""The method votes-ndp: what votes and training cost together, when it asks at all, and its accuracy."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest

import caribou
from caribou import methods
from caribou.graph import Graph, Split
from caribou.mechanisms.node_votes import VotePlan, vote_counts
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.node.mlp import MlpDp
from caribou.methods.node.votes import SELECTION_SHARE, VotesNdp, base_mu, default_plan
from caribou.privacy.accounting import epsilon_of, largest_true_positive_rate, pure_epsilon
from caribou.privacy.budget import Budget
from caribou.privacy.events import (
    EpsilonDelta,
    Gaussian,
    Laplace,
)
from caribou.privacy.mechanism_records import Group, groups_of
from caribou.privacy.sizes import Sizes
from caribou.privacy.verify import verify
from caribou.randomness import Streams

NODE = {"delta": 1e-5, "unit": "node"}
VOTING = VotesNdp(votes=VotePlan(2, 0.5))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return caribou.datasets.load("csbm:nodes=300", seed=1)


def test_streams_are_independent(graph: Graph) -> None:
    """The public seed does not touch the linear model; noise does not touch the choice of receivers."""
    budget = Budget(3.0, **NODE)
    one, two = (methods.fit(VOTING, graph, budget, Streams(s), NoiseSource.seeded(0)) for s in (0, 1))
    assert np.array_equal(one.weights["weights"], two.weights["weights"])
    mlp = [methods.fit(MlpDp(), graph, budget, Streams(s), NoiseSource.seeded(0)).probabilities for s in (0, 1)]
    assert np.array_equal(*mlp)
    # the votes differ by clipped counts alone: the noise is bit-identical, so rows without votes are equal
    seeds = [int(Streams(s).sampling.integers(2**63)) for s in (0, 1)]
    counts = [vote_counts(graph, graph.split, VOTING.votes, seed) for seed in seeds]
    same = (counts[0] == counts[1]).all(axis=1)
    assert 0 < same.sum() < 300
    assert np.array_equal(one.released["votes"][same], two.released["votes"][same])


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


def test_the_certified_attack_rate_covers_every_group(graph: Graph) -> None:
    """A receiver of votes pays a pure epsilon: at few false alarms it is found more often than a Gaussian would allow."""
    method, budget = VotesNdp(votes=VotePlan(2, 0.5), weight=1.0), Budget(4.0, 1e-5, "node")
    certificate = methods.fit(method, graph, budget, Streams(0), NoiseSource.secure()).certificate
    laplace = 0.5 * math.exp(budget.epsilon) * 2 * 0.001  # Laplace noise, shift epsilon scales: TPR = e^epsilon FPR
    assert certificate.largest_true_positive_rates["0.001"] >= laplace * (1 - 1e-3)
    voters_alone = largest_true_positive_rate(
        groups_of(certificate.mechanisms)[Group.TRAINING], delta=1e-5, false_positive_rate=0.001
    )
    assert voters_alone < 0.5 * laplace, "this is what a certificate about voters alone would say"
    assert certificate.mu is None
    assert verify(certificate).passed


@pytest.mark.parametrize("method", [VotesNdp(votes=VotePlan(2, 0.5)), VotesNdp(votes=VotePlan(2, 0.5), weight=1.0)])
def test_another_graph_costs_a_receiver_its_whole_epsilon(method: VotesNdp, graph: Graph) -> None:
    budget = Budget(4.0, 1e-5, "node")
    weights = methods.fit(method, graph, budget, Streams(0), NoiseSource.secure()).weights
    certificate = methods.predict_graph(method, weights, graph, budget, Streams(0), NoiseSource.secure()).certificate
    assert certificate.epsilon_spent == pytest.approx(4.0, rel=1e-4)
    assert verify(certificate).passed
    assert (
        epsilon_of(method.plan_graph(graph.sizes(budget.unit), budget, weights).cost, 1e-5) >= certificate.epsilon_spent
    )
