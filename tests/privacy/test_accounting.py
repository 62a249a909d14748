"""Golden values, inverse pairs, two independent accountants, monotonicity."""

from __future__ import annotations

import math
from typing import Any, get_args

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caribou.errors import InputError
from caribou.privacy import accounting
from caribou.privacy.accounting import (
    ACCOUNTING,
    at_unit,
    attack_rate,
    best_rdp_order,
    epsilon_for_rate,
    epsilon_of,
    gaussian_pld_epsilon,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    group_of_two,
    largest_true_positive_rate,
    log_normal_cdf,
    pld_epsilon,
    pure_gdp_mu,
    pure_pld_epsilon,
    randomized_response_epsilon,
    rdp_at,
    rdp_epsilon_of,
    rdp_noise_multiplier,
)
from caribou.privacy.budget import LARGEST_EPSILON, SMALLEST_EPSILON, PrivacyUnit
from caribou.privacy.certificate import schema
from caribou.privacy.events import EpsilonDelta, Event, Gaussian, Laplace, NonPrivate, Parallel
from caribou.privacy.sensitivity import convergence_factor

epsilons = st.floats(0.05, 40)
deltas = st.floats(1e-12, 0.05)
mus = st.floats(0.01, 8)


@given(x=st.floats(-1e3, 9) | st.floats(-37, -35) | st.sampled_from([-25.1, -25.0, -24.9, 0.0]))
def test_log_normal_cdf_errs_by_units_in_the_last_place(x: float) -> None:
    """Of itself and of its argument: what is kept where terms cancel rests on it. Also where the series takes over."""
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.erfc(-mpmath.mpf(x) / mpmath.sqrt(2)) / 2)
        assert abs(mpmath.mpf(log_normal_cdf(x)) - exact) <= 2 * 2.0**-53 * (1 + abs(exact) + x * x)


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1.0, 3.7306), (4.0, 1.0812)])
def test_golden_gaussian_multipliers(epsilon: float, multiplier: float) -> None:
    """Analytic Gaussian mechanism (Balle and Wang 2018) at delta = 1e-5."""
    assert 1 / gdp_mu(epsilon=epsilon, delta=1e-5) == pytest.approx(multiplier, abs=5e-5)


@pytest.mark.parametrize(
    ("hops", "convergent", "linear"),
    [(1, 1.07, 1.07), (2, 1.51, 1.51), (4, 2.12, 2.14), (8, 2.94, 3.03), (16, 3.87, 4.28), (128, 4.67, 12.11)],
)
def test_paper_noise_table(hops: int, convergent: float, linear: float) -> None:
    """The paper's noise table: Delta = 1, order 6, C_L = 0.9, epsilon = 4, delta = 1e-3.

    At 8 and 16 hops it prints 3.00 and 4.07, which its formula does not give.
    """
    one = rdp_noise_multiplier(epsilon=4, delta=1e-3, order=6)
    assert one is not None
    assert one * math.sqrt(convergence_factor(hops=hops, contraction=0.9)) == pytest.approx(convergent, abs=0.015)
    assert one * math.sqrt(hops) == pytest.approx(linear, abs=0.015)


@given(hops=st.integers(1, 100_000), contraction=st.floats(1e-6, 1))
def test_convergence_factor_against_high_precision(hops: int, contraction: float) -> None:
    import mpmath

    with mpmath.workdps(60):
        c = mpmath.mpf(contraction)
        exact = mpmath.mpf(hops) if c == 1 else (1 - c**hops) * (1 + c) / ((1 + c**hops) * (1 - c))
        exact = float(min(mpmath.mpf(hops), exact))
    value = convergence_factor(hops=hops, contraction=contraction)
    assert value == pytest.approx(exact, rel=1e-9)
    assert value >= exact * (1 - 1e-15)


@given(contraction=st.floats(0.01, 1), hops=st.integers(1, 500))
def test_convergence_factor_grows_with_depth_and_contraction_and_converges(contraction: float, hops: int) -> None:
    here = convergence_factor(hops=hops, contraction=contraction)
    assert here <= convergence_factor(hops=hops + 1, contraction=contraction) * (1 + 1e-12)
    assert here <= convergence_factor(hops=hops, contraction=min(1.0, contraction * 1.01)) * (1 + 1e-12)
    assert 1 - 1e-12 <= here <= hops
    if contraction < 1:
        assert here <= (1 + contraction) / (1 - contraction) * (1 + 1e-9)


