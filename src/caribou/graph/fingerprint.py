"""One content for one graph, in memory or in row blocks on disk: what a ledger's keyed fingerprint is computed from.

Content is n, the undirected edges and the features, and nothing else; its edges are also known by themselves (`edges_of`). It
does not depend on the degree cap, the seed, the order of rows or columns of an edge table, repeated pairs, or whether features
are stored in single or double precision (they are compared in single precision). Labels and split are left out: with other
labels it is still a graph of the same people.

Beside it stands what a look-alike shares with it, n and the sorted degrees (`degrees_of`): nodes in another order, other features
and permuted columns leave them as they are, one edge more or less does not.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from caribou.graph.graph import Graph

_ROWS = 1 << 14
"""Rows of features that are looked at together: bounds the memory of a dense table."""
_KEYS = 1 << 20
"""Entries of the adjacency matrix whose rows are counted together."""


def row_digests(
    features: np.ndarray | sp.csr_array, key: bytes, numbers: np.ndarray | slice = slice(None)
) -> np.ndarray:
    """A short digest of every row, in single precision; equal for equal rows, dense or sparse. -> [n], int64

    ``key``: a secret one (`caribou.machine.owner`), without which nobody can test guesses for a row. ``numbers``: of which rows.

    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> first, second, third = row_digests(rows, b"mine")
    >>> bool(first == third), bool(first == second), bool(first == row_digests(rows, b"another")[0])
    (True, False, False)
    >>> bool((row_digests(sp.csr_array(rows), b"mine") == row_digests(rows, b"mine")).all())
    True
    """
    found: list[bytes] = []
    asked = np.arange(features.shape[0])[numbers]
    for first in range(0, len(asked), _ROWS):
        part = sp.csr_array(features[asked[first : first + _ROWS]], dtype=np.float32, copy=True)
        part.sum_duplicates()
        part.eliminate_zeros()
        columns, values = part.indices.astype("<i8"), part.data.astype("<f4")
        for a, b in itertools.pairwise(part.indptr.tolist()):
            cells = columns[a:b].tobytes() + values[a:b].tobytes()
            found.append(hashlib.blake2b(cells, digest_size=8, key=key).digest())
    return np.frombuffer(b"".join(found), dtype="<i8")


def key_mark(key: bytes) -> np.ndarray:
    """A number by which a key is known again, and no row is guessed. -> [1], int64"""
    return np.frombuffer(hashlib.blake2b(b"the key itself", digest_size=8, key=key).digest(), dtype="<i8")


def known_rows(seen: np.ndarray, digests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the digests, [n], are ``seen``, [m], ascending, and which one: numbers of rows, and places in ``seen``.

    >>> known_rows(np.array([2, 5]), np.array([7, 5, 5]))[0].tolist()
    [1, 2]
    """
    at = np.minimum(np.searchsorted(seen, digests), max(len(seen) - 1, 0))
    rows = np.flatnonzero(seen[at] == digests) if len(seen) else np.empty(0, dtype=np.int64)
    return rows, at[rows]


