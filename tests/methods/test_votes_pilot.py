"""The pilot: how many send in it, what its sums are, and which alphabet it finds to tell more."""

from __future__ import annotations

import math

import numpy as np
import pytest

import caribou as cb
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.votes import Pilot, VoteRoles
from caribou.models.objective import USUAL

TELLING = cb.datasets.load("neighbour-features:1200", seed=1)
ALIKE = cb.datasets.load("csbm", nodes=900, classes=4, features=6, homophily=0.9, seed=3)
GROUP = TELLING.features @ np.linalg.svd(TELLING.features, full_matrices=False)[2][:4].T
CODE = np.abs(GROUP).argmax(axis=1)


def roles_of(graph: cb.Graph, right: float = 0.0) -> VoteRoles:
    """With a prior that names the label of a share of the nodes, and any class for the others."""
    rng = np.random.default_rng(7)
    labels, C = np.asarray(graph.labels), graph.num_classes
    named = np.where(rng.random(len(labels)) < right, labels, rng.integers(0, C, len(labels)))
    prior = (1 + 2 * np.eye(C)[named]) / (C + 2)
    return VoteRoles.of(graph, prior, 0.5, USUAL, np.random.default_rng(0))


def asked(graph: cb.Graph, code: np.ndarray, epsilon: float) -> tuple[Pilot, VoteRoles]:
    roles = roles_of(graph)
    box = NoisyCounts(graph, graph.num_classes, VoteBudget(epsilon), NoiseSource.seeded(1))
    return Pilot.ask(box, roles, code, int(code.max()) + 1, 0.3), roles


def test_its_senders_are_the_first_of_the_order_and_never_receive() -> None:
    pilot, roles = asked(ALIKE, np.zeros(900, dtype=int), math.inf)
    assert np.array_equal(pilot.senders, roles.order[: round(0.3 * len(roles.order))])
    assert not roles.receives[pilot.senders].any()
    assert not pilot.counts[~roles.receives].any()
    sent = np.zeros((900, 4))
    u, v = ALIKE.edge_index
    from_pilot = np.isin(u, pilot.senders) & roles.receives[v]
    np.add.at(sent, (v[from_pilot], np.asarray(ALIKE.labels)[u[from_pilot]]), 1)
    assert np.array_equal(pilot.class_counts, sent)


@pytest.mark.parametrize(("calibration", "share"), [(0.5, 0.5), (0.001, 0.999), (0.9, 0.1)])
@pytest.mark.parametrize("labelled", [3, 5, 41])
def test_calibration_nodes_are_never_its_senders(calibration: float, share: float, labelled: int) -> None:
    """Shares are rounded, and halves of an odd number would overlap: a node that has sent receives nothing more."""
    graph = ALIKE.with_split(cb.Split(np.arange(labelled - 1), np.arange(labelled - 1, labelled), np.arange(100, 900)))
    roles = VoteRoles.of(graph, np.full((900, 4), 0.25), calibration, USUAL, np.random.default_rng(0))
    box = NoisyCounts(graph, 4, VoteBudget(math.inf), NoiseSource.seeded(1))
    pilot = Pilot.ask(box, roles, np.zeros(900, dtype=int), 1, share)
    assert not set(pilot.senders.tolist()) & set(roles.calibration.tolist())


@pytest.mark.parametrize("epsilon", [2.0, 4.0, math.inf])
def test_it_finds_the_alphabet_that_tells_more(epsilon: float) -> None:
    pilot, roles = asked(TELLING, CODE, epsilon)
    assert pilot.prefers_code(roles, VoteBudget(epsilon))
    useless = np.random.default_rng(2).integers(0, 4, 900)
    pilot, roles = asked(ALIKE, useless, epsilon)
    assert not pilot.prefers_code(roles, VoteBudget(epsilon))
