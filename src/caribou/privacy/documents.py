"""Documents: dataclasses as plain JSON values and back, and their JSON Schema, all from the annotations of their fields.

A rule of a field stands once, in its annotation: what a reader asks of a value, and how a schema says it.

>>> @dataclass(frozen=True)
... class Size:
...     nodes: Count
...     cap: Count | None = None
>>> read(Size, {"nodes": 3, "cap": None}, "size"), write(Size(3))
(Size(nodes=3, cap=None), {'nodes': 3, 'cap': None})
>>> schema_of(Count, {})
{'type': 'integer', 'minimum': 1}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from caribou._validate import (
    integer,
    member,
    non_negative,
    open_unit_interval,
    positive,
    positive_or_inf,
    unit_interval,
)
from caribou.errors import InputError


@dataclass(frozen=True, eq=False)
class Rule:
    """What a value must be. ``check``: takes it under the name of its field, and raises. ``schema``: the same in JSON Schema."""

    check: Callable[..., Any]
    schema: Mapping[str, Any]


INFINITE = {"const": "inf"}
"""How a document writes infinity, which JSON has no number for."""


def _at_least_one(**field: Any) -> None:
    ((name, value),) = field.items()
    if not value:
        raise InputError.of(name, "have an entry", value)


def _each_once(**field: Any) -> None:
    _at_least_one(**field)
    ((name, value),) = field.items()
    if len(set(value)) < len(value):
        raise InputError.of(name, "name everything once", list(value))


def _no_less_than_nothing(**field: Any) -> None:
    ((_, value),) = field.items()
    if value != math.inf:
        non_negative(**field)


Count = Annotated[int, Rule(partial(integer, at_least=1), {"type": "integer", "minimum": 1})]
Natural = Annotated[int, Rule(partial(integer, at_least=0), {"type": "integer", "minimum": 0})]
Positive = Annotated[float, Rule(positive, {"type": "number", "exclusiveMinimum": 0})]
NonNegative = Annotated[float, Rule(non_negative, {"type": "number", "minimum": 0})]
Probability = Annotated[float, Rule(unit_interval, {"type": "number", "minimum": 0, "maximum": 1})]
Delta = Annotated[float, Rule(open_unit_interval, {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})]
Epsilon = Annotated[float, Rule(positive_or_inf, {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, INFINITE]})]
Cost = Annotated[float, Rule(_no_less_than_nothing, {"anyOf": [{"type": "number", "minimum": 0}, INFINITE]})]
Words = Annotated[str, Rule(_at_least_one, {"type": "string", "minLength": 1})]
Listed = Annotated[
    tuple[Words, ...],
    Rule(
        _each_once,
        {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"type": "string", "minLength": 1}},
    ),
]


_hints = cache(partial(get_type_hints, include_extras=True))


def stated_fields(cls: Any) -> dict[str, Any]:
    """The fields of a dataclass that its document states, with their annotations."""
    hints = _hints(cls)
    return {field.name: hints[field.name] for field in fields(cls) if field.metadata.get("stated", True)}


def derived_fields(cls: Any) -> dict[str, Any]:
    """What a document states besides, because it follows from the fields: properties named in ``derived``, with their types."""
    names = getattr(cls, "derived", ())
    return {name: _hints(getattr(cls, name).fget)["return"] for name in names}


# -- reading ----------------------------------------------------------------------------------------------------------


def read(kind: Any, value: Any, name: str) -> Any:
    """The value of a document as its annotation says; what is missing, unknown or of another type is an error by name.

    A class with ``from_dict`` reads itself.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        made = read(arguments[0], value, name)
        arguments[1].check(**{name: made})
        return made
    if origin in (Union, UnionType):
        return (
            None if value is None else _read_one_of([kind for kind in arguments if kind is not NoneType], value, name)
        )
    if origin is tuple:
        return _read_list(arguments, value, name)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, inner = arguments
        pairs = _of_type(Mapping, value, name).items()
        return {read(key, word, name): read(inner, each, f"{name}.{word}") for word, each in pairs}
    if kind is Any:
        return value
    if hasattr(kind, "from_dict"):
        return kind.from_dict(value)
    if is_dataclass(kind):
        return read_dataclass(kind, value, name)
    if kind is datetime:
        return datetime.fromisoformat(_of_type(str, value, name))
    if issubclass(kind, Enum):
        return member(kind, value, name, InputError)
    return _of_type(kind, value, name)


def read_fields(cls: Any, value: Any, name: str) -> dict[str, Any]:
    """The fields of a dataclass from a document that must state each of them, and nothing else."""
    wanted = stated_fields(cls)
    tag = {"kind"} if is_tagged(cls) else set()
    known = {*wanted, *tag, *derived_fields(cls)}
    if not isinstance(value, Mapping) or set(value) != known:
        got = sorted(map(str, value)) if isinstance(value, Mapping) else value
        raise InputError.of(name or "certificate", f"have {', '.join(sorted(known)) or 'no field'}", got)
    return {key: read(kind, value[key], f"{name}.{key}" if name else key) for key, kind in wanted.items()}


def read_dataclass(cls: Any, value: Any, name: str) -> Any:
    """The dataclass of a document. What follows from its fields must be stated, and as it follows."""
    made = cls(**read_fields(cls, value, name))
    for key in derived_fields(cls):
        true = write(getattr(made, key))
        if differences(value[key], true):
            raise InputError.of(f"{name}.{key}" if name else key, f"be {true!r}", value[key])
    return made


