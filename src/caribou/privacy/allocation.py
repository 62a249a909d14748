"""Allocation: the parts of a method that spend its budget by Gaussian noise, each with the noise that it was given."""

from __future__ import annotations

import math
from dataclasses import dataclass

from caribou._validate import integer, positive
from caribou.privacy.events import Event, Gaussian, NonPrivate


@dataclass(frozen=True)
class Part:
    """One consumer of the budget: ``steps`` Gaussian mechanisms.

    Propagation is a part with one step (its K hops are one Gaussian event by the convergent bound); full-batch DP training
    has many.
    """

    name: str
    steps: int = 1

    def __post_init__(self) -> None:
        integer(at_least=1, steps=self.steps)

    def event(self, noise_multiplier: float) -> Event:
        """What this part costs at a noise multiplier per step."""
        return Gaussian(noise_multiplier, self.steps)

    def noise_multiplier(self, mu: float) -> float:
        """The multiplier per step at which the part is mu-GDP: sqrt(steps) / mu. Exact."""
        return math.sqrt(self.steps) / positive(mu=mu)


@dataclass(frozen=True)
class AllocatedPart:
    """A part with its noise. ``noise_multiplier`` is per step; 0 means no privacy."""

    part: Part
    noise_multiplier: float

    @property
    def event(self) -> Event:
        """The cost."""
        return self.part.event(self.noise_multiplier) if self.noise_multiplier > 0 else NonPrivate()

    def widened(self, sensitivity: float) -> AllocatedPart:
        """The part with noise for a sum that one unit moves by ``sensitivity`` clips instead of one.

        For the mechanism only: what it costs is the event of the part before, whose multiplier is per unit of sensitivity.
        """
        return AllocatedPart(self.part, self.noise_multiplier * positive(sensitivity=sensitivity))
