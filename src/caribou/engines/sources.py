"""Tables of edges and of features that are read in pieces: plain arrays (.npy) and tables of any kind (`engines.tables`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from caribou.engines.blocks import regrouped
from caribou.errors import DataError
from caribou.graph import MAX_NODES
from caribou.tables.cells import quoted
from caribou.tables.inspect import shown
from caribou.tables.queries import StreamedQuery
from caribou.tables.read import chosen
from caribou.tables.sources import ParquetFiles, Piece, Source, Table, open_table
from caribou.tables.stores import Place, located

_IDS = ("id", "node", "node_id")
Where = Callable[[int], str]
"""Says where entry k of a piece stands."""
_ENDS = (("source", "target"), ("from", "to"), ("src", "dst"))


@dataclass(frozen=True)
class SourceRules:
    """How tables are read. None: the usual titles, and the separator that the line of titles shows.

    id, source, target: titles. ignore: columns of nodes that are not read. separator: of CSV. drop_unknown_ids: leave out edges
    with an end that is in no row of nodes.
    """

    id: str | None = None
    source: str | None = None
    target: str | None = None
    ignore: tuple[str, ...] = ()
    separator: str | None = None
    drop_unknown_ids: bool = False


USUAL = SourceRules()
"""Nothing is declared."""


class EdgeSource(Protocol):
    """Pairs of row numbers that stream past. ``count``: how many there are at most (private)."""

    @property
    def count(self) -> int:
        """How many there are at most."""

    def chunks(self, size: int, nodes: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sources and targets of about ``size`` pairs at a time, all in [0, nodes)."""


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Pairs of node numbers in a file, or of ids in a table. ``count``: how many there are (private).

    ``titles``: of the two columns of a table.
    """

    content: _Array | Table
    count: int
    titles: tuple[str, str] = ("source", "target")

    @classmethod
    def open(cls, source: Source, rules: SourceRules = USUAL) -> EdgeTable:
        """Look at the shape; only the rows of a CSV file must be read to be counted."""
        array = _Array.at(source)
        if array is None:
            table = open_table(source, rules.separator)
            return cls(table, table.count(), _ends(table, rules))
        shape, dtype = array.shape, array.dtype
        edges = cls(array, shape[-1] if shape[:1] == (2,) else sum(shape[:1]))
        pairs = len(shape) == 2 and 2 in shape
        if pairs and dtype.kind == "f":
            edges._refuse_fractions(array)
        if not pairs or dtype.kind not in "iu":
            raise DataError(
                f"{array.name}: edges must be integers of shape [E, 2] or [2, E], got {dtype} {list(shape)}"
            )
        return edges

    @classmethod
    def has_rows(cls, source: Source, rules: SourceRules = USUAL) -> bool:
        """Whether there is an edge; no more than the first piece is read."""
        array = _Array.at(source)
        if array is not None:
            return 0 not in array.shape
        table = open_table(source, rules.separator)
        return any(len(piece.batch) for piece in table.pieces(1 << 10, table.titles[:1]))

    @property
    def table(self) -> Table | None:
        """The table, whose cells may be ids; None for a plain array, which holds row numbers."""
        return None if isinstance(self.content, _Array) else self.content

    def chunks(self, size: int, nodes: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sources and targets of ``size`` pairs at a time; with ``nodes``, an end outside [0, nodes) is an error with its row.

        Of a refused edge an error tells the place and the bad end, never a good one: edges are secret.
        """
        for where, u, v in self._pieces(size):
            if nodes is not None:
                _require_nodes(u, v, nodes, where)
            yield u, v

    def texts(self, size: int) -> Iterator[Piece]:
        """The two columns of a table as they are, ``size`` rows at a time."""
        if isinstance(self.content, _Array):
            raise DataError(f"{self.content.name}: must be a table to name nodes by their ids, got a plain array")
        return self.content.pieces(size, self.titles)

    def _pieces(self, size: int) -> Iterator[tuple[Where, np.ndarray, np.ndarray]]:
        if isinstance(self.content, _Array):
            yield from self._array_pieces(self.content, size)
            return
        for piece in self.content.pieces(size, self.titles):
            u, v = (_integers(column, piece) for column in piece.batch.columns)
            yield piece.index, u, v

    def _refuse_fractions(self, array: _Array) -> None:
        for where, u, v in self._array_pieces(array, 1 << 20):
            for ends in (u, v):
                _refuse_fraction(ends, np.zeros(len(ends), dtype=bool), where)

    def _array_pieces(self, array: _Array, size: int) -> Iterator[tuple[Where, np.ndarray, np.ndarray]]:
        wide = array.shape[0] == 2
        for first in range(0, self.count, size):
            count = min(size, self.count - first)
            if wide:
                u, v = array.read(first, count), array.read(first + self.count, count)
            else:
                pairs = array.read(2 * first, 2 * count)
                u, v = pairs[::2], pairs[1::2]
            yield _place(array.name, "column" if wide else "row", first), u, v


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """A matrix of n rows and d columns. ``id_title``: the column of a table that holds ids of its rows, if there is one."""

    content: _Array | Table
    nodes: int
    columns: int
    titles: tuple[str, ...] = ()
    id_title: str | None = None

    @classmethod
    def open(cls, source: Source, rules: SourceRules = USUAL) -> FeatureTable:
        """Look at the shape; only the rows of a CSV file must be read to be counted."""
        array = _Array.at(source)
        if array is not None:
            if len(array.shape) != 2 or array.dtype.kind not in "fiub":
                raise DataError(
                    f"{array.name}: features must be numbers of shape [n, d], got {array.dtype} {list(array.shape)}"
                )
            if rules.id is not None:
                raise DataError(f"{array.name}: must be a table to have an id column, got a plain array (--column id)")
            found = cls(array, *array.shape)
        else:
            table = open_table(source, rules.separator)
            _require_ignored(table, rules)
            titles = _feature_titles(table, rules)
            id_title = chosen(_kept(table, rules), rules.id, _IDS, table.name, "id")
            found = cls(table, table.count(), len(titles), titles, id_title)
        if not 1 <= found.nodes <= MAX_NODES or found.columns < 1:
            raise DataError(
                f"{found.content.name}: features must have 1 to {MAX_NODES} rows and a column, got {found.nodes} x "
                f"{found.columns}"
            )
        return found

    def chunks(self, size: int) -> Iterator[np.ndarray]:
        """``size`` rows at a time (the last: fewer), float64 and finite."""
        return regrouped(self._finite_pieces(size), size)

    def ids(self, size: int) -> Iterator[Piece]:
        """The column of ids as it is, ``size`` rows at a time; nothing if there is none."""
        if self.id_title is None or isinstance(self.content, _Array):
            return iter(())
        return self.content.pieces(size, [self.id_title])

    def fixed(self, folder: Path) -> FeatureTable:
        """A table whose rows are in one order for good: this one, or a copy of it in the private folder."""
        if isinstance(self.content, _Array):
            return self
        titles = [*([] if self.id_title is None else [self.id_title]), *self.titles]
        return replace(self, content=fixed_table(self.content, titles, self.nodes, folder))

    def _finite_pieces(self, size: int) -> Iterator[np.ndarray]:
        seen = 0
        for piece in self._pieces(size):
            if not np.isfinite(piece).all():
                row = int(np.argwhere(~np.isfinite(piece))[0][0])
                raise DataError(
                    f"{self.content.name}: features must be finite, got NaN or infinity in row {seen + row} (from 0)"
                )
            seen += len(piece)
            yield piece

    def _pieces(self, size: int) -> Iterator[np.ndarray]:
        if isinstance(self.content, _Array):
            for first in range(0, self.nodes, size):
                count = min(self.nodes, first + size) - first
                rows = self.content.read(first * self.columns, count * self.columns)
                yield rows.astype(np.float64).reshape(-1, self.columns)
            return
        for piece in self.content.pieces(size, self.titles):
            columns = zip(piece.batch.columns, self.titles, strict=True)
            yield np.stack([_numbers(piece, column, title) for column, title in columns], axis=1)


