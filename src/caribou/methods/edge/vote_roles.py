"""What both alphabets of votes begin and end with: public roles of the nodes, and the distribution that explains their counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from caribou.graph import Graph
from caribou.mechanisms.edge_votes import VoteBudget
from caribou.models.count_likelihood import CountModel, class_evidence, multiplier_weights
from caribou.models.heads import Evidence, PriorHead, cross_entropies, fit_bayes_head, fit_prior_head
from caribou.models.objective import Objective

EM_NODES = 3000
"""The distribution of the degree multiplier is learned on so many nodes at most."""


@dataclass(frozen=True, eq=False)
class VoteRoles:
    """What is known about the nodes before any of them is asked: who sends first, who calibrates. No edge is read here.

    Args:
        labels: [n]; those of unlabelled nodes are not read.
        order: the labelled nodes in a random order. Of two of them the earlier sends.
        calibration: the last of the order. They receive the messages of those before them, and the head is fitted on them.
        log_prior: [n, C].
        prior_head: calibrates the prior.
        p0: [n, C], the calibrated prior.
        rng: draws what else is random and public.
    """

    labels: np.ndarray
    order: np.ndarray
    calibration: np.ndarray
    log_prior: np.ndarray
    prior_head: PriorHead
    p0: np.ndarray
    rng: np.random.Generator

    @classmethod
    def of(
        cls, graph: Graph, prior: np.ndarray, calibration: float, objective: Objective, rng: np.random.Generator
    ) -> VoteRoles:
        """``prior``: class probabilities, [n, C]; ``calibration``: the share of the labelled nodes that receive."""
        split, labels = graph.for_learning(public=True)
        labels = np.array(labels)
        # Validation nodes vote as training nodes do. No choice is made on them alone, so nothing is lost by it, and the others
        # receive a seventh more votes.
        order = rng.permutation(np.concatenate([split.train, split.val]))
        log_prior = np.log(np.clip(prior, 1e-4, 1))
        head = fit_prior_head(log_prior[order], labels[order], objective)
        p0 = np.asarray(softmax(head(Evidence.of_prior(log_prior)), axis=1))
        last = order[len(order) - max(1, round(calibration * len(order))) :]
        return cls(labels, order, last, log_prior, head, p0, rng)

    @property
    def nodes(self) -> int:
        """n."""
        return len(self.p0)

    @property
    def classes(self) -> int:
        """C."""
        return self.p0.shape[1]

    @property
    def labelled(self) -> np.ndarray:
        """[n], bool."""
        mask = np.zeros(self.nodes, dtype=bool)
        mask[self.order] = True
        return mask

    @property
    def receives(self) -> np.ndarray:
        """[n], bool: unlabelled nodes, and the calibration nodes."""
        mask = ~self.labelled
        mask[self.calibration] = True
        return mask

    def class_weights(self) -> np.ndarray:
        """The calibrated prior, and the label where it is known and the node receives. [n, C]"""
        weights = self.p0.copy()
        weights[self.calibration] = np.eye(self.classes)[self.labels[self.calibration]]
        return weights


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
