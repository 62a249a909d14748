"""Privacy filters: what releases that are chosen one after the other cost together, under a budget fixed before.

Whoever chooses the next release may have seen all earlier ones. Composition as if the releases had been fixed in
advance (`caribou.privacy.accounting.epsilon_of`) is then not a bound: with releases of one kind where the loss was
small, and of another kind where it was large, delta is up to three times the stated one. A *filter* is a rule that
stays true under every such choice (Rogers, Roth, Ullman and Vadhan 2016). Three kinds watch the releases of a data set:

* the sum of epsilons (pure releases), which needs no delta;
* the sum of mu^2 (GDP), where a pure release counts with the mu of `accounting.pure_gdp_mu`;
* the sum of Renyi bounds at one order, for each of a few orders that follow from the budget alone.

A release is accepted if one of them accepts all releases so far together with the new one. Each has its own share of
delta, and the shares add up to the budget's. docs/privacy.md (Theorem 13) states and proves what that gives. One
release alone is chosen before anything is seen, so its own certified cost counts, with the whole delta.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from caribou.privacy import accounting
from caribou.privacy.budget import Budget
from caribou.privacy.events import (
    EpsilonDelta,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    Parallel,
    choices,
)

GAUSSIAN_SHARE = 3 / 4
"""Of delta, for the GDP filter: Gaussian releases alone are the usual case, and should lose little."""

CONVERSION_PARTS = (2, 4, 8, 16)
"""At the Renyi order 1 + c log(1/delta) / epsilon the conversion takes about epsilon / c, and the rest is for releases.
c = 2 is best for small releases; a larger c leaves more to large pure ones beside a little Gaussian noise."""

RENYI_SHARE = 1 / 32
"""Of delta, for the Renyi filter at each of these orders."""

ADDED_SHARE = 1 / 8
"""Of delta, for the deltas of releases known by (epsilon, delta) alone. They are added up, once for all filters."""

Release = Sequence[Event]


def renyi_orders(budget: Budget) -> tuple[int, ...]:
    """The orders of the Renyi filters: whole numbers that follow from the budget alone.

    >>> renyi_orders(Budget(4))
    (7, 13, 25, 48)
    """
    t = math.log(1 / budget.delta) / budget.epsilon
    return tuple(math.ceil(1 + c * t) for c in CONVERSION_PARTS)


def total_epsilon(releases: Sequence[Release], budget: Budget) -> float:
    """What all ``releases`` cost together by the filters of a finite ``budget``: accepted if it is at most epsilon.

    It is the smallest figure of the filters; of `Parallel` groups the most expensive choice counts. It never falls when
    a release is added, and does not depend on their order. If just one release costs anything at all, it counts with
    its own epsilon at the whole delta.

    >>> budget = Budget(4)
    >>> total_epsilon([[EpsilonDelta(1.0)], [EpsilonDelta(0.5)]], budget)
    1.5
    """
    costly = [release for release in releases if not costs_nothing(release)]
    total = max(_epsilon(sums, budget) for sums in _sums_of_choices(costly, budget))
    return min(total, accounting.epsilon_of(costly[0], budget.delta)) if len(costly) == 1 else total


def costs_nothing(release: Release) -> bool:
    """Whether a release has the same distribution in both worlds."""
    return all(
        all(map(costs_nothing, event.groups)) if isinstance(event, Parallel) else event == EpsilonDelta(0.0)
        for event in release
    )


def largest_pure(releases: Sequence[Release], budget: Budget, count: int = 1) -> float:
    """The largest epsilon, up to the budget's, of one further pure release that is accepted, rounded down.

    A first one may cost the whole budget. ``count``: of so many further ones, all alike.

    >>> round(largest_pure([[EpsilonDelta(1.0)]], Budget(4), count=2), 6)
    1.5
    """
    return _largest(releases, budget, EpsilonDelta, budget.epsilon, count)


def largest_gaussian(releases: Sequence[Release], budget: Budget, count: int = 1) -> float:
    """The same for further Gaussian releases: the epsilon of each at the budget's delta."""
    whole = accounting.gdp_mu(epsilon=budget.epsilon, delta=budget.delta)
    mu = _largest(releases, budget, lambda mu: Gaussian(1 / mu), whole, count)
    if mu in (0.0, whole):
        return budget.epsilon if mu else 0.0
    return accounting.gdp_epsilon(mu=mu, delta=budget.delta)


