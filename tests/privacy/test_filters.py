"""Privacy filters: an adversary who chooses every release by the outcomes of earlier ones, and what the totals promise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

from caribou.privacy import accounting, filters
from caribou.privacy.budget import Budget
from caribou.privacy.events import EpsilonDelta, Event, Gaussian, Laplace, NonPrivate, Parallel

Path = tuple[Event, ...]
"""One event for each release, in order."""


def filtered(path: Path, budget: Budget) -> float:
    return filters.total_epsilon([[event] for event in path], budget)


def fixed_in_advance(path: Path, budget: Budget) -> float:
    """The rule that is not a filter: composition as if nobody had looked in between."""
    return accounting.epsilon_of(path, budget.delta)


# -- outcomes: probability in the first world, and privacy loss ----------------------------------------------------

Outcomes = tuple[np.ndarray, np.ndarray]


def gaussian_outcomes(mu: float, cells: int) -> Outcomes:
    """The Gaussian mechanism, of which only the cell is shown that its value lies in."""
    edges = np.linspace(-9.0, 9.0 + mu, cells + 1)[1:-1]

    def weights(mean: float) -> np.ndarray:
        low, high = np.append(-np.inf, edges - mean), np.append(edges - mean, np.inf)
        return np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))

    with_it, without = weights(mu), weights(0.0)
    return with_it, np.log(with_it / without)


def outcomes(event: Event, cells: int) -> Outcomes:
    """The worst mechanism of this cost; Gaussian noise is shown in cells."""
    if isinstance(event, Gaussian):
        return gaussian_outcomes(1 / event.noise_multiplier, cells)
    assert isinstance(event, EpsilonDelta)
    right = (1 - event.delta) / (1 + math.exp(-event.epsilon))
    probabilities = [right, 1 - event.delta - right, event.delta]
    return np.array(probabilities), np.array([event.epsilon, -event.epsilon, np.inf])


def excess(epsilon: float, loss: np.ndarray) -> np.ndarray:
    """What an outcome of this loss adds to delta(epsilon)."""
    return np.maximum(0.0, -np.expm1(epsilon - loss))


class Adversary:
    """Plays all strategies: after every outcome the best of stopping and of every release that the rule accepts.

    ``delta`` is the exact hockey-stick divergence of the best tree of releases, by backward induction.
    """

    def __init__(
        self, rule: Callable[[Path, Budget], float], budget: Budget, menu: Sequence[Event], *, cells: int
    ) -> None:
        self.budget, self.menu = budget, tuple(menu)
        self.outcomes = {event: outcomes(event, cells) for event in menu}
        self.accepted = lru_cache(maxsize=None)(lambda path: rule(path, budget) <= budget.epsilon)

    def delta(self, *, releases: int, path: Path = ()) -> float:
        """The largest delta at the budget's epsilon with up to so many releases after those of ``path``."""
        loss, weight = np.zeros(1), np.ones(1)
        for event in path:
            probability, step = self.outcomes[event]
            loss, weight = np.add.outer(loss, step).ravel(), np.outer(weight, probability).ravel()
        return float(self._best(tuple(sorted(path, key=repr)), loss, releases) @ weight)

    def _best(self, path: Path, loss: np.ndarray, releases: int) -> np.ndarray:
        best = excess(self.budget.epsilon, loss)
        for event in self.menu if releases else ():
            further = tuple(sorted((*path, event), key=repr))
            if self.accepted(further):
                probability, step = self.outcomes[event]
                after = self._best(further, np.add.outer(loss, step).ravel(), releases - 1)
                best = np.maximum(best, after.reshape(len(loss), -1) @ probability)
        return best


