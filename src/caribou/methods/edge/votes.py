"""Votes at edge level: labelled nodes vote, confident nodes vote next, round by round; every pair is asked once.

All choices (who is confident, rates, head, weights) are made from public values and released counts, so choosing costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import softmax

from caribou._validate import integer, one_of, open_unit_interval
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.arrivals import Grown
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs
from caribou.methods.catalogue import require_unit
from caribou.methods.edge.class_votes import RoundRules, decode_class_batch, decode_classes
from caribou.methods.edge.code_votes import decode_code_batch, decode_codes
from caribou.methods.edge.pilot import LOUDEST, Pilot, pilot_share
from caribou.methods.edge.vote_roles import VoteRoles
from caribou.models.class_prior import class_probabilities, probabilities_by
from caribou.models.feature_codes import FeatureCodes
from caribou.models.objective import Objective
from caribou.models.progress import tell
from caribou.models.vote_model import VoteModel
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

    @property
    def round_rules(self) -> RoundRules:
        """Who sends in which round of class messages."""
        return RoundRules(self.voter_confidence, self.round_confidence, self.max_rounds)

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
        self.round_rules.require_memory_for(nodes, classes, self.most_codes(classes) + 8)

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
        learned = VoteModel.from_arrays(weights)
        if learned.codes is not None:
            p, transcript = decode_code_batch(grown, prior, learned, learned.codes, votes, noise)
        else:
            p, transcript = decode_class_batch(self.round_rules, grown, prior, learned, before, votes, noise)
        probabilities = np.concatenate([before, p])
        counts = {f"batch_{grown.batch}.{name}": array for name, array in transcript.items()}
        after = {**released, **counts, "probabilities": probabilities}
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
    learned: VoteModel

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
    scores, released, taught = decode_classes(settings.round_rules, noisy_counts, roles, pilot, settings.objective)
    return Decoded(scores, {**transcript, **released}, taught)