def fixed_table(table: Table, titles: Sequence[str], rows: int, folder: Path) -> Table:
    """Some columns of a table of so many rows, in one order for good: the table itself, or a copy in the private folder."""
    if table.is_stable:
        return table
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, found, writer = folder / "nodes.parquet", 0, None
    try:
        for piece in table.pieces(1 << 16, titles):
            if writer is None:
                writer = pq.ParquetWriter(path, piece.batch.schema)
            _require_kinds(table.name, writer.schema, piece.batch.schema)
            writer.write_batch(piece.batch.cast(writer.schema))
            found += len(piece.batch)
    except pa.ArrowInvalid as error:
        raise DataError(f"{table.name}: columns must be of one type in all rows: {error}") from None
    finally:
        if writer is not None:
            writer.close()
    if found != rows:
        raise DataError(f"{table.name}: must give the same rows twice, got {rows} and then {found}")
    return ParquetFiles(table.name, (replace(located(path), name=table.name),))


def _require_kinds(name: str, first: Any, here: Any) -> None:
    """Text stays text and numbers numbers: as a number the id 007 would be another one than it is in memory."""
    import pyarrow as pa

    for had, has in zip(first, here, strict=True):
        texts = pa.types.is_string(had.type), pa.types.is_string(has.type)
        if not pa.types.is_null(has.type) and (pa.types.is_null(had.type) or texts[0] != texts[1]):
            raise DataError(
                f"{name}: columns must be of one type in all rows, got {had.name!r} with {had.type} and then {has.type}; give it "
                "one in the query, such as CAST(... AS TEXT)"
            )


