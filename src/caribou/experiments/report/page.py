"""The report: one self-contained HTML page, and every table and figure as files. Reads records only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caribou._files import atomic_file, atomic_folder
from caribou.errors import InputError
from caribou.experiments import reproduction
from caribou.experiments.grid import Experiment
from caribou.experiments.records import OK, Problem, Record, cell_key, latest
from caribou.experiments.report.blocks import Block, Figure, Table
from caribou.experiments.report.items import Item, general_item, of_cells
from caribou.experiments.report.story import Story
from caribou.experiments.report.summary import successes
from caribou.pages import base
from caribou.pages.pictures import drawn, legend_picture, packed


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
            parts.append(_general_section(name, records.get(name, ()), experiments.get(name), scale, results, metric))
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
    lacking = [name for name, wanted in cells.items() if len(good[name]) < len({cell_key(cell) for cell in wanted})]
    missing = sum(len({cell_key(cell) for cell in cells[name]}) - len(good[name]) for name in lacking)
    return Section(
        item,
        tuple(item.build(good)) if any(good.values()) else (),
        sum(map(len, good.values())),
        _errors([record for some in own.values() for record in some]),
        missing,
        sum(len(found[name]) - len(of_cells(found[name], experiments[name].cells(scale))) for name in cells),
        _commands(item, [experiments[name] for name in lacking], scale, results),
        _commits([record for some in good.values() for record in some]),
    )


def _general_section(
    name: str,
    records: Sequence[Record],
    experiment: Experiment | None,
    scale: str,
    results: str | os.PathLike[str],
    metric: str | None,
) -> Section:
    """All records of an experiment that nobody wrote tables for, also those of cells that its grid no longer has."""
    words = ("", "") if experiment is None else (experiment.title, experiment.paper)
    item = general_item(name, *words, metric=metric)
    good = successes(records)
    wanted = {} if experiment is None else {cell_key(c): at for at, c in enumerate(experiment.cells(scale))}
    good.sort(key=lambda record: wanted.get(record.key, len(wanted)))
    missing = len(wanted.keys() - {record.key for record in good})
    commands = (_run(experiment, scale, results),) if experiment is not None and missing else ()
    blocks = tuple(item.build({name: good})) if good else ()
    return Section(item, blocks, len(good), _errors(latest(records)), missing, 0, commands, _commits(good))


def _errors(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(sorted({r.error.strip().splitlines()[-1] for r in records if r.status != OK and r.error.strip()}))


def _commits(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(sorted({record.commit for record in records if record.commit}))


def _commands(
    item: Item, lacking: Sequence[Experiment], scale: str, results: str | os.PathLike[str]
) -> tuple[str, ...]:
    """One command for what the paper's own records lack; in another folder one per experiment."""
    paper = reproduction.find()
    if lacking and paper is not None and Path(results).resolve() == paper.results.resolve():
        return (f"caribou reproduce {item.name} --scale {scale}",)
    return tuple(_run(experiment, scale, results) for experiment in lacking)


def _run(experiment: Experiment, scale: str, results: str | os.PathLike[str]) -> str:
    """What measures the missing cells of an experiment; those of the paper go by their names."""
    paper, file = reproduction.find(), experiment.file
    of_paper = paper is not None and file is not None and file.resolve().parent == paper.experiments.resolve()
    what = experiment.name if of_paper or file is None else os.fspath(file)
    usual = of_paper and paper is not None and Path(results).resolve() == paper.results.resolve()
    return f"caribou run {what} --scale {scale} --resume" + ("" if usual else f" --out {os.fspath(results)}")


def write_report(
    folder: str | os.PathLike[str],
    parts: Sequence[Section],
    problems: Sequence[Problem],
    scale: str,
    introduction: str = "",
    story: Story | None = None,
) -> Path:
    """Write ``index.html`` and the files of all blocks into a new folder, or over an earlier report; whole or not at all.

    ``introduction``: what the page says besides, in words. ``story``: what it begins with.
    """
    target = Path(folder).absolute()
    if target.exists() and not (target.is_dir() and (not any(target.iterdir()) or (target / "index.html").exists())):
        raise InputError(f"out must be a new folder or an earlier report, got {str(folder)!r}")
    with _writing(folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(target, replace=True) as temporary:
            for name, content in _files(parts, problems, scale, introduction, story):
                (temporary / name).write_bytes(content)
    return target / "index.html"


def add_report(
    folder: str | os.PathLike[str],
    parts: Sequence[Section],
    problems: Sequence[Problem],
    scale: str,
    introduction: str = "",
) -> list[Path]:
    """The same files, written into a folder that may have other content, which stays; each whole or not at all."""
    target = Path(folder)
    written = []
    with _writing(folder):
        target.mkdir(parents=True, exist_ok=True)
        for name, content in _files(parts, problems, scale, introduction):
            with atomic_file(target / name) as temporary:
                temporary.write_bytes(content)
            written.append(target / name)
    return written


@contextmanager
def _writing(folder: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"out must be a folder that can be written, got {str(folder)!r}: {error.strerror}") from error


def _files(
    parts: Sequence[Section], problems: Sequence[Problem], scale: str, introduction: str, story: Story | None = None
) -> Iterator[tuple[str, bytes]]:
    yield "index.html", render(parts, problems, scale, introduction, story).encode()
    if story is not None:
        yield "story.csv", story.to_csv().encode()
    for block in (block for part in parts for block in part.blocks):
        yield f"{block.name}.csv", block.to_csv().encode()
        if isinstance(block, Figure):
            yield f"{block.name}.svg", block.svg.encode()
            yield f"{block.name}.png", block.png
        else:
            yield f"{block.name}.tex", block.to_latex().encode()


def render(
    parts: Sequence[Section],
    problems: Sequence[Problem],
    scale: str,
    introduction: str = "",
    story: Story | None = None,
) -> str:
    """The page."""
    blocks = [block for part in parts for block in part.blocks]
    notes: dict[str, int] = {}
    tables = {block.name: block.to_html(notes) for block in blocks if isinstance(block, Table)}
    charts = {} if story is None else story.charts()
    lines = {line.name: line for chart in charts.values() for line in chart.lines}
    pictures = {block.name: block.to_page() for block in blocks if isinstance(block, Figure)}
    pictures |= {name: packed(drawn(chart, name)) for name, chart in charts.items()}
    return base.render(
        "report.html",
        title="CARIBOU: results",
        scripts=("page.js", "pictures.js", "report.js"),
        data={"pictures": pictures, "notes": packed(json.dumps(list(notes)))},
        legend=legend_picture(list(lines.values()), "story-legend") if lines else "",
        parts=parts,
        problems=problems,
        scale=scale,
        introduction=introduction,
        tables=tables,
        story=story,
        charts=charts,
        places={} if story is None else {id(panel): name for panel, name in zip(story.panels, charts, strict=True)},
        is_table=lambda block: isinstance(block, Table),
        place_of=id,
    )
