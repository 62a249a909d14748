"""Events: what a mechanism did, as records without behaviour. Accountants judge them.

An event never holds data, a seed or a key; it can be published.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from caribou._validate import integer, non_negative, positive, unit_interval
from caribou.errors import InputError
from caribou.privacy.documents import Count, NonNegative, Positive, Probability, read, write


@dataclass(frozen=True)
class Gaussian:
    """``count`` adaptive Gaussian mechanisms, each with std = ``noise_multiplier`` x L2 sensitivity.

    One of them is exactly (1 / noise_multiplier)-GDP, so the convergent release of K hops is one such event with
    noise_multiplier = noise_std / (sensitivity sqrt(kappa)).

    Args:
        noise_multiplier: standard deviation over sensitivity.
        count: how many.

    >>> Gaussian(2.0)
    Gaussian(noise_multiplier=2.0, count=1)
    """

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: Positive
    count: Count = 1

    def __post_init__(self) -> None:
        positive(noise_multiplier=self.noise_multiplier)
        integer(at_least=1, count=self.count)


@dataclass(frozen=True)
class Laplace:
    """``count`` Laplace mechanisms, each with scale = ``noise_multiplier`` x L1 sensitivity: (1/multiplier)-DP.

    Args:
        noise_multiplier: scale over sensitivity.
        count: how many.

    >>> Laplace(2.0)
    Laplace(noise_multiplier=2.0, count=1)
    """

    kind: ClassVar[str] = "laplace"
    noise_multiplier: Positive
    count: Count = 1

    def __post_init__(self) -> None:
        positive(noise_multiplier=self.noise_multiplier)
        integer(at_least=1, count=self.count)


@dataclass(frozen=True)
class EpsilonDelta:
    """A mechanism of which only (epsilon, delta) is known, e.g. randomized response or somebody else's release."""

    kind: ClassVar[str] = "epsilon_delta"
    epsilon: NonNegative
    delta: Probability = 0.0

    def __post_init__(self) -> None:
        non_negative(epsilon=self.epsilon)
        unit_interval(delta=self.delta)


@dataclass(frozen=True)
class NonPrivate:
    """A release without noise (epsilon = inf)."""

    kind: ClassVar[str] = "non_private"


@dataclass(frozen=True)
class Parallel:
    """Disjoint groups of people, each in mechanisms of its own: whoever is protected pays for one of the ``groups``.

    Which one is cheapest depends on what it is composed with, so all are kept: two releases may put one node into different
    groups, and a pure epsilon adds up faster than a Gaussian that costs the same alone.
    """

    kind: ClassVar[str] = "parallel"
    groups: tuple[tuple[Event, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(tuple(group) for group in self.groups))
        if not self.groups or any(isinstance(event, Parallel) for group in self.groups for event in group):
            raise InputError("groups must be lists of events without further groups, at least one")


Event = Gaussian | Laplace | EpsilonDelta | NonPrivate | Parallel


def event_to_dict(event: Event) -> dict[str, Any]:
    """The event as plain JSON values, with its ``kind``."""
    if not isinstance(event, Event):
        raise InputError(
            f"event must be one of {', '.join(e.kind for e in get_args(Event))}, got {type(event).__name__}"
        )
    record: dict[str, Any] = write(event)
    return record


def event_from_dict(record: Mapping[str, Any]) -> Event:
    """The inverse of `event_to_dict`; unknown kinds, and fields that are missing or unknown, are errors."""
    event: Event = read(Event, record, "event")
    return event


MAX_EVENTS, MAX_MECHANISMS = 1000, 10**6
"""Of one release. Gaussians add up in closed form, whatever their count; to compose others takes time and memory."""


def require_few(events: Iterable[Event]) -> None:
    """Refuse what would take minutes to compose: events that somebody else wrote down are bounded before they are judged.

    >>> require_few([Laplace(2.0, 10**9)])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    caribou.errors.InputError: events must be at most 1000, of at most 1000000 Laplace mechanisms, got 1 of 1000000000; ...
    """
    listed = [
        e for event in events for group in (event.groups if isinstance(event, Parallel) else [[event]]) for e in group
    ]
    mechanisms = sum(event.count for event in listed if isinstance(event, Laplace))
    if len(listed) > MAX_EVENTS or mechanisms > MAX_MECHANISMS:
        raise InputError(
            f"events must be at most {MAX_EVENTS}, of at most {MAX_MECHANISMS} Laplace mechanisms, got {len(listed)} of "
            f"{mechanisms}; state what they cost together as one epsilon and delta"
        )


MAX_CHOICES = 64


def choices(events: Iterable[Event]) -> list[tuple[Event, ...]]:
    """The lists of events that one protected unit may have to pay: one group of every `Parallel` event. No Parallel inside.

    A group that is contained in another is left out. If there would be more than MAX_CHOICES lists, everything is charged
    together, which bounds all of them.
    """
    lists: dict[tuple[Event, ...], None] = {(): None}
    everything: list[Event] = []
    for event in events:
        groups = _maximal(event.groups) if isinstance(event, Parallel) else [(event,)]
        everything += [e for group in groups for e in group]
        lists = {tuple(sorted((*before, *group), key=repr)): None for before in lists for group in groups}
        if len(lists) > MAX_CHOICES:
            lists = {tuple(everything): None}
    return list(lists)


def _maximal(groups: tuple[tuple[Event, ...], ...]) -> list[tuple[Event, ...]]:
    """The groups that are not part of another one."""
    kept: list[tuple[Event, ...]] = []
    for group in sorted(groups, key=len, reverse=True):
        counts = Counter(group)
        if not any(counts <= Counter(other) for other in kept):
            kept.append(group)
    return kept


def gaussian_mu(events: Iterable[Event]) -> float | None:
    """The exact GDP parameter of a composition of full-batch Gaussians, mu^2 = sum of count / multiplier^2.

    None if any event is not of that kind (Dong, Roth and Su 2022, Corollary 2: mu^2 adds up).
    """
    total = 0.0
    for event in events:
        if not isinstance(event, Gaussian):
            return None
        total += event.count / event.noise_multiplier**2
    return math.sqrt(total)
