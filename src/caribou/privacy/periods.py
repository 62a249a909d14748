"""Calendar periods of a budget: months, quarters and years in UTC. They are fixed; nobody can shift one.

A window that moves with the releases (the last 365 days) would let whoever asks choose when it begins. A calendar period begins
when it begins, whatever was released.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import Any

from caribou._validate import member


class Period(Enum):
    """How often a budget begins anew.

    >>> noon = datetime(2026, 11, 18, 12, tzinfo=UTC)
    >>> Period.YEAR.label(noon), Period.QUARTER.label(noon), Period.MONTH.label(noon), Period.YEAR.months_left(noon)
    ('2026', '2026-Q4', '2026-11', 2)
    """

    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"

    @classmethod
    def parse(cls, value: Any) -> Period:
        """The period, or its word; everything else is an error."""
        return value if isinstance(value, cls) else member(cls, value, "per")

    @property
    def months(self) -> int:
        """How many months it has."""
        return {Period.MONTH: 1, Period.QUARTER: 3, Period.YEAR: 12}[self]

    def window(self, time: datetime) -> tuple[datetime, datetime]:
        """Begin and end of the period that ``time`` lies in; the end is the begin of the next one."""
        at = time.astimezone(UTC)
        first = (at.month - 1) // self.months * self.months + 1
        last = first + self.months
        end = datetime(at.year + 1, 1, 1, tzinfo=UTC) if last > 12 else datetime(at.year, last, 1, tzinfo=UTC)
        return datetime(at.year, first, 1, tzinfo=UTC), end

    def label(self, time: datetime) -> str:
        """The name of that period: 2026, 2026-Q4 or 2026-11."""
        begin, _ = self.window(time)
        if self is Period.YEAR:
            return f"{begin.year}"
        if self is Period.QUARTER:
            return f"{begin.year}-Q{(begin.month + 2) // 3}"
        return f"{begin.year}-{begin.month:02d}"

    def months_left(self, time: datetime) -> int:
        """The months of that period from the one of ``time`` on, which counts."""
        begin, _ = self.window(time)
        return self.months - (time.astimezone(UTC).month - begin.month)
