"""What is protected, and how much of it may be spent."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from enum import Enum

from caribou._validate import member, one_of, open_unit_interval, positive_or_inf
from caribou.errors import InputError

DEFAULT_DELTA = 1e-5
"""Used when ``delta=None``. A constant, because a default derived from the number of edges would be computed from
private data. It is below 1/n for graphs of up to 10^5 nodes; for larger graphs give delta explicitly."""


class PrivacyUnit(Enum):
    """What is protected: the neighbouring relation of the guarantee.

    >>> PrivacyUnit.parse("node") is PrivacyUnit.NODE
    True
    """

    EDGE = "edge"
    NODE = "node"

    @property
    def adjacency(self) -> str:
        """The neighbouring relation in words, as certificates print it."""
        if self is PrivacyUnit.EDGE:
            return "two graphs on the same public nodes, features, labels and split that differ in one undirected edge"
        return (
            "two graphs of the same public size, one of which has one node zeroed out: without its features, its label "
            "and all its edges, with a zero row in every state before noise"
        )

    @property
    def unprotected(self) -> str:
        """What gets no noise, in words, as commands and certificates print it."""
        if self is PrivacyUnit.EDGE:
            return "attributes and labels of the nodes, and who is in the graph: they get no noise and count as public"
        return "how many nodes there are, the split and declared values: they count as public"

    @classmethod
    def parse(cls, value: PrivacyUnit | str) -> PrivacyUnit:
        """Accept the enum or its word; everything else is an error."""
        if isinstance(value, cls):
            return value
        return member(cls, value, "unit")


SMALLEST_EPSILON = 2.0**-20
"""Below, noise is a million times what it hides, and nothing is left to learn."""
LARGEST_EPSILON = 40.0
"""Above, an adversary errs once in e^40 = 10^17 times: that is no protection, and should not be called so."""


STEPS = {"presence": 1, "replacement": 2}
"""Steps between neighbours by what an attacker asks: is it there, or is it this one or that one?"""


@dataclass(frozen=True)
class Budget:
    """A total (epsilon, delta) at a privacy unit.

    Args:
        epsilon: from 2^-20 to 40, or inf for no privacy.
        delta: in (0, 1); None = `DEFAULT_DELTA`.
        unit: "edge" or "node".

    ``delta=None`` takes the documented public default `DEFAULT_DELTA`. ``epsilon=inf`` means no privacy; everything
    produced under it is labelled so.

    >>> Budget(epsilon=4, delta=1e-5, unit="edge")
    Budget(epsilon=4.0, delta=1e-05, unit=<PrivacyUnit.EDGE: 'edge'>)
    >>> Budget(epsilon=4).delta
    1e-05
    >>> Budget(epsilon=-1)
    Traceback (most recent call last):
    ...
    caribou.errors.InputError: epsilon must be a number > 0 (inf means no privacy), got -1
    """

    epsilon: float
    delta: float = DEFAULT_DELTA
    unit: PrivacyUnit = PrivacyUnit.EDGE

    def __init__(self, epsilon: float, delta: float | None = None, unit: PrivacyUnit | str = PrivacyUnit.EDGE) -> None:
        object.__setattr__(self, "epsilon", positive_or_inf(epsilon=epsilon))
        if self.is_private and not SMALLEST_EPSILON <= self.epsilon <= LARGEST_EPSILON:
            raise InputError(
                f"epsilon must be between 2^-20 and {LARGEST_EPSILON:g}, or inf for no privacy (--epsilon), got {epsilon!r}"
            )
        object.__setattr__(self, "delta", DEFAULT_DELTA if delta is None else open_unit_interval(delta=delta))
        object.__setattr__(self, "unit", PrivacyUnit.parse(unit))

    @classmethod
    def for_risk(
        cls,
        tpr: float,
        at_fpr: float = 0.01,
        *,
        delta: float | None = None,
        unit: PrivacyUnit | str = PrivacyUnit.EDGE,
        question: str = "presence",
        gaussian: bool = False,
    ) -> Budget:
        """The largest budget under which no attacker finds more than a share ``tpr`` at a share ``at_fpr`` of false alarms.

        Args:
            tpr: of those who are there, how many may be found.
            at_fpr: of those who are not there, how many the attacker accuses.
            delta, unit: of the budget.
            question: "presence" (is it there?) or "replacement" (is it this one or that one?), which is two steps.
            gaussian: the release is made of Gaussian mechanisms (caribou-edp, gap-edp, mlp-dp), which keep the rate at a larger
                epsilon. False: the budget holds for every mechanism.

        Returns:
            The budget.

        >>> round(Budget.for_risk(tpr=0.1, at_fpr=0.01).epsilon, 2), round(Budget.for_risk(0.1, gaussian=True).epsilon, 2)
        (2.3, 4.61)
        """
        from caribou.privacy.accounting import epsilon_for_rate

        one_of(tuple(STEPS), question=question)
        epsilon = epsilon_for_rate(
            true_positive_rate=tpr,
            false_positive_rate=at_fpr,
            delta=DEFAULT_DELTA if delta is None else delta,
            gaussian=gaussian,
            steps=STEPS[question],
            largest=LARGEST_EPSILON,
        )
        return cls(epsilon, delta, unit)

    @property
    def is_private(self) -> bool:
        """False for epsilon = inf."""
        return math.isfinite(self.epsilon)

    def __str__(self) -> str:
        if not self.is_private:
            return "no privacy (epsilon = inf)"
        return f"epsilon = {self.epsilon:g}, delta = {self.delta:g} at {self.unit.value} level"


def warn_of_large_delta(budget: Budget, nodes: int) -> None:
    """Warn of delta > 1/n: a mechanism that publishes one person at random keeps such a promise."""
    if budget.is_private and budget.delta > 1 / nodes:
        warnings.warn(
            f"delta = {budget.delta:g} is above 1/n = {1 / nodes:.2g}: it allows to publish a person at random",
            stacklevel=3,
        )
