"""The pilot: a few labelled nodes send class and feature code in one symbol, so that the release tells which of them matters.

Each pair is asked once, so what nodes say must be chosen before they are asked. The pairs of the pilot are disjoint from all
others (its senders never send again), so it costs nothing more, and what it released is used whatever is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.methods.edge.vote_roles import VoteRoles
from caribou.models.count_likelihood import CountModel, message_information
from caribou.models.heads import cross_entropies
from caribou.models.vote_model import voters

LOUDEST = 0.5
"""Largest variance of the noise of a count at which a pilot is asked (epsilon of 1.75 and more): below, it would tell nothing."""
QUIET = 0.5
"""Variance of the noise of a sum over codes up to which the sum stands for its entries."""
SHARE, LARGER_SHARE = 0.1, 0.3
"""Shares of the labelled nodes that are the pilot's senders: the larger one where own features tell nothing about the class."""
TELLING, CLEAR = 0.97, 0.6
"""Own features tell something about the class, or most of it, if the prior has less than so much of the classes' entropy."""
GROUPS = 20
"""Groups of the jackknife."""


def pilot_share(roles: VoteRoles) -> float:
    """The share of the labelled nodes that are the pilot's senders, 0 if there is none to be asked. Public.

    Where own features tell most of the class, a class says about a node what its features would say, and more.

    Where own features tell nothing about the class, the features of neighbours are all that features can be good for, and class
    messages of unlabelled nodes tell nothing: a larger pilot risks little and sees more.
    """
    labels = roles.labels[roles.order]
    shares = np.bincount(labels, minlength=roles.classes) / len(labels)
    entropy = -float((shares * np.log(np.maximum(shares, 1e-12))).sum())
    loss = float(cross_entropies(np.log(np.maximum(roles.p0[roles.order], 1e-12)), labels).mean())
    if loss < CLEAR * entropy:
        return 0.0
    return SHARE if loss < TELLING * entropy else LARGER_SHARE


@dataclass(frozen=True, eq=False)
class Pilot:
    """What the pilot released, and what is public about its senders.

    Args:
        counts: [n, C M], noisy; symbol j M + m: class j, code m.
        senders: the first nodes of the order.
        message: [n], symbols.
        codes: M.
        class_given_code: [M, C], of labelled nodes.
    """

    counts: np.ndarray
    senders: np.ndarray
    message: np.ndarray
    codes: int
    class_given_code: np.ndarray

    @classmethod
    def ask(cls, noisy_counts: NoisyCounts, roles: VoteRoles, code: np.ndarray, codes: int, share: float) -> Pilot:
        """Let a share of the labelled nodes send to all that receive. ``code``: [n], of ``codes`` ones."""
        C, M = roles.classes, codes
        # shares are rounded: a calibration node must not be one of them, because who has sent receives nothing more
        free = len(roles.order) - len(roles.calibration)
        senders = roles.order[: min(round(share * len(roles.order)), free)]
        new = np.zeros(roles.nodes, dtype=bool)
        new[senders] = True
        message = np.where(new, roles.labels * M + code, 0)
        rank = np.zeros(roles.nodes)
        counts = noisy_counts.ask(new, rank, message, roles.receives, C * M)
        together = np.zeros((M, C))
        np.add.at(together, (code[roles.order], roles.labels[roles.order]), 1)
        given = (together + 0.1) / (together + 0.1).sum(axis=1, keepdims=True)
        return cls(counts, senders, message, M, given)

    @property
    def class_counts(self) -> np.ndarray:
        """Votes by class; the noise of M entries adds up. [n, C]"""
        return self.counts.reshape(len(self.counts), -1, self.codes).sum(axis=2)

    @property
    def code_counts(self) -> np.ndarray:
        """[n, M]"""
        return self.counts.reshape(len(self.counts), -1, self.codes).sum(axis=1)

    def rates_by_class(self, rates: np.ndarray, roles: VoteRoles, class_sizes: np.ndarray) -> np.ndarray:
        """If a neighbour's class alone decides: B X, with X[j, s] the senders of class j that send s. [C, C] -> [C, C M]

        ``rates``: B, votes of class c for a node of class k if ``class_sizes`` nodes vote.
        """
        sent = self.message[self.senders]
        return rates @ voters(
            np.eye(roles.classes)[roles.labels[self.senders]], sent, class_sizes, self.counts.shape[1]
        )

    def rates_by_code(self, rates: np.ndarray, share: float) -> np.ndarray:
        """If a neighbour's code alone decides: messages of code m divide among the classes of its senders. [C, M] -> [C, C M]

        ``rates``: messages of code m for a node of class k if all nodes send; ``share``: that of the pilot's senders among them.
        """
        divided = share * rates[:, :, None] * self.class_given_code  # [C, M, C]
        return divided.transpose(0, 2, 1).reshape(len(rates), -1)

    def prefers_code(self, roles: VoteRoles, budget: VoteBudget) -> bool:
        """Whether codes tell calibration nodes more about their classes than classes do, by more than one standard error.

        The standard error is that of the jackknife over groups of calibration nodes.
        """
        cal, classes = roles.calibration, roles.classes
        if len(cal) < 2 * GROUPS:
            return False
        labels, codes, votes = roles.labels[cal], self.code_counts[cal], self.class_counts[cal]

        def information(counts: np.ndarray, rows: np.ndarray) -> float:
            entries = self.counts.shape[1] / counts.shape[1]  # of the pilot, that add up to one count
            return message_information(counts[rows], labels[rows], classes, (entries - 1) * budget.noise_variance)

        def gain(rows: np.ndarray) -> float:
            return information(codes, rows) - information(votes, rows)

        group = np.arange(len(cal)) % GROUPS  # the order is random
        without = np.array([gain(group != k) for k in range(GROUPS)])
        error = np.sqrt((GROUPS - 1) * without.var())
        return gain(np.ones(len(cal), dtype=bool)) > float(error)

    def log_likelihood(self, model: CountModel, rates: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Of what the pilot released about ``nodes``. rates: [C, C M] -> [nodes, C, T]"""
        return model.log_likelihood(self.counts[nodes], rates)

    def class_log_likelihood(self, model: CountModel, rates: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """The same if classes alone matter.

        Under little noise sums over codes are as good as the entries, and they scatter as the counts of later rounds do:
        overdispersed counts of symbols would not add up to overdispersed counts of classes.
        """
        variance = self.codes * model.budget.noise_variance
        if variance > QUIET:
            return self.log_likelihood(model, rates, nodes)
        summed = rates.reshape(len(rates), -1, self.codes).sum(axis=2)
        # the noise of a sum is nearly Gaussian; below 0.2 integers would fall between the points of the likelihood's table
        about = CountModel(VoteBudget.gaussian(1 / max(np.sqrt(variance), 0.2)), model.overdispersed)
        votes = self.counts[nodes].reshape(len(nodes), -1, self.codes).sum(axis=2)
        return about.log_likelihood(votes, summed)
