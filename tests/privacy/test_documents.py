"""Documents: what is written is read again, and nothing else is; the schema says the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import pytest
from jsonschema import Draft202012Validator

from caribou.errors import InputError
from caribou.privacy.documents import Cost, Count, Positive, Words, differences, read, same, schema_of, write


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Thing:
    derived: ClassVar[tuple[str, ...]] = ("twice",)
    size: Count
    colour: Colour
    cost: Cost
    name: Words | None
    pairs: tuple[tuple[int, Positive], ...]
    more: Mapping[Colour, bool]

    @property
    def twice(self) -> int:
        """What follows."""
        return 2 * self.size


THING = Thing(3, Colour.RED, math.inf, None, ((1, 0.5),), {Colour.BLUE: True})
RECORD = {
    "size": 3,
    "colour": "red",
    "cost": "inf",
    "name": None,
    "pairs": [[1, 0.5]],
    "more": {"blue": True},
    "twice": 6,
}


def test_reading_is_the_inverse_of_writing() -> None:
    assert write(THING) == RECORD
    assert read(Thing, RECORD, "thing") == THING


OTHERS: dict[str, list[Any]] = {
    "size": [0, 2.5, True, "3", None],
    "colour": ["green"],
    "cost": [-1, "infinite"],
    "name": ["", 3],
    "pairs": [[[1]], [[1, 0.5, 2]], [[1, 0]], {}],
    "more": [{"green": True}, {"red": 1}, []],
    "note": [1],
}


@pytest.mark.parametrize("field", OTHERS)
def test_other_documents_are_refused_by_reader_and_schema(field: str) -> None:
    parts: dict[str, Any] = {}
    validator = Draft202012Validator({**schema_of(Thing, parts), "$defs": parts})
    assert validator.is_valid(RECORD)
    for other in OTHERS[field]:
        with pytest.raises(InputError, match="thing"):
            read(Thing, {**RECORD, field: other}, "thing")
        assert not validator.is_valid({**RECORD, field: other}), other


def test_what_follows_is_no_question_of_form() -> None:
    with pytest.raises(InputError, match="thing"):
        read(Thing, {**RECORD, "twice": 7}, "thing")
    parts: dict[str, Any] = {}
    assert Draft202012Validator({**schema_of(Thing, parts), "$defs": parts}).is_valid({**RECORD, "twice": 7})


def test_a_field_that_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="thing must have colour, cost, more, name, pairs, size, twice"):
        read(Thing, {key: value for key, value in RECORD.items() if key != "size"}, "thing")


def test_differences_are_those_beyond_rounding() -> None:
    assert differences({"a": [1.0, {"b": 2}]}, {"a": [1.0 + 1e-12, {"b": 2}]}) == []
    assert differences({"a": [1.0]}, {"a": [1.1]}) == ["a.0 (stated 1.0, recomputed 1.1)"]
    assert differences({"a": 1, "b": 2}, {"a": 1, "c": 2}) == ["b (unknown)", "c (missing)"]
    assert not same(1, True)
    assert not same(math.inf, "inf")
    assert not same(1e-14, 1.01e-14)
