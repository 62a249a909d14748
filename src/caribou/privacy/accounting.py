"""Accountants: what a list of events costs. Three of them, which check each other.

* GDP: exact and in closed form for Gaussian mechanisms (Dong, Roth and Su 2022), the home of the convergent bound.
* PLD: numerical composition of anything, through dp-accounting; the headline when not all events are Gaussian.
* RDP: the paper's accounting, and the cross-check.

The normal distribution is evaluated with the standard library, and what Gaussians alone or one pure epsilon cost is summed here.
So planning, and verifying most certificates, needs no heavy import; dp-accounting is imported for everything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any

from caribou._validate import non_negative, open_unit_interval, positive, unit_interval
from caribou.errors import InputError
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.events import (
    EpsilonDelta,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    Parallel,
    choices,
    gaussian_mu,
)

PAPER_RDP_ORDER = 6.0
"""The Renyi order that the paper fixes in its noise table."""

RDP_ORDERS = [1 + x / 10 for x in range(1, 100)] + [*range(11, 64), 128, 256, 512, 1024, 4096]
"""The Renyi orders of which `rdp_epsilon_of` takes the best."""

PLD_INTERVAL = 5e-4
"""Discretisation of the privacy loss. dp-accounting connects the dots from above, so its epsilon is an upper bound that is
high by second order only."""

FEW_EVENTS = 8
"""The rounding of every composed event adds up. So few full-batch events get a grid up to four times coarser, where losses are
large: within 1e-5 of epsilon."""


# -- the normal distribution ---------------------------------------------------------------------------------------


def log_normal_cdf(x: float) -> float:
    """log Phi(x), also far in the left tail (asymptotic series below -36, where erfc would underflow)."""
    if x > -36:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2)))
    y = 1 / (x * x)
    series = 1 - y * (1 - 3 * y * (1 - 5 * y * (1 - 7 * y * (1 - 9 * y * (1 - 11 * y)))))
    return -x * x / 2 - math.log(-x) - 0.5 * math.log(2 * math.pi) + math.log(series)


# -- GDP -----------------------------------------------------------------------------------------------------------


def gdp_delta(*, mu: float, epsilon: float) -> float:
    """delta(epsilon) of a mu-GDP mechanism: Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2). Exact.

    Dong, Roth and Su 2022, Corollary 1. Evaluated in logarithms, so that it keeps its digits where it is tiny.
    """
    mu, epsilon = positive(mu=mu), non_negative(epsilon=epsilon)
    log_first = log_normal_cdf(-epsilon / mu + mu / 2)
    log_second = epsilon + log_normal_cdf(-epsilon / mu - mu / 2)
    return math.exp(log_first) * -math.expm1(min(0.0, log_second - log_first))


def _keeps(mu: float, epsilon: float, delta: float, times: int = 1) -> bool:
    """Whether `gdp_delta` is surely at most ``delta``: where mu is tiny its two terms cancel to a few digits.

    With u = 2^-53 and s = eps/mu + mu/2, an argument of Phi is off by at most 2 u s, and log Phi moves by at most s + 1 times
    that. Each logarithm l is off by a few u (1 + |l|) besides. ``times``: so often that error, for whoever must be sure that
    another evaluation agrees.
    """
    s = epsilon / mu + mu / 2
    log_first, log_second = log_normal_cdf(mu - s), epsilon + log_normal_cdf(-s)
    error = times * 2.0**-53 * (4 * s * (s + 1) + 4 * abs(log_first) + 4 * abs(log_second) + 16)
    return log_first + error + math.log(-math.expm1(min(0.0, log_second - log_first) - 2 * error)) <= math.log(delta)


def gdp_epsilon(*, mu: float, delta: float) -> float:
    """The smallest epsilon such that a mu-GDP mechanism is (epsilon, delta)-DP, rounded up.

    >>> round(gdp_epsilon(mu=1 / 3.7306, delta=1e-5), 3)
    1.0
    """
    delta = open_unit_interval(delta=delta)
    if math.isinf(mu):
        return math.inf
    mu = positive(mu=mu)
    if _keeps(mu, 0.0, delta):
        return 0.0
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta)) + 1e-12
    while not _keeps(mu, high, delta):
        high *= 2
    return _bisect(lambda e: _keeps(mu, e, delta), low, high)


def gdp_mu(*, epsilon: float, delta: float) -> float:
    """The largest mu such that mu-GDP implies (epsilon, delta)-DP, rounded down: never overspends.

    >>> round(1 / gdp_mu(epsilon=1, delta=1e-5), 4), round(1 / gdp_mu(epsilon=4, delta=1e-5), 4)
    (3.7306, 1.0812)
    """
    epsilon, delta = positive(epsilon=epsilon), open_unit_interval(delta=delta)
    # In terms of the noise multiplier 1/mu the predicate is monotone upwards; start where noise is surely enough.
    enough, too_little = 1.0, 1.0
    while gdp_delta(mu=1 / enough, epsilon=epsilon) > delta:
        enough *= 2
    while gdp_delta(mu=1 / too_little, epsilon=epsilon) <= delta:
        too_little /= 2
    multiplier = _bisect(lambda m: gdp_delta(mu=1 / m, epsilon=epsilon) <= delta, too_little, enough)
    # A hair less than the solution, so that no rounding on the way back (1/mu, mu^2, epsilon) can end above epsilon. More of it
    # where the solution itself is known to few digits.
    mu, less = (1 - 4e-12) / multiplier, 4e-12
    while not _keeps(mu, epsilon, delta, times=3):
        mu, less = mu * (1 - less), 2 * less
    return mu


def pure_gdp_mu(epsilon: float) -> float:
    """The smallest mu such that every epsilon-DP mechanism is mu-GDP: 2 Phi^-1(e^eps / (1 + e^eps)), rounded up.

    The trade-off function of randomized response, which bounds every pure mechanism, is linear from (0, 1) to the fixed
    point (a, a), a = 1 / (1 + e^eps), and from there to (1, 0). G_mu is convex and meets both ends, so it lies below if it
    does at a: G_mu(a) = Phi(Phi^-1(1 - a) - mu) <= a exactly for mu >= 2 Phi^-1(1 - a).

    >>> round(pure_gdp_mu(1.0), 4), pure_gdp_mu(0.0)
    (1.232, 0.0)
    """
    epsilon = non_negative(epsilon=epsilon)
    if epsilon > 700:
        return math.inf
    if epsilon < 1e-3:
        # Phi^-1(1/2 + x) <= sqrt(2 pi) x (1 + 2.1 x^2) for x = tanh(eps / 2) / 2 <= 1/4000; a probability loses digits.
        x = math.tanh(epsilon / 2) / 2
        return 2 * math.sqrt(2 * math.pi) * x * (1 + 2.1 * x * x) * (1 + 1e-12)
    return -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon))) * (1 + 1e-12)


def _bisect(holds: Any, fails_at: float, holds_at: float) -> float:
    """The smallest point (to 1e-13) where a monotone predicate holds, from the side where it holds."""
    while holds_at - fails_at > 1e-13 * holds_at:
        middle = (fails_at + holds_at) / 2
        if middle in (fails_at, holds_at):
            break
        if holds(middle):
            holds_at = middle
        else:
            fails_at = middle
    return holds_at


# -- RDP as in the paper -------------------------------------------------------------------------------------------


def rdp_noise_multiplier(*, epsilon: float, delta: float, order: float) -> float | None:
    """The noise per sensitivity (at kappa = 1) of the paper's RDP accounting at a fixed order; None if infeasible.

    A mu-GDP mechanism is (order, order mu^2 / 2)-RDP, and epsilon = order mu^2 / 2 + log(1/delta) / (order - 1) (Mironov 2017,
    Proposition 3). Solves order / (2 z^2) + log(1/delta)/(order - 1) = epsilon for z. At small epsilon a fixed order leaves
    nothing.

    >>> round(rdp_noise_multiplier(epsilon=4, delta=1e-3, order=6), 2)
    1.07
    """
    if not order > 1:
        raise InputError(f"order must be > 1, got {order!r}")
    left = positive(epsilon=epsilon) - math.log(1 / open_unit_interval(delta=delta)) / (order - 1)
    return math.sqrt(order / (2 * left)) if left > 0 else None


def best_rdp_order(*, epsilon: float, delta: float) -> float:
    """The order that needs the least noise in `rdp_noise_multiplier`: 1 + t + sqrt(t^2 + t), t = log(1/delta)/epsilon.

    Minimises order / (epsilon - L/(order-1)), L = log(1/delta): with x = order - 1 the derivative vanishes where
    epsilon x^2 - 2 L x - L = 0.
    """
    t = math.log(1 / open_unit_interval(delta=delta)) / positive(epsilon=epsilon)
    return 1 + t + math.sqrt(t * t + t)


def rdp_conversion(*, order: float, delta: float) -> float:
    """What is added to a Renyi bound at the order a to make it an epsilon at ``delta``.

    log((a - 1) / a) - log(a delta) / (a - 1): Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    return math.log1p(-1 / order) - math.log(order * delta) / (order - 1)