@given(mu=mus, delta=deltas)
def test_gdp_epsilon_is_the_inverse_of_delta(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu=mu, delta=delta)
    assert gdp_delta(mu=mu, epsilon=epsilon) <= delta
    if epsilon > 1e-6:
        assert gdp_delta(mu=mu, epsilon=epsilon * 0.9999) > delta


def renyi_of_laplace(scale: float, order: float) -> Any:
    """log of the integral of p^a q^(1-a), over a - 1, for densities a distance of 1 apart: piece by piece, to 40 digits."""
    with mpmath.workdps(40):
        b, a = mpmath.mpf(scale), mpmath.mpf(order)
        middle = mpmath.quad(lambda x: mpmath.exp((-a * x - (1 - a) * (1 - x)) / b) / (2 * b), [0, 1])
        left, right = mpmath.exp((a - 1) / b) / 2, mpmath.exp(-a / b) / 2
        # p is centred on 0: below 0 the ratio is e^(1/b) throughout, above 1 it is e^(-1/b)
        return mpmath.log(left + middle + right) / (a - 1)


def renyi_of_response(epsilon: float, order: float) -> Any:
    """Of a bit that is told truly with odds e^epsilon."""
    with mpmath.workdps(40):
        p, a = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon))), mpmath.mpf(order)
        return mpmath.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)


@pytest.mark.parametrize("order", [1.1, 2.0, 6.0, 63.0])
@pytest.mark.parametrize("figure", [0.05, 0.5, 2.0, 8.0])
def test_renyi_bounds_are_those_of_the_definition(figure: float, order: float) -> None:
    for event, exact in (
        (Laplace(figure, 3), 3 * renyi_of_laplace(figure, order)),
        (EpsilonDelta(figure), renyi_of_response(figure, order)),
        (Gaussian(figure, 3), 3 * order / (2 * figure**2)),
    ):
        assert rdp_at([event], order) == pytest.approx(float(exact), rel=1e-9)


def test_an_attack_is_bounded_from_both_ends() -> None:
    """At half false alarms the region of any test is cut by the line through (1, 1): 1 - e^-eps (1 - delta - a)."""
    for epsilon, delta in ((1.0, 1e-5), (0.1, 0.01)):
        rate = attack_rate(epsilon=epsilon, delta=delta, false_positive_rate=0.5, gaussian=False)
        assert rate == pytest.approx(1 - math.exp(-epsilon) * (0.5 - delta), rel=1e-12)


CORNERS = [
    (epsilon, delta)
    for epsilon in (SMALLEST_EPSILON, 2.0**-17, 1e-4, 0.01, 1.0, LARGEST_EPSILON)
    for delta in (1 - 2.0**-30, 0.999, 0.5, 1e-3, 1e-5, 1e-7, 1e-9, 1e-12, 1e-20, 1e-50, 1e-100, 1e-300, 5e-324)
]


def exact_delta(mu: float, epsilon: float) -> Any:
    """Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2) to 80 digits."""
    with mpmath.workdps(80):
        z, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        first, second = (mpmath.erfc((e / z - sign * z / 2) / mpmath.sqrt(2)) / 2 for sign in (1, -1))
        return first - mpmath.exp(e) * second


@pytest.mark.parametrize(("epsilon", "delta"), CORNERS)
def test_the_corners_of_all_budgets_are_kept_exactly(epsilon: float, delta: float) -> None:
    """Where mu is tiny the two terms cancel to a few digits: what is lost there must be noise, and never budget."""
    mu = gdp_mu(epsilon=epsilon, delta=delta)
    assert exact_delta(mu, epsilon) <= delta
    assert exact_delta(mu * (1 + 1e-3), epsilon) > delta * (1 - 1e-12)  # and little of it is lost
    spent = gdp_epsilon(mu=mu, delta=delta)
    assert exact_delta(mu, spent) <= delta  # rounded up: what is reported is kept
    assert spent <= epsilon  # and nobody is refused what was calibrated for him


