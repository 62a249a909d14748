"""Checks of what a graph is built from: every array is checked, copied where somebody else could change it, and sealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from caribou._validate import integer
from caribou.errors import InputError

if TYPE_CHECKING:
    from caribou.graph.split import Split

#: Node indices are stored in 32 bits.
MAX_NODES = 2**31 - 1


@dataclass(frozen=True)
class Cleaning:
    """What was dropped or mirrored while a graph was built from a list of edges.

    The counts are **private**: they are exact functions of the edges. Never print or store them beside a release.

    self_loops: entries u-u that were dropped.
    duplicates: repeated entries (same two nodes, same direction) that were dropped.
    one_way: undirected edges that were given in one direction only and were mirrored.
    """

    self_loops: int = 0
    duplicates: int = 0
    one_way: int = 0


def seal(value: Any) -> Any:
    """Make an array, or the arrays of a sparse matrix, read-only in place."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif sp.issparse(value):
        for part in (value.data, value.indices, value.indptr):
            part.setflags(write=False)
    return value


def restore(record: Any, state: Mapping[str, Any]) -> None:
    # Unpickled arrays are writable again: seal them.
    for key, value in state.items():
        object.__setattr__(record, key, seal(value))


def is_plain(array: np.ndarray) -> bool:
    """Whether the array lies in memory as compiled loops read it: row by row without gaps, aligned, in native byte order."""
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def private_copy(array: np.ndarray, *, mapped: bool = True) -> np.ndarray:
    """The array itself when nobody can write to it, else a sealed copy in plain memory.

    ``mapped``: a file that is mapped read-only counts as such. Another process can still write to it, so it must not hold
    indices: they are bounds-checked once.
    """
    if not is_plain(array):
        return seal(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=True)))
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return seal(array.copy())
        base = base.base
    return array if base is None or (mapped and isinstance(base, mmap)) else seal(array.copy())


def index_array(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.size == 0:
        array = np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a 1-D integer array of node indices, got {array.dtype} of shape {array.shape}"
        )
    ordered = np.unique(array.astype(np.int64))
    if len(ordered) != len(array):
        raise InputError(f"{name} must not repeat a node, got {len(array) - len(ordered)} repeated entries")
    if len(ordered) and ordered[0] < 0:
        raise InputError(f"{name} must hold node indices >= 0, got {int(ordered[0])}")
    return seal(ordered)


def reading_call(given: Any) -> str:
    """Advice for an error about something that is no graph and no array: the call that reads it. Empty if none does.

    >>> reading_call("edges.csv"), reading_call(3)
    ('; read a file by caribou.read_graph(edges, nodes), a data set by caribou.datasets.load(name)', '')
    """
    home, _, rest = type(given).__module__.partition(".")
    if home == "caribou" and rest == "graph.graph":
        return "; it is a graph already"
    return _CALLS.get(type(given).__name__ if home == "builtins" else home.lstrip("_"), "")


_FILES = "; read a file by caribou.read_graph(edges, nodes), a data set by caribou.datasets.load(name)"
_FRAMES = "; read edges and nodes by caribou.Graph.from_tables(edges, nodes)"
_CALLS = {
    **dict.fromkeys(("str", "pathlib"), _FILES),
    **dict.fromkeys(("pandas", "polars", "pyarrow", "duckdb", "tuple"), _FRAMES),
    "networkx": "; read it by caribou.Graph.from_networkx(network)",
    "torch_geometric": "; read it by caribou.Graph.from_pyg(data)",
}
"""Advice by the package that a type comes from, or the name of a type of Python's own."""


def checked_features(features: Any) -> Any:
    sparse = sp.issparse(features)
    array = features if sparse else np.asarray(features)
    if array.ndim != 2:
        raise InputError(f"features must be a 2-D array of n rows, got shape {array.shape}{reading_call(features)}")
    if array.dtype.kind not in "fiub":
        raise InputError(f"features must be numbers, got {array.dtype}{reading_call(features)}")
    if not 1 <= array.shape[0] <= MAX_NODES:
        raise InputError(f"features must have between 1 and {MAX_NODES} rows, got {array.shape[0]}")
    dtype = np.dtype(np.float64 if array.dtype == np.float64 else np.float32)
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is reported below
        checked: Any = checked_sparse(array, dtype) if sparse else private_copy(array.astype(dtype, copy=False))
    finite = np.isfinite(checked.data if sparse else checked)
    if not finite.all():
        row, column, value = first_bad(checked, finite)
        raise InputError(f"features must be finite {dtype}, got {value} in row {row}, column {column}")
    return checked


LARGEST_FEATURE = 1e36
"""Single precision ends at 3e38, and encoders add up weighted cells of a row in it."""


