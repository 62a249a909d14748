"""Events: what a mechanism did, as records without behaviour. Accountants judge them.

An event never holds data, a seed or a key; it can be published.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from caribou._validate import half_open_unit_interval, integer, non_negative, positive, unit_interval
from caribou.errors import InputError


@dataclass(frozen=True)
class Gaussian:
    """``count`` adaptive Gaussian mechanisms, each with std = ``noise_multiplier`` x L2 sensitivity.

    One of them is exactly (1 / noise_multiplier)-GDP, so the convergent release of K hops is one such event with
    noise_multiplier = noise_std / (sensitivity sqrt(kappa)).
    """

    noise_multiplier: float
    count: int = 1

    def __post_init__(self) -> None:
        positive(noise_multiplier=self.noise_multiplier)
        integer(at_least=1, count=self.count)


@dataclass(frozen=True)
class SubsampledGaussian:
    """``steps`` Gaussian mechanisms, each on an independent Poisson sample with rate ``sampling_probability``."""

    noise_multiplier: float
    sampling_probability: float
    steps: int

    def __post_init__(self) -> None:
        positive(noise_multiplier=self.noise_multiplier)
        half_open_unit_interval(sampling_probability=self.sampling_probability)
        integer(at_least=1, steps=self.steps)


@dataclass(frozen=True)
class Laplace:
    """``count`` Laplace mechanisms, each with scale = ``noise_multiplier`` x L1 sensitivity: (1/multiplier)-DP."""

    noise_multiplier: float
    count: int = 1

    def __post_init__(self) -> None:
        positive(noise_multiplier=self.noise_multiplier)
        integer(at_least=1, count=self.count)


@dataclass(frozen=True)
class EpsilonDelta:
    """A mechanism of which only (epsilon, delta) is known, e.g. randomized response or somebody else's release."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        non_negative(epsilon=self.epsilon)
        unit_interval(delta=self.delta)


@dataclass(frozen=True)
class NonPrivate:
    """A release without noise (epsilon = inf)."""


Event = Gaussian | SubsampledGaussian | Laplace | EpsilonDelta | NonPrivate

_KINDS: dict[str, type[Event]] = {
    "gaussian": Gaussian,
    "subsampled_gaussian": SubsampledGaussian,
    "laplace": Laplace,
    "epsilon_delta": EpsilonDelta,
    "non_private": NonPrivate,
}


def event_to_dict(event: Event) -> dict[str, Any]:
    """The event as plain JSON values, with its ``kind``."""
    for kind, cls in _KINDS.items():
        if type(event) is cls:
            return {"kind": kind, **asdict(event)}
    raise InputError(f"event must be one of {', '.join(_KINDS)}, got {type(event).__name__}")


def event_from_dict(record: Mapping[str, Any]) -> Event:
    """The inverse of `event_to_dict`; unknown kinds and fields are errors."""
    fields = dict(record)
    kind = fields.pop("kind", None)
    if kind not in _KINDS:
        raise InputError(f"event kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    try:
        return _KINDS[kind](**fields)
    except TypeError as error:
        raise InputError(f"event fields must be those of {kind!r}, got {sorted(fields)}") from error


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
