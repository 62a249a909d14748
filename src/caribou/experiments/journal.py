"""Journals: JSON objects that are appended one by one, and packed when there are many.

    <name>.jsonl      live: a line per object, on the disk when it is appended
    <name>.parquet    archive: the same objects, a column of JSON text per field, compressed (about 4 % of the size)

A journal is what its archive holds, then what its lines hold. Packing moves lines into the archive and loses nothing: JSON text
comes back as it was written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from caribou._files import atomic_file
from caribou.errors import InputError

LINES, ARCHIVE = ".jsonl", ".parquet"
_MARK = {b"caribou": b"journal 1"}


def archive_of(file: str | os.PathLike[str]) -> Path:
    """The archive that belongs to a file of lines."""
    return Path(file).with_suffix(ARCHIVE)


def exists(file: str | os.PathLike[str]) -> bool:
    """Whether there are lines or an archive."""
    return Path(file).exists() or archive_of(file).exists()


# -- lines ---------------------------------------------------------------------------------------------------------


def append_line(file: str | os.PathLike[str], line: str, *, cut_rest: bool = False) -> None:
    """Add a line with one system call; it is on the disk when this returns. Several processes may do so at once.

    What a killed process left of a last line stays as a line of its own, or is cut off with ``cut_rest``. Raises OSError.
    """
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with open(path, "ab+", buffering=0) as stream:
            _lock(stream)
            if not _is_still(stream, path):
                continue  # packed and removed while we waited
            data = line.encode() + b"\n"
            rest = _rest(stream)
            if rest and cut_rest:
                stream.truncate(stream.seek(0, os.SEEK_END) - rest)
            elif rest:
                data = b"\n" + data
            stream.write(data)
            os.fsync(stream.fileno())
            return


def read_lines(file: str | os.PathLike[str]) -> list[bytes]:
    """The lines, the last of which may be cut off and is empty otherwise; none if there is no file. Raises OSError."""
    try:
        return Path(file).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []


def _rest(stream: IO[bytes]) -> int:
    """How many bytes follow the last end of a line."""
    end = stream.seek(0, os.SEEK_END)
    if end == 0:
        return 0
    stream.seek(end - 1)
    if stream.read(1) == b"\n":
        return 0
    stream.seek(0)
    return end - (stream.read().rfind(b"\n") + 1)


def _is_still(stream: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _lock(stream: IO[bytes]) -> None:
    """Keep other processes out of a file until it is closed. A system without such locks must write from one process."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(stream, fcntl.LOCK_EX)


# -- archive -------------------------------------------------------------------------------------------------------


def write_archive(file: str | os.PathLike[str], objects: Sequence[Mapping[str, Any]]) -> None:
    """Write objects as an archive, whole or not at all. Equal objects give equal files. Raises OSError."""
    import pyarrow as pa
    from pyarrow import parquet

    names = list(dict.fromkeys(name for entry in objects for name in entry))
    columns = [[_json(entry[name]) if name in entry else None for entry in objects] for name in names]
    schema = pa.schema([pa.field(name, pa.string()) for name in names], metadata=_MARK)
    table = pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=schema)
    with atomic_file(file) as temporary:
        parquet.write_table(table, temporary, compression="zstd", compression_level=19, write_statistics=False)


def read_archive(file: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The objects of an archive, in their order; none if there is no file. Another file is an error that says so."""
    import pyarrow as pa
    from pyarrow import parquet

    if not Path(file).exists():
        return []
    try:
        table = parquet.ParquetFile(file).read()
        if not _MARK.items() <= (table.schema.metadata or {}).items():
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


def pack(file: str | os.PathLike[str]) -> int:
    """Move the lines of ``file`` into its archive, and remove it; returns how many objects the archive then has.

    A line that is no JSON object is an error, and nothing is changed. An object that is there already is not added again: a
    process that was killed between the two steps can be repeated.
    """
    path = Path(file)
    if not path.exists():
        return len(read_archive(archive_of(path)))
    try:
        with open(path, "rb") as stream:
            _lock(stream)
            found = read_archive(archive_of(path))
            known = {_json(entry) for entry in found}
            for entry in _objects(path, stream.read().split(b"\n")):
                if _json(entry) not in known:
                    known.add(_json(entry))
                    found.append(entry)
            write_archive(archive_of(path), found)
            if os.name == "posix":
                path.unlink()  # under the lock: another process may start a new file of that name at once
        if os.name != "posix":
            path.unlink()  # an open file cannot be removed there
    except OSError as error:
        raise InputError(f"results must be files that can be written, got {str(path)!r}: {error.strerror}") from error
    return len(found)


def _objects(path: Path, lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"a line must be a JSON object to be packed, got {path}, line {number}: {error}"
            ) from error
        if not isinstance(entry, dict):
            raise InputError(f"a line must be a JSON object to be packed, got {path}, line {number}: {line[:40]!r}")
        yield entry


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
