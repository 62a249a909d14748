"""What was promised, and how much of it a test with given rates uses up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from caribou._validate import below_one, positive_or_inf
from caribou.audit.bounds import (
    Count,
    Rate,
    curve_bound,
    curve_p_value,
    epsilon_bound,
    epsilon_of_rates,
    gaussian_trade_off,
    mu_bound,
    mu_of_rates,
    one_run_bound,
    one_run_p_value,
)
from caribou.privacy.accounting import (
    epsilon_of,
    gdp_epsilon,
    gdp_mu,
    largest_true_positive_rate,
    pure_epsilon,
)
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import EpsilonDelta, Event, NonPrivate, choices, gaussian_mu
from caribou.privacy.mechanism_records import Group, composed, groups_of
from caribou.privacy.plan import epsilon_at

LEAST = 1e-9
"""The smallest epsilon that is weighed: a node that a mechanism does not touch is promised 0."""
ROUNDING = 1e-6
"""Of an epsilon that was computed from mu and back."""


@dataclass(frozen=True)
class Claim:
    """(epsilon, delta) at a privacy unit, and the events behind it where they are known.

    There are three kinds, by what a test must contradict. ``mu``: the events are Gaussian, so the claim is mu-GDP and
    Phi^-1(TPR) - Phi^-1(FPR) counts. ``pure``: delta is not used, log(TPR / FPR) counts. Otherwise log((TPR - delta) / FPR).
    `leak` is in the unit of the kind (mu or epsilon), `size` is what was claimed in that unit.

    >>> claim = Claim(2.0, 1e-5)
    >>> claim.kind, claim.size, float(round(claim.leak(0.01, 0.2), 2))
    ('epsilon', 2.0, 3.0)
    """

    epsilon: float
    delta: float
    unit: PrivacyUnit = PrivacyUnit.EDGE
    events: tuple[Event, ...] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_or_inf(epsilon=self.epsilon))
        object.__setattr__(self, "delta", below_one(delta=self.delta))
        object.__setattr__(self, "unit", PrivacyUnit.parse(self.unit))

    @classmethod
    def of_certificate(cls, certificate: Certificate, group: Group | None = None, degree: int | None = None) -> Claim:
        """The claim of a certificate about one edge, or about one node of a ``group`` of the split and of a ``degree``.

        Where groups pay differently, each has its own events. A node of a ``degree`` is promised what the mechanisms cost a node
        of that degree, in every graph.
        """
        if degree is None:
            groups, whole, epsilon = groups_of(certificate.mechanisms), certificate.cost, certificate.epsilon
        else:
            records = certificate.mechanisms
            groups, whole = groups_of(records, degree), composed(records, degree)
            by_degree = any(record.by_degree for record in records)
            epsilon = epsilon_at(records, certificate.delta, degree) if by_degree else certificate.epsilon
        events = whole if group is None else groups.get(group, whole)
        return cls(max(epsilon, LEAST), certificate.delta, certificate.unit, tuple(events))

    @property
    def is_private(self) -> bool:
        """False for epsilon = inf, or events without privacy."""
        return math.isfinite(self.epsilon) and not any(isinstance(event, NonPrivate) for event in self.events)

    @cached_property
    def mu(self) -> float | None:
        """The GDP parameter if every event is a full-batch Gaussian; of groups of nodes, the largest."""
        if not self.events:
            return None
        each = [gaussian_mu(choice) for choice in choices(self.events)]
        return None if any(mu is None for mu in each) else max(mu for mu in each if mu is not None)

    @cached_property
    def pure(self) -> bool:
        """Whether delta is not used: every event is pure epsilon-DP."""
        if not self.events:
            return self.delta == 0
        return all(pure_epsilon(choice) is not None for choice in choices(self.events))

    @property
    def used_delta(self) -> float:
        """The delta at which rates are weighed: 0 for a pure claim."""
        return 0.0 if self.pure else self.delta

    @cached_property
    def kind(self) -> str:
        """ "mu" or "epsilon". With delta = 0 no Gaussian keeps any epsilon, so that epsilon itself is weighed."""
        return "mu" if self.mu is not None and self.mu > 0 and self.delta > 0 else "epsilon"

    @cached_property
    def size(self) -> float:
        """What was claimed, in the unit of `leak`.

        Where events cost less than the budget, the smaller cost is the claim. Where they cost more, the stated epsilon is.
        """
        if self.kind == "mu":
            stated = gdp_mu(epsilon=self.epsilon, delta=self.delta) if self.is_private else math.inf
            mu = float(self.mu or 0.0)
            return mu if mu <= stated * (1 + ROUNDING) else stated
        return min(self.epsilon, self.spent) if self.is_private else self.epsilon

    @cached_property
    def spent(self) -> float:
        """The epsilon that the events cost at the claimed delta, whatever epsilon stands beside them; without events that one."""
        if not self.events:
            return self.epsilon
        if self.pure:
            return max(pure_epsilon(choice) or 0.0 for choice in choices(self.events))
        return epsilon_of(self.events, self.delta) if self.delta > 0 else math.inf

    # -- what a test shows -----------------------------------------------------------------------------------------

    def leak(self, fpr: Rate, tpr: Rate) -> Rate:
        """What a test with these rates shows, in the unit of `kind`. It must not exceed `size`."""
        return mu_of_rates(fpr, tpr) if self.kind == "mu" else epsilon_of_rates(fpr, tpr, self.used_delta)

    def proven(self, false: Count, true: Count, runs: int, confidence: float) -> Rate:
        """A lower bound on `leak` from counts. Assumes: the test was chosen without looking at these runs."""
        if self.kind == "mu":
            return mu_bound(false, true, runs, confidence)
        return epsilon_bound(false, true, runs, self.used_delta, confidence)

    # -- what right guesses about canaries show --------------------------------------------------------------------

    def p_value_of_guesses(self, correct: int, guesses: int, canaries: int) -> float:
        """The largest probability of so many right guesses under the claim: by the curve of a mu-GDP claim, else by epsilon."""
        if self.kind == "mu":
            return curve_p_value(correct, guesses, canaries, gaussian_trade_off(self.size))
        if math.isinf(self.size):
            return 1.0
        return one_run_p_value(correct, guesses, canaries, self.size, self.used_delta)

    def proven_by_guesses(self, correct: int, guesses: int, canaries: int, confidence: float) -> float:
        """A lower bound on `leak` from right guesses in one run."""
        if self.kind == "mu":
            return curve_bound(correct, guesses, canaries, gaussian_trade_off, confidence)
        return one_run_bound(correct, guesses, canaries, self.used_delta, confidence)

    # -- in other words --------------------------------------------------------------------------------------------

    def as_epsilon(self, leak: float) -> float:
        """A leak as an epsilon at the claimed delta."""
        if self.kind == "epsilon" or leak <= 0:
            return max(0.0, leak)
        return gdp_epsilon(mu=leak, delta=self.delta) if math.isfinite(leak) else math.inf

    def allowed(self, fpr: float) -> float:
        """The largest true positive rate that the claim allows at a false positive rate."""
        if not self.is_private:
            return 1.0
        if fpr <= 0 or fpr >= 1:
            return min(1.0, max(0.0, fpr) + (self.delta if fpr <= 0 and not self.pure else 0.0))
        events = self.events or (EpsilonDelta(self.epsilon, self.delta),)
        return largest_true_positive_rate(events, delta=max(self.delta, 1e-12), false_positive_rate=fpr)

    def describe(self) -> str:
        """In words."""
        if not self.is_private:
            return "no privacy is claimed"
        text = f"epsilon = {self.epsilon:g}, " + ("delta = 0" if self.pure else f"delta = {self.delta:g}")
        return f"{text} at {self.unit.value} level" + (f" (mu = {self.size:.4g})" if self.kind == "mu" else "")


def weaker_than_asked(certificate: Certificate, budget: Budget) -> str | None:
    """Why a certificate promises less than the budget that was asked for, in words; None if it keeps to it."""
    if not budget.is_private:
        return None
    claim = Claim.of_certificate(certificate)
    asked = f"where epsilon = {budget.epsilon!r}, delta = {budget.delta!r} at {budget.unit.value} level was asked for"
    if not claim.is_private:
        return f"the certificate claims no privacy {asked}"
    spent = max(
        claim.epsilon, claim.spent
    )  # of groups of nodes the worst: the cost of a certificate lists them side by side
    if claim.unit is budget.unit and spent <= budget.epsilon * (1 + ROUNDING) and claim.delta <= budget.delta:
        return None
    return f"the certificate claims epsilon = {spent:.6g}, delta = {claim.delta:g} at {claim.unit.value} level {asked}"
