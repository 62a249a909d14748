"""Public roles of the nodes in votes, and the distribution of their degrees."""

from __future__ import annotations

import numpy as np
import pytest

import caribou as cb
from caribou.mechanisms.edge_votes import VoteBudget
from caribou.methods.votes import VoteRoles, fit_multipliers
from caribou.models.count_likelihood import MULTIPLIERS, CountModel
from caribou.models.objective import USUAL

GRAPH = cb.datasets.load("csbm", nodes=300, seed=2)
PRIOR = np.full((300, 4), 0.25)


def roles() -> VoteRoles:
    return VoteRoles.of(GRAPH, PRIOR, 0.4, USUAL, np.random.default_rng(1))


def test_labelled_nodes_are_those_of_training_and_validation() -> None:
    found = roles()
    assert set(found.order.tolist()) == {*GRAPH.split.train.tolist(), *GRAPH.split.val.tolist()}
    assert np.array_equal(np.flatnonzero(found.labelled), np.sort(found.order))
    assert np.array_equal(found.calibration, found.order[-len(found.calibration) :])
    assert len(found.calibration) == round(0.4 * len(found.order))


def test_weights_know_the_labels_of_calibration_nodes_only() -> None:
    found = roles()
    weights, labels = found.class_weights(), np.asarray(GRAPH.labels)
    assert np.array_equal(weights[found.calibration].argmax(axis=1), labels[found.calibration])
    others = np.setdiff1d(np.arange(300), found.calibration)
    assert np.array_equal(weights[others], found.p0[others])


def test_roles_read_no_edge() -> None:
    other = VoteRoles.of(
        GRAPH.without_edge(*GRAPH.edge_index[:, 0].tolist()), PRIOR, 0.4, USUAL, np.random.default_rng(1)
    )
    assert np.array_equal(other.order, roles().order)
    assert np.array_equal(other.p0, roles().p0)


COUNTED = cb.datasets.load("csbm", nodes=1200, classes=2, features=4, seed=1)
RATES = np.array([[3.0, 1.0], [1.0, 3.0]])


ROLES = VoteRoles.of(COUNTED, np.full((1200, 2), 0.5), 0.5, USUAL, np.random.default_rng(0))
LABELS, RECEIVERS = np.asarray(COUNTED.labels), np.flatnonzero(ROLES.receives)


def test_the_distribution_of_degrees_is_that_of_the_receivers() -> None:
    """Half of the receivers get twice as many votes as the others: multipliers of about 2 / 3 and 4 / 3."""
    counts = np.random.default_rng(3).poisson(RATES[LABELS] * np.where(np.arange(1200) % 2, 2 / 3, 4 / 3)[:, None])
    joint = CountModel(VoteBudget(8.0)).log_likelihood(counts, RATES)
    before = joint.copy()
    found = fit_multipliers(joint, ROLES, RECEIVERS)
    assert found.sum() == pytest.approx(1)
    multipliers = np.array(MULTIPLIERS)
    assert found @ multipliers == pytest.approx(1, abs=0.05)
    assert found[(multipliers > 0.5) & (multipliers < 1.6)].sum() > 0.85
    assert np.allclose(joint, before + np.log(found))
