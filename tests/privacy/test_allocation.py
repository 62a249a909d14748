"""Allocation: the composed parts keep the budget, and each part has its share of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caribou.errors import InputError
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.allocation import Part, allocate
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import (
    budget_mu,
)

PARTS = [Part("encoder", 100), Part("propagation"), Part("classifier", 50)]


@settings(deadline=None)
@given(
    epsilon=st.floats(0.1, 20),
    a=st.just(0.0) | st.floats(1e-6, 1),
    b=st.floats(0.05, 1),
    c=st.just(0.0) | st.floats(1e-6, 1),
    delta=st.floats(1e-8, 1e-3),
)
def test_fractions_of_gaussian_parts(epsilon: float, delta: float, a: float, b: float, c: float) -> None:
    budget = Budget(epsilon, delta, "node")
    total = a + b + c
    shares = {"encoder": a / total, "propagation": b / total, "classifier": c / total}
    plan = allocate(budget, PARTS, shares)
    assert epsilon * (1 - 1e-3) < plan.epsilon <= epsilon
    for name, share in shares.items():
        if share > 0:
            assert plan[name].mu ** 2 == pytest.approx(share * budget_mu(budget) ** 2, rel=1e-6)
        else:
            assert plan[name].event is None


def test_allocation_with_sampling_keeps_the_budget_and_the_order_of_shares() -> None:
    budget = Budget(4.0, 1e-5, "node")
    parts = [Part("encoder", 40, 0.05), Part("propagation"), Part("classifier", 20, 0.1)]
    for shares in ({"encoder": 0.3, "propagation": 0.4, "classifier": 0.3}, "equal-noise"):
        plan = allocate(budget, parts, shares)  # type: ignore[arg-type]
        assert 4.0 * (1 - 5e-3) < plan.epsilon <= 4.0
        assert epsilon_of(plan.events, budget.delta) == plan.epsilon
    equal = allocate(budget, parts)
    assert len({p.noise_multiplier for p in equal.parts}) == 1
    more = allocate(budget, parts, {"encoder": 0.1, "propagation": 0.8, "classifier": 0.1})
    less = allocate(budget, parts, {"encoder": 0.45, "propagation": 0.1, "classifier": 0.45})
    assert more["propagation"].noise_multiplier < less["propagation"].noise_multiplier
    assert more["encoder"].noise_multiplier > less["encoder"].noise_multiplier


def test_equal_noise_of_full_batches_is_exact() -> None:
    plan = allocate(Budget(3.0, 1e-6, "node"), PARTS)
    assert plan.epsilon <= 3.0
    assert plan.epsilon == pytest.approx(3.0, rel=1e-9)


def test_allocation_errors_and_no_privacy() -> None:
    budget = Budget(1.0, 1e-5, "node")
    with pytest.raises(InputError, match="sum to 1"):
        allocate(budget, PARTS, {"encoder": 0.5, "propagation": 0.5, "classifier": 0.5})
    with pytest.raises(InputError, match="must name exactly"):
        allocate(budget, PARTS, {"encoder": 1.0})
    with pytest.raises(InputError, match="fractions"):
        allocate(budget, PARTS, {"encoder": -0.5, "propagation": 1.0, "classifier": 0.5})
    with pytest.raises(InputError, match="must be 0 or >= 1e-9"):
        allocate(budget, PARTS, {"encoder": 1e-12, "propagation": 1 - 1e-12, "classifier": 0.0})
    with pytest.raises(InputError, match="distinct names"):
        allocate(budget, [Part("a"), Part("a")])
    with pytest.raises(InputError, match="'equal-noise'"):
        allocate(budget, PARTS, "equal")  # type: ignore[arg-type]
    free = allocate(Budget(math.inf, unit="node"), PARTS)
    assert math.isinf(free.epsilon)
    assert all(part.noise_multiplier == 0 for part in free.parts)
    with pytest.raises(InputError, match="part must be one of"):
        free["decoder"]