class TestAllStrategiesOnFewMechanisms:
    BUDGET = Budget(1, delta=0.005)
    MU = accounting.gdp_mu(epsilon=1, delta=0.005)
    MENU = (
        Gaussian(1 / (0.3 * MU)),
        Gaussian(1 / (0.95 * MU)),
        EpsilonDelta(0.8),
        EpsilonDelta(0.2),
        EpsilonDelta(0.1, 0.00025),
    )

    def test_no_strategy_exceeds_the_budget(self) -> None:
        reached = Adversary(filtered, self.BUDGET, self.MENU, cells=60).delta(releases=3)
        assert 0.6 * self.BUDGET.delta < reached <= self.BUDGET.delta

    def test_the_same_strategies_exceed_it_if_composed_as_fixed_in_advance(self) -> None:
        reached = Adversary(fixed_in_advance, self.BUDGET, self.MENU, cells=60).delta(releases=3)
        assert reached > 1.4 * self.BUDGET.delta

    def test_without_a_choice_delta_is_that_of_the_composition(self) -> None:
        for path in product(self.MENU, repeat=2):
            epsilon = accounting.epsilon_of(path, self.BUDGET.delta)
            adversary = Adversary(fixed_in_advance, Budget(epsilon, self.BUDGET.delta), self.MENU, cells=400)
            assert adversary.delta(releases=0, path=path) <= self.BUDGET.delta * (1 + 1e-9)


# -- one choice that fills the budget up, in closed form ------------------------------------------------------------


def gaussian_delta(epsilon: np.ndarray, mu: float) -> np.ndarray:
    """Of N(mu, 1) against N(0, 1), at any real epsilon."""
    return np.exp(log_ndtr(-epsilon / mu + mu / 2)) - np.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2))


def filled_up(
    budget: Budget,
    path: Path,
    largest: Callable[[Path, Budget], tuple[float, float]],
    between: Sequence[Event] = (),
) -> float:
    """delta if ``path`` is followed, after every outcome, by the best of: nothing, and all that is left as Gaussian or as pure.

    ``largest`` gives what is left: mu and epsilon. ``between``: releases that may be made first, one of them.
    """

    def best(made: Path, loss: np.ndarray, further: Sequence[Event]) -> np.ndarray:
        mu, epsilon = largest(made, budget)
        value = excess(budget.epsilon, loss)
        if mu > 0:
            value = np.maximum(value, gaussian_delta(budget.epsilon - loss, mu))
        if epsilon > 0:
            probability, step = outcomes(EpsilonDelta(epsilon), 0)
            value = np.maximum(value, excess(budget.epsilon, np.add.outer(loss, step)) @ probability)
        for event in further:
            if largest(made, budget)[isinstance(event, EpsilonDelta)] >= _size(event):
                probability, step = outcomes(event, 300)
                after = best((*made, event), np.add.outer(loss, step).ravel(), ())
                value = np.maximum(value, after.reshape(len(loss), -1) @ probability)
        return value

    (first,) = path
    probability, step = outcomes(first, 300)
    return float(best(path, step, between) @ probability)


def _size(event: Event) -> float:
    return event.epsilon if isinstance(event, EpsilonDelta) else 1 / event.noise_multiplier  # type: ignore[union-attr]


def left_by_filters(path: Path, budget: Budget) -> tuple[float, float]:
    releases = [[event] for event in path]
    gaussian = filters.largest_gaussian(releases, budget)
    mu = accounting.gdp_mu(epsilon=gaussian, delta=budget.delta) if gaussian > 0 else 0.0
    return mu, filters.largest_pure(releases, budget)


def left_if_fixed_in_advance(path: Path, budget: Budget) -> tuple[float, float]:
    """By the exact delta of Gaussians and randomized response: a sum over all signs of their losses."""
    pures = [event.epsilon for event in path if isinstance(event, EpsilonDelta)]
    squares = sum(1 / event.noise_multiplier**2 for event in path if isinstance(event, Gaussian))

    def fits(mu_squared: float, epsilons: Sequence[float]) -> bool:
        delta = 0.0
        for signs in product((1, -1), repeat=len(epsilons)):
            losses = [sign * epsilon for sign, epsilon in zip(signs, epsilons, strict=True)]
            probability = math.prod(1 / (1 + math.exp(-loss)) for loss in losses)
            rest = np.array(budget.epsilon - sum(losses))
            one = gaussian_delta(rest, math.sqrt(mu_squared)) if mu_squared else np.maximum(0.0, -np.expm1(rest))
            delta += probability * float(one)
        return delta <= budget.delta

    def largest(accepted: Callable[[float], bool]) -> float:
        low, high = 0.0, 2 * budget.epsilon
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if accepted(middle) else (low, middle)
        return low

    return largest(lambda mu: fits(squares + mu * mu, pures)), largest(lambda e: fits(squares, [*pures, e]))


