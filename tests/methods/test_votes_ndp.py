"""The method votes-ndp: what votes and training cost together, when it asks at all, and its accuracy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import caribou
from caribou import methods
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.mechanisms.node_votes import VotePlan
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.votes import VOTES_SHARE, VotesNdp
from caribou.model.verify import verify
from caribou.privacy.accounting import epsilon_of, largest_true_positive_rate
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import EpsilonDelta, gaussian_mu
from caribou.privacy.mechanism_records import Group, Mechanism, groups_of
from caribou.privacy.plan import epsilon_at
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

NODE = {"delta": 1e-5, "unit": "node"}
SIZES = Sizes(300, 8, 3, 200, 40, 60)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return caribou.datasets.load("csbm:nodes=300", seed=1)


@pytest.mark.parametrize("plan", [VotePlan(16, 0.5), VotePlan(8, 0.7), VotePlan(None, 0.3)])
@pytest.mark.parametrize("epsilon", [2, 8])
def test_votes_and_training_share_mu_squared(epsilon: float, plan: VotePlan) -> None:
    """A training node of the declared degree: votes for their share of mu^2, the model for the rest, the budget in all."""
    budget, method = Budget(epsilon, **NODE), VotesNdp(declared_degree=30, votes=plan)
    made = method.plan(SIZES, budget)
    votes = next(record for record in made.mechanisms if record.mechanism is Mechanism.NODE_VOTES)
    sending = gaussian_mu(votes.costs[Group.TRAINING])
    assert sending <= math.sqrt(plan.share) * budget_mu(budget)
    whole = gaussian_mu(groups_of(made.mechanisms)[Group.TRAINING])
    assert math.hypot(sending, math.sqrt(1 - plan.share) * budget_mu(budget)) == pytest.approx(whole, rel=1e-6)
    if plan.receivers_per_sender != 8:  # there the receivers need more noise than the senders' share would buy
        assert whole == pytest.approx(budget_mu(budget), rel=1e-6)
        d = 30 if plan.receivers_per_sender is None else plan.receivers_per_sender
        assert votes.details["noise_std"] == pytest.approx(math.sqrt(d / plan.share) / budget_mu(budget), rel=1e-4)


@pytest.mark.parametrize("chooses", [True, False])
@pytest.mark.parametrize("receivers", [None, 2, 16])
@pytest.mark.parametrize("epsilon", [0.7, 6.0])
def test_every_group_keeps_the_budget_up_to_the_declared_degree(
    epsilon: float, receivers: int | None, chooses: bool
) -> None:
    budget = Budget(epsilon, **NODE)
    method = VotesNdp(declared_degree=30, votes=VotePlan(receivers, 0.3), weight=None if chooses else 1.0)
    made = method.plan(SIZES, budget)
    groups = groups_of(made.mechanisms)
    for group, events in groups.items():
        assert epsilon_of(events, 1e-5) <= epsilon, group
    assert epsilon_of(groups[Group.OTHERS], 1e-5) == pytest.approx(epsilon, rel=1e-4), (
        "a receiver's clip wastes nothing"
    )
    assert epsilon_of(groups[Group.VALIDATION], 1e-5) > 0.95 * epsilon
    chosen = [e for e in groups[Group.VALIDATION] if isinstance(e, EpsilonDelta)]
    assert len(chosen) == chooses
    curve = [epsilon_at(made.mechanisms, 1e-5, degree) for degree in (0, 5, 29, 30, 31, 299)]
    assert curve == sorted(curve)
    assert curve[3] <= epsilon < curve[4] < curve[5]


def test_degrees_are_never_read_from_the_graph() -> None:
    """The same settings ask the same way on an empty and on a complete graph."""
    n = 60
    pairs = np.array(list(itertools.combinations(range(n), 2))).T
    labels = np.arange(n) % 2
    split = Split(range(40), range(40, 50), range(50, n))
    certificates = [
        methods.fit(
            VotesNdp(declared_degree=40, declared_average_degree=d),
            Graph.from_edges(np.ones((n, 2)), edges, labels=labels, split=split, num_classes=2),
            Budget(6.0, **NODE),
            Streams(0),
            noise,
        ).certificate
        for d in (None, 30.0)
        for edges, noise in ((pairs, NoiseSource.seeded(0)), (pairs[:, :0], NoiseSource.seeded(0)))
    ]
    events = [groups_of(c.mechanisms)[Group.TRAINING] for c in certificates]
    assert [c.cost for c in certificates[::2]] == [c.cost for c in certificates[1::2]]
    assert [c.epsilon_by_degree for c in certificates[::2]] == [c.epsilon_by_degree for c in certificates[1::2]]
    assert events[0] == events[1]
    assert events[2] == events[3]
    asked = [any(m.mechanism is Mechanism.NODE_VOTES for m in c.mechanisms) for c in certificates]
    assert asked == [False, False, True, True]


def test_switch() -> None:
    """Berkeley13 asks from epsilon = 4 on, Photo from 16 on, Cora not at all; nothing is asked without both degrees."""

    def asked(degree: int | None, average: float | None) -> list[bool]:
        method = VotesNdp(declared_degree=degree, declared_average_degree=average)
        return [method.plan_votes(Budget(epsilon, **NODE)) is not None for epsilon in (2, 4, 8, 16)]

    assert asked(550, 71.5) == [False, True, True, True]
    assert asked(660, 31) == [False, False, False, True]
    assert asked(70, 4) == asked(550, None) == asked(None, 71.5) == [False] * 4
    plan = VotesNdp(declared_degree=551, declared_average_degree=71.5).plan_votes(Budget(8.0, **NODE))
    assert plan == VotePlan(276, VOTES_SHARE)
    with pytest.raises(InputError, match="declared_degree must be given where votes are asked"):
        VotesNdp(votes=VotePlan(2, 0.5))
    for bad in ({"declared_degree": 0}, {"declared_average_degree": -1}, {"weight": -1.0}):
        with pytest.raises(InputError, match=next(iter(bad))):
            VotesNdp(**bad)


def test_the_certified_attack_rate_covers_every_group(graph: Graph) -> None:
    """The rates are those of the group that pays most: with few receivers per sender that is not the voters."""
    method, budget = VotesNdp(declared_degree=30, votes=VotePlan(2, 0.1), weight=1.0), Budget(4.0, 1e-5, "node")
    certificate = methods.fit(method, graph, budget, Streams(0), NoiseSource.secure()).certificate
    rates = {
        group: largest_true_positive_rate(events, delta=1e-5, false_positive_rate=0.001)
        for group, events in groups_of(certificate.mechanisms).items()
    }
    assert certificate.attack_success["presence"]["0.001"] >= max(rates.values()) * (1 - 1e-9)
    assert rates[Group.TRAINING] < 0.95 * rates[Group.OTHERS], "what a certificate about voters alone would say"
    assert certificate.attack_success["replacement"]["0.001"] > 2 * certificate.attack_success["presence"]["0.001"]
    assert certificate.status == "private by degree"
    assert certificate.scope.limit == 30
    assert verify(certificate).passed
