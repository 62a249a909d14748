"""Who is best, how often: one rule for our records and for the paper's tables, with the same rivals in both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from caribou.experiments.records import Record
from caribou.experiments.report.summary import MIN_SEEDS, mean_of
from reproduction.rows import row_label

Scores = Mapping[tuple[Any, str, str], Mapping[int, float]]
"""Accuracies by (epsilon, row, data set) and seed."""
Cells = Sequence[tuple[Any, str]]
"""Pairs of epsilon and data set."""


def scores_of(records: Iterable[Record]) -> dict[tuple[Any, str, str], dict[int, float]]:
    """The accuracies of records, by the rows of the tables."""
    found: dict[tuple[Any, str, str], dict[int, float]] = {}
    for record in records:
        cell = record.cell
        key = (cell["epsilon"], row_label(record), cell["dataset"])
        found.setdefault(key, {})[cell["seed"]] = record.measures["test_accuracy"]
    return found


def rivals(unit: str) -> tuple[str, ...]:
    """The published methods that the paper compares CARIBOU with, at a unit ("edp", "ndp")."""
    return f"gap-{unit}", f"sage-{unit}", f"dpdgc-{unit}"


def without_graph(unit: str) -> str:
    """The model that reads no edge."""
    return "mlp" if unit == "edp" else "mlp-dp"


def found_at(scores: Scores, epsilon: Any, row: str, dataset: str) -> Mapping[int, float]:
    """The accuracies by seed; an MLP without privacy is the same at every epsilon. Empty if nothing was run."""
    return scores.get(("inf" if row == "mlp" else epsilon, row, dataset), {})


def strongest(
    scores: Scores, epsilon: Any, rows: Sequence[str], dataset: str
) -> tuple[str, Mapping[int, float]] | None:
    """The row with the largest mean, and its accuracies; None if none was run."""
    found = {row: values for row in rows if (values := found_at(scores, epsilon, row, dataset))}
    return max(found.items(), key=lambda item: _mean(item[1])) if found else None


@dataclass(frozen=True)
class Wins:
    """In how many cells a row is at least as good as every rival.

    compared: cells in which it and all rivals were run; the others count for nothing. cells: all that were asked for.
    clear: those in which it is better than the strongest rival beyond chance, seed by seed (Student's t, 95 %).
    """

    wins: int
    clear: int
    compared: int
    cells: int


def wins(scores: Scores, row: str, cells: Cells, others: Sequence[str]) -> Wins:
    """Count the cells in which the mean of a row is at least that of all others."""
    won = clear = compared = 0
    for epsilon, dataset in cells:
        own = found_at(scores, epsilon, row, dataset)
        best = strongest(scores, epsilon, others, dataset)
        if not own or best is None or not all(found_at(scores, epsilon, r, dataset) for r in others):
            continue
        compared += 1
        won += _mean(own) >= _mean(best[1])
        distance = [own[seed] - best[1][seed] for seed in sorted(own.keys() & best[1].keys())]
        if len(distance) >= MIN_SEEDS:
            interval = mean_of(distance)
            clear += interval.value > interval.half_width
    return Wins(won, clear, compared, len(cells))


def stars(scores: Scores, rows: Sequence[str], cells: Cells) -> dict[str, float]:
    """Stars by rank: 5 for the best of the rows in a cell, one less per row that is better, averaged over cells with all rows.

    Nothing where there is no such cell. The paper does not say how it gave its stars.
    """
    given: dict[str, list[int]] = {row: [] for row in rows}
    for epsilon, dataset in cells:
        found = {row: found_at(scores, epsilon, row, dataset) for row in rows}
        if all(found.values()):
            best = {row: max(values.values()) for row, values in found.items()}
            for row in rows:
                given[row].append(5 - sum(value > best[row] for value in best.values()))
    return {row: sum(ranks) / len(ranks) for row, ranks in given.items() if ranks}


def _mean(values: Mapping[int, float]) -> float:
    return sum(values.values()) / len(values)
