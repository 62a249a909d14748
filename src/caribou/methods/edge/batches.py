"""A later batch of votes: nodes that were there send to arrivals, arrivals among each other; no old pair is asked again.

What the first batch taught (`caribou.models.vote_model.VoteModel`) is used as it is. All choices are made from public values and
released counts, so choosing costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from caribou.graph.arrivals import Grown
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.memory import DOUBLE, require_memory
from caribou.models.count_likelihood import MULTIPLIERS, class_evidence
from caribou.models.heads import Evidence
from caribou.models.vote_model import VoteModel, signal_share, vote_scale


@dataclass(frozen=True)
class BatchRules:
    """The settings of ``votes-edp`` that a batch follows: who votes first, who votes next, and after how many rounds to stop."""

    voter_confidence: float
    round_confidence: float
    max_rounds: int


def decode_batch(
    rules: BatchRules,
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
    n, C, rounds = grown.graph.num_nodes, posterior.shape[1], rules.max_rounds + 1
    require_memory(DOUBLE * n * C * (rounds + 8), f"the answers of up to {rounds} rounds to {n:,} nodes in {C} classes")
    batch = _Batch(rules, grown, prior, learned, posterior, NoisyCounts(grown.graph, C, budget, noise, grown.present))
    known = batch.first_round()
    known = batch.later_rounds(known)
    return softmax(learned.head(known), axis=1), batch.transcript


class _Batch:
    """One batch: the public roles of the nodes and what has been released so far. Rows of `Evidence` are of the arrivals."""

    def __init__(
        self,
        rules: BatchRules,
        grown: Grown,
        prior: np.ndarray,
        learned: VoteModel,
        posterior: np.ndarray,
        noisy_counts: NoisyCounts,
    ) -> None:
        self.rules, self.learned, self.noisy_counts = rules, learned, noisy_counts
        graph = grown.graph
        self.n, self.C = graph.num_nodes, posterior.shape[1]
        self.present, self.arrives = grown.present, ~grown.present
        self.arrivals = np.flatnonzero(self.arrives)
        self.labels = np.full(self.n, -1) if graph.labels is None else np.array(graph.labels)
        self.labelled = np.zeros(self.n, dtype=bool)
        if graph.split is not None:
            self.labelled[graph.split.train] = True
            self.labelled[graph.split.val] = True
        self.log_prior = np.log(np.clip(prior, 1e-4, 1))
        self.p = np.zeros((self.n, self.C))
        self.p[self.present] = posterior
        self._believe(softmax(learned.prior_head(Evidence.of_prior(self.log_prior)), axis=1))
        self.transcript: dict[str, np.ndarray] = {}
        self.joint = np.tile(np.log(learned.multipliers), (len(self.arrivals), self.C, 1))
        self.count_model = learned.count_model(noisy_counts.budget)

    def _believe(self, p: np.ndarray) -> None:
        """Class probabilities of the arrivals; a label that is public is certain."""
        self.p[self.arrivals] = p
        self.p[self.labelled] = np.eye(self.C)[self.labels[self.labelled]]

    def first_round(self) -> Evidence:
        """Labelled nodes, and nodes that are sure of their class, send to the arrivals."""
        sure = self.p.max(axis=1) > self.rules.voter_confidence
        new = self.labelled | sure
        self.waiting = ~new
        counts = self._ask(new, "round_1")
        everybody = np.arange(len(self.arrivals))
        old, own = self._rates(counts, new, everybody)
        more = self._evidence(counts, new, everybody, old, own)
        # the head was fitted on counts of the training nodes' votes: bring these to that measure
        share = float((old + own).sum()) / max(float(self.learned.rates.sum()), 1e-9)
        return Evidence(self.log_prior, more, counts / max(share, 0.25))

    def later_rounds(self, known: Evidence) -> Evidence:
        """Nodes that have become confident send next, until nobody new is confident; then all that is left."""
        for number in range(1, self.rules.max_rounds + 1):
            self._believe(softmax(self.learned.head(known), axis=1))
            receivers = np.flatnonzero(self.waiting[self.arrivals])
            if len(receivers) == 0:
                break
            new, closing = self._newly_confident(number)
            counts = self._ask(new, f"round_{number + 1}")
            self.waiting = self.waiting & ~new
            known = self._updated(known, counts, new, receivers)
            if closing:
                break
        return known

    def _ask(self, new: np.ndarray, name: str) -> np.ndarray:
        """One stage: nodes that were there come before arrivals, the surer before the less sure. Counts of the arrivals."""
        rank = self.arrives + 1 - self.p.max(axis=1)
        counts = self.noisy_counts.ask(new, rank, self.p.argmax(axis=1), self.arrives)[self.arrivals]
        self.transcript[name] = counts
        return counts

    def _newly_confident(self, number: int) -> tuple[np.ndarray, bool]:
        base = float(self.p[self.waiting].mean(axis=0).max())
        new = self.waiting & (self.p.max(axis=1) > base + self.rules.round_confidence * (1 - base))
        closing = not new.any() or number == self.rules.max_rounds
        return (self.waiting, True) if closing else (new, False)

    def _rates(self, counts: np.ndarray, new: np.ndarray, receivers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Votes of nodes that were there, and of arrivals, that a receiver of each class gets: scaled to what came. [C, C] each.

        Arrivals need not have as many edges as the nodes of the fit, which the rates are from.
        """
        message = self.p.argmax(axis=1)
        old, own = (
            self.learned.rates @ self.learned.voters(self.p[who], message[who])
            for who in (new & self.present, new & self.arrives)
        )
        p = self.p[self.arrivals[receivers]]
        expected = p @ old + self._share(new, receivers)[:, None] * (p @ own)
        scale = vote_scale(counts[receivers].astype(np.float64), expected)
        return scale * old, scale * own

    def _share(self, new: np.ndarray, receivers: np.ndarray) -> np.ndarray:
        """Of the votes of arrivals: between two that send in the same round, each sends to the other half of the time."""
        return np.where(new[self.arrivals[receivers]], 0.5, 1.0)

    def _evidence(
        self, counts: np.ndarray, new: np.ndarray, receivers: np.ndarray, old: np.ndarray, own: np.ndarray
    ) -> np.ndarray:
        """What the counts of one round add to the log likelihoods of the classes: Bayes' rule with the known noise. [m, C]"""
        share = self._share(new, receivers)
        L = np.empty((len(receivers), self.C, len(MULTIPLIERS)))
        for half in (0.5, 1.0):
            rows = share == half
            if rows.any():
                L[rows] = self.count_model.log_likelihood(counts[receivers[rows]], old + half * own)
        before = class_evidence(self.joint)
        self.joint[receivers] += L
        return class_evidence(self.joint) - before

    def _updated(self, known: Evidence, counts: np.ndarray, new: np.ndarray, receivers: np.ndarray) -> Evidence:
        more = self._evidence(counts, new, receivers, *self._rates(counts, new, receivers))
        votes = counts[receivers].astype(np.float64)
        extra = np.zeros_like(known.counts)
        extra[receivers] = votes * signal_share(votes, self.noisy_counts.budget.noise_variance)
        return known.plus(more, extra)


def batch_arrays(batch: int, transcript: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The counts of a batch as a saved model names them."""
    return {f"batch_{batch}.{name}": counts for name, counts in transcript.items()}