# -- every kind of event -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Accounting:
    """How the accountants judge one kind of event. A new distribution is a record in `events` and a row of `ACCOUNTING`.

    ``words``: the event for people. ``pld``: the privacy loss distribution on a grid. ``rdp``: the Renyi bound at one order > 1,
    in closed form; infinite where there is none. ``pure``: its epsilon if it is pure DP, else None. ``largest_loss``: roughly,
    to bound the number of buckets. ``composed``: how many mechanisms it is.
    """

    words: Callable[[Any], str]
    pld: Callable[[Any, Mapping[str, Any]], Any]
    rdp: Callable[[Any, float], float]
    pure: Callable[[Any], float | None]
    largest_loss: Callable[[Any], float]
    composed: Callable[[Any], int] = lambda _: 1


def _distributions() -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution


def _gaussian_loss(mu: float) -> float:
    return mu * mu / 2 + 10 * mu


def _laplace_rdp(event: Laplace, a: float) -> float:
    """Mironov 2017, Table II."""
    e = 1 / event.noise_multiplier
    up = math.log(a / (2 * a - 1)) + (a - 1) * e
    down = math.log((a - 1) / (2 * a - 1)) - a * e
    return event.count * (up + math.log1p(math.exp(down - up))) / (a - 1)


def _pure_rdp(event: EpsilonDelta, a: float) -> float:
    """That of randomized response, which dominates every pure mechanism.

    p = e^eps / (1 + e^eps): log(p^a (1-p)^(1-a) + (1-p)^a p^(1-a)) / (a - 1), kept stable for large eps.
    """
    if event.delta > 0:
        return math.inf
    epsilon = event.epsilon
    log_q = -math.log1p(math.exp(epsilon)) if epsilon < 500 else -epsilon
    return (log_q + a * epsilon + math.log1p(math.exp((1 - 2 * a) * epsilon))) / (a - 1)


