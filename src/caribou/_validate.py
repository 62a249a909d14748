"""The one wording of input errors: name, rule, value. NaN fails every rule.

Each function takes exactly one keyword, the field's public name, and returns the value:
``positive(epsilon=x)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

from caribou.errors import CaribouError, InputError

E = TypeVar("E", bound=Enum)


def _single(field: Mapping[str, Any]) -> tuple[str, Any]:
    if len(field) != 1:
        raise TypeError("pass exactly one keyword argument: the field's name and its value")
    return next(iter(field.items()))


def _number(field: Mapping[str, Any], rule: str, holds: Callable[[float], bool]) -> float:
    name, value = _single(field)
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise InputError.of(name, f"be {rule}", value)
    try:
        x = float(value)
    except (OverflowError, TypeError, ValueError):
        raise InputError(f"{name} must be {rule}, got {type(value).__name__}") from None
    if not holds(x):
        raise InputError.of(name, f"be {rule}", value)
    return x


def positive(**field: Any) -> float:
    """A finite number > 0."""
    return _number(field, "a finite number > 0", lambda x: 0 < x < math.inf)


def positive_or_inf(**field: Any) -> float:
    """A number > 0; infinity is allowed (no privacy)."""
    return _number(field, "a number > 0 (inf means no privacy)", lambda x: x > 0)


def finite(**field: Any) -> float:
    """A finite number."""
    return _number(field, "a finite number", math.isfinite)


def non_negative(**field: Any) -> float:
    """A finite number >= 0."""
    return _number(field, "a finite number >= 0", lambda x: 0 <= x < math.inf)


def open_unit_interval(**field: Any) -> float:
    """A number in (0, 1)."""
    return _number(field, "in the open interval (0, 1)", lambda x: 0 < x < 1)


def unit_interval(**field: Any) -> float:
    """A number in [0, 1]."""
    return _number(field, "in [0, 1]", lambda x: 0 <= x <= 1)


def half_open_unit_interval(**field: Any) -> float:
    """A number in (0, 1]."""
    return _number(field, "in (0, 1]", lambda x: 0 < x <= 1)


def below_one(**field: Any) -> float:
    """A number in [0, 1)."""
    return _number(field, "in [0, 1)", lambda x: 0 <= x < 1)


MAX_ROUNDS, MAX_EPOCHS, MAX_WIDTH = 10_000, 1_000_000, 100_000
"""Of hops, stages, layers, trials and months; of passes over the training nodes; of a layer. More is a slip."""
MAX_WORKERS, MAX_RUNS = 1024, 10_000_000
"""Processes at a time; runs of a game of an audit."""


def integer(*, at_least: int, at_most: int | None = None, **field: Any) -> int:
    """A whole number >= ``at_least``, and <= ``at_most`` (or below 2^53, so that it is exact as a float)."""
    name, value = _single(field)
    rule = f"be a whole number >= {at_least}" if at_most is None else f"be a whole number in [{at_least}, {at_most}]"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError.of(name, rule, value)
    k = int(value.__index__())
    if k < at_least or (at_most is not None and at_most < k < 2**53):
        raise InputError.of(name, rule, value)
    if k >= 2**53:
        raise InputError(f"{name} must be a whole number below 2^53, got one of {k.bit_length()} bits")
    return k


def member(kind: type[E], word: Any, what: str, error: type[CaribouError] = InputError) -> E:
    """The member of an enum by its word; everything else is an ``error`` that lists the words."""
    for one in kind:
        if word == one.value:
            return one
    raise error.of(what, f"be one of {', '.join(str(one.value) for one in kind)}", word)


def one_of(choices: tuple[str, ...], **field: Any) -> str:
    """One of the listed words."""
    name, value = _single(field)
    if value not in choices:
        raise InputError.of(name, f"be one of {', '.join(choices)}", value)
    return str(value)
