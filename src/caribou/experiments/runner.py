"""Cells in parallel: one process and one thread each, so that time and memory are a cell's own and a crash is one cell's.

Processes are forked from a server that has imported the libraries, so starting one takes milliseconds. (A pool would use a
process again, whose peak memory is that of all its cells, and a killed process would break it.) The parent alone writes records,
when a cell is done. Public encoders are fitted once for all cells (`caribou.experiments.worker`).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import platform
import signal
import subprocess
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

from caribou import __version__
from caribou.errors import CaribouError, require_training
from caribou.experiments.records import FAILED, OK, Record, cell_key, read
from caribou.privacy.certificate import package_version

Cell = Mapping[str, Any]


def pending(cells: Iterable[Cell], folder: Path, experiment: str) -> list[Cell]:
    """The cells without a successful record."""
    done = {record.key for record in read(folder, experiment)[0] if record.status == OK}
    return [cell for cell in cells if cell_key(cell) not in done]


def run_cells(
    experiment: str, cells: Sequence[Cell], *, jobs: int, data_dir: Path | None, folder: Path = Path()
) -> Iterator[Record]:
    """Measure all cells, ``jobs`` at a time; yields a record per finished cell. ``folder``: of the experiment's own files."""
    if cells:
        require_training("an experiment")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["caribou.experiments.worker"])
    libraries, code = versions(), commit()
    waiting = list(reversed(cells))
    active: dict[Connection, tuple[Any, Cell]] = {}
    with tempfile.TemporaryDirectory(prefix="caribou-fits-", ignore_cleanup_errors=True) as shared:
        try:
            while waiting or active:
                while waiting and len(active) < jobs:
                    cell = waiting.pop()
                    ours, theirs = context.Pipe(duplex=False)
                    arguments = (dict(cell), data_dir, Path(shared), folder, theirs)
                    process = context.Process(target=_measure, args=arguments, daemon=True)
                    process.start()
                    theirs.close()
                    active[ours] = process, cell
                for connection in cast(list[Connection], wait(list(active))):
                    process, cell = active.pop(connection)
                    outcome = _outcome(connection, process)
                    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                    yield Record(experiment, dict(cell), *outcome, libraries, code, now)
        finally:
            for process, _ in active.values():
                process.terminate()
            for process, _ in active.values():
                process.join(5)


def _outcome(connection: Connection, process: Any) -> tuple[str, dict[str, Any], str]:
    try:
        outcome: tuple[str, dict[str, Any], str] = connection.recv()
    except EOFError:  # killed, for example by the system for want of memory
        process.join()
        return FAILED, {}, f"the process ended with code {process.exitcode}"
    finally:
        connection.close()
    process.join()
    return outcome


def _measure(cell: Cell, data_dir: Path | None, shared: Path, folder: Path, connection: Connection) -> None:
    """In the child. Ctrl-C reaches the whole group: the parent decides what it means."""
    from caribou.experiments.worker import measure_on_one_thread

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outcome: tuple[str, dict[str, Any], str]
    try:
        outcome = OK, measure_on_one_thread(cell, data_dir, shared, folder), ""
    except CaribouError as error:
        outcome = FAILED, {}, " ".join(str(error).split())
    except Exception:  # noqa: BLE001  a record says what went wrong, and the other cells go on
        outcome = FAILED, {}, traceback.format_exc(limit=-3)
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        connection.send(outcome)


def versions() -> dict[str, str]:
    """Of Python and of the libraries that figures depend on."""
    libraries = {name: package_version(name) for name in ("torch", "numpy", "scipy", "dp-accounting")}
    return {"caribou": __version__, "python": platform.python_version(), **libraries}


def commit() -> str:
    """The commit of the code that runs, with "+" if files have changed since; "" outside of a repository."""
    here = Path(__file__).resolve().parent
    try:
        head = _git(here, "rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git(here, "status", "--porcelain", "--", os.fspath(here.parent)) else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()
