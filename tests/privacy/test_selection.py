"""Private selection: the bound holds against the exact distribution of the best of a random number of trials."""

from __future__ import annotations

import math

import pytest

from caribou.errors import CalibrationError, InputError
from caribou.privacy.accounting import epsilon_of, rdp_at, rdp_epsilon_of
from caribou.privacy.budget import SMALLEST_EPSILON, Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import EpsilonDelta, Event, Gaussian, Laplace
from caribou.privacy.selection import RandomTrials, plan_selection, selection_epsilon

DELTA = 1e-5


def probabilities(trials: RandomTrials, upto: int = 20_000) -> list[float]:
    g = trials.stop
    if trials.shape == 1:
        return [g * (1 - g) ** (k - 1) for k in range(1, upto)]
    return [(1 - g) ** k / (k * math.log(1 / g)) for k in range(1, upto)]


def hockey_stick(p: list[float], q: list[float], epsilon: float) -> float:
    return max(sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(x, y, strict=True)) for x, y in ((p, q), (q, p)))


def best_of(win: float, trials: RandomTrials) -> list[float]:
    """Outcome of the best of K trials that win with a probability: (somebody won, nobody won)."""
    nobody = sum(weight * (1 - win) ** k for k, weight in enumerate(probabilities(trials), start=1))
    return [1 - nobody, nobody]


@pytest.mark.parametrize(("shape", "mean"), [(0.0, 2.0), (1.0, 10.0), (0.0, 60.0), (1.0, 60.0)])
def test_the_number_of_trials_has_its_mean_and_distribution(shape: float, mean: float) -> None:
    trials = RandomTrials.of_mean(shape, mean)
    weights = probabilities(trials)
    assert math.fsum(weights) == pytest.approx(1, abs=1e-6)
    assert math.fsum(k * w for k, w in enumerate(weights, start=1)) == pytest.approx(mean, rel=1e-4)


@pytest.mark.parametrize("shape", [0.0, 1.0])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_bound_holds_against_the_exact_distribution(shape: float, epsilon: float) -> None:
    """Randomized response as a trial: rare wins are the worst case, where the best of many doubles the loss."""
    trials = RandomTrials.of_mean(shape, 10)
    bound = selection_epsilon([[EpsilonDelta(epsilon)]], trials, DELTA)
    worst = 0.0
    for q in (1e-4, 1e-3, 0.01, 0.1, 1 / (1 + math.exp(epsilon)), 0.5):
        p = min(math.exp(epsilon) * q, 1 - math.exp(-epsilon) * (1 - q))  # the largest epsilon-DP shift of q
        a, b = best_of(p, trials), best_of(q, trials)
        assert hockey_stick(a, b, bound) <= DELTA
        worst = max(worst, max(abs(math.log(x / y)) for x, y in zip(a, b, strict=True)))
    assert worst > epsilon * 1.2, "the attack has no power: selection does cost more than one trial"


def test_renyi_bounds_agree_with_dp_accounting() -> None:
    for events in ([Gaussian(2.0, 3)], [Laplace(1.5, 2)], [Gaussian(1.0), Laplace(4.0)]):
        orders = [1 + x / 10 for x in range(1, 100)] + list(range(11, 64))
        ours = min(rdp_at(events, a) + math.log1p(-1 / a) - (math.log(DELTA) + math.log(a)) / (a - 1) for a in orders)
        theirs = rdp_epsilon_of(events, DELTA)  # for Laplace noise their conversion is tighter
        assert theirs is not None
        assert theirs * (1 - 1e-6) <= ours <= theirs * 1.1
    for order in (1.5, 4.0, 64.0):
        assert 0 < rdp_at([EpsilonDelta(1.0)], order) <= min(1.0, order / 2)
    with pytest.raises(InputError, match="event must be"):
        rdp_at([EpsilonDelta(1.0, 1e-6)], 2.0)


