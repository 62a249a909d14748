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


@pytest.mark.parametrize(
    "change",
    [
        *({"size": 0}, {"size": 2.5}, {"size": True}, {"size": "3"}, {"size": None}, {"colour": "green"}, {"cost": -1}),
        *(
            {"cost": "infinite"},
            {"name": ""},
            {"name": 3},
            {"pairs": [[1]]},
            {"pairs": [[1, 0.5, 2]]},
            {"pairs": [[1, 0]]},
        ),
        *({"pairs": {}}, {"more": {"green": True}}, {"more": {"red": 1}}, {"more": []}, {"twice": 7}, {"note": 1}),
    ],
)
def test_other_documents_are_refused_by_reader_and_schema(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="thing"):
        read(Thing, {**RECORD, **change}, "thing")
    parts: dict[str, Any] = {}
    validator = Draft202012Validator({**schema_of(Thing, parts), "$defs": parts})
    assert validator.is_valid(RECORD)
    assert validator.is_valid({**RECORD, **change}) == ("twice" in change), "what follows is no question of form"


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