def _pure_pld(event: EpsilonDelta, grid: Mapping[str, Any]) -> Any:
    from dp_accounting.pld import common

    parameters = common.DifferentialPrivacyParameters(event.epsilon, event.delta)
    interval = grid["value_discretization_interval"]
    return _distributions().from_privacy_parameters(parameters, value_discretization_interval=interval)


def _times(count: int, what: str) -> str:
    return what if count == 1 else f"{count} {what}s"


ACCOUNTING: Mapping[type, Accounting] = {
    Gaussian: Accounting(
        words=lambda e: f"{_times(e.count, 'Gaussian mechanism')} of multiplier {e.noise_multiplier:.6g}",
        pld=lambda e, grid: _distributions().from_gaussian_mechanism(e.noise_multiplier / math.sqrt(e.count), **grid),
        rdp=lambda e, a: e.count * a / (2 * e.noise_multiplier**2),
        pure=lambda _: None,
        largest_loss=lambda e: _gaussian_loss(math.sqrt(e.count) / e.noise_multiplier),
    ),
    Laplace: Accounting(
        words=lambda e: f"{_times(e.count, 'Laplace mechanism')} of multiplier {e.noise_multiplier:.6g}",
        pld=lambda e, grid: _distributions().from_laplace_mechanism(e.noise_multiplier, **grid).self_compose(e.count),
        rdp=_laplace_rdp,
        pure=lambda e: e.count / e.noise_multiplier,
        largest_loss=lambda e: e.count / e.noise_multiplier,
        composed=lambda e: e.count,
    ),
    EpsilonDelta: Accounting(
        words=lambda e: f"epsilon = {e.epsilon:.6g}" + (f", delta = {e.delta:.3g}" if e.delta else ""),
        pld=_pure_pld,
        rdp=_pure_rdp,
        pure=lambda e: e.epsilon if e.delta == 0 else None,
        largest_loss=lambda e: e.epsilon,
        composed=lambda _: FEW_EVENTS + 1,  # an epsilon of its own is rounded up to the grid
    ),
}
"""Of every event but `NonPrivate` and `Parallel`, which are not distributions."""


