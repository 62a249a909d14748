"""Which distribution of counts is taken, and what it tells."""

from __future__ import annotations

import numpy as np
import pytest

import caribou as cb
from caribou.mechanisms.edge_votes import VoteBudget
from caribou.methods.edge.count_fit import fit_counts
from caribou.methods.edge.vote_roles import VoteRoles
from caribou.models.count_likelihood import MULTIPLIERS, CountModel
from caribou.models.objective import USUAL

GRAPH = cb.datasets.load("csbm", nodes=1200, classes=2, features=4, seed=1)
RATES = np.array([[3.0, 1.0], [1.0, 3.0]])


ROLES = VoteRoles.of(GRAPH, np.full((1200, 2), 0.5), 0.5, USUAL, np.random.default_rng(0))
LABELS, RECEIVERS = np.asarray(GRAPH.labels), np.flatnonzero(ROLES.receives)
COUNTS = np.random.default_rng(3).poisson(RATES[LABELS])


def test_counts_tell_the_class() -> None:
    fit = fit_counts(lambda model: model.log_likelihood(COUNTS, RATES), ROLES, VoteBudget(8.0), RECEIVERS, USUAL)
    assert fit.multipliers.shape == (len(MULTIPLIERS),)
    assert fit.multipliers.sum() == pytest.approx(1)
    assert fit.joint.shape == (1200, 2, len(MULTIPLIERS))
    assert np.mean(fit.evidence[RECEIVERS].argmax(axis=1) == LABELS[RECEIVERS]) > 0.85


@pytest.mark.parametrize("better", [False, True])
def test_the_distribution_that_explains_calibration_nodes_is_taken(better: bool) -> None:
    def likelihood(model: CountModel) -> np.ndarray:
        told = COUNTS if model.overdispersed is better else COUNTS[::-1]
        return model.log_likelihood(told, RATES)

    assert fit_counts(likelihood, ROLES, VoteBudget(8.0), RECEIVERS, USUAL).model.overdispersed is better
