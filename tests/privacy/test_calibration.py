"""Calibration: never overspends, and 0.1 % less noise does."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caribou.errors import CalibrationError, InputError
from caribou.privacy.accounting import gdp_epsilon
from caribou.privacy.arithmetic import Arithmetic, double_precision
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import (
    CalibratedCounts,
    budget_mu,
    calibrate_propagation,
    propagation_mu,
)
from caribou.privacy.events import EpsilonDelta, NonPrivate
from caribou.privacy.sensitivity import Bounds, layer_sensitivity

BOUNDS = Bounds(degree_floor=10)


@given(
    epsilon=st.floats(0.05, 40),
    delta=st.floats(1e-10, 1e-2),
    hops=st.integers(1, 300),
    contraction=st.floats(0.05, 1),
    alpha1=st.floats(0.01, 1),
    floor=st.integers(0, 60),
)
def test_propagation_never_overspends_and_is_tight(
    epsilon: float, delta: float, hops: int, contraction: float, alpha1: float, floor: int
) -> None:
    sensitivity = layer_sensitivity(
        "edge", contraction=contraction, alpha1=alpha1, beta=1.0, bounds=Bounds(degree_floor=floor)
    )
    arithmetic = double_precision(nodes=10_000, columns=64, residual=1.0)
    c = calibrate_propagation(sensitivity, hops=hops, mu=budget_mu(Budget(epsilon, delta)), arithmetic=arithmetic)

    def spent(noise_std: float) -> float:
        mu = propagation_mu(
            sensitivity=sensitivity.value,
            kappa=c.kappa,
            noise_std=noise_std,
            arithmetic_error=arithmetic.error(noise_std),
        )
        return gdp_epsilon(mu=mu, delta=delta)

    assert spent(c.noise_std) <= epsilon * (1 + 1e-12)
    assert spent(c.noise_std * 0.999) > epsilon


def test_arithmetic_margin_is_negligible_and_finite() -> None:
    for nodes in (1, 1000, 10**6):
        arithmetic = double_precision(nodes=nodes, columns=64, residual=1.0)
        assert 0 < arithmetic.error(1.0) < 4e-5
    with pytest.raises(CalibrationError, match="double precision"):
        calibrate_propagation(
            layer_sensitivity("edge", contraction=0.5, alpha1=1, beta=0, bounds=BOUNDS),
            hops=2,
            mu=1e-3,
            arithmetic=Arithmetic(per_noise_std=1e-3),
        )


def test_alpha1_zero_at_edge_level_cannot_be_calibrated() -> None:
    s = layer_sensitivity("edge", contraction=0.5, alpha1=0, beta=0, bounds=BOUNDS)
    assert s.value == 0
    with pytest.raises(CalibrationError, match="sensitivity is 0"):
        calibrate_propagation(s, hops=2, mu=1.0)


@pytest.mark.parametrize("hops", [0, -1, 1.5, None, True, "3"])
def test_hops_must_be_positive_whole_numbers(hops: object) -> None:
    s = layer_sensitivity("edge", contraction=0.5, alpha1=1, beta=0, bounds=BOUNDS)
    with pytest.raises(InputError, match="hops must be a whole number in"):
        calibrate_propagation(s, hops=hops, mu=1.0)  # type: ignore[arg-type]


@given(epsilon=st.floats(2.0**-20, 40), stages=st.integers(1, 12))
def test_counts_never_overspend_and_are_tight(epsilon: float, stages: int) -> None:
    """In exact arithmetic: T stages that move by 2 each. The next larger parameter of the noise would cost more."""
    calibrated = CalibratedCounts(stages, epsilon)
    assert Fraction(calibrated.noise_epsilon) * 2 * stages <= Fraction(epsilon)
    assert Fraction(math.nextafter(calibrated.noise_epsilon, math.inf)) * 2 * stages > Fraction(epsilon)
    assert calibrated.event == EpsilonDelta(epsilon)


def test_counts_without_noise_and_bad_stages() -> None:
    free = CalibratedCounts(2, math.inf)
    assert (free.noise_epsilon, free.event) == (math.inf, NonPrivate())
    for stages in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="stages must be"):
            CalibratedCounts(stages, 1.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="epsilon must be"):
        CalibratedCounts(1, 0.0)