def gaussian_cost(epsilon: float) -> list[list[Event]]:
    return [[Gaussian(1 / budget_mu(Budget(epsilon, DELTA, "edge")))]]


@pytest.mark.parametrize("trials", [1, 2, 7, 40])
def test_a_plan_keeps_the_budget_and_leaves_little(trials: int) -> None:
    budget = Budget(4.0, DELTA, "edge")
    plan = plan_selection(gaussian_cost, trials=trials, budget=budget)
    assert plan.spent <= budget.epsilon
    assert plan.spent >= 0.99 * budget.epsilon
    composed = epsilon_of(gaussian_cost(plan.epsilon)[0] * trials, DELTA)
    if plan.random is None:
        assert composed == pytest.approx(plan.spent)
    else:
        assert composed > budget.epsilon, "random stopping must beat composition where it is chosen"
        assert "Papernot" in plan.theorem


def test_a_trial_never_gets_less_than_the_smallest_budget() -> None:
    """A bisection that asked for a smaller budget would be refused by it."""
    smallest = Budget(SMALLEST_EPSILON * 64, DELTA, "edge")
    plan = plan_selection(gaussian_cost, trials=3, budget=smallest)
    assert plan.epsilon >= 2 * SMALLEST_EPSILON
    assert plan.spent <= smallest.epsilon
    with pytest.raises(CalibrationError, match=r"100 trials cannot be paid for by epsilon = 6\.1"):
        plan_selection(gaussian_cost, trials=100, budget=smallest)


def test_many_trials_cost_little_more_than_a_few() -> None:
    budget = Budget(4.0, DELTA, "edge")
    few, many = (plan_selection(gaussian_cost, trials=n, budget=budget).epsilon for n in (5, 100))
    assert 0.6 * few < many < few


def test_settings_of_different_cost_are_charged_the_largest() -> None:
    budget = Budget(4.0, DELTA, "edge")

    def both(epsilon: float) -> list[list[Event]]:
        return [*gaussian_cost(epsilon), [EpsilonDelta(epsilon)]]

    def mixed(epsilon: float) -> list[Event]:
        return [event for trial in range(5) for event in both(epsilon)[trial % 2]]

    alone = plan_selection(gaussian_cost, trials=5, budget=budget).epsilon
    assert plan_selection(both, trials=5, budget=budget, listed=mixed).epsilon <= alone
    with pytest.raises(InputError, match="listed must be given"):
        plan_selection(both, trials=5, budget=budget)
    only = plan_selection(lambda e: [[EpsilonDelta(e, 1e-7)]], trials=5, budget=budget)
    assert only.random is None
    assert only.epsilon < 1


def test_a_mixture_costs_more_than_either_setting_repeated() -> None:
    """Why composition charges the trials that are really made: the largest of the repeated settings is not a bound."""
    pure, gaussian = EpsilonDelta(1.0), Gaussian(2 / budget_mu(Budget(4.0, DELTA, "edge")))
    repeated = [epsilon_of([event] * 4, DELTA) for event in (pure, gaussian)]
    mixture = [pure, pure, gaussian, gaussian]
    plan = plan_selection(
        lambda e: [[pure], [gaussian]], trials=4, budget=Budget(20.0, DELTA, "edge"), listed=lambda e: mixture
    )
    assert plan.spent == pytest.approx(epsilon_of(mixture, DELTA)) or plan.random is not None
    assert epsilon_of(mixture, DELTA) > 1.05 * max(repeated)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="epsilon must be finite"):
        plan_selection(gaussian_cost, trials=2, budget=Budget(math.inf, DELTA, "edge"))
    with pytest.raises(InputError, match="trials"):
        plan_selection(gaussian_cost, trials=0, budget=Budget(1.0, DELTA, "edge"))
    with pytest.raises(InputError, match="shape must be 0 or 1"):
        RandomTrials(0.5, 0.5)
