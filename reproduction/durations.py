"""How long cells will take, by what cells of their kind took before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from caribou.experiments.records import OK, Record, latest

Cell = Mapping[str, Any]


@dataclass(frozen=True)
class Duration:
    """CPU seconds of ``known`` of ``cells`` cells; of the others nothing is known."""

    seconds: float
    known: int
    cells: int

    def words(self, jobs: int) -> str:
        """The time for people, with ``jobs`` cells at a time.

        >>> Duration(600.0, 20, 20).words(2), Duration(30.0, 5, 9).words(1), Duration(0.0, 0, 3).words(2)
        ('about 5 min', 'about 30 s for 5 of them, the others were never timed', 'time not known: none was timed before')
        """
        if not self.known:
            return "time not known: none was timed before"
        wall = self.seconds / jobs
        text = f"about {wall / 60:.0f} min" if wall >= 90 else f"about {max(1.0, wall):.0f} s"
        return text if self.known == self.cells else f"{text} for {self.known} of them, the others were never timed"


def expected(cells: Sequence[Cell], records: Iterable[Record]) -> Duration:
    """CPU seconds of all cells by the mean of the records of their kind: attack, method, data set, number of settings.

    An encoder that cells share counts once, where it was fitted.
    """
    seconds: dict[Any, list[float]] = {}
    for record in latest(records):
        if record.status == OK and "cpu_seconds" in record.measures:
            own = record.measures["cpu_seconds"] - record.measures.get("shared_cpu_seconds", 0.0)
            seconds.setdefault(_kind(record.cell), []).append(own)
    known = [found for cell in cells if (found := seconds.get(_kind(cell)))]
    return Duration(sum(sum(found) / len(found) for found in known), len(known), len(cells))


def _kind(cell: Cell) -> tuple[Any, ...]:
    return (*(cell.get(name) for name in ("attack", "method", "dataset")), len(cell.get("sweep", ())))