@given(epsilon=epsilons, delta=deltas)
def test_gdp_mu_never_overspends_and_is_tight(epsilon: float, delta: float) -> None:
    mu = gdp_mu(epsilon=epsilon, delta=delta)
    assert gdp_epsilon(mu=mu, delta=delta) <= epsilon * (1 + 1e-12)
    assert gdp_epsilon(mu=mu * 1.001, delta=delta) > epsilon


@given(epsilon=epsilons, delta=deltas, factor=st.floats(1.001, 3))
def test_mu_grows_with_epsilon_and_delta(epsilon: float, delta: float, factor: float) -> None:
    mu = gdp_mu(epsilon=epsilon, delta=delta)
    assert gdp_mu(epsilon=epsilon * factor, delta=delta) > mu
    assert gdp_mu(epsilon=epsilon, delta=min(0.5, delta * factor)) > mu


@given(epsilon=epsilons, delta=deltas)
def test_gdp_needs_less_noise_than_the_best_rdp_order(epsilon: float, delta: float) -> None:
    order = best_rdp_order(epsilon=epsilon, delta=delta)
    rdp = rdp_noise_multiplier(epsilon=epsilon, delta=delta, order=order)
    assert rdp is not None
    assert 1 / gdp_mu(epsilon=epsilon, delta=delta) <= rdp
    for other in (1 + (order - 1) * 0.9, 1 + (order - 1) * 1.1):
        worse = rdp_noise_multiplier(epsilon=epsilon, delta=delta, order=other)
        assert worse is None or worse >= rdp * (1 - 1e-12)
    paper = order / (2 * rdp**2) + math.log(1 / delta) / (order - 1)
    assert paper == pytest.approx(epsilon, rel=1e-9)


def test_fixed_order_is_infeasible_at_small_epsilon() -> None:
    assert rdp_noise_multiplier(epsilon=1, delta=1e-5, order=6) is None
    with pytest.raises(InputError, match="order must be > 1"):
        rdp_noise_multiplier(epsilon=1, order=1, delta=1e-5)


@pytest.mark.parametrize("multiplier", [0.3, 0.8, 1.0812, 3.7306, 20.0])
def test_pld_of_a_gaussian_equals_the_closed_form(multiplier: float) -> None:
    exact = gdp_epsilon(mu=1 / multiplier, delta=1e-5)
    assert pld_epsilon([Gaussian(multiplier)], 1e-5) == pytest.approx(exact, abs=1e-3)
    several = pld_epsilon([Gaussian(multiplier * 2, 3), Gaussian(multiplier * 2)], 1e-5)
    assert several == pytest.approx(exact, abs=1e-3)


def test_pld_of_a_mixture_equals_prv_accountant() -> None:
    """Two libraries, two algorithms: dp-accounting's PLD and Microsoft's PRV accountant."""
    from prv_accountant import GaussianMechanism, PRVAccountant, PureDPMechanism

    prv = PRVAccountant(
        prvs=[PureDPMechanism(0.1), GaussianMechanism(2.5)],
        max_self_compositions=[20, 1],
        eps_error=5e-4,
        delta_error=1e-10,
    )
    low, _, high = prv.compute_epsilon(1e-5, [20, 1])
    ours = epsilon_of([Gaussian(2.5), *[EpsilonDelta(0.1)] * 20], 1e-5)
    assert low - 1e-3 <= ours <= high + 1e-3


