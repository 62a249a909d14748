"""The one wording of input errors: name, rule, value. NaN fails every rule.

Each function takes exactly one keyword, the field's public name, and returns the value:
``positive(epsilon=x)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from caribou.errors import CaribouError, InputError

E = TypeVar("E", bound=Enum)


def _single(field: Mapping[str, Any]) -> tuple[str, Any]:
    if len(field) != 1:
        raise TypeError("pass exactly one keyword argument: the field's name and its value")
    return next(iter(field.items()))


def _number(name: str, value: Any, rule: str) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise InputError(f"{name} must be {rule}, got {value!r}")
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        raise InputError(f"{name} must be {rule}, got {type(value).__name__}") from None


def positive(**field: Any) -> float:
    """A finite number > 0."""
    name, value = _single(field)
    x = _number(name, value, "a finite number > 0")
    if not (0 < x < math.inf):
        raise InputError(f"{name} must be a finite number > 0, got {value!r}")
    return x


def positive_or_inf(**field: Any) -> float:
    """A number > 0; infinity is allowed (no privacy)."""
    name, value = _single(field)
    x = _number(name, value, "a number > 0 (inf means no privacy)")
    if not x > 0:
        raise InputError(f"{name} must be a number > 0 (inf means no privacy), got {value!r}")
    return x


def finite(**field: Any) -> float:
    """A finite number."""
    name, value = _single(field)
    x = _number(name, value, "a finite number")
    if not math.isfinite(x):
        raise InputError(f"{name} must be a finite number, got {value!r}")
    return x


def non_negative(**field: Any) -> float:
    """A finite number >= 0."""
    name, value = _single(field)
    x = _number(name, value, "a finite number >= 0")
    if not (0 <= x < math.inf):
        raise InputError(f"{name} must be a finite number >= 0, got {value!r}")
    return x


def open_unit_interval(**field: Any) -> float:
    """A number in (0, 1)."""
    name, value = _single(field)
    x = _number(name, value, "in the open interval (0, 1)")
    if not (0 < x < 1):
        raise InputError(f"{name} must be in the open interval (0, 1), got {value!r}")
    return x


def unit_interval(**field: Any) -> float:
    """A number in [0, 1]."""
    name, value = _single(field)
    x = _number(name, value, "in [0, 1]")
    if not (0 <= x <= 1):
        raise InputError(f"{name} must be in [0, 1], got {value!r}")
    return x


def half_open_unit_interval(**field: Any) -> float:
    """A number in (0, 1]."""
    name, value = _single(field)
    x = _number(name, value, "in (0, 1]")
    if not (0 < x <= 1):
        raise InputError(f"{name} must be in (0, 1], got {value!r}")
    return x


def below_one(**field: Any) -> float:
    """A number in [0, 1)."""
    name, value = _single(field)
    x = _number(name, value, "in [0, 1)")
    if not (0 <= x < 1):
        raise InputError(f"{name} must be in [0, 1), got {value!r}")
    return x


def boolean(**field: Any) -> bool:
    """True or False."""
    name, value = _single(field)
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {value!r}")
    return value


def integer(*, at_least: int, **field: Any) -> int:
    """A whole number >= ``at_least`` (and below 2^53, so that it is exact as a float)."""
    name, value = _single(field)
    rule = f"a whole number >= {at_least}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(f"{name} must be {rule}, got {value!r}")
    k = int(value.__index__())
    if k < at_least:
        raise InputError(f"{name} must be {rule}, got {value!r}")
    if k >= 2**53:
        raise InputError(f"{name} must be a whole number below 2^53, got one of {k.bit_length()} bits")
    return k


def member(kind: type[E], word: Any, what: str, error: type[CaribouError] = InputError) -> E:
    """The member of an enum by its word; everything else is an ``error`` that lists the words."""
    for one in kind:
        if word == one.value:
            return one
    raise error(f"{what} must be one of {', '.join(str(one.value) for one in kind)}, got {word!r}")


def one_of(choices: tuple[str, ...], **field: Any) -> str:
    """One of the listed words."""
    name, value = _single(field)
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return str(value)
