"""``votes-ndp``: the labels of neighbours, asked once, under a node-level guarantee. Graph-free where votes would not pay.

Every training node (sender) sends its label to at most M of its neighbours outside the training set (receivers). A receiver's
counts are clipped, Laplace noise of scale b is added to every entry, and the head adds them to the logits of the private linear
model of `mlp-dp`. A public switch, from epsilon and a *declared* average degree, decides whether votes are asked at all.

Who is protected, and how (PrivacyUnit.NODE; the split, its sizes and the number of classes are public):

* A **training node** is in the Gaussians of the linear model and in at most M rows of counts. In each of these rows its vote
  moves the clipped counts by at most 1 in L1 (`clip_counts`). Senders choose their receivers by public coins of the pair, and
  receivers are never senders: without this node, nobody else's votes change. So it pays the composition of the Gaussians with
  M Laplace mechanisms of multiplier b, computed by PLD. (One shift of L1 norm 1 on a single entry is the worst way to move a
  row: see `split_shift_is_dominated` below.) This holds for every graph, without any condition on degrees.
* A **test node** (and any node in no part of the split) is in one row only, its own, which moves from f(S) to 0: at most tau in
  L1, so it pays tau / b = epsilon, pure.
* A **validation node** pays 4/5 of epsilon for its own row (a smaller tau) and 1/5 for the choice of the head's weight beta by
  the exponential mechanism. Given the noisy rows, it adds 0 or 1 to every candidate's count of correct answers, in one direction.
* The three groups are disjoint: by parallel composition the release costs the largest of the three, each within the budget.
  The certificate lists the events of training nodes and the other groups' events under ``groups``.
* **The condition.** Without a receiver, a sender that had chosen it among *more* than M neighbours would choose another, whose
  row then also moves: once per such sender, and nothing bounds their number. For validation and test nodes the guarantee is
  therefore for the graph after the choice. The certificate says so.
* Released are weights, mean, noisy rows of all n nodes and beta. Predictions: as in `mlp-dp`.

split_shift_is_dominated: let P, Q be Laplace(1) at 0 and at a vector with entries t_1 >= t_2 >= 0. The hockey-stick curve of one
entry shifted by t is H_t(e) = max(0, 1 - exp((e - t)/2), 1 - exp(e)). For e >= 0, with e = t_1 + t_2 - 2a, a >= 0, the curve of
the pair is 1 - E min(1, exp((e - t_1 - loss_2)/2)) (the third branch needs loss_2 > e + t_1 >= t_2 and never occurs). The loss
of the second entry is t_2 - 2y, y = 0 with probability 1/2, otherwise exponential of mass 1/2, capped at t_2: the integral gives
1 - exp(-a) (1 + min(a, t_2)/2) <= 1 - exp(-a) = H_(t_1 + t_2)(e). For a < 0 both curves are 0. By
symmetry the same holds for e < 0, and by induction for any number of entries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import softmax

from caribou._validate import half_open_unit_interval, integer, non_negative
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.graph.operator import pair_hash
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Fitted
from caribou.methods.node.mlp import (
    MlpDp,
    apply_model,
    base_model,
    checked_split,
    choose,
    node_assumptions,
    parallel_parameters,
    public_parameters,
    selection_event,
)
from caribou.privacy.accounting import pure_epsilon
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import smallest_noise_multiplier
from caribou.privacy.certificate import MechanismRecord, certify
from caribou.privacy.events import Event, Gaussian, Laplace, NonPrivate, Parallel
from caribou.privacy.sensitivity import grid_spacing
from caribou.randomness import Streams

DENSE_FROM, VERY_DENSE_FROM = 10.0, 50.0
"""Declared average degree from which a graph counts as dense or very dense."""
WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5)
"""The head's candidates for beta; 0 ignores the votes."""
DEFAULT_WEIGHT = 4
SELECTION_SHARE = 0.2
"""What a validation node spends of its epsilon on the choice of beta; the rest protects its row."""


@dataclass(frozen=True)
class VotePlan:
    """How votes are asked. ``receivers_per_sender`` = M; ``share`` of epsilon that M votes would cost as pure DP.

    b = M / (share epsilon) is the scale of the noise in votes; tau = b epsilon the clip of a receiver's row.
    """

    receivers_per_sender: int
    share: float

    def __post_init__(self) -> None:
        integer(at_least=1, receivers_per_sender=self.receivers_per_sender)
        half_open_unit_interval(share=self.share)

    def noise_scale(self, epsilon: float) -> float:
        """b, in votes."""
        return self.receivers_per_sender / (self.share * epsilon)

    def row_clip(self) -> float:
        """tau = b epsilon = M / share, in votes; rounded down."""
        return self.receivers_per_sender / self.share * (1 - 2.0**-44)