@pytest.mark.parametrize(
    "events", [[Gaussian(1.0), Laplace(0.2)], [Gaussian(20.0), Laplace(30.0)], [Gaussian(2.0), Laplace(8.0, 50)]]
)
def test_the_grid_is_fine_enough_and_errs_upwards(events: list, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = pld_epsilon(events, 1e-6)
    monkeypatch.setattr(accounting, "PLD_INTERVAL", accounting.PLD_INTERVAL / 10)
    accounting.compose_pld.cache_clear()
    fine = pld_epsilon(events, 1e-6)
    accounting.compose_pld.cache_clear()
    assert 0 < ours - fine < 1e-5


@pytest.mark.parametrize(
    "events",
    [
        [Gaussian(1.0)],
        [Gaussian(2.0, 5), Laplace(20.0, 50)],
        [Laplace(1.5, 3), Gaussian(2.0)],
        [EpsilonDelta(0.7), Gaussian(2.0)],
    ],
)
def test_rdp_is_an_upper_bound_of_pld(events: list) -> None:
    rdp = rdp_epsilon_of(events, 1e-6)
    assert rdp is not None
    assert rdp >= epsilon_of(events, 1e-6) - 1e-3


def test_special_events() -> None:
    assert epsilon_of([], 1e-5) == 0
    assert math.isinf(epsilon_of([Gaussian(1.0), NonPrivate()], 1e-5))
    assert epsilon_of([Laplace(2.0), EpsilonDelta(0.25)], 1e-5) <= 0.75
    assert pld_epsilon([Laplace(0.5)], 1e-9) == pytest.approx(2.0, abs=1e-3)
    assert rdp_epsilon_of([EpsilonDelta(1.0, 1e-7)], 1e-5) is None
    # delta of the part is spent: a release of (1, 1e-4) has no finite epsilon at 1e-5
    assert math.isinf(epsilon_of([EpsilonDelta(1.0, 1e-4)], 1e-5))
    assert epsilon_of([EpsilonDelta(1.0, 1e-6)], 1e-5) == pytest.approx(1.0, abs=1e-2)


@given(multiplier=st.floats(0.4, 20), count=st.integers(1, 50), delta=st.floats(1e-9, 1e-2), factor=st.floats(1.01, 4))
def test_epsilon_of_gaussians_is_monotone_in_every_argument(
    multiplier: float, count: int, delta: float, factor: float
) -> None:
    here = epsilon_of([Gaussian(multiplier, count)], delta)
    assert epsilon_of([Gaussian(multiplier * factor, count)], delta) <= here
    assert epsilon_of([Gaussian(multiplier, count + 1)], delta) >= here
    assert epsilon_of([Gaussian(multiplier, count)], min(0.5, delta * factor)) <= here
    assert epsilon_of([Gaussian(multiplier, count), Gaussian(10.0)], delta) >= here


def test_randomized_response() -> None:
    p = math.e / (1 + math.e)
    assert randomized_response_epsilon(keep_one=p, make_one=1 - p) == pytest.approx(1.0)
    assert math.isinf(randomized_response_epsilon(keep_one=1.0, make_one=0.0))
    assert math.isinf(randomized_response_epsilon(keep_one=0.5, make_one=0.0))
    assert randomized_response_epsilon(keep_one=0.4, make_one=0.4) == 0
    rng = np.random.default_rng(0)
    for a, b in rng.uniform(0.01, 0.99, (50, 2)):
        worst = max(abs(math.log(a / b)), abs(math.log((1 - a) / (1 - b))))
        assert randomized_response_epsilon(keep_one=a, make_one=b) == pytest.approx(worst)


def test_bad_numbers_are_named() -> None:
    for bad in (0, -1, math.nan, math.inf, "1", None, True):
        with pytest.raises(InputError, match="epsilon"):
            gdp_mu(epsilon=bad, delta=1e-5)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="delta"):
            gdp_epsilon(mu=1.0, delta=bad)  # type: ignore[arg-type]


# -- two steps apart -----------------------------------------------------------------------------------------------

GRID = np.linspace(-60, 60, 240_001)


def _normal(mean: float, std: float) -> np.ndarray:
    return np.exp(-(((GRID - mean) / std) ** 2) / 2) / (std * math.sqrt(2 * math.pi))


@pytest.mark.parametrize(
    ("event", "first", "last"),
    [
        (Gaussian(2.0), _normal(-1, 2), _normal(1, 2)),
        (Laplace(2.0), np.exp(-abs(GRID + 1) / 2) / 4, np.exp(-abs(GRID - 1) / 2) / 4),
    ],
    ids=["gaussian", "laplace"],
)
def test_no_pair_two_steps_apart_exceeds_the_bound(event: Event, first: np.ndarray, last: np.ndarray) -> None:
    """Hockey-stick divergence of the worst pair, against epsilon at that delta; half the steps would be refuted."""
    for epsilon in (0.2, 0.5, 0.8):
        reached = float(np.clip(first - math.exp(epsilon) * last, 0, None).sum() * (GRID[1] - GRID[0]))
        bound = epsilon_of(group_of_two([event]), reached)
        assert epsilon - 1e-3 <= bound <= epsilon + 2e-3
        assert epsilon_of([event], reached) < epsilon - 0.1


