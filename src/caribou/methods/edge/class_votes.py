"""Class messages: labelled nodes send first, nodes that have become confident next, round by round.

A first fit and a later batch of a growing graph run the same rounds. In a first fit every node is new. In a batch, nodes that
were there send to arrivals and arrivals to each other, by the rates and the head of the first fit. All choices are made from
public values and released counts, so choosing costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import softmax

from caribou.graph.arrivals import Grown
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.memory import DOUBLE, require_memory
from caribou.methods.edge.pilot import Pilot
from caribou.methods.edge.vote_roles import VoteRoles, fit_counts
from caribou.models.count_likelihood import MULTIPLIERS, CountModel, class_evidence, parts, vote_rates
from caribou.models.heads import Evidence, choose_head_by_folds
from caribou.models.objective import Objective
from caribou.models.progress import tell
from caribou.models.vote_model import VoteModel, signal_share, vote_scale, voters


@dataclass(frozen=True)
class RoundRules:
    """The settings of ``votes-edp`` that rounds follow: who sends first, who sends next, and after how many rounds to stop."""

    voter_confidence: float
    round_confidence: float
    max_rounds: int

    def require_memory_for(self, nodes: int, classes: int, further: int = 8) -> None:
        """Refuse what does not fit into memory. ``further``: columns beside the counts of all rounds."""
        rounds = self.max_rounds + 1
        require_memory(
            DOUBLE * nodes * classes * (rounds + further),
            f"the answers of up to {rounds} rounds to {nodes:,} nodes in {classes} classes",
        )


def decode_classes(
    rules: RoundRules, noisy_counts: NoisyCounts, roles: VoteRoles, pilot: Pilot | None, objective: Objective
) -> tuple[np.ndarray, dict[str, np.ndarray], VoteModel]:
    """Class scores, [n, C], the released counts of every round, [n, C] each, and what they taught.

    Formal guarantee: with the pilot the transcript costs its budget at edge level (docs/privacy.md, Theorem 4).
    """
    first = _FirstRound(rules, noisy_counts, roles, pilot)
    learned = first.fit(first.ask(), objective)
    rounds = _Rounds(rules, noisy_counts, learned, np.ones(roles.nodes, dtype=bool), first.open, first.joint)
    known = rounds.run(first.known)
    return learned.head(known), {"round_1": first.counts, **rounds.transcript}, learned


def decode_class_batch(
    rules: RoundRules,
    grown: Grown,
    prior: np.ndarray,
    learned: VoteModel,
    posterior: np.ndarray,
    budget: VoteBudget,
    noise: NoiseSource,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Class probabilities of the arrivals, [m, C], and the released counts of every round, [m, C] each.

    Formal guarantee: with all earlier batches the result costs budget.event once at edge level, if these were asked with the same
    budget and ``grown`` lists everybody who was there (docs/privacy.md, Theorem 10). ``prior``: class probabilities of the
    arrivals, [m, C]; ``posterior``: released ones of the nodes that were there, in their order, [n - m, C].
    """
    graph, C = grown.graph, posterior.shape[1]
    rules.require_memory_for(graph.num_nodes, C)
    noisy_counts = NoisyCounts(graph, C, budget, noise, grown.present)
    log_prior = np.log(np.clip(prior, 1e-4, 1))
    joint = np.tile(np.log(learned.multipliers), (len(prior), C, 1))
    rounds = _Rounds(rules, noisy_counts, learned, ~grown.present, np.zeros(graph.num_nodes, dtype=bool), joint)
    rounds.p[grown.present] = posterior
    rounds.p[~grown.present] = softmax(learned.prior_head(Evidence.of_prior(log_prior)), axis=1)
    labelled = np.zeros(graph.num_nodes, dtype=bool)
    if graph.split is not None and graph.labels is not None:
        labelled[graph.split.train] = True
        labelled[graph.split.val] = True
        rounds.p[labelled] = np.eye(C)[np.array(graph.labels)[labelled]]  # a label that is public is certain
    sure = rounds.p.max(axis=1) > rules.voter_confidence
    known = rounds.run(rounds.first_of_batch(labelled | sure, log_prior))
    return softmax(learned.head(known), axis=1), rounds.transcript


