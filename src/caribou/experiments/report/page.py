"""The report: one self-contained HTML page, and every table and figure as files. Reads records only.

It consists of items: tables and figures of one or several experiments. Experiments that have no item get general ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from caribou.errors import InputError
from caribou.experiments import reproduction
from caribou.experiments.grid import Experiment
from caribou.experiments.records import OK, Problem, Record, cell_key, latest
from caribou.experiments.report.blocks import NOT_RUN, Block, Figure, Table
from caribou.experiments.report.scores import (
    SCORES,
    epsilon_curves,
    interval_words,
    metric_score,
    score_table,
    settings_note,
)
from caribou.experiments.report.summary import figure_of, grouped, successes, value_of
from caribou.machine.files import atomic_folder, atomic_write
from caribou.pages import base

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


@dataclass(frozen=True)
class Section:
    """An item as it stands: its blocks, how many cells were measured, failed or are missing, and how to go on.

    others: records of its experiments that are of no cell of theirs at this scale, and are left out.
    commands: what measures the missing ones.
    """

    item: Item
    blocks: tuple[Block, ...]
    measured: int
    failed: tuple[str, ...]
    missing: int
    others: int
    commands: tuple[str, ...]
    commits: tuple[str, ...]


def sections(
    records: Mapping[str, Sequence[Record]],
    experiments: Mapping[str, Experiment],
    scale: str,
    items: Sequence[Item] = (),
    results: str | os.PathLike[str] = "results",
    metric: str | None = None,
) -> list[Section]:
    """A section per item, then one per other experiment that is known or has records; those without records included.

    ``items``: tables and figures of their own, made of the cells of their experiments at this scale and of nothing else.
    ``results``: where the records are, for the commands that complete them. ``metric``: of the test nodes, for
    sections that no item was written for; None: accuracy.
    """
    parts = [section(item, records, item.cells(experiments, scale), experiments, scale, results) for item in items]
    covered = {name for item in items for name in item.experiments}
    for name in dict.fromkeys((*experiments, *records)):
        if name not in covered:
            found, known = records.get(name, ()), experiments.get(name)
            title, paper = (name, "") if known is None else (known.title, known.paper)
            item = Item(name, title, paper, (name,), partial(general_blocks, name, metric=metric))
            # records of cells that the grid no longer has are shown, too
            cells = [*(() if known is None else known.cells(scale)), *(record.cell for record in successes(found))]
            parts.append(section(item, records, {name: cells}, experiments, scale, results))
    return parts


def section(
    item: Item,
    records: Mapping[str, Sequence[Record]],
    cells: Mapping[str, Sequence[Mapping[str, Any]]],
    experiments: Mapping[str, Experiment],
    scale: str,
    results: str | os.PathLike[str],
) -> Section:
    """An item, made of the records of these cells (by experiment)."""
    found = {name: latest(records.get(name, ())) for name in cells}
    own = {name: of_cells(found[name], wanted) for name, wanted in cells.items()}
    good = {name: successes(some) for name, some in own.items()}
    known = {name: experiments[name].cells(scale) if name in experiments else [] for name in cells}
    missing = {name: len({cell_key(cell) for cell in wanted}) - len(good[name]) for name, wanted in cells.items()}
    return Section(
        item,
        tuple(item.build(good)) if any(good.values()) else (),
        sum(map(len, good.values())),
        _errors([record for some in own.values() for record in some]),
        sum(missing.values()),
        sum(len(found[name]) - len(of_cells(found[name], [*known[name], *cells[name]])) for name in cells),
        tuple(_run(experiments[name], scale, results) for name, lacking in missing.items() if lacking),
        _commits([record for some in good.values() for record in some]),
    )


def _errors(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(sorted({r.error.strip().splitlines()[-1] for r in records if r.status != OK and r.error.strip()}))


def _commits(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(sorted({record.commit for record in records if record.commit}))


def _run(experiment: Experiment, scale: str, results: str | os.PathLike[str]) -> str:
    """What measures the missing cells of an experiment; those of the paper go by their names."""
    paper, file = reproduction.find(), experiment.file
    of_paper = paper is not None and file is not None and file.resolve().parent == paper.experiments.resolve()
    what = experiment.name if of_paper or file is None else os.fspath(file)
    return f"caribou run {what} --scale {scale} --resume --out {os.fspath(results)}"


# -- what any experiment gets -----------------------------------------------------------------------------------------

COMMON = ("method", "dataset", "epsilon", "seed", "kind", "settings")
"""Axes that have their place in a table; what else differs between cells is said with the method."""


def general_blocks(name: str, found: ByExperiment, metric: str | None = None) -> list[Block]:
    """The score by method, data set and epsilon, and its curves over epsilon; nothing where no record has a score.

    ``metric``: of the test nodes; records that do not hold it are shown by accuracy.
    """
    records = found.get(name, ())
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


# -- files -----------------------------------------------------------------------------------------------------------


def write_report(
    folder: str | os.PathLike[str],
    parts: Sequence[Section],
    problems: Sequence[Problem],
    scale: str,
    introduction: str = "",
    *,
    beside_others: bool = False,
) -> list[Path]:
    """Write ``index.html`` and the files of all blocks; returns their paths, the page first.

    The folder is new, or an earlier report, which is replaced whole or not at all. With ``beside_others`` it may have other
    content, which stays. ``introduction``: what the page says besides, in words.
    """
    target = Path(folder).absolute()
    is_report = target.is_dir() and (not any(target.iterdir()) or (target / "index.html").exists())
    if target.exists() and not is_report and not beside_others:
        raise InputError(f"out must be a new folder or an earlier report, got {str(folder)!r}")
    files = _files(parts, problems, scale, introduction)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if beside_others:
            target.mkdir(exist_ok=True)
            for name, content in files.items():
                atomic_write(target / name, content)
        else:
            with atomic_folder(target, replace=True) as temporary:
                for name, content in files.items():
                    (temporary / name).write_bytes(content)
    except OSError as error:
        raise InputError(f"out must be a folder that can be written, got {str(folder)!r}: {error.strerror}") from error
    return [Path(folder) / name for name in files]


def _files(parts: Sequence[Section], problems: Sequence[Problem], scale: str, introduction: str) -> dict[str, bytes]:
    files = {"index.html": render(parts, problems, scale, introduction).encode()}
    for block in (block for part in parts for block in part.blocks):
        files[f"{block.name}.csv"] = block.to_csv().encode()
        if isinstance(block, Figure):
            svg, files[f"{block.name}.png"] = block.drawn
            files[f"{block.name}.svg"] = svg.encode()
        else:
            files[f"{block.name}.tex"] = block.to_latex().encode()
    return files


def render(parts: Sequence[Section], problems: Sequence[Problem], scale: str, introduction: str = "") -> str:
    """The page."""
    return base.render(
        "report.html",
        title="CARIBOU: results",
        parts=parts,
        problems=problems,
        scale=scale,
        introduction=introduction,
        not_run=NOT_RUN,
        is_table=lambda block: isinstance(block, Table),
    )