def fractions_of(budget: Budget, *, gaussian: float = 0.0, pure: float = 0.0) -> Event:
    mu = accounting.gdp_mu(epsilon=budget.epsilon, delta=budget.delta)
    return Gaussian(1 / (gaussian * mu)) if gaussian else EpsilonDelta(pure * budget.epsilon)


BUDGETS = [Budget(1), Budget(4), Budget(8), Budget(1, delta=1e-2)]


class TestFillingUp:
    @pytest.mark.parametrize("budget", BUDGETS, ids=str)
    @pytest.mark.parametrize("part", [0.1, 0.3, 0.7])
    def test_never_exceeds_the_budget(self, budget: Budget, part: float) -> None:
        further = [fractions_of(budget, gaussian=0.3), fractions_of(budget, pure=0.1)]
        for first in (fractions_of(budget, gaussian=part), fractions_of(budget, pure=part)):
            assert filled_up(budget, (first,), left_by_filters, further) <= budget.delta

    @pytest.mark.parametrize(("budget", "times"), list(zip(BUDGETS, [2.9, 2.9, 2.9, 1.8], strict=True)), ids=str)
    def test_exceeds_it_by_far_if_composed_as_fixed_in_advance(self, budget: Budget, times: float) -> None:
        first = fractions_of(budget, gaussian=0.2)
        further = [fractions_of(budget, gaussian=0.3), fractions_of(budget, pure=0.1)]
        assert filled_up(budget, (first,), left_if_fixed_in_advance, further) > times * budget.delta

    @pytest.mark.parametrize("budget", BUDGETS, ids=str)
    def test_every_share_is_needed(self, budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
        """If every filter had the whole delta, the adversary would get more than that by changing between them."""
        for share in ("GAUSSIAN_SHARE", "RENYI_SHARE"):
            monkeypatch.setattr(filters, share, 1.0)
        first = fractions_of(budget, gaussian=0.2)
        further = [fractions_of(budget, gaussian=0.3), fractions_of(budget, pure=0.1)]
        assert filled_up(budget, (first,), left_by_filters, further) > 1.2 * budget.delta

    @pytest.mark.parametrize("budget", BUDGETS, ids=str)
    def test_the_gaussian_share_is_used_up(self, budget: Budget) -> None:
        reached = filled_up(budget, (fractions_of(budget, gaussian=0.3),), left_by_filters)
        assert reached > 0.99 * filters.GAUSSIAN_SHARE * budget.delta

    def test_pure_releases_alone_exceed_it_as_well(self) -> None:
        """Composed as fixed in advance: one large release, or several small ones, by the outcome of the first."""
        budget = Budget(1, delta=1e-2)
        probability, first = outcomes(EpsilonDelta(0.1), 0)

        def after(each: float, count: int) -> np.ndarray:
            """What ``count`` further pure releases add to delta, for each outcome of the first."""
            right = np.arange(count + 1)
            weights = binom.pmf(right, count, 1 / (1 + math.exp(-each)))
            return excess(budget.epsilon, np.add.outer(first, each * (2 * right - count))) @ weights

        best = np.zeros(len(first))
        for count in range(1, 11):
            low, high = 0.0, 2.0
            for _ in range(40):
                middle = (low + high) / 2
                low, high = (middle, high) if after(middle, count) @ probability <= budget.delta else (low, middle)
            best = np.maximum(best, after(low, count))
        assert best @ probability > 1.3 * budget.delta


class TestShares:
    def test_they_add_up_to_delta(self) -> None:
        orders = len(filters.renyi_orders(Budget(1)))
        assert filters.GAUSSIAN_SHARE + orders * filters.RENYI_SHARE + filters.ADDED_SHARE == 1

    @pytest.mark.parametrize("budget", BUDGETS, ids=str)
    def test_each_filter_judges_at_its_share(self, budget: Budget) -> None:
        """Of two equal releases; by closed forms of their own."""
        whole = accounting.gdp_mu(epsilon=budget.epsilon, delta=filters.GAUSSIAN_SHARE * budget.delta)
        half = Gaussian(math.sqrt(2) / whole)
        assert filtered((half, half), budget) == pytest.approx(budget.epsilon, rel=1e-9)

        half = EpsilonDelta(budget.epsilon / 2)
        assert filtered((half, half), budget) == budget.epsilon

        steps = Laplace(40.0, 100)  # where the budget is not small, the Renyi filter is the best one
        conversions = [
            2 * accounting.rdp_at([steps], a)
            + math.log1p(-1 / a)
            - math.log(a * budget.delta * filters.RENYI_SHARE) / (a - 1)
            for a in filters.renyi_orders(budget)
        ]
        mu = math.sqrt(200) * accounting.pure_gdp_mu(1 / 40)
        by_gaussian = accounting.gdp_epsilon(mu=mu, delta=filters.GAUSSIAN_SHARE * budget.delta)
        assert filtered((steps, steps), budget) == pytest.approx(min(*conversions, by_gaussian), rel=1e-9)
        assert min(conversions) < by_gaussian or budget.epsilon <= 1

    def test_a_pure_release_beside_gaussian_noise_uses_the_gaussian_share_and_no_more(self) -> None:
        """At a small epsilon and a large delta randomized response is nearly as bad as the Gaussian that bounds it."""
        budget, low, high = Budget(0.01, delta=0.15), 0.0, 1.0
        for _ in range(40):
            pure = (low + high) / 2
            accepted = filtered((Gaussian(1e6), EpsilonDelta(pure)), budget) <= budget.epsilon
            low, high = (pure, high) if accepted else (low, pure)
        probability, loss = outcomes(EpsilonDelta(low), 0)
        reached = float(excess(budget.epsilon, loss) @ probability)
        assert 0.95 < reached / (filters.GAUSSIAN_SHARE * budget.delta) <= 1

    def test_deltas_of_releases_are_added_once_and_up_to_their_share(self) -> None:
        budget = Budget(4, delta=2.0**-16)
        one = EpsilonDelta(0.5, filters.ADDED_SHARE * budget.delta / 2)
        assert filtered((one, one), budget) == 1.0
        assert filtered((one, one, EpsilonDelta(0.1, 1e-15)), budget) == math.inf
        assert filtered((one, one, Gaussian(2.0)), budget) == filtered(
            (EpsilonDelta(0.5),) * 2 + (Gaussian(2.0),), budget
        )

    def test_an_unbounded_share_of_them_is_exceeded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        budget = Budget(1, delta=1e-3)
        revealing = EpsilonDelta(0.0, budget.delta / 2)
        mu = accounting.gdp_mu(epsilon=1, delta=filters.GAUSSIAN_SHARE * budget.delta)
        menu = (revealing, Gaussian(math.sqrt(2) / mu))
        honest = Adversary(filtered, budget, menu, cells=60).delta(releases=4)
        monkeypatch.setattr(filters, "ADDED_SHARE", 1.0)
        assert honest <= budget.delta < Adversary(filtered, budget, menu, cells=60).delta(releases=4)

    @pytest.mark.parametrize("epsilon", [2.0**-20, 1e-3, 1.0, 40.0])
    def test_orders_follow_from_the_budget(self, epsilon: float) -> None:
        orders = filters.renyi_orders(Budget(epsilon))
        assert orders == tuple(sorted(orders))
        assert orders[0] >= 2
        assert math.isfinite(filtered((Laplace(9.0, 3), Gaussian(9.0)), Budget(epsilon)))


def events() -> st.SearchStrategy[Event]:
    noise, size = st.floats(0.5, 100.0), st.floats(0.0, 2.0)
    count = st.integers(1, 4)
    single = (
        st.builds(Gaussian, noise, count)
        | st.builds(Laplace, noise, count)
        | st.builds(EpsilonDelta, size)
        | st.builds(EpsilonDelta, size, st.floats(0.0, 2e-6))
    )
    return single | st.builds(Parallel, st.lists(st.lists(single, max_size=2), min_size=1, max_size=2))


def releases() -> st.SearchStrategy[list[list[Event]]]:
    return st.lists(st.lists(events(), max_size=2), max_size=4)


def budgets() -> st.SearchStrategy[Budget]:
    return st.builds(Budget, st.floats(0.1, 10.0), st.sampled_from([1e-6, 1e-5, 1e-3]))


class TestProperties:
    @settings(max_examples=60, deadline=None)
    @given(releases(), st.lists(events(), max_size=2), budgets())
    def test_one_more_release_never_lowers_the_total(
        self, made: list[list[Event]], further: list[Event], budget: Budget
    ) -> None:
        before = filters.total_epsilon(made, budget)
        assert filters.total_epsilon([*made, further], budget) >= before

    @settings(max_examples=60, deadline=None)
    @given(releases(), budgets(), st.randoms())
    def test_the_order_does_not_matter(self, made: list[list[Event]], budget: Budget, random: object) -> None:
        shuffled = list(made)
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        assert filters.total_epsilon(shuffled, budget) == pytest.approx(filters.total_epsilon(made, budget), rel=1e-12)

    @settings(max_examples=40, deadline=None)
    @given(st.lists(events(), min_size=1, max_size=2), budgets())
    def test_one_release_costs_no_more_than_it_is_certified_for(self, release: list[Event], budget: Budget) -> None:
        certified = accounting.epsilon_of(release, budget.delta)
        for free in ([], [[]], [[EpsilonDelta(0.0)], []]):
            assert filters.total_epsilon([*free, release], budget) <= certified

    @settings(max_examples=25, deadline=None)
    @given(releases(), budgets())
    def test_what_is_left_is_accepted_and_little_more_is_not(self, made: list[list[Event]], budget: Budget) -> None:
        def fits(event: Event) -> bool:
            return filters.total_epsilon([*made, [event]], budget) <= budget.epsilon

        pure, gaussian = filters.largest_pure(made, budget), filters.largest_gaussian(made, budget)
        if pure > 0:
            assert fits(EpsilonDelta(pure))
        if not all(map(filters.costs_nothing, made)):  # a first one may use delta, too
            assert not fits(EpsilonDelta(pure * 1.001 + 1e-6))
        mu = accounting.gdp_mu(epsilon=gaussian, delta=budget.delta) if gaussian > 0 else 0.0
        if mu > 0:
            assert fits(Gaussian(1 / (mu * (1 - 1e-9))))
        assert not fits(Gaussian(1 / (mu * 1.001 + 1e-6)))


class TestGroups:
    def test_the_most_expensive_choice_counts(self) -> None:
        budget = Budget(4)
        groups = Parallel(((Gaussian(2.0),), (EpsilonDelta(0.75),)))
        worst = max(
            filters.total_epsilon([[a], [b]], budget)
            for a in (Gaussian(2.0), EpsilonDelta(0.75))
            for b in (Gaussian(2.0), EpsilonDelta(0.75))
        )
        assert filters.total_epsilon([[groups], [groups]], budget) == pytest.approx(worst, rel=1e-12)

    def test_without_noise_nothing_is_left(self) -> None:
        assert filters.total_epsilon([[NonPrivate()], [Gaussian(5.0)]], Budget(4)) == math.inf
        assert filters.largest_pure([[NonPrivate()]], Budget(4)) == 0
        assert filters.largest_gaussian([[NonPrivate()]], Budget(4)) == 0

    def test_what_costs_nothing(self) -> None:
        nothing = EpsilonDelta(0.0)
        assert filters.costs_nothing([nothing, Parallel(((nothing,), ()))])
        for event in (
            EpsilonDelta(0.0, 1e-9),
            EpsilonDelta(1e-9),
            Gaussian(1e9),
            NonPrivate(),
            Parallel(((Gaussian(1e9),),)),
        ):
            assert not filters.costs_nothing([nothing, event])


def test_several_further_releases_are_the_largest_that_are_accepted_together() -> None:
    budget, before = Budget(4), [[Gaussian(3.0)]]
    for count in (1, 2, 12):
        for largest, event in (
            (filters.largest_pure, EpsilonDelta),
            (filters.largest_gaussian, lambda e: Gaussian(1 / accounting.gdp_mu(epsilon=e, delta=1e-5))),
        ):
            size = largest(before, budget, count)
            assert filters.total_epsilon([*before, *[[event(size)]] * count], budget) <= 4 * (1 + 1e-9)
            assert filters.total_epsilon([*before, *[[event(size * 1.001)]] * count], budget) > 4
