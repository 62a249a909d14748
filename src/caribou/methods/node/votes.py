"""``votes-ndp``: the labels of neighbours under a node-level guarantee for every graph. Graph-free where votes would not pay.

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
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import softmax

from caribou._validate import integer, non_negative
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.exponential import choose
from caribou.mechanisms.node_votes import VotePlan, release_votes, vote_evidence, vote_sums, votes_pay
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.base import Outputs
from caribou.methods.catalogue import require_unit
from caribou.methods.mlp import MlpDp, apply_model, node_assumptions, public_parameters
from caribou.methods.node_method import checked_base
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import CalibratedVotes, budget_mu, calibrate_votes, remaining_epsilon
from caribou.privacy.mechanism_records import Group, exponential_record, groups_of, node_votes_record
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5)
"""The head's candidates for beta; 0 ignores the votes."""
DEFAULT_WEIGHT = 4
SHARE = 0.3
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
class VotesNdp:
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "votes", vote_plan(self.votes))
        object.__setattr__(self, "base", checked_base(self.base, "validation nodes choose the weight"))
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

    def settings(self) -> Mapping[str, Any]:
        """The public settings."""
        return asdict(self)

    def plan(self, sizes: Sizes, budget: Budget) -> ReleasePlan:
        """The Gaussians of the model and the votes, or only the former where the switch says so.

        Every group keeps the budget up to the declared degree.
        """
        require_unit(budget, PrivacyUnit.NODE, "votes-ndp")
        asked = self.plan_votes(budget)
        if asked is None:
            return replace(self.base.plan(sizes, budget), description="votes-ndp, fitted without votes")
        mu = budget_mu(budget)
        votes = self._calibrate(
            sizes,
            asked,
            sender_mu=math.sqrt(asked.share) * mu,
            receiver_mu=mu,
            validation_mu=mu * (math.sqrt(VALIDATION_SHARE) if self.weight is None else 1),
        )
        base = self.base.plan_base(sizes, math.sqrt(1 - asked.share) * mu * (1 - 2.0**-40))
        parts: dict[str, Any] = {"base": base, "votes": votes}
        records = (*base.records, node_votes_record(votes))
        if self.weight is None:
            paid = groups_of(records)[Group.VALIDATION]
            parts["choice"] = remaining_epsilon(paid, budget)
            chosen = exponential_record("choice of the weight", epsilon=parts["choice"], candidates=len(WEIGHTS))
            records = (*records, chosen)
        return ReleasePlan(
            budget,
            records,
            released=(*base.released, "noisy votes of all nodes", "weight beta"),
            description="votes-ndp, fitted",
            public_parameters=public_parameters(sizes, self.settings()),
            assumptions=node_assumptions(self.base),
            parts=parts,
        )

    def fit(self, plan: ReleasePlan, graph: Graph, streams: Streams, noise: NoiseSource) -> Outputs:
        """Train the linear model and ask the votes, or only the former where the switch says so.

        Formal guarantee: (epsilon, delta)-DP at node level for everything in ``released`` and ``weights``, in every graph, for
        nodes up to the declared degree; for the others by the curve of the certificate.
        """
        if "votes" not in plan.parts:
            return self.base.fit(plan, graph, streams, noise)
        split, labels = graph.for_learning()
        base = self.base.fit_base(plan.parts["base"], graph, streams, noise)
        logits = base.logits(self.base.shrinkage)
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
        return Outputs(
            probabilities=softmax(logits + weight * released["evidence"], axis=1),
            released=released,
            weights={**base.parameters(self.base.shrinkage), "vote_weight": np.array(weight)},
        )

    def plan_graph(self, sizes: Sizes, budget: Budget, weights: Mapping[str, np.ndarray]) -> ReleasePlan:
        """Votes of another graph's labelled training nodes; without any, nothing is released."""
        require_unit(budget, PrivacyUnit.NODE, "votes-ndp")
        asked = self.plan_votes(budget) if sizes.train > 0 else None
        if asked is None or "vote_weight" not in weights:
            return self.base.plan_graph(sizes, budget, weights)
        mu = budget_mu(budget)
        votes = self._calibrate(sizes, asked, sender_mu=mu, receiver_mu=mu, validation_mu=mu)
        return ReleasePlan(
            budget,
            (node_votes_record(votes),),
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
        released = self._votes(plan, graph, noise)
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
        """How votes are asked; None = not at all.

        >>> dense = VotesNdp(declared_degree=546, declared_average_degree=71.5)
        >>> [dense.plan_votes(Budget(epsilon, 1e-5, "node")) is None for epsilon in (2, 4)], VotesNdp().plan_votes(Budget(8))
        ([True, False], None)
        """
        if self.votes is not None or self.declared_degree is None:
            return self.votes
        plan = VotePlan(math.ceil(self.declared_degree / 2), SHARE)
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