def accounting_of(event: Event) -> Accounting:
    """The row of an event; an error for one that no accountant knows."""
    if type(event) not in ACCOUNTING:
        raise InputError(f"event must be one that the accountants know, got {type(event).__name__}")
    return ACCOUNTING[type(event)]


def event_words(event: Event) -> str:
    """An event for people.

    >>> event_words(Gaussian(2.0, 3)), event_words(EpsilonDelta(1.0))
    ('3 Gaussian mechanisms of multiplier 2', 'epsilon = 1')
    """
    if isinstance(event, Parallel):
        return " or ".join(f"({', '.join(map(event_words, group))})" for group in event.groups)
    return "no noise" if isinstance(event, NonPrivate) else accounting_of(event).words(event)


# -- any events ----------------------------------------------------------------------------------------------------


def epsilon_of(events: Sequence[Event], delta: float) -> float:
    """The epsilon of a composition at ``delta``: exact GDP if all events are full-batch Gaussians, PLD otherwise.

    Both are upper bounds; an empty list costs 0, a `NonPrivate` event makes it infinite. Of `Parallel` groups the most
    expensive counts.
    """
    delta = open_unit_interval(delta=delta)

    def judge(paid: Sequence[Event]) -> float:
        mu = gaussian_mu(paid)
        if mu is not None:
            return gdp_epsilon(mu=mu, delta=delta)
        pure, composed = pure_epsilon(paid), pld_epsilon(paid, delta)
        return composed if pure is None else min(pure, composed)

    return _worst(events, judge, nothing=0.0, no_noise=math.inf)


def _worst(
    events: Sequence[Event], judge: Callable[[Sequence[Event]], float], *, nothing: float, no_noise: float
) -> float:
    """The largest figure over all that one protected unit may have to pay. ``judge`` sees distributions only."""
    grouped = any(isinstance(event, Parallel) for event in events)
    found = []
    for paid in choices(events) if grouped else [tuple(events)]:
        if any(isinstance(event, NonPrivate) for event in paid):
            return no_noise
        found.append(judge(paid) if paid else nothing)
    return max(found)


def pure_epsilon(events: Sequence[Event]) -> float | None:
    """Basic composition: the sum of the epsilons if every event is pure DP (delta = 0), else None."""
    total = 0.0
    for event in events:
        pure = accounting_of(event).pure(event) if type(event) in ACCOUNTING else None
        if pure is None:
            return None
        total += pure
    return total


def pld_epsilon(events: Sequence[Event], delta: float) -> float:
    """epsilon at ``delta`` by numerical composition of privacy loss distributions (pessimistic rounding)."""
    delta = open_unit_interval(delta=delta)

    def judge(paid: Sequence[Event]) -> float:
        mu, pure = gaussian_mu(paid), pure_epsilon(paid)
        if mu:
            return gaussian_pld_epsilon(mu=mu, delta=delta)
        if len(paid) == 1 and isinstance(paid[0], EpsilonDelta) and pure is not None:
            return pure_pld_epsilon(pure=pure, delta=delta)
        if any(isinstance(event, EpsilonDelta) and event.delta > delta for event in paid):
            return math.inf  # a delta near 1 would leave no distribution to compose
        return float(compose_pld(tuple(paid)).get_epsilon_for_delta(delta))

    return _worst(events, judge, nothing=0.0, no_noise=math.inf)


