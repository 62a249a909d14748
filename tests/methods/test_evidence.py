"""Class messages: who sends what, one budget over hops and votes, states in messages."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import caribou as cb
from caribou.graph import Graph, Split
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.methods.caribou import Caribou
from caribou.methods.evidence import (
    Roles,
    View,
    allocate_edge,
    labelled_nodes,
    message_sums,
    message_unit,
)
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import Gaussian
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

SIZES = Sizes(nodes=60, columns=8, classes=4, train=40, val=8, test=12)
GRAPH = cb.datasets.load("csbm:nodes=60,features=8", seed=1)


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
    calibrated = Caribou(messages="labels", hops=1, beta=beta).plan(SIZES, Budget(4.0)).parts["propagation"]
    assert calibrated.sensitivity.bounds.degree_floor == 59
    layer, x = ContractiveGraphLayer(0.9, 1.0, beta), torch.from_numpy(start)
    state = layer(x, normalize(GRAPH, calibrated.sensitivity.bounds), x).numpy()
    found = message_sums(View(start, start, {}), state, calibrated)
    assert np.allclose(found, GRAPH.adjacency(np.float64) @ start, atol=1e-9)
    assert message_unit(calibrated) == pytest.approx(60 / 0.9)


def test_only_labelled_training_nodes_send() -> None:
    graph = Graph.from_edges(np.eye(3), [[0], [1]], labels=[0, 1, 0], split=Split([0, 2], [], [1]))
    assert labelled_nodes(graph).tolist() == [0, 2]
    assert labelled_nodes(graph.with_split(None)).tolist() == []
