"""Allocation: a part costs what its steps cost together, and its noise follows from its share of mu."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caribou.errors import InputError
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.allocation import AllocatedPart, Part
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import Gaussian, NonPrivate, gaussian_mu


@given(mu=st.floats(0.01, 20), steps=st.integers(1, 1000))
def test_a_full_batch_part_is_exactly_mu_gdp(mu: float, steps: int) -> None:
    part = Part("encoder", steps)
    assert gaussian_mu([AllocatedPart(part, part.noise_multiplier(mu)).event]) == pytest.approx(mu, rel=1e-12)


def test_shares_of_mu_squared_compose_to_the_budget() -> None:
    budget, shares = (
        Budget(3.0, 1e-6, "node"),
        {"encoder": (100, 0.5), "propagation": (1, 0.3), "classifier": (50, 0.2)},
    )
    parts = [(Part(name, steps), share**0.5 * budget_mu(budget)) for name, (steps, share) in shares.items()]
    events = [part.event(part.noise_multiplier(mu)) for part, mu in parts]
    assert epsilon_of(events, budget.delta) == pytest.approx(3.0, rel=1e-9)
    less = [part.event(0.999 * part.noise_multiplier(mu)) for part, mu in parts]
    assert epsilon_of(less, budget.delta) > 3.0


def test_events() -> None:
    assert AllocatedPart(Part("training", 40), 2.0).event == Gaussian(2.0, 40)
    assert AllocatedPart(Part("training", 40), 0.0).event == NonPrivate()


def test_a_wider_sum_gets_more_noise() -> None:
    part = AllocatedPart(Part("training", 40), 2.0)
    assert part.widened(3.0) == AllocatedPart(Part("training", 40), 6.0)
    with pytest.raises(InputError, match="sensitivity must be"):
        part.widened(0.0)


def test_what_a_part_cannot_be() -> None:
    with pytest.raises(InputError, match="steps must be a whole number >= 1, got 0"):
        Part("training", 0)