@lru_cache(maxsize=64)
def gaussian_pld_epsilon(*, mu: float, delta: float) -> float:
    """epsilon at ``delta`` of a mu-GDP mechanism from its privacy loss, which is N(mu^2 / 2, mu^2), on a grid and rounded up.

    delta(eps) = sum over losses l > eps of p(l) (1 - e^(eps - l)), from the top down. Losses far out, of less probability than
    delta by many orders, count as infinite. It shares no formula with `gdp_epsilon`, which it checks, and loads nothing.
    """
    mean = mu * mu / 2
    largest = mean + (12 if delta > 1e-30 else 37) * mu
    interval = max(PLD_INTERVAL, largest / 100_000)
    above = _upper_tail((largest - mean) / mu)
    if above >= delta:
        return math.inf
    mass, weighted = above, 0.0  # sums over the losses l' >= l of p(l') and of p(l') e^(l - l')
    for step in range(math.ceil(largest / interval)):
        loss = largest - step * interval
        below = _upper_tail((loss - interval - mean) / mu)  # what lies between is rounded up to the loss
        mass, weighted = mass + below - above, weighted * math.exp(-interval) + below - above
        if mass - weighted * math.exp(-interval) > delta:
            return max(0.0, loss + math.log((mass - delta) / weighted))
        above = below
    return 0.0


def _upper_tail(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2))


def pure_pld_epsilon(*, pure: float, delta: float) -> float:
    """epsilon at ``delta`` of one pure mechanism: that of randomized response, log(e^pure - delta (1 + e^pure)), or 0.

    Its losses are pure and -pure, with probabilities e^pure / (1 + e^pure) and 1 / (1 + e^pure); no pure mechanism loses more
    (Kairouz, Oh and Viswanath 2015).
    """
    lost = delta * (1 + math.exp(-pure))
    return max(0.0, pure + math.log1p(-lost)) * (1 + 2.0**-50) if lost < 1 else 0.0


@lru_cache(maxsize=4)
def compose_pld(events: tuple[Event, ...]) -> Any:
    """The composed privacy loss distribution of dp-accounting. Neighbours: add or remove one unit.

    The last few are kept: a certificate asks for epsilon and for two attack rates of the same events.
    """
    interval, merged = _interval(events), _merge_gaussians(events)
    total = _pld(merged[0], interval)
    for event in merged[1:]:
        total = total.compose(_pld(event, interval))
    return total


def _interval(events: Sequence[Event]) -> float:
    """The discretisation for some events: finer where many are composed, coarser where losses are large."""
    largest = sum(accounting_of(event).largest_loss(event) for event in events)
    interval = PLD_INTERVAL * max(1.0, largest / 40)
    if sum(accounting_of(event).composed(event) for event in _merge_gaussians(events)) > FEW_EVENTS:
        return interval
    return max(interval, PLD_INTERVAL * min(4.0, max(1.0, largest / 4)))


@lru_cache(maxsize=8)
def _pld(event: Event, interval: float) -> Any:
    """The privacy loss distribution of one event on a grid. A calibration changes one event and asks for the others again."""
    grid = {"value_discretization_interval": interval, "pessimistic_estimate": True}
    return accounting_of(event).pld(event, grid)


def _merge_gaussians(events: Sequence[Event]) -> list[Event]:
    """All full-batch Gaussians as one (exact, since mu^2 adds up), so that a long ledger composes quickly."""
    gaussians = [event for event in events if isinstance(event, Gaussian)]
    others: list[Event] = [event for event in events if not isinstance(event, Gaussian)]
    mu = gaussian_mu(gaussians)
    return [Gaussian(1 / mu), *others] if gaussians and mu else others


def rdp_epsilon_of(events: Sequence[Event], delta: float) -> float | None:
    """epsilon at ``delta`` by Renyi accounting over many orders; None where an event has no Renyi bound.

    At every order, epsilon is the bound of `rdp_at` plus `rdp_conversion`.
    """
    delta = open_unit_interval(delta=delta)
    if any(isinstance(event, Parallel) for event in events):
        each = [rdp_epsilon_of(choice, delta) for choice in choices(events)]
        return None if any(e is None for e in each) else max(e for e in each if e is not None)
    if not events:
        return 0.0
    if any(isinstance(event, NonPrivate) for event in events):
        return math.inf
    if not has_rdp(events):
        return None
    return max(0.0, min(rdp_at(events, a) + rdp_conversion(order=a, delta=delta) for a in RDP_ORDERS))


def rdp_at(events: Sequence[Event], order: float) -> float:
    """The Renyi divergence bound of a composition at one order > 1, in closed form. Groups: the largest."""
    total = 0.0
    for event in events:
        if isinstance(event, Parallel):
            total += max(rdp_at(group, order) for group in event.groups)
        else:
            bound = accounting_of(event).rdp(event, order)
            if math.isinf(bound):
                raise InputError(f"event must be Gaussian, Laplace or pure epsilon for a Renyi bound, got {event!r}")
            total += bound
    return total


