"""Public roles of the nodes in votes: who sends first, who calibrates, what the prior says. No edge is read here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from caribou.graph import Graph
from caribou.models.heads import Evidence, PriorHead, fit_prior_head
from caribou.models.objective import Objective


@dataclass(frozen=True, eq=False)
class VoteRoles:
    """What is known about the nodes before any of them is asked.

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
