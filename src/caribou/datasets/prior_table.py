"""Class probabilities of the user's own from a file: a column of node ids, and one column per class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from caribou.errors import DataError, InputError
from caribou.graph import Graph, listed
from caribou.tables.ids import NodeIds
from caribou.tables.inspect import Findings
from caribou.tables.sources import ENDINGS, HeldTable, open_table

ID = "id"


def with_prior_of(graph: Graph, path: Path) -> Graph:
    """The graph with the class probabilities of a file (`Graph.with_prior`).

    Args:
        graph: its node ids name the rows of the file, or numbers from 0 where it has none; its class names name the columns.
        path: .csv or .parquet with ``id`` and one column per class. Rows of other nodes are left out.

    Returns:
        The graph with its prior.
    """
    if path.suffix.lower() not in ENDINGS:
        raise DataError(f"{path}: prior must end in {', '.join(ENDINGS)}, got {path.suffix!r} (--prior)")
    if not path.is_file():
        raise DataError(f"{path}: prior must be an existing file (--prior)")
    opened = open_table(path)
    names = graph.class_names or tuple(str(k) for k in range(graph.num_classes))
    if sorted(opened.titles) != sorted([ID, *names]):
        raise DataError(
            f"{path}: prior must have a column {ID!r} and one per class, {listed(names)}, got {listed(opened.titles)} (--prior)"
        )
    table = HeldTable.of(opened, [ID, *names])
    ids = NodeIds.read(table, ID, Findings(collect=False)).array()
    place = {str(name): k for k, name in enumerate(ids)}
    own = [str(name) for name in (range(graph.num_nodes) if graph.node_ids is None else graph.node_ids)]
    missing = [name for name in own if name not in place]
    if missing:
        raise DataError(
            f"{path}: prior must have a row for every node, got none for {len(missing)} of {len(own)}: "
            f"{listed(missing)} (--prior)"
        )
    rows = np.array([place[name] for name in own], dtype=np.int64)
    try:
        return graph.with_prior(np.column_stack([_numbers(table, name)[rows] for name in names]))
    except InputError as error:
        raise DataError(f"{path}: {error} (--prior)") from error


def _numbers(table: HeldTable, title: str) -> np.ndarray:
    found: list[float] = []
    for piece in table.held:
        for k, cell in enumerate(piece.batch.column(title).to_pylist()):
            try:
                found.append(float(cell))
            except (TypeError, ValueError):
                rule = f"column {title!r} must be a probability, got {cell!r} (--prior)"
                raise DataError(f"{piece.row(k)}: {rule}") from None
    return np.array(found)
