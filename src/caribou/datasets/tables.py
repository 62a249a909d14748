"""An edge table and a node table, each CSV or Parquet."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from caribou.datasets import columns
from caribou.errors import CaribouError, DataError
from caribou.graph import Graph
from caribou.graph import listed as _listed
from caribou.graph.classes import Classes, declared_names, places_of_names

ENDINGS = (".csv", ".parquet", ".pq")

_IDS = ("id", "node", "node_id")
_LABELS = ("label", "class", "y")
_SPLITS = ("split",)


@dataclass(frozen=True)
class Titles:
    """Names of the columns that are not features; None = the default names."""

    id: str | None = None
    label: str | None = None
    split: str | None = None
    source: str | None = None
    target: str | None = None


def read_tables(edges: Path, nodes: Path, titles: Titles, name: str, classes: Classes | None = None) -> Graph:
    """Read a graph from an edge table and a node table. ``classes`` declares the classes, as in `read_graph`."""
    node_frame = _frame(nodes, *_text_columns(nodes, titles))
    id_title = _chosen(list(node_frame.columns), titles.id, _IDS, nodes, "id", needed=True)
    if len(node_frame) == 0:
        raise DataError(f"{nodes}: must hold at least one node, got a table without rows")
    at_node = rows_of(nodes)
    ids = columns.texts(node_frame[id_title], str(id_title), at_node)
    node_ids = columns.unique_ids(ids, str(id_title), at_node)
    pairs = _pairs(edges, titles, ids)
    title = str(id_title).strip() or None
    frame = node_frame.drop(columns=[id_title])
    return build(frame, titles, at_node, nodes, pairs, node_ids, name, title, classes)


def build(
    frame: Any,
    titles: Titles,
    place: columns.Place,
    path: Path,
    pairs: np.ndarray,
    node_ids: np.ndarray,
    name: str,
    id_title: str | None = None,
    classes: Classes | None = None,
) -> Graph:
    """A graph from a frame of node attributes (without ids) and pairs of row numbers."""
    titles_there = list(frame.columns)
    label = _chosen(titles_there, titles.label, _LABELS, path, "label")
    split = _chosen(titles_there, titles.split, _SPLITS, path, "split")
    labels, names = None, None
    if label is not None and classes is not None:
        names = declared_names(classes)
        labels = places_of_names(columns.label_texts(frame[label]), names)
    elif label is not None:
        labels, names = columns.classes(columns.texts(frame[label], label, place), label, place)
        if not names:
            raise DataError(f"{path}: column {label!r} must hold at least one label, got empty cells only")
    division = None
    if split is not None:
        division = columns.parts(columns.texts(frame[split], split, place), split, place)
        if labels is None:
            raise DataError(f"{path}: column {split!r} needs a label column, found {_listed(titles_there)}")
    rest = [title for title in titles_there if title not in (label, split)]
    features = columns.numbers(frame, rest, place, naming_hint(label, split))
    graph = Graph.from_edges(
        features,
        pairs,
        labels=labels,
        split=division,
        name=name,
        class_names=names,
        node_ids=node_ids,
        feature_names=[str(title) for title in rest],
        id_title=id_title,
    )
    return graph if label is None or classes is not None else replace(graph, classes_declared=False)


def column_titles(path: Path) -> list[str]:
    """Titles of the columns of a table, each once."""
    return _header(path)


def text_cells(path: Path, titles: Sequence[str]) -> list[np.ndarray]:
    """The cells of some columns of a table as normalised text; None where a cell is empty. [rows] each"""
    frame = _frame(path, set(titles), only=list(titles))
    return [columns.texts(frame[title], title, rows_of(path)) for title in titles]


def naming_hint(label: str | None, split: str | None) -> str:
    """The end of a message about a column that is no feature: the roles that no column plays yet."""
    free = [role for role, title in (("label", label), ("split", split)) if title is None]
    return f"; if it is not a feature, remove it or declare it the {' or '.join(free)} column" if free else ""


def rows_of(path: Path) -> columns.Place:
    """Says where a cell of a table stands, rows counted from 1."""
    return lambda k: f"{path}: row {k + 1}"


def _pairs(path: Path, titles: Titles, ids: np.ndarray) -> np.ndarray:
    header = _header(path)
    # A target that is named alone may be the first column: the source is then the next one.
    free = [title for title in header if title != titles.target] or header
    source = _chosen(header, titles.source, free[:1], path, "source", needed=True)
    rest = [title for title in header if title != source]
    if not rest:
        raise DataError(f"{path}: must hold two columns, source and target, found only {_listed(header)}")
    target = _chosen(header, titles.target, tuple(rest[:1]), path, "target", needed=True)
    if source == target:
        raise DataError(f"{path}: source and target must be two columns, got {source!r} twice")
    if titles.source is None and titles.target is None:
        _check_titles(path, str(source), str(target), ids)
    others = [title for title in header if title not in (source, target)]
    if others:
        warnings.warn(f"{path}: columns {_listed(others)} are ignored: edges are unweighted", UserWarning, stacklevel=4)
    frame = _frame(path, {str(source), str(target)}, only=[str(source), str(target)])
    ends = [
        columns.positions(columns.texts(frame[title], title, rows_of(path)), ids, title, rows_of(path))
        for title in (str(source), str(target))
    ]
    return np.stack(ends)


def _check_titles(path: Path, source: str, target: str, ids: np.ndarray) -> None:
    """Refuse an edge table whose first edge would be taken for its titles, and be lost."""
    if {source.strip(), target.strip()} <= set(ids):
        raise DataError(
            f"{path}: column titles must not be ids of the node table, got {source!r}, {target!r}: is the line of titles "
            "missing? If they are titles, declare them the source column and the target column"
        )


def _chosen(
    header: list[str], wanted: str | None, defaults: Any, path: Path, role: str, needed: bool = False
) -> str | None:
    """The column that plays a role: the wanted one, or the first default that is there."""
    if wanted is not None:
        if wanted not in header:
            raise DataError(f"{path}: {role} column {wanted!r} is missing, found {_listed(header)}")
        return wanted
    # The user's spelling of a default title may be Id, LABEL, ...
    for default in defaults:
        for title in header:
            if title == default or str(title).strip().lower() == default:
                return title
    if needed:
        raise DataError(f"{path}: needs a column {' or '.join(map(repr, defaults))}, found {_listed(header)}")
    return None


def _text_columns(path: Path, titles: Titles) -> tuple[set[str]]:
    """Columns of a node table that are read as text: a number type would lose leading zeros."""
    header = _header(path)
    chosen = {
        _chosen(header, titles.id, _IDS, path, "id"),
        _chosen(header, titles.label, _LABELS, path, "label"),
        _chosen(header, titles.split, _SPLITS, path, "split"),
    }
    return ({title for title in chosen if title is not None},)


def _header(path: Path) -> list[str]:
    """Titles of the columns, each once."""
    try:
        titles = _csv_header(path) if path.suffix.lower() == ".csv" else _parquet_header(path)
    except CaribouError:
        raise
    except Exception as error:  # decoding, csv and Arrow errors have no common base
        raise _unreadable(path, error) from error
    if not titles:
        raise DataError(f"{path}: has no columns")
    repeated = sorted({title for title in titles if titles.count(title) > 1}) if len(set(titles)) < len(titles) else []
    if repeated:
        raise DataError(f"{path}: column titles must differ, got {_listed(repeated)} more than once")
    return titles


def _csv_header(path: Path) -> list[str]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        titles = next(csv.reader(file), [])
    separator = re.search(r"[;\t|]", titles[0]) if len(titles) == 1 else None
    if separator:
        raise DataError(
            f"{path}: the first line must hold the column titles separated by commas, got {_listed(titles)}: "
            f"is the separator a comma, or {separator[0]!r}?"
        )
    if any(not title.strip() for title in titles):
        raise DataError(f"{path}: the first line must hold the column titles, got an empty one at {_listed(titles)}")
    if titles and all(re.fullmatch(r"\s*[-+]?[0-9.]+\s*", title) for title in titles):
        raise DataError(f"{path}: the first line must hold the column titles, got numbers: {_listed(titles)}")
    return titles


def _parquet_header(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        # pandas stores an unnamed index as a column of this name; it says nothing about the node.
        return [title for title in file.schema_arrow.names if not re.fullmatch(r"__index_level_\d+__", title)]


def _frame(path: Path, as_text: set[str], only: list[str] | None = None) -> Any:
    header = only if only is not None else _header(path)
    try:
        frame = _csv_frame(path, as_text, only) if path.suffix.lower() == ".csv" else _parquet_frame(path, header)
    except CaribouError:
        raise
    except Exception as error:  # parser, decoding and Arrow errors have no common base
        raise _unreadable(path, error) from error
    return frame


def _check_cells(path: Path) -> None:
    """Every row of a CSV file must have as many cells as there are titles: pandas would fill a short one up from the right."""
    from pyarrow import csv as arrow

    wrong: list[tuple[int, int, int]] = []

    def note(row: Any) -> str:
        if not wrong:
            wrong.append((row.number or 0, row.expected_columns, row.actual_columns))
        return "skip"

    title = _header(path)[0]
    with arrow.open_csv(
        path,
        read_options=arrow.ReadOptions(use_threads=False),
        parse_options=arrow.ParseOptions(newlines_in_values=True, invalid_row_handler=note),
        convert_options=arrow.ConvertOptions(include_columns=[title], column_types={title: "string"}),
    ) as reader:
        for _ in reader:
            if wrong:
                break
    if wrong:
        number, expected, actual = wrong[0]
        raise DataError(f"{path}: row {number - 1} must have {expected} cells, got {actual}")


def _csv_frame(path: Path, as_text: set[str], only: list[str] | None) -> Any:
    import pandas as pd

    _check_cells(path)
    with warnings.catch_warnings():
        # Rows longer than the line of titles would lose cells, or shift them, with no more than a warning.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(
            path,
            index_col=False,
            dtype=dict.fromkeys(as_text, str),
            # Only an empty cell is missing: a node may be called NA.
            keep_default_na=False,
            na_values=[""],
            encoding="utf-8-sig",
            low_memory=False,
        )
    return frame if only is None else frame[only]


def _parquet_frame(path: Path, header: list[str]) -> Any:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        # The index that pandas noted in the metadata is not restored: an id column must stay a column.
        return file.read(columns=header).to_pandas(ignore_metadata=True)[header]


def _unreadable(path: Path, error: Exception) -> DataError:
    kind = "CSV (UTF-8)" if path.suffix.lower() == ".csv" else "Parquet"
    message = " ".join(str(error).split())
    return DataError(f"{path}: not a readable {kind} table ({type(error).__name__}: {message[:200]})")