@dataclass(frozen=True, eq=False)
class _Array:
    """A .npy file, in C order."""

    place: Place
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int

    @classmethod
    def at(cls, source: Source) -> _Array | None:
        """The array that a source names; None if it is a table."""
        if isinstance(source, StreamedQuery):
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


def _ends(table: Table, rules: SourceRules) -> tuple[str, str]:
    names = table.titles
    if rules.source is not None or rules.target is not None:
        source = chosen(names, rules.source, [ends[0] for ends in _ENDS], table.name, "source", needed=True)
        target = chosen(names, rules.target, [ends[1] for ends in _ENDS], table.name, "target", needed=True)
        if source == target:
            raise DataError(
                f"{table.name}: source and target must be two columns, got {source!r} twice (--column source=TITLE --column "
                "target=TITLE)"
            )
        return str(source), str(target)
    for ends in _ENDS:
        if set(ends) <= set(names):
            return ends
    if len(names) == 2:
        return names[0], names[1]
    raise DataError(
        f"{table.name}: edges must have columns source and target, or two columns, got {', '.join(names)} (--column source=TITLE "
        "--column target=TITLE)"
    )


def _require_ignored(table: Table, rules: SourceRules) -> None:
    missing = [title for title in rules.ignore if title not in table.titles]
    if missing:
        raise DataError(f"{table.name}: rules must name columns of the table, got {missing[0]!r} (--ignore)")


def _kept(table: Table, rules: SourceRules) -> list[str]:
    return [title for title in table.titles if title not in rules.ignore]


def _feature_titles(table: Table, rules: SourceRules) -> tuple[str, ...]:
    names = tuple(name for name in _kept(table, rules) if name.strip().lower() not in _IDS and name != rules.id)
    if not names:
        raise DataError(f"{table.name}: features must have at least one column beside the node's id, got none")
    return names


def _place(name: str, entry: str, first: int) -> Where:
    return lambda k: f"{name}: {entry} {first + k} (from 0)"


def _require_nodes(u: np.ndarray, v: np.ndarray, nodes: int, where: Where) -> None:
    if all(len(ends) == 0 or (int(ends.min()) >= 0 and int(ends.max()) < nodes) for ends in (u, v)):
        return
    outside = np.stack([(ends < 0) | (ends >= nodes) for ends in (u, v)])
    k = int(np.flatnonzero(outside.any(axis=0))[0])
    bad = (u, v)[int(outside[:, k].argmax())][k]
    raise DataError(f"{where(k)}: edges must be node numbers in [0, {nodes}), the rows of the feature table, got {bad}")


def _integers(column: Any, piece: Piece) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    if piece.spelled:
        trimmed = pc.utf8_trim_whitespace(column)
        wrong = pc.fill_null(pc.invert(pc.match_substring_regex(trimmed, r"^-?[0-9]{1,18}$")), True)
        if len(bad := np.flatnonzero(wrong.to_numpy(zero_copy_only=False))):
            cell = column[int(bad[0])].as_py()
            raise DataError(
                f"{piece.row(int(bad[0]))}: edges must be whole numbers where the node table has no id column, got "
                f"{shown(cell)} (--column id=TITLE)"
            )
        return trimmed.cast(pa.int64()).to_numpy()
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind in "iu":
        return values
    if values.dtype.kind == "f":
        _refuse_fraction(values, column.is_null().to_numpy(zero_copy_only=False), piece.index)
    raise DataError(
        f"{piece.name}: edges must be a column of integers where the node table has no id column, got {column.type} "
        "(--column id=TITLE)"
    )


def _refuse_fraction(values: np.ndarray, empty: np.ndarray, where: Where) -> None:
    bad = np.flatnonzero(~np.isfinite(values) | (values != np.floor(values)))
    if len(bad):
        k = int(bad[0])
        raise DataError(f"{where(k)}: edges must be whole numbers, got {'an empty cell' if empty[k] else values[k]}")


def _numbers(piece: Piece, column: Any, title: str) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if piece.spelled:
        trimmed = pc.utf8_trim_whitespace(column)
        try:
            column = trimmed.cast(pa.float64())
        except pa.ArrowInvalid:
            raise _no_number(piece, trimmed, title) from None
    if pa.types.is_decimal(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.float64())
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == object and pa.types.is_boolean(column.type):  # with empty cells
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        raise DataError(
            f"{piece.name}: features must be numbers, got {column.type} in column {title!r}; give --ignore {quoted(title)}"
        )
    return values.astype(np.float64)


def _no_number(piece: Piece, cells: Any, title: str) -> DataError:
    import pyarrow as pa

    for k, cell in enumerate(cells):
        try:
            cell.cast(pa.float64())
        except pa.ArrowInvalid:
            return DataError(
                f"{piece.row(k)}: column {title!r} must hold numbers, got {shown(cell.as_py())}; give --ignore {quoted(title)}"
            )
    return DataError(f"{piece.name}: column {title!r} must hold numbers; give --ignore {quoted(title)}")
