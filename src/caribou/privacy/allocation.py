"""Allocation: one total budget over encoder, propagation and classifier."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from caribou._validate import half_open_unit_interval, integer, non_negative, positive
from caribou.errors import InputError
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu, smallest_noise_multiplier
from caribou.privacy.events import Event, Gaussian, NonPrivate, SubsampledGaussian


@dataclass(frozen=True)
class Part:
    """One consumer of the budget: ``steps`` Gaussian mechanisms, on Poisson samples if ``sampling_probability`` < 1.

    Propagation is a part with one step (its K hops are one Gaussian event by the convergent bound); full-batch DP training
    has many steps at probability 1; DP-SGD samples.
    """

    name: str
    steps: int = 1
    sampling_probability: float = 1.0

    def __post_init__(self) -> None:
        integer(at_least=1, steps=self.steps)
        half_open_unit_interval(sampling_probability=self.sampling_probability)

    def event(self, noise_multiplier: float) -> Event:
        """What this part costs at a noise multiplier per step."""
        if self.sampling_probability == 1:
            return Gaussian(noise_multiplier, self.steps)
        return SubsampledGaussian(noise_multiplier, self.sampling_probability, self.steps)

    def noise_multiplier(self, mu: float) -> float:
        """The multiplier per step at which this part is (about) mu-GDP.

        Exact for full batches, sqrt(steps)/mu; for samples the central limit of Bu, Dong, Long and Su 2020,
        mu = p sqrt(T (e^(1/m^2) - 1)). That is only used to *split* a budget: the total is always accounted in full.
        """
        p, T = self.sampling_probability, self.steps
        if p == 1:
            return math.sqrt(T) / mu
        return 1 / math.sqrt(math.log1p((mu / p) ** 2 / T))


@dataclass(frozen=True)
class AllocatedPart:
    """A part with its noise. ``noise_multiplier`` is per step; inf means that the part is given nothing and must not run
    on private data; 0 means no privacy."""

    part: Part
    noise_multiplier: float

    @property
    def event(self) -> Event | None:
        """The cost, or None for a part that does not run."""
        if math.isinf(self.noise_multiplier):
            return None
        return self.part.event(self.noise_multiplier) if self.noise_multiplier > 0 else NonPrivate()

    def widened(self, sensitivity: float) -> AllocatedPart:
        """The part with noise for a sum that one unit moves by ``sensitivity`` clips instead of one.

        For the mechanism only: what it costs is the event of the part before, whose multiplier is per unit of sensitivity.
        """
        return AllocatedPart(self.part, self.noise_multiplier * positive(sensitivity=sensitivity))

    @property
    def mu(self) -> float:
        """The GDP parameter of a full-batch part, for calibrating propagation; 0 for a part that does not run."""
        if self.part.sampling_probability < 1:
            raise InputError(f"part {self.part.name!r} must be full batch to have an exact mu, got subsampling")
        return math.inf if self.noise_multiplier == 0 else math.sqrt(self.part.steps) / self.noise_multiplier


@dataclass(frozen=True)
class Allocation:
    """The parts with their noise, and what they cost together (never more than the budget)."""

    budget: Budget
    parts: tuple[AllocatedPart, ...]
    epsilon: float

    def __getitem__(self, name: str) -> AllocatedPart:
        for allocated in self.parts:
            if allocated.part.name == name:
                return allocated
        raise InputError(f"part must be one of {', '.join(a.part.name for a in self.parts)}, got {name!r}")

    @property
    def events(self) -> tuple[Event, ...]:
        """All events, in the order of the parts."""
        return tuple(_events(self.parts))


def allocate(
    budget: Budget, parts: Sequence[Part], fractions: Mapping[str, float] | Literal["equal-noise"] = "equal-noise"
) -> Allocation:
    """Split ``budget`` over ``parts`` so that their exact composition keeps it.

    ``fractions`` gives each part its share of mu^2 (the quantity that adds up under composition), summing to 1; a share of 0
    switches the part off. ``"equal-noise"`` uses one noise multiplier for every step of every part, as GAP does.

    >>> plan = allocate(Budget(4, 1e-5, "node"), [Part("encoder", steps=100), Part("propagation")],
    ...                 {"encoder": 0.5, "propagation": 0.5})
    >>> round(plan.epsilon, 4), round(plan["propagation"].mu ** 2 / plan["encoder"].mu ** 2, 6)
    (4.0, 1.0)
    """
    names = [part.name for part in parts]
    if not parts or len(set(names)) != len(names):
        raise InputError(f"parts must be a non-empty list of distinct names, got {names!r}")
    if not budget.is_private:
        noiseless = tuple(AllocatedPart(part, 0.0) for part in parts)
        return Allocation(budget, noiseless, math.inf)
    if fractions == "equal-noise":
        return _equal_noise(budget, parts)
    return _by_fraction(budget, parts, _checked_fractions(names, fractions))


def _equal_noise(budget: Budget, parts: Sequence[Part]) -> Allocation:
    if all(part.sampling_probability == 1 for part in parts):
        multiplier = math.sqrt(sum(part.steps for part in parts)) / budget_mu(budget) * (1 + 2.0**-44)
    else:
        multiplier = smallest_noise_multiplier(lambda m: [part.event(m) for part in parts], budget)
    return _accounted(budget, [AllocatedPart(part, multiplier) for part in parts])


def _by_fraction(budget: Budget, parts: Sequence[Part], fractions: Mapping[str, float]) -> Allocation:
    def split(mu: float) -> list[AllocatedPart]:
        return [
            AllocatedPart(
                part,
                part.noise_multiplier(math.sqrt(fractions[part.name]) * mu) if fractions[part.name] > 0 else math.inf,
            )
            for part in parts
        ]

    active = [part for part in parts if fractions[part.name] > 0]
    if all(part.sampling_probability == 1 for part in active):
        return _accounted(budget, split(budget_mu(budget) * (1 - 2.0**-44)))
    # 1/mu plays the role of a noise multiplier: more of it costs less.
    inverse_mu = smallest_noise_multiplier(lambda m: _events(split(1 / m)), budget)
    return _accounted(budget, split(1 / inverse_mu))


def _events(allocated: Sequence[AllocatedPart]) -> list[Event]:
    return [a.event for a in allocated if a.event is not None]


def _accounted(budget: Budget, allocated: Sequence[AllocatedPart]) -> Allocation:
    return Allocation(budget, tuple(allocated), epsilon_of(_events(allocated), budget.delta))


def _checked_fractions(names: Sequence[str], fractions: Mapping[str, float] | str) -> dict[str, float]:
    if not isinstance(fractions, Mapping):
        raise InputError(f"fractions must be a mapping of part to share or 'equal-noise', got {fractions!r}")
    if set(fractions) != set(names):
        raise InputError(f"fractions must name exactly {', '.join(names)}, got {', '.join(map(str, fractions))}")
    shares = {name: non_negative(**{f"fractions[{name!r}]": fractions[name]}) for name in names}
    for name, share in shares.items():
        if 0 < share < 1e-9:
            raise InputError(f"fractions[{name!r}] must be 0 or >= 1e-9, got {share!r}")
    if abs(math.fsum(shares.values()) - 1) > 1e-9:
        raise InputError(f"fractions must sum to 1, got {math.fsum(shares.values())!r}")
    return shares
