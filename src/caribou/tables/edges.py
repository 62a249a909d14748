"""Edges that stream past as pairs of row numbers: of an array, of a table of numbers, or of a table that names ids."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from caribou.errors import DataError
from caribou.graph.checks import listed
from caribou.tables import cells as columns
from caribou.tables.cells import joined, texts
from caribou.tables.ids import NodeIds, Spool, placed, spooled
from caribou.tables.inspect import EXAMPLES, Finding, Findings, Problem, examples_of, raise_problems, shown
from caribou.tables.read import Titles, chosen
from caribou.tables.rules import ColumnRules, quoted
from caribou.tables.sources import Piece, Rows, Source, Table, open_table
from caribou.tables.stores import Place, located

_AHEAD = 1 << 13
"""Edges that are looked up together where ids do not fit into memory: some are read ahead."""
_ENDS = (("source", "target"), ("from", "to"), ("src", "dst"))


class EdgeSource(Protocol):
    """Pairs of row numbers that stream past. ``count``: how many there are at most (private)."""

    @property
    def count(self) -> int:
        """How many there are at most."""

    def chunks(self, size: int, nodes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sources and targets of about ``size`` pairs at a time, all in [0, nodes)."""


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """A .npy file, in C order."""

    place: Place
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int

    @classmethod
    def at(cls, source: Source) -> ArrayFile | None:
        """The array that a source names; None if it is a table."""
        if isinstance(source, Table):
            return None
        place = located(source)
        return cls(place, *_npy_header(place)) if place.suffix == ".npy" else None

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.place.name

    def read(self, first: int, count: int) -> np.ndarray:
        """Entries in the order of the file."""
        with self.place.open() as file:
            file.seek(self.offset + first * self.dtype.itemsize)
            return np.frombuffer(file.read_buffer(count * self.dtype.itemsize), self.dtype, count)


def _npy_header(place: Place) -> tuple[tuple[int, ...], np.dtype, int]:
    try:
        with place.open() as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
            offset, size = file.tell(), file.size()
    except (OSError, ValueError) as error:
        raise DataError(f"{place.name}: must be a .npy file that can be read: {error}") from error
    if fortran and len(shape) == 2 and min(shape) > 1:
        raise DataError(f"{place.name}: must be stored by rows (C order), got Fortran order")
    if dtype.hasobject:
        raise DataError(f"{place.name}: must hold numbers, got objects")
    if size - offset < int(np.prod(shape)) * dtype.itemsize:
        raise DataError(f"{place.name}: must hold {list(shape)} numbers, got a truncated file")
    return shape, dtype, offset


def open_edges(
    source: Source, titles: Titles, rules: ColumnRules | None = None, findings: Findings | None = None
) -> EdgeArray | EdgeTable:
    """The edges of a source. Only the rows of a CSV file must be read to be counted."""
    array = ArrayFile.at(source)
    if array is not None:
        if len(array.shape) != 2 or 2 not in array.shape or array.dtype.kind not in "iu":
            raise DataError(
                f"{array.name}: edges must be integers of shape [E, 2] or [2, E], got {array.dtype} {list(array.shape)}"
            )
        return EdgeArray(array)
    table = open_table(source, rules)
    ends = _ends(table, titles)
    unused = [title for title in table.titles if title not in ends]
    if unused and findings is not None:
        words = f"{table.name}: columns {listed(unused)} are not used: one edge stands for all rows between two nodes, both ways"
        findings.note(Finding.UNUSED_COLUMNS, words, len(unused))
    return EdgeTable(table, ends, titles.source is not None or titles.target is not None)