def has_rdp(events: Sequence[Event]) -> bool:
    """Whether every event, in every group, has a Renyi bound in closed form."""
    kinds = [event for choice in choices(events) for event in choice]
    return all(type(e) in ACCOUNTING and math.isfinite(ACCOUNTING[type(e)].rdp(e, 2.0)) for e in kinds)


# -- more than one unit --------------------------------------------------------------------------------------------


def group_of_two(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events that bound what the same mechanisms cost a pair of data sets that are two neighbouring steps apart.

    A mechanism with trade-off function f has 1 - (1 - f)(1 - f(a)) for two steps (Dong, Roth and Su 2022, group privacy). For
    log-concave noise of distribution function F, f(a) = F(F^-1(1 - a) - t), so two steps are the shift 2t: Gaussian and Laplace
    multipliers halve, exactly. (epsilon, delta) becomes (2 epsilon, (1 + e^epsilon) delta): two triangle inequalities. Groups:
    each for itself.

    >>> group_of_two([Gaussian(4.0, 3), EpsilonDelta(0.5)])
    (Gaussian(noise_multiplier=2.0, count=3), EpsilonDelta(epsilon=1.0, delta=0.0))
    """
    return tuple(map(_of_two, events))


def _of_two(event: Event) -> Event:
    if isinstance(event, NonPrivate):
        return event
    if isinstance(event, Parallel):
        return Parallel(tuple(group_of_two(group) for group in event.groups))
    if isinstance(event, EpsilonDelta):
        epsilon = 2 * event.epsilon
        delta = event.delta * (1 + math.exp(min(event.epsilon, 700.0))) * (1 + 1e-15) if event.delta > 0 else 0.0
        # the last factor: a product may have been rounded down
        return EpsilonDelta(epsilon, delta) if epsilon < math.inf and delta < 1 else NonPrivate()
    if isinstance(event, Gaussian | Laplace):
        half = event.noise_multiplier / 2
        return replace(event, noise_multiplier=half) if half > 0 else NonPrivate()
    raise InputError(f"event must be one that the accountants know, got {type(event).__name__}")


def at_unit(events: Sequence[Event], *, made_at: PrivacyUnit, at: PrivacyUnit) -> tuple[Event, ...]:
    """What a release with a guarantee at one privacy unit costs at a unit, as events.

    Node level after an edge-level release: nothing is left, because features and labels of every node were declared public.
    Edge level after a node-level release: two steps. An edge uv leaves by taking out the node u with it and putting u back
    without it, and both steps are neighbours at node level.
    """
    if made_at is at:
        return tuple(events)
    if at is PrivacyUnit.NODE:
        return (NonPrivate(),)
    if at is PrivacyUnit.EDGE:
        return group_of_two(events)
    raise InputError(f"unit must be one of {', '.join(u.value for u in PrivacyUnit)}, got {at!r}")


# -- in the words of an attacker -----------------------------------------------------------------------------------


def largest_true_positive_rate(events: Sequence[Event], *, delta: float, false_positive_rate: float) -> float:
    """The best true positive rate of any membership test at a false positive rate, given the events.

    Exact for Gaussians, Phi(Phi^-1(fpr) + mu); otherwise the smallest of e^eps fpr + delta(eps) and
    1 - e^-eps (1 - delta(eps) - fpr) over the PLD curve (Kairouz, Oh and Viswanath 2015), of which every point is a bound.
    """
    fpr = open_unit_interval(false_positive_rate=false_positive_rate)

    def judge(paid: Sequence[Event]) -> float:
        mu = gaussian_mu(paid)
        if mu is not None:
            normal = NormalDist()
            return normal.cdf(normal.inv_cdf(fpr) + mu)
        best = 1.0
        if any(isinstance(event, EpsilonDelta) and event.delta > 1 - 1e-6 for event in paid):
            return best  # as in `pld_epsilon`
        for eps, d in _delta_curve(tuple(paid), delta):
            best = min(best, math.exp(min(eps, 700.0)) * fpr + d, 1 - math.exp(-eps) * max(0.0, 1 - d - fpr))
        return best

    return _worst(events, judge, nothing=fpr, no_noise=1.0)


def attack_rate(*, epsilon: float, delta: float, false_positive_rate: float, gaussian: bool, steps: int = 1) -> float:
    """T(a): the largest true positive rate at the false positive rate a that a budget allows any attacker.

    ``gaussian``: of a Gaussian mechanism, Phi(Phi^-1(a) + mu) with mu of the budget (Dong, Roth and Su 2022). Otherwise of any
    (epsilon, delta)-DP mechanism, min(e^eps a + delta, 1 - e^-eps (1 - delta - a)) (Kairouz, Oh and Viswanath 2015).
    ``steps``: 1 to tell whether a unit is there, 2 to tell which of two it is: T(T(a)).

    >>> rates = [attack_rate(epsilon=4, delta=1e-5, false_positive_rate=0.01, gaussian=g) for g in (True, False)]
    >>> [round(rate, 3) for rate in rates]
    [0.081, 0.546]
    """
    rate = open_unit_interval(false_positive_rate=false_positive_rate)
    for _ in range(steps):
        if gaussian:
            normal = NormalDist()
            rate = normal.cdf(normal.inv_cdf(rate) + gdp_mu(epsilon=epsilon, delta=delta)) if rate < 1 else 1.0
        else:
            growth = math.exp(epsilon)
            rate = min(1.0, growth * rate + delta, 1 - max(0.0, 1 - delta - rate) / growth)
    return rate


def epsilon_for_rate(
    *,
    true_positive_rate: float,
    false_positive_rate: float,
    delta: float,
    gaussian: bool = False,
    steps: int = 1,
    largest: float = 40.0,
) -> float:
    """The largest epsilon at which `attack_rate` is at most ``true_positive_rate``, rounded down. The inverse of it.

    At most ``largest``, where nearly nothing is protected. A rate that guessing reaches is an error.

    >>> round(epsilon_for_rate(true_positive_rate=0.1, false_positive_rate=0.01, delta=1e-5), 3)
    2.302
    >>> round(epsilon_for_rate(true_positive_rate=0.1, false_positive_rate=0.01, delta=1e-5, gaussian=True), 3)
    4.605
    """
    tpr = open_unit_interval(true_positive_rate=true_positive_rate)

    def rate(epsilon: float) -> float:
        return attack_rate(
            epsilon=epsilon, delta=delta, false_positive_rate=false_positive_rate, gaussian=gaussian, steps=steps
        )

    low, high = 2.0**-20, largest
    if rate(low) > tpr:
        raise InputError(
            f"true_positive_rate must be above {rate(low):.6g}, which an attacker reaches by guessing at {false_positive_rate:g} "
            f"false positives, got {tpr!r}"
        )
    if rate(high) <= tpr:
        return high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if rate(middle) <= tpr else (low, middle)
    return low


@lru_cache(maxsize=8)
def _delta_curve(events: tuple[Event, ...], delta: float, points: int = 64) -> tuple[tuple[float, float], ...]:
    """(eps, delta(eps)) from 0 to the epsilon at ``delta``. One curve serves all false positive rates of a certificate."""
    if len(events) == 1 and isinstance(events[0], EpsilonDelta) and events[0].delta == 0:
        return ((events[0].epsilon, 0.0),)
    distribution, top = compose_pld(events), epsilon_of(events, delta)
    # all at once: one pass over the losses instead of one per point; without an epsilon at this delta, from 0 alone
    grid = sorted({top * step / points for step in range(points + 1)}) if math.isfinite(top) else [0.0]
    return tuple(zip(grid, map(float, distribution.get_delta_for_epsilon(grid)), strict=True))


def randomized_response_epsilon(*, keep_one: float, make_one: float) -> float:
    """epsilon of a bit that is 1 with probability ``keep_one`` if it was 1 and ``make_one`` if it was 0.

    max(|log(a/b)|, |log((1-a)/(1-b))|) for a = keep_one, b = make_one; infinite if an outcome is possible in one world only.
    Unit of privacy: one bit.
    """
    a, b = unit_interval(keep_one=keep_one), unit_interval(make_one=make_one)
    worst = 0.0
    for p, q in ((a, b), (1 - a, 1 - b)):
        if p == q:
            continue
        if p == 0 or q == 0:
            return math.inf
        worst = max(worst, abs(math.log(p / q)))
    return worst
