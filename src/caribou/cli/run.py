"""``caribou run``: measure the cells of an experiment, many at a time, and lose nothing when it is stopped."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from caribou._validate import MAX_WORKERS, integer
from caribou.cli.command import argument, command, option, record, repeated, switch
from caribou.cli.options import DATA_DIR
from caribou.cli.output import print_table
from caribou.cli.progress import ProgressLine
from caribou.errors import InputError

if TYPE_CHECKING:
    from caribou.experiments.grid import Experiment
    from caribou.experiments.records import Record

EXIT_CELLS_FAILED = 4


@record
class RunOptions:
    """What caribou run takes."""

    file: Path | None = argument(
        "The experiment: a TOML file, or the name of one of the paper's, e.g. edge-accuracy; with --list a folder.",
        None,
    )
    scale: str = option("smoke (minutes), laptop (a night) or full.", default="laptop")
    jobs: int = option("How many cells at a time, one thread each.", default=2)
    conditions: tuple[str, ...] = repeated("Only cells with axis=value; may be repeated.", "--filter")
    out: Path | None = option(
        "Folder of records, one file per experiment (default: results; of the paper's: reproduction/results)."
    )
    resume: bool = switch("Go on: cells with a successful record are left out.")
    listing: bool = switch("List the experiments of FILE, a folder (default: the paper's), and stop.", "--list")
    data_dir: Path | None = DATA_DIR


@command
def run(given: RunOptions) -> None:
    """Run the cells of an experiment in parallel processes and append one record per cell.

    You can stop it at any time. A cell is recorded when it is finished, and --resume measures the others. A cell that fails is
    recorded with its error, and --resume tries it again. Exit code 4: some cells failed.

    Example: caribou run edge-accuracy --scale smoke --out my-results
    """
    from caribou.experiments.grid import filtered, read_experiment
    from caribou.experiments.records import archive_of, result_file
    from caribou.experiments.reproduction import experiment_file, find

    if given.listing:
        _list(given.file)
        return
    if given.file is None:
        raise InputError("file must be an experiment (or give --list), got nothing")
    integer(at_least=1, at_most=MAX_WORKERS, jobs=given.jobs)
    file, out, scale = experiment_file(given.file), given.out, given.scale
    experiment = read_experiment(file)
    cells = filtered(experiment.cells(scale), list(given.conditions))
    if not cells:
        wanted = ", ".join(given.conditions)
        raise InputError(
            f"filter must leave some of the cells of {experiment.name} at scale {scale}, got none with {wanted}"
        )
    require_own_data(experiment, cells)
    if out is None:
        paper = find()
        ours = paper is not None and file.resolve().is_relative_to(paper.experiments.resolve())
        out = paper.results if paper is not None and ours else Path("results")
    live = result_file(out, experiment.name)
    archive = archive_of(live)
    if (live.exists() or archive.exists()) and not given.resume:
        raise InputError(f"out must have no records of {experiment.name} yet, or give --resume, got {str(out)!r}")
    failed = measure_missing(experiment, cells, out, jobs=given.jobs, data_dir=given.data_dir)
    typer.echo(f"records: {live if live.exists() else archive}; caribou report {out} --out report")
    if failed:
        raise typer.Exit(EXIT_CELLS_FAILED)


def require_own_data(experiment: Experiment, cells: Sequence[Mapping[str, Any]]) -> None:
    """Refuse cells whose files are not there, before anything is measured, and say what an experiment on own data means."""
    from caribou.experiments.own_data import is_own, require_own

    own = [name for name in dict.fromkeys(cell.get("dataset") for cell in cells) if is_own(name)]
    for name in own:
        require_own(str(name), experiment.folder)
    if own:
        typer.echo(
            f"note: {', '.join(map(str, own))}: an experiment charges no ledger and its noise can be repeated: records and "
            "reports of private data protect nobody and are for the curator alone",
            err=True,
        )


def measure_missing(
    experiment: Experiment, cells: Sequence[Mapping[str, Any]], out: Path, *, jobs: int, data_dir: Path | None
) -> int:
    """Measure the cells without a successful record in ``out``, append a record per cell, and return how many failed."""
    from caribou.experiments.records import FAILED, append
    from caribou.experiments.runner import pending, run_cells

    _make(out)
    todo = pending(cells, out, experiment.name)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both end the workers, too
    failed = 0
    with ProgressLine(experiment.title, len(todo)) as line:
        for record in run_cells(experiment.name, todo, jobs=jobs, data_dir=data_dir, folder=experiment.folder):
            append(out, record)
            failed += record.status == FAILED
            line.advance(f"last: {cell_words(record.cell)}: {outcome_words(record)}")
    before = len(cells) - len(todo)
    typer.echo(f"{experiment.name}: {len(todo) - failed} cells measured, {failed} failed, {before} were done before")
    return failed


def _make(out: Path) -> None:
    from caribou.model.state import require_writable

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"out must be a folder that can be made, got {str(out)!r}: {error.strerror}") from error
    require_writable(out, str(out))


def _list(folder: Path | None) -> None:
    from caribou.experiments.grid import SCALES, available
    from caribou.experiments.reproduction import require

    where = require().experiments if folder is None else folder
    rows = []
    for experiment in available(where):
        counts = " / ".join(f"{len(experiment.cells(scale)):,}" for scale in SCALES)
        rows.append((experiment.name, experiment.title, counts))
    if not rows:
        state = "which has none" if where.is_dir() else "which is no folder"
        raise InputError(f"file must be a folder with experiments (*.toml), got {str(where.absolute())!r}, {state}")
    print_table(("experiment", "title", "cells"), rows, f"cells at scale {' / '.join(SCALES)}")


def outcome_words(record: Record) -> str:
    """What came out of a cell: its accuracy or those of its settings, the AUC of an attack, or the error.

    >>> from caribou.experiments.records import Record
    >>> outcome_words(Record("audit", {}, "ok", {"auc": 0.5})), outcome_words(Record("audit", {}, "failed", error="why"))
    ('AUC 0.500', 'why')
    >>> outcome_words(Record("chain-tops", {}, "ok", {"test_accuracies": [0.5, None, 0.75]}))
    '50.0% to 75.0%'
    """
    accuracy, auc = record.measures.get("test_accuracy"), record.measures.get("auc")
    if isinstance(accuracy, float):
        return f"{accuracy:.1%}"
    if accuracies := [a for a in record.measures.get("test_accuracies", ()) if a is not None]:
        return f"{min(accuracies):.1%} to {max(accuracies):.1%}"
    return f"AUC {auc:.3f}" if isinstance(auc, float) else record.error[:80] or record.status


def cell_words(cell: Mapping[str, Any]) -> str:
    """A cell for people.

    >>> cell_words({"kind": "train", "method": "mlp", "dataset": "cora", "epsilon": 4, "seed": 0, "settings": {"hops": 2}})
    'mlp, cora, epsilon 4, seed 0, hops 2'
    """
    words = []
    for name, value in {**cell, **cell.get("settings", {})}.items():
        if name in ("method", "dataset", "attack"):
            words.append(str(value))
        elif name == "sweep":
            words.append(f"{len(value)} settings")
        elif name not in ("kind", "settings", "chosen"):
            words.append(f"{name} {value}")
    return ", ".join(words)