def vote_plan(value: Any) -> VotePlan | None:
    """A plan, or one from its settings by name (from the command line or a saved run)."""
    if value is None or isinstance(value, VotePlan):
        return value
    if isinstance(value, Mapping) and set(value) == {"receivers_per_sender", "share"}:
        return VotePlan(**value)
    raise InputError(f"plan must have receivers_per_sender and share and nothing else, got {value!r}")


def default_plan(epsilon: float, declared_average_degree: float | None) -> VotePlan | None:
    """The public switch: None = do not ask. Without a declared degree the graph counts as sparse.

    Thresholds and shares were compared on validation nodes of public graphs (Cora, PubMed, Photo, Computers, Berkeley13).

    >>> default_plan(4.0, None) is None, default_plan(8.0, 4), default_plan(4.0, 30)
    (True, VotePlan(receivers_per_sender=2, share=0.5), VotePlan(receivers_per_sender=8, share=0.5))
    """
    degree = 0.0 if declared_average_degree is None else declared_average_degree
    if degree >= VERY_DENSE_FROM:
        return None if epsilon < 2 else VotePlan(16, 0.85)
    if degree >= DENSE_FROM:
        return None if epsilon < 3 else VotePlan(8, 0.5 if epsilon < 6 else 0.7)
    return None if epsilon < 6 else VotePlan(2, 0.5)


@dataclass(frozen=True)
class VotesNdp:
    """Public settings of ``votes-ndp``.

    ``declared_average_degree``: what the curator declares about the graph, never what the graph is measured to have; None =
    sparse. ``plan``: overrides the switch. ``weight``: beta of the head; None = chosen on validation nodes. ``base``: the
    model under the votes, or its settings by name.

    >>> from caribou.datasets import load
    >>> graph = load("csbm:nodes=200", seed=0)
    >>> fitted = VotesNdp().fit(graph, Budget(8, 1e-5, "node"), Streams(0), NoiseSource.secure())
    >>> sorted(fitted.released), fitted.certificate.epsilon_spent <= 8
    (['evidence', 'votes'], True)
    """

    declared_average_degree: float | None = None
    plan: VotePlan | None = None
    weight: float | None = None
    base: MlpDp = field(default_factory=MlpDp)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", vote_plan(self.plan))
        object.__setattr__(self, "base", base_model(self.base))
        if self.declared_average_degree is not None:
            non_negative(declared_average_degree=self.declared_average_degree)
        if self.weight is not None:
            non_negative(weight=self.weight)
        if self.base.choose_shrinkage:
            raise InputError("choose_shrinkage must be False with votes: validation nodes choose the weight, got True")

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def fit(self, graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource) -> Fitted:
        """Train the linear model and ask the votes, or only the former where the switch says so.

        Formal guarantee: (epsilon, delta)-DP at node level for everything in ``released`` and ``weights``; for validation and
        test nodes under the condition on truncation (see the module). ``streams.sampling`` holds the public coins.
        """
        split = checked_split(graph, budget)
        plan = self.plan or default_plan(budget.epsilon, self.declared_average_degree)
        if plan is None:
            return self.base.fit(graph, budget, streams, noise)
        mu = base_mu(budget, plan)
        base = self.base.fit_base(graph, mu, streams, noise)
        logits = base.logits(self.base.shrinkage)
        coins = int(streams.sampling.integers(2**63))
        counts = vote_counts(graph, split, plan if budget.is_private else None, coins)
        votes = release_votes(counts, split, plan, budget, noise.stream("votes"), chooses=self.weight is None)
        evidence = vote_evidence(votes, plan, budget)
        groups = group_events(budget, plan, tuple(r.event for r in base.records), chooses=self.weight is None)
        weight = self.weight
        if weight is None:
            candidates = [logits[split.val] + beta * evidence[split.val] for beta in WEIGHTS]
            spend = SELECTION_SHARE * budget.epsilon
            weight = WEIGHTS[choose(candidates, graph, split, spend, noise.stream("choice"), default=DEFAULT_WEIGHT)]
        certificate = certify(
            budget,
            (*base.records, vote_record(budget, plan)),
            released=(*base.released, "noisy votes of all nodes", "weight beta"),
            public_parameters=public_parameters(graph, split, self.settings()) | parallel_parameters(groups),
            assumptions=node_assumptions(noise, groups, reads_edges=True, base=self.base),
        )
        return Fitted(
            probabilities=softmax(logits + weight * evidence, axis=1),
            certificate=certificate,
            released={"votes": votes, "evidence": evidence},
            weights={**base.parameters(self.base.shrinkage), "vote_weight": np.array(weight)},
        )

    def cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """What each group of nodes pays: the Gaussians of the model and its votes, or its own row of votes and the choice."""
        plan = self.plan or default_plan(budget.epsilon, self.declared_average_degree)
        if plan is None or not budget.is_private:
            return self.base.cost(graph, budget)
        groups = group_events(budget, plan, (Gaussian(1 / base_mu(budget, plan)),), chooses=self.weight is None)
        return (Parallel(tuple(groups.values())),)

    def release(
        self, weights: Mapping[str, np.ndarray], graph: Graph, budget: Budget, streams: Streams, noise: NoiseSource
    ) -> Fitted:
        """Predict another graph: its labelled training nodes vote, which is a release; without votes nothing is released."""
        plan = self._release_plan(graph, budget)
        if plan is None or "vote_weight" not in weights:
            return self.base.release(weights, graph, budget, streams, noise)
        split = checked_split(graph, budget)
        coins = int(streams.sampling.integers(2**63))
        counts = vote_counts(graph, split, plan if budget.is_private else None, coins)
        votes = release_votes(counts, split, plan, budget, noise.stream("votes"), chooses=False)
        groups = group_events(budget, plan, (), chooses=False)
        certificate = certify(
            budget,
            (row_record(budget, plan),),
            released=("noisy votes of all nodes",),
            public_parameters=public_parameters(graph, split, self.settings()) | parallel_parameters(groups),
            assumptions=node_assumptions(noise, groups, reads_edges=True, base=self.base),
        )
        released = {"votes": votes, "evidence": vote_evidence(votes, plan, budget)}
        return Fitted(self.predict(weights, released, graph), certificate, released, weights)

    def release_cost(self, graph: Graph, budget: Budget) -> tuple[Event, ...]:
        """The larger of what a voter and a receiver pay, as pure DP: the votes are at most M, the row costs epsilon."""
        plan = self._release_plan(graph, budget)
        return () if plan is None else (selection_event(budget.epsilon),)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities from each node's own features and its released row of votes. [n, C]"""
        logits = apply_model(weights, graph)
        if "evidence" in released:
            logits = logits + float(weights["vote_weight"]) * released["evidence"]
        return softmax(logits, axis=1)

    def _release_plan(self, graph: Graph, budget: Budget) -> VotePlan | None:
        labelled = graph.labels is not None and graph.split is not None and graph.split.declared[0] > 0
        return (self.plan or default_plan(budget.epsilon, self.declared_average_degree)) if labelled else None


