"""What a known bad mechanism is: a target that claims a budget and does not keep it, and a pair that shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair
from caribou.audit.targets import AuditTarget
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import EpsilonDelta, Event, Gaussian

Made = Callable[[Budget], tuple[AuditTarget, Pair | tuple[Pair, ...], Claim]]
Outcome = dict[str, np.ndarray]


@dataclass(frozen=True)
class KnownBad:
    """``fault``: what is wrong and where it was seen; ``make``: the target for a budget; ``runs``: so many reject its claim."""

    fault: str
    make: Made
    runs: int
    unit: str = "edge"


def claim_of(events: Sequence[Event], budget: Budget) -> Claim:
    """The budget, with the events that keep it."""
    return Claim(budget.epsilon, budget.delta, budget.unit, tuple(events))


def gaussian_claim(budget: Budget) -> Claim:
    """mu-GDP for the whole budget."""
    return claim_of([Gaussian(1 / budget_mu(budget))], budget)


def pure_claim(budget: Budget) -> Claim:
    """epsilon-DP with delta = 0."""
    return claim_of([EpsilonDelta(budget.epsilon)], budget)


def graph(nodes: int, edges: list[tuple[int, int]]) -> Graph:
    """Edges alone: rows are an argument of the targets here."""
    return Graph.from_edges(np.zeros((nodes, 1)), np.array(edges, dtype=np.int64).reshape(-1, 2).T)


def edge_pair(name: str, without: Graph, u: int, v: int) -> Pair:
    """Joined or not."""
    return Pair(name, without, without.with_edge(u, v), PrivacyUnit.EDGE)


@dataclass(frozen=True)
class ManyRuns:
    """A target that makes all runs at once, from a function of the budget."""

    function: Callable[[Budget, Graph, int, NoiseSource], Outcome]
    budget: Budget

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
        return self.function(self.budget, g, runs, noise)


def many_runs(
    function: Callable[[Budget, Graph, int, NoiseSource], Outcome],
    pair: Pair,
    claim: Callable[[Budget], Claim] = gaussian_claim,
) -> Made:
    """A function that makes all runs at once, played on a pair."""
    return lambda budget: (ManyRuns(function, budget), pair, claim(budget))


def single_runs(function: Callable[[Budget, Graph, NoiseSource], Outcome], pair: Pair) -> Made:
    """The same with a function that makes one run."""
    return lambda budget: (partial(function, budget), pair, gaussian_claim(budget))
