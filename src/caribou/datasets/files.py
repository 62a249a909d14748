"""A user's own graph, read from files.

Files come from anywhere: every way in which one can be wrong ends in a `DataError` that says where, and reading never
runs code that a file carries.
"""

from __future__ import annotations

import os
from pathlib import Path

from caribou.datasets.arrays import is_array_folder, read_arrays
from caribou.datasets.npz import read_npz, write_graph
from caribou.errors import CaribouError, DataError, InputError
from caribou.graph import Graph, listed
from caribou.graph.checks import reading_call
from caribou.graph.classes import Classes, declared_names
from caribou.privacy.budget import PrivacyUnit
from caribou.randomness import Streams
from caribou.tables.nodes import read_tables
from caribou.tables.read import Reading, Titles, divided, warn_of_notes
from caribou.tables.rules import ColumnRules
from caribou.tables.sources import ENDINGS

__all__ = ["read_graph", "write_graph"]

_ENDINGS = (".npz", *ENDINGS)


def read_graph(
    path: str | os.PathLike[str],
    nodes: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    name: str | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    classes: Classes | None = None,
    rules: ColumnRules | None = None,
    unit: PrivacyUnit | str | None = None,
) -> Graph:
    """Read a graph from one file, or from an edge table and a node table.

    Args:
        path: the file, the edge table, or a folder of arrays.
        nodes: the node table of an edge table.
        seed: the public seed that draws a split where the file has none.
        name: of the graph, which a ledger charges (default: the file without its ending).
        id_column: title of the column of node ids; the four below likewise.
        label_column: of the labels.
        split_column: of the split.
        source_column: of one end of an edge.
        target_column: of the other end.
        classes: the declared classes, which node level asks for: their names in order, the values of labels, or the number C of
            classes 0 .. C - 1. A label that is none of them is unknown; at edge level (``unit``) that is an error, unless
            ``rules`` say that it is no label. None: read from the labels, for edge level.
        rules: how the columns of tables are read: unknown words, categories, fills, ranges.
        unit: what will be protected. At node level what is not declared is refused here, with all other problems.

    Returns:
        The graph, its nodes in the order of their ids if they have any.

    ``.npz``: plain arrays, see `caribou.datasets.npz`.

    ``.csv`` or ``.parquet`` (``.pq``): ``path`` is the edge table, ``nodes`` the node table. CSV has a line of titles, commas
    and UTF-8, unless ``rules`` declare another separator or encoding. The first two columns of the edge table are the ends of
    an edge, further ones are ignored with a warning. In the node table the columns ``id`` / ``node`` / ``node_id``, ``label`` /
    ``class`` / ``y`` (without an ``x``) and ``split`` have their meaning (or those named by the arguments), all others are
    numeric features, unless ``rules`` say otherwise. All problems of the tables are one error. Rows are counted from 1 in
    messages, the line of titles not included. Ids are compared as text: the number 1 and the text ``1`` are the same node,
    ``01`` is another one.

    A folder with ``edges.npy`` and ``features.npy``: plain arrays of any size, see `caribou.datasets.arrays`.

    Labels of tables may be of any kind. Without ``classes`` they become classes 0..C-1 in sorted order (numerical,
    when all are numbers) and `Graph.class_names` keeps their names. Labels that are numbers in a file (.npz, a folder) are
    found by value if one of the ``classes`` is a whole number, else label k is the k-th name.

    An empty label is unknown, and a row whose features are all empty has none: its row is zero. Split words are train, val
    (valid, validation) and test; a node without a word is in no part, and one without a label neither trains nor chooses, but
    counts in the declared sizes. Without a split, nodes are divided 70/10/20 at random by ``seed``; a graph without labels has no
    split.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     edges, nodes = pathlib.Path(folder, "edges.csv"), pathlib.Path(folder, "nodes.csv")
    ...     _ = edges.write_text("from,to\\nann,bob\\nbob,cid\\n")
    ...     _ = nodes.write_text("id,age,label,split\\nann,31,a,train\\nbob,45,b,val\\ncid,28,a,test\\n")
    ...     graph = read_graph(edges, nodes)
    >>> graph.class_names, graph.labels.tolist(), graph.node_ids.tolist(), graph.has_edge(1, 2)
    (('a', 'b'), [0, 1, 0], ['ann', 'bob', 'cid'], True)
    """
    Streams(seed)  # a bad seed is an error also where none is needed, and so is a bad declaration
    if classes is not None:
        declared_names(classes)
    protected = None if unit is None else PrivacyUnit.parse(unit)
    titles = Titles(id_column, label_column, split_column, source_column, target_column)
    if isinstance(path, str | os.PathLike) and is_array_folder(Path(path)):
        _check_arguments(Path(path), "folder", nodes, titles, rules)
        folder = Path(path)
        name = folder.resolve().name if name is None else name
        return divided(read_arrays(folder, name, classes), seed, folder)
    file = _regular_file("path", path)
    ending = file.suffix.lower()
    if ending not in _ENDINGS:
        raise DataError(f"{file}: unknown ending {file.suffix!r}, must be one of {', '.join(_ENDINGS)}")
    _check_arguments(file, ending, nodes, titles, rules)
    name = file.stem if name is None else name
    if ending in ENDINGS:
        reading = inspect_tables(file, nodes, titles, name, classes, rules, protected)
        warn_of_notes(reading)
        return divided(reading.require(), seed, file)
    return divided(read_npz(file, name, classes), seed, file)