def is_tagged(cls: Any) -> bool:
    """Whether a document says by a word, ``kind``, which of several classes it is."""
    return isinstance(vars(cls).get("kind"), str)


def _read_one_of(kinds: list[Any], value: Any, name: str) -> Any:
    if len(kinds) == 1:
        return read(kinds[0], value, name)
    word = value.get("kind") if isinstance(value, Mapping) else value
    for kind in kinds:
        if word == kind.kind:
            return read(kind, value, name)
    raise InputError.of(f"{name} kind", f"be one of {', '.join(kind.kind for kind in kinds)}", word)


def _read_list(kinds: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    values = _of_type(list, value, name)
    if kinds[1:] == (Ellipsis,):
        kinds = (kinds[0],) * len(values)
    if len(values) != len(kinds):
        raise InputError.of(name, f"have {len(kinds)} entries", value)
    return tuple(
        read(kind, each, f"{name}.{place}") for place, (kind, each) in enumerate(zip(kinds, values, strict=True))
    )


def _of_type(kind: Any, value: Any, name: str) -> Any:
    """Truths are no numbers, whole numbers are numbers, and infinity is the word for it."""
    if kind is float:
        if value == "inf":
            return math.inf
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise InputError.of(name, f"be of type {_JSON.get(kind, kind.__name__)}", value)


_JSON = {float: "number", int: "integer", str: "string", bool: "boolean", list: "array", Mapping: "object"}


# -- writing ----------------------------------------------------------------------------------------------------------


def write(value: Any) -> Any:
    """Plain JSON values. A class with ``to_dict`` writes itself."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return write_dataclass(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, Mapping):
        return {write(key): write(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [write(each) for each in value]
    return json_number(value) if isinstance(value, float) else value


def write_dataclass(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, and what follows from them, as plain JSON values."""
    cls = type(value)
    tag = {"kind": cls.kind} if is_tagged(cls) else {}
    return tag | {key: write(getattr(value, key)) for key in [*stated_fields(cls), *derived_fields(cls)]}


def json_number(x: float) -> float | str | None:
    """A number as JSON can hold it: infinity as the word "inf", what is not a number as null."""
    if math.isnan(x):
        return None
    return "inf" if math.isinf(x) else x


def differences(stated: Any, true: Any, path: str = "", tolerance: float = 1e-9) -> list[str]:
    """Where two JSON values differ by more than rounding, which is relative."""
    if isinstance(stated, Mapping) and isinstance(true, Mapping):
        found: list[str] = []
        for key in dict.fromkeys([*stated, *true]):
            if (key in stated) != (key in true):
                found.append(f"{path}{key} ({'unknown' if key in stated else 'missing'})")
            else:
                found += differences(stated[key], true[key], f"{path}{key}.", tolerance)
        return found
    if isinstance(stated, list | tuple) and isinstance(true, list | tuple):
        if len(stated) != len(true):
            return [f"{path}length"]
        pairs = enumerate(zip(stated, true, strict=True))
        return [found for k, (a, b) in pairs for found in differences(a, b, f"{path}{k}.", tolerance)]
    return [] if same(stated, true, tolerance) else [f"{path.rstrip('.')} (stated {stated!r}, recomputed {true!r})"]


def same(stated: Any, true: Any, tolerance: float = 1e-9) -> bool:
    """Whether two JSON values agree, numbers up to rounding. Truths are no numbers, and infinite is no number either."""
    numbers = isinstance(stated, int | float) and isinstance(true, int | float)
    if numbers and not isinstance(stated, bool) and not isinstance(true, bool):
        return close(stated, true, tolerance)
    return type(stated) is type(true) and bool(stated == true)


def close(stated: float | None, true: float | None, tolerance: float) -> bool:
    """Whether a stated figure is the recomputed one; None is no figure."""
    if true is None or stated is None:
        return stated is None and true is None
    if math.isinf(true) or math.isinf(stated):
        return stated == true
    return abs(stated - true) <= tolerance * max(1e-300, abs(true)) + 1e-18


# -- the schema -------------------------------------------------------------------------------------------------------


def schema_of(kind: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """JSON Schema of an annotation. ``parts`` takes dataclasses, for ``$defs``; one with ``schema`` gives its own."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return dict(arguments[1].schema)
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(each, parts) for each in arguments]}
    if origin is tuple:
        if arguments[1:] == (Ellipsis,):
            return {"type": "array", "items": schema_of(arguments[0], parts)}
        each = [schema_of(argument, parts) for argument in arguments]
        return {"type": "array", "prefixItems": each, "items": False, "minItems": len(each)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, inner = (schema_of(argument, parts) for argument in arguments)
        return {"type": "object", "propertyNames": key, "additionalProperties": inner}
    if kind in (Any, NoneType):
        return {} if kind is Any else {"type": "null"}
    if is_dataclass(kind):
        name = kind.__name__  # type: ignore[union-attr]
        if name not in parts:
            parts[name] = {}  # a part may hold itself
            parts[name] = kind.schema(parts) if hasattr(kind, "schema") else _schema_of_dataclass(kind, parts)
        return {"$ref": f"#/$defs/{name}"}
    if issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    return {"type": _JSON[kind]}


def _schema_of_dataclass(cls: Any, parts: dict[str, Any]) -> dict[str, Any]:
    tag = {"kind": {"const": cls.kind}} if is_tagged(cls) else {}
    kinds = stated_fields(cls) | derived_fields(cls)
    return schema_of_fields(tag | {key: schema_of(kind, parts) for key, kind in kinds.items()})


def schema_of_fields(properties: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of an object that has these fields and no other."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
