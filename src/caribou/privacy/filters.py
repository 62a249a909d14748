"""Privacy filters: what releases that are chosen one after the other cost together, under a budget that was fixed before.

Whoever chooses the next release may have seen all earlier ones. Composition as if the releases had been fixed in advance
(`caribou.privacy.accounting.epsilon_of`) is then not a bound: releases of one kind where the loss was small, and of
another kind where it was large, reach a delta of two to three times the stated one. A *filter* is a rule that stays true
under every such choice (Rogers, Roth, Ullman and Vadhan 2016). Three kinds of filters watch the releases of a data set:

* the sum of epsilons (pure releases), which needs no delta;
* the sum of mu^2 (GDP), where a pure release counts with the mu of `accounting.pure_gdp_mu`;
* the sum of Renyi bounds at one order, for each of a few orders that follow from the budget alone.

A release is accepted if one of them accepts all releases so far together with the new one. Each has its own share of delta,
and the shares add up to the budget's. docs/privacy.md (Theorem 13) states and proves what that gives. One release alone is
chosen before anything is seen, so its own certified cost counts, with the whole delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from caribou.privacy import accounting
from caribou.privacy.budget import Budget
from caribou.privacy.events import EpsilonDelta, Event, Gaussian, Laplace, Parallel, SubsampledGaussian

GAUSSIAN_SHARE = 3 / 4
"""Of delta, for the GDP filter: Gaussian releases alone are the usual case, and should lose little."""

CONVERSION_PARTS = (2, 4, 8, 16)
"""At the Renyi order 1 + c log(1/delta) / epsilon the conversion takes about epsilon / c, and the rest is for releases. c = 2 is
best for small releases, a larger c leaves more to large pure ones beside a little Gaussian noise."""

RENYI_SHARE = 1 / 32
"""Of delta, for the Renyi filter at each of these orders."""

ADDED_SHARE = 1 / 8
"""Of delta, for the deltas that releases known by (epsilon, delta) alone bring along. They are added up, once for all filters."""

Release = Sequence[Event]


def renyi_orders(budget: Budget) -> tuple[int, ...]:
    """The orders of the Renyi filters: whole numbers that follow from the budget alone.

    >>> renyi_orders(Budget(4))
    (7, 13, 25, 48)
    """
    t = math.log(1 / budget.delta) / budget.epsilon
    return tuple(math.ceil(1 + c * t) for c in CONVERSION_PARTS)


def total_epsilon(releases: Sequence[Release], budget: Budget) -> float:
    """What all ``releases`` cost together by the filters of a finite ``budget``: they are accepted if it is at most epsilon.

    It is the smallest figure of the filters; of `Parallel` groups the most expensive choice counts. It never falls when a release
    is added, and does not depend on their order. A single release that costs anything at all counts with its own epsilon
    at the whole delta.

    >>> budget = Budget(4)
    >>> total_epsilon([[EpsilonDelta(1.0)], [EpsilonDelta(0.5)]], budget)
    1.5
    """
    costly = [release for release in releases if not costs_nothing(release)]
    total = _filtered_epsilon([event for release in costly for event in release], budget)
    return min(total, accounting.epsilon_of(costly[0], budget.delta)) if len(costly) == 1 else total


def costs_nothing(release: Release) -> bool:
    """Whether a release has the same distribution in both worlds."""
    return all(
        all(map(costs_nothing, event.groups)) if isinstance(event, Parallel) else event == EpsilonDelta(0.0)
        for event in release
    )


def largest_pure(releases: Sequence[Release], budget: Budget) -> float:
    """The largest epsilon, up to the budget's, of one further pure release that is accepted, rounded down.

    A first one may cost the whole budget.
    """
    if all(map(costs_nothing, releases)):
        return budget.epsilon

    def accepted(epsilon: float) -> bool:
        return total_epsilon([*releases, [EpsilonDelta(epsilon)]], budget) <= budget.epsilon

    return _largest(accepted, budget.epsilon)


def largest_gaussian(releases: Sequence[Release], budget: Budget) -> float:
    """The same for one further Gaussian release: its epsilon at the budget's delta."""
    if all(map(costs_nothing, releases)):
        return budget.epsilon
    whole = accounting.gdp_mu(epsilon=budget.epsilon, delta=budget.delta)

    def accepted(mu: float) -> bool:
        return total_epsilon([*releases, [Gaussian(1 / mu)]], budget) <= budget.epsilon

    mu = _largest(accepted, whole)
    return min(budget.epsilon, accounting.gdp_epsilon(mu=mu, delta=budget.delta)) if mu > 0 else 0.0


def _largest(accepted: Callable[[float], bool], whole: float) -> float:
    """The largest number up to ``whole`` that is accepted, to 10^-12 of it; 0 if none is."""
    if accepted(whole):
        return whole
    low, high = 0.0, whole
    while high - low > 1e-12 * whole:
        middle = (low + high) / 2
        low, high = (middle, high) if accepted(middle) else (low, middle)
    return low


# -- the filters ---------------------------------------------------------------------------------------------------


def _filtered_epsilon(events: Sequence[Event], budget: Budget) -> float:
    """The smallest figure of the filters for the list of events that is worst for them."""
    orders = renyi_orders(budget)

    def judge(paid: Sequence[Event]) -> float:
        if math.fsum(e.delta for e in paid if isinstance(e, EpsilonDelta)) > ADDED_SHARE * budget.delta:
            return math.inf
        # An (epsilon, delta) release is pure but for an event of probability delta (Kairouz, Oh and Viswanath 2015).
        rest = [EpsilonDelta(e.epsilon) if isinstance(e, EpsilonDelta) else e for e in paid]
        pure = accounting.pure_epsilon(rest)
        return min(
            math.inf if pure is None else pure,
            _gdp_filter(rest, GAUSSIAN_SHARE * budget.delta),
            *(_renyi_filter(rest, order, RENYI_SHARE * budget.delta) for order in orders),
        )

    return accounting.worst_choice(events, judge, nothing=0.0, no_noise=math.inf)


def _gdp_filter(events: Sequence[Event], delta: float) -> float:
    mu = math.sqrt(math.fsum(map(_mu_squared, events)))
    return accounting.gdp_epsilon(mu=mu, delta=delta) if mu > 0 else 0.0


def _mu_squared(event: Event) -> float:
    """mu^2 of an event; infinite where no useful mu is known."""
    if isinstance(event, Gaussian):
        return event.count / event.noise_multiplier**2
    if isinstance(event, Laplace):
        return event.count * accounting.pure_gdp_mu(1 / event.noise_multiplier) ** 2
    pure = accounting.accounting_of(event).pure(event)
    return math.inf if pure is None else accounting.pure_gdp_mu(pure) ** 2


def _renyi_filter(events: Sequence[Event], order: int, delta: float) -> float:
    total = math.fsum(_renyi_bound(event, order) for event in events)
    return max(0.0, total + accounting.rdp_conversion(order=order, delta=delta))


def _renyi_bound(event: Event, order: int) -> float:
    """Rounded up: the closed forms subtract numbers of nearly the same size, once for each mechanism."""
    if isinstance(event, SubsampledGaussian):
        return accounting.subsampled_rdp(event, order)
    mechanisms = event.count if isinstance(event, Laplace) else 1
    return max(0.0, accounting.accounting_of(event).rdp(event, order)) + mechanisms * 2.0**-50
