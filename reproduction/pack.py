"""Move live records and trials (lines of JSON) into their archives (``make pack-records``; ``python reproduction/pack.py``).

python reproduction/pack.py [FOLDER ...]      default: the records and the trials of the paper's evaluation

Nothing may append to a folder while it is packed. An archive is a Parquet file with the same objects: a column of JSON text per
field, compressed, about 4 % of the size.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from caribou.errors import InputError
from caribou.experiments.records import LINES, archive_of
from caribou.machine.files import atomic_file

HERE = Path(__file__).resolve().parent
MARK = {b"caribou": b"journal 1"}
"""In the schema of an archive: no other Parquet file is taken for one."""


def pack_folders(folders: Iterable[Path]) -> list[str]:
    """Pack every journal that has lines; one line of words for each."""
    words = []
    for file in (file for folder in folders for file in sorted(folder.glob(f"[!.]*{LINES}"))):
        before = file.stat().st_size
        count = pack(file)
        size = archive_of(file).stat().st_size
        words.append(f"{archive_of(file)}: {count} records in {size:,} bytes, {before:,} bytes of lines removed")
    return words


def pack(file: Path) -> int:
    """Move the lines of ``file`` into its archive, and remove it; returns how many objects the archive then has.

    A line that is no JSON object is an error, and nothing is changed. An object that is there already is not added again: a
    process that was killed between the two steps can be repeated.
    """
    found = {_json(entry): entry for entry in read_archive(archive_of(file))}
    for number, line in enumerate(file.read_bytes().split(b"\n"), start=1):
        if line.strip():
            entry = _object(line, f"{file}, line {number}")
            found.setdefault(_json(entry), entry)
    write_archive(archive_of(file), list(found.values()))
    file.unlink()
    return len(found)


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise InputError(f"a line must be a JSON object to be packed, got {where}: {error}") from error
    if not isinstance(entry, dict):
        raise InputError(f"a line must be a JSON object to be packed, got {where}: {line[:40]!r}")
    return entry


def read_archive(file: Path) -> list[dict[str, Any]]:
    """The objects of an archive, in their order; none if there is no file. Another file is an error that says so."""
    if not file.exists():
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
        raise InputError(f"results must be archives that can be read, got {str(file)!r}: {reason}") from error


def write_archive(file: Path, objects: Sequence[Mapping[str, Any]]) -> None:
    """Write objects as an archive, whole or not at all. Equal objects give equal files."""
    names = list(dict.fromkeys(name for entry in objects for name in entry))
    columns = [[_json(entry[name]) if name in entry else None for entry in objects] for name in names]
    schema = pa.schema([pa.field(name, pa.string()) for name in names], metadata=MARK)
    table = pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=schema)
    with atomic_file(file) as temporary:
        parquet.write_table(table, temporary, compression="zstd", compression_level=19, write_statistics=False)


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


if __name__ == "__main__":
    given = [Path(word) for word in sys.argv[1:]] or [HERE / "results", HERE / "experiments" / "trials"]
    print("\n".join(pack_folders(given)) or "nothing to pack")
