"""Files and folders that are written whole or not at all: once, for everybody."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the folder of ``path``; what was written there becomes ``path`` when the block ends well.

    On any failure the temporary file is removed and ``path`` stays as it was. Errors are `OSError`, for the caller to translate.
    """
    target = Path(path).absolute()
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def atomic_write(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write ``data`` (text as UTF-8) to ``path``, whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)


@contextmanager
def atomic_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to write into that becomes ``target`` (new or empty) when the block ends well, and is removed otherwise."""
    goal = Path(target).absolute()
    temporary = goal.with_name(f".{goal.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.mkdir()
        yield temporary
        if goal.exists():
            goal.rmdir()  # it is empty
        temporary.rename(goal)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
