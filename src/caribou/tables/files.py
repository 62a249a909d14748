"""Tables in files, CSV or Parquet."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from caribou.errors import CaribouError, DataError
from caribou.graph import listed as _listed
from caribou.tables import cells as columns
from caribou.tables.csv_format import COMMAS, UTF_8, CsvFormat, csv_format
from caribou.tables.read import check_titles, rows_of
from caribou.tables.rules import separator_word

ENDINGS = (".csv", ".parquet", ".pq")


@dataclass(frozen=True)
class FileTable:
    """A CSV or Parquet file as a table; ``format``: how a CSV file is written."""

    path: Path
    format: CsvFormat = COMMAS

    def __str__(self) -> str:
        return str(self.path)

    def titles(self) -> list[str]:
        """Titles of the columns, each once."""
        return _header(self.path, self.format)

    def frame(self, as_text: set[str], only: list[str] | None = None) -> Any:
        """The cells."""
        return _frame(self.path, self.format, as_text, only)


def column_titles(path: Path) -> list[str]:
    """Titles of the columns of a table, each once."""
    return _header(path, csv_format(path))


def text_cells(path: Path, titles: Sequence[str]) -> list[np.ndarray]:
    """The cells of some columns of a table as normalised text; None where a cell is empty. [rows] each"""
    frame = _frame(path, csv_format(path), set(titles), only=list(titles))
    return [columns.texts(frame[title], title, rows_of(path)) for title in titles]


def _header(path: Path, how: CsvFormat) -> list[str]:
    """Titles of the columns, each once."""
    try:
        titles = _csv_header(path, how) if path.suffix.lower() == ".csv" else _parquet_header(path)
    except CaribouError:
        raise
    except Exception as error:  # decoding, csv and Arrow errors have no common base
        raise _unreadable(path, how, error) from error
    check_titles(path, titles)
    return titles


def _csv_header(path: Path, how: CsvFormat) -> list[str]:
    with open(path, encoding=how.encoding, newline="") as file:
        titles = next(csv.reader(file, delimiter=how.separator), [])
    require_line_of_titles(path, titles, how.separator)
    return titles


def require_line_of_titles(path: object, titles: list[str], separator: str) -> None:
    """The first line of a CSV file must hold titles: with another separator, or without them, cells would be lost."""
    sign = re.search(r"[,;\t|]", titles[0]) if len(titles) == 1 else None
    if sign:
        raise DataError(
            f"{path}: the first line must hold the column titles separated by {separator_word(separator)!r}, got "
            f"{_listed(titles)}; give --separator {columns.quoted(separator_word(sign[0]))}"
        )
    if any(not title.strip() for title in titles):
        raise DataError(f"{path}: the first line must hold the column titles, got an empty one at {_listed(titles)}")
    if titles and all(re.fullmatch(r"\s*[-+]?[0-9.]+\s*", title) for title in titles):
        raise DataError(f"{path}: the first line must hold the column titles, got numbers: {_listed(titles)}")


def _parquet_header(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        # pandas stores an unnamed index as a column of this name; it says nothing about the node.
        return [title for title in file.schema_arrow.names if not re.fullmatch(r"__index_level_\d+__", title)]


def _frame(path: Path, how: CsvFormat, as_text: set[str], only: list[str] | None = None) -> Any:
    header = only if only is not None else _header(path, how)
    try:
        frame = _csv_frame(path, how, as_text, only) if path.suffix.lower() == ".csv" else _parquet_frame(path, header)
    except CaribouError:
        raise
    except Exception as error:  # parser, decoding and Arrow errors have no common base
        raise _unreadable(path, how, error) from error
    return frame


def _check_cells(path: Path, how: CsvFormat) -> None:
    """Every row of a CSV file must have as many cells as there are titles: pandas would fill a short one up from the right."""
    from pyarrow import csv as arrow

    wrong: list[tuple[int, int, int]] = []

    def note(row: Any) -> str:
        if not wrong:
            wrong.append((row.number or 0, row.expected_columns, row.actual_columns))
        return "skip"

    title = _header(path, how)[0]
    with arrow.open_csv(
        path,
        read_options=arrow.ReadOptions(use_threads=False, encoding="utf-8" if how.encoding == UTF_8 else how.encoding),
        parse_options=arrow.ParseOptions(delimiter=how.separator, newlines_in_values=True, invalid_row_handler=note),
        convert_options=arrow.ConvertOptions(include_columns=[title], column_types={title: "string"}),
    ) as reader:
        for _ in reader:
            if wrong:
                break
    if wrong:
        number, expected, actual = wrong[0]
        raise DataError(f"{path}: row {number - 1} must have {expected} cells, got {actual}")


def _csv_frame(path: Path, how: CsvFormat, as_text: set[str], only: list[str] | None) -> Any:
    import pandas as pd

    _check_cells(path, how)
    with warnings.catch_warnings():
        # Rows longer than the line of titles would lose cells, or shift them, with no more than a warning.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(
            path,
            sep=how.separator,
            index_col=False,
            # where a decimal mark is declared, 1.234 may be 1234: no number is read before its column is
            dtype=str if how.text else dict.fromkeys(as_text, str),
            # Only an empty cell is missing: a node may be called NA.
            keep_default_na=False,
            na_values=[""],
            encoding=how.encoding,
            low_memory=False,
        )
    return frame if only is None else frame[only]


def _parquet_frame(path: Path, header: list[str]) -> Any:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        # The index that pandas noted in the metadata is not restored: an id column must stay a column.
        # Whole numbers beside an empty cell stay whole: as floats, large ones would be rounded.
        return file.read(columns=header).to_pandas(ignore_metadata=True, integer_object_nulls=True)[header]


def _unreadable(path: Path, how: CsvFormat, error: Exception) -> DataError:
    encoding = "UTF-8" if how.encoding == UTF_8 else how.encoding
    kind = f"CSV ({encoding})" if path.suffix.lower() == ".csv" else "Parquet"
    message = " ".join(str(error).split())
    return DataError(f"{path}: not a readable {kind} table ({type(error).__name__}: {message[:200]})")
