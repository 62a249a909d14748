"""Journals: JSON objects that are appended one by one, and packed when there are many.

    <name>.jsonl      live: a line per object, on the disk when it is appended
    <name>.parquet    archive: the same objects, a column of JSON text per field, compressed (about 4 % of the size)

A journal is what its archive holds, then what its lines hold. The paper's evaluation packs its own (``reproduction/pack.py``).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from caribou.errors import InputError

LINES, ARCHIVE = ".jsonl", ".parquet"
MARK = {b"caribou": b"journal 1"}
"""In the schema of an archive: no other Parquet file is taken for one."""


def archive_of(file: str | os.PathLike[str]) -> Path:
    """The archive that belongs to a file of lines."""
    return Path(file).with_suffix(ARCHIVE)


def exists(file: str | os.PathLike[str]) -> bool:
    """Whether there are lines or an archive."""
    return Path(file).exists() or archive_of(file).exists()


def append_line(file: str | os.PathLike[str], line: str) -> None:
    """Add a line with one system call; it is on the disk when this returns. Several processes may do so at once.

    What a killed process left of a last line stays as a line of its own. Raises OSError.
    """
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+", buffering=0) as stream:
        if stream.seek(0, os.SEEK_END):
            stream.seek(-1, os.SEEK_END)
            line = line if stream.read(1) == b"\n" else f"\n{line}"
        stream.write(f"{line}\n".encode())
        os.fsync(stream.fileno())


def read_lines(file: str | os.PathLike[str]) -> list[bytes]:
    """The lines, the last of which may be cut off and is empty otherwise; none if there is no file. Raises OSError."""
    try:
        return Path(file).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []


def read_archive(file: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The objects of an archive, in their order; none if there is no file. Another file is an error that says so."""
    import pyarrow as pa
    from pyarrow import parquet

    if not Path(file).exists():
        return []
    try:
        table = parquet.ParquetFile(file).read()
        if not MARK.items() <= (table.schema.metadata or {}).items():
            raise ValueError("it is another kind of Parquet file")
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        rows = zip(*columns.values(), strict=True)
        return [
            {name: json.loads(text) for name, text in zip(columns, row, strict=True) if text is not None}
            for row in rows
        ]
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"results must be archives that can be read, got {os.fspath(file)!r}: {reason}") from error