def require_moderate(features: Any) -> None:
    """Refuse numbers that would overflow in a fit.

    >>> require_moderate(np.array([[1.0, -1e39]]))
    Traceback (most recent call last):
    ...
    caribou.errors.InputError: features must be at most 1e+36 in size, got -1e+39
    """
    values = features.data if sp.issparse(features) else features
    for value in (values.max(initial=0), values.min(initial=0)):
        if abs(value) > LARGEST_FEATURE:
            raise InputError.of("features", f"be at most {LARGEST_FEATURE:g} in size", float(value))


def needed_span(needed: np.ndarray | None, first: int, last: int) -> tuple[int, int]:
    """The smallest span of rows from ``first`` up to ``last`` that holds all that are needed; None: all rows are.

    >>> needed_span(np.array([True, False, True, False, False]), 1, 5), needed_span(None, 1, 5)
    ((2, 3), (1, 5))
    """
    if needed is None:
        return first, last
    there = np.flatnonzero(needed[first:last])
    return (first + int(there[0]), first + int(there[-1]) + 1) if len(there) else (first, first)


def checked_prior(probabilities: Any, nodes: int, classes: int) -> np.ndarray:
    array = np.asarray(probabilities)
    if array.dtype.kind not in "fiu" or array.shape != (nodes, classes):
        raise InputError(
            f"prior must be class probabilities of {nodes} nodes in {classes} classes, got {array.dtype} of shape {array.shape}"
        )
    array = array.astype(np.float64)
    sums = array.sum(axis=1)
    bad = np.flatnonzero(~(np.isfinite(sums) & (array.min(axis=1) >= 0) & (np.abs(sums - 1) < 1e-3)))
    if len(bad):
        raise InputError(
            f"prior must have rows of probabilities that sum to 1, got {array[bad[0]].tolist()} in row {bad[0]}"
        )
    return np.asarray(seal(array))


def with_even_row(prior: np.ndarray, row: int) -> np.ndarray:
    changed = prior.copy()
    changed[row] = 1 / prior.shape[1]
    return changed


def first_bad(features: Any, good: np.ndarray) -> tuple[int, int, Any]:
    at = np.argwhere(~good)[0]
    if not sp.issparse(features):
        return int(at[0]), int(at[1]), features[at[0], at[1]]
    row = int(np.searchsorted(features.indptr, int(at[0]), side="right")) - 1
    return row, int(features.indices[at[0]]), features.data[at[0]]


