"""``votes-ndp``: the labels of neighbours, asked once, under a node-level guarantee. Graph-free where votes would not pay.

Every training node (sender) sends its label to at most M of its neighbours outside the training set (receivers). A receiver's
counts are clipped, Laplace noise of scale b is added to every entry, and the head adds them to the logits of the private linear
model of `mlp-dp`. A public switch, from epsilon and a *declared* average degree, decides whether votes are asked at all.

Who is protected, and how (PrivacyUnit.NODE; the split, its sizes and the number of classes are public):

* A **training node** is in the Gaussians of the linear model and in at most M rows of counts. In each of these rows its vote
  moves the clipped counts by at most 1 in L1 (`clip_counts`). Senders choose their receivers by a public hash of the pair, and
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

from caribou._validate import non_negative
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.exponential import choose
from caribou.mechanisms.node_votes import VotePlan, release_votes, vote_counts, vote_evidence
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs, require_unit
from caribou.methods.node.mlp import MlpDp, apply_model, node_assumptions, public_parameters
from caribou.methods.node.shared import checked_base
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import smallest_noise_multiplier
from caribou.privacy.events import Gaussian, Laplace
from caribou.privacy.mechanism_records import MechanismRecord, exponential_record, node_votes_record
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

DENSE_FROM, VERY_DENSE_FROM = 10.0, 50.0
"""Declared average degree from which a graph counts as dense or very dense."""
WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5)
"""The head's candidates for beta; 0 ignores the votes."""
DEFAULT_WEIGHT = 4
SELECTION_SHARE = 0.2
"""What a validation node spends of its epsilon on the choice of beta; the rest protects its row."""