def test_two_steps_of_an_epsilon_and_a_delta_are_reached_by_one_event() -> None:
    epsilon, delta, last = 1.5, 1e-4, 1e-3
    middle = math.exp(epsilon) * last + delta
    first = math.exp(epsilon) * middle + delta  # the largest probability that the claim allows two steps away
    (two,) = group_of_two([EpsilonDelta(epsilon, delta)])
    assert isinstance(two, EpsilonDelta)
    assert first == pytest.approx(math.exp(two.epsilon) * last + two.delta, rel=1e-9)
    assert two.delta >= delta * (1 + math.exp(epsilon))
    assert group_of_two([EpsilonDelta(2.0)]) == (EpsilonDelta(4.0),)
    for lost in (
        EpsilonDelta(1e308),
        EpsilonDelta(800.0, 1e-9),
        EpsilonDelta(1.0, 0.4),
        Gaussian(5e-324),
        NonPrivate(),
    ):
        assert group_of_two([lost]) == (NonPrivate(),)
    groups = Parallel(((Gaussian(4.0, 3),), (Laplace(2.0),)))
    assert group_of_two([groups]) == (Parallel(((Gaussian(2.0, 3),), (Laplace(1.0),))),)


def test_what_a_release_costs_at_the_other_unit() -> None:
    edge, node = PrivacyUnit.EDGE, PrivacyUnit.NODE
    events = (Gaussian(4.0),)
    assert at_unit(events, made_at=edge, at=edge) == at_unit(events, made_at=node, at=node) == events
    assert at_unit(events, made_at=node, at=edge) == (Gaussian(2.0),)
    assert at_unit((), made_at=edge, at=node) == (NonPrivate(),)
    with pytest.raises(InputError, match="unit must be one of"):
        at_unit(events, made_at=edge, at="node")  # type: ignore[arg-type]


def test_every_kind_of_event_has_a_row() -> None:
    """A new distribution is a record and a row: no accountant and no page knows a kind by name."""
    kinds = set(get_args(Event)) - {NonPrivate, Parallel}
    assert set(ACCOUNTING) == kinds
    assert {kind.__name__ for kind in get_args(Event)} <= set(schema()["$defs"])


EXAMPLES = [Gaussian(1.5, 3), Laplace(2.0, 2), EpsilonDelta(0.5)]


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_events_say_the_same_as_those_of_dp_accounting(event: Event) -> None:
    """Our record through our table, and the event that says the same through dp-accounting's own accountants."""
    import dp_accounting as dpa
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    same = {
        Gaussian: (dpa.GaussianDpEvent(1.5), 3),
        Laplace: (dpa.LaplaceDpEvent(2.0), 2),
        EpsilonDelta: (dpa.ZCDpEvent(0.5**2 / 2), 1),
    }[type(event)]
    theirs = RdpAccountant(accounting.RDP_ORDERS).compose(*same).get_epsilon(1e-6)
    ours = rdp_epsilon_of([event], 1e-6)
    if isinstance(event, EpsilonDelta):  # zCDP, all that theirs can say of a pure epsilon, is looser and has no losses
        assert event.epsilon <= ours <= theirs
    else:
        assert ours == pytest.approx(theirs, rel=1e-9)
        numerical = PLDAccountant(value_discretization_interval=1e-4).compose(*same).get_epsilon(1e-6)
        assert pld_epsilon([event], 1e-6) == pytest.approx(numerical, abs=1e-3)


@pytest.mark.parametrize(("mu", "delta"), [(0.05, 1e-5), (0.27, 1e-2), (0.925, 1e-10), (4.0, 1e-5), (12.0, 1e-2)])
def test_losses_of_a_gaussian_are_summed_from_above(mu: float, delta: float) -> None:
    exact, summed = gdp_epsilon(mu=mu, delta=delta), gaussian_pld_epsilon(mu=mu, delta=delta)
    assert exact - 1e-9 <= summed <= exact + max(accounting.PLD_INTERVAL, mu * (mu + 24) / 200_000)
    theirs = float(accounting.compose_pld((Gaussian(1 / mu),)).get_epsilon_for_delta(delta))
    assert summed == pytest.approx(theirs, abs=3e-3, rel=1e-4)


