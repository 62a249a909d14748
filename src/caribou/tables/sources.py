"""Tables of any kind, read in pieces: Parquet, CSV, queries and frames, here or in an object store.

A table that is read into memory is the case of one piece: the same rules, the same errors, the same row numbers.
"""

from __future__ import annotations

import csv
import io
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from caribou.errors import DataError, InputError
from caribou.graph.checks import listed, reading_call
from caribou.machine.memory import require_memory
from caribou.tables.cells import word_of
from caribou.tables.formulas import unescaped, unescaped_column
from caribou.tables.rules import ColumnRules, quoted, separator_word
from caribou.tables.stores import Place, is_address, located, readable, without_secrets

PARQUET = (".parquet", ".pq")
CSV = (".csv",)
ENDINGS = (*CSV, *PARQUET)
"""Of tables in one file."""
_BLOCK = 4 << 20
"""Bytes of a CSV file that are parsed together."""
_MOST = 1 << 20
"""Rows that are read together where a whole table is asked for."""
_UTF_8 = "utf-8-sig"


@dataclass(frozen=True)
class Piece:
    """Some rows of a table: ``first`` is the number of the first one in the file ``name``, from 0."""

    name: str
    first: int
    batch: Any

    def row(self, k: int) -> str:
        """Where entry k stands, rows counted from 1."""
        return f"{self.name}: row {self.first + k + 1}"

    def index(self, k: int) -> str:
        """Where entry k stands, counted as node numbers are."""
        return f"{self.name}: row {self.first + k} (from 0)"


@dataclass(frozen=True)
class Rows:
    """Where the rows of a table stand that was read piece by piece. Pieces are noted as they come."""

    name: str
    _pieces: list[tuple[int, str, int]] = field(default_factory=list)

    def note(self, piece: Piece) -> int:
        """The number of the first row of the next piece, from 0 in the whole table."""
        first = self.count
        self._pieces.append((first + len(piece.batch), piece.name, piece.first - first))
        return first

    @property
    def count(self) -> int:
        """Rows so far."""
        return self._pieces[-1][0] if self._pieces else 0

    def __call__(self, row: int) -> str:
        """As `Piece.row`."""
        if row >= self.count:
            return Piece(self.name, 0, None).row(row)
        _, name, shift = self._pieces[bisect_right(self._pieces, row, key=lambda piece: piece[0])]
        return Piece(name, shift, None).row(row)


class Table(ABC):
    """Rows with titles. ``name`` is what messages call them; ``is_stable``: two readings give the rows in one order."""

    name: str
    is_stable = True

    @cached_property
    def titles(self) -> list[str]:
        """Titles of the columns, each once."""
        found = self._titles()
        check_titles(self.name, found)
        return found

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def _titles(self) -> list[str]: ...

    def count(self) -> int:
        """How many rows there are."""
        return sum(len(piece.batch) for piece in self.pieces(_MOST, self.titles[:1]))

    @abstractmethod
    def pieces(self, size: int, titles: Sequence[str]) -> Iterator[Piece]:
        """Some columns, at most ``size`` rows at a time."""

    def stamp(self) -> list[Any]:
        """Tells a changed table from the one that was; plain JSON values. Nothing tells rows in memory from other ones."""
        return [self.name]


Source = str | Path | Table
"""A path, an address, or a table that is there already: a query, a frame."""


def check_titles(name: object, titles: Sequence[str]) -> None:
    """A table has columns, and no two of one title."""
    if not titles:
        raise DataError(f"{name}: has no columns")
    if len(set(titles)) < len(titles):
        repeated = sorted({title for title in titles if titles.count(title) > 1})
        raise DataError(f"{name}: column titles must differ, got {listed(repeated)} more than once")


