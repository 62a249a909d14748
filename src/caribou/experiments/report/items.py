"""The parts of a report: tables and figures of one or several experiments. One that nobody wrote tables for gets general ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from caribou.experiments.grid import Experiment
from caribou.experiments.records import Record, cell_key
from caribou.experiments.report.blocks import Block
from caribou.experiments.report.scores import (
    SCORES,
    epsilon_curves,
    interval_words,
    metric_score,
    score_table,
    settings_note,
)
from caribou.experiments.report.summary import figure_of, grouped, value_of

Records = Sequence[Record]
ByExperiment = Mapping[str, Records]
Cell = Mapping[str, Any]


def _every(cell: Cell) -> bool:
    return True


@dataclass(frozen=True)
class Item:
    """A part of the report: tables and figures, made of the records of one or several experiments.

    paper: what it is in a publication. experiments: those it is made of. build: its blocks from their records.
    keep: which cells of the experiments belong to it.
    """

    name: str
    title: str
    paper: str
    experiments: tuple[str, ...]
    build: Callable[[ByExperiment], Sequence[Block]]
    keep: Callable[[Cell], bool] = _every

    def cells(self, known: Mapping[str, Experiment], scale: str) -> dict[str, list[dict[str, Any]]]:
        """The cells it asks for at a scale, by experiment; an experiment that is not known asks for none."""
        found = {name: known[name].cells(scale) for name in self.experiments if name in known}
        return {name: [cell for cell in cells if self.keep(cell)] for name, cells in found.items()}


def of_cells(records: Iterable[Record], cells: Sequence[Cell]) -> list[Record]:
    """The records of these cells, in the order of the cells, whatever was measured first."""
    order = {cell_key(cell): at for at, cell in enumerate(cells)}
    return sorted((record for record in records if record.key in order), key=lambda record: order[record.key])


def general_item(name: str, title: str = "", paper: str = "", metric: str | None = None) -> Item:
    """Tables and curves for the records of any experiment. ``metric``: of the test nodes, in the place of accuracy."""
    return Item(name, title or name, paper, (name,), lambda found: general_blocks(name, found.get(name, ()), metric))


COMMON = ("method", "dataset", "epsilon", "seed", "kind", "settings")
"""Axes that have their place in a table; what else differs between cells is said with the method."""


def general_blocks(name: str, records: Records, metric: str | None = None) -> list[Block]:
    """The score by method, data set and epsilon, and its curves over epsilon; nothing where no record has a score.

    ``metric``: of the test nodes; records that do not hold it are shown by accuracy.
    """
    known = SCORES if metric is None else (metric_score(metric), *SCORES)
    scores = [score for score in known if any(figure_of(r.measures, score.measure) is not None for r in records)]
    if not scores:
        return []
    score, differing = scores[0], varying(records)
    shown = [replace(r, cell={**r.cell, "method": _label(r, differing)}) for r in records]
    means = grouped(shown, "epsilon", "method", "dataset", measure=score.measure)
    caption = f"{score.caption}, {interval_words(means)} Bold: best, underlined: second. {settings_note(records)}"
    blocks: list[Block] = [score_table(f"{name}-table", score.title, shown, means, score, caption=caption)]
    if len({r.cell["epsilon"] for r in records} - {"inf"}) > 1:
        blocks += epsilon_curves(f"{name}-curves", shown, score)
    return blocks


def varying(records: Records) -> list[str]:
    """The axes and settings, besides the common ones, in which cells differ."""
    names = dict.fromkeys(name for record in records for name in _names(record) if name not in COMMON)
    return [name for name in names if _differs(records, name)]


def _names(record: Record) -> list[str]:
    return [*(name for name in record.cell if name != "settings"), *record.cell.get("settings", {})]


def _differs(records: Records, name: str) -> bool:
    return len({json.dumps(value_of(record.cell, name), sort_keys=True) for record in records}) > 1


def _label(record: Record, differing: Sequence[str]) -> str:
    settings = [_setting(record, name) for name in differing if value_of(record.cell, name) is not None]
    return ", ".join([str(record.cell["method"]), *settings])


def _setting(record: Record, name: str) -> str:
    value = value_of(record.cell, name)
    return f"{name} {value if isinstance(value, str) else json.dumps(value)}"
