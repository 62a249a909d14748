"""Votes at both units: labelled nodes tell their neighbours what they are, under noise.

``votes-edp``: labelled nodes send first, nodes that have become confident send next, round by round, and every pair is asked
once. All choices (who is confident, rates, head, weights) are made from public values and released counts, so choosing costs
nothing. A first fit and a later batch of a growing graph run the same rounds: in a first fit every node is new, in a batch nodes
that were there send to arrivals and arrivals to each other, by the rates and the head of the first fit. Where a neighbour's
features matter and its class does not, every node sends the code of its features instead; a pilot finds out which of them tells
more.

``votes-ndp``: the labels of neighbours under a node-level guarantee for every graph. Graph-free where votes would not pay.

Every training node (sender) sends its label to all its neighbours outside the training set (receivers); one with more than M
receivers sends the fraction sqrt(M / N) to each. Rows of votes are clipped, Gaussian noise is added to every entry, and the head
adds them to the logits of the private linear model of `mlp-dp`. A public rule, from the budget and *declared* degrees, decides
whether votes are asked at all. Without declared degrees they are not.

Who is protected, and how (PrivacyUnit.NODE; the split, its sizes and the number of classes are public; docs/privacy.md,
Theorem 9):

* A **training node** of degree d is in the Gaussians of the linear model, and moves rows of votes by at most sqrt(min(d, M)).
* A **test node** (and any node in no part of the split) moves its own row, by at most its clip, and the rows of other receivers
  of its senders: a fraction grows when one receiver is gone, at most d of them do.
* A **validation node** pays for the same with a smaller clip, and with what is left of epsilon for the choice of the head's
  weight beta by the exponential mechanism. Given the noisy rows, it adds 0 or 1 to every candidate's count of correct answers.
* Noise and clips are calibrated so that each of the three keeps the budget up to the declared degree d*. What a node of any
  other degree pays follows from public numbers; the certificate lists it.
* Released are weights, mean, noisy rows of all n nodes and beta. Predictions: as in `mlp-dp`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from caribou._validate import MAX_ROUNDS, MAX_WIDTH, integer, non_negative, one_of, open_unit_interval
from caribou.errors import InputError
from caribou.machine.deferred import deferred_imports
from caribou.machine.memory import DOUBLE, require_memory
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.node_votes import VotePlan, release_votes, vote_evidence, vote_sums, votes_pay
from caribou.methods.edge_method import KEPT, EdgeMethod
from caribou.methods.mlp import MlpDp, applied, base_model
from caribou.methods.node_method import NodeMethod
from caribou.models.count_likelihood import (
    JACKKNIFE_GROUPS,
    MULTIPLIERS,
    CountModel,
    class_evidence,
    jackknifed_gain,
    multiplier_weights,
    parts,
    symbol_rates,
    vote_rates,
)
from caribou.models.fit_context import one_thread, tell
from caribou.models.objective import Objective, cross_entropies
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedVotes, budget_mu, calibrate_votes, remaining_epsilon
from caribou.privacy.mechanism_records import (
    ChoiceRecord,
    EdgeVotesRecord,
    Group,
    NodeVotesRecord,
    groups_of,
)
from caribou.privacy.plan import Link, ReleaseKind, ReleasePlan
from caribou.privacy.sizes import Sizes

with deferred_imports():
    import numpy as np
    from scipy.special import softmax

    from caribou.graph import Graph
    from caribou.graph.arrivals import Grown
    from caribou.mechanisms.exponential import choose
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.methods.base import Arrays, Outputs, Weights
    from caribou.models.class_prior import class_probabilities, probabilities_by
    from caribou.models.feature_codes import FeatureCodes
    from caribou.models.heads import (
        Evidence,
        Head,
        choose_head_by_folds,
        fit_prior_head,
    )
    from caribou.models.vote_model import VoteModel, signal_share, vote_scale, voters
    from caribou.randomness import Streams

# -- edge level: settings, plan, fit -------------------------------------------------------------------------------

SYMBOLS = 128
"""Classes times codes, at most: more would make counts of one symbol rare."""


@dataclass(frozen=True)
class VotesEdge(EdgeMethod):
    """The method ``votes-edp``. One default serves short-range and long-range graphs.

    ``voter_confidence``: unlabelled nodes vote in the first round if the encoder is this sure of them. ``round_confidence``: a
    node votes in a later round once its posterior has closed this share of the gap between guessing and certainty.
    ``max_rounds``: stop after so many. ``calibration``: share of the training nodes that receive votes, to fit the head.
    ``noise``: discrete_laplace (pure epsilon, delta unused) or gaussian (the mu-GDP that the budget buys). ``metric``: what
    chooses the checkpoints of the prior and, out of fold on calibration nodes, the head and whether later rounds are kept
    (None: accuracy and cross-entropy).
    ``class_weight``: "balanced" gives every class the same weight in the losses, None every node.
    ``alphabet``: what nodes say: their "class", or the "code" of their features; "auto" lets a pilot say both, and takes what
    tells its neighbours more. ``pilot``: the share of the labelled nodes in it (None: 0.1, and none where own features tell
    most of the class). ``codes``: how many codes there are at most.

    Formal guarantee: the transcript is budget.epsilon-DP at edge level, with Gaussian noise (budget.epsilon, budget.delta)-DP
    (docs/privacy.md, Theorem 4); everything else is computed from it and from public values.

    >>> VotesEdge(max_rounds=10).plan(Sizes(nodes=100, columns=8, classes=3, train=60), Budget(2)).cost
    (EpsilonDelta(epsilon=2.0, delta=0.0),)
    """

    voter_confidence: float = 0.97
    round_confidence: float = 0.4
    max_rounds: int = 60
    calibration: float = 0.5
    noise: str = "discrete_laplace"
    alphabet: str = "auto"
    pilot: float | None = None
    codes: int = 8
    name: ClassVar[str] = "votes-edp"

    def __post_init__(self) -> None:
        super().__post_init__()
        open_unit_interval(voter_confidence=self.voter_confidence)
        open_unit_interval(round_confidence=self.round_confidence)
        integer(at_least=1, at_most=MAX_ROUNDS, max_rounds=self.max_rounds)
        open_unit_interval(calibration=self.calibration)
        one_of(("discrete_laplace", "gaussian"), noise=self.noise)
        one_of(("auto", "class", "code"), alphabet=self.alphabet)
        if self.pilot is not None and open_unit_interval(pilot=self.pilot) > 1 - self.calibration:
            raise InputError(f"pilot must be in (0, 1 - calibration = {1 - self.calibration:g}], got {self.pilot!r}")
        integer(at_least=2, at_most=MAX_WIDTH, codes=self.codes)

    def pilot_share(self, roles: VoteRoles, budget: VoteBudget) -> float:
        """The share of the labelled nodes in the pilot. A public rule: under loud noise a pilot would tell nothing."""
        if self.alphabet != "auto" or budget.noise_variance > LOUDEST:
            return 0.0
        return min(pilot_share(roles) if self.pilot is None else self.pilot, 1 - self.calibration)

    def most_codes(self, classes: int) -> int:
        """How many codes there are at most. Public."""
        return max(2, min(self.codes, SYMBOLS // classes))

    def require_memory_for(self, sizes: Sizes) -> None:
        """Refuse what does not fit into memory."""
        rounds, n, C = self.max_rounds + 1, sizes.nodes, sizes.classes
        needed = DOUBLE * n * C * (rounds + 8 + self.most_codes(C))
        require_memory(needed, f"the answers of up to {rounds} rounds to {n:,} nodes in {C} classes")

    def vote_budget(self, budget: Budget) -> VoteBudget:
        """What the votes may spend if the whole budget is theirs."""
        return (
            VoteBudget(budget.epsilon) if self.noise == "discrete_laplace" else VoteBudget.gaussian(budget_mu(budget))
        )

    def release_plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """The whole transcript, whatever its number of rounds."""
        votes = self.vote_budget(budget)
        return ReleasePlan(
            budget,
            (EdgeVotesRecord(epsilon=votes.epsilon, mu=votes.mu),),
            released=(
                "the counts of every stage (pilot, rounds or codes) and everything computed from them",
                "class probabilities of every node",
                KEPT,
            ),
            public_parameters={"nodes": sizes.nodes, "classes": sizes.classes, **self.settings()},
            parts={"votes": votes},
        )

    @one_thread()
    def encoded(self, plan: ReleasePlan, graph: Graph, streams: Streams, weights: Weights = None) -> VoteStart:
        """What is known before an edge is read."""
        prior, arrays = class_probabilities(graph, streams, self.objective, weights)
        return replace(VoteStart.of(self, graph, prior, plan.parts["votes"], streams), arrays=arrays)

    @one_thread()
    def run(
        self, plan: ReleasePlan, graph: Graph, public: VoteStart, streams: Streams, noise: NoiseSource, weights: Weights
    ) -> Outputs:
        """Ask in rounds, and combine prior and votes."""
        decoded = run_rounds(self, graph, public, plan.parts["votes"], noise)
        released = {**decoded.transcript, "probabilities": decoded.probabilities}
        return Outputs(decoded.probabilities, released, {**public.arrays, **decoded.learned.to_arrays()})

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Weights) -> ReleasePlan:
        """A transcript about another graph. Its labelled nodes are needed: they send, and rates and head are learned on them."""
        require_labelled(sizes)
        return super().plan_graph(sizes, budget, weights)

    def plan_batch(self, sizes: Sizes, budget: Budget, link: Link | None, batch: int) -> ReleasePlan:
        """The transcript of a later batch of a growing graph; ``link``: the release that pays for it, None if it pays itself."""
        assumptions = () if link is None else (link.assumption(batch),)
        return replace(self._planned(sizes, budget, ReleaseKind.BATCH), batch=batch, assumptions=assumptions)

    @one_thread()
    def prepare_batch(self, weights: Arrays, grown: Grown) -> VotesEdge:
        """A copy that holds what public values tell about the arrivals, for `extend`."""
        self.require_memory_for(grown.graph.sizes(PrivacyUnit.EDGE))
        ready = copy(self)
        object.__setattr__(ready, "_ready", (grown.graph, Batch.of(grown, weights)))
        return ready

    @one_thread()
    def extend(self, plan: ReleasePlan, weights: Arrays, released: Arrays, grown: Grown, noise: NoiseSource) -> Outputs:
        """Ask the pairs of arrivals. Rows of nodes that were there stay as they were released: nothing is asked about them."""
        before = released["probabilities"]
        batch: Batch = self.made_before(grown.graph, lambda: Batch.of(grown, weights))
        decoded = batch.decode(self, before, plan.parts["votes"], noise)
        probabilities = np.concatenate([before, decoded.probabilities])
        counts = {f"batch_{grown.batch}.{name}": array for name, array in decoded.transcript.items()}
        return Outputs(probabilities, {**released, **counts, "probabilities": probabilities}, weights)


def require_labelled(sizes: Sizes) -> None:
    """Votes learn from labelled nodes of the graph at hand."""
    if sizes.train == 0:
        raise InputError(
            "graph must have labelled training nodes, which vote, got none; caribou-edp can predict a graph without labels"
        )


@dataclass(frozen=True, eq=False)
class Decoded:
    """What the rounds give: class scores [n, C] (logits), the released counts of every round, and what votes taught."""

    scores: np.ndarray
    transcript: Arrays
    learned: VoteModel

    @property
    def probabilities(self) -> np.ndarray:
        """softmax of the scores."""
        return np.asarray(softmax(self.scores, axis=1))


@dataclass(frozen=True, eq=False)
class VoteStart:
    """All that is known before an edge is read. The prior must be public or already paid for.

    Args:
        roles: of the nodes.
        share: of the labelled nodes in the pilot.
        codes: of features, where nodes may send them.
        code: [n], of every node.
        arrays: what the prior is computed with.
    """

    roles: VoteRoles
    share: float = 0.0
    codes: FeatureCodes | None = None
    code: np.ndarray | None = None
    arrays: Arrays = field(default_factory=dict)

    @classmethod
    def of(
        cls, settings: VotesEdge, graph: Graph, prior: np.ndarray, budget: VoteBudget, streams: Streams
    ) -> VoteStart:
        """``prior``: class probabilities of every node, [n, C]; those of a labelled node must not know its own label."""
        roles = VoteRoles.of(graph, prior, settings.calibration, settings.objective, streams.generator("votes"))
        share = settings.pilot_share(roles, budget)
        if settings.alphabet != "code" and share == 0:
            return cls(roles)
        codes = FeatureCodes.of(graph.features, settings.most_codes(graph.num_classes), streams.generator("codes"))
        return cls(roles, share if codes.count > 1 else 0.0, codes, codes(graph.features))


def run_rounds(settings: VotesEdge, graph: Graph, start: VoteStart, budget: VoteBudget, noise: NoiseSource) -> Decoded:
    """Ask in rounds under a budget of their own, e.g. a part of a composed one (then `VoteBudget.gaussian`).

    Formal guarantee: everything in the result is computed from public values, the prior and a transcript that costs
    budget.event at edge level (docs/privacy.md, Theorem 4).
    """
    roles = replace(start.roles, rng=deepcopy(start.roles.rng))  # a start may be used again
    noisy_counts = NoisyCounts(graph, graph.num_classes, budget, noise)
    codes, code = start.codes, start.code
    if codes is None or code is None:
        return decode_classes(settings, noisy_counts, roles, None)
    pilot = Pilot.ask(noisy_counts, roles, code, codes.count, start.share) if start.share > 0 else None
    if settings.alphabet == "code" or (pilot is not None and pilot.prefers_code(roles, budget)):
        decoded = decode_codes(noisy_counts, roles, codes, code, pilot)
    else:
        decoded = decode_classes(settings, noisy_counts, roles, pilot)
    asked = {} if pilot is None else {"pilot": pilot.counts}
    return replace(decoded, transcript={**asked, **decoded.transcript})


# -- what both alphabets begin and end with: public roles of the nodes, and the distribution of their counts --------------

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
        objective: what heads are chosen by.
    """

    labels: np.ndarray
    order: np.ndarray
    calibration: np.ndarray
    log_prior: np.ndarray
    prior_head: Head
    p0: np.ndarray
    rng: np.random.Generator
    objective: Objective

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
        return cls(labels, order, last, log_prior, head, p0, rng, objective)

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

    def head(self, known: Evidence) -> Head:
        """The best head on what is known about every node, chosen out of fold on calibration nodes."""
        cal = self.calibration
        head, _ = choose_head_by_folds(known.rows(cal), self.labels[cal], self.prior_head, self.rng, self.objective)
        return head


