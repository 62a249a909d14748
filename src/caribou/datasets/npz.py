"""The ``.npz`` file of a graph: plain arrays, no pickles.

edge_index: 2 x E integers. Both directions are written; one is enough when reading.
x, or x_data, x_indices, x_indptr, x_shape: dense features, or the parts of sparse (CSR) ones.
num_nodes: number of nodes, needed only when there are neither features nor labels of that length.
y: one class per node, -1 = unknown.
split_train, split_val, split_test: node indices. split_n_removed: three counts, optional, see `caribou.graph.Split`.
class_names, num_classes, node_ids, feature_names, absent: optional, see `caribou.graph.Graph`. Names or number declare the
classes, unless classes_declared is 0: then they were read from labels.
column_rules: JSON, optional; how a table became features, so that node level still refuses what was learned from it.

Other arrays are ignored.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou.errors import CaribouError, DataError
from caribou.graph import Graph, Split
from caribou.graph.classes import Classes, is_count
from caribou.machine.files import atomic_file
from caribou.machine.memory import require_memory
from caribou.tables.rules import ColumnRules

_BOMB, _RATIO = 1 << 30, 200
"""Bytes from which on arrays must not be so many times as large as their file: nobody can tell what unpacking would take."""
_SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
_SPLIT = ("split_train", "split_val", "split_test")


def read_npz(path: Path, name: str, classes: Classes | None = None) -> Graph:
    """Read one ``.npz`` file; what is wrong with it is a `DataError`. ``classes`` declares the classes, as in `read_graph`."""
    try:
        arrays = _arrays(path)
    except CaribouError:
        raise
    except Exception as error:  # a damaged archive fails in zipfile, zlib, numpy or the header parser
        message = " ".join(str(error).split())
        raise DataError(f"{path}: the npz archive is damaged ({type(error).__name__}: {message[:160]})") from error
    try:
        return _graph(arrays, path, name, classes)
    except DataError:
        raise
    except CaribouError as error:
        raise DataError(f"{path}: {error}") from error


def _arrays(path: Path) -> dict[str, np.ndarray]:
    # NumPy takes a file that is no archive for a pickle, and advises to allow it.
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            single = file.read(6) == b"\x93NUMPY"
        found = "a single array" if single else "other or incomplete content"
        raise DataError(f"{path}: is not an npz archive (named arrays, as np.savez writes them), got {found}")
    with np.load(path, allow_pickle=False) as archive:
        wanted = {
            "edge_index",
            "x",
            "y",
            "num_nodes",
            "class_names",
            "num_classes",
            "classes_declared",
            "node_ids",
            "absent",
            "feature_names",
            "column_rules",
        }
        wanted.update(_SPARSE, _SPLIT, ["split_n_removed"])
        _require_room(path, {f"{key}.npy" for key in wanted})
        arrays = {}
        for key in sorted(wanted.intersection(archive.files)):
            try:
                arrays[key] = archive[key]
            except ValueError as error:
                if "allow_pickle" not in str(error):
                    raise
                raise DataError(f"{path}: array {key} holds Python objects, only plain numbers are read") from error
            if not isinstance(arrays[key], np.ndarray):
                raise DataError(f"{path}: {key} must be a stored array, got other content")
    return arrays


def _require_room(path: Path, members: set[str]) -> None:
    """Refuse arrays that would not fit into memory before the first one is unpacked."""
    with zipfile.ZipFile(path) as archive:
        needed = sum(entry.file_size for entry in archive.infolist() if entry.filename in members)
    require_memory(2 * needed, f"{path}: arrays")
    if needed > max(_BOMB, _RATIO * path.stat().st_size):
        raise DataError(
            f"{path}: arrays must be at most {_RATIO} times as large as their file, got {needed / 2**30:.3g} GiB in "
            f"{path.stat().st_size / 2**20:.3g} MiB; write them uncompressed (np.savez), or features as x_data, x_indices, "
            "x_indptr and x_shape"
        )


def _graph(arrays: dict[str, np.ndarray], path: Path, name: str, classes: Classes | None) -> Graph:
    edges = _need(arrays, "edge_index", path)
    if edges.ndim != 2 or edges.shape[0] != 2 or (edges.dtype.kind not in "iu" and edges.size):
        raise DataError(f"{path}: edge_index must be 2 x E integers, got {edges.dtype} of shape {edges.shape}")
    present = [key for key in _SPLIT if key in arrays]
    split = (
        Split(*(_need(arrays, key, path) for key in _SPLIT), n_removed=_n_removed(arrays, path)) if present else None
    )
    names = _words(arrays, "class_names", path)
    declared = "classes_declared" not in arrays or _scalar(arrays, "classes_declared", path) != 0
    if is_count(classes) and names is not None and not (declared and len(names) == classes):
        names = None  # labels are numbers below the declared one, and have no names
    number = _scalar(arrays, "num_classes", path) if classes is None and "num_classes" in arrays else 0
    graph = Graph.from_edges(
        features=_features(arrays, path),
        edges=edges,
        labels=arrays.get("y"),
        split=split,
        name=name,
        absent=np.atleast_1d(arrays.get("absent", np.empty(0, np.int64))),
        classes=classes if names is None else None,
        class_names=names,
        node_ids=arrays.get("node_ids"),
        num_classes=number,
        feature_names=_words(arrays, "feature_names", path),
    )
    graph = replace(graph, column_rules=_rules(arrays, path))
    if classes is None:
        return graph if declared else replace(graph, classes_declared=False)
    return graph if names is None or is_count(classes) else graph.with_classes(classes)


def _n_removed(arrays: dict[str, np.ndarray], path: Path) -> tuple[int, int, int]:
    counts = arrays.get("split_n_removed", np.zeros(3, np.int64))
    if counts.shape != (3,) or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise DataError(
            f"{path}: split_n_removed must be three counts >= 0, got {counts.dtype} of shape {counts.shape}"
        )
    train, val, test = (int(count) for count in counts)
    return train, val, test


def _rules(arrays: dict[str, np.ndarray], path: Path) -> ColumnRules | None:
    if "column_rules" not in arrays:
        return None
    stored = arrays["column_rules"]
    try:
        if stored.shape != () or stored.dtype.kind != "U":
            raise ValueError
        return ColumnRules.from_dict(json.loads(str(stored)))
    except (ValueError, RecursionError) as error:  # an `InputError` is a ValueError
        raise DataError(f"{path}: column_rules must be the JSON of column rules, got other content") from error


def _words(arrays: dict[str, np.ndarray], key: str, path: Path) -> tuple[str, ...] | None:
    if key not in arrays:
        return None
    names = arrays[key]
    if names.ndim != 1 or names.dtype.kind != "U":
        raise DataError(f"{path}: {key} must be a 1-D array of text, got {names.dtype} of shape {names.shape}")
    return tuple(str(word) for word in names)


def _features(arrays: dict[str, np.ndarray], path: Path) -> Any:
    if "x" in arrays:
        return arrays["x"]
    if any(key in arrays for key in _SPARSE):
        return _sparse_features(arrays, path)
    y = arrays.get("y")
    if y is not None and y.ndim == 1:
        n = len(y)
    elif y is None and "num_nodes" in arrays:
        # The number of nodes is only a claim: without an array of that length, a few bytes could ask for any memory.
        n = _scalar(arrays, "num_nodes", path)
        if n > max(10**7, 10 * arrays["edge_index"].size):
            raise DataError(f"{path}: num_nodes = {n} needs an array of that length (x or y), got neither")
    else:
        raise DataError(f"{path}: needs features (x or {', '.join(_SPARSE)}), labels (y) or num_nodes, got none")
    if "num_nodes" in arrays and _scalar(arrays, "num_nodes", path) != n:
        raise DataError(f"{path}: num_nodes must be the length of y ({n}), got {arrays['num_nodes']}")
    return np.zeros((n, 0), np.float32)


def _sparse_features(arrays: dict[str, np.ndarray], path: Path) -> Any:
    data, indices, indptr, shape = (_need(arrays, key, path) for key in _SPARSE)
    for key, array in zip(_SPARSE, (data, indices, indptr, shape), strict=True):
        if array.ndim != 1 or array.dtype.kind not in ("iufb" if key == "x_data" else "iu"):
            raise DataError(f"{path}: {key} must be a 1-D array of numbers, got {array.dtype} of shape {array.shape}")
    if len(shape) != 2 or not (0 < int(shape[0]) < 2**31 and 0 <= int(shape[1]) < 2**31):
        raise DataError(f"{path}: x_shape must be two sizes, rows and columns, got {shape.tolist()}")
    rows, columns = int(shape[0]), int(shape[1])
    starts = indptr.astype(np.int64)
    if len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
        raise DataError(f"{path}: x_indptr must rise from 0 to {len(data)} in {rows + 1} entries")
    if len(indices) != len(data):
        raise DataError(f"{path}: x_indices must have as many entries as x_data ({len(data)}), got {len(indices)}")
    if len(indices) and not (int(indices.min()) >= 0 and int(indices.max()) < columns):
        raise DataError(f"{path}: x_indices must be columns in [0, {columns}), got {indices.min()} to {indices.max()}")
    # Files store narrow integers (int8, int16) to be small; SciPy's index arithmetic would overflow in them.
    if data.dtype not in (np.float32, np.float64):
        data = data.astype(np.float32)
    return sp.csr_array((data, indices.astype(np.int32), starts), shape=(rows, columns))


def _need(arrays: dict[str, np.ndarray], key: str, path: Path) -> np.ndarray:
    if key not in arrays:
        raise DataError(f"{path}: array {key} is missing, found {', '.join(arrays) or 'none that is known'}")
    return arrays[key]


def _scalar(arrays: dict[str, np.ndarray], key: str, path: Path) -> int:
    array = arrays[key]
    if array.size != 1 or array.dtype.kind not in "iu":
        raise DataError(f"{path}: {key} must be one whole number, got {array.dtype} of shape {array.shape}")
    return int(array.reshape(-1)[0])


def write_graph(graph: Graph, path: str | os.PathLike[str], *, compress: bool = True) -> Path:
    """Write ``graph`` as one ``.npz`` file that `read_graph` reads back. Private data: the file holds everything.

    Args:
        graph: what to write.
        path: a file that ends in .npz; it appears complete or not at all, readable by its owner alone.
        compress: smaller, and slower to write.

    Returns:
        The path.

    >>> import tempfile, numpy as np
    >>> from caribou.datasets import read_graph, write_graph
    >>> graph = Graph.from_edges(np.eye(3), [[0, 1], [1, 2]], name="path")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_graph(write_graph(graph, folder + "/path.npz")).num_edges
    2
    """
    target = Path(path)
    if target.suffix.lower() != ".npz":
        raise DataError(f"{target}: the file to write must end in .npz, got {target.suffix or 'no ending'!r}")
    try:
        with atomic_file(target) as temporary:
            (np.savez_compressed if compress else np.savez)(temporary, **_contents(graph))
            temporary.chmod(0o600)  # it holds private data
    except OSError as error:
        raise DataError(f"{target}: cannot be written ({error.strerror or error})") from error
    return target


def _contents(graph: Graph) -> dict[str, Any]:
    contents: dict[str, Any] = {"edge_index": graph.edge_index.astype(np.int32), "num_nodes": graph.num_nodes}
    x = graph.features
    if sp.issparse(x):
        contents.update(x_data=x.data, x_indices=x.indices, x_indptr=x.indptr, x_shape=np.array(x.shape, np.int64))
    elif graph.num_features:
        contents["x"] = x
    if graph.labels is not None:
        contents.update(
            y=graph.labels, num_classes=graph.num_classes, classes_declared=int(bool(graph.classes_declared))
        )
    if graph.split is not None:
        contents.update(zip(_SPLIT, (graph.split.train, graph.split.val, graph.split.test), strict=True))
        contents["split_n_removed"] = np.array(graph.split.n_removed, np.int64)
    for key in ("class_names", "feature_names"):
        if getattr(graph, key) is not None:
            contents[key] = np.array(getattr(graph, key), dtype=np.str_)
    if graph.column_rules is not None:
        contents["column_rules"] = np.array(json.dumps(graph.column_rules.to_dict()), dtype=np.str_)
    if graph.node_ids is not None:
        contents["node_ids"] = graph.node_ids
    if len(graph.absent):
        contents["absent"] = graph.absent
    return contents
