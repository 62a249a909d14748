"""Randomized response on pairs of nodes: probabilities that keep or make an edge, and what they cost.

Letters: N = n (n - 1) / 2 pairs, T = the released edge count, epsilon = what one pair may cost. Every unordered pair is answered
once and by itself: 1 with probability a = keep_one if it is an edge, with b = make_one if it is not. One undirected edge changes
one answer, so the whole perturbed graph costs what one answer costs (`randomized_response_epsilon`), whatever n is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from caribou._validate import integer, open_unit_interval, positive, positive_or_inf, unit_interval
from caribou.errors import InputError
from caribou.privacy.accounting import randomized_response_epsilon
from caribou.privacy.budget import Budget
from caribou.privacy.events import EpsilonDelta, Event, NonPrivate

_GRID_BITS = 64
_INWARD = 2.0**-48


def pair_count(nodes: int) -> int:
    """N = n (n - 1) / 2."""
    return nodes * (nodes - 1) // 2


@dataclass(frozen=True)
class PairResponse:
    """The record that the mechanism takes. Both probabilities are multiples of 2^-64, so that drawing them can be exact.

    >>> round(PairResponse(0.75, 0.25).epsilon, 4)
    1.0986
    """

    keep_one: float
    make_one: float

    def __post_init__(self) -> None:
        for name, p in (("keep_one", self.keep_one), ("make_one", self.make_one)):
            if not math.ldexp(unit_interval(**{name: p}), _GRID_BITS).is_integer():
                raise InputError(f"{name} must be a multiple of 2^-{_GRID_BITS}, got {p!r}")

    @property
    def epsilon(self) -> float:
        """What one pair costs, from the probabilities that are used."""
        return randomized_response_epsilon(keep_one=self.keep_one, make_one=self.make_one)

    def expected_pairs(self, *, edges: int, nodes: int) -> float:
        """Edges of the perturbed graph that are to be expected if the graph has ``edges``: a T + b (N - T)."""
        return self.keep_one * edges + self.make_one * (pair_count(nodes) - edges)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the probabilities, and what these answers cost exactly."""
        return {"keep_one": self.keep_one, "make_one": self.make_one, "epsilon_of_answers": self.epsilon}


@dataclass(frozen=True)
class PairBudget:
    """epsilon = epsilon of the edge count + epsilon of every pair (basic composition of two pure mechanisms)."""

    count: float
    pairs: float

    @property
    def is_private(self) -> bool:
        """False without noise."""
        return math.isfinite(self.pairs)

    @property
    def events(self) -> tuple[Event, ...]:
        """What the two cost, whatever they will say: the promised epsilons."""
        if math.isinf(self.pairs):
            return (NonPrivate(),)
        return EpsilonDelta(self.count), EpsilonDelta(self.pairs)


def split_pair_budget(budget: Budget, count_share: float) -> PairBudget:
    """``count_share`` of epsilon for the edge count, the rest for the pairs; rounded so that the sum stays below epsilon.

    >>> split_pair_budget(Budget(4.0), 0.25).count
    1.0
    """
    share = open_unit_interval(count_share=count_share)
    if not budget.is_private:
        return PairBudget(math.inf, math.inf)
    count = share * budget.epsilon
    return PairBudget(count, (budget.epsilon - count) * (1 - _INWARD))


def asymmetric_response(*, epsilon: float, edges: int, nodes: int) -> PairResponse:
    """The probabilities under which the perturbed graph has as many edges as the graph, at full use of epsilon.

        a = p q,  b = (1 - p) q,   p = e^eps / (1 + e^eps),   q = min(1, d / (2 p d - p - d + 1)),   d = T / N

    (the asymmetric randomized response of the SAGE baseline of Sajadmanesh et al. 2023). For d <= 1/2 this is
    a = T / (T + (N - T) e^-eps), b = e^-eps a: the answer "edge" has likelihood ratio exactly e^eps, the answer "no edge" less.
    q = 1 is ordinary randomized response. Rounded inwards (a down, b up), which only lowers the cost. T is a released number.

    >>> r = asymmetric_response(epsilon=math.log(3), edges=1, nodes=4)
    >>> round(r.keep_one, 4), round(r.make_one, 4), round(r.expected_pairs(edges=1, nodes=4), 4)
    (0.375, 0.125, 1.0)
    """
    T, N = _checked_counts(edges, nodes)
    if math.isinf(positive_or_inf(epsilon=epsilon)):
        return PairResponse(1.0, 0.0)
    fade = math.exp(-epsilon)
    if T == 0:
        return PairResponse(0.0, 0.0)
    if 2 * T >= N:
        return _inward(1 / (1 + fade), fade / (1 + fade))
    keep = T / (T + (N - T) * fade)
    return _inward(keep, fade * keep)


