"""Ids of nodes, and the row numbers that stand for them: mapped on disk, within the memory of a run.

Ids are compared as text, as everywhere (`graph.columns.texts`). A hash of the text decides the bucket of an id. Every bucket of
the node table fits into memory. Edges are sent to the bucket of their source, then to that of their target. With one bucket
nothing is written but the ids themselves. What is written lies in the private folder of the run, and is as secret as the graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from caribou.engines.preparation import Memory
from caribou.engines.sources import USUAL, EdgeSource, EdgeTable, FeatureTable, SourceRules
from caribou.machine.memory import require_memory
from caribou.tables import cells as columns
from caribou.tables.inspect import EXAMPLES, Finding, Findings, Problem, raise_problems, shown
from caribou.tables.sources import Piece, Rows

MAX_BUCKETS = 512
_PER_ID = 64
"""Bytes per id beside its letters while a bucket is looked up."""
_PIECE = 1 << 18
"""Rows of a node table that are read together."""
_WORDS = 16
"""So many words of 8 bytes of an id decide its bucket."""


def texts(column: Any, title: str, piece: Piece) -> Any:
    """Cells as normalised text, null where one is empty: what `graph.columns.texts` makes of them, for whole columns at once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.large_string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
        # the number 1 and the texts 1 and 1.0 are one id; 01 is another
        whole = pc.replace_substring_regex(text, r"^(0|-?[1-9][0-9]{0,17})\.0+$", r"\1")
        return pc.if_else(pc.equal(whole, ""), pa.scalar(None, pa.large_string()), whole)
    cells = columns.texts(column.to_pandas(integer_object_nulls=True), title, piece.row)
    return pa.array(cells, type=pa.large_string())


