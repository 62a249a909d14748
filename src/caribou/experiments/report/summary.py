"""Records summarised: one figure with its interval per group of seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from caribou.experiments.records import OK, Record, latest

MIN_SEEDS = 3
"""With fewer seeds an interval is wider than anything it could say."""


@dataclass(frozen=True)
class Mean:
    """Mean over ``count`` values, one per seed, with half of its 95 % interval (Student's t); not a number for one value."""

    value: float
    half_width: float
    count: int

    @property
    def shown_half(self) -> float | None:
        """Half of the interval; None from fewer than three seeds or where there is none."""
        return None if self.count < MIN_SEEDS or math.isnan(self.half_width) else self.half_width

    def percent(self) -> str:
        """``88.4 ± 0.5``, for shares."""
        return self._text(100, 1)

    def decimals(self, digits: int = 3) -> str:
        """``0.443 ± 0.012``, for areas and rates."""
        return self._text(1, digits)

    def _text(self, factor: float, digits: int) -> str:
        half = "" if self.shown_half is None else f" ± {factor * self.shown_half:.{digits}f}"
        return f"{factor * self.value:.{digits}f}{half}"


def budget_words(epsilon: float | str) -> str:
    """A budget as the title of a row or column.

    >>> budget_words("inf"), budget_words(4)
    ('ε = ∞', 'ε = 4')
    """
    return f"ε = {'∞' if epsilon == 'inf' else epsilon}"


def seed_words(count: int) -> str:
    """How many seeds a mean is over."""
    return f"{count} seed{'s' if count != 1 else ''}"


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of some values.

    >>> mean_of([0.5, 0.7]).percent(), mean_of([0.5, 0.6, 0.7]).percent()
    ('60.0', '60.0 ± 24.8')
    """
    from caribou.metrics import mean_interval

    low, high = mean_interval(values)
    return Mean((low + high) / 2, (high - low) / 2 if len(values) > 1 else math.nan, len(values))


def successes(records: Iterable[Record]) -> list[Record]:
    """One record per cell, those that were measured."""
    return [record for record in latest(records) if record.status == OK]


def grouped(records: Iterable[Record], *names: str, measure: str = "test_accuracy") -> dict[Any, Mean]:
    """Means of a measure by the values of axes (one: by its value, several: by tuples), in the order of appearance.

    ``measure``: a name, or names joined by "/" for a figure inside others. Records without it are left out.
    """
    return {group: mean_of(found) for group, found in values_by(records, names, measure).items()}


def values_by(records: Iterable[Record], names: Sequence[str], measure: str) -> dict[Any, list[float]]:
    """The values of a measure by the values of axes, as in `grouped`."""
    values: dict[Any, list[float]] = {}
    for record in records:
        value = figure_of(record.measures, measure)
        if isinstance(value, int | float) and not isinstance(value, bool):
            key = tuple(value_of(record.cell, name) for name in names)
            values.setdefault(key if len(names) > 1 else key[0], []).append(float(value))
    return values


def axis(records: Iterable[Record], name: str) -> list[Any]:
    """The values of an axis, numbers in order, then words in order of appearance."""
    found = list(dict.fromkeys(value_of(record.cell, name) for record in records))
    numbers = sorted(v for v in found if isinstance(v, int | float))
    return [*numbers, *(v for v in found if isinstance(v, str))]


def seeds_of(means: Iterable[Mean]) -> str:
    """Over how many seeds means are, in words.

    >>> seeds_of([Mean(0.5, 0.1, 1), Mean(0.5, 0.1, 3)]), seeds_of([Mean(0.5, 0.1, 3)])
    ('1 to 3', '3')
    """
    counts = sorted({mean.count for mean in means})
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def value_of(cell: Mapping[str, Any], name: str) -> Any:
    """The value of an axis or of a setting; None if the cell has neither."""
    return cell.get(name, cell.get("settings", {}).get(name))


def figure_of(measures: Mapping[str, Any], path: str) -> Any:
    """A figure by its name or path; None where there is none.

    >>> figure_of({"tpr_at_fpr": {"0.01": 0.2}}, "tpr_at_fpr/0.01")
    0.2
    """
    found: Any = measures
    for name in path.split("/"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