def laplace_threshold(*, epsilon: float, edges: int, nodes: int) -> float:
    """The threshold t such that T of the N cells 1{edge} + Lap(1/eps) are expected above it if T of them are edges.

    With e = epsilon the equation T P(1 + Lap > t) + (N - T) P(Lap > t) = T has one solution, in one of three branches:

        t >= 1:       t = log((T e^e + N - T) / (2 T)) / e               if N - T >= T e^e      (sparse graph, small epsilon)
        0 <= t <= 1:  t = (1 + log((N - T) / T) / e) / 2                 if e >= |log((N - T) / T)|
        t <= 0:       t = log(2 (N - T) / (T e^-e + N - T)) / e          if T >= (N - T) e^e
    """
    T, N = _checked_counts(edges, nodes)
    if T in (0, N):
        return math.inf if T == 0 else -math.inf
    e = positive(epsilon=epsilon)
    odds = math.log((N - T) / T)
    if odds >= e:
        return math.log((T * math.exp(e) + N - T) / (2 * T)) / e
    if odds >= -e:
        return (1 + odds / e) / 2
    return math.log(2 * (N - T) / (T * math.exp(-e) + N - T)) / e


def laplace_threshold_response(*, epsilon: float, edges: int, nodes: int) -> PairResponse:
    """LapGraph (Wu et al. 2022) as a randomized response: a = P(1 + Lap(1/eps) > t), b = P(Lap(1/eps) > t), t as above.

    Each cell is compared with a threshold that is a function of released numbers, so the answers are independent and only their
    signs are kept: two probabilities describe them, and no cell need be drawn. Publishing whether a Laplace variable exceeds t is
    post-processing of the Laplace mechanism, so the cost is at most epsilon; what it is exactly follows from a and b. For
    N - T >= T e^eps it equals `asymmetric_response`, beyond it loses more edges for the same epsilon. Rounded inwards.
    """
    if math.isinf(positive_or_inf(epsilon=epsilon)):
        return PairResponse(1.0, 0.0)
    t = laplace_threshold(epsilon=epsilon, edges=edges, nodes=nodes)
    if math.isinf(t):
        return PairResponse(0.0, 0.0) if t > 0 else PairResponse(1.0, 1.0)
    return _inward(_laplace_tail((t - 1) * epsilon), _laplace_tail(t * epsilon))


def _laplace_tail(x: float) -> float:
    """P(Lap(1) > x)."""
    return 0.5 * math.exp(-x) if x >= 0 else 1 - 0.5 * math.exp(x)


def _inward(keep: float, make: float) -> PairResponse:
    """Both probabilities on the grid of the sampler, nearer to each other than given: both likelihood ratios shrink."""
    # a new edge is never impossible: its probability is at least one step of the grid
    b = math.ldexp(max(1, math.ceil(math.ldexp(make * (1 + _INWARD), _GRID_BITS))), -_GRID_BITS)
    # 1 - a must not shrink either: the same relative allowance on the side of the answer "no edge"
    a = min(keep * (1 - _INWARD), 1 - (1 - keep) * (1 + _INWARD))
    a = math.ldexp(math.floor(math.ldexp(a, _GRID_BITS)), -_GRID_BITS)
    b = min(b, 1.0)
    return PairResponse(max(a, b), b)


def _checked_counts(edges: int, nodes: int) -> tuple[int, int]:
    N = pair_count(integer(at_least=1, nodes=nodes))
    T = integer(at_least=0, edges=edges)
    if T > N:
        raise InputError(f"edges must be at most the {N} pairs of {nodes} nodes, got {edges}")
    return T, N