def test_a_tiny_delta_is_never_rounded_down() -> None:
    for delta in (1e-29, 1e-40, 1e-200):
        exact = gdp_epsilon(mu=0.5, delta=delta)
        assert exact - 1e-9 <= gaussian_pld_epsilon(mu=0.5, delta=delta) <= exact + 1e-3
    assert math.isinf(gaussian_pld_epsilon(mu=0.5, delta=1e-305))


@pytest.mark.parametrize(
    ("pure", "delta"), [(0.0, 1e-5), (1e-6, 0.3), (0.5, 1e-10), (4.0, 1e-5), (40.0, 0.3), (0.0, 0.51)]
)
def test_a_pure_epsilon_loses_as_randomized_response(pure: float, delta: float) -> None:
    closed = pure_pld_epsilon(pure=pure, delta=delta)
    theirs = float(accounting.compose_pld((EpsilonDelta(pure),)).get_epsilon_for_delta(delta))
    assert theirs - 1e-3 * max(1.0, pure) <= closed <= theirs + 1e-9


@pytest.mark.parametrize("epsilon", [1e-6, 9.99e-4, 1.001e-3, 1.0, 40.0])
def test_every_pure_mechanism_has_this_gdp_parameter_and_no_smaller_one(epsilon: float) -> None:
    """delta of randomized response against that of the Gaussian, at every epsilon; they touch at 0."""
    probability = 1 / (1 + math.exp(-epsilon))

    def exceeds(mu: float) -> bool:
        return any(
            probability * -math.expm1(at - epsilon) > gdp_delta(mu=mu, epsilon=at) * (1 + 1e-9)
            for at in np.linspace(0, epsilon, 50)
        )

    mu = pure_gdp_mu(epsilon)
    assert not exceeds(mu)
    if epsilon < 30:  # beyond, both are 1 in double precision
        assert exceeds(mu * 0.999)


def test_gdp_parameter_of_no_mechanism_and_of_all() -> None:
    assert pure_gdp_mu(0.0) == 0
    assert pure_gdp_mu(701.0) == math.inf


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize(("tpr", "fpr"), [(0.05, 0.01), (0.02, 0.001), (0.95, 0.3)])
def test_epsilon_for_a_rate_is_the_inverse_of_the_rate(tpr: float, fpr: float, gaussian: bool, steps: int) -> None:
    """The rate is kept at the epsilon that comes out, and 0.1 % more breaks it. What certificates state agrees."""
    terms = {"false_positive_rate": fpr, "delta": 1e-5, "gaussian": gaussian, "steps": steps}
    epsilon = epsilon_for_rate(true_positive_rate=tpr, **terms)  # type: ignore[arg-type]
    assert attack_rate(epsilon=epsilon, **terms) <= tpr  # type: ignore[arg-type]
    assert attack_rate(epsilon=1.001 * epsilon, **terms) > tpr  # type: ignore[arg-type]
    event = Gaussian(1 / gdp_mu(epsilon=epsilon, delta=1e-5)) if gaussian else EpsilonDelta(epsilon)
    stated = fpr
    for _ in range(steps):
        stated = largest_true_positive_rate([event], delta=1e-5, false_positive_rate=stated)
    assert stated <= tpr * (1 + 1e-9)
    assert stated > 0.97 * tpr, "an attacker comes close: nothing is given away"


def test_rates_that_cannot_be_promised() -> None:
    with pytest.raises(
        InputError, match=r"true_positive_rate must be above 0\.01\d*, which an attacker reaches by guessing"
    ):
        epsilon_for_rate(true_positive_rate=0.01, false_positive_rate=0.01, delta=1e-5)
    assert epsilon_for_rate(true_positive_rate=0.99, false_positive_rate=0.5, delta=1e-5, largest=3.0) == 3.0


@pytest.mark.parametrize("delta", [1.0, 1 - 2**-53, 0.999])
@pytest.mark.parametrize("beside", [[], [Laplace(1.0)], [Gaussian(1.0)], [EpsilonDelta(1.0, 0.999)]])
def test_a_delta_near_one_promises_nothing(delta: float, beside: list[Event]) -> None:
    """It leaves hardly any losses that are finite: nothing to compose."""
    events = [EpsilonDelta(1.0, delta), *beside]
    assert epsilon_of(events, 1e-5) == pld_epsilon(events, 1e-5) == math.inf
    assert largest_true_positive_rate(events, delta=1e-5, false_positive_rate=0.01) > 0.999