def open_table(source: Source, rules: ColumnRules | None = None) -> Table:
    """The table that a source names, by what is there; no row is read. ``rules``: how CSV files are written."""
    if isinstance(source, Table):
        return source
    rules, place = rules or ColumnRules(), located(source)
    kind = place.kind()
    if kind == "nothing":
        raise DataError(f"{place.name}: must be there and readable, got nothing")
    if kind == "folder":
        return _folder(place, rules)
    if place.suffix in PARQUET:
        return ParquetFiles(place.name, (place,))
    if place.suffix in CSV:
        return CsvFiles(place.name, (place,), rules)
    raise DataError(f"{place.name}: must be a .npy, .parquet or .csv file, or a folder of .parquet or .csv files")


def _folder(place: Place, rules: ColumnRules) -> Table:
    files = place.files()
    is_delta = place.inside("_delta_log").kind() == "folder"
    if is_delta or any(file.path.endswith(".metadata.json") for file in files):
        # its Parquet files hold old and deleted rows, too
        kind = "a Delta" if is_delta else "an Iceberg"
        raise DataError(f"{place.name}: must be Parquet or CSV, got {kind} table: write its rows to Parquet")
    parquet = tuple(file for file in files if file.suffix in PARQUET)
    text = tuple(file for file in files if file.suffix in CSV)
    if parquet and text:
        raise DataError(f"{place.name}: must hold .parquet files or .csv files, got both")
    if text:
        return CsvFiles(place.name, text, rules)
    if parquet:
        return ParquetFiles(place.name, parquet)
    raise DataError(f"{place.name}: must hold at least one .parquet file or .csv file, got none")


def stamp_of(source: Source) -> list[Any]:
    """Of a table or an array; see `Table.stamp`."""
    if not isinstance(source, Table):
        place = located(source)
        if place.kind() == "file":
            return [place.stamp()]
    return open_table(source).stamp()


def identity_of(source: Source) -> str:
    """The source as a record of a run names it: a path of this machine as an absolute one."""
    return str(source) if isinstance(source, Table) or is_address(source) else str(Path(source).absolute())


def name_of(source: Source) -> str:
    """The name of the graph, if nobody gives one: of the file without its ending, or of the database.

    >>> name_of("s3://bank/2026/transfers.parquet")
    'transfers'
    """
    return str(getattr(source, "graph_name", source)) if isinstance(source, Table) else Path(str(source)).stem


@dataclass(frozen=True, eq=False)
class _Files(Table):
    """Files that are one table, read one after the other."""

    name: str
    places: tuple[Place, ...]

    def stamp(self) -> list[Any]:
        """Of every file."""
        return [place.stamp() for place in self.places]

    def _require(self, place: Place, there: Sequence[str], wanted: Sequence[str]) -> None:
        """All files of a folder must have the columns of the first."""
        missing = [title for title in wanted if title not in there]
        if missing:
            raise DataError(
                f"{place.name}: must have the columns of the other files, got none named {', '.join(map(repr, missing))}"
            )


@dataclass(frozen=True, eq=False)
class ParquetFiles(_Files):
    """Parquet files that are one table."""

    def count(self) -> int:
        """From the ends of the files."""
        return sum(self._opened(place).metadata.num_rows for place in self.places)

    def pieces(self, size: int, titles: Sequence[str]) -> Iterator[Piece]:
        """One file after the other."""
        for place in self.places:
            file, first = self._opened(place), 0
            self._require(place, file.schema_arrow.names, titles)
            with readable(place.name):
                for batch in file.iter_batches(batch_size=min(size, _MOST), columns=list(titles)):
                    # the file has them in its own order
                    yield Piece(place.name, first, batch.select(list(titles)))
                    first += len(batch)

    def _titles(self) -> list[str]:
        # pandas stores an unnamed index as a column of this name; it says nothing about the node
        names = self._opened(self.places[0]).schema_arrow.names
        return [title for title in names if not re.fullmatch(r"__index_level_\d+__", title)]

    def _opened(self, place: Place) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(place.open())
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{place.name}: must be Parquet that can be read: {without_secrets(str(error))[:300]}"
            ) from error