def fit_multipliers(joint: np.ndarray, roles: VoteRoles, receivers: np.ndarray) -> np.ndarray:
    """The distribution of the degree multiplier, [T], which is added to the log likelihoods, [n, C, T]: Bayes' rule.

    In place, because they are the largest array of a fit.
    """
    some = receivers[:: max(1, len(receivers) // EM_NODES)]
    multipliers = multiplier_weights(joint[some], roles.class_weights()[some])
    joint += np.log(multipliers)
    return multipliers


# -- the pilot -----------------------------------------------------------------------------------------------------

LOUDEST = 0.5
"""Largest variance of the noise of a count at which a pilot is asked (epsilon of 1.75 and more): below, it would tell nothing."""
PILOT_SHARE = 0.1
"""The share of the labelled nodes that are the pilot's senders."""
CLEAR = 0.6
"""Own features tell most of the class if the prior has less than so much of the classes' entropy."""


def pilot_share(roles: VoteRoles) -> float:
    """The share of the labelled nodes that are the pilot's senders, 0 if there is none to be asked. Public.

    Where own features tell most of the class, a class says about a node what its features would say, and more.
    """
    labels = roles.labels[roles.order]
    shares = np.bincount(labels, minlength=roles.classes) / len(labels)
    entropy = -float((shares * np.log(np.maximum(shares, 1e-12))).sum())
    loss = float(cross_entropies(np.log(np.maximum(roles.p0[roles.order], 1e-12)), labels).mean())
    return 0.0 if loss < CLEAR * entropy else PILOT_SHARE


@dataclass(frozen=True, eq=False)
class Pilot:
    """A few labelled nodes send class and feature code in one symbol, so that the release tells which of them matters.

    Each pair is asked once, so what nodes say must be chosen before they are asked. The pairs of the pilot are disjoint from
    all others (its senders never send again), so it costs nothing more, and what it released is used whatever is chosen.

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
        """Whether codes tell calibration nodes more about their classes than classes do, by more than one standard error."""
        cal, classes = roles.calibration, roles.classes
        if len(cal) < 2 * JACKKNIFE_GROUPS:
            return False
        C, M, noise = classes, self.codes, budget.noise_variance  # of so many entries that add up to one count
        gain, error = jackknifed_gain(
            self.code_counts[cal],
            self.class_counts[cal],
            roles.labels[cal],
            classes,
            ((C - 1) * noise, (M - 1) * noise),
        )
        return gain > error

    def log_likelihood(self, model: CountModel, rates: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Of what the pilot released about ``nodes``. rates: [C, C M] -> [nodes, C, T]"""
        return model.log_likelihood(self.counts[nodes], rates)


# -- class messages ------------------------------------------------------------------------------------------------


def decode_classes(settings: VotesEdge, noisy_counts: NoisyCounts, roles: VoteRoles, pilot: Pilot | None) -> Decoded:
    """Class messages: labelled nodes send first, nodes that have become confident next, round by round.

    Formal guarantee: with the pilot the transcript costs its budget at edge level (docs/privacy.md, Theorem 4).
    """
    first = _FirstRound(settings, noisy_counts, roles, pilot)
    learned = first.fit(first.ask())
    rounds = _Rounds(settings, noisy_counts, learned, np.ones(roles.nodes, dtype=bool), first.open, first.joint)
    known = rounds.run(first.known)
    return Decoded(learned.head(known), {"round_1": first.counts, **rounds.transcript}, learned)


class _Rounds:
    """Rounds by known rates and a known head. Rows of `Evidence`, of counts and of ``joint`` are of the nodes that are new here.

    Args:
        settings: who sends, and when to stop.
        noisy_counts: asks.
        learned: rates, the distribution of counts, and the head.
        arrives: [n], bool: who is new here; only they receive. In a first fit that is everybody.
        waiting: [n], bool: who has not sent yet.
        joint: [m, C, T], log likelihoods of classes and multipliers of degrees; changed in place.
    """

    def __init__(
        self,
        settings: VotesEdge,
        noisy_counts: NoisyCounts,
        learned: VoteModel,
        arrives: np.ndarray,
        waiting: np.ndarray,
        joint: np.ndarray,
    ) -> None:
        self.settings, self.noisy_counts, self.learned = settings, noisy_counts, learned
        self.arrives, self.arrivals, self.waiting, self.joint = arrives, np.flatnonzero(arrives), waiting, joint
        self.count_model = CountModel(noisy_counts.budget)
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
        for number in range(1, self.settings.max_rounds + 1):
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
        new = self.waiting & (self.p.max(axis=1) > base + self.settings.round_confidence * (1 - base))
        closing = not new.any() or number == self.settings.max_rounds
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

    def __init__(self, settings: VotesEdge, noisy_counts: NoisyCounts, roles: VoteRoles, pilot: Pilot | None) -> None:
        self.noisy_counts, self.roles, self.pilot = noisy_counts, roles, pilot
        self.train = roles.order[0 if pilot is None else len(pilot.senders) :]  # the pilot's senders have been asked
        # calibration node number i receives the votes of the training nodes before it
        self.before_calibration = np.arange(len(self.train) - len(roles.calibration), len(self.train))
        self.guess = roles.p0.argmax(axis=1)
        self.knowing = ~roles.labelled & (roles.p0.max(axis=1) > settings.voter_confidence)
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

    def fit(self, counts: np.ndarray) -> VoteModel:
        """Rates, the distribution of counts, and the head; ``joint`` and ``known`` are set for the rounds that follow."""
        roles, cal = self.roles, self.roles.calibration
        rates = self._rates(counts)
        self.joint = self._likelihood(counts, rates)
        multipliers = fit_multipliers(self.joint, roles, np.concatenate(list(self._groups().values())))
        # Calibration nodes receive votes only of those before them; their counts are brought to those of an unlabelled node.
        received = np.ones(roles.nodes)
        received[cal] = self.before_calibration / len(self.train)
        votes = counts / np.maximum(received, 0.25)[:, None]
        if self.pilot is not None:
            more = self.pilot.class_counts
            noise = self.pilot.codes * self.noisy_counts.budget.noise_variance  # that of its entries adds up
            votes = votes + more * signal_share(more[roles.receives], noise)
        self.known = Evidence(roles.log_prior, class_evidence(self.joint), votes)
        head = roles.head(self.known)
        return VoteModel(roles.prior_head, rates["labelled"], self.class_sizes, multipliers, head)

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

    def _likelihood(self, counts: np.ndarray, rates: Arrays) -> np.ndarray:
        model = CountModel(self.noisy_counts.budget)
        L = np.zeros((self.roles.nodes, self.roles.classes, len(MULTIPLIERS)))
        for group, members in self._groups().items():
            for rows in parts(members):
                L[rows] = model.log_likelihood(counts[rows], rates[group])
                if self.pilot is not None:
                    by_class = self.pilot.rates_by_class(rates["labelled"], self.roles, self.class_sizes)
                    L[rows] += self.pilot.log_likelihood(model, by_class, rows)
        return L


# -- messages of feature codes -------------------------------------------------------------------------------------

EXPOSURE_GROUPS = 10
"""Receivers are grouped by the share of senders before them; a group shares its rates."""


def decode_codes(
    noisy_counts: NoisyCounts, roles: VoteRoles, codes: FeatureCodes, code: np.ndarray, pilot: Pilot | None
) -> Decoded:
    """Every node sends the code of its public features, labelled or not, in one stage. ``code``: [n], of every node.

    Formal guarantee: with the pilot the transcript costs its budget at edge level (docs/privacy.md, Theorem 4).
    """
    model, new = CountModel(noisy_counts.budget), np.ones(roles.nodes, dtype=bool)
    if pilot is not None:
        new[pilot.senders] = False
    rank = _rank(roles)
    counts = noisy_counts.ask(new, rank, code, roles.receives, codes.count)
    before = np.concatenate([[0], np.cumsum(new[np.argsort(rank)])])[rank]
    exposure = before / max(int(new.sum()), 1)
    cal, receivers = roles.calibration, np.flatnonzero(roles.receives)
    rates = symbol_rates(counts[cal], roles.labels[cal], exposure[cal], roles.classes)

    L = code_likelihood(model, counts, rates, exposure)
    if pilot is not None:
        by_code = pilot.rates_by_code(rates, len(pilot.senders) / max(int(new.sum()), 1))
        for rows in parts(receivers):
            L[rows] += pilot.log_likelihood(model, by_code, rows)
    multipliers = fit_multipliers(L, roles, receivers)
    no_votes = np.zeros_like(roles.log_prior)
    known = Evidence(roles.log_prior, class_evidence(L), no_votes, code_columns(counts, exposure))
    head, senders = roles.head(known), np.array([new.sum()])
    learned = VoteModel(roles.prior_head, rates, senders, multipliers, head, codes)
    return Decoded(head(known), {"codes": counts}, learned)


def _rank(roles: VoteRoles) -> np.ndarray:
    """Labelled nodes in their order, then the others at random: those that are to be predicted receive most. [n]"""
    rank = np.empty(roles.nodes, dtype=np.int64)
    rank[roles.order] = np.arange(len(roles.order))
    others = np.flatnonzero(~roles.labelled)
    rank[others] = len(roles.order) + roles.rng.permutation(len(others))
    return rank


def code_likelihood(model: CountModel, counts: np.ndarray, rates: np.ndarray, exposure: np.ndarray) -> np.ndarray:
    """Log likelihoods of noisy code counts of nodes that received from a share of all senders. -> [n, C, T]

    Args:
        model: the distribution of a count.
        counts: [n, M].
        rates: [C, M], if all send.
        exposure: [n], the share.
    """
    group = np.clip(
        (exposure / max(float(exposure.max(initial=0)), 1e-9) * EXPOSURE_GROUPS).astype(int), 0, EXPOSURE_GROUPS - 1
    )
    L = np.zeros((len(counts), len(rates), len(MULTIPLIERS)))
    for k in range(EXPOSURE_GROUPS):
        rows = group == k
        if rows.any():
            L[rows] = model.log_likelihood(counts[rows], rates * exposure[rows].mean())
    return L


def code_columns(counts: np.ndarray, exposure: np.ndarray) -> np.ndarray:
    """Counts brought to what all senders would have sent, as a head takes them. [n, M], [n] -> [n, M]"""
    return counts / np.maximum(exposure, 0.25)[:, None]


# -- a later batch of a growing graph ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Batch:
    """Arrivals, what public values tell about them, and what the first fit learned.

    Args:
        grown: everybody who was ever there.
        learned: rates and heads.
        prior: [m, C], log probabilities of the arrivals.
        code: [n], what every node sends; None: its class.
    """

    grown: Grown
    learned: VoteModel
    prior: np.ndarray
    code: np.ndarray | None

    @classmethod
    def of(cls, grown: Grown, weights: Arrays) -> Batch:
        """By fitted weights."""
        learned, graph = VoteModel.from_arrays(weights), grown.graph
        prior = probabilities_by(weights, graph)[~grown.present]
        code = None if learned.codes is None else learned.codes(graph.features)
        return cls(grown, learned, np.log(np.clip(prior, 1e-4, 1)), code)

    @property
    def p0(self) -> np.ndarray:
        """The calibrated prior. [m, C]"""
        return np.asarray(softmax(self.learned.prior_head(Evidence.of_prior(self.prior)), axis=1))

    def decode(self, settings: VotesEdge, posterior: np.ndarray, budget: VoteBudget, noise: NoiseSource) -> Decoded:
        """Class scores of the arrivals, [m, C], and the released counts, [m, S] each.

        Formal guarantee: with all earlier batches the result costs budget.event once at edge level, if these were asked with
        the same budget and ``grown`` lists everybody who was there (docs/privacy.md, Theorem 10). ``posterior``: released
        class probabilities of the nodes that were there, in their order, [n - m, C].
        """
        noisy_counts = NoisyCounts(self.grown.graph, self.prior.shape[1], budget, noise, self.grown.present)
        if self.code is None:
            return self._classes(settings, noisy_counts, posterior)
        return self._codes(noisy_counts, self.code)

    def _classes(self, settings: VotesEdge, noisy_counts: NoisyCounts, posterior: np.ndarray) -> Decoded:
        """Nodes that were there send to arrivals, and arrivals to each other, round by round."""
        graph, present, learned, (m, C) = self.grown.graph, self.grown.present, self.learned, self.prior.shape
        joint = np.tile(np.log(learned.multipliers), (m, C, 1))
        nobody = np.zeros(graph.num_nodes, dtype=bool)
        rounds = _Rounds(settings, noisy_counts, learned, ~present, nobody, joint)
        rounds.p[present], rounds.p[~present] = posterior, self.p0
        labelled = nobody.copy()
        if graph.split is not None and graph.labels is not None:
            labelled[graph.split.train] = True
            labelled[graph.split.val] = True
            rounds.p[labelled] = np.eye(C)[np.array(graph.labels)[labelled]]  # a label that is public is certain
        sure = rounds.p.max(axis=1) > settings.voter_confidence
        known = rounds.run(rounds.first_of_batch(labelled | sure, self.prior))
        return Decoded(learned.head(known), rounds.transcript, learned)

    def _codes(self, noisy_counts: NoisyCounts, code: np.ndarray) -> Decoded:
        """Everybody sends once, and arrivals receive."""
        learned, arrives = self.learned, np.flatnonzero(~self.grown.present)
        n, m = len(code), len(arrives)
        rank = np.zeros(n)
        rank[arrives] = 1 + np.arange(m)
        everybody, symbols = np.ones(n, dtype=bool), learned.rates.shape[1]
        counts = noisy_counts.ask(everybody, rank, code, ~self.grown.present, symbols)[arrives]
        exposure = (n - m + np.arange(m)) / int(learned.senders[0])
        # arrivals need not have as many edges as the nodes of the fit, which the rates are from
        scale = vote_scale(counts.astype(np.float64), (self.p0 @ learned.rates) * exposure[:, None])
        L = code_likelihood(CountModel(noisy_counts.budget), counts, scale * learned.rates, exposure)
        evidence = class_evidence(L + np.log(learned.multipliers))
        columns = code_columns(counts, exposure) / max(scale, 0.25)
        known = Evidence(self.prior, evidence, np.zeros_like(self.prior), columns)
        return Decoded(learned.head(known), {"codes": counts}, learned)


# -- node level ----------------------------------------------------------------------------------------------------

WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5)
"""The head's candidates for beta; 0 ignores the votes."""
DEFAULT_WEIGHT = 4
VOTES_SHARE = 0.3
"""What votes get of a training node's mu^2, if they are asked."""
VALIDATION_SHARE = 0.8
"""What the votes get of a validation node's mu^2; the rest is left for the choice of beta."""


def vote_plan(value: Any) -> VotePlan | None:
    """A plan, or one from its settings by name (from the command line or a saved run)."""
    if value is None or isinstance(value, VotePlan):
        return value
    if isinstance(value, Mapping) and set(value) == {"receivers_per_sender", "share"}:
        return VotePlan(**value)
    raise InputError(f"votes must have receivers_per_sender and share and nothing else, got {value!r}")


@dataclass(frozen=True)
class VotesNdp(NodeMethod):
    """Public settings of ``votes-ndp``.

    ``declared_degree``: the degree d* up to which a node gets the headline epsilon; ``declared_average_degree``: what the
    curator declares about a typical node. Both are declared, never measured; without the first no vote is asked, without the
    second only if ``votes`` says so. ``votes``: overrides the rule. ``weight``: beta of the head; None = chosen on validation
    nodes. ``base``: the model under the votes, or its settings by name.

    >>> from caribou.datasets import load
    >>> from caribou.methods import fit
    >>> method = VotesNdp(declared_degree=30, declared_average_degree=20)
    >>> fitted = fit(method, load("csbm:nodes=200", seed=0), Budget(16, 1e-5, "node"), Streams(0))
    >>> sorted(fitted.released), fitted.certificate.status, fitted.certificate.scope.limit
    (['evidence', 'votes'], 'private by degree', 30)
    """

    declared_degree: int | None = None
    declared_average_degree: float | None = None
    votes: VotePlan | None = None
    weight: float | None = None
    base: MlpDp = field(default_factory=MlpDp)
    name: ClassVar[str] = "votes-ndp"

    def __post_init__(self) -> None:
        object.__setattr__(self, "votes", vote_plan(self.votes))
        object.__setattr__(self, "base", base_model(self.base))
        if self.declared_degree is not None:
            integer(at_least=1, declared_degree=self.declared_degree)
        if self.declared_average_degree is not None:
            non_negative(declared_average_degree=self.declared_average_degree)
        if (self.declared_average_degree or 0) > (self.declared_degree or math.inf):
            raise InputError(
                f"declared_average_degree must be at most declared_degree = {self.declared_degree}, "
                f"got {self.declared_average_degree}"
            )
        if self.votes is not None and self.declared_degree is None:
            raise InputError(
                "declared_degree must be given where votes are asked (the degree up to which epsilon holds), got None"
            )
        if self.weight is not None:
            non_negative(weight=self.weight)

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """The Gaussians of the model and the votes, or only the former where the switch says so.

        Every group keeps the budget up to the declared degree.
        """
        mu = self.mu_of(budget)
        asked = self.plan_votes(budget)
        if asked is None:
            alone = self.base.plan(sizes, budget)
            return replace(alone, method=self.name, public_parameters=self.public(sizes))
        votes = self._calibrate(
            sizes,
            asked,
            sender_mu=math.sqrt(asked.share) * mu,
            receiver_mu=mu,
            validation_mu=mu * (math.sqrt(VALIDATION_SHARE) if self.weight is None else 1),
        )
        base = self.base.plan_base(sizes, math.sqrt(1 - asked.share) * mu * (1 - 2.0**-40))
        parts: dict[str, Any] = {"base": base, "votes": votes}
        records = (*base.records, NodeVotesRecord(calibrated=votes))
        if self.weight is None:
            paid = groups_of(records)[Group.VALIDATION]
            parts["choice"] = remaining_epsilon(paid, budget)
            chosen = ChoiceRecord(name="choice of the weight", epsilon=parts["choice"], candidates=len(WEIGHTS))
            records = (*records, chosen)
        released = (*base.released, "noisy votes of all nodes", "weight beta")
        return self.planned(sizes, budget, ReleaseKind.FIT, records, released, parts)

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Train the linear model and ask the votes, or only the former where the switch says so.

        Formal guarantee: (epsilon, delta)-DP at node level for everything in ``released`` and ``weights``, in every graph, for
        nodes up to the declared degree; for the others by the curve of the certificate.
        """
        if "votes" not in plan.parts:
            return self.base.fit(plan, graph, streams, noise)
        split, labels = graph.for_learning()
        base = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        logits = base.logits()
        released = self._votes(plan, graph, noise)
        weight = self.weight
        if weight is None:
            chosen = choose(
                [logits[split.val] + beta * released["evidence"][split.val] for beta in WEIGHTS],
                labels[split.val],
                declared=split.declared[1],
                epsilon=plan.parts["choice"],
                noise=noise.stream("choice"),
                default=DEFAULT_WEIGHT,
            )
            weight = WEIGHTS[chosen]
        probabilities = softmax(logits + weight * released["evidence"], axis=1)
        weights = {**base.parameters, "vote_weight": np.array(weight)}
        return Outputs(probabilities, released, weights)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Weights) -> ReleasePlan:
        """Votes of another graph's labelled training nodes; without any, nothing is released."""
        mu = self.mu_of(budget)
        asked = self.plan_votes(budget) if sizes.train > 0 else None
        if asked is None or (weights is not None and "vote_weight" not in weights):
            return self.base.plan_graph(sizes, budget, weights)
        votes = self._calibrate(sizes, asked, sender_mu=mu, receiver_mu=mu, validation_mu=mu)
        records, released = (NodeVotesRecord(calibrated=votes),), ("noisy votes of all nodes",)
        return self.planned(sizes, budget, ReleaseKind.PREDICTION, records, released, {"votes": votes})

    def predict_graph(
        self, plan: ReleasePlan, weights: Arrays, graph: Graph, streams: Streams, noise: NoiseSource
    ) -> Outputs:
        """Ask the votes on another graph; the model is used as it is."""
        if "votes" not in plan.parts:
            return self.base.predict_graph(plan, weights, graph, streams, noise)
        return self.outputs(graph, self._votes(plan, graph, noise), weights)

    def predict(self, weights: Arrays, released: Arrays, graph: Graph) -> np.ndarray:
        """Class probabilities from each node's own features and its released row of votes. [n, C]"""
        logits = applied(weights, graph).logits()
        if "evidence" in released:
            logits = logits + float(weights["vote_weight"]) * released["evidence"]
        return softmax(logits, axis=1)

    def plan_votes(self, budget: Budget) -> VotePlan | None:
        """How votes are asked; None = not at all.

        >>> dense = VotesNdp(declared_degree=546, declared_average_degree=71.5)
        >>> [dense.plan_votes(Budget(epsilon, 1e-5, "node")) is None for epsilon in (2, 4)], VotesNdp().plan_votes(Budget(8))
        ([True, False], None)
        """
        if self.votes is not None or self.declared_degree is None:
            return self.votes
        plan = VotePlan(math.ceil(self.declared_degree / 2), VOTES_SHARE)
        average = self.declared_average_degree or 0.0
        d = self.declared_degree
        return plan if votes_pay(average_degree=average, declared_degree=d, mu=budget_mu(budget), plan=plan) else None

    def _calibrate(
        self, sizes: Sizes, asked: VotePlan, *, sender_mu: float, receiver_mu: float, validation_mu: float
    ) -> CalibratedVotes:
        return calibrate_votes(
            receivers_per_sender=asked.receivers_per_sender,
            declared_degree=min(self.declared_degree or 1, max(1, sizes.nodes - 1)),
            sender_mu=sender_mu,
            receiver_mu=receiver_mu,
            validation_mu=validation_mu,
            nodes=sizes.nodes,
            columns=sizes.classes,
        )

    def _votes(self, plan: ReleasePlan, graph: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        votes: CalibratedVotes = plan.parts["votes"]
        split, _ = graph.for_learning()
        noisy = release_votes(vote_sums(graph, split, votes.receivers_per_sender), split, votes, noise.stream("votes"))
        return {"votes": noisy, "evidence": vote_evidence(noisy, votes)}
