"""Tables of a downstream task, each CSV or Parquet: pairs of nodes, groups of nodes, classes of graphs.

They speak about nodes by the ids that a run knows. They are public, or for the curator's eyes: no edge table of a private graph
belongs here, and one has no column of labels, so it is refused where labels are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from caribou.errors import DataError
from caribou.graph import listed
from caribou.tables import cells as columns
from caribou.tables.ids import text_columns
from caribou.tables.read import rows_of
from caribou.tables.sources import ENDINGS, open_table

LABEL = "label"
JOINED = {"0": 0, "1": 1}


@dataclass(frozen=True, eq=False)
class PairTable:
    """Pairs of nodes.

    Args:
        titles: of the two columns of ids.
        ids: [2, m], as they stand in the file.
        pairs: [2, m], node indices.
        labels: [m], 1 = joined, 0 = not; None without a column ``label``.
    """

    titles: tuple[str, str]
    ids: np.ndarray
    pairs: np.ndarray
    labels: np.ndarray | None


def read_pairs(path: Path, node_ids: Sequence[str]) -> PairTable:
    """Read pairs: the first two columns are ids of nodes, and a column ``label`` holds 0 or 1. Others are ignored.

    Args:
        path: the table.
        node_ids: of the nodes, in their order.

    Returns:
        The pairs, [2, m].
    """
    file = _table(path)
    titles = [title for title in open_table(file).titles if title.strip().lower() != LABEL]
    if len(titles) < 2:
        raise DataError(f"{file}: must hold two columns of node ids, found {listed(open_table(file).titles)}")
    first, second = titles[:2]
    cells = text_columns(open_table(file), [first, second])
    ends = np.stack([_positions(file, title, column, node_ids) for title, column in zip(titles, cells, strict=False)])
    same = np.flatnonzero(ends[0] == ends[1])
    if len(same):
        place = rows_of(file)(int(same[0]))
        raise DataError(f"{place}: a pair must be of two different nodes, got {cells[0][same[0]]!r} twice")
    return PairTable((first, second), np.stack(cells), ends, _labels(file))


def _labels(file: Path) -> np.ndarray | None:
    title = _label_title(file)
    if title is None:
        return None
    (cells,) = text_columns(open_table(file), [title])
    for k, cell in enumerate(cells):
        if cell not in JOINED:
            raise DataError(f"{rows_of(file)(k)}: column {title!r} must be 0 (not joined) or 1, got {cell!r}")
    return np.array([JOINED[cell] for cell in cells], np.int64)


@dataclass(frozen=True, eq=False)
class GroupTable:
    """Which node belongs to which graph.

    Args:
        names: of the graphs, in the order of the file.
        groups: [n], the graph of each node; -1 for a node that the file does not name.
    """

    names: tuple[str, ...]
    groups: np.ndarray


def read_groups(path: Path, node_ids: Sequence[str]) -> GroupTable:
    """Read groups: the first column holds ids of nodes, each once, the second the name of the graph a node belongs to.

    Args:
        path: the table.
        node_ids: of the nodes, in their order.

    Returns:
        The groups, [n].
    """
    file = _table(path)
    titles = open_table(file).titles
    if len(titles) < 2:
        raise DataError(f"{file}: must hold a column of node ids and one of graphs, found {listed(titles)}")
    ids, graphs = text_columns(open_table(file), titles[:2])
    columns.unique_ids(ids, titles[0], rows_of(file))
    places = _positions(file, titles[0], ids, node_ids)
    _require_cells(file, titles[1], graphs)
    names = tuple(dict.fromkeys(graphs))
    code = {name: k for k, name in enumerate(names)}
    groups = np.full(len(node_ids), -1, np.int64)
    groups[places] = [code[name] for name in graphs]
    return GroupTable(names, groups)


def read_graph_labels(path: Path, names: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Read classes of graphs: the first column holds names of graphs, each once, the column ``label`` (or the second) a class.

    Args:
        path: the table.
        names: of the graphs, in their order.

    Returns:
        The class of each graph, [g], -1 for one that the file does not name or leaves empty; and the names of the classes.
    """
    file = _table(path)
    titles = open_table(file).titles
    if len(titles) < 2:
        raise DataError(f"{file}: must hold a column of graphs and one of labels, found {listed(titles)}")
    graphs, cells = text_columns(open_table(file), [titles[0], _label_title(file) or titles[1]])
    columns.unique_ids(graphs, titles[0], rows_of(file))
    known = {name: k for k, name in enumerate(names)}
    labels, classes = columns.classes(cells, LABEL, rows_of(file))
    found = np.full(len(names), -1, np.int64)
    for k, graph in enumerate(graphs):
        if graph not in known:
            raise DataError(f"{rows_of(file)(k)}: column {titles[0]!r} must name a graph of the groups, got {graph!r}")
        found[known[graph]] = labels[k]
    return found, classes


def _table(path: Path) -> Path:
    if path.suffix.lower() not in ENDINGS:
        raise DataError(f"{path}: unknown ending {path.suffix!r} of a table, must be {', '.join(ENDINGS)}")
    if not path.is_file():
        raise DataError(f"{path}: file not found")
    return path


def _label_title(file: Path) -> str | None:
    return next((title for title in open_table(file).titles if title.strip().lower() == LABEL), None)


def _require_cells(file: Path, title: str, cells: np.ndarray) -> None:
    for k, cell in enumerate(cells):
        if cell is None:
            raise DataError(f"{rows_of(file)(k)}: column {title!r} must not be empty, got an empty cell")


def _positions(file: Path, title: str, cells: np.ndarray, node_ids: Sequence[str]) -> np.ndarray:
    _require_cells(file, title, cells)
    at = {name: k for k, name in enumerate(node_ids)}
    for k, cell in enumerate(cells):
        if cell not in at:
            raise DataError(f"{rows_of(file)(k)}: column {title!r} must hold a node of the run, got {cell!r}")
    return np.array([at[cell] for cell in cells], np.int64)