def checked_sparse(features: Any, dtype: np.dtype) -> Any:
    if max(features.shape) > MAX_NODES:
        raise InputError(f"features must have at most {MAX_NODES} columns, got {features.shape[1]}")
    check_places(features=features)
    if isinstance(features, sp.csr_array) and features.dtype == dtype and _is_canonical(features):
        parts = (features.data, features.indices, features.indptr)
        if all(is_plain(part) and not part.flags.writeable for part in parts):
            return features
    # A fresh matrix on own arrays: sum_duplicates works in place, and a shared array could be changed by its owner.
    rows = features.tocsr()
    parts = (rows.data.astype(dtype), np.array(rows.indices), np.array(rows.indptr))
    matrix = sp.csr_array(parts, shape=features.shape)
    check_places(features=matrix)
    matrix.sum_duplicates()
    if matrix.nnz <= MAX_NODES and matrix.indices.dtype != np.int32:
        narrow = (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
        matrix = sp.csr_array(narrow, shape=matrix.shape)
    return seal(matrix)


def check_places(**given: Any) -> None:
    """Every entry of a sparse matrix lies inside of it: SciPy believes what it is given, and would read other memory."""
    ((name, matrix),) = given.items()
    if matrix.format not in ("coo", "csr", "csc", "bsr"):
        return
    parts = (matrix.coords,) if matrix.format == "coo" else (matrix.indices, matrix.indptr)
    try:
        own = type(matrix)((matrix.data, *parts), shape=matrix.shape)  # the check may change what it looks at
        if matrix.format != "coo":
            own.check_format(full_check=True)
    except ValueError as error:
        raise InputError(
            f"{name} must have sparse indices inside of its shape {matrix.shape}, got others: {error}"
        ) from error


def _is_canonical(matrix: Any) -> bool:
    """Whether indices rise inside every row; a matrix says so of itself, but anybody can set that."""
    if int(matrix.indptr[-1]) != len(matrix.indices):
        return False
    rises = matrix.indices[1:] > matrix.indices[:-1]
    starts = matrix.indptr[1:-1]
    rises[starts[(starts > 0) & (starts < len(matrix.indices))] - 1] = True
    return bool(rises.all())


def checked_rows(indptr: Any, indices: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The compressed rows, checked: sorted, simple, symmetric."""
    starts, columns = np.asarray(indptr), np.asarray(indices)
    for name, array in (("indptr", starts), ("indices", columns)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InputError(f"{name} must be a 1-D integer array, got {array.dtype} of shape {array.shape}")
    if len(starts) != n + 1:
        raise InputError(f"indptr must have n + 1 = {n + 1} entries, got {len(starts)}")
    # first a copy, then the checks: what is checked is what will be read
    starts, columns = private_copy(starts, mapped=False), private_copy(columns, mapped=False)
    if int(starts[0]) != 0 or int(starts[-1]) != len(columns) or (starts[1:] < starts[:-1]).any():
        raise InputError(f"indptr must rise from 0 to {len(columns)} (the length of indices)")
    if len(columns) and not (int(columns.min()) >= 0 and int(columns.max()) < n):
        raise InputError(f"indices must be node indices in [0, {n}), got {int(columns.min())} to {int(columns.max())}")
    starts = seal(starts.astype(np.int32 if len(columns) <= MAX_NODES else np.int64, copy=False))
    columns = seal(columns.astype(np.int32, copy=False))
    rows = np.repeat(np.arange(n, dtype=np.int32), np.diff(starts))
    if (rows == columns).any():
        raise InputError(f"indices must hold no self loop, got one at node {int(rows[rows == columns][0])}")
    if ((columns[1:] <= columns[:-1]) & (rows[1:] == rows[:-1])).any():
        raise InputError("indices must be sorted and unique inside each row")
    mirrored = sp.csr_array((np.ones(len(columns), np.int8), columns, starts), shape=(n, n)).T.tocsr()
    if not (np.array_equal(mirrored.indptr, starts) and np.array_equal(mirrored.indices, columns)):
        raise InputError("indices must be symmetric: each edge in the rows of both ends")
    return starts, columns


def checked_pairs(edges: Any, n: int) -> np.ndarray:
    if (call := reading_call(edges)) and not isinstance(edges, tuple):  # a frame of two rows would be taken for 2 x E
        raise InputError(f"edges must be a 2 x E array, got {type(edges).__name__}{call}")
    pairs = np.asarray(edges)
    if pairs.size == 0 and pairs.ndim == 2 and pairs.shape[0] == 2:
        return np.empty((2, 0), np.int32)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise InputError(f"edges must be a 2 x E array, got shape {pairs.shape}")
    if pairs.dtype.kind not in "iu":
        raise InputError(f"edges must be integers, got {pairs.dtype}")
    if int(pairs.min()) < 0 or int(pairs.max()) >= n:
        end, at = np.argwhere((pairs < 0) | (pairs >= n))[0]
        raise InputError(f"edges must be node indices in [0, {n}), got {pairs[end, at]} at edges[{end}, {at}]")
    return pairs.astype(np.int32, copy=False)


def simple_rows(pairs: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, Cleaning]:
    """Symmetric, simple compressed rows of the pairs, and what was dropped on the way."""
    proper = pairs[0] != pairs[1]
    u, v = pairs[0][proper], pairs[1][proper]
    directed = sp.coo_array((np.ones(len(u), np.int8), (u, v)), shape=(n, n)).tocsr()  # sums repeated entries
    duplicates = len(u) - directed.nnz
    directed.data[:] = 1  # int8 sums may have wrapped; only presence counts
    both = (directed + directed.T.tocsr()).tocsr()
    both.sort_indices()
    one_way = int((both.data == 1).sum()) // 2
    dtype = np.int32 if both.nnz <= MAX_NODES else np.int64
    indptr = seal(both.indptr.astype(dtype))
    indices = seal(both.indices.astype(np.int32))
    return indptr, indices, Cleaning(int(len(proper) - len(u)), int(duplicates), one_way)


def label_array(labels: Any, n: int) -> np.ndarray:
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"labels must be a 1-D integer array, got {array.dtype} of shape {array.shape}")
    if len(array) != n:
        raise InputError(f"labels must have one entry per node ({n}), got {len(array)}")
    return array


def checked_labels(labels: Any, n: int, classes: int) -> np.ndarray:
    """The labels, -1 = unknown. ``classes``: their declared number; a label outside is unknown. 0: not declared."""
    array = label_array(labels, n)
    if classes > 0:
        outside = (array < 0) | (array >= classes)
        if (array[outside] != -1).any() or array.dtype.kind == "u":
            array = np.where(outside, -1, array.astype(np.int64))
        return private_copy(array.astype(np.int64, copy=False))
    if int(array.max()) > MAX_NODES:
        raise InputError(f"labels must be below 2^31, got {int(array.max())} at node {int(array.argmax())}")
    if int(array.min()) < -1:
        raise InputError(
            f"labels must be classes >= 0 or -1 (unknown), got {array.min()} at node {int(array.argmin())}"
        )
    return private_copy(array.astype(np.int64, copy=False))


def checked_classes(names: Sequence[str] | None, num_classes: int) -> tuple[tuple[str, ...] | None, int]:
    """The names, and the number of classes; 0 if neither is given."""
    classes = integer(at_least=0, num_classes=num_classes)
    if names is None:
        return None, classes
    names = tuple(names)
    if not names or not all(isinstance(word, str) for word in names):
        raise InputError(f"class_names must be strings, got {names!r}")
    if classes not in (0, len(names)):
        raise InputError(f"class_names must have num_classes = {classes} entries, got {len(names)}")
    return names, len(names)


def checked_ids(ids: Any, n: int) -> np.ndarray:
    array = np.asarray(ids)
    if array.ndim != 1 or len(array) != n:
        raise InputError(f"node_ids must have one entry per node ({n}), got shape {array.shape}")
    if array.dtype.kind not in "iuU":
        raise InputError(f"node_ids must be whole numbers or strings, got {array.dtype}")
    if len(np.unique(array)) != n:
        raise InputError(f"node_ids must be unique, got {n - len(np.unique(array))} repeated ids")
    return private_copy(array)


def checked_columns(names: Sequence[str], d: int) -> tuple[str, ...]:
    columns = tuple(names)
    if not all(isinstance(name, str) for name in columns) or len(set(columns)) != len(columns):
        raise InputError(f"feature_names must be different strings, got {listed(columns)}")
    if len(columns) != d:
        raise InputError(f"feature_names must have one entry per feature column ({d}), got {len(columns)}")
    return columns


def listed(names: Sequence[Any]) -> str:
    """A few names for a message.

    >>> listed(["age", "income"])
    "'age', 'income'"
    """
    shown = ", ".join(repr(name) for name in list(names)[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def check_absent(absent: np.ndarray, features: Any, indptr: np.ndarray, labels: Any, split: Split | None) -> None:
    """Absent nodes carry nothing: no edge, no feature, no label, no part of the split."""
    n = features.shape[0]
    if len(absent) == 0:
        return
    if int(absent[-1]) >= n:
        raise InputError(f"absent must hold node indices below {n}, got {int(absent[-1])}")
    rows = features[absent]
    carried = np.diff(indptr)[absent] > 0
    carried |= np.asarray(abs(rows).sum(axis=1)).ravel() != 0
    if labels is not None:
        carried |= labels[absent] >= 0
    if split is not None:
        carried |= np.isin(absent, np.concatenate([split.train, split.val, split.test]))
    if carried.any():
        node = int(absent[carried][0])
        raise InputError(f"absent nodes must have no edge, feature, label or part, got node {node} with one")


def checked_fractions(fractions: Sequence[float]) -> tuple[float, ...]:
    shares = tuple(float(share) for share in fractions)
    if len(shares) != 3 or not all(0 < share < 1 for share in shares) or abs(sum(shares) - 1) > 1e-9:
        raise InputError(f"fractions must be three positive numbers that sum to 1, got {tuple(fractions)!r}")
    return shares


def zero_rows(features: Any) -> np.ndarray:
    """Which rows are all zero. [n, d] -> [n], bool"""
    if not sp.issparse(features):
        zero: np.ndarray = ~np.any(features, axis=1)
        return zero
    zero = np.ones(features.shape[0], dtype=bool)
    zero[np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))[features.data != 0]] = False
    return zero


def placed_rows(features: Any, place: np.ndarray, total: int) -> Any:
    """Row i at place[i] of ``total``, where that is not -1; other rows are zero. [n, d] -> [total, d]"""
    kept = np.flatnonzero(place >= 0)
    if not sp.issparse(features):
        moved = np.zeros((total, features.shape[1]), dtype=features.dtype)
        moved[place[kept]] = features[kept]
        return moved
    rows = sp.coo_array(features[kept])
    moved = sp.csr_array((rows.data, (place[kept][rows.row], rows.col)), shape=(total, features.shape[1]))
    moved.sort_indices()
    return moved


def without_row(features: Any, row: int) -> Any:
    if not sp.issparse(features):
        zeroed = features.copy()
        zeroed[row] = 0
        return zeroed
    first, last = int(features.indptr[row]), int(features.indptr[row + 1])
    indptr = features.indptr.copy()
    indptr[row + 1 :] -= last - first
    gone = slice(first, last)
    return sp.csr_array(
        (np.delete(features.data, gone), np.delete(features.indices, gone), indptr), shape=features.shape
    )
