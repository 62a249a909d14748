"""Numbers in text: what each notation reads, and what none does."""

from __future__ import annotations

import math

from caribou.tables.numerals import Notation

READ: list[tuple[str | None, str, float | None]] = [
    (None, " 1.5 ", 1.5),
    (None, "1e3", 1000.0),
    (None, "1_000", None),
    (None, "1,5", None),
    (None, "\u0661", None),
    (None, "", None),
    (",", "1,5", 1.5),
    (",", "-1.234.567,25", -1234567.25),
    (",", "1.234", 1234.0),
    (",", "1 234,5", 1234.5),
    (",", "1\u202f234,5", 1234.5),
    (",", ",5", 0.5),
    (",", "1,5E+3", 1500.0),
    (",", "1.5", None),
    (",", "12.03.2024", None),
    (",", "1.234 567", None),
    (",", "1,2,3", None),
    (".", "1,234.5", 1234.5),
    (".", "1'234.5", 1234.5),
    (".", "1,5", None),
]


def test_a_mark_is_declared_and_never_guessed() -> None:
    for decimal, text, value in READ:
        assert Notation(decimal).spelled(text) == value, (decimal, text)


def test_percentages_are_read_where_they_are_declared() -> None:
    assert Notation().spelled("12%") is None
    assert [Notation(",", percent=True).spelled(text) for text in ("12,5 %", "12,5", "12,5%%")] == [12.5, 12.5, None]
    assert Notation(",").spelled("inf") == math.inf