# -- the release ---------------------------------------------------------------------------------------------------


def vote_counts(graph: Graph, split: Split, plan: VotePlan | None, coins: int) -> np.ndarray:
    """Un-noised counts: how many senders of each class chose a node. Private. [n, C]; plan None = no bound on M.

    A sender ranks its neighbours outside the training set by a public hash of the pair and takes the first M. So its choice is a
    function of its own list of neighbours: no other sender matters to it, and no order of the edges.
    """
    n = graph.num_nodes
    is_sender = np.zeros(n, dtype=bool)
    is_sender[split.train] = True
    senders, receivers = graph.edge_index
    asked = is_sender[senders] & ~is_sender[receivers]
    senders, receivers = senders[asked], receivers[asked]
    if plan is not None:
        order = np.lexsort((pair_hash(coins, senders, receivers), senders))
        senders, receivers = senders[order], receivers[order]
        first = np.searchsorted(senders, senders)
        chosen = np.arange(len(senders)) - first < plan.receivers_per_sender
        senders, receivers = senders[chosen], receivers[chosen]
    counts = np.zeros((n, graph.num_classes))
    np.add.at(counts, (receivers, graph.labels[senders]), 1)  # type: ignore[index]
    return counts


def clip_counts(counts: np.ndarray, row_clip: float | np.ndarray) -> np.ndarray:
    """f(S) = S w(N), N the sum of a row: w = 1 - N/(4 tau) for N <= 2 tau, tau/N above. [n, C] -> [n, C].

    One vote more or less moves f by at most 1 in L1, because w + N|w'| <= 1 along the way (= 1 below 2 tau, 2 tau/N above), and
    ||f||_1 = N w <= tau. Rescaling a row to length tau has the second property and not the first: it moves by up to 2.
    """
    total = counts.sum(axis=1, keepdims=True)
    tau = np.broadcast_to(np.asarray(row_clip, dtype=np.float64).reshape(-1, 1), total.shape)
    weight = np.where(total <= 2 * tau, 1 - total / (4 * tau), tau / np.maximum(total, 1))
    return counts * weight


