"""``caribou report``: one page with every table and figure that the records allow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from caribou.errors import InputError


def report(
    out: Annotated[
        Path,
        typer.Option(
            help="The folder to write: index.html, and each table and figure as files; an earlier report is replaced."
        ),
    ],
    results: Annotated[
        Path | None, typer.Argument(help="The folder of records that caribou run wrote (default: the paper's).")
    ] = None,
    experiments: Annotated[
        Path | None, typer.Option(help="The folder of experiments, to say what is missing (default: the paper's).")
    ] = None,
    scale: Annotated[str, typer.Option(help="The scale that counts as complete.")] = "laptop",
) -> None:
    """Build a self-contained page (no network) with every table and figure, ours beside the paper's.

    Reads records only and takes seconds. Records that cannot be read are listed on the page and skipped.

    Example: caribou report results --out report
    """
    from caribou.experiments.grid import available
    from caribou.experiments.records import read_all
    from caribou.experiments.reproduction import find, results_folder
    from caribou.reports.page import sections, write_report

    results = results_folder(results)
    records, problems = read_all(results)
    paper = find()
    if experiments is None and paper is not None:
        experiments = paper.experiments
    known = {e.name: e for e in available(experiments)} if experiments is not None else {}
    if not any(records.values()):
        raise InputError(
            f"results must be a folder with records of caribou run (*.jsonl), got {str(results)!r} with none"
        )
    if not known:
        typer.echo(f"warning: no experiments in {experiments}: the page cannot say what is missing", err=True)
    parts = sections(records, known, scale, results)
    page = write_report(out, parts, problems, scale)
    measured = sum(part.measured for part in parts)
    typer.echo(f"{page}: {measured} records, {sum(bool(part.measured) for part in parts)} of {len(parts)} items")
    for problem in problems:
        typer.echo(f"warning: skipped {problem}", err=True)
