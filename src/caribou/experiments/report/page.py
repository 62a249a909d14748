"""The report: one self-contained HTML page, and every table and figure as files. Reads records only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from caribou._files import atomic_folder
from caribou.errors import InputError
from caribou.experiments import reproduction
from caribou.experiments.grid import Experiment
from caribou.experiments.records import OK, Problem, Record, cell_key, latest
from caribou.experiments.report.blocks import Block, Figure, Table
from caribou.experiments.report.items import Item, general_item
from caribou.experiments.report.summary import successes


@dataclass(frozen=True)
class Section:
    """An item as it stands: its blocks, how many cells were measured, failed or are missing, and how to go on."""

    item: Item
    blocks: tuple[Block, ...]
    measured: int
    failed: tuple[str, ...]
    missing: int
    command: str
    commits: tuple[str, ...]


def sections(
    records: Mapping[str, Sequence[Record]],
    experiments: Mapping[str, Experiment],
    scale: str,
    items: Sequence[Item] = (),
    results: str | os.PathLike[str] = "results",
) -> list[Section]:
    """A section per item, then one per other experiment that is known or has records; those without records included.

    ``items``: the experiments that have tables of their own. ``results``: where the records are, for the commands that complete
    them.
    """
    own = {item.experiment: item for item in items}
    for name in (*experiments, *records):
        if name not in own:
            known = experiments.get(name)
            own[name] = general_item(name) if known is None else general_item(name, known.title, known.paper)
    return [_section(item, records.get(name, ()), experiments.get(name), scale, results) for name, item in own.items()]


def _section(
    item: Item,
    records: Sequence[Record],
    experiment: Experiment | None,
    scale: str,
    results: str | os.PathLike[str],
) -> Section:
    good = successes(records)
    errors = tuple(sorted({r.error.strip().splitlines()[-1] for r in latest(records) if r.status != OK and r.error}))
    cells = [] if experiment is None else experiment.cells(scale)
    wanted = {cell_key(cell): at for at, cell in enumerate(cells)}
    missing = len(wanted.keys() - {r.key for r in good})
    # columns and rows in the order of the experiment's file, whatever was measured first
    good.sort(key=lambda record: wanted.get(record.key, len(wanted)))
    command = "" if experiment is None else _command(experiment, scale, results)
    commits = tuple(sorted({r.commit for r in good if r.commit}))
    return Section(item, tuple(item.build(good)) if good else (), len(good), errors, missing, command, commits)


def _command(experiment: Experiment, scale: str, results: str | os.PathLike[str]) -> str:
    """What measures the missing cells; experiments of the paper go by their names."""
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
) -> Path:
    """Write ``index.html`` and the files of all blocks into a new folder, or over an earlier report; whole or not at all.

    ``introduction``: what the page says besides, in words.
    """
    target = Path(folder).absolute()
    if target.exists() and not (target.is_dir() and (not any(target.iterdir()) or (target / "index.html").exists())):
        raise InputError(f"out must be a new folder or an earlier report, got {str(folder)!r}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(target, replace=True) as temporary:
            page = render(parts, problems, scale, introduction)
            (temporary / "index.html").write_text(page, encoding="utf-8")
            for part in parts:
                for block in part.blocks:
                    _write_block(temporary, block)
    except OSError as error:
        raise InputError(f"out must be a folder that can be written, got {str(folder)!r}: {error.strerror}") from error
    return target / "index.html"


def render(parts: Sequence[Section], problems: Sequence[Problem], scale: str, introduction: str = "") -> str:
    """The page."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files(__package__) / "page.html").read_text(encoding="utf-8"))
    return template.render(
        parts=parts,
        problems=problems,
        scale=scale,
        introduction=introduction,
        is_table=lambda block: isinstance(block, Table),
    )


def _write_block(folder: Path, block: Block) -> None:
    if isinstance(block, Figure):
        (folder / f"{block.name}.svg").write_text(block.svg, encoding="utf-8")
        (folder / f"{block.name}.png").write_bytes(block.png)
    else:
        (folder / f"{block.name}.csv").write_text(block.to_csv(), encoding="utf-8")
        (folder / f"{block.name}.tex").write_text(block.to_latex(), encoding="utf-8")
