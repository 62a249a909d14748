"""Periods are those of the calendar in UTC: every moment is in one, and one begins where the other ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from caribou.errors import InputError
from caribou.privacy.periods import Period


@pytest.mark.parametrize("period", list(Period))
def test_periods_follow_each_other_without_a_gap(period: Period) -> None:
    begin, seen = datetime(2023, 1, 1, tzinfo=UTC), []
    while begin.year < 2026:
        first, end = period.window(begin)
        assert first == begin
        assert period.window(end - timedelta(microseconds=1)) == (first, end)
        seen.append(period.label(begin))
        begin = end
    assert len(set(seen)) == len(seen) == 3 * 12 // period.months
    assert begin == datetime(2026, 1, 1, tzinfo=UTC)


def test_labels_and_months_left() -> None:
    may = datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert [period.label(may) for period in Period] == ["2024-05", "2024-Q2", "2024"]
    assert [period.months_left(may) for period in Period] == [1, 2, 8]


def test_another_time_zone_does_not_shift_a_period() -> None:
    new_year = datetime(2024, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    assert Period.YEAR.label(new_year) == "2023"
    assert Period.MONTH.months_left(new_year) == 1


def test_words() -> None:
    assert Period.parse("year") is Period.parse(Period.YEAR) is Period.YEAR
    with pytest.raises(InputError, match="per must be"):
        Period.parse("decade")