def _largest(
    releases: Sequence[Release], budget: Budget, event: Callable[[float], Event], whole: float, count: int
) -> float:
    """The largest size up to ``whole`` of ``count`` further events that are accepted, to 10^-12 of it; 0 if none is."""
    if count == 1 and all(map(costs_nothing, releases)):
        return whole
    before = set(_sums_of_choices(releases, budget))

    def accepted(size: float) -> bool:
        (further,) = _sums_of_choices([[event(size)]] * count, budget)
        return all(_epsilon(sums.plus(further), budget) <= budget.epsilon for sums in before)

    if accepted(whole):
        return whole
    low, high = 0.0, whole
    while high - low > 1e-12 * whole:
        middle = (low + high) / 2
        low, high = (middle, high) if accepted(middle) else (low, middle)
    return low


# -- the filters ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sums:
    """What a list of events adds up to in each filter; infinite in one that cannot judge an event of it."""

    delta: float
    pure: float
    mu_squared: float
    renyi: tuple[float, ...]

    def plus(self, other: _Sums) -> _Sums:
        renyi = tuple(map(operator.add, self.renyi, other.renyi))
        return _Sums(self.delta + other.delta, self.pure + other.pure, self.mu_squared + other.mu_squared, renyi)


def _sums_of_choices(releases: Sequence[Release], budget: Budget) -> list[_Sums]:
    """The sums of every list of events that one protected unit may have to pay."""
    events = [event for release in releases for event in release]
    grouped = any(isinstance(event, Parallel) for event in events)
    orders = renyi_orders(budget)
    return [_sums(paid, orders) for paid in (choices(events) if grouped else [tuple(events)])]


def _sums(paid: Sequence[Event], orders: tuple[int, ...]) -> _Sums:
    if any(isinstance(event, NonPrivate) for event in paid):
        return _Sums(math.inf, math.inf, math.inf, (math.inf,) * len(orders))
    # An (epsilon, delta) release is pure but for an event of probability delta (Kairouz, Oh and Viswanath 2015).
    rest = [EpsilonDelta(e.epsilon) if isinstance(e, EpsilonDelta) else e for e in paid]
    pure = accounting.pure_epsilon(rest)
    return _Sums(
        delta=math.fsum(e.delta for e in paid if isinstance(e, EpsilonDelta)),
        pure=math.inf if pure is None else pure,
        mu_squared=math.fsum(map(_mu_squared, rest)),
        renyi=tuple(math.fsum(_renyi_bound(event, order) for event in rest) for order in orders),
    )


def _epsilon(sums: _Sums, budget: Budget) -> float:
    """The smallest figure of the filters, each at its share of delta."""
    if sums.delta > ADDED_SHARE * budget.delta:
        return math.inf
    mu, share = math.sqrt(sums.mu_squared), RENYI_SHARE * budget.delta
    return min(
        sums.pure,
        accounting.gdp_epsilon(mu=mu, delta=GAUSSIAN_SHARE * budget.delta) if mu > 0 else 0.0,
        *(
            max(0.0, bound + accounting.rdp_conversion(order=order, delta=share))
            for order, bound in zip(renyi_orders(budget), sums.renyi, strict=True)
        ),
    )


def _mu_squared(event: Event) -> float:
    """mu^2 of an event; infinite where no useful mu is known."""
    if isinstance(event, Gaussian):
        return event.count / event.noise_multiplier**2
    if isinstance(event, Laplace):
        return event.count * accounting.pure_gdp_mu(1 / event.noise_multiplier) ** 2
    pure = accounting.accounting_of(event).pure(event)
    return math.inf if pure is None else accounting.pure_gdp_mu(pure) ** 2


def _renyi_bound(event: Event, order: int) -> float:
    """Rounded up: the closed forms subtract numbers of nearly the same size, once for each mechanism."""
    mechanisms = event.count if isinstance(event, Laplace) else 1
    return max(0.0, accounting.accounting_of(event).rdp(event, order)) + mechanisms * 2.0**-50
