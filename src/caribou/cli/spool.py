"""Places of runs: taken before anything is charged; and the spool folder, where a run waits whose own could not be written.

The spool folder lies in the private folder of the user.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from caribou.errors import RunError
from caribou.machine.files import locked
from caribou.machine.owner import state_folder

if TYPE_CHECKING:
    from caribou.model.estimator import Model


@contextmanager
def place_taken(out: Path | None) -> Iterator[None]:
    """The place of a run, taken until the block ends. Another command that would save there is refused before it is charged.

    The system lets go of the lock when the process ends, however it ends.
    """
    from caribou.model.state import check_target

    if out is None:
        yield
        return
    target = check_target(out)
    lock = target.with_name(f".caribou-{hashlib.sha256(target.name.encode()).hexdigest()[:16]}.lock")
    held = locked(lock)
    if held is None:
        raise RunError.of("out", "be a folder that no other command is about to write", str(out))
    with held:
        try:
            check_target(out)  # the command before may have written it
            yield
        finally:
            lock.unlink(missing_ok=True)


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
    place_spooled(model, spooled(model, out, ids, rows), out, ids=ids, rows=rows)


def place_spooled(model: Model, kept: Path | None, out: Path, *, ids: bool = True, rows: bool = True) -> None:
    """The same of a model that waits in the folder ``kept``."""
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


def spooled(model: Model, out: Path, ids: bool = True, rows: bool = True) -> Path | None:
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