def inspect_tables(
    path: str | os.PathLike[str],
    nodes: str | os.PathLike[str] | None,
    titles: Titles,
    name: str,
    classes: Classes | None = None,
    rules: ColumnRules | None = None,
    unit: PrivacyUnit | None = None,
) -> Reading:
    """All that is found in an edge table and a node table, and the graph if there is no problem.

    Args:
        path, nodes: as in `read_graph`.
        titles: of the columns that are not features.
        name, classes, rules, unit: as in `read_graph`.

    Returns:
        Findings and graph.
    """
    file = _regular_file("path", path)
    if nodes is None:
        raise DataError(f"{file}: an edge table needs a node table as well (--nodes)")
    node_file = _regular_file("nodes", nodes)
    if node_file.suffix.lower() not in ENDINGS:
        raise DataError(
            f"{node_file}: unknown ending {node_file.suffix!r} of a node table, must be {', '.join(ENDINGS)}"
        )
    try:
        return read_tables(file, node_file, titles, name, classes, rules, unit)
    except DataError as error:
        raise _with_flag(error, node_file) from error
    except CaribouError as error:
        raise DataError(f"{node_file}: {error}") from error
    except Exception as error:  # a damaged Parquet file may decode to cells that pandas cannot handle
        message = " ".join(str(error).split())
        raise DataError(f"{file}, {node_file}: unusable tables ({type(error).__name__}: {message[:200]})") from error


def _with_flag(error: DataError, node_file: Path) -> DataError:
    """The error, and the option that names the file, where no other flag mends it."""
    if "--" in str(error):
        return error
    return DataError(f"{error} ({'--nodes' if str(error).startswith(f'{node_file}: ') else '--graph'})")


def _regular_file(argument: str, path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike):
        # The type only: what was passed may be a table of private data.
        raise InputError(f"{argument} must be the path of a file, got {type(path).__name__}{reading_call(path)}")
    file = Path(path)
    flag = "(--nodes)" if argument == "nodes" else "(--graph)"
    try:
        if not file.exists():
            raise DataError(f"{file}: file not found {flag}")
        if not file.is_file():
            raise DataError(f"{file}: must be a file, got a {'directory' if file.is_dir() else 'special file'} {flag}")
        if file.stat().st_size == 0:
            raise DataError(f"{file}: the file is empty {flag}")
        with open(file, "rb"):
            pass
    except (OSError, ValueError) as error:
        raise DataError(f"{str(file)!r}: cannot be read ({error}) {flag}") from error
    return file


def _check_arguments(file: Path, ending: str, nodes: object, titles: Titles, rules: ColumnRules | None) -> None:
    """Arguments that a format does not know are refused: a column name without effect would be misleading."""
    if ending in ENDINGS:
        return
    if nodes is not None:
        raise InputError(f"nodes goes with an edge table ({', '.join(ENDINGS)}) only, got {file.name}")
    if rules is not None and rules != ColumnRules():
        raise InputError(f"column rules must go with tables, got {file.name} with {listed(list(rules.to_dict()))}")
    for role, title in vars(titles).items():
        if title is not None:
            raise InputError(f"{role}_column has no meaning for a {ending} file, got {title!r}")
