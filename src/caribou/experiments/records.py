"""Results: one record per measured cell, in a file per experiment. A report reads records and nothing else.

    results/<experiment>.jsonl      live: a line per record, appended while an experiment runs
    results/<experiment>.parquet    archive: what the paper's evaluation packed (``reproduction/pack.py``)

A live record is a line that is written whole and flushed to the disk, so that a process that is killed loses at most the cell it
was working on. A line that cannot be read, cut off or edited, is reported and skipped; it is never removed. Archived records come
first: of records of equal cells a live one counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from caribou.errors import InputError
from caribou.experiments import reproduction

OK, FAILED = "ok", "failed"
LINES, ARCHIVE = ".jsonl", ".parquet"


@dataclass(frozen=True)
class Record:
    """What was measured in one cell, or why it could not be.

    cell: the resolved configuration, plain JSON values; two records with equal cells are about the same thing.
    measures: what came out (accuracies, epsilon spent, seconds, ...); empty if it failed.
    versions: of the libraries. commit: of the code, with "+" if it had uncommitted changes; "" if unknown.
    """

    experiment: str
    cell: Mapping[str, Any]
    status: str
    measures: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    created: str = ""

    def __post_init__(self) -> None:
        if self.status not in (OK, FAILED):
            raise InputError(f"status must be {OK} or {FAILED}, got {self.status!r}")
        for name in ("cell", "measures", "versions"):
            if not isinstance(getattr(self, name), Mapping):
                raise InputError(f"{name} must be an object, got {type(getattr(self, name)).__name__}")

    @property
    def key(self) -> str:
        """The cell as text: equal for equal cells."""
        return cell_key(self.cell)


def cell_key(cell: Mapping[str, Any]) -> str:
    """A cell as one line of JSON with sorted keys.

    >>> cell_key({"seed": 1, "epsilon": 4})
    '{"epsilon": 4, "seed": 1}'
    """
    return json.dumps(cell, sort_keys=True, allow_nan=False)


@dataclass(frozen=True)
class Problem:
    """A line (from 1 on) or a whole file (0) that could not be read."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


def result_file(folder: str | os.PathLike[str], experiment: str) -> Path:
    """Where the live records of an experiment are."""
    if experiment != Path(experiment).name or experiment.startswith("."):
        raise InputError(f"experiment must be a plain name, got {experiment!r}")
    return Path(folder) / f"{experiment}{LINES}"


def archive_of(file: Path) -> Path:
    """The archive that belongs to a file of lines."""
    return file.with_suffix(ARCHIVE)


def append_line(file: Path, line: str) -> None:
    """Add a line with one system call; it is on the disk when this returns. Several processes may do so at once.

    What a killed process left of a last line stays as a line of its own. Raises OSError.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "ab+", buffering=0) as stream:
        if stream.seek(0, os.SEEK_END):
            stream.seek(-1, os.SEEK_END)
            line = line if stream.read(1) == b"\n" else f"\n{line}"
        stream.write(f"{line}\n".encode())
        os.fsync(stream.fileno())


def read_lines(file: Path) -> list[bytes]:
    """The lines, the last of which may be cut off and is empty otherwise; none if there is no file. Raises OSError."""
    return file.read_bytes().split(b"\n") if file.exists() else []


def read_archive(file: Path) -> list[dict[str, Any]]:
    """The objects of an archive, in their order; none if there is no file. Only the paper's evaluation has archives."""
    return list(reproduction.require().module("pack").read_archive(file)) if file.exists() else []


def append(folder: str | os.PathLike[str], record: Record) -> None:
    """Add a record; it is on the disk when this returns. Several processes may do so at once."""
    file = result_file(folder, record.experiment)
    line = json.dumps(asdict(record), allow_nan=False)
    try:
        append_line(file, line)
    except OSError as error:
        raise InputError(f"out must be a folder that can be written, got {str(file)!r}: {error.strerror}") from error


def read(folder: str | os.PathLike[str], experiment: str) -> tuple[list[Record], list[Problem]]:
    """The records of one experiment, archived and then live, and what could not be read; nothing if there is no file."""
    file = result_file(folder, experiment)
    archive = archive_of(file)
    try:
        lines = read_lines(file)
    except OSError as error:
        raise InputError(f"results must be files that can be read, got {str(file)!r}: {error.strerror}") from error
    records, problems = [], []
    entries: list[tuple[Path, int, bytes | dict[str, Any]]] = [
        *((archive, number, entry) for number, entry in enumerate(read_archive(archive), start=1)),
        *((file, number, line) for number, line in enumerate(lines, start=1) if line.strip()),
    ]
    for source, number, entry in entries:
        try:
            record = Record(**(json.loads(entry) if isinstance(entry, bytes) else entry))
            if record.experiment != experiment:
                raise InputError(f"experiment must be {experiment!r}, got {record.experiment!r}")
            cell_key(record.cell)
            records.append(record)
        except (ValueError, TypeError, RecursionError, InputError) as error:
            problems.append(Problem(source.name, number, " ".join(str(error).split())[:200]))
    return records, problems


def read_all(folder: str | os.PathLike[str]) -> tuple[dict[str, list[Record]], list[Problem]]:
    """All records of a folder, by experiment. An archive that cannot be read is a problem, too."""
    base = Path(folder)
    if not base.is_dir():
        raise InputError(f"results must be a folder, got {str(folder)!r}")
    files = [path for ending in (LINES, ARCHIVE) for path in base.glob(f"[!.]*{ending}")]
    records: dict[str, list[Record]] = {}
    problems: list[Problem] = []
    for name in sorted({path.stem for path in files}):
        try:
            records[name], found = read(base, name)
            problems += found
        except InputError as error:
            problems.append(Problem(f"{name}{ARCHIVE}", 0, str(error)))
    return records, problems


def latest(records: Iterable[Record]) -> list[Record]:
    """One record per cell: the last that succeeded, or else the last; in the order of first appearance."""
    best: dict[str, Record] = {}
    for record in records:
        old = best.get(record.key)
        if old is None or record.status == OK or old.status != OK:
            best[record.key] = record
    return list(best.values())