class ContentDigest:
    """The content of a graph, row by row from the first to the last, in pieces of any size.

    Its digests are as private as the graph: without a key they could be used to test guesses. They go to `Ledger.fingerprint`
    and nowhere else.

    >>> digest = ContentDigest(nodes=2, columns=1)
    >>> digest.add_edges(np.array([0 << 32 | 1, 1 << 32 | 0], dtype=np.uint64))
    >>> digest.add_features(np.array([[1.0], [0.0]]))
    >>> len(list(digest.parts()))
    4
    """

    def __init__(self, *, nodes: int, columns: int) -> None:
        self._size = np.array([nodes, columns], dtype="<i8").tobytes()
        self._edges, self._features = hashlib.sha256(), hashlib.sha256()
        self._row = 0
        self._rows_of_degree: Counter[int] = Counter()
        self._open_row, self._open_degree = -1, 0

    def add_edges(self, keys: np.ndarray) -> None:
        """The next entries of the adjacency matrix as row 2^32 + column: sorted, unique, both directions of every edge."""
        self._edges.update(np.ascontiguousarray(keys, dtype="<u8").data)
        for first in range(0, len(keys), _KEYS):
            self._count(keys[first : first + _KEYS] >> np.uint64(32))

    def _count(self, rows: np.ndarray) -> None:
        """How many rows have which degree. The last row stays open: its next entries may come with the next piece."""
        ends = np.append(np.flatnonzero(np.diff(rows)) + 1, len(rows))
        degrees = np.diff(ends, prepend=0)
        if int(rows[0]) == self._open_row:
            degrees[0] += self._open_degree
        else:
            self._close_row()
        values, counts = np.unique(degrees[:-1], return_counts=True)
        self._rows_of_degree.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        self._open_row, self._open_degree = int(rows[-1]), int(degrees[-1])

    def _close_row(self) -> None:
        if self._open_degree:
            self._rows_of_degree[self._open_degree] += 1
        self._open_row, self._open_degree = -1, 0

    def add_features(self, rows: Any) -> None:
        """The next rows of features, dense or sparse; zeros do not count."""
        for first in range(0, rows.shape[0], _ROWS):
            part = sp.coo_array(rows[first : first + _ROWS])
            value = part.data.astype("<f4")
            row, column, value = part.row[value != 0], part.col[value != 0], value[value != 0]
            order = np.lexsort((column, row))
            entries = np.empty(len(order), dtype=[("row", "<i8"), ("column", "<i8"), ("value", "<f4")])
            entries["row"], entries["column"] = row[order].astype(np.int64) + self._row, column[order]
            entries["value"] = value[order]
            self._features.update(entries.tobytes())
            self._row += part.shape[0]

    def parts(self) -> Iterator[bytes]:
        """Nodes and columns, edges, features, degrees: `whole_of`, `edges_of` and `degrees_of` are what a ledger takes."""
        self._close_row()
        degrees = np.array(sorted(self._rows_of_degree.items()), dtype="<i8")
        yield self._size
        yield self._edges.digest()
        yield self._features.digest()
        yield hashlib.sha256(degrees.tobytes()).digest()


NO_EDGES = hashlib.sha256().digest()


def whole_of(content: Sequence[bytes]) -> tuple[bytes, ...]:
    """The part of a content that identifies the graph: nodes and columns, edges, features."""
    size, edges, features, _ = content
    return size, edges, features


def edges_of(content: Sequence[bytes]) -> tuple[bytes, ...] | None:
    """The part of a content that is about edges alone: n and the edges; None for a graph without edges.

    With other features it is still a graph of the same edges: a ledger knows it by this part, too.
    """
    size, edges, _, _ = content
    return None if edges == NO_EDGES else (size[:8], edges)


def degrees_of(content: Sequence[bytes]) -> tuple[bytes, ...] | None:
    """The part of a content that a look-alike shares: n and the sorted degrees; None for a graph without edges."""
    size, edges, _, degrees = content
    return None if edges == NO_EDGES else (size[:8], degrees)


def features_of(content: Sequence[bytes]) -> tuple[bytes, ...] | None:
    """The part of a content that is about features alone: nodes, columns and features; None for a graph without columns.

    At node level they are what is protected: the same people with one edge more or less are still the same people.
    """
    size, _, features, _ = content
    return None if int.from_bytes(size[8:16], "little") == 0 else (size, features)


def graph_content(graph: Graph) -> Iterator[bytes]:
    """The content of a graph in memory."""
    digest = ContentDigest(nodes=graph.num_nodes, columns=graph.num_features)
    rows = np.repeat(np.arange(graph.num_nodes, dtype=np.uint64), np.diff(graph.indptr))
    digest.add_edges(rows << np.uint64(32) | graph.indices.astype(np.uint64))
    digest.add_features(graph.features)
    yield from digest.parts()
