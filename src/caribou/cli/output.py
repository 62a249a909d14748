"""What commands print and write. Words of the user are shown as they are, never as markup."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from caribou.errors import InputError
from caribou.machine.files import atomic_file

if TYPE_CHECKING:
    import pandas as pd
    from rich.text import Text


TABLES = (".csv", ".parquet")
"""Endings of tables that commands write."""


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON object on stdout."""
    typer.echo(json.dumps(document, indent=2))


def print_line(*parts: str | tuple[str, str]) -> None:
    """One line; a part may have a style."""
    from rich.console import Console
    from rich.text import Text

    Console().print(Text.assemble(*parts), soft_wrap=True)


def print_facts(rows: Iterable[tuple[str | Text, ...]]) -> None:
    """A table without titles: what, and its value."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    for number, row in enumerate(rows):
        if number == 0:
            for place in range(len(row)):
                # a path or a number that is cut off is a wrong one
                table.add_column(no_wrap=place == 0, overflow="fold")
        table.add_row(*map(_shown, row))
    Console().print(table)


def print_table(
    titles: Sequence[str], rows: Iterable[Sequence[str | Text]], caption: str | None = None, *, numbers: bool = False
) -> None:
    """A table with titles. ``numbers``: all columns but the first are numbers, to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(caption=caption, caption_justify="left")
    for place, title in enumerate(titles):
        table.add_column(title, overflow="fold", justify="right" if numbers and place else "left")
    for row in rows:
        table.add_row(*map(_shown, row))
    Console().print(table)


def _shown(cell: str | Text) -> Text:
    from rich.text import Text

    return cell if isinstance(cell, Text) else Text(cell)


# -- files ------------------------------------------------------------------------------------------------------------


def check_table(out: Path, endings: tuple[str, ...] = TABLES, field: str = "out") -> None:
    """A table that can be written: a known ending, a new file, in a folder that can be written. ``field`` is its option."""
    from caribou.model.state import require_writable

    if out.suffix not in endings:
        raise InputError(f"{field} must end in {' or '.join(endings)}, got {str(out)!r}")
    if not out.absolute().parent.is_dir() or out.is_dir():
        raise InputError(f"{field} must be a file in a folder that exists, got {str(out)!r}")
    if out.exists():
        raise InputError(f"{field} must be a new file, got {str(out)!r}, which exists")
    require_writable(out.absolute().parent, str(out), field)


def write_pieces(tables: Iterable[pd.DataFrame], out: Path, keep_formulas: bool = False) -> None:
    """Tables of the same columns as one, each as it comes; by the ending of the file, whole or not at all.

    ``keep_formulas``: text of a CSV file that a spreadsheet would run is not escaped.
    """
    if out.suffix == ".csv" and not keep_formulas:
        tables = map(_without_formulas, tables)
    write_whole(out, functools.partial(_write_csv if out.suffix == ".csv" else _write_parquet, tables))


def _without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    from caribou.tables.formulas import escaped

    texts = {title: list(map(escaped, table[title])) for title in _texts(table)}
    return table.assign(**texts).rename(columns=escaped)


def _texts(table: pd.DataFrame) -> list[str]:
    return [title for title in table.columns if table[title].dtype.kind == "O"]


def _write_csv(tables: Iterable[pd.DataFrame], path: Path) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        for number, table in enumerate(tables):
            # pandas leaves a carriage return without quotes, and readers begin a new row there
            broken = any("\r" in str(cell) for title in _texts(table) for cell in table[title])
            quoting = csv.QUOTE_NONNUMERIC if broken else csv.QUOTE_MINIMAL
            table.to_csv(file, index=False, header=number == 0, quoting=quoting)


def _write_parquet(tables: Iterable[pd.DataFrame], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with ExitStack() as opened:
        writer = None
        for table in tables:
            rows = pa.Table.from_pandas(table, None if writer is None else writer.schema, preserve_index=False)
            if writer is None:
                writer = opened.enter_context(pq.ParquetWriter(path, rows.schema))
            writer.write_table(rows)


def write_whole(out: Path, write: Callable[[Path], object]) -> None:
    """Whole or not at all."""
    try:
        with atomic_file(out) as temporary:
            write(temporary)
    except OSError as error:
        raise InputError(
            f"out must be a file that can be written, got {str(out)!r}: {error.strerror}; a release that was paid for is kept in "
            "the run: give another --out"
        ) from error
