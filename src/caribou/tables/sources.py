"""Tables of any kind, read in pieces and never held whole: Parquet, CSV, Delta and queries, here or in an object store."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from caribou.errors import DataError, InputError
from caribou.tables.csv_format import likely_separator
from caribou.tables.files import require_line_of_titles
from caribou.tables.queries import StreamedQuery
from caribou.tables.read import check_titles
from caribou.tables.stores import Place, is_address, located, readable, without_secrets

Source = str | Path | StreamedQuery
"""A path, an address, or a query."""
_PARQUET = (".parquet", ".pq")
_CSV = (".csv",)
_BLOCK = 4 << 20
"""Bytes of a CSV file that are parsed together."""


@dataclass(frozen=True)
class Piece:
    """Some rows of a table: ``first`` is the number of the first one in the file ``name``, from 0.

    ``spelled``: every cell is text, and numbers are spelled, as in CSV.
    """

    name: str
    first: int
    batch: Any
    spelled: bool = False

    def row(self, k: int) -> str:
        """Where entry k stands, rows counted from 1 as in tables that are read into memory."""
        return f"{self.name}: row {self.first + k + 1}"

    def index(self, k: int) -> str:
        """Where entry k stands, counted as node numbers are."""
        return f"{self.name}: row {self.first + k} (from 0)"


@dataclass(frozen=True)
class Rows:
    """Where the rows of a table stand that was read piece by piece. Pieces are noted as they come."""

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
        _, name, shift = self._pieces[bisect_right(self._pieces, row, key=lambda piece: piece[0])]
        return Piece(name, shift, None).row(row)


class Table(Protocol):
    """What sources of edges and features need of a table. ``is_stable``: two readings give the rows in one order."""

    is_stable: bool

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def titles(self) -> list[str]:
        """Titles of the columns, each once."""

    def count(self) -> int:
        """How many rows there are."""

    def pieces(self, size: int, titles: Sequence[str]) -> Iterator[Piece]:
        """Some columns, at most ``size`` rows at a time."""

    def stamp(self) -> list[Any]:
        """Tells a changed table from the one that was; plain JSON values."""


def open_table(source: Source, separator: str | None = None) -> Table:
    """The table that a source names, by what is there; no row is read. ``separator``: of CSV files (default: as titles show)."""
    if isinstance(source, StreamedQuery):
        return QueryTable(source)
    place = located(source)
    kind = place.kind()
    if kind == "nothing":
        raise DataError(f"{place.name}: must be there and readable, got nothing")
    if kind == "folder":
        return _folder(place, separator)
    if place.suffix in _PARQUET:
        return ParquetFiles(place.name, (place,))
    if place.suffix in _CSV:
        return CsvFiles(place.name, (place,), separator)
    raise DataError(
        f"{place.name}: must be a .npy, .parquet or .csv file, a folder of .parquet or .csv files, or a Delta table"
    )


def _folder(place: Place, separator: str | None) -> Table:
    if place.inside("_delta_log").kind() == "folder":
        return DeltaFiles(place)
    files = place.files()
    if any(file.path.endswith(".metadata.json") for file in files):
        # its Parquet files hold old and deleted rows, too
        raise DataError(
            f"{place.name}: must be Parquet, CSV or a Delta table, got an Iceberg table: write its rows to Parquet"
        )
    parquet = tuple(file for file in files if file.suffix in _PARQUET)
    text = tuple(file for file in files if file.suffix in _CSV)
    if parquet and text:
        raise DataError(f"{place.name}: must hold .parquet files or .csv files, got both")
    if text:
        return CsvFiles(place.name, text, separator)
    if parquet:
        return ParquetFiles(place.name, parquet)
    raise DataError(f"{place.name}: must hold at least one .parquet file or .csv file, got none")


def stamp_of(source: Source) -> list[Any]:
    """Of a table or an array; see `Table.stamp`."""
    if not isinstance(source, StreamedQuery):
        place = located(source)
        if place.kind() == "file":
            return [place.stamp()]
    return open_table(source).stamp()


def identity_of(source: Source) -> str:
    """The source as a record of a run names it: a path of this machine as an absolute one."""
    if isinstance(source, StreamedQuery) or is_address(source):
        return str(source)
    return str(Path(source).absolute())


def name_of(source: Source) -> str:
    """The name of the graph, if nobody gives one: of the file without its ending, or of the database.

    >>> name_of("s3://bank/2026/transfers.parquet")
    'transfers'
    """
    return source.name if isinstance(source, StreamedQuery) else Path(str(source)).stem


@dataclass(frozen=True, eq=False)
class ParquetFiles:
    """Parquet files that are one table."""

    name: str
    places: tuple[Place, ...]
    is_stable = True

    @property
    def titles(self) -> list[str]:
        """Those of the first file."""
        return list(self._opened(self.places[0]).schema_arrow.names)

    def count(self) -> int:
        """From the ends of the files."""
        return sum(self._opened(place).metadata.num_rows for place in self.places)

    def pieces(self, size: int, titles: Sequence[str]) -> Iterator[Piece]:
        """One file after the other."""
        for place in self.places:
            file, first = self._opened(place), 0
            _require_titles(place.name, file.schema_arrow.names, titles)
            with readable(place.name):
                for batch in file.iter_batches(batch_size=size, columns=list(titles)):
                    # the file has them in its own order
                    yield Piece(place.name, first, batch.select(list(titles)))
                    first += len(batch)

    def stamp(self) -> list[Any]:
        """Of every file."""
        return [place.stamp() for place in self.places]

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
class CsvFiles:
    """CSV files that are one table, UTF-8 with a line of titles each. Cells are text; an empty one is missing."""

    name: str
    places: tuple[Place, ...]
    separator: str | None = None
    is_stable = True

    @cached_property
    def titles(self) -> list[str]:
        """Those of the first file."""
        return self._header(self.places[0])

    def count(self) -> int:
        """By reading the files once."""
        return sum(len(piece.batch) for piece in self.pieces(1 << 20, self.titles[:1]))

    def pieces(self, size: int, titles: Sequence[str]) -> Iterator[Piece]:
        """One file after the other."""
        from pyarrow import csv

        for place in self.places:
            _require_titles(place.name, self._header(place), titles)
            parse = csv.ParseOptions(delimiter=self._sign(place), newlines_in_values=True)
            convert = csv.ConvertOptions(
                include_columns=list(titles),
                column_types=dict.fromkeys(titles, "string"),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                null_values=[""],
            )
            with readable(place.name), place.filesystem.open_input_stream(place.path) as stream:
                first = 0
                for batch in csv.open_csv(
                    stream,
                    read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK),
                    parse_options=parse,
                    convert_options=convert,
                ):
                    for start in range(0, len(batch), size):
                        yield Piece(place.name, first + start, batch.slice(start, size), spelled=True)
                    first += len(batch)

    def stamp(self) -> list[Any]:
        """Of every file."""
        return [place.stamp() for place in self.places]

    def _header(self, place: Place) -> list[str]:
        import csv

        sign = self._sign(place)
        titles = next(csv.reader(self._lines(place)[:1], delimiter=sign), [])
        require_line_of_titles(place.name, titles, sign)
        check_titles(place.name, titles)
        return titles

    def _sign(self, place: Place) -> str:
        return self.separator or likely_separator([line for line in self._lines(place) if line.strip()])

    def _lines(self, place: Place) -> list[str]:
        """The first two lines."""
        with readable(place.name), place.filesystem.open_input_stream(place.path) as stream:
            head = stream.read(1 << 20)
        try:
            lines = io.StringIO(head.decode("utf-8-sig", "strict" if len(head) < 1 << 20 else "ignore"), newline="")
        except UnicodeDecodeError:
            raise DataError(
                f"{place.name}: must be UTF-8, got another encoding: write it as UTF-8 or Parquet"
            ) from None
        return [lines.readline(), lines.readline()]


@dataclass(frozen=True, eq=False)
class QueryTable:
    """The rows of a query. Without ORDER BY two readings may differ in the order of rows."""

    query: StreamedQuery
    is_stable = False

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.query)

    @cached_property
    def titles(self) -> list[str]:
        """As the database gives them."""
        found = self.query.titles()
        check_titles(self.name, found)
        return found

    def count(self) -> int:
        """As the database counts."""
        return self.query.count()

    def pieces(self, size: int, titles: Sequence[str]) -> Iterator[Piece]:
        """As the database gives them."""
        first = 0
        for batch in self.query.batches(size, titles):
            yield Piece(self.name, first, batch)
            first += len(batch)

    def stamp(self) -> list[Any]:
        """The text, and the file of the database."""
        return self.query.stamp()


@dataclass(frozen=True, eq=False)
class DeltaFiles:
    """The present version of a Delta table."""

    place: Place
    is_stable = True

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.place.name

    @property
    def titles(self) -> list[str]:
        """As its schema has them."""
        return list(self._dataset.schema.names)

    def count(self) -> int:
        """From the ends of its files."""
        with readable(self.name):
            return int(self._dataset.count_rows())

    def pieces(self, size: int, titles: Sequence[str]) -> Iterator[Piece]:
        """One file after the other, in the order of their names."""
        first = 0
        with readable(self.name):
            for fragment in sorted(self._dataset.get_fragments(), key=lambda one: one.path):
                for batch in fragment.to_batches(
                    schema=self._dataset.schema, columns=list(titles), batch_size=size, use_threads=False
                ):
                    yield Piece(self.name, first, batch)
                    first += len(batch)

    def stamp(self) -> list[Any]:
        """The version, and its files."""
        return [self._table.version(), sorted(self._table.file_uris())]

    @cached_property
    def _dataset(self) -> Any:
        with self._reading():
            return self._table.to_pyarrow_dataset()

    @cached_property
    def _table(self) -> Any:
        with self._reading() as deltalake:
            return deltalake.DeltaTable(self.name)

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """The package, if it is installed; its errors become ours."""
        try:
            import deltalake
            from deltalake.exceptions import DeltaError
        except ImportError:
            raise InputError(
                f"{self.name} is a Delta table and needs deltalake, got an installation without it: "
                "pip install 'caribou-gnn[delta]'"
            ) from None
        try:
            yield deltalake
        except (DeltaError, OSError, ValueError) as error:
            raise DataError(
                f"{self.name}: the Delta table cannot be read: {without_secrets(str(error))[:300]}"
            ) from None


def _require_titles(name: str, there: Sequence[str], wanted: Sequence[str]) -> None:
    """All files of a folder must have the columns of the first."""
    missing = [title for title in wanted if title not in there]
    if missing:
        raise DataError(
            f"{name}: must have the columns of the other files, got none named {', '.join(map(repr, missing))}"
        )
