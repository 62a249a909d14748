"""Columns of a node table: what a cell means. Shared by the readers of CSV, Parquet and GraphML.

Ids and labels are compared as text after one normalisation, so that the number 1 of a Parquet file and the cell ``1`` of
a CSV file are the same node: whole numbers are written in decimal without a fraction, text loses the blanks around it and
nothing else (``01`` is not ``1``), an empty cell is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from caribou.errors import DataError
from caribou.graph import Split

#: Says where entry k of a column stands, for messages: ``nodes.csv: row 3``.
Place = Callable[[int], str]

_PARTS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}


def texts(column: Any, title: str, place: Place) -> np.ndarray:
    """Cells of a pandas column as normalised text; None where the cell is empty."""
    cells = column.astype(object).to_numpy()
    result = np.full(len(cells), None, dtype=object)
    for k in np.flatnonzero(~column.isna().to_numpy(dtype=bool)):
        result[k] = _text(cells[k], title, place, int(k)) or None
    return result


def label_texts(column: Any) -> list[str | None]:
    """Cells of a column of labels as `texts` normalises them; None also for a cell that can be no label. Each by itself."""
    cells: list[str | None] = []
    for cell, empty in zip(column.astype(object), column.isna().to_numpy(dtype=bool), strict=True):
        try:
            cells.append(None if empty else _text(cell, "", lambda k: "", 0) or None)
        except DataError:
            cells.append(None)
    return cells


def _text(cell: Any, title: str, place: Place, k: int) -> str:
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, bool | int | np.bool_ | np.integer):
        return str(cell)
    if isinstance(cell, float | np.floating) and math.isfinite(cell) and float(cell).is_integer():
        return str(int(cell))
    raise DataError(f"{place(k)}: column {title!r} must hold text or whole numbers, got {_shown(cell)}")


def unique_ids(ids: np.ndarray, title: str, place: Place) -> np.ndarray:
    """The ids, all there and all different; as int64 where every id is a plain whole number."""
    import pandas as pd

    empty = np.flatnonzero([cell is None for cell in ids])
    if len(empty):
        raise DataError(f"{place(int(empty[0]))}: column {title!r} must hold an id, got an empty cell")
    repeated = np.flatnonzero(pd.Index(ids).duplicated())
    if len(repeated):
        first = int(np.flatnonzero(ids == ids[repeated[0]])[0])
        raise DataError(
            f"{place(int(repeated[0]))}: column {title!r} must hold unique ids, "
            f"got {_shown(ids[repeated[0]])} again (first in row {first + 1})"
        )
    if all(_is_plain_number(cell) for cell in ids):
        return ids.astype(np.int64)
    return ids.astype(np.str_)


def _is_plain_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 18 and str(int(text)) == text


def positions(ends: np.ndarray, ids: np.ndarray, title: str, place: Place) -> np.ndarray:
    """Index of each id of an edge column in the node table."""
    import pandas as pd

    found = pd.Index(ids).get_indexer(pd.Index(ends))
    unknown = np.flatnonzero(found < 0)
    if len(unknown):
        k = int(unknown[0])
        raise DataError(f"{place(k)}: column {title!r} must hold an id of the node table, got {_shown(ends[k])}")
    return found.astype(np.int64)


def classes(cells: np.ndarray, title: str, place: Place) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels 0..C-1 in sorted order (-1 = empty cell) and the names of the classes.

    The order is numerical when every label is a number, else that of the text.
    """
    known = {cell for cell in cells if cell is not None}
    numbers = {cell: number for cell in known if (number := _number(cell)) is not None}
    if len(numbers) == len(known):
        fraction = next(
            (k for k, cell in enumerate(cells) if cell is not None and not numbers[cell].is_integer()), None
        )
        if fraction is not None:
            raise DataError(f"{place(fraction)}: column {title!r} must hold classes, got {_shown(cells[fraction])}")
        names = tuple(sorted(known, key=lambda cell: (numbers[cell], cell)))
    else:
        names = tuple(sorted(known))
    code = {cell: k for k, cell in enumerate(names)}
    return np.array([-1 if cell is None else code[cell] for cell in cells], dtype=np.int64), names


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def parts(cells: np.ndarray, title: str, place: Place) -> Split:
    """The split: words train, val (valid, validation), test; an empty cell puts the node in no part."""
    code = np.full(len(cells), -1)
    for k, cell in enumerate(cells):
        if cell is None:
            continue
        part = _PARTS.get(cell.lower())
        if part is None:
            raise DataError(f"{place(k)}: column {title!r} must be train, val or test, got {_shown(cell)}")
        code[k] = part
    return Split(*(np.flatnonzero(code == part) for part in range(3)))


def numbers(frame: Any, titles: list[str], place: Place, hint: str = "") -> np.ndarray:
    """The feature columns as one float32 array; each cell must be a finite number. A row of empty cells alone is zero.

    ``hint`` ends the message about a cell that is no number.
    """
    features = np.empty((len(frame), len(titles)), np.float32)
    blank = np.ones(len(frame), dtype=bool)
    for title in titles:
        blank &= frame[title].isna().to_numpy(dtype=bool)
    for j, title in enumerate(titles):
        values = _column_numbers(frame[title], title, place, hint, blank)
        with np.errstate(over="ignore"):  # reported just below, with its place
            features[:, j] = values
        bad = np.flatnonzero(~np.isfinite(features[:, j]))
        if len(bad):
            k = int(bad[0])
            raise DataError(f"{place(k)}: column {title!r} must hold {_unfit(values[k])}")
    return features


def _unfit(value: float) -> str:
    """The rule that a number breaks, and the number."""
    if math.isnan(value):
        return "numbers, got an empty cell (nan)"
    if math.isinf(value):
        return f"finite numbers, got {value}"
    return f"numbers of at most {np.finfo(np.float32).max:.2g} in size, got {value}"


def _column_numbers(column: Any, title: str, place: Place, hint: str, blank: np.ndarray) -> np.ndarray:
    import pandas as pd
    from pandas.api import types

    missing = column.isna().to_numpy(dtype=bool)
    numeric = types.is_bool_dtype(column.dtype) or types.is_any_real_numeric_dtype(column.dtype)
    if numeric:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        cells = column.astype(object)
        plain = cells.map(lambda cell: isinstance(cell, str | bool | int | float | np.number | np.bool_))
        values = pd.to_numeric(cells.where(plain.astype(bool)), errors="coerce").to_numpy(np.float64, na_value=np.nan)
        wrong = np.flatnonzero(np.isnan(values) & ~missing)
        if len(wrong):
            k = int(wrong[0])
            raise DataError(f"{place(k)}: column {title!r} must hold numbers, got {_shown(cells.iloc[k])}{hint}")
    values = np.where(blank, 0.0, values)
    missing = missing & ~blank
    if missing.any() and column.dtype.kind != "f":
        k = int(np.flatnonzero(missing)[0])
        raise DataError(f"{place(k)}: column {title!r} must hold numbers, got an empty cell")
    return values


def _shown(cell: Any) -> str:
    """The offending cell, shortened: a message is one line."""
    shown = repr(cell)
    return shown if len(shown) <= 60 else shown[:57] + "..."
