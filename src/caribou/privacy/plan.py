"""A release before it is made: what it will do, who pays what, and what it rests on, from public numbers alone.

A method or a mechanism returns a `ReleasePlan`. It writes no certificate and opens no ledger: `caribou.release.execute` does, for
every kind of release.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

from caribou._validate import integer
from caribou.errors import CertificateError
from caribou.privacy.accounting import epsilon_of, largest_true_positive_rate
from caribou.privacy.assumptions import DETERMINED, STANDING, Assumption, AssumptionName, in_order, randomness, standing
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import FALSE_POSITIVE_RATES, TIME, Certificate, ReleaseKind, versions
from caribou.privacy.events import Event, NonPrivate, choices, gaussian_mu
from caribou.privacy.mechanism_records import (
    MechanismRecord,
    composed,
    determined_assumptions,
    groups_of,
    require_one_unit,
)
from caribou.privacy.scope import Scope
from caribou.privacy.sizes import Sizes


class Randomness(Protocol):
    """What a plan asks of a noise source: whether its key is secret, and where it came from."""

    @property
    def is_secret(self) -> bool:
        """True for a key from the operating system only."""
        ...

    @property
    def origin(self) -> str:
        """Where the key came from, in words."""
        ...

    @property
    def is_new(self) -> bool:
        """Whether no stream of it was opened and nothing was drawn from it, or it draws by address."""
        ...


@dataclass(frozen=True)
class Link:
    """A batch of a growing graph and the release that pays for it, by the numbers of their certificates.

    ``release``: the first batch, whose epsilon covers all of them. ``extends``: the batch just before.

    >>> Link(release="a1", extends="b2").assumption(3).name.value
    'arrivals'
    """

    release: str
    extends: str

    def assumption(self, batch: int) -> Assumption:
        """What the certificate of a later batch rests on."""
        return Assumption(AssumptionName.ARRIVALS, {"release": self.release, "extends": self.extends, "batch": batch})


@dataclass(frozen=True)
class ReleasePlan:
    """What will be released within a ``budget``, at which cost, under which assumptions.

    ``mechanisms``: calibrated parts as records. ``released``: what leaves the curator, in words. ``method``: its name, where
    one makes the plan. ``public_parameters``: declared values; ``method``, ``batch`` and those that a mechanism fixes are added.
    ``assumptions``: those of the method, beside the standing ones and those that follow from the mechanisms. ``resumable``: key
    and states outlive a crash in a private folder. ``search``: the theorem that accounts for a search on the private graph.
    ``kind``: of the release; ``batch``: the number of a later batch of a growing graph. ``parts``: the calibrated parts by name,
    for whoever runs the plan.

    >>> from caribou.privacy.mechanism_records import MeanRecord
    >>> ReleasePlan(Budget(4, 1e-5, "node"), (MeanRecord(name="mean", noise_std=3.0),), ("the mean",), "a noisy mean").cost
    (Gaussian(noise_multiplier=3.0, count=1),)
    """

    budget: Budget
    mechanisms: tuple[MechanismRecord, ...]
    released: tuple[str, ...]
    method: str | None = None
    public_parameters: Mapping[str, Any] = field(default_factory=dict)
    assumptions: tuple[Assumption, ...] = ()
    resumable: bool = False
    search: str | None = None
    kind: ReleaseKind = ReleaseKind.OWN
    batch: int | None = None
    parts: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not self.mechanisms:
            raise CertificateError("a plan must have a mechanism, got none")
        if not (self.method or "").isprintable():
            raise CertificateError.of("method", "stand in one line of printable letters", self.method)
        fixed = {key: value for record in self.mechanisms for key, value in record.public.items()}
        batch = None if self.batch is None else integer(at_least=1, batch=self.batch)
        named = {key: value for key, value in (("batch", batch), ("method", self.method)) if value is not None}
        object.__setattr__(self, "public_parameters", {**self.public_parameters, **fixed, **named})

    @property
    def description(self) -> str:
        """What is released by which method, for people."""
        what = self.kind.value if self.batch is None else f"{self.kind.value} {self.batch}"
        return what if self.method is None else f"{self.method}, {what}"

    @property
    def cost(self) -> tuple[Event, ...]:
        """What the release costs, to compose with others: events, or groups of units side by side."""
        return composed(self.mechanisms)

    @property
    def scope(self) -> Scope:
        """Where all theorems hold."""
        return Scope.weakest(record.scope for record in self.mechanisms)

    def all_assumptions(self, noise: Randomness) -> tuple[Assumption, ...]:
        """Standing assumptions, those that follow from the mechanisms and those of the method, each once, in the order of names.

        Of the assumptions that follow from mechanisms (`DETERMINED`) exactly those are stated that do, whatever the method lists:
        in a search one trial may read no edge where another one does. A method can say that a standing assumption does not hold,
        and cannot say it in other words.
        """
        listed = [
            randomness(secret=noise.is_secret, origin=noise.origin, resumable=self.resumable),
            *standing(resumable=self.resumable, selection=self.search),
            *(a for a in self.assumptions if a.name not in DETERMINED and (a.name not in STANDING or not a.holds)),
            *determined_assumptions(self.mechanisms, self.budget.unit),
        ]
        return in_order(listed)

    def certificate(self, noise: Randomness, now: datetime | None = None) -> Certificate:
        """The certificate of this plan; its number is fixed here.

        A plan that exceeds its budget, or that a mechanism without a theorem at its unit is part of, is refused.
        """
        budget = self.budget
        require_one_unit(self.mechanisms, budget.unit)
        spent = epsilon_of(self.cost, budget.delta)
        if spent > budget.epsilon:
            raise CertificateError(f"epsilon_spent must be <= epsilon = {budget.epsilon:g}, got {spent!r}")
        return Certificate(
            kind=self.kind,
            unit=budget.unit,
            epsilon=budget.epsilon,
            delta=budget.delta,
            released=self.released,
            mechanisms=self.mechanisms,
            public_parameters=dict(self.public_parameters),
            assumptions=self.all_assumptions(noise),
            versions=versions(),
            created=(now or datetime.now(UTC)).strftime(TIME),
            certificate_id=uuid.uuid4().hex,
            **figures(self.mechanisms, budget.unit, budget.delta, self.public_parameters.get("nodes")),
        )


def figures(records: Sequence[MechanismRecord], unit: PrivacyUnit, delta: float, nodes: int | None) -> dict[str, Any]:
    """The fields of a certificate that follow from its mechanisms: what they cost together, and where that holds."""
    cost = composed(records)
    return {
        "scope": Scope.weakest(record.scope for record in records),
        "epsilon_spent": epsilon_of(cost, delta),
        "mu": exact_mu(cost),
        "groups": group_epsilons(records, delta),
        "epsilon_by_degree": epsilon_by_degree(records, unit, delta, nodes),
        "attack_success": attack_success(cost, delta),
    }


def exact_mu(cost: Sequence[Event]) -> float | None:
    """The GDP parameter of a cost that has one."""
    return None if any(isinstance(event, NonPrivate) for event in cost) else gaussian_mu(cost)


def attack_success(
    cost: Sequence[Event], delta: float, rates: Sequence[float] = FALSE_POSITIVE_RATES
) -> dict[str, dict[str, float]]:
    """The largest true positive rate of any test, by what is asked and by false positive rate (``rates``).

    ``presence``: is this unit there? That is one step between neighbours, with the trade-off curve of the release.
    ``replacement``: is it this one or that one (label A or B, an edge to one person or to another)? That is two steps: out, and
    in again. If a test reaches at most T(a) at false positive rate a over one step, it reaches at most T(T(a)) over two (Dong,
    Roth and Su 2022, Theorem 2.14): 2 mu for mu-GDP, 2 epsilon for pure epsilon.

    >>> from caribou.privacy.events import Gaussian
    >>> rates = attack_success([Gaussian(1.0)], 1e-5)
    >>> {question: round(rate["0.01"], 4) for question, rate in rates.items()}
    {'presence': 0.0924, 'replacement': 0.3721}
    """

    def presence(fpr: float) -> float:
        # T(1) = 1: without privacy one step leaves nothing to find
        return largest_true_positive_rate(cost, delta=delta, false_positive_rate=fpr) if fpr < 1 else 1.0

    one = {str(fpr): presence(fpr) for fpr in rates}
    return {"presence": one, "replacement": {fpr: presence(rate) for fpr, rate in one.items()}}


CURVE_DEGREES = (0, 1, 2, 5, 10, 20, 50, 100, 1000)
"""Where a certificate states the curve by degree, beside the declared degree and n - 1."""


def epsilon_by_degree(
    records: Sequence[MechanismRecord], unit: PrivacyUnit, delta: float, nodes: int | None
) -> tuple[tuple[int, float], ...]:
    """What a node of each degree is promised, in every graph: epsilon at ``delta`` of the worst group. Empty at edge level.

    ``nodes`` = n bounds the degrees; None where a mechanism of the user's own says nothing about it.
    """
    if unit is PrivacyUnit.EDGE:
        return ()
    declared = Scope.weakest(record.scope for record in records).limit
    return tuple((degree, epsilon_at(records, delta, degree)) for degree in curve_degrees(nodes, declared))


def curve_degrees(nodes: int | None, declared: int | None) -> list[int]:
    """Where a curve by degree is stated: fixed degrees, the declared one and n - 1, as far as n nodes can have them.

    >>> curve_degrees(100, 7), curve_degrees(None, None)[-1]
    ([0, 1, 2, 5, 7, 10, 20, 50, 99], 1000)
    """
    degrees = {*CURVE_DEGREES, *([] if declared is None else [declared])}
    if nodes is None:
        return sorted(degrees)
    largest = max(0, integer(at_least=0, nodes=nodes) - 1)
    return sorted({d for d in degrees if d <= largest} | {largest})


def epsilon_at(records: Sequence[MechanismRecord], delta: float, degree: int) -> float:
    """What a node of this degree is promised, in every graph."""
    return max(_epsilon(choice, delta) for choice in choices(composed(records, degree)))


@lru_cache(maxsize=512)
def _epsilon(events: tuple[Event, ...], delta: float) -> float:
    """Cached: most degrees of a curve cost the same, and a verifier asks again."""
    return epsilon_of(events, delta)


def group_epsilons(records: Sequence[MechanismRecord], delta: float) -> dict[str, float]:
    """What each group pays in all, as epsilon at ``delta``."""
    # by the same lists as `composed`, so that an accountant need not compose them twice
    return {
        group.value: max(_epsilon(choice, delta) for choice in choices(events))
        for group, events in groups_of(records).items()
    }


__all__ = [
    "Link",
    "Randomness",
    "ReleaseKind",
    "ReleasePlan",
    "Sizes",
    "attack_success",
    "curve_degrees",
    "epsilon_at",
    "epsilon_by_degree",
    "exact_mu",
    "figures",
    "group_epsilons",
]
