"""Private selection: what it costs to try several settings on private data and keep the best.

Two ways. *Composition*: N trials, everything about each of them may be seen; they compose. *Random stopping*: the number of
trials is random and hidden, each trial draws its settings anew by private randomness, and only the best trial is seen; the cost
then grows with the logarithm of the number of trials (Papernot and Steinke 2022, Theorem 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from caribou._validate import integer, open_unit_interval
from caribou.errors import CalibrationError, InputError
from caribou.privacy.accounting import epsilon_of, has_rdp, rdp_at
from caribou.privacy.budget import SMALLEST_EPSILON, Budget
from caribou.privacy.events import EpsilonDelta, Event

ORDERS = tuple(1 + x / 8 for x in range(1, 80)) + tuple(float(x) for x in range(11, 64)) + (96.0, 128.0, 256.0, 1024.0)
SHAPES = (0.0, 1.0)
"""Distributions of the number of trials: logarithmic (0) and geometric (1)."""


@dataclass(frozen=True)
class RandomTrials:
    """The distribution of the number of trials: truncated negative binomial with ``shape`` (eta) 0 or 1 and ``stop`` (gamma).

    shape 0: P(k) = (1 - gamma)^k / (k log(1/gamma)); shape 1: P(k) = gamma (1 - gamma)^(k - 1); k = 1, 2, ... Drawn by
    `NoiseSource.trial_number`.
    """

    shape: float
    stop: float

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise InputError(f"shape must be 0 or 1, got {self.shape!r}")
        open_unit_interval(stop=self.stop)

    @property
    def mean(self) -> float:
        """The expected number of trials."""
        g = self.stop
        return 1 / g if self.shape == 1 else (1 / g - 1) / math.log(1 / g)

    @classmethod
    def of_mean(cls, shape: float, mean: float) -> RandomTrials:
        """The distribution with an expected number of trials > 1."""
        low, high = 1e-12, 1 - 1e-9
        for _ in range(200):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if cls(shape, middle).mean > mean else (low, middle)
        return cls(shape, high)


def selection_epsilon(costs: Sequence[Sequence[Event]], trials: RandomTrials, delta: float) -> float:
    """epsilon at ``delta`` of the best of a random number of trials, each of which costs one of ``costs``.

    Papernot and Steinke 2022, Theorem 2: for orders a > 1, b >= 1, with r the Renyi bound of one trial,

        r'(a) = r(a) + (1 + eta)(1 - 1/b) r(b) + (1 + eta) log(1/gamma) / b + log(E K) / (a - 1)

    and epsilon = r'(a) + log((a - 1)/a) - (log delta + log a)/(a - 1) (Canonne, Kamath and Steinke 2020), least over a, b.
    A trial draws its settings at random and shows them, so its bound r is the largest over the settings. Assumes that trials are
    independent and identically distributed (settings with replacement, by private randomness), that the best is taken by a
    total order of what a trial shows, and that neither their number nor the other trials are seen.
    """
    delta = open_unit_interval(delta=delta)
    e, g = 1 + trials.shape, trials.stop
    rdp = {order: max(rdp_at(events, order) for events in costs) for order in ORDERS}
    inner = min(e * (1 - 1 / b) * r + e * math.log(1 / g) / b for b, r in rdp.items())
    best = math.inf
    for a, r in rdp.items():
        total = r + inner + math.log(trials.mean) / (a - 1)
        best = min(best, total + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1))
    return max(0.0, best)


def selection_theorem(trials: int, random: RandomTrials | None) -> str:
    """Why a search costs what it costs."""
    if random is None:
        return f"composition of {trials} trials"
    return (
        "best of a hidden random number of trials (Papernot and Steinke 2022, Theorem 2, "
        f"eta = {random.shape:g}, gamma = {random.stop:.6g})"
    )


@dataclass(frozen=True)
class SelectionPlan:
    """How to spend a budget on a search: the ``epsilon`` of one trial (at the budget's delta), and how many there are.

    ``random`` is None for a fixed number of ``trials`` that compose; otherwise the distribution of their number, with
    ``trials`` its mean. ``spent``: what the whole search costs.
    """

    epsilon: float
    trials: int
    random: RandomTrials | None
    spent: float

    @property
    def theorem(self) -> str:
        """For the certificate."""
        return selection_theorem(self.trials, self.random)


def plan_selection(
    costs: Callable[[float], Sequence[Sequence[Event]]],
    *,
    trials: int,
    budget: Budget,
    listed: Callable[[float], Sequence[Event]] | None = None,
) -> SelectionPlan:
    """The plan that leaves the most for one trial within the budget. ``costs``: epsilon of a trial -> events of every setting.

    ``listed``: epsilon of a trial -> the events of all trials, if they are composed; needed where settings cost differently,
    because a mixture can cost more than any setting repeated (a Gaussian and a pure epsilon of equal cost: up to a sixth).
    Both ways are calibrated from the side that keeps the budget; the
    one with the larger epsilon per trial is taken. Settings of which only (epsilon, delta) is known can only be composed.
    """
    trials = integer(at_least=1, trials=trials)
    if not budget.is_private:
        raise InputError("epsilon must be finite to account for a search, got inf")

    def composed(epsilon: float) -> float:
        if listed is not None:
            return epsilon_of(listed(epsilon), budget.delta)
        different = set(map(tuple, costs(epsilon)))
        if len(different) > 1:
            raise InputError("listed must be given where settings cost differently, got None")
        return epsilon_of(list(different.pop()) * trials, budget.delta)

    plans = [_calibrated(composed, trials, None, budget)]
    bounded = all(has_rdp(cost) for cost in costs(budget.epsilon))
    for shape in SHAPES if bounded and trials > 1 else ():
        random = RandomTrials.of_mean(shape, trials)

        def selected(epsilon: float, random: RandomTrials = random) -> float:
            whole = selection_epsilon(costs(epsilon), random, budget.delta)
            if whole > budget.epsilon:
                return whole
            # as a certificate and a ledger judge it: the accountant rounds an (epsilon, delta) up to its grid
            return epsilon_of([EpsilonDelta(whole, budget.delta)], budget.delta)

        plans.append(_calibrated(selected, trials, random, budget))
    best = max((plan for plan in plans if plan is not None), key=lambda plan: plan.epsilon, default=None)
    if best is None:
        raise CalibrationError(f"{trials} trials cannot be paid for by {budget}")
    return best


def _calibrated(
    total: Callable[[float], float], trials: int, random: RandomTrials | None, budget: Budget
) -> SelectionPlan | None:
    low, high = 0.0, budget.epsilon
    for _ in range(16):
        middle = (low + high) / 2
        if middle < 2 * SMALLEST_EPSILON:  # twice: a part of it is a budget, too
            break
        low, high = (middle, high) if total(middle) <= budget.epsilon else (low, middle)
    return None if low == 0 else SelectionPlan(low, trials, random, total(low))
