"""Ids of nodes: kept in a private file or in memory, and looked up within a given memory.

Ids are compared as text, as everywhere (`caribou.tables.cells.texts`). Ids that do not fit into the memory are looked up group by
group. What is written lies in the private folder of the run, and is as secret as the graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from caribou.machine.memory import require_memory
from caribou.tables.cells import joined, texts
from caribou.tables.inspect import EXAMPLES, Finding, Findings, Problem, examples_of, shown
from caribou.tables.sources import Rows, Table

FILE = "node.ids"
_PER_ID = 128
"""Bytes per id beside its letters while it is looked up."""
_FLAGS = ("--column id=TITLE if ids are in another column, else mend the table",)
_PIECE = 1 << 14
"""Rows of a node table that are read together: few, for some are read ahead."""


@dataclass(frozen=True, eq=False)
class NodeIds:
    """The ids of a node table in its order.

    is_numbers: ids are the row numbers 0, 1, ... is_plain: all are whole numbers, and are given out as such. letters: bytes.
    path: the private file that holds them; None: ``held`` does.
    """

    title: str
    count: int
    letters: int
    is_numbers: bool
    is_plain: bool
    path: Path | None = None
    held: tuple[Any, ...] = ()

    @classmethod
    def read(
        cls, table: Table, title: str, findings: Findings, folder: Path | None = None, room: int | None = None
    ) -> NodeIds:
        """Read the ids once, and keep them, in a file of ``folder`` if there is one.

        An id that is empty or repeated is a problem. ``room``: bytes of memory to look for repeated ones.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        letters, numbers, plain, rows, kept = 0, True, True, Rows(table.name), []
        empty: list[int] = []
        writer = None if folder is None else Spool(folder / FILE)
        for piece in table.pieces(_PIECE, [title]):
            ids = texts(piece.batch.column(0), title, piece.row, findings)
            first = rows.note(piece)
            empty += [first + int(k) for k in np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))]
            numbers = numbers and ids.equals(pa.array(np.arange(first, rows.count)).cast(pa.large_string()))
            plain = plain and bool(pc.all(pc.match_substring_regex(ids, r"^(0|-?[1-9][0-9]{0,17})$")).as_py())
            letters += pc.sum(pc.binary_length(ids)).as_py() or 0
            kept.append(ids) if writer is None else writer.add(ids)
        if writer is not None:
            writer.close()
        path = None if writer is None else writer.path
        found = cls(title, rows.count, letters, numbers, plain and not empty, path, tuple(kept))
        if empty:
            rule = f"column {title!r} must hold an id, got an empty cell"
            findings.add(Problem(Finding.EMPTY_IDS, rows(empty[0]), rule, len(empty), flags=_FLAGS, column=title))
        if not numbers:
            found._check_unique(rows, room, findings)
        return found

    def batches(self) -> Iterator[Any]:
        """The ids in order, some at a time; whole numbers if all of them are."""
        import pyarrow as pa

        kind = pa.int64() if self.is_plain else pa.string()
        return (batch.cast(kind) for batch in self._texts())

    def array(self) -> np.ndarray:
        """All of them, as a graph has them: int64 if all are whole numbers, else text."""
        import pyarrow.compute as pc

        if self.is_plain:
            return np.concatenate([batch.to_numpy() for batch in self.batches()])
        width = max(pc.max(pc.utf8_length(batch)).as_py() or 0 for batch in self.batches())
        require_memory(3 * 4 * width * self.count, f"the ids of {self.count} nodes")  # in both orders, and while sorted
        found, first = np.empty(self.count, f"U{width}"), 0
        for batch in self.batches():
            found[first : first + len(batch)] = batch.to_numpy(zero_copy_only=False)
            first += len(batch)
        return found

    def digest(self) -> bytes:
        """Of the file."""
        with open(str(self.path), "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()

    def record(self) -> dict[str, Any]:
        """What a record of a run keeps of ids in a file; plain JSON values."""
        kept = {name: value for name, value in vars(self).items() if name not in ("path", "held")}
        return {**kept, "digest": self.digest().hex()}

    @classmethod
    def of_record(cls, record: Mapping[str, Any], folder: Path) -> NodeIds:
        """The ids of a record, in the folder where they were read."""
        return cls(**{name: value for name, value in record.items() if name != "digest"}, path=folder / FILE)

    def groups(self, room: int | None) -> int:
        """In how many groups they are looked up within so many bytes; None: any."""
        return 1 if room is None else -(-(self.letters + _PER_ID * self.count) // max(1, room))

    def space(self, pairs: int, room: int | None) -> int:
        """Bytes of disk that the mapping of so many pairs takes: their texts, and their places."""
        letters = -(-self.letters // max(1, self.count))
        return pairs * (2 * letters + 32) if self.groups(room) > 1 else 0

    def lookup(self, room: int | None) -> Iterator[tuple[int, Any]]:
        """The groups: number of the first row, and ids."""
        first = 0
        for group in grouped(self._texts(), -(-self.count // self.groups(room))):
            yield first, group
            first += len(group)

    def _check_unique(self, rows: Rows, room: int | None, findings: Findings) -> None:
        again, examples = np.zeros(self.count, dtype=bool), list[tuple[int, int, str]]()
        for number, group in self.lookup(room):
            row = 0
            for batch, places in placed(self._texts(), group):
                here = np.flatnonzero((places >= 0) & (number + places < np.arange(row, row + len(batch))))
                again[row + here] = True
                examples += [(row + int(k), number + int(places[k]), batch[int(k)].as_py()) for k in here[:EXAMPLES]]
                row += len(batch)
            examples = sorted(examples)[:EXAMPLES]
        if examples:
            row, first, text = examples[0]
            rule = f"column {self.title!r} must hold unique ids, got {shown(text)} again (first in row {first + 1})"
            found, count = examples_of(text for _, _, text in examples), int(again.sum())
            findings.add(Problem(Finding.REPEATED_IDS, rows(row), rule, count, found, _FLAGS, self.title))

    def among(self, texts: Any) -> set[str]:
        """Those of a few texts that are ids."""
        import pyarrow.compute as pc

        return {text for ids in self._texts() for text in ids.filter(pc.is_in(ids, texts)).to_pylist()}

    def _texts(self) -> Iterator[Any]:
        return iter(self.held) if self.path is None else spooled(self.path)


def placed(texts: Iterable[Any], ids: Any) -> Iterator[tuple[Any, np.ndarray]]:
    """Arrays of texts with the place of every one among the ids; -1 for one that is not there.

    The table of the ids is made once for all arrays, not at every call as by `index_in` alone. Arrays are read ahead on another
    thread, so they must come from memory or a file: a connection to SQLite belongs to one thread.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    schema = pa.schema([("text", pa.large_string())])
    batches = (pa.record_batch([part], schema=schema) for part in texts)
    columns = {"text": pc.field("text"), "place": pc.index_in(pc.field("text"), value_set=ids, skip_nulls=True)}
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    for batch in ds.Scanner.from_batches(reader, columns=columns, use_threads=False).to_batches():
        yield batch.column(0), pc.fill_null(batch.column(1), -1).to_numpy().astype(np.int64)


def grouped(parts: Iterable[Any], size: int) -> Iterator[Any]:
    """Arrays joined until they have at least ``size`` cells."""
    kept: list[Any] = []
    for part in parts:
        kept.append(part)
        if sum(map(len, kept)) >= size:
            yield joined(kept)
            kept = []
    if kept:
        yield joined(kept)


class Spool:
    """Texts on their way to a private file, from which `spooled` reads them."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self.path, self._schema = path, pa.schema([("text", pa.large_string())])
        self._file = pa.OSFile(str(path), "wb")
        self._stream = pa.ipc.new_stream(self._file, self._schema)

    def add(self, texts: Any) -> None:
        """Some more."""
        import pyarrow as pa

        self._stream.write_batch(pa.record_batch([texts], schema=self._schema))

    def close(self) -> None:
        """Nothing more comes."""
        self._stream.close()
        self._file.close()


def spooled(path: Path) -> Iterator[Any]:
    """The texts of a file, array by array as they were added."""
    import pyarrow as pa

    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as reader:
        yield from (batch.column(0) for batch in reader)