class _Rounds:
    """Rounds by known rates and a known head. Rows of `Evidence`, of counts and of ``joint`` are of the nodes that are new here.

    Args:
        rules: who sends, and when to stop.
        noisy_counts: asks.
        learned: rates, the distribution of counts, and the head.
        arrives: [n], bool: who is new here; only they receive. In a first fit that is everybody.
        waiting: [n], bool: who has not sent yet.
        joint: [m, C, T], log likelihoods of classes and multipliers of degrees; changed in place.
    """

    def __init__(
        self,
        rules: RoundRules,
        noisy_counts: NoisyCounts,
        learned: VoteModel,
        arrives: np.ndarray,
        waiting: np.ndarray,
        joint: np.ndarray,
    ) -> None:
        self.rules, self.noisy_counts, self.learned = rules, noisy_counts, learned
        self.arrives, self.arrivals, self.waiting, self.joint = arrives, np.flatnonzero(arrives), waiting, joint
        self.count_model = learned.count_model(noisy_counts.budget)
        self.p = np.zeros((len(arrives), joint.shape[1]))
        self.transcript: dict[str, np.ndarray] = {}

    def first_of_batch(self, new: np.ndarray, log_prior: np.ndarray) -> Evidence:
        """Labelled nodes, and nodes that are sure of their class, send to the arrivals."""
        self.waiting = ~new
        counts = self._ask(new, 1)
        everybody = np.arange(len(self.arrivals))
        old, own = self._scaled_rates(counts, new, everybody)
        more = self._evidence(counts, new, everybody, old, own)
        # the head was fitted on counts of the training nodes' votes: bring these to that measure
        share = float((old + own).sum()) / max(float(self.learned.rates.sum()), 1e-9)
        return Evidence(log_prior, more, counts / max(share, 0.25))

    def run(self, known: Evidence) -> Evidence:
        """Nodes that have become confident send next, until nobody new is confident; then all that is left."""
        first_fit = bool(self.arrives.all())
        for number in range(1, self.rules.max_rounds + 1):
            self.p[self.arrivals] = softmax(self.learned.head(known), axis=1)
            receivers = np.flatnonzero(self.waiting[self.arrivals])
            if len(receivers) == 0 and not first_fit:  # a first fit closes with a round in which nobody sends
                break
            new, closing = self._newly_confident(number)
            tell("rounds", number)
            counts = self._ask(new, number + 1)
            self.waiting = self.waiting & ~new
            if len(receivers) > 0:
                known = self._updated(known, counts, new, receivers)
            if closing:
                break
        return known

    def _newly_confident(self, number: int) -> tuple[np.ndarray, bool]:
        if not self.waiting.any():
            return self.waiting, True
        base = float(self.p[self.waiting].mean(axis=0).max())
        new = self.waiting & (self.p.max(axis=1) > base + self.rules.round_confidence * (1 - base))
        closing = not new.any() or number == self.rules.max_rounds
        return (self.waiting, True) if closing else (new, False)

    def _ask(self, new: np.ndarray, number: int) -> np.ndarray:
        """One stage: nodes that were there come before arrivals, the surer before the less sure. Counts of the arrivals."""
        rank = -self.p.max(axis=1)
        rank[~self.arrives] -= 2
        counts = self.noisy_counts.ask(new, rank, self.p.argmax(axis=1), self.arrives)[self.arrivals]
        self.transcript[f"round_{number}"] = counts
        return counts

    def _scaled_rates(
        self, counts: np.ndarray, new: np.ndarray, receivers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Votes of nodes that were there, and of arrivals, that a receiver of each class gets: scaled to what came. [C, C] each.

        Receivers need not have as many edges as the nodes that the rates are from.
        """
        message = self.p.argmax(axis=1)
        old, own = (
            self.learned.rates @ voters(self.p[who], message[who], self.learned.senders)
            for who in (new & ~self.arrives, new & self.arrives)
        )
        p = self.p[self.arrivals[receivers]]
        expected = p @ old + (p @ own) * self._share(new, receivers)[:, None]
        scale = vote_scale(counts[receivers].astype(np.float64), expected)
        return old * scale, own * scale

    def _share(self, new: np.ndarray, receivers: np.ndarray) -> np.ndarray:
        """Of the votes of arrivals: between two that send in the same round, each sends to the other half of the time."""
        return np.where(new[self.arrivals[receivers]], 0.5, 1.0)

    def _evidence(
        self, counts: np.ndarray, new: np.ndarray, receivers: np.ndarray, old: np.ndarray, own: np.ndarray
    ) -> np.ndarray:
        """What the counts of one round add to the log likelihoods of the classes: Bayes' rule with the known noise. [m, C]"""
        more = np.zeros(self.joint.shape[:2])
        for rows in parts(receivers):
            before = class_evidence(self.joint[rows])
            shares = self._share(new, rows)
            for share in (0.5, 1.0):
                some = rows[shares == share]
                if len(some):
                    self.joint[some] += self.count_model.log_likelihood(counts[some], old + share * own)
            more[rows] = class_evidence(self.joint[rows]) - before
        return more

    def _updated(self, known: Evidence, counts: np.ndarray, new: np.ndarray, receivers: np.ndarray) -> Evidence:
        more = self._evidence(counts, new, receivers, *self._scaled_rates(counts, new, receivers))
        votes = counts[receivers].astype(np.float64)
        extra = np.zeros_like(known.counts)
        extra[receivers] = votes * signal_share(votes, self.noisy_counts.budget.noise_variance)
        return known.plus(more, extra)


class _FirstRound:
    """The first round of a first fit: labelled nodes and nodes the encoder is sure of send; rates and head are fitted on it."""

    def __init__(self, rules: RoundRules, noisy_counts: NoisyCounts, roles: VoteRoles, pilot: Pilot | None) -> None:
        self.noisy_counts, self.roles, self.pilot = noisy_counts, roles, pilot
        self.train = roles.order[0 if pilot is None else len(pilot.senders) :]  # the pilot's senders have been asked
        # calibration node number i receives the votes of the training nodes before it
        self.before_calibration = np.arange(len(self.train) - len(roles.calibration), len(self.train))
        self.guess = roles.p0.argmax(axis=1)
        self.knowing = ~roles.labelled & (roles.p0.max(axis=1) > rules.voter_confidence)
        self.open = ~roles.labelled & ~self.knowing
        self.class_sizes = np.maximum(np.bincount(roles.labels[self.train], minlength=roles.classes), 1)

    def ask(self) -> np.ndarray:
        """The noisy counts. [n, C]"""
        roles = self.roles
        rank = np.zeros(roles.nodes)
        rank[self.train] = np.arange(len(self.train))
        rank[self.knowing] = len(self.train) + 1 - roles.p0.max(axis=1)[self.knowing]
        message = np.where(roles.labelled, roles.labels, self.guess)
        new = self.knowing.copy()
        new[self.train] = True
        self.counts = self.noisy_counts.ask(new, rank, message, roles.receives)
        return self.counts

    def fit(self, counts: np.ndarray, objective: Objective) -> VoteModel:
        """Rates, the distribution of counts, and the head; ``joint`` and ``known`` are set for the rounds that follow."""
        roles, cal = self.roles, self.roles.calibration
        rates = self._rates(counts)
        fitted = fit_counts(
            partial(self._likelihood, counts, rates),
            roles,
            self.noisy_counts.budget,
            np.concatenate(list(self._groups().values())),
            objective,
        )
        self.joint = fitted.joint
        # Calibration nodes receive votes only of those before them; their counts are brought to those of an unlabelled node.
        received = np.ones(roles.nodes)
        received[cal] = self.before_calibration / len(self.train)
        votes = counts / np.maximum(received, 0.25)[:, None]
        if self.pilot is not None:
            more = self.pilot.class_counts
            noise = self.pilot.codes * self.noisy_counts.budget.noise_variance  # that of its entries adds up
            votes = votes + more * signal_share(more[roles.receives], noise)
        self.known = Evidence(roles.log_prior, fitted.evidence, votes)
        head, _ = choose_head_by_folds(self.known.rows(cal), roles.labels[cal], roles.prior_head, roles.rng, objective)
        return VoteModel(
            roles.prior_head, rates["labelled"], self.class_sizes, fitted.model.overdispersed, fitted.multipliers, head
        )

    def _rates(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Expected votes per class of receiver and class of vote, of labelled senders and for the three kinds of receiver."""
        C, labels = self.roles.classes, self.roles.labels
        before = np.concatenate([np.zeros((1, C)), np.cumsum(np.eye(C)[labels[self.train]], axis=0)])
        exposure = before[self.before_calibration] / self.class_sizes
        totals = counts[self.open].sum(axis=1)
        inflation = 1 + self.knowing.sum() / len(self.train)
        mean, variance = 0.0, 1e6
        if len(totals) > 1:
            mean, variance = totals.mean() / inflation, totals.var() / len(totals) / inflation**2
        shares = np.bincount(labels[self.train], minlength=C) / len(self.train)
        shares = np.maximum(shares, 1e-6)
        B = vote_rates(counts, self.roles.calibration, labels, exposure, shares, (mean, variance))
        extra = B @ voters(self.roles.p0[self.knowing], self.guess[self.knowing], self.class_sizes)
        return {"labelled": B, "open": B + extra, "knowing": B + extra / 2, "calibration": B * exposure.mean(axis=0)}

    def _groups(self) -> dict[str, np.ndarray]:
        """The receivers."""
        return {
            "open": np.flatnonzero(self.open),
            "knowing": np.flatnonzero(self.knowing),
            "calibration": self.roles.calibration,
        }

    def _likelihood(self, counts: np.ndarray, rates: Mapping[str, np.ndarray], model: CountModel) -> np.ndarray:
        L = np.zeros((self.roles.nodes, self.roles.classes, len(MULTIPLIERS)))
        for group, members in self._groups().items():
            for rows in parts(members):
                L[rows] = model.log_likelihood(counts[rows], rates[group])
                if self.pilot is not None:
                    by_class = self.pilot.rates_by_class(rates["labelled"], self.roles, self.class_sizes)
                    L[rows] += self.pilot.class_log_likelihood(model, by_class, rows)
        return L
