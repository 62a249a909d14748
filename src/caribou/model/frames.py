"""Tables of predictions and embeddings, with the ids of their nodes and the user's own words for the classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from caribou.metrics import Threshold

if TYPE_CHECKING:
    import pandas as pd


def class_array(names: Sequence[str]) -> np.ndarray:
    """Names of classes for comparing with labels: whole numbers as int64 if all of them are, else words. [C]

    >>> class_array(["0", "1"]), class_array(["ok", "1"])
    (array([0, 1]), array(['ok', '1'], dtype='<U2'))
    """
    numbers = [int(name) for name in names if name.removeprefix("-").isdecimal() and str(int(name)) == name]
    return np.array(numbers, dtype=np.int64) if len(numbers) == len(names) else np.array(names)


def predictions_tables(
    probabilities: np.ndarray,
    classes: Sequence[str],
    ids: Sequence[str] | None,
    title: str | None,
    threshold: Threshold | None,
    new: np.ndarray | None = None,
    rows: int | None = 1 << 16,
) -> Iterator[pd.DataFrame]:
    """A row per node: id, most likely class and its probability, whether it is flagged, whether it is new, and all probabilities.

    ``probabilities``: [n, C]; ``new``: [n], bool, of a release that was extended. ``rows``: of a table; None: all are in one.
    """
    taken = title in ("class", "probability", "flagged", "new")
    first = 0
    for table in tables_with_ids(probabilities, [f"p_{name}" for name in classes], ids, None if taken else title, rows):
        part = slice(first, first + len(table))
        table.insert(1, "class", [classes[k] for k in probabilities[part].argmax(axis=1)])
        table.insert(2, "probability", probabilities[part].max(axis=1))
        if threshold is not None:
            table.insert(3, "flagged", threshold.flags(probabilities[part]))
        if new is not None:
            table.insert(3, "new", new[part])
        first += len(table)
        yield table


def tables_with_ids(
    values: np.ndarray, columns: Sequence[str], ids: Sequence[str] | None, title: str | None, rows: int | None = 1 << 16
) -> Iterator[pd.DataFrame]:
    """The values, [n, d], with the ids before them under their title; ``node`` if they have none, or another column has it.

    ``rows``: of a table; None: all are in one.
    """
    import pandas as pd

    own = title is not None and ids is not None and title not in columns
    size = rows or len(values)
    for first in range(0, max(1, len(values)), max(1, size)):
        part = slice(first, min(first + size, len(values)))
        table = pd.DataFrame(values[part], columns=list(columns))
        names = list(ids[part]) if ids is not None else range(part.start, part.stop)
        table.insert(0, title if own else "node", names)
        yield table
