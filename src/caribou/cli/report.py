"""``caribou report``: one page with every table and figure that the records allow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from caribou.cli.command import argument, command, option, record
from caribou.errors import InputError

if TYPE_CHECKING:
    from caribou.experiments.grid import Experiment
    from caribou.experiments.records import Record


@record
class ReportOptions:
    """What caribou report takes."""

    results: Path | None = argument("The folder of records that caribou run wrote (default: the paper's).", None)
    out: Path = option(
        "The folder to write: index.html, and each table and figure as files; an earlier report is replaced.",
        default=...,
    )
    experiments: Path | None = option(
        "The folder of their experiments (*.toml), for titles and to say what is missing."
    )
    scale: str = option("The scale that counts as complete.", default="laptop")
    metric: str | None = option("Show this metric of the test nodes in the place of accuracy: macro_f1, ap, brier, ...")


@command
def report(given: ReportOptions) -> None:
    """Build a self-contained page (no network) from records: tables with means and 95 % intervals, figures.

    Any experiment gets a table by method, data set and epsilon, and curves. The paper's experiments get the paper's tables and
    figures, ours beside the published ones. Reads records only and takes seconds. Records that cannot be read are listed on the
    page and skipped.

    Example: caribou report my-results --out report
    """
    from caribou.experiments.grid import available
    from caribou.experiments.records import read_all
    from caribou.experiments.report.page import sections, write_report
    from caribou.experiments.report.summary import successes
    from caribou.experiments.reproduction import find, require
    from caribou.metrics import metric_name

    results, scale, metric = given.results or require().results, given.scale, given.metric
    records, problems = read_all(results)
    if not any(records.values()):
        raise InputError(f"results must be a folder with records of caribou run, got {str(results)!r} with none")
    known: dict[str, Experiment] = {}
    items, introduction = [], ""
    paper = find() if given.experiments is None else None
    if given.experiments is not None:
        known = {experiment.name: experiment for experiment in available(given.experiments)}
    elif paper is not None:
        published = {experiment.name: experiment for experiment in available(paper.experiments)}
        others = {name for name, found in records.items() if not belongs(found, published.get(name))}
        if set(records) - others:
            known = {name: experiment for name, experiment in published.items() if name not in others}
            code = paper.module("items")
            items, introduction = [i for i in code.ITEMS if known.keys() & set(i.experiments)], code.INTRODUCTION
    wanted = None if metric is None else metric_name(metric)
    parts = sections(records, known, scale, items, results, wanted)
    page = write_report(given.out, parts, problems, scale, introduction)[0]
    measured = {name: len(successes(found)) for name, found in records.items()}
    names = {*known, *records}
    count = sum(bool(number) for number in measured.values())
    typer.echo(f"{page}: {sum(measured.values())} records, {count} of {len(names)} experiments")
    for problem in problems:
        typer.echo(f"warning: skipped {problem}", err=True)


def belongs(records: Sequence[Record], experiment: Experiment | None) -> bool:
    """Whether some of the records are of cells of this experiment, at any scale: a name may be in use for something else."""
    from caribou.experiments.grid import SCALES
    from caribou.experiments.records import cell_key

    if experiment is None:
        return False
    cells = {cell_key(cell) for scale in SCALES for cell in experiment.cells(scale)}
    return any(record.key in cells for record in records)
