"""Numbers that text spells: plain ones, those of other countries, whose decimal mark is declared, and percentages.

``1.234`` is 1.234 to one reader and 1234 to another. So no mark is guessed: without a declared one only plain numbers are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MARKS = (",", ".")
"""Decimal marks that can be declared."""

_BLANKS = " \u00a0\u202f'\u2019"
"""Between thousands under either mark: blanks, also those that do not break a line, and apostrophes."""


def _pattern(decimal: str) -> re.Pattern[str]:
    (other,) = (mark for mark in MARKS if mark != decimal)
    whole = rf"[0-9]{{1,3}}(?P<between>[{other}{_BLANKS}])[0-9]{{3}}(?:(?P=between)[0-9]{{3}})*|[0-9]+"
    fraction = rf"{re.escape(decimal)}[0-9]*"
    return re.compile(rf"[-+]?(?:(?:{whole})(?:{fraction})?|{re.escape(decimal)}[0-9]+)(?:[eE][-+]?[0-9]+)?")


_PATTERNS = {mark: _pattern(mark) for mark in MARKS}


@dataclass(frozen=True)
class Notation:
    """How the numbers of a column are written.

    Args:
        decimal: the declared decimal mark; thousands may then be set apart by the other mark, blanks or apostrophes. None: plain
            numbers alone, with a point and nothing between thousands.
        percent: a sign % may follow. What is spelled is the number before it.

    >>> Notation(",").spelled("1.234,5"), Notation(".").spelled("1,234.5"), Notation().spelled("1,5")
    (1234.5, 1234.5, None)
    >>> Notation(",", percent=True).spelled("12,5 %")
    12.5
    """

    decimal: str | None = None
    percent: bool = False

    def spelled(self, text: str) -> float | None:
        """The number that a text spells, not a number and infinity included; None if it spells none."""
        text = text.strip()
        if self.percent:
            text = text.removesuffix("%").rstrip()
        if self.decimal is None or not any(sign.isdigit() for sign in text):
            return _plain(text)
        if _PATTERNS[self.decimal].fullmatch(text) is None:
            return None
        (other,) = (mark for mark in MARKS if mark != self.decimal)
        return float(re.sub(f"[{other}{_BLANKS}]", "", text).replace(self.decimal, "."))


PLAIN = Notation()
"""Numbers with a point, and nothing between thousands."""


def _plain(text: str) -> float | None:
    # float() also takes 1_000 and digits of other scripts, which a reader of number columns leaves as text
    if not text.isascii() or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None