def release_votes(
    counts: np.ndarray, split: Split, plan: VotePlan, budget: Budget, noise: NoiseSource, *, chooses: bool
) -> np.ndarray:
    """Clipped counts plus Laplace noise of scale b in every entry of every row, asked or not. [n, C] -> [n, C].

    Validation rows have the smaller clip if validation nodes also choose beta. Counts and noise lie on one grid; the counts are
    shortened by the rounding margin, so that their rounding does not add to the shift.
    """
    if not budget.is_private:
        return counts
    tau = np.full(len(counts), plan.row_clip())
    if chooses:
        tau[split.val] *= 1 - SELECTION_SHARE
    scale = plan.noise_scale(budget.epsilon)
    margin = 2.0**-30 + 2 * counts.shape[1] * grid_spacing(noise_std=scale)
    return noise.add_laplace((1 - margin) * clip_counts(counts, tau), scale=scale)


def vote_evidence(votes: np.ndarray, plan: VotePlan, budget: Budget) -> np.ndarray:
    """Votes in units of the noise, between -1/2 and 3/4 epsilon: the likelihood ratio of Laplace noise saturates. [n, C]."""
    if not budget.is_private:
        return votes
    return np.clip(votes / plan.noise_scale(budget.epsilon), -0.5, 0.75 * budget.epsilon)


# -- the cost ------------------------------------------------------------------------------------------------------


def vote_record(budget: Budget, plan: VotePlan) -> MechanismRecord:
    """The votes as a line of a certificate."""
    return MechanismRecord(
        "votes",
        vote_event(budget, plan),
        {
            "theorem": "at most M rows, each moved by at most 1 in L1 (radial clip, w + N|w'| <= 1): M Laplace mechanisms",
            "receivers_per_sender": plan.receivers_per_sender,
            "row_clip": plan.row_clip(),
            "noise_scale": plan.noise_scale(budget.epsilon),
        },
    )


def row_record(budget: Budget, plan: VotePlan) -> MechanismRecord:
    """The votes where there is nothing else: receivers pay the most, tau / b = epsilon for their own row.

    A voter's M shifts of 1 are dominated by one shift of M <= tau (`split_shift_is_dominated`), whatever is composed with them.
    """
    return MechanismRecord(
        "votes",
        row_event(budget, plan),
        {
            "theorem": "a receiver moves its own row by at most tau in L1; a voter moves M <= tau rows by at most 1 each",
            "receivers_per_sender": plan.receivers_per_sender,
            "row_clip": plan.row_clip(),
            "noise_scale": plan.noise_scale(budget.epsilon),
        },
    )


def row_event(budget: Budget, plan: VotePlan) -> Event:
    """What its own row costs a receiver: one Laplace mechanism, moved by at most tau in L1 at scale b."""
    return Laplace(plan.noise_scale(budget.epsilon) / plan.row_clip()) if budget.is_private else NonPrivate()


def vote_event(budget: Budget, plan: VotePlan) -> Event:
    """What the votes cost a training node: M Laplace mechanisms, each moved by at most 1 in L1 at scale b."""
    if not budget.is_private:
        return NonPrivate()
    return Laplace(plan.noise_scale(budget.epsilon), plan.receivers_per_sender)


def base_mu(budget: Budget, plan: VotePlan) -> float:
    """The GDP parameter left for the linear model: the largest mu whose Gaussian composes with the votes within the budget."""
    return _base_mu(budget.epsilon, budget.delta, plan) if budget.is_private else math.inf


@lru_cache(maxsize=64)
def _base_mu(epsilon: float, delta: float, plan: VotePlan) -> float:
    budget = Budget(epsilon, delta, "node")
    votes = vote_event(budget, plan)
    return 1 / smallest_noise_multiplier(lambda m: [Gaussian(m), votes], budget, precision=1e-3)


def group_events(
    budget: Budget, plan: VotePlan, training: tuple[Event, ...], *, chooses: bool
) -> dict[str, tuple[Event, ...]]:
    """The events of each group of nodes; every group keeps the budget on its own."""
    if not budget.is_private:
        return {"training nodes": (*training, NonPrivate())}
    row = plan.noise_scale(budget.epsilon) / plan.row_clip()
    validation: tuple[Event, ...] = (Laplace(row),)
    if chooses:
        validation = (
            Laplace(row / (1 - SELECTION_SHARE)),
            selection_event(SELECTION_SHARE * budget.epsilon * (1 - 2.0**-44)),
        )
    groups: dict[str, tuple[Event, ...]] = {
        "training nodes": (*training, vote_event(budget, plan)),
        "validation nodes": validation,
        "test nodes and the rest": (Laplace(row),),
    }
    for name in (
        "validation nodes",
        "test nodes and the rest",
    ):  # training nodes: `certify` refuses what they do not keep
        spent = pure_epsilon(groups[name])
        if spent is None or spent > budget.epsilon:
            raise InputError(f"epsilon of the {name} must be <= {budget.epsilon:g}, got {spent!r}")
    return groups
