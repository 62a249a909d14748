"""The method caribou-ndp: how one budget is shared, who pays what, and that without the graph it is mlp-dp."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.node.caribou import CaribouNdp, default_graph_share, joint_rows
from caribou.methods.node.mlp import MlpDp
from caribou.methods.node.shared import centred
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import EpsilonDelta, gaussian_mu
from caribou.privacy.mechanism_records import Group, groups_of
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

NODE = {"delta": 1e-5, "unit": "node"}
SIZES = Sizes(nodes=300, columns=32, classes=4, train=210, val=30, test=60)
GRAPH = cb.datasets.load("csbm:nodes=120", seed=1)


def test_the_graph_is_used_on_very_dense_graphs_with_a_large_epsilon_alone() -> None:
    assert [default_graph_share(e, None) for e in (1, 16)] == [0.0, 0.0]
    assert [default_graph_share(16, degree) for degree in (49.9, 50)] == [0.0, 0.85]
    assert [default_graph_share(e, 60) for e in (5.9, 6, 11.9, 12)] == [0.0, 0.5, 0.5, 0.85]


def test_without_the_graph_it_is_mlp_dp() -> None:
    budget = Budget(4.0, **NODE)
    ours_planned, theirs_planned = (method.plan(SIZES, budget) for method in (CaribouNdp(), MlpDp()))
    assert ours_planned.description == "caribou-ndp, fitted without the graph"
    assert replace(ours_planned, description=theirs_planned.description) == theirs_planned
    ours, theirs = (methods.fit(m, GRAPH, budget, Streams(0), NoiseSource.seeded(1)) for m in (CaribouNdp(), MlpDp()))
    assert np.array_equal(ours.probabilities, theirs.probabilities)


@pytest.mark.parametrize("hops", [1, 4])
def test_a_trained_classifier_shares_mu_squared_with_encoder_and_propagation(hops: int) -> None:
    budget = Budget(4.0, **NODE)
    method = CaribouNdp(graph_share=0.6, classifier="trained", classifier_share=0.1, hops=hops)
    groups = groups_of(method.plan(SIZES, budget).mechanisms)
    assert gaussian_mu(groups[Group.TRAINING]) == pytest.approx(budget_mu(budget), rel=1e-5)
    for group in (Group.VALIDATION, Group.OTHERS):
        assert gaussian_mu(groups[group]) == pytest.approx(math.sqrt(0.6) * budget_mu(budget), rel=1e-5)


def test_validation_nodes_pay_for_the_choice_of_the_weight_and_keep_the_budget() -> None:
    budget = Budget(4.0, **NODE)
    groups = groups_of(CaribouNdp(graph_share=0.5).plan(SIZES, budget).mechanisms)
    assert [type(e) for e in groups[Group.VALIDATION] if isinstance(e, EpsilonDelta)] == [EpsilonDelta]
    assert not any(isinstance(e, EpsilonDelta) for e in (*groups[Group.TRAINING], *groups[Group.OTHERS]))
    for group, events in groups.items():
        assert epsilon_of(events, 1e-5) <= 4.0 * (1 + 1e-9), group
    assert epsilon_of(groups[Group.OTHERS], 1e-5) < epsilon_of(groups[Group.TRAINING], 1e-5)


def test_rows_of_the_classifier_are_logits_and_centred_state_at_length_one() -> None:
    logits, state = np.array([[3.0, -3.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [2.0, 2.0]])
    rows = joint_rows(logits, state)
    assert np.allclose(rows[0], np.array([1, -1, 1, -1]) / 2)
    assert np.allclose(rows[1], 0)
    assert np.allclose(centred(state)[0], [0.5, -0.5])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hops": 0}, "hops must be a whole number >= 1, got 0"),
        ({"degree_cap": 0}, "degree_cap must be a whole number >= 1, got 0"),
        ({"contraction": 0}, "contraction must be"),
        ({"graph_share": 1.0}, r"graph_share must be in \[0, 1\), got 1.0"),
        (
            {"graph_share": 0.96, "classifier": "trained", "classifier_share": 0.05},
            r"graph_share must be in \[0, 0.95\)",
        ),
        ({"classifier": "mlp"}, "classifier must be one of chosen, trained, got 'mlp'"),
        ({"declared_average_degree": -1}, "declared_average_degree must be a finite number >= 0, got -1"),
        ({"base": MlpDp(choose_shrinkage=True)}, "choose_shrinkage must be False here: validation nodes choose"),
    ],
)
def test_wrong_settings_are_named(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CaribouNdp(**settings)
