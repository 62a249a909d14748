"""Which distribution explains the released counts: Poisson or overdispersed, and how degrees scatter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from caribou.mechanisms.edge_votes import VoteBudget
from caribou.methods.edge.vote_roles import VoteRoles
from caribou.models.count_likelihood import CountModel, class_evidence, multiplier_weights
from caribou.models.heads import Evidence, cross_entropies, fit_bayes_head
from caribou.models.objective import Objective

EM_NODES = 3000
"""The distribution of the degree multiplier is learned on so many nodes at most."""


@dataclass(frozen=True, eq=False)
class CountFit:
    """The distribution of counts, and what they tell.

    Args:
        model: Poisson or overdispersed, plus the noise.
        multipliers: [T], the distribution of the degree multiplier.
        joint: [n, C, T], log likelihoods with it.
        evidence: [n, C], the multiplier summed out.
    """

    model: CountModel
    multipliers: np.ndarray
    joint: np.ndarray
    evidence: np.ndarray


def fit_counts(
    likelihood: Callable[[CountModel], np.ndarray],
    roles: VoteRoles,
    budget: VoteBudget,
    receivers: np.ndarray,
    objective: Objective,
) -> CountFit:
    """Whichever distribution explains the calibration nodes better. ``likelihood``: log likelihoods under a model, [n, C, T]."""
    cal, weights = roles.calibration, roles.class_weights()
    some = receivers[:: max(1, len(receivers) // EM_NODES)]
    fits, losses = [], []
    for overdispersed in (False, True):
        model = CountModel(budget, overdispersed)
        joint = likelihood(model)
        g = multiplier_weights(joint[some], weights[some])
        joint += np.log(g)  # in place: it is the largest array of a fit
        evidence = class_evidence(joint)
        known = Evidence(roles.log_prior[cal], evidence[cal], np.zeros_like(evidence[cal]))
        head = fit_bayes_head(known, roles.labels[cal], objective)
        losses.append(float(cross_entropies(head(known), roles.labels[cal]).mean()))
        fits.append(CountFit(model, g, joint, evidence))
    return fits[int(np.argmin(losses))]
