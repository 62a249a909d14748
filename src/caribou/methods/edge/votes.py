"""Votes at edge level: labelled nodes vote, confident nodes vote next, round by round; every pair is asked once.

All choices (who is confident, rates, head, weights) are made from public values and released counts, so choosing costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from caribou._validate import integer, one_of, open_unit_interval
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.arrivals import Grown
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.memory import DOUBLE, require_memory
from caribou.methods.base import Outputs, require_unit
from caribou.methods.edge.batches import BatchRules, batch_arrays, decode_batch
from caribou.methods.edge.code_votes import decode_code_batch, decode_codes
from caribou.methods.edge.count_fit import fit_counts
from caribou.methods.edge.pilot import LOUDEST, Pilot, pilot_share
from caribou.methods.edge.vote_roles import VoteRoles
from caribou.models.class_prior import class_probabilities, probabilities_by
from caribou.models.code_vote_model import CodeVoteModel
from caribou.models.count_likelihood import MULTIPLIERS, CountModel, class_evidence, parts, vote_rates
from caribou.models.feature_codes import FeatureCodes
from caribou.models.heads import Evidence, choose_head_by_folds
from caribou.models.objective import Objective
from caribou.models.progress import tell
from caribou.models.vote_model import VoteModel, signal_share, vote_scale, voters
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.mechanism_records import edge_votes_record
from caribou.privacy.plan import Link, ReleasePlan
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

SYMBOLS = 128
"""Classes times codes, at most: more would make counts of one symbol rare."""


@dataclass(frozen=True)
class VotesEdge:
    """The method ``votes-edp``. One default serves short-range and long-range graphs.

    ``voter_confidence``: unlabelled nodes vote in the first round if the encoder is this sure of them. ``round_confidence``: a
    node votes in a later round once its posterior has closed this share of the gap between guessing and certainty.
    ``max_rounds``: stop after so many. ``calibration``: share of the training nodes that receive votes, to fit the head.
    ``noise``: discrete_laplace (pure epsilon, delta unused) or gaussian (the mu-GDP that the budget buys). ``metric``: what
    chooses the checkpoints of the prior and, out of fold on calibration nodes, the head and whether later rounds are kept
    (None: accuracy and cross-entropy).
    ``class_weight``: "balanced" gives every class the same weight in the losses, None every node.
    ``alphabet``: what nodes say: their "class", or the "code" of their features; "auto" lets a pilot say both, and takes what
    tells its neighbours more. ``pilot``: the share of the labelled nodes in it (None: none where own features tell
    most of the class, 0.1, or 0.3 where they tell nothing). ``codes``: how many codes there are at most.

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
    metric: str | None = None
    class_weight: str | None = None
    alphabet: str = "auto"
    pilot: float | None = None
    codes: int = 8

    def __post_init__(self) -> None:
        _ = self.objective  # checks its own settings
        open_unit_interval(voter_confidence=self.voter_confidence)
        open_unit_interval(round_confidence=self.round_confidence)
        integer(at_least=1, max_rounds=self.max_rounds)
        open_unit_interval(calibration=self.calibration)
        one_of(("discrete_laplace", "gaussian"), noise=self.noise)
        one_of(("auto", "class", "code"), alphabet=self.alphabet)
        if self.pilot is not None and not 0 < self.pilot <= 1 - self.calibration:
            raise InputError(f"pilot must be in (0, 1 - calibration = {1 - self.calibration:g}], got {self.pilot!r}")
        integer(at_least=2, codes=self.codes)

    @property
    def takes_prior(self) -> bool:
        """Class probabilities from features are where it starts; the user may give them."""
        return True

    @property
    def objective(self) -> Objective:
        """What checkpoints and heads are chosen by, on public labels."""
        return Objective(self.metric, self.class_weight)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def pilot_share(self, roles: VoteRoles, budget: VoteBudget) -> float:
        """The share of the labelled nodes in the pilot. A public rule: under loud noise a pilot would tell nothing."""
        if self.alphabet != "auto" or budget.noise_variance > LOUDEST:
            return 0.0
        return min(pilot_share(roles) if self.pilot is None else self.pilot, 1 - self.calibration)

    def most_codes(self, classes: int) -> int:
        """How many codes there are at most. Public."""
        return max(2, min(self.codes, SYMBOLS // classes))

    def require_memory_for(self, nodes: int, classes: int) -> None:
        """Refuse what does not fit into memory."""
        rounds = self.max_rounds + 1
        require_memory(
            DOUBLE * nodes * classes * (rounds + self.most_codes(classes) + 8),
            f"the answers of up to {rounds} rounds to {nodes:,} nodes in {classes} classes",
        )

    def vote_budget(self, budget: Budget) -> VoteBudget:
        """What the votes may spend if the whole budget is theirs."""
        return (
            VoteBudget(budget.epsilon) if self.noise == "discrete_laplace" else VoteBudget.gaussian(budget_mu(budget))
        )

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """The whole transcript, whatever its number of rounds."""
        return self._plan(sizes, budget, "votes-edp, fitted")

    def prepare(self, graph: Graph, streams: Streams) -> None:
        """Fit the prior, which reads public values alone; votes that would not fit into memory are refused first."""
        self.require_memory_for(graph.num_nodes, graph.num_classes)
        class_probabilities(graph, streams, self.objective)

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Fit the prior, ask in rounds, and combine prior and votes."""
        prior, weights = class_probabilities(graph, streams, self.objective)
        return self._decoded(plan, graph, prior, weights, streams, noise)

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """A transcript about another graph. Its labelled nodes are needed: they send, and rates and head are learned on them."""
        require_labelled(sizes)
        self.require_memory_for(sizes.nodes, sizes.classes)
        return self._plan(sizes, budget, "votes-edp, predicted")

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Ask on another graph, with the fitted prior."""
        return self._decoded(plan, graph, probabilities_by(weights, graph), weights, streams, noise)

    def plan_batch(
        self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray], link: Link | None, batch: int
    ) -> ReleasePlan:
        """The transcript of a later batch of a growing graph; ``link``: the release that pays for it, None if it pays itself."""
        if not CodeVoteModel.is_in(weights):
            VoteModel.from_arrays(weights)  # a model that lacks it is refused before anything is charged
        plan = self._plan(sizes, budget, f"votes-edp, batch {batch}")
        assumptions = () if link is None else (link.assumption(batch),)
        return replace(plan, assumptions=assumptions, public_parameters={**plan.public_parameters, "batch": batch})

    def extend(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        released: Mapping[str, np.ndarray],
        grown: Grown,
        noise: NoiseSource,
    ) -> Outputs:
        """Ask the pairs of arrivals. Rows of nodes that were there stay as they were released: nothing is asked about them."""
        before, votes = released["probabilities"], plan.parts["votes"]
        prior = probabilities_by(weights, grown.graph)[~grown.present]
        if CodeVoteModel.is_in(weights):
            p, transcript = decode_code_batch(grown, prior, CodeVoteModel.from_arrays(weights), votes, noise)
        else:
            rules = BatchRules(self.voter_confidence, self.round_confidence, self.max_rounds)
            p, transcript = decode_batch(rules, grown, prior, VoteModel.from_arrays(weights), before, votes, noise)
        probabilities = np.concatenate([before, p])
        after = {**released, **batch_arrays(grown.batch, transcript), "probabilities": probabilities}
        return Outputs(probabilities, after, weights)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities of the nodes that the release is about; costs nothing."""
        return released["probabilities"]

    def _plan(self, sizes: Sizes, budget: Budget, description: str) -> ReleasePlan:
        require_unit(budget, PrivacyUnit.EDGE, "votes-edp")
        votes = self.vote_budget(budget)
        return ReleasePlan(
            budget,
            (edge_votes_record(epsilon=votes.epsilon, mu=votes.mu),),
            released=(
                "the counts of every stage (pilot, rounds or codes) and everything computed from them",
                "class probabilities of every node",
            ),
            description=description,
            public_parameters={"nodes": sizes.nodes, "classes": sizes.classes, **asdict(self)},
            parts={"votes": votes},
        )

    def _decoded(
        self,
        plan: ReleasePlan,
        graph: Graph,
        prior: np.ndarray,
        weights: Mapping[str, np.ndarray],
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        decoded = run_rounds(self, graph, prior, plan.parts["votes"], streams, noise)
        released = {**decoded.transcript, "probabilities": decoded.probabilities}
        return Outputs(decoded.probabilities, released, {**weights, **decoded.learned.to_arrays()})


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
    transcript: Mapping[str, np.ndarray]
    learned: VoteModel | CodeVoteModel

    @property
    def probabilities(self) -> np.ndarray:
        """softmax of the scores."""
        return np.asarray(softmax(self.scores, axis=1))


def run_rounds(
    settings: VotesEdge, graph: Graph, prior: np.ndarray, budget: VoteBudget, streams: Streams, noise: NoiseSource
) -> Decoded:
    """Ask in rounds under a budget of their own, e.g. a part of a composed one (then `VoteBudget.gaussian`).

    ``prior``: class probabilities of every node, [n, C]; those of a labelled node must not know its own label.

    Formal guarantee: everything in the result is computed from public values, the prior and a transcript that costs
    budget.event at edge level (docs/privacy.md, Theorem 4). The prior must be public or already paid for.
    """
    C, M = graph.num_classes, settings.most_codes(graph.num_classes)
    settings.require_memory_for(graph.num_nodes, C)
    roles = VoteRoles.of(graph, prior, settings.calibration, settings.objective, streams.generator("votes"))
    noisy_counts = NoisyCounts(graph, C, budget, noise)
    pilot, transcript = None, {}
    share = settings.pilot_share(roles, budget)
    if settings.alphabet == "code" or share > 0:
        codes = FeatureCodes.of(graph.features, M, streams.generator("codes"))
        code = codes(graph.features)
        if share > 0 and codes.count > 1:
            pilot = Pilot.ask(noisy_counts, roles, code, codes.count, share)
            transcript["pilot"] = pilot.counts
        if settings.alphabet == "code" or (pilot is not None and pilot.prefers_code(roles, budget)):
            tell("codes", 1)
            scores, released, taught = decode_codes(noisy_counts, roles, codes, code, pilot, settings.objective)
            return Decoded(scores, {**transcript, **released}, taught)
    decoder = _Decoder(settings, roles, noisy_counts, pilot)
    scores = decoder.later_rounds(decoder.first_round())
    return Decoded(scores, {**transcript, **decoder.transcript}, decoder.learned())


class _Decoder:
    """One run of class messages: who has been asked, and what has been released so far."""

    def __init__(
        self, settings: VotesEdge, roles: VoteRoles, noisy_counts: NoisyCounts, pilot: Pilot | None = None
    ) -> None:
        self.settings, self.roles, self.noisy_counts, self.pilot = settings, roles, noisy_counts, pilot
        self.n, self.C = roles.nodes, roles.classes
        self.labels, self.log_prior, self.p0 = roles.labels, roles.log_prior, roles.p0
        self.calibration, self.in_train = roles.calibration, roles.labelled
        self.train = roles.order[0 if pilot is None else len(pilot.senders) :]  # the pilot's senders have been asked
        # calibration node number i receives the votes of the training nodes before it
        self.before_calibration = np.arange(len(self.train) - len(self.calibration), len(self.train))
        self.guess = self.p0.argmax(axis=1)
        self.knowing = ~self.in_train & (self.p0.max(axis=1) > settings.voter_confidence)
        self.open = ~self.in_train & ~self.knowing
        self.class_sizes = np.maximum(np.bincount(self.labels[self.train], minlength=self.C), 1)
        self.transcript: dict[str, np.ndarray] = {}

    def first_round(self) -> np.ndarray:
        """Labelled nodes and nodes the encoder is sure of vote; rates, likelihood and head are fitted on the answers."""
        counts = self._ask_first()
        rates = self._rates(counts)
        self.rates = rates["labelled"]
        fitted = fit_counts(
            partial(self._likelihood, counts, rates),
            self.roles,
            self.noisy_counts.budget,
            np.concatenate(list(self._groups().values())),
            self.settings.objective,
        )
        self.count_model, self.multipliers, self.joint = fitted.model, fitted.multipliers, fitted.joint
        # Calibration nodes receive votes only of those before them; their counts are brought to those of an unlabelled node.
        received = np.ones(self.n)
        received[self.calibration] = self.before_calibration / len(self.train)
        votes = counts / np.maximum(received, 0.25)[:, None]
        if self.pilot is not None:
            more = self.pilot.class_counts
            noise = self.pilot.codes * self.noisy_counts.budget.noise_variance  # that of its entries adds up
            votes = votes + more * signal_share(more[self.roles.receives], noise)
        self.known = Evidence(self.log_prior, fitted.evidence, votes)
        cal = self.calibration
        self.head, _ = choose_head_by_folds(
            self.known.rows(cal), self.labels[cal], self.roles.prior_head, self.roles.rng, self.settings.objective
        )
        return self.head(self.known)

    def _ask_first(self) -> np.ndarray:
        rank = np.zeros(self.n)
        rank[self.train] = np.arange(len(self.train))
        rank[self.knowing] = len(self.train) + 1 - self.p0.max(axis=1)[self.knowing]
        message = np.where(self.in_train, self.labels, self.guess)
        new = self.knowing.copy()
        new[self.train] = True
        counts = self.noisy_counts.ask(new, rank, message, self.roles.receives)
        self.transcript["round_1"] = counts
        return counts

    def _rates(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Expected votes per class of receiver and class of vote, for the three kinds of receiver."""
        onehot = np.eye(self.C)[self.labels[self.train]]
        before = np.concatenate([np.zeros((1, self.C)), np.cumsum(onehot, axis=0)])
        exposure = before[self.before_calibration] / self.class_sizes
        totals = counts[self.open].sum(axis=1)
        inflation = 1 + self.knowing.sum() / len(self.train)
        mean, variance = 0.0, 1e6
        if len(totals) > 1:
            mean, variance = totals.mean() / inflation, totals.var() / len(totals) / inflation**2
        shares = np.bincount(self.labels[self.train], minlength=self.C) / len(self.train)
        shares = np.maximum(shares, 1e-6)
        B = vote_rates(counts, self.calibration, self.labels, exposure, shares, (mean, variance))
        extra = B @ self._voters(self.knowing, self.p0, self.guess)
        return {"labelled": B, "open": B + extra, "knowing": B + extra / 2, "calibration": B * exposure.mean(axis=0)}

    def _voters(self, who: np.ndarray, p: np.ndarray, message: np.ndarray) -> np.ndarray:
        """X[j, c]: voters of true class j that send c, as a share of the training nodes of class j."""
        return voters(p[who], message[who], self.class_sizes)

    def _groups(self) -> dict[str, np.ndarray]:
        """The receivers of the first round."""
        return {
            "open": np.flatnonzero(self.open),
            "knowing": np.flatnonzero(self.knowing),
            "calibration": self.calibration,
        }

    def _likelihood(self, counts: np.ndarray, rates: Mapping[str, np.ndarray], model: CountModel) -> np.ndarray:
        L = np.zeros((self.n, self.C, len(MULTIPLIERS)))
        for group, members in self._groups().items():
            for rows in parts(members):
                L[rows] = model.log_likelihood(counts[rows], rates[group])
                if self.pilot is not None:
                    by_class = self.pilot.rates_by_class(self.rates, self.roles, self.class_sizes)
                    L[rows] += self.pilot.class_log_likelihood(model, by_class, rows)
        return L

    def later_rounds(self, scores: np.ndarray) -> np.ndarray:
        """Newly confident nodes vote to the uninformed ones until nobody new is confident; then all that is left is asked."""
        uninformed = self.open.copy()
        known = self.known
        for number in range(1, self.settings.max_rounds + 1):
            p = softmax(scores, axis=1)
            new, closing = self._newly_confident(p, uninformed, number)
            message = p.argmax(axis=1)
            tell("rounds", number)
            counts = self.noisy_counts.ask(new, -p.max(axis=1), message)
            self.transcript[f"round_{number + 1}"] = counts
            receivers = np.flatnonzero(uninformed)
            uninformed = uninformed & ~new
            known = self._updated(known, counts, p, new, message, receivers)
            scores = self.head(known)
            if closing:
                break
        return scores

    def learned(self) -> VoteModel:
        """What the rounds taught, for nodes that arrive later."""
        return VoteModel(
            self.roles.prior_head,
            self.rates,
            self.class_sizes,
            self.count_model.overdispersed,
            self.multipliers,
            self.head,
        )

    def _newly_confident(self, p: np.ndarray, uninformed: np.ndarray, number: int) -> tuple[np.ndarray, bool]:
        if not uninformed.any():
            return uninformed, True
        base = float(p[uninformed].mean(axis=0).max())
        new = uninformed & (p.max(axis=1) > base + self.settings.round_confidence * (1 - base))
        if not new.any() or number == self.settings.max_rounds:
            return uninformed, True
        return new, False

    def _updated(
        self,
        known: Evidence,
        counts: np.ndarray,
        p: np.ndarray,
        new: np.ndarray,
        message: np.ndarray,
        receivers: np.ndarray,
    ) -> Evidence:
        """Bayes' rule with the known noise."""
        votes = counts[receivers].astype(np.float64)
        if len(receivers) == 0:
            return known
        rates = self.rates @ self._voters(new, p, message)
        halved = np.where(new[receivers], 0.5, 1.0)
        expected = (p[receivers] @ rates) * halved[:, None]
        rates = rates * vote_scale(votes, expected)
        more = np.zeros_like(known.evidence)
        for rows in parts(receivers):
            before = class_evidence(self.joint[rows])
            for share, some in ((0.5, rows[new[rows]]), (1.0, rows[~new[rows]])):
                if len(some):
                    self.joint[some] += self.count_model.log_likelihood(counts[some], share * rates)
            more[rows] = class_evidence(self.joint[rows]) - before
        extra = np.zeros_like(known.counts)
        extra[receivers] = votes * signal_share(votes, self.noisy_counts.budget.noise_variance)
        return known.plus(more, extra)
