"""A release before it is made: what it will do, who pays what, and what it rests on, from public numbers alone.

A method or a mechanism returns a `ReleasePlan`. It writes no certificate and opens no ledger: `caribou.release.execute` does, for
every kind of release.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from caribou.errors import CertificateError
from caribou.privacy.accounting import epsilon_of, largest_true_positive_rate
from caribou.privacy.assumptions import Assumption, in_order, randomness, standing
from caribou.privacy.budget import Budget
from caribou.privacy.certificate import FALSE_POSITIVE_RATES, TIME, Certificate, versions
from caribou.privacy.events import Event, NonPrivate, choices, gaussian_mu
from caribou.privacy.mechanism_records import (
    DETERMINED,
    MechanismRecord,
    composed,
    determined_assumptions,
    groups_of,
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
class ReleasePlan:
    """What will be released within a ``budget``, at which cost, under which assumptions. ``description``: for the ledger.

    ``mechanisms``: calibrated parts as records. ``released``: what leaves the curator, in words. ``public_parameters``: declared
    values; those that a mechanism fixes are added to them. ``assumptions``: those of the method, beside the standing ones and
    those that follow from the mechanisms. ``resumable``: key and states outlive a crash in a private folder. ``search``: the
    theorem that accounts for a search on the private graph. ``parts``: the calibrated parts by name, for whoever runs the plan.

    >>> from caribou.privacy.mechanism_records import mean_record
    >>> ReleasePlan(Budget(4, 1e-5, "node"), (mean_record("mean", noise_std=3.0),), ("the mean",), "a noisy mean").cost
    (Gaussian(noise_multiplier=3.0, count=1),)
    """

    budget: Budget
    mechanisms: tuple[MechanismRecord, ...]
    released: tuple[str, ...]
    description: str
    public_parameters: Mapping[str, Any] = field(default_factory=dict)
    assumptions: tuple[Assumption, ...] = ()
    resumable: bool = False
    search: str | None = None
    parts: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not self.mechanisms:
            raise CertificateError("a plan must have a mechanism, got none")
        fixed = {key: value for record in self.mechanisms for key, value in record.public.items()}
        object.__setattr__(self, "public_parameters", {**self.public_parameters, **fixed})

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
        in a search one trial may read no edge where another one does.
        """
        listed = [
            randomness(secret=noise.is_secret, origin=noise.origin, resumable=self.resumable),
            *standing(resumable=self.resumable, selection=self.search),
            *(assumption for assumption in self.assumptions if assumption.name not in DETERMINED),
            *determined_assumptions(self.mechanisms, self.budget.unit),
        ]
        return in_order(listed)

    def certificate(self, noise: Randomness, now: datetime | None = None) -> Certificate:
        """The certificate of this plan; its number is fixed here. A plan that exceeds its budget is refused."""
        budget, cost = self.budget, self.cost
        spent = epsilon_of(cost, budget.delta)
        if spent > budget.epsilon:
            raise CertificateError(f"epsilon_spent must be <= epsilon = {budget.epsilon:g}, got {spent!r}")
        return Certificate(
            unit=budget.unit,
            epsilon=budget.epsilon,
            delta=budget.delta,
            epsilon_spent=spent,
            mu=exact_mu(cost),
            scope=self.scope,
            released=self.released,
            mechanisms=self.mechanisms,
            groups=group_epsilons(self.mechanisms, budget.delta),
            public_parameters=dict(self.public_parameters),
            assumptions=self.all_assumptions(noise),
            largest_true_positive_rates=attack_rates(cost, budget.delta),
            versions=versions(),
            created=(now or datetime.now(UTC)).strftime(TIME),
            certificate_id=uuid.uuid4().hex,
        )


def exact_mu(cost: Sequence[Event]) -> float | None:
    """The GDP parameter of a cost that has one."""
    return None if any(isinstance(event, NonPrivate) for event in cost) else gaussian_mu(cost)


def attack_rates(cost: Sequence[Event], delta: float) -> dict[str, float]:
    """The largest true positive rate of any test, by false positive rate."""
    return {
        str(fpr): largest_true_positive_rate(cost, delta=delta, false_positive_rate=fpr) for fpr in FALSE_POSITIVE_RATES
    }


def group_epsilons(records: Sequence[MechanismRecord], delta: float) -> dict[str, float]:
    """What each group pays in all, as epsilon at ``delta``."""
    # by the same lists as `composed`, so that an accountant need not compose them twice
    return {
        group.value: max(epsilon_of(choice, delta) for choice in choices(events))
        for group, events in groups_of(records).items()
    }


__all__ = ["Randomness", "ReleasePlan", "Sizes", "attack_rates", "exact_mu", "group_epsilons"]
