"""The report: one self-contained HTML page, and every table and figure as files. Reads records only."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from caribou.errors import InputError
from caribou.experiments.grid import Experiment
from caribou.experiments.records import OK, Problem, Record, cell_key, latest
from caribou.reports.blocks import Block, Figure, Table
from caribou.reports.items import ITEMS, Item
from caribou.reports.summary import successes


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
    results: str | os.PathLike[str] = "results",
) -> list[Section]:
    """All items, those without records included. ``results``: where the records are, for the commands that fill them up."""
    found = []
    for item in ITEMS:
        own = records.get(item.experiment, ())
        good = successes(own)
        errors = tuple(sorted({r.error.strip().splitlines()[-1] for r in latest(own) if r.status != OK and r.error}))
        wanted: dict[str, int] = {}
        if item.experiment in experiments:
            wanted = {cell_key(cell): at for at, cell in enumerate(experiments[item.experiment].cells(scale))}
        missing = len(wanted.keys() - {r.key for r in good})
        # columns and rows in the order of the experiment's file, whatever was measured first
        good.sort(key=lambda record: wanted.get(record.key, len(wanted)))
        command = f"caribou run experiments/{item.experiment}.toml --scale {scale} --resume --out {os.fspath(results)}"
        commits = tuple(sorted({r.commit for r in good if r.commit}))
        found.append(
            Section(item, tuple(item.build(good)) if good else (), len(good), errors, missing, command, commits)
        )
    return found


def write_report(
    folder: str | os.PathLike[str], parts: Sequence[Section], problems: Sequence[Problem], scale: str
) -> Path:
    """Write ``index.html`` and the files of all blocks into a new folder, or over an earlier report; whole or not at all."""
    target = Path(folder).absolute()
    if target.exists() and not (target.is_dir() and (not any(target.iterdir()) or (target / "index.html").exists())):
        raise InputError(f"out must be a new folder or an earlier report, got {str(folder)!r}")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.mkdir(parents=True)
        (temporary / "index.html").write_text(render(parts, problems, scale), encoding="utf-8")
        for part in parts:
            for block in part.blocks:
                _write_block(temporary, block)
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
    except OSError as error:
        raise InputError(f"out must be a folder that can be written, got {str(folder)!r}: {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target / "index.html"


def render(parts: Sequence[Section], problems: Sequence[Problem], scale: str) -> str:
    """The page."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files("caribou.reports") / "page.html").read_text(encoding="utf-8"))
    return template.render(parts=parts, problems=problems, scale=scale, is_table=lambda block: isinstance(block, Table))


def _write_block(folder: Path, block: Block) -> None:
    if isinstance(block, Figure):
        (folder / f"{block.name}.svg").write_text(block.svg, encoding="utf-8")
        (folder / f"{block.name}.png").write_bytes(block.png)
    else:
        (folder / f"{block.name}.csv").write_text(block.to_csv(), encoding="utf-8")
        (folder / f"{block.name}.tex").write_text(block.to_latex(), encoding="utf-8")
