"""What a release left when its own place could not be written: a spool folder, and the key that knows a graph again.

Both lie in a private folder of the user: CARIBOU_STATE, or caribou in XDG_STATE_HOME (~/.local/state).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from caribou.errors import RunError

if TYPE_CHECKING:
    from caribou.estimators import Model
    from caribou.graph import Graph


def state_folder() -> Path:
    """The user's own folder; made if it is not there, for nobody else to read."""
    given = os.environ.get("CARIBOU_STATE")
    base = (
        Path(given) if given else Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "caribou"
    )
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    return base.absolute()


def spool_folders(out: Path) -> list[Path]:
    """Where a run may be kept until it has its place, best first: the user's folder, that of OUT, that for temporary files."""
    found = []
    with contextlib.suppress(OSError):  # no home, or a full disk: the others remain
        found.append(state_folder() / "spool")
    return [*found, out.absolute().parent, Path(tempfile.gettempdir())]


def save_or_spool(model: Model, out: Path, *, ids: bool = True) -> None:
    """Save a fitted model. What has been paid for is on a disk before its own place is tried, and stays there if that fails.

    ``ids``: with the names of its nodes.

    A process that is killed while it writes OUT leaves the copy in the spool folder, too.
    """
    kept = spooled(model, out, ids)
    try:
        model.save(out, ids=ids)
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


def spooled(model: Model, out: Path, ids: bool) -> Path | None:
    """Keep a run until it, or a table of it at ``out``, is in its place; None if no folder can be written."""
    for place in spool_folders(out):
        target = place / f".caribou-run-{model.certificate.certificate_id}"
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            model.save(target, ids=ids)
        except (OSError, RunError):
            continue
        return target
    return None


def spooled_runs() -> list[Path]:
    """Runs that wait in the user's spool folder for their place."""
    try:
        return sorted((state_folder() / "spool").glob(".caribou-run-*"))
    except OSError:
        return []


def graph_fingerprint(graph: Graph) -> str:
    """A keyed hash of the graph's content. The key never leaves the user's folder, so a run that holds the hash tells nothing."""
    from caribou.graph.fingerprint import whole_of

    return hmac.new(_key(), b"".join(whole_of(tuple(graph.content()))), hashlib.sha256).hexdigest()


def _key() -> bytes:
    place = state_folder() / "fingerprint.key"
    try:
        descriptor = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        key = place.read_bytes()
        if len(key) != 32:
            raise RunError(f"key {place} must have 32 bytes, got {len(key)}; remove it: a new one is made") from None
        return key
    with os.fdopen(descriptor, "wb") as file:
        key = secrets.token_bytes(32)
        file.write(key)
    return key
