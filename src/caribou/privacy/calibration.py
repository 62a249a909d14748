"""Calibration: the smallest noise that keeps a promise. Never overspends; 0.1 % less noise would."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from caribou._validate import MAX_ROUNDS, integer, positive, positive_or_inf
from caribou.errors import CalibrationError, InputError
from caribou.privacy.accounting import epsilon_of, gdp_mu
from caribou.privacy.arithmetic import Arithmetic, sum_arithmetic, vote_arithmetic
from caribou.privacy.budget import Budget
from caribou.privacy.documents import Cost, Count, Epsilon, NonNegative, Positive
from caribou.privacy.events import EpsilonDelta, Event, Gaussian, NonPrivate
from caribou.privacy.sensitivity import (
    LAYER_THEOREMS,
    Sensitivity,
    SumSensitivity,
    convergence_factor,
    neighbour_count_sensitivity,
    sum_sensitivity,
    vote_receiver_sensitivity,
    vote_sender_sensitivity,
)


@dataclass(frozen=True)
class CalibratedPropagation:
    """The record that perturbed message passing takes: so much noise, for this map, this bound and this many hops.

    ``noise_std`` is the standard deviation of the Gaussian added to every entry at every hop; with it the last state is
    mu-GDP (Theorem 1), mu = (Delta + 2 e) sqrt(kappa) / noise_std, where e is the bound on the arithmetic error. mu = inf and
    noise_std = 0 mean no privacy.
    """

    sensitivity: Sensitivity
    hops: Count
    kappa: float
    mu: Cost
    noise_std: NonNegative
    arithmetic: Arithmetic = field(default_factory=Arithmetic)

    @property
    def is_private(self) -> bool:
        """False for the noiseless run."""
        return math.isfinite(self.mu)

    @property
    def noise_multiplier(self) -> float:
        """noise_std per unit of sensitivity; 0 without noise."""
        return self.noise_std / self.sensitivity.value if self.noise_std > 0 else 0.0

    @property
    def event(self) -> Event:
        """What the release costs: one Gaussian mechanism of multiplier 1/mu."""
        return Gaussian(1 / self.mu) if self.is_private else NonPrivate()

    def event_at(self, degree: int) -> Event:
        """What it costs a node of this degree."""
        if not self.is_private:
            return NonPrivate()
        error = self.arithmetic.error(self.noise_std)
        return Gaussian(
            1
            / propagation_mu(
                sensitivity=self.sensitivity.at_degree(degree),
                kappa=self.kappa,
                noise_std=self.noise_std,
                arithmetic_error=error,
            )
        )

    def recomputed(self) -> CalibratedPropagation:
        """The record that layer, bounds, size, hops and noise give. Of this one nothing else is read."""
        s, size = self.sensitivity, self.arithmetic
        theorem = LAYER_THEOREMS[s.layer](s.unit, dict(s.parameters), s.bounds, None)
        kappa = convergence_factor(hops=self.hops, contraction=theorem.contraction)
        arithmetic = theorem.arithmetic(nodes=size.nodes, columns=size.columns, storage=size.storage)
        mu = math.inf
        if self.noise_std > 0:
            error = arithmetic.error(self.noise_std)
            mu = propagation_mu(
                sensitivity=theorem.value, kappa=kappa, noise_std=self.noise_std, arithmetic_error=error
            )
        return CalibratedPropagation(theorem, self.hops, kappa, _asked(self.mu, mu), self.noise_std, arithmetic)


def _asked(stated: float, mu: float) -> float:
    """The mu that noise was calibrated to, where it is what the noise gives: calibration rounds the noise up by a hair."""
    return stated if mu <= stated <= mu * (1 + 1e-12) else mu


def propagation_mu(*, sensitivity: float, kappa: float, noise_std: float, arithmetic_error: float = 0.0) -> float:
    """Theorem 1: mu = (Delta + 2 e) sqrt(kappa) / noise_std."""
    return (sensitivity + 2 * arithmetic_error) * math.sqrt(kappa) / positive(noise_std=noise_std)


def calibrate_propagation(
    sensitivity: Sensitivity, *, hops: int, mu: float, arithmetic: Arithmetic | None = None
) -> CalibratedPropagation:
    """The smallest noise with which K hops are mu-GDP.

    noise_std = (Delta + 2 e) sqrt(kappa) / mu; e itself grows with the noise (the rounding grid does), so with
    e = a + b noise_std and r = sqrt(kappa)/mu the solution is (Delta + 2 a) r / (1 - 2 b r).
    """
    if not mu > 0:
        raise InputError(f"mu must be > 0, got {mu!r}")
    hops = integer(at_least=1, at_most=MAX_ROUNDS, hops=hops)
    arithmetic = arithmetic or Arithmetic()
    kappa = convergence_factor(hops=hops, contraction=sensitivity.contraction)
    if math.isinf(mu):
        return CalibratedPropagation(sensitivity, hops, kappa, math.inf, 0.0, arithmetic)
    if sensitivity.value == 0:
        raise CalibrationError(
            "sensitivity is 0 (the layer gives edges no weight): such a release does not use the private edges"
        )
    noise_std = _smallest_noise_std(sensitivity.value, math.sqrt(kappa) / mu, arithmetic)
    return CalibratedPropagation(sensitivity, hops, kappa, mu, noise_std, arithmetic)


def _smallest_noise_std(sensitivity: float, r: float, arithmetic: Arithmetic) -> float:
    """(Delta + 2 a) r / (1 - 2 b r), rounded up: r standard deviations per unit of Delta + 2 e, e = a + b noise_std."""
    left = 1 - 2 * arithmetic.per_noise_std * r
    if left < 0.5:
        raise CalibrationError(
            f"noise of {r:.3g} sensitivities cannot be represented in double precision for this size; use a larger epsilon"
        )
    # The factor pushes the float result up, so that the mu recomputed from it is not above the one asked for.
    return (sensitivity + 2 * arithmetic.fixed) * r / left * (1 + 2.0**-48)


@dataclass(frozen=True)
class CalibratedSums:
    """The record that noisy sums over neighbours take: so much noise, for this bound and this many hops, all released.

    K adaptive Gaussian mechanisms compose exactly: mu = (Delta + 2 e) sqrt(K) / noise_std (Dong, Roth and Su 2022, Corollary 2).
    mu = inf and noise_std = 0 mean no privacy.
    """

    sensitivity: SumSensitivity
    hops: Count
    mu: Cost
    noise_std: NonNegative
    arithmetic: Arithmetic

    @property
    def event(self) -> Event:
        """What the release costs: K Gaussian mechanisms."""
        return Gaussian(math.sqrt(self.hops) / self.mu, self.hops) if math.isfinite(self.mu) else NonPrivate()

    def event_at(self, degree: int) -> Event:
        """What it costs a node of this degree."""
        if not math.isfinite(self.mu):
            return NonPrivate()
        mu = sums_mu(
            sensitivity=self.sensitivity.at_degree(degree),
            hops=self.hops,
            noise_std=self.noise_std,
            arithmetic_error=self.arithmetic.error(self.noise_std),
        )
        return Gaussian(math.sqrt(self.hops) / mu, self.hops)

    def recomputed(self) -> CalibratedSums:
        """The record that unit, bounds, size, hops and noise give. Of this one nothing else is read."""
        s, size = self.sensitivity, self.arithmetic
        theorem = sum_sensitivity(s.unit, bounds=s.bounds, radius=s.radius)
        arithmetic = sum_arithmetic(nodes=size.nodes, columns=size.columns, radius=theorem.radius)
        mu = math.inf
        if self.noise_std > 0:
            error = arithmetic.error(self.noise_std)
            mu = sums_mu(sensitivity=theorem.value, hops=self.hops, noise_std=self.noise_std, arithmetic_error=error)
        return CalibratedSums(theorem, self.hops, _asked(self.mu, mu), self.noise_std, arithmetic)


def calibrate_sums(sensitivity: SumSensitivity, *, hops: int, mu: float, nodes: int, columns: int) -> CalibratedSums:
    """The smallest noise with which K released sums of n rows and d columns are mu-GDP together.

    >>> from caribou.privacy.sensitivity import sum_sensitivity
    >>> round(calibrate_sums(sum_sensitivity("edge"), hops=2, mu=0.5, nodes=100, columns=16).noise_std, 6)
    4.0
    """
    if not mu > 0:
        raise InputError(f"mu must be > 0, got {mu!r}")
    hops = integer(at_least=1, at_most=MAX_ROUNDS, hops=hops)
    arithmetic = sum_arithmetic(nodes=nodes, columns=columns, radius=sensitivity.radius)
    if math.isinf(mu):
        return CalibratedSums(sensitivity, hops, math.inf, 0.0, arithmetic)
    mu *= 1 - 2.0**-44  # K multipliers of sqrt(K)/mu must not add up to more than was asked for
    noise_std = _smallest_noise_std(sensitivity.value, math.sqrt(hops) / mu, arithmetic)
    return CalibratedSums(sensitivity, hops, mu, noise_std, arithmetic)


def sums_mu(*, sensitivity: float, hops: int, noise_std: float, arithmetic_error: float) -> float:
    """mu = (Delta + 2 e) sqrt(K) / noise_std."""
    return (sensitivity + 2 * arithmetic_error) * math.sqrt(hops) / positive(noise_std=noise_std)


@dataclass(frozen=True)
class CalibratedVotes:
    """The record that votes at node level take: who moves what, and the noise on every entry.

    ``receivers_per_sender`` = M (None: no limit), ``declared_degree`` = d*: the degree up to which a node gets the headline.
    ``row_clip`` and ``validation_row_clip`` bound the length of a released row before noise. ``noise_std`` = 0: no privacy.
    """

    receivers_per_sender: Count | None
    declared_degree: Count
    row_clip: Positive
    validation_row_clip: Positive
    noise_std: NonNegative
    arithmetic: Arithmetic

    def __post_init__(self) -> None:
        if max(self.row_clip, self.validation_row_clip) > self.declared_degree:
            raise InputError(
                f"row_clip must be at most declared_degree = {self.declared_degree}, for which rounding is bounded"
            )

    def recomputed(self) -> CalibratedVotes:
        """The record with the rounding error that its size gives."""
        size, fractions = self.arithmetic, self.receivers_per_sender is not None
        radius = float(self.declared_degree)
        arithmetic = vote_arithmetic(nodes=size.nodes, columns=size.columns, radius=radius, fractions=fractions)
        return replace(self, arithmetic=arithmetic)

    def sender_event(self, degree: int | None = None) -> Event | None:
        """What a training node of this degree pays (None: of the declared one); nothing if it has no edge."""
        d = self.declared_degree if degree is None else degree
        return self._event(vote_sender_sensitivity(receivers_per_sender=self.receivers_per_sender, degree=d), d)

    def receiver_event(self, row_clip: float, degree: int | None = None) -> Event | None:
        """What any other node pays, whose own row is clipped to ``row_clip``."""
        d = self.declared_degree if degree is None else degree
        M = self.receivers_per_sender
        return self._event(vote_receiver_sensitivity(receivers_per_sender=M, row_clip=row_clip, degree=d), d)

    def _event(self, sensitivity: float, degree: int) -> Event | None:
        if self.noise_std == 0:
            return NonPrivate()
        moved = sensitivity + 2 * self.arithmetic.error(self.noise_std)
        return None if degree == 0 else Gaussian(self.noise_std / moved)


def calibrate_votes(
    *,
    receivers_per_sender: int | None,
    declared_degree: int,
    sender_mu: float,
    receiver_mu: float,
    validation_mu: float,
    nodes: int,
    columns: int,
) -> CalibratedVotes:
    """The smallest noise, and then the longest rows, with which nobody of degree up to d* pays more than given.

    A sender pays at most ``sender_mu``. A receiver's own row may be as long as ``receiver_mu`` (a validation node's:
    ``validation_mu``) allows beside its effect on other rows, but at least as long as one vote: noise grows until it may.

    >>> votes = calibrate_votes(receivers_per_sender=50, declared_degree=100, sender_mu=0.5, receiver_mu=1.0,
    ...                         validation_mu=0.9, nodes=1000, columns=4)
    >>> round(votes.noise_std, 3), round(votes.row_clip, 3), round(votes.validation_row_clip, 3)
    (14.142, 12.307, 10.652)
    """
    d, M = integer(at_least=1, declared_degree=declared_degree), receivers_per_sender
    arithmetic = vote_arithmetic(nodes=nodes, columns=columns, radius=float(d), fractions=M is not None)
    if math.isinf(sender_mu):
        return CalibratedVotes(M, d, float(d), float(d), 0.0, arithmetic)
    sending = vote_sender_sensitivity(receivers_per_sender=M, degree=d)
    receiving = vote_receiver_sensitivity(receivers_per_sender=M, row_clip=1.0, degree=d)
    noise_std = max(
        _smallest_noise_std(sending, 1 / positive(sender_mu=sender_mu), arithmetic),
        _smallest_noise_std(receiving, 1 / positive(receiver_mu=receiver_mu), arithmetic),
        _smallest_noise_std(receiving, 1 / positive(validation_mu=validation_mu), arithmetic),
    ) * (1 + 2.0**-40)

    def longest(mu: float) -> float:
        error = arithmetic.error(noise_std)
        others = vote_receiver_sensitivity(receivers_per_sender=M, row_clip=1e-300, degree=d)
        room = (mu * noise_std * (1 - 2.0**-40) - 2 * error) ** 2 - others**2
        return max(1.0, min(float(d), math.sqrt(max(room, 0.0)) * (1 - 2.0**-40)))

    return CalibratedVotes(M, d, longest(receiver_mu), longest(validation_mu), noise_std, arithmetic)


@dataclass(frozen=True)
class CalibratedCounts:
    """The record that noisy counts over neighbours take: ``stages`` = T releases that are ``epsilon``-DP together.

    Every count gets discrete Laplace noise, P(k) proportional to e^(-a |k|) with a = `noise_epsilon`. One edge moves the counts
    of a stage by Delta = `neighbour_count_sensitivity` in L1, so a stage costs Delta a, and T of them T Delta a: basic
    composition of pure epsilons (docs/privacy.md, Theorem 12). epsilon = inf: no noise, no privacy.

    >>> CalibratedCounts(stages=2, epsilon=4.0).noise_epsilon
    1.0
    """

    stages: Count
    epsilon: Epsilon

    def __post_init__(self) -> None:
        integer(at_least=1, at_most=MAX_ROUNDS, stages=self.stages)
        positive_or_inf(epsilon=self.epsilon)

    @property
    def noise_epsilon(self) -> float:
        """a = epsilon / (T Delta), rounded down: T Delta a is at most epsilon in exact arithmetic, too."""
        moved = self.stages * neighbour_count_sensitivity()
        a = self.epsilon / moved
        if math.isfinite(a) and Fraction(a) * moved > Fraction(self.epsilon):
            return math.nextafter(a, 0.0)
        return a

    @property
    def event(self) -> Event:
        """What all stages cost together."""
        return EpsilonDelta(self.epsilon) if math.isfinite(self.epsilon) else NonPrivate()


def budget_mu(budget: Budget) -> float:
    """The GDP parameter that a budget buys: the largest mu with delta(epsilon) <= delta; inf without privacy."""
    return gdp_mu(epsilon=budget.epsilon, delta=budget.delta) if budget.is_private else math.inf


def remaining_epsilon(events: Sequence[Event], budget: Budget) -> float:
    """The pure epsilon that may join ``events`` within the budget: basic composition, less what the accountant rounds up.

    At least 1e-9: nearly nothing can always be added to events that cost less than the budget.

    >>> round(remaining_epsilon([Gaussian(1 / 0.2)], Budget(1.0, 1e-5)), 2)
    0.27
    """
    if not budget.is_private:
        return math.inf
    left = max(1e-9, budget.epsilon - epsilon_of(events, budget.delta))
    while epsilon_of([*events, EpsilonDelta(left)], budget.delta) > budget.epsilon:
        left *= 0.98
        if left < 1e-9:
            raise CalibrationError(
                f"epsilon must be large enough for numerical composition (about 0.001), got {budget}"
            )
    return left