@dataclass(frozen=True)
class NodeIds:
    """The ids of a node table in its order, in a private file.

    is_numbers: ids are the row numbers 0, 1, ... is_plain: all are whole numbers, and are given out as such. letters: bytes.
    """

    path: Path
    title: str
    count: int
    letters: int
    is_numbers: bool
    is_plain: bool

    @classmethod
    def stored(cls, nodes: FeatureTable, folder: Path) -> NodeIds | None:
        """Read the ids once, and keep them. None if the table has no column of ids; an empty cell is an error."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if nodes.id_title is None:
            return None
        path, schema = folder / "node.ids", pa.schema([("id", pa.large_string())])
        seen, letters, empty, numbers, plain = 0, 0, 0, True, True
        place = ""
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            for piece in nodes.ids(_PIECE):
                ids = texts(piece.batch.column(0), nodes.id_title, piece)
                if ids.null_count:
                    place = place or piece.row(int(np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))[0]))
                    empty += ids.null_count
                rows = pa.array(np.arange(seen, seen + len(ids))).cast(pa.large_string())
                numbers = numbers and ids.equals(rows)
                plain = plain and bool(pc.all(pc.match_substring_regex(ids, r"^(0|-?[1-9][0-9]{0,17})$")).as_py())
                letters += pc.sum(pc.binary_length(ids)).as_py() or 0
                writer.write_batch(pa.record_batch([ids], schema=schema))
                seen += len(ids)
        if empty:
            raise_problems([columns.empty_ids(nodes.id_title, place, empty)])
        return cls(path, nodes.id_title, seen, letters, numbers, plain)

    def batches(self) -> Iterator[Any]:
        """The ids in order, some at a time; whole numbers if all of them are."""
        import pyarrow as pa

        kind = pa.int64() if self.is_plain else pa.string()
        for batch in _batches(self.path):
            yield batch.column(0).cast(kind)

    def array(self) -> np.ndarray:
        """All of them, as a graph has them: int64 if all are whole numbers, else text."""
        import pyarrow.compute as pc

        if self.is_plain:
            return np.concatenate([batch.to_numpy() for batch in self.batches()])
        width = max(pc.max(pc.utf8_length(batch)).as_py() for batch in self.batches())
        require_memory(3 * 4 * width * self.count, f"the ids of {self.count} nodes")  # in both orders, and while sorted
        found, first = np.empty(self.count, f"U{width}"), 0
        for batch in self.batches():
            found[first : first + len(batch)] = batch.to_numpy(zero_copy_only=False)
            first += len(batch)
        return found

    def digest(self) -> bytes:
        """Of the file."""
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()

    def buckets(self, memory: Memory) -> int:
        """How many buckets there must be, so that one takes an eighth of the memory."""
        needed = self.letters + _PER_ID * self.count
        return min(MAX_BUCKETS, -(-needed // max(1, memory.free // 8)))

    def space(self, pairs: int, memory: Memory) -> int:
        """Bytes of disk that the mapping of so many pairs takes at most: pairs lie in the buckets of one end or the other."""
        buckets = self.buckets(memory)
        letters = -(-self.letters // max(1, self.count))
        return 0 if buckets == 1 else pairs * (2 * letters + 24) + self.letters + 16 * self.count


def with_row_numbers(
    edges: EdgeTable,
    nodes: FeatureTable,
    ids: NodeIds | None,
    folder: Path,
    memory: Memory,
    rules: SourceRules = USUAL,
) -> EdgeSource:
    """The edges as row numbers of the node table: as they are where they hold row numbers, else mapped from its ids.

    A plain array holds row numbers, and so does a table if the node table has no ids, or if its ids are its row numbers. Files
    in ``folder`` are removed when the edges have been read. An id that is repeated in the node table, or in no row of it, is an
    error.
    """
    if ids is None:
        return edges
    if ids.is_numbers and not rules.drop_unknown_ids and (edges.table is None or _holds_numbers(edges)):
        return edges
    lookup = _Lookup(ids, folder, ids.buckets(memory))
    lookup.check_unique(nodes)
    return edges if edges.table is None else NumberedEdges(edges, lookup, folder, drop=rules.drop_unknown_ids)


def _holds_numbers(edges: EdgeTable) -> bool:
    """Whether cells are numbers already: spelled, or of an integer type."""
    import pyarrow as pa

    first = next(edges.texts(1 << 10), None)
    return first is None or first.spelled or all(pa.types.is_integer(c.type) for c in first.batch.columns)


@dataclass(frozen=True, eq=False)
class _Lookup:
    """Row numbers by id, bucket by bucket."""

    ids: NodeIds
    folder: Path
    buckets: int

    def check_unique(self, nodes: FeatureTable) -> None:
        """Divide the ids into buckets, and refuse an id that is there twice."""
        if self.buckets > 1:
            with _Writers(self.folder, "ids", self.buckets) as writers:
                first = 0
                for batch in _batches(self.ids.path):
                    rows = np.arange(first, first + len(batch))
                    writers.add(_table(row=rows, id=batch.column(0)), batch.column(0))
                    first += len(batch)
        again: list[tuple[int, int, str]] = []
        count = 0
        for bucket in range(self.buckets):
            rows, ids = self.bucket(bucket)
            codes = ids.dictionary_encode().indices.to_numpy()
            _, first_of = np.unique(codes, return_index=True)
            repeated = np.setdiff1d(np.arange(len(codes)), first_of)
            count += len(repeated)
            again += [(int(rows[k]), int(rows[first_of[codes[k]]]), ids[int(k)].as_py()) for k in repeated[:EXAMPLES]]
        if count:
            again.sort()
            row, first, _ = again[0]
            place = _place_of(row, nodes)
            raise_problems([columns.repeated_ids(self.ids.title, place, [text for _, _, text in again], first, count)])

    def bucket(self, index: int) -> tuple[np.ndarray, Any]:
        """Row numbers and ids of one bucket."""
        import pyarrow as pa

        path = self.ids.path if self.buckets == 1 else _bucket_path(self.folder, "ids", index)
        batches = list(_batches(path))
        ids = pa.chunked_array([batch.column("id") for batch in batches], pa.large_string()).combine_chunks()
        if self.buckets == 1:
            return np.arange(len(ids)), ids
        rows = [batch.column("row").to_numpy() for batch in batches]
        return np.concatenate(rows) if rows else np.empty(0, np.int64), ids

    def remove(self) -> None:
        """The buckets; the ids stay."""
        for bucket in range(self.buckets):
            _bucket_path(self.folder, "ids", bucket).unlink(missing_ok=True)


@dataclass
class _Unknown:
    """Ends of one column that are in no row of the node table: how many, and the first few by row."""

    count: int = 0
    first: list[tuple[int, str | None]] = field(default_factory=list)

    def note(self, rows: np.ndarray, places: np.ndarray, cells: Any) -> None:
        """Look for ends without a place."""
        wrong = np.flatnonzero(places < 0)
        self.count += len(wrong)
        found = [(int(rows[k]), cells[int(k)].as_py()) for k in wrong[np.argsort(rows[wrong])[:EXAMPLES]]]
        self.first = sorted([*self.first, *found], key=lambda entry: entry[0])[:EXAMPLES]


@dataclass(frozen=True, eq=False)
class NumberedEdges:
    """Edges of a table that names ids, as row numbers. They can be read once: the buckets are removed meanwhile.

    Errors come at the end, when all of them are known. ``drop``: an edge with an unknown end is left out.
    """

    edges: EdgeTable
    lookup: _Lookup
    folder: Path
    drop: bool = False
    _rows: Rows = field(default_factory=Rows)

    @property
    def count(self) -> int:
        """How many there are, with those that may be dropped."""
        return self.edges.count

    def chunks(self, size: int, nodes: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sources and targets of about ``size`` pairs at a time."""
        unknown = (_Unknown(), _Unknown())
        known = read = 0
        mapped = self._in_memory if self.lookup.buckets == 1 else self._on_disk
        for u, v in mapped(max(1, size // 2), unknown):
            both = (u >= 0) & (v >= 0)
            read, known = read + len(u), known + int(both.sum())
            yield u[both], v[both]
        self.lookup.remove()
        self._require_known(unknown, read, known)

    def _in_memory(self, size: int, unknown: tuple[_Unknown, _Unknown]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        import pyarrow as pa

        rows, ids = self.lookup.bucket(0)
        for batch in _grouped(self._texts(max(1, size // 4)), size):
            ends = [batch.column(name).combine_chunks() for name in ("u", "v")]
            places = _places(pa.concat_arrays(ends), rows, ids)  # one table of the ids serves both ends
            u, v = places[: len(batch)], places[len(batch) :]
            for found, noted, cells in zip((u, v), unknown, ends, strict=True):
                noted.note(batch.column("row").to_numpy(), found, cells)
            del batch, ends, cells  # they need not wait in memory for the next group
            yield u, v

    def _on_disk(self, size: int, unknown: tuple[_Unknown, _Unknown]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """To the bucket of the source, and from there with its row number to the bucket of the target."""
        buckets = self.lookup.buckets
        with _Writers(self.folder, "sources", buckets) as writers:
            for table in self._texts(max(1, size // 4)):
                writers.add(table, table.column("u").combine_chunks())
        with _Writers(self.folder, "targets", buckets) as writers:
            for bucket in range(buckets):
                for table, places in self._mapped("sources", "u", bucket, size, unknown[0]):
                    v = table.column("v").combine_chunks()
                    writers.add(_table(row=table.column("row"), u=places, v=v), v)
        for bucket in range(buckets):
            for table, places in self._mapped("targets", "v", bucket, size, unknown[1]):
                yield table.column("u").to_numpy(), places

    def _mapped(
        self, name: str, column: str, bucket: int, size: int, unknown: _Unknown
    ) -> Iterator[tuple[Any, np.ndarray]]:
        import pyarrow as pa

        rows, ids = self.lookup.bucket(bucket)
        path = _bucket_path(self.folder, name, bucket)
        for table in _grouped((pa.Table.from_batches([batch]) for batch in _batches(path)), size):
            cells = table.column(column).combine_chunks()
            places = _places(cells, rows, ids)
            unknown.note(table.column("row").to_numpy(), places, cells)
            yield table, places
        path.unlink(missing_ok=True)

    def _texts(self, size: int) -> Iterator[Any]:
        for piece in self.edges.texts(size):
            first = self._rows.note(piece)
            u, v = (texts(c, title, piece) for c, title in zip(piece.batch.columns, self.edges.titles, strict=True))
            yield _table(row=np.arange(first, first + len(u)), u=u, v=v)

    def _require_known(self, unknown: tuple[_Unknown, _Unknown], read: int, known: int) -> None:
        """Edges that join no two nodes are refused, whatever flags are given: the columns are other ones, or ids are."""
        findings, named = Findings(), list(zip(unknown, self.edges.titles, strict=True))
        if read and not known:
            noted, title = max(named, key=lambda entry: entry[0].count)
            row, cell = noted.first[0]
            _, ids = self.lookup.bucket(0) if self.lookup.buckets == 1 else (None, [])
            example = f", the ids are such as {shown(ids[0].as_py())}" if len(ids) else ""
            rule = f"edges must join ids of the node table, got none that does: column {title!r} holds {shown(cell)}{example}"
            flags = ("--column id=TITLE, source=TITLE or target=TITLE if ids are in another column",)
            findings.add(Problem(Finding.NO_MATCH, self._rows(row), rule, read, flags=flags, column=title))
        elif not self.drop:
            for noted, title in named:
                if noted.count:
                    cells = [cell for _, cell in noted.first]
                    findings.add(columns.unknown_ids(title, self._rows(noted.first[0][0]), cells, noted.count))
        if findings.problems:
            raise_problems(findings.problems)


def _place_of(row: int, nodes: FeatureTable) -> str:
    """Where a row of the node table stands."""
    first = 0
    for piece in nodes.ids(_PIECE):
        if row < first + len(piece.batch):
            return piece.row(row - first)
        first += len(piece.batch)
    return f"{nodes.content.name}: row {row + 1}"


def _places(cells: Any, rows: np.ndarray, ids: Any) -> np.ndarray:
    """Row number of every id; -1 for one that is not there."""
    import pyarrow.compute as pc

    found = pc.fill_null(pc.index_in(cells, ids), -1).to_numpy()
    if not len(rows):
        return np.full(len(cells), -1, dtype=np.int64)
    return np.where(found >= 0, rows[found], -1)


def bucket_of(ids: Any, buckets: int) -> np.ndarray:
    """The bucket of every text: a hash of its letters, so that equal ones meet."""
    import pyarrow as pa

    _, offsets, data = ids.buffers()
    if not len(ids):
        return np.empty(0, np.int64)
    at = np.frombuffer(offsets, np.int64, len(ids) + 1, 8 * ids.offset)
    start, length = at[:-1], np.diff(at)
    letters = np.zeros(int(at[-1]) + 8, np.uint8)  # a word may end behind the last letter
    letters[: at[-1]] = np.frombuffer(data if data is not None else pa.py_buffer(b""), np.uint8, int(at[-1]))
    words = np.ndarray((len(letters) - 7,), "<u8", letters, strides=(1,))
    mixed = length.astype(np.uint64)
    for k in range(min(_WORDS, -(-int(length.max()) // 8))):
        left = length - 8 * k
        there = left > 0
        word = words[np.where(there, start + 8 * k, 0)]
        cut = np.clip(8 - left, 0, 7).astype(np.uint64) * np.uint64(8)
        mixed = np.where(there, _stirred(mixed ^ (word << cut)), mixed)
    return (_stirred(mixed) % np.uint64(buckets)).astype(np.int64)


def _stirred(words: np.ndarray) -> np.ndarray:
    """Words in which every bit depends on all bits (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _table(**arrays: Any) -> Any:
    import pyarrow as pa

    return pa.table(arrays)


def _grouped(tables: Iterable[Any], size: int) -> Iterator[Any]:
    """Tables of at least ``size`` rows, but for the last: the ids are put into a table of their own for each."""
    import pyarrow as pa

    kept: list[Any] = []
    for table in tables:
        kept.append(table)
        if sum(map(len, kept)) >= size:
            yield pa.concat_tables(kept)
            kept = []
    if kept:
        yield pa.concat_tables(kept)


def _bucket_path(folder: Path, name: str, index: int) -> Path:
    return folder / f"{name}-{index:04d}.bucket"


def _batches(path: Path) -> Iterator[Any]:
    import pyarrow as pa

    if path.exists():
        with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as reader:
            yield from reader


class _Writers:
    """Tables divided by the bucket of an id, in one file per bucket."""

    def __init__(self, folder: Path, name: str, buckets: int) -> None:
        self.folder, self.name, self.buckets = folder, name, buckets
        self._open = ExitStack()
        self._writers: dict[int, Any] = {}

    def __enter__(self) -> _Writers:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, table: Any, ids: Any) -> None:
        """Append every row to the bucket of its id."""
        import pyarrow as pa

        bucket = bucket_of(ids, self.buckets)
        order = np.argsort(bucket, kind="stable")
        sorted_rows = table.take(pa.array(order)).combine_chunks()
        at = np.searchsorted(bucket[order], np.arange(self.buckets + 1))
        for index in map(int, np.flatnonzero(np.diff(at))):
            self._writer(index, table.schema).write_table(sorted_rows.slice(at[index], at[index + 1] - at[index]))

    def _writer(self, index: int, schema: Any) -> Any:
        import pyarrow as pa

        if index not in self._writers:
            file = self._open.enter_context(pa.OSFile(str(_bucket_path(self.folder, self.name, index)), "wb"))
            self._writers[index] = self._open.enter_context(pa.ipc.new_stream(file, schema))
        return self._writers[index]
