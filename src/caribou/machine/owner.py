"""The owner's private folder, and the key in it. What is hashed under the key tells nothing to whoever lacks it."""

from __future__ import annotations

import os
import secrets
import tempfile
import warnings
from pathlib import Path

from caribou.errors import RunError

_PROCESS_KEY = secrets.token_bytes(32)


def state_folder() -> Path:
    """The user's own folder: CARIBOU_STATE, or caribou in XDG_STATE_HOME; made if it is not there, for nobody else to read."""
    given = os.environ.get("CARIBOU_STATE")
    base = (
        Path(given) if given else Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "caribou"
    )
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    return base.absolute()


def owner_key() -> bytes:
    """The user's key of 32 bytes, made when it is first asked for; one of this process where none can be kept.

    It is no part of a run: graphs and rows that a run knows by hashes are known again by its owner alone.
    """
    try:
        place = state_folder() / "fingerprint.key"
        if not place.exists():
            _make_key(place)
        key = place.read_bytes()
    except OSError as error:
        warnings.warn(
            f"key of released graphs cannot be kept: {error}; what is released now is known in this process alone",
            stacklevel=2,
        )
        return _PROCESS_KEY
    if len(key) != 32:
        raise RunError(f"key {place} must have 32 bytes, got {len(key)}; remove it: a new one is made")
    return key


def _make_key(place: Path) -> None:
    """Write a new key whole: of several processes one makes it, and none reads a part."""
    descriptor, written = tempfile.mkstemp(dir=place.parent)  # for nobody else to read
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
        os.link(written, place)
    except FileExistsError:
        pass
    finally:
        os.unlink(written)