def _ends(table: Table, titles: Titles) -> tuple[str, str]:
    """The columns that are named, or have a usual title, or come first."""
    names = table.titles
    if titles.source is None and titles.target is None:
        for ends in _ENDS:
            if set(ends) <= set(names):
                return ends
    # a target that is named alone may be the first column: the source is then the next one
    free = [title for title in names if title != titles.target] or names
    source = str(chosen(names, titles.source, free[:1], table.name, "source", needed=True))
    rest = [title for title in names if title != source]
    if not rest:
        raise DataError(
            f"{table.name}: must hold two columns, source and target, found only {listed(names)} (--column source=TITLE "
            "--column target=TITLE; --separator SIGN if the line holds more)"
        )
    target = str(chosen(names, titles.target, rest[:1], table.name, "target", needed=True))
    if source == target:
        raise DataError(
            f"{table.name}: source and target must be two columns, got {source!r} twice (--column source=TITLE --column "
            "target=TITLE)"
        )
    return source, target


@dataclass(frozen=True, eq=False)
class EdgeArray:
    """Pairs of row numbers in a plain array."""

    array: ArrayFile

    @property
    def count(self) -> int:
        """How many there are (private)."""
        return self.array.shape[-1] if self._wide else self.array.shape[0]

    @property
    def _wide(self) -> bool:
        return self.array.shape[0] == 2

    def chunks(self, size: int, nodes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sources and targets of ``size`` pairs at a time.

        Of a refused edge an error tells the place and the bad end, never a good one: edges are secret.
        """
        for first in range(0, self.count, size):
            count = min(size, self.count - first)
            if self._wide:
                u, v = self.array.read(first, count), self.array.read(first + self.count, count)
            else:
                pairs = self.array.read(2 * first, 2 * count)
                u, v = pairs[::2], pairs[1::2]
            yield _required(u, v, nodes, self._place(first))

    def _place(self, first: int) -> columns.Place:
        word = "column" if self._wide else "row"
        return lambda k: f"{self.array.name}: {word} {first + k} (from 0)"


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Pairs in two columns of a table: of row numbers, or of ids. ``named``: the columns were declared."""

    table: Table
    titles: tuple[str, str]
    named: bool = False

    @property
    def count(self) -> int:
        """How many there are (private)."""
        return self.table.count()

    def chunks(self, size: int, nodes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sources and targets of ``size`` pairs at a time, where cells are row numbers."""
        for piece in self.table.pieces(size, self.titles):
            u, v = (_integers(c, t, piece) for c, t in zip(piece.batch.columns, self.titles, strict=True))
            yield _required(u, v, nodes, piece.index)


def has_edges(source: Source, titles: Titles, rules: ColumnRules) -> bool:
    """Whether there is an edge; no more than the first piece is read."""
    edges = open_edges(source, titles, rules)
    if isinstance(edges, EdgeArray):
        return edges.count > 0
    return any(len(piece.batch) for piece in edges.table.pieces(1 << 10, edges.titles))


def _required(u: np.ndarray, v: np.ndarray, nodes: int, where: columns.Place) -> tuple[np.ndarray, np.ndarray]:
    """The ends, all of them row numbers of so many nodes."""
    outside = np.stack([(ends < 0) | (ends >= nodes) for ends in (u, v)])
    if outside.any():
        k = int(np.flatnonzero(outside.any(axis=0))[0])
        bad = (u, v)[int(outside[:, k].argmax())][k]
        raise DataError(
            f"{where(k)}: edges must be node numbers in [0, {nodes}), the rows of the feature table, got {bad}"
        )
    return u, v


def _integers(column: Any, title: str, piece: Piece) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy()
    cells = texts(column, title, piece.row)
    good = pc.fill_null(pc.match_substring_regex(cells, r"^-?[0-9]{1,18}$"), False).to_numpy(zero_copy_only=False)
    if not good.all():
        k = int(np.flatnonzero(~good)[0])
        raise DataError(
            f"{piece.row(k)}: edges must be whole numbers where the node table has no id column, got "
            f"{shown(cells[k].as_py())} (--column id=TITLE)"
        )
    return cells.cast(pa.int64()).to_numpy()


def with_row_numbers(
    edges: EdgeArray | EdgeTable,
    ids: NodeIds | None,
    rules: ColumnRules | None = None,
    findings: Findings | None = None,
    folder: Path | None = None,
    room: int | None = None,
) -> EdgeSource:
    """The edges as row numbers of the node table: as they are where they hold row numbers, else mapped from its ids.

    A plain array holds row numbers, and so does a table if the node table has no ids. ``room``: bytes of memory for the ids of a
    group; with more than one group there is a ``folder`` for what is written.
    """
    if ids is None or isinstance(edges, EdgeArray):
        return edges
    return NumberedEdges(edges, ids, (rules or ColumnRules()).drop_unknown_ids, findings, folder, room)


@dataclass
class _Unknown:
    """Ends of one column that are in no row of the node table: how many, and the first few with their rows."""

    count: int = 0
    first: list[tuple[int, str | None]] = field(default_factory=list)

    def note(self, row: int, places: np.ndarray, cells: Any) -> None:
        """Look for ends without a place among rows from ``row`` on."""
        wrong = np.flatnonzero(places < 0)
        self.count += len(wrong)
        found = [(row + int(k), cells[int(k)].as_py()) for k in wrong[: EXAMPLES - len(self.first)]]
        self.first += [(k, cell if cell is None else str(cell)) for k, cell in found]


@dataclass(frozen=True, eq=False)
class NumberedEdges:
    """Edges of a table that names ids, as row numbers.

    Errors come at the end, when all of them are known. ``drop``: an edge with an unknown end is left out. ``findings``: where
    problems are told; None: they are raised.
    """

    edges: EdgeTable
    ids: NodeIds
    drop: bool = False
    findings: Findings | None = None
    folder: Path | None = None
    room: int | None = None

    @property
    def count(self) -> int:
        """How many there are, with those that may be dropped."""
        return self.edges.count

    def chunks(self, size: int, nodes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sources and targets of about ``size`` pairs at a time."""
        self._refuse_edge_as_titles()
        unknown, rows = (_Unknown(), _Unknown()), Rows(self.edges.table.name)
        known, read, kept = 0, 0, [np.empty((2, 0), np.int64)]
        for ends, places in self._placed(max(1, size // 2), rows):
            half = len(ends) // 2
            for noted, found, cells in zip(unknown, places, (ends[:half], ends[half:]), strict=True):
                noted.note(read, found, cells)
            kept.append(places[:, np.all(places >= 0, axis=0)])
            read, known = read + half, known + kept[-1].shape[1]
            if sum(part.shape[1] for part in kept) >= size // 2:
                yield tuple(np.concatenate(kept, axis=1))
                kept = kept[:1]
        yield tuple(np.concatenate(kept, axis=1))
        self._tell(unknown, rows, read, known)

    def _placed(self, size: int, rows: Rows) -> Iterator[tuple[Any, np.ndarray]]:
        """The ends of some edges, sources before targets, and their places [2, pairs]: group by group of ids that do not fit."""
        if self.ids.is_numbers:
            yield from ((ends, self._as_numbers(ends).reshape(2, -1)) for ends in self._ends(size, rows))
            return
        if self.ids.groups(self.room) == 1:
            ((_, group),) = self.ids.lookup(None)
            for ends in self._ends(size, rows):
                ((_, found),) = placed([ends], group)
                yield ends, found.reshape(2, -1)
            return
        spool, path = Spool((self.folder or Path()) / "edges.texts"), (self.folder or Path()) / "edges.places"
        written = 0
        for ends in self._ends(min(size, _AHEAD), rows):
            spool.add(ends)
            written += len(ends)
        spool.close()
        with open(path, "w+b") as file:
            file.truncate(8 * written)
            for number, ids in self.ids.lookup(self.room):
                file.seek(0)
                for ends, here in placed(spooled(spool.path), ids):
                    found = _noted(file, len(ends))
                    np.copyto(found, number + here + 1, where=here >= 0)
                    file.seek(-found.nbytes, os.SEEK_CUR)
                    file.write(found.data)
            file.seek(0)
            for ends in spooled(spool.path):
                yield ends, _noted(file, len(ends)).reshape(2, -1) - 1
        for done in (path, spool.path):
            done.unlink(missing_ok=True)

    def _ends(self, size: int, rows: Rows) -> Iterator[Any]:
        """Sources and then targets of about ``size`` edges as normalised text, or as numbers."""
        ends: tuple[list[Any], list[Any]] = [], []
        for piece in self.edges.table.pieces(max(1, size // 2), self.edges.titles):
            rows.note(piece)
            for cells, column, title in zip(ends, piece.batch.columns, self.edges.titles, strict=True):
                cells.append(self._cells(column, title, piece))
            if sum(map(len, ends[0])) >= size:
                yield joined(ends[0] + ends[1])
                ends = [], []
        if any(map(len, ends[0])):
            yield joined(ends[0] + ends[1])

    def _cells(self, column: Any, title: str, piece: Piece) -> Any:
        import pyarrow as pa

        if self.ids.is_numbers and pa.types.is_integer(column.type):
            return column.cast(pa.int64())
        return texts(column, title, piece.row, self.findings)

    def _as_numbers(self, ends: Any) -> np.ndarray:
        """Ids that are row numbers; -1 for one that is not there."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not pa.types.is_integer(ends.type):
            is_number = pc.match_substring_regex(ends, r"^(0|[1-9][0-9]{0,17})$")
            ends = pc.if_else(is_number, ends, pa.scalar(None, ends.type)).cast(pa.int64())
        numbers = pc.fill_null(ends, -1).to_numpy()
        return np.where(numbers < self.ids.count, numbers, -1).clip(min=-1)

    def _refuse_edge_as_titles(self) -> None:
        """Refuse a table whose first edge would be taken for its titles, and be lost."""
        import pyarrow as pa

        if self.edges.named:
            return
        titles = {title.strip() for title in self.edges.titles}
        if titles == self.ids.among(pa.array(titles, pa.large_string())):
            source, target = self.edges.titles
            raise DataError(
                f"{self.edges.table.name}: column titles must not be ids of the node table, got {source!r}, {target!r}: is the "
                "line of titles missing? If they are titles, declare them the source column and the target column "
                f"(--column source={quoted(source)} --column target={quoted(target)})"
            )

    def _tell(self, unknown: tuple[_Unknown, _Unknown], rows: Rows, read: int, known: int) -> None:
        """Edges that join no two nodes are refused, whatever flags are given: the columns are other ones, or ids are."""
        findings, named = self.findings or Findings(), list(zip(unknown, self.edges.titles, strict=True))
        if read and not known:
            noted, title = max(named, key=lambda entry: entry[0].count)
            row, cell = noted.first[0]
            _, ids = next(self.ids.lookup(self.room))
            rule = (
                f"edges must join ids of the node table, got none that does: column {title!r} holds {shown(cell)}, the ids are "
                f"such as {shown(ids[0].as_py())}"
            )
            flags = ("--column id=TITLE, source=TITLE or target=TITLE if ids are in another column",)
            findings.first(Problem(Finding.NO_MATCH, rows(row), rule, read, flags=flags, column=title))
        elif not self.drop:
            for noted, title in named:
                if noted.count:
                    (row, cell), texts = noted.first[0], examples_of(cell for _, cell in noted.first)
                    rule = f"column {title!r} must hold an id of the node table, got {shown(cell)}"
                    flags = ("--drop-unknown-ids",)
                    findings.add(Problem(Finding.UNKNOWN_IDS, rows(row), rule, noted.count, texts, flags, title))
        else:
            words = f"rows of {self.edges.table.name} name an id that is in no row of the node table, and are dropped"
            findings.note(Finding.DROPPED_EDGES, f"{read - known} {words}", read - known)
        if self.findings is None and findings.problems:
            raise_problems(findings.problems)


def _noted(file: IO[bytes], count: int) -> np.ndarray:
    """The next places in a file, counted from 1; 0 where none is known yet."""
    return np.frombuffer(bytearray(file.read(8 * count)), np.int64)
