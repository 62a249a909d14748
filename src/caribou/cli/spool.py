"""The spool folder: where a run waits whose own place could not be written. It lies in the private folder of the user."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from caribou.errors import RunError
from caribou.machine.owner import state_folder

if TYPE_CHECKING:
    from caribou.model.estimator import Model


def spool_folders(out: Path) -> list[Path]:
    """Where a run may be kept until it has its place, best first: the user's folder, that of OUT, that for temporary files."""
    found = []
    with contextlib.suppress(OSError):  # no home, or a full disk: the others remain
        found.append(state_folder() / "spool")
    return [*found, out.absolute().parent, Path(tempfile.gettempdir())]


def save_or_spool(model: Model, out: Path, *, ids: bool = True, rows: bool = True) -> None:
    """Save a fitted model. What has been paid for is on a disk before its own place is tried, and stays there if that fails.

    ``ids``: with the names of its nodes. ``rows``: with digests of its rows.

    A process that is killed while it writes OUT leaves the copy in the spool folder, too.
    """
    kept = spooled(model, out, ids, rows)
    try:
        model.save(out, ids=ids, rows=rows)
    except RunError as failure:
        error = failure.__cause__ or failure  # without the words for Python
        if kept is None:
            raise RunError(f"{error}; no other folder could be written either, so the run is lost") from error
        raise RunError(
            f"{error}; nothing is lost: the run is kept in {kept}, and every command reads it there; to give it its place: "
            f"mv {kept} {out}"
        ) from error
    if kept is not None:
        shutil.rmtree(kept, ignore_errors=True)


def spooled(model: Model, out: Path, ids: bool, rows: bool = True) -> Path | None:
    """Keep a run until it, or a table of it at ``out``, is in its place; None if no folder can be written."""

    def save(place: Path) -> Path:
        target = place / f".caribou-run-{model.certificate.certificate_id}"
        model.save(target, ids=ids, rows=rows)
        return target

    return first_written(out, save)


def first_written(out: Path, write: Callable[[Path], Path]) -> Path | None:
    """What ``write`` wrote into the first folder that takes it; None if none does."""
    for place in spool_folders(out):
        with contextlib.suppress(OSError, RunError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            return write(place)
    return None


def spooled_runs() -> list[Path]:
    """Runs that wait in the user's spool folder for their place."""
    try:
        return sorted((state_folder() / "spool").glob(".caribou-run-*"))
    except OSError:
        return []
