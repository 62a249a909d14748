"""The method caribou-edp: who sends what, one budget over hops and votes, states in messages, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import caribou as cb
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.methods.edge.caribou import (
    MESSAGES,
    Caribou,
    Roles,
    View,
    allocate_edge,
    default_floor,
    labelled_nodes,
    message_sums,
    message_unit,
    state_columns,
    unit_rows,
)
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import Gaussian
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

SIZES = Sizes(nodes=60, columns=8, classes=4, train=40, val=8, test=12)
GRAPH = cb.datasets.load("csbm:nodes=60,features=8", seed=1)


@given(hops=st.integers(1, 50), nodes=st.integers(1, 10**6), mu=st.floats(1e-3, 100))
def test_the_default_floor_is_public_and_falls_with_mu(hops: int, nodes: int, mu: float) -> None:
    floor = default_floor(hops=hops, nodes=nodes, mu=mu)
    assert floor == (max(1, nodes - 1) if hops == 1 else round(min(20.0, max(2.0, 8 / mu))))
    assert default_floor(hops=hops, nodes=nodes, mu=2 * mu) <= floor


@pytest.mark.parametrize("hops", [1, 3, 64])
@pytest.mark.parametrize("messages", MESSAGES)
def test_any_number_of_hops_is_one_gaussian_of_the_whole_budget(hops: int, messages: str) -> None:
    budget = Budget(3.0, 1e-5)
    plan = Caribou(hops=hops, messages=messages, degree_floor=5).plan(SIZES, budget)
    (event,) = plan.cost
    assert isinstance(event, Gaussian)
    assert 1 / event.noise_multiplier == pytest.approx(budget_mu(budget), rel=1e-6)
    assert 3.0 * (1 - 1e-3) < epsilon_of(plan.cost, 1e-5) <= 3.0
    columns = {"features": 8, "embeddings": 16}.get(messages, 4)
    assert plan.parts["propagation"].arithmetic.columns == columns


def test_hops_and_votes_together_keep_the_budget_and_1_percent_less_noise_does_not() -> None:
    budget = Budget(3.0, 1e-5)
    mu, votes = allocate_edge(budget, 0.4)
    assert votes is not None
    assert votes.epsilon == pytest.approx(1.2)
    assert epsilon_of([Gaussian(1 / mu), votes.event], 1e-5) <= 3.0
    assert epsilon_of([Gaussian(0.99 / mu), votes.event], 1e-5) > 3.0
    assert allocate_edge(budget, 0.0) == (budget_mu(budget), None)
    assert math.isinf(allocate_edge(Budget(math.inf), 0.4)[0])


def test_roles_are_disjoint_and_cover_the_labelled_nodes() -> None:
    roles = Roles.draw(GRAPH, 0.1, Streams(3))
    assert sorted([*roles.senders, *roles.calibration]) == GRAPH.split.train.tolist()
    assert len(roles.calibration) == round(0.1 * len(GRAPH.split.train))
    assert sorted(roles.calibration_nodes) == sorted([*roles.calibration, *GRAPH.split.val])
    assert roles.shares.sum() == pytest.approx(1)
    assert np.array_equal(roles.senders, Roles.draw(GRAPH, 0.1, Streams(3)).senders)
    assert not np.array_equal(roles.senders, Roles.draw(GRAPH, 0.1, Streams(4)).senders)
    assert len(Roles.draw(GRAPH, 1e-9, Streams(3)).calibration) == 1, "the classification module needs a node"


@pytest.mark.parametrize("beta", [0.0, 0.4])
def test_after_one_hop_the_sums_of_messages_are_those_of_the_neighbours(beta: float) -> None:
    """With F = n - 1 nothing is normalised: the state in messages is the plain sum over neighbours."""
    start = np.eye(4)[GRAPH.labels]
    calibrated = Caribou(beta=beta).plan(SIZES, Budget(4.0)).parts["propagation"]
    assert calibrated.sensitivity.bounds.degree_floor == 59
    layer, x = ContractiveGraphLayer(0.9, 1.0, beta), torch.from_numpy(start)
    state = layer(x, normalize(GRAPH, calibrated.sensitivity.bounds), x).numpy()
    found = message_sums(View(start, start, {}), state, calibrated)
    assert np.allclose(found, GRAPH.adjacency(np.float64) @ start, atol=1e-9)
    assert message_unit(calibrated) == pytest.approx(60 / 0.9)


def test_the_noise_of_a_row_is_at_most_as_long_as_the_row_beside_it() -> None:
    noisy = Caribou(hops=4, messages="features").plan(SIZES, Budget(0.1)).parts["propagation"]
    row = np.full((1, 8), noisy.noise_std)
    assert np.linalg.norm(state_columns(row, noisy)) == pytest.approx(1.0)
    quiet = Caribou(hops=4, messages="features").plan(SIZES, Budget(math.inf)).parts["propagation"]
    assert np.allclose(state_columns(row, quiet), row * message_unit(quiet))


def test_messages_of_features_have_length_one_and_only_labelled_nodes_send() -> None:
    x = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]])
    graph = Graph.from_edges(x, [[0], [1]], labels=[0, 1, 0], split=Split([0, 2], [], [1]))
    assert unit_rows(graph).tolist() == [[0.6, 0.8], [0, 0], [1, 0]]
    assert labelled_nodes(graph).tolist() == [0, 2]
    assert labelled_nodes(graph.with_split(None)).tolist() == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hops": 0}, "hops must be a whole number >= 1, got 0"),
        ({"contraction": 1.5}, r"contraction must be in \(0, 1\], got 1.5"),
        ({"degree_floor": -1}, "degree_floor must be a whole number >= 0, got -1"),
        ({"messages": "degrees"}, "messages must be one of labels, probabilities, embeddings, features, got 'degrees'"),
        ({"calibration": 0}, r"calibration must be in the open interval \(0, 1\), got 0"),
        ({"classifier": "tree"}, "classifier must be one of evidence, mlp, got 'tree'"),
        ({"classifier": "evidence", "messages": "features"}, "classifier must be mlp for messages = features"),
        ({"votes": 1.0}, r"votes must be in \[0, 1\), got 1.0"),
        ({"votes": 0.5, "classifier": "mlp"}, "votes must be 0 unless the classifier is evidence, got 0.5"),
        ({"layer": "dense"}, "layer must be one of contractive, attention, spectral, gcn, got 'dense'"),
        ({"layer": "attention", "alpha1": 0.5}, "alpha1 must be 1 for the layer attention, got 0.5"),
        ({"layer": "gcn", "classifier": "evidence"}, "classifier must be mlp for the layer gcn, got 'evidence'"),
        ({"layer_settings": {"theta0": 1}}, "layer_settings must be of nothing for contractive"),
        ({"layer": "spectral", "layer_settings": {"x": 1}}, "layer_settings must be of theta0, theta1 for spectral"),
    ],
)
def test_wrong_settings_are_named(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Caribou(**settings)