@dataclass(frozen=True, eq=False)
class CsvFiles(_Files):
    """CSV files that are one table, with a line of titles each. Cells are text; an empty one is missing."""

    rules: ColumnRules = field(default_factory=ColumnRules)

    def pieces(self, size: int, titles: Sequence[str]) -> Iterator[Piece]:
        """One file after the other."""
        from pyarrow import csv as arrow

        convert = arrow.ConvertOptions(
            include_columns=[self._as_written[title] for title in titles],
            column_types=dict.fromkeys(self._as_written.values(), "string"),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            null_values=[""],
        )
        read = arrow.ReadOptions(use_threads=False, block_size=_BLOCK, encoding=self.rules.encoding or "utf8")
        for place in self.places:
            self._require(place, [unescaped(title) for title in self._header(place)], titles)
            parse = arrow.ParseOptions(delimiter=self._separator, newlines_in_values=True)
            first = 0
            with self._reading(place), place.filesystem.open_input_stream(place.path) as stream:
                for cells in arrow.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert):
                    batch = cells.from_arrays([unescaped_column(column) for column in cells.columns], list(titles))
                    for start in range(0, len(batch), size):
                        yield Piece(place.name, first + start, batch.slice(start, size))
                    first += len(batch)

    @property
    def _separator(self) -> str:
        return self.rules.separator or ","

    @cached_property
    def _as_written(self) -> dict[str, str]:
        """The titles in the file."""
        return {unescaped(title): title for title in self._header(self.places[0])}

    def _titles(self) -> list[str]:
        return [unescaped(title) for title in self._header(self.places[0])]

    def _header(self, place: Place) -> list[str]:
        with self._reading(place), place.filesystem.open_input_stream(place.path) as stream:
            head = stream.read(1 << 20)
            errors = "strict" if len(head) < 1 << 20 else "ignore"
            line = io.StringIO(head.decode(self.rules.encoding or _UTF_8, errors), newline="")
            titles = next(csv.reader(line, delimiter=self._separator), [])
        _require_line_of_titles(place.name, titles, self._separator)
        return titles

    @contextmanager
    def _reading(self, place: Place) -> Iterator[None]:
        """Errors become one line that names the file; text in another encoding is told with the flag that declares it."""
        import pyarrow as pa

        try:
            yield
        except (OSError, UnicodeError, csv.Error, pa.ArrowException) as error:
            # filled up from the right, a short row would lose its label and gain a feature; the line of titles is row 1 of Arrow
            ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", str(error))
            if ragged:
                row, expected, actual = map(int, ragged.groups())
                raise DataError(f"{place.name}: row {row - 1} must have {expected} cells, got {actual}") from None
            encoded = "UTF8" in str(error) or isinstance(error, UnicodeError)
            words = f"must be {self.rules.encoding or 'UTF-8'} (--encoding latin-1)" if encoded else "cannot be read"
            raise DataError(f"{place.name}: {words}: {without_secrets(str(error))[:300]}") from None


def _require_line_of_titles(name: str, titles: list[str], separator: str) -> None:
    """The first line of a CSV file must hold titles: with another separator, or without them, cells would be lost."""
    check_titles(name, titles)
    sign = re.search(r"[,;\t|]", titles[0]) if len(titles) == 1 else None
    if sign:
        raise DataError(
            f"{name}: the first line must hold the column titles separated by {separator_word(separator)!r}, got "
            f"{listed(titles)}; give --separator {quoted(separator_word(sign[0]))}"
        )
    if any(not title.strip() for title in titles):
        raise DataError(f"{name}: the first line must hold the column titles, got an empty one at {listed(titles)}")
    if all(re.fullmatch(r"\s*[-+]?[0-9.]+\s*", title) for title in titles):
        raise DataError(f"{name}: the first line must hold the column titles, got numbers: {listed(titles)}")


