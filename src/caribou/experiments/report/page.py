"""The report: one self-contained HTML page, and every table and figure as files. Reads records only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caribou.errors import InputError
from caribou.experiments import reproduction
from caribou.experiments.grid import Experiment
from caribou.experiments.records import OK, Problem, Record, cell_key, latest
from caribou.experiments.report.blocks import NOT_RUN, Block, Figure, Table
from caribou.experiments.report.items import Item, general_item, of_cells
from caribou.experiments.report.summary import successes
from caribou.machine.files import atomic_folder, atomic_write
from caribou.pages import base


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
            words = ("", "") if known is None else (known.title, known.paper)
            item = general_item(name, *words, metric=metric)
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
