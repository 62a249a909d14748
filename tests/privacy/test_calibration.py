"""Calibration: never overspends, and 0.1 % less noise does. Allocation: the composed parts keep the budget."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caribou.errors import CalibrationError, InputError
from caribou.privacy.accounting import epsilon_of, gdp_epsilon
from caribou.privacy.allocation import Part, allocate
from caribou.privacy.arithmetic import Arithmetic, double_precision, grid_spacing
from caribou.privacy.budget import DEFAULT_DELTA, Budget, PrivacyUnit
from caribou.privacy.calibration import (
    budget_mu,
    calibrate_propagation,
    propagation_mu,
    smallest_noise_multiplier,
)
from caribou.privacy.events import Gaussian, SubsampledGaussian
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


@given(hops=st.integers(1, 200), contraction=st.floats(0.05, 1), factor=st.floats(1.01, 2))
def test_noise_is_monotone_in_every_argument(hops: int, contraction: float, factor: float) -> None:
    def noise(
        hops: int = hops, contraction: float = contraction, alpha1: float = 0.5, floor: int = 5, epsilon: float = 2
    ) -> float:
        s = layer_sensitivity(
            "edge", contraction=contraction, alpha1=alpha1, beta=0.0, bounds=Bounds(degree_floor=floor)
        )
        return calibrate_propagation(s, hops=hops, mu=budget_mu(Budget(epsilon, 1e-5))).noise_std

    assert noise(hops=hops + 1) >= noise() * (1 - 1e-12)
    assert noise(contraction=min(1.0, contraction * factor)) >= noise() * (1 - 1e-12)
    assert noise(alpha1=0.5 * factor) >= noise()
    assert noise(floor=6) < noise()
    assert noise(epsilon=2 * factor) < noise()


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


@given(noise_std=st.floats(1e-6, 1e6))
def test_grid_is_a_power_of_two_just_below_2_to_the_minus_28_of_the_noise(noise_std: float) -> None:
    g = grid_spacing(noise_std=noise_std)
    assert math.log2(g) == round(math.log2(g))
    assert 2.0**-29 < g / noise_std <= 2.0**-28


def test_alpha1_zero_at_edge_level_cannot_be_calibrated() -> None:
    s = layer_sensitivity("edge", contraction=0.5, alpha1=0, beta=0, bounds=BOUNDS)
    assert s.value == 0
    with pytest.raises(CalibrationError, match="sensitivity is 0"):
        calibrate_propagation(s, hops=2, mu=1.0)


@pytest.mark.parametrize("hops", [0, -1, 1.5, None, True, "3"])
def test_hops_must_be_positive_whole_numbers(hops: object) -> None:
    s = layer_sensitivity("edge", contraction=0.5, alpha1=1, beta=0, bounds=BOUNDS)
    with pytest.raises(InputError, match="hops must be a whole number >= 1"):
        calibrate_propagation(s, hops=hops, mu=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("contraction", 0),
        ("contraction", 1.2),
        ("contraction", math.nan),
        ("alpha1", -0.1),
        ("alpha1", 1.1),
        ("beta", -1),
        ("beta", math.inf),
    ],
)
def test_layer_parameters_are_checked(field: str, value: float) -> None:
    arguments = {"contraction": 0.5, "alpha1": 0.5, "beta": 0.5, field: value}
    with pytest.raises(InputError, match=f"{field} must be .*got"):
        layer_sensitivity("edge", bounds=BOUNDS, **arguments)


def test_bounds_and_units_are_checked() -> None:
    with pytest.raises(InputError, match="degree_floor must be a whole number >= 0, got -1"):
        Bounds(degree_floor=-1)
    with pytest.raises(InputError, match="degree_cap must be a whole number >= 1, got 0"):
        Bounds(degree_cap=0)
    with pytest.raises(InputError, match="below 2\\^53"):
        Bounds(degree_floor=10**30)
    with pytest.raises(InputError, match="unit must be one of edge, node, got 'graph'"):
        layer_sensitivity("graph", contraction=0.5, alpha1=1, beta=0, bounds=BOUNDS)
    with pytest.raises(InputError, match="degree_cap must be"):
        layer_sensitivity("node", contraction=0.5, alpha1=1, beta=0, bounds=BOUNDS)
    with pytest.raises(InputError, match="nodes must be given"):
        layer_sensitivity("node", contraction=0.5, alpha1=0.5, beta=0, bounds=Bounds(degree_cap=3))


def test_the_node_scan_is_exhaustive() -> None:
    """The short scan of q r in Theorem 3 finds the maximum over all degrees."""
    for F in range(40):
        s1 = max(1, F) + 1
        for M in (F + 1, F + 2, F + 9, F + 200):
            products = [
                (1 - math.sqrt((d + 1) / (d + 2))) * (d + 1) ** -0.5 * ((d + 1) ** -0.5 + d * s1**-0.5)
                for d in range(F, M)
            ]
            lost = max(math.sqrt(d / ((max(d, F) + 1) * s1)) for d in range(1, M + 1))
            T = lost + math.sqrt(M) * (max(products) + 1 - math.sqrt((F + 1) / (F + 2)))
            s = layer_sensitivity("node", contraction=1, alpha1=1, beta=0, bounds=Bounds(degree_floor=F, degree_cap=M))
            assert s.value == pytest.approx(math.sqrt(1 + T * T), rel=1e-12)


def test_golden_node_sensitivity() -> None:
    s = layer_sensitivity("node", contraction=1.0, alpha1=1.0, beta=0.0, bounds=Bounds(degree_cap=20))
    assert s.value == pytest.approx(1.022, abs=5e-4)


@pytest.mark.parametrize(
    ("floor", "value"),
    [(0, 1.4142), (1, 0.8535), (2, 0.6109), (3, 0.4744), (5, 0.3278), (10, 0.1849), (20, 0.0988), (50, 0.0412)],
)
def test_golden_edge_sensitivities(floor: int, value: float) -> None:
    s = layer_sensitivity("edge", contraction=1.0, alpha1=1.0, beta=0.0, bounds=Bounds(degree_floor=floor))
    assert s.value == pytest.approx(value, abs=6e-5)


def test_budget() -> None:
    assert Budget(1).delta == DEFAULT_DELTA
    assert Budget(1, unit=PrivacyUnit.NODE).unit is PrivacyUnit.NODE
    assert not Budget(math.inf).is_private
    assert "no privacy" in str(Budget(math.inf))
    for epsilon in (0, -1, math.nan, "4", None):
        with pytest.raises(InputError, match="epsilon must be a number > 0"):
            Budget(epsilon)  # type: ignore[arg-type]
    for delta in (0, 1, 1.5, -1e-5, math.nan):
        with pytest.raises(InputError, match="delta must be in the open interval"):
            Budget(1, delta)
    with pytest.raises(InputError, match="unit must be one of edge, node"):
        Budget(1, unit="Edge")


def test_smallest_noise_of_subsampled_training() -> None:
    budget = Budget(2.0, 1e-5, "node")

    def events(m: float) -> list:
        return [SubsampledGaussian(m, 0.05, 200), Gaussian(3.0)]

    m = smallest_noise_multiplier(events, budget)
    assert epsilon_of(events(m), budget.delta) <= budget.epsilon
    assert epsilon_of(events(m * 0.999), budget.delta) > budget.epsilon
    with pytest.raises(CalibrationError):
        smallest_noise_multiplier(lambda m: [Gaussian(0.5)], Budget(0.1, 1e-5))


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