@dataclass(frozen=True, eq=False)
class FrameTable(Table):
    """A frame of any library that narwhals knows, under a name for messages."""

    name: str
    native: Any

    def pieces(self, size: int, titles: Sequence[str]) -> Iterator[Piece]:
        """From memory."""
        import pyarrow as pa

        table = self._narwhals.collect("pyarrow") if hasattr(self._narwhals, "collect") else self._narwhals
        native = table.to_native()
        if hasattr(native, "iloc"):
            columns = [arrow_cells(native.iloc[:, self.titles.index(title)], title, self.name) for title in titles]
        else:
            columns = table.select(list(titles)).to_arrow().columns
        first = 0
        for batch in pa.table(dict(zip(titles, columns, strict=True))).to_batches(size):
            yield Piece(self.name, first, batch)
            first += len(batch)

    def _titles(self) -> list[str]:
        return [str(title) for title in self._narwhals.collect_schema().names()]

    @cached_property
    def _narwhals(self) -> Any:
        import narwhals as nw

        try:
            return nw.from_native(self.native)
        except TypeError as error:
            # The type only: what was passed may be a table of private data.
            kind = f"{type(self.native).__module__}.{type(self.native).__name__}{reading_call(self.native)}"
            raise InputError(f"{self.name} must be a frame of pandas, polars, Arrow or DuckDB, got {kind}") from error


@dataclass(frozen=True, eq=False)
class HeldTable(Table):
    """Some columns of a table, read once and held in memory: what may come in another order next time is in one for good."""

    name: str
    held: tuple[Piece, ...]
    columns: tuple[str, ...]

    @classmethod
    def of(cls, table: Table, titles: Sequence[str]) -> HeldTable:
        """Read them; more than fits into memory is refused before it is full."""
        held, needed = [], 0
        for piece in table.pieces(_MOST, titles):
            held.append(piece)
            needed += 2 * piece.batch.nbytes  # and what is made of it
            require_memory(needed, f"{table.name}: {len(titles)} columns")
        return cls(table.name, tuple(held), tuple(titles))

    def pieces(self, size: int, titles: Sequence[str]) -> Iterator[Piece]:
        """From memory."""
        for piece in self.held:
            batch = piece.batch.select(list(titles))
            for first in range(0, max(1, len(batch)), size):
                yield Piece(piece.name, piece.first + first, batch.slice(first, size))

    def _titles(self) -> list[str]:
        return list(self.columns)


def copied(table: Table, titles: Sequence[str], path: Path) -> Table:
    """Some columns of a table, in one order for good: the table itself, or a copy in a private file."""
    if table.is_stable:
        return table
    import pyarrow as pa
    import pyarrow.parquet as pq

    with ExitStack() as opened:
        writer = None
        for piece in table.pieces(1 << 16, titles):
            if writer is None:
                writer = opened.enter_context(pq.ParquetWriter(path, piece.batch.schema))
            _require_kinds(table.name, writer.schema, piece.batch.schema)
            try:
                writer.write_batch(piece.batch.cast(writer.schema))
            except pa.ArrowInvalid as error:
                raise DataError(f"{table.name}: columns must be of one type in all rows: {error}") from None
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


def arrow_cells(cells: Any, title: str, name: str) -> Any:
    """Cells of a column in Arrow. Where types are mixed, as in a column of SQLite, cells become text, each by itself."""
    import datetime
    import decimal
    import uuid

    import numpy as np
    import pandas as pd
    import pyarrow as pa

    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowException, TypeError, OverflowError):
        pass
    known = (str, bool, int, float, decimal.Decimal, uuid.UUID, datetime.date, datetime.time, np.number, np.bool_)
    texts = [None if cell is None or cell is pd.NA or cell != cell else cell for cell in cells]
    other = next((cell for cell in texts if cell is not None and not isinstance(cell, known)), None)
    if other is not None:
        raise DataError(f"{name}: column {title!r} must hold numbers or text, got {type(other).__name__}")
    return pa.array([None if cell is None else word_of(cell) for cell in texts], pa.string())
