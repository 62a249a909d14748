"""A folder of plain arrays: the format for graphs too large to be parsed.

edges.npy      [E, 2] or [2, E] whole numbers: pairs of rows, in any order
features.npy   [n, d] numbers; float32 and float64 are mapped read-only and not copied
labels.npy     [n] whole numbers, -1 = unknown (optional)
split.npy      [n] whole numbers: 0 training, 1 validation, 2 test, -1 none (optional)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from caribou.errors import CaribouError, DataError
from caribou.graph import Graph, Split
from caribou.graph.classes import Classes

EDGES, FEATURES = "edges.npy", "features.npy"


def is_array_folder(path: Path) -> bool:
    """Whether a folder is one of these."""
    try:
        return path.is_dir() and (path / EDGES).is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def read_arrays(folder: Path, name: str, classes: Classes | None = None) -> Graph:
    """Read the graph; features stay in their file. ``classes`` declares the classes, as in `read_graph`."""
    pairs = _array(folder / EDGES)
    if pairs.ndim == 2 and pairs.shape[0] != 2:
        pairs = pairs.T
    return _graph(folder, pairs, name, classes)


def read_node_arrays(folder: Path, name: str, classes: Classes | None = None) -> Graph:
    """The nodes alone, of a folder that may be without edges.npy: a graph without edges."""
    return _graph(folder, np.empty((2, 0), dtype=np.int64), name, classes)


def _graph(folder: Path, pairs: np.ndarray, name: str, classes: Classes | None) -> Graph:
    labels, parts = (_optional(folder / file) for file in ("labels.npy", "split.npy"))
    features = _array(folder / FEATURES, mapped=True)
    try:
        split = None if parts is None else _split(parts, features.shape[0])
        return Graph.from_edges(features, pairs, labels=labels, split=split, name=name, classes=classes)
    except CaribouError as error:
        raise DataError(f"{folder}: {error}") from error


def _array(path: Path, mapped: bool = False) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: must be a .npy file of numbers: {error}") from error


def _optional(path: Path) -> np.ndarray | None:
    return _array(path) if path.exists() else None


def _split(parts: np.ndarray, nodes: int) -> Split:
    if parts.shape != (nodes,) or parts.dtype.kind not in "iu" or not np.isin(parts, (-1, 0, 1, 2)).all():
        raise DataError(f"split.npy must be {nodes} numbers 0 (train), 1 (val), 2 (test) or -1, got another array")
    return Split(*(np.flatnonzero(parts == part) for part in range(3)))
