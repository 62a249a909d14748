"""Months: what a year of releases about the same people costs, by the ledger's own composition, before any data is touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from caribou._validate import MAX_ROUNDS, integer, open_unit_interval
from caribou.errors import InputError
from caribou.privacy import filters
from caribou.privacy.accounting import gdp_mu, group_of_two
from caribou.privacy.budget import LARGEST_EPSILON, Budget, PrivacyUnit
from caribou.privacy.events import EpsilonDelta, Event, Gaussian

Release = tuple[Event, ...]


@dataclass(frozen=True)
class MonthlyPlan:
    """One way to make a release in every month within one budget.

    Args:
        way: what is done, in words.
        methods: which methods can do it.
        first, later: epsilon of the release in the first month, and in each later one, at the budget's delta; 0: nothing more.
        presence: the total, by the filters of the ledger: is this unit there?
        replacement: the total of two steps: is it this one or that one?
    """

    way: str
    methods: str
    first: float
    later: float
    presence: float
    replacement: float


def monthly_plans(budget: Budget, months: int, first_share: float = 0.5) -> tuple[MonthlyPlan, ...]:
    """The ways to make ``months`` monthly releases within a finite budget, each with the largest epsilons that fit.

    ``first_share``: of epsilon, for the fit, where later months are predicted with a smaller one. Totals are those of a ledger
    (`caribou.privacy.filters`): mu^2 of Gaussian releases add up, and so do pure epsilons.

    >>> [(plan.way, round(plan.first, 3), round(plan.later, 3)) for plan in monthly_plans(Budget(8), 12)][:2]
    [('fit once, extend', 8.0, 0.0), ('fit anew, pure noise', 0.667, 0.667)]
    """
    integer(at_least=1, at_most=MAX_ROUNDS, months=months)
    open_unit_interval(first_share=first_share)
    if not budget.is_private:
        raise InputError("epsilon must be finite to plan months (inf means no privacy), got inf")
    edge = budget.unit is PrivacyUnit.EDGE
    fits = "caribou-edp, gap-edp, votes-edp with noise=gaussian" if edge else "mlp-dp, votes-ndp, caribou-ndp"
    predicts = "caribou-edp, gap-edp" if edge else "caribou-ndp, gap-ndp"
    found = []
    if edge:
        found += [
            _plan("fit once, extend", "votes-edp", budget, [_pure(budget, budget.epsilon)], budget.epsilon, 0.0),
            _repeated("fit anew, pure noise", "votes-edp", budget, months, _pure, filters.largest_pure),
        ]
    else:
        whole = [_gaussian(budget, budget.epsilon)]
        found.append(_plan("fit once, predict from own features", "mlp-dp", budget, whole, budget.epsilon, 0.0))
    found.append(_repeated("fit anew, Gaussian noise", fits, budget, months, _gaussian, filters.largest_gaussian))
    if months > 1:
        first = first_share * budget.epsilon
        kinds = [("Gaussian", predicts, _gaussian, filters.largest_gaussian)]
        if edge:
            kinds.insert(0, ("pure", "votes-edp", _pure, filters.largest_pure))
        for noise, methods, event, largest in kinds:
            paid = event(budget, first)
            later = largest([paid], budget, months - 1)
            releases = [paid, *([event(budget, later)] if later > 0 else []) * (months - 1)]
            way = f"fit once, predict with a small epsilon, {noise} noise"
            found.append(_plan(way, methods, budget, releases, first, later))
    return tuple(found)


def _pure(budget: Budget, epsilon: float) -> Release:
    return (EpsilonDelta(epsilon),)


def _gaussian(budget: Budget, epsilon: float) -> Release:
    return (Gaussian(1 / gdp_mu(epsilon=epsilon, delta=budget.delta)),)


def _repeated(
    way: str,
    methods: str,
    budget: Budget,
    months: int,
    event: Callable[[Budget, float], Release],
    largest: Callable[[list[Release], Budget, int], float],
) -> MonthlyPlan:
    each = largest([], budget, months)
    return _plan(way, methods, budget, [event(budget, each)] * months, each, each)


def _plan(way: str, methods: str, budget: Budget, releases: list[Release], first: float, later: float) -> MonthlyPlan:
    # two steps cost about twice as much: filters that are tuned to that
    twice = Budget(min(2 * budget.epsilon, LARGEST_EPSILON), budget.delta, budget.unit)
    return MonthlyPlan(
        way,
        methods,
        first,
        later,
        filters.total_epsilon(releases, budget),
        filters.total_epsilon([group_of_two(release) for release in releases], twice),
    )