def vote_plan(value: Any) -> VotePlan | None:
    """A plan, or one from its settings by name (from the command line or a saved run)."""
    if value is None or isinstance(value, VotePlan):
        return value
    if isinstance(value, Mapping) and set(value) == {"receivers_per_sender", "share"}:
        return VotePlan(**value)
    raise InputError(f"votes must have receivers_per_sender and share and nothing else, got {value!r}")


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
    sparse. ``votes``: overrides the switch. ``weight``: beta of the head; None = chosen on validation nodes. ``base``: the
    model under the votes, or its settings by name.

    >>> from caribou.datasets import load
    >>> from caribou.methods import fit
    >>> fitted = fit(VotesNdp(), load("csbm:nodes=200", seed=0), Budget(8, 1e-5, "node"), Streams(0))
    >>> sorted(fitted.released), fitted.certificate.epsilon_spent <= 8
    (['evidence', 'votes'], True)
    """

    declared_average_degree: float | None = None
    votes: VotePlan | None = None
    weight: float | None = None
    base: MlpDp = field(default_factory=MlpDp)

    def __post_init__(self) -> None:
        object.__setattr__(self, "votes", vote_plan(self.votes))
        object.__setattr__(self, "base", checked_base(self.base, "validation nodes choose the weight"))
        if self.declared_average_degree is not None:
            non_negative(declared_average_degree=self.declared_average_degree)
        if self.weight is not None:
            non_negative(weight=self.weight)

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """The Gaussians of the model and the votes, or only the former where the switch says so.

        A training node pays the model and at most M votes; any other node its own row; a validation node also the choice of
        the weight. Every group keeps the budget.
        """
        require_unit(budget, PrivacyUnit.NODE, "votes-ndp")
        votes = self.plan_votes(budget)
        if votes is None:
            return self.base.plan(sizes, budget)
        base = self.base.plan_base(sizes, base_mu(budget, votes))
        records = (*base.records, vote_record(budget, votes, chooses=self.weight is None))
        if self.weight is None:
            epsilon = SELECTION_SHARE * budget.epsilon * (1 - 2.0**-44)
            records = (*records, exponential_record("choice of the weight", epsilon=epsilon, candidates=len(WEIGHTS)))
        return ReleasePlan(
            budget,
            records,
            released=(*base.released, "noisy votes of all nodes", "weight beta"),
            description="votes-ndp, fitted",
            public_parameters=public_parameters(sizes, self.settings()),
            assumptions=node_assumptions(self.base),
            parts={"base": base, "votes": votes},
        )

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Train the linear model and ask the votes, or only the former where the switch says so.

        Formal guarantee: (epsilon, delta)-DP at node level for everything in ``released`` and ``weights``; for validation and
        test nodes under the condition on truncation (see the module). ``streams.sampling`` holds the public seed.
        """
        if "votes" not in plan.parts:
            return self.base.fit(plan, graph, streams, noise)
        split, labels = graph.for_learning()
        base = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        logits = base.logits(self.base.shrinkage)
        released = self._votes(plan, graph, streams, noise, chooses=self.weight is None)
        weight = self.weight
        if weight is None:
            chosen = choose(
                [logits[split.val] + beta * released["evidence"][split.val] for beta in WEIGHTS],
                labels[split.val],
                declared=split.declared[1],
                epsilon=SELECTION_SHARE * plan.budget.epsilon,
                noise=noise.stream("choice"),
                default=DEFAULT_WEIGHT,
            )
            weight = WEIGHTS[chosen]
        return Outputs(
            probabilities=softmax(logits + weight * released["evidence"], axis=1),
            released=released,
            weights={**base.parameters(self.base.shrinkage), "vote_weight": np.array(weight)},
        )

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """Votes of another graph's labelled training nodes; without any, nothing is released."""
        require_unit(budget, PrivacyUnit.NODE, "votes-ndp")
        votes = self.plan_votes(budget) if sizes.train > 0 else None
        if votes is None or "vote_weight" not in weights:
            return self.base.plan_graph(sizes, budget, weights)
        return ReleasePlan(
            budget,
            (vote_record(budget, votes, chooses=False),),
            released=("noisy votes of all nodes",),
            description="votes-ndp, predicted",
            public_parameters=public_parameters(sizes, self.settings()),
            assumptions=node_assumptions(self.base),
            parts={"votes": votes},
        )

    def predict_graph(
        self,
        plan: ReleasePlan,
        weights: Mapping[str, np.ndarray],
        graph: Graph,
        streams: Streams,
        noise: NoiseSource,
    ) -> Outputs:
        """Ask the votes on another graph; the model is used as it is."""
        if "votes" not in plan.parts:
            return self.base.predict_graph(plan, weights, graph, streams, noise)
        released = self._votes(plan, graph, streams, noise, chooses=False)
        return Outputs(self.predict(weights, released, graph), released, weights)

    def predict(
        self, weights: Mapping[str, np.ndarray], released: Mapping[str, np.ndarray], graph: Graph
    ) -> np.ndarray:
        """Class probabilities from each node's own features and its released row of votes. [n, C]"""
        logits = apply_model(weights, graph)
        if "evidence" in released:
            logits = logits + float(weights["vote_weight"]) * released["evidence"]
        return softmax(logits, axis=1)

    def plan_votes(self, budget: Budget) -> VotePlan | None:
        """How votes are asked; None = not at all."""
        return self.votes or default_plan(budget.epsilon, self.declared_average_degree)

    def _votes(
        self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource, *, chooses: bool
    ) -> dict[str, np.ndarray]:
        votes: VotePlan = plan.parts["votes"]
        split, _ = graph.for_learning()
        seed = int(streams.sampling.integers(2**63))
        counts = vote_counts(graph, split, votes if plan.budget.is_private else None, seed)
        smaller = SELECTION_SHARE if chooses else 0.0
        noisy = release_votes(
            counts, split, votes, plan.budget.epsilon, noise.stream("votes"), validation_share=1 - smaller
        )
        return {"votes": noisy, "evidence": vote_evidence(noisy, votes, plan.budget.epsilon)}


# -- the cost ------------------------------------------------------------------------------------------------------


def vote_record(budget: Budget, votes: VotePlan, *, chooses: bool) -> MechanismRecord:
    """The votes as a line of a certificate. Validation rows have a smaller clip if validation nodes also choose the weight."""
    return node_votes_record(
        receivers_per_sender=votes.receivers_per_sender,
        row_clip=votes.row_clip(),
        validation_row_clip=votes.row_clip() * (1 - SELECTION_SHARE if chooses else 1),
        noise_scale=votes.noise_scale(budget.epsilon) if budget.is_private else 0.0,
    )


def base_mu(budget: Budget, votes: VotePlan) -> float:
    """The GDP parameter left for the linear model: the largest mu whose Gaussian composes with the votes within the budget."""
    return _base_mu(budget.epsilon, budget.delta, votes) if budget.is_private else math.inf


@lru_cache(maxsize=64)
def _base_mu(epsilon: float, delta: float, votes: VotePlan) -> float:
    cost = Laplace(votes.noise_scale(epsilon), votes.receivers_per_sender)
    budget = Budget(epsilon, delta, "node")
    return 1 / smallest_noise_multiplier(lambda m: [Gaussian(m), cost], budget, precision=1e-3)
