"""Plans of searches: within the budget, however they round, and every trial is paid for."""

from __future__ import annotations

import pytest

from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS
from caribou.methods.search import plan_search
from caribou.privacy.budget import Budget
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sizes import Sizes

SIZES = Sizes(nodes=200, columns=16, classes=4, train=140, val=20, test=40)


def searched(rounds: list[int], order: list[int], epsilon: float = 8.0) -> ReleasePlan:
    recipes = [METHODS["votes-edp"].recipe(max_rounds=most) for most in rounds]
    return plan_search(recipes, order, SIZES, Budget(epsilon), method="votes-edp")


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.7, 3.0])
def test_a_search_that_is_calibrated_to_its_budget_is_not_refused_for_a_rounding_error(epsilon: float) -> None:
    certificate = searched([2, 3, 4, 5], [0, 1, 2], epsilon).certificate(NoiseSource.secure())
    assert certificate.epsilon_spent == pytest.approx(epsilon, rel=1e-3)
    assert certificate.epsilon_spent <= epsilon


def test_repeated_settings_are_paid_for_each_time() -> None:
    once, twice = (searched(rounds, [0, 1]) for rounds in ([3, 3], [3, 4]))
    assert once.cost == twice.cost
    assert len(once.mechanisms[0].details["trials"]) == 2
