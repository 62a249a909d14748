"""Class probabilities of the user's own from a file: a column of node ids, and one column per class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from caribou.errors import DataError, InputError
from caribou.graph import Graph, listed
from caribou.tables import cells as columns
from caribou.tables import sources
from caribou.tables.ids import text_columns
from caribou.tables.read import rows_of

ID = "id"


def with_prior_of(graph: Graph, path: Path) -> Graph:
    """The graph with the class probabilities of a file (`Graph.with_prior`).

    Args:
        graph: its node ids name the rows of the file, or numbers from 0 where it has none; its class names name the columns.
        path: .csv or .parquet with ``id`` and one column per class. Rows of other nodes are left out.

    Returns:
        The graph with its prior.
    """
    cells = _columns(path)
    names = graph.class_names or tuple(str(k) for k in range(graph.num_classes))
    titles = [title for title in cells if title != ID]
    if ID not in cells or sorted(titles) != sorted(names):
        raise DataError(
            f"{path}: prior must have a column {ID!r} and one per class, {listed(names)}, got {listed(list(cells))} (--prior)"
        )
    ids = columns.unique_ids(cells[ID], ID, rows_of(path))
    place = {str(name): k for k, name in enumerate(ids)}
    own = [str(name) for name in (range(graph.num_nodes) if graph.node_ids is None else graph.node_ids)]
    missing = [name for name in own if name not in place]
    if missing:
        raise DataError(
            f"{path}: prior must have a row for every node, got none for {len(missing)} of {len(own)}: "
            f"{listed(missing)} (--prior)"
        )
    rows = np.array([place[name] for name in own], dtype=np.int64)
    values = np.column_stack([_numbers(cells[name], name, path)[rows] for name in names])
    try:
        return graph.with_prior(values)
    except InputError as error:
        raise DataError(f"{path}: {error} (--prior)") from error


def _columns(path: Path) -> dict[str, np.ndarray]:
    """The cells by title; those of the ids as text."""
    if path.suffix.lower() not in sources.ENDINGS:
        raise DataError(f"{path}: prior must end in {', '.join(sources.ENDINGS)}, got {path.suffix!r} (--prior)")
    if not path.is_file():
        raise DataError(f"{path}: prior must be an existing file (--prior)")
    table = sources.open_table(path)
    pieces = [piece.batch.to_pandas(integer_object_nulls=True) for piece in table.pieces(1 << 20, table.titles)]
    found = {title: np.concatenate([np.array(p[title], dtype=object) for p in pieces]) for title in table.titles}
    return {**found, ID: text_columns(table, [ID])[0]} if ID in found else found


def _numbers(cells: np.ndarray, title: str, path: Path) -> np.ndarray:
    found = np.empty(len(cells))
    for k, cell in enumerate(cells):
        try:
            found[k] = float(cell)
        except (TypeError, ValueError):
            raise DataError(
                f"{rows_of(path)(k)}: column {title!r} must be a probability, got {cell!r} (--prior)"
            ) from None
    return found
