"""A graph for training from an edge table and a node table of any size: edges in blocks, features in a mapped file."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from caribou.datasets.arrays import FEATURES, read_node_arrays
from caribou.engines.edge_blocks import DiskBlocks, MemoryBlocks, StoredEdges
from caribou.engines.pipeline import check_engine
from caribou.engines.preparation import Memory
from caribou.engines.ray_blocks import RayBlocks
from caribou.engines.sources import EdgeTable
from caribou.errors import DataError, InputError, RunError
from caribou.graph import MAX_NODES, Graph, listed
from caribou.graph.blocked import BlockedGraph, EdgeStore
from caribou.graph.classes import Classes
from caribou.graph.frames import IDS, LABELS, SPLITS, Titles, build, check_titles, chosen, rows_of
from caribou.memory import memory_limit

_ROWS = 1 << 16
"""Rows of a node table that are read together."""


@dataclass(frozen=True)
class TrainingTables:
    """Where a graph lies, and who is to hold its edges.

    Args:
        edges: pairs of row numbers of the node table: .npy, .parquet, or a folder of .parquet files.
        nodes: a folder of arrays (`caribou.datasets.arrays`), a .parquet file, or a folder of .parquet files.
        engine: local (blocks in memory), outofcore (on disk) or ray (with the workers of a cluster).
        memory: bytes for the whole process (out of core).
        workers: threads, or tasks of ray at a time.
        address: of a Ray cluster.
        name: of the graph, which a ledger charges.
        titles: of the columns that are not features.
        ignore: titles of columns that are not read.
        gone: titles of columns that an earlier table had, and that were not read: they are not read if they are there.
        classes: as in `caribou.read_graph`.
        work: where the private folder of blocks is made.
    """

    edges: Path
    nodes: Path
    engine: str = "local"
    memory: int | None = None
    workers: int = 1
    address: str | None = None
    name: str = "graph"
    titles: Titles = field(default_factory=Titles)
    ignore: Sequence[str] = ()
    gone: Sequence[str] = ()
    classes: Classes | None = None
    work: Path | None = None

    def __post_init__(self) -> None:
        check_engine(self.engine, self.memory, self.workers, self.address)
        Memory(self.memory)


@contextmanager
def training_graph(tables: TrainingTables) -> Iterator[Graph]:
    """The graph of the tables while the context lasts; blocks and copies of features are removed with it.

    They lie in a folder of mode 0700, which is as secret as the graph. What would need more than ``tables.memory`` is refused.
    """
    table = EdgeTable.open(tables.edges)
    with memory_limit(tables.memory), tempfile.TemporaryDirectory(prefix=".caribou-blocks-", dir=tables.work) as folder:
        nodes = _nodes(tables, Path(folder))
        _check_space(Path(folder), table.count)
        stored = StoredEdges.prepare(table, nodes.num_nodes, Path(folder), Memory(tables.memory))
        with _store(tables, stored) as store:
            yield BlockedGraph.of(nodes, store)


@contextmanager
def _store(tables: TrainingTables, stored: StoredEdges) -> Iterator[EdgeStore]:
    if tables.engine == "local":
        yield MemoryBlocks(stored, tables.workers)
    elif tables.engine == "outofcore":
        yield DiskBlocks(stored)
    elif tables.engine == "ray":
        store = RayBlocks(stored, tables.workers, tables.address)
        try:
            yield store
        finally:
            store.close()
    else:
        raise InputError(f"engine must be local, outofcore or ray, got {tables.engine!r}")


def _check_space(folder: Path, pairs: int) -> None:
    """Two keys of 8 bytes per pair while blocks are sorted, and two columns of 4 in the blocks."""
    needed, free = 24 * pairs, shutil.disk_usage(folder).free
    if free < needed:
        raise RunError(
            f"blocks of the graph need a disk with {needed >> 20} MB free, got {free >> 20} MB at {folder.parent}"
        )


def _nodes(tables: TrainingTables, folder: Path) -> Graph:
    """Features, labels and split, without edges."""
    path = tables.nodes
    if path.is_dir() and (path / FEATURES).exists():
        used = [title for title in vars(tables.titles).values() if title is not None]
        if used or tables.ignore:
            raise InputError(f"column and ignore must go with a node table in Parquet, got a folder of arrays: {path}")
        return read_node_arrays(path, tables.name, tables.classes)
    files = _parquet_files(path)
    header = _header(path, files, tables.ignore)
    header = [title for title in header if title not in tables.gone]
    roles = _Roles.of(header, tables.titles, path)
    frame = _role_columns(files, roles.played)
    count = len(frame)
    if not 1 <= count <= MAX_NODES:
        raise DataError(f"{path}: must hold 1 to {MAX_NODES} nodes, got {count}")
    if roles.id is not None:
        _require_row_numbers(frame[roles.id].to_numpy(), roles.id, path)
    reading = build(
        frame.drop(columns=[roles.id] if roles.id is not None else []),
        tables.titles,
        rows_of(path),
        path,
        np.empty((2, 0), dtype=np.int64),
        np.arange(count),
        tables.name,
        id_title=roles.id,
        classes=tables.classes,
    )
    names = [title for title in header if title not in roles.played]
    stored = folder / FEATURES
    _store_features(files, names, count, stored)
    bare = reading.require()
    rules = None
    if bare.column_rules is not None:
        rules = replace(
            bare.column_rules, unscaled=tuple(names), ignored=tuple(dict.fromkeys((*tables.gone, *tables.ignore)))
        )
    return replace(
        bare,
        features=np.load(stored, mmap_mode="r"),
        feature_names=tuple(names),
        column_rules=rules,
        node_ids=None if roles.id is None else bare.node_ids,  # row numbers that nobody wrote down may change
    )


@dataclass(frozen=True)
class _Roles:
    """Titles of the columns that are not features."""

    id: str | None
    label: str | None
    split: str | None

    @classmethod
    def of(cls, header: list[str], titles: Titles, path: Path) -> _Roles:
        return cls(
            chosen(header, titles.id, IDS, path, "id"),
            chosen(header, titles.label, LABELS, path, "label"),
            chosen(header, titles.split, SPLITS, path, "split"),
        )

    @property
    def played(self) -> list[str]:
        return [title for title in (self.id, self.label, self.split) if title is not None]


def _parquet_files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(path.glob("*.parquet"))
    else:
        found = [path] if path.suffix.lower() in (".parquet", ".pq") and path.exists() else []
    if not found:
        raise DataError(
            f"{path}: must be a .parquet file, a folder of .parquet files, or a folder with {FEATURES} and labels.npy (--nodes)"
        )
    return found


def _header(path: Path, files: Sequence[Path], ignore: Sequence[str]) -> list[str]:
    headers = [_opened(file).schema_arrow.names for file in files]
    for file, header in zip(files, headers, strict=True):
        if header != headers[0]:
            raise DataError(
                f"{file}: must have the columns of {files[0].name}, {listed(headers[0])}, got {listed(header)}"
            )
    check_titles(path, headers[0])
    unknown = [title for title in ignore if title not in headers[0]]
    if unknown:
        raise DataError(f"{path}: ignore must name columns of the table, got {listed(unknown)} (--ignore)")
    return [title for title in headers[0] if title not in ignore and not title.startswith("__index_level_")]


def _opened(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path}: must be Parquet that can be read: {error}") from error


def _role_columns(files: Sequence[Path], titles: list[str]) -> Any:
    """The few columns that are not features, whole; with no such column a frame of as many rows."""
    import pandas as pd

    parts = []
    for path in files:
        file = _opened(path)
        if titles:
            part = file.read(columns=titles).to_pandas(ignore_metadata=True, integer_object_nulls=True)[titles]
        else:
            part = pd.DataFrame(index=pd.RangeIndex(file.metadata.num_rows))
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _require_row_numbers(ids: np.ndarray, title: str, path: Path) -> None:
    try:
        right = ids.astype(np.int64) == np.arange(len(ids))
    except (TypeError, ValueError):
        right = np.zeros(len(ids), dtype=bool)
    if not right.all():
        row = int(np.flatnonzero(~right)[0])
        raise DataError(
            f"{path}: column {title!r} must hold the row numbers 0 .. {len(ids) - 1} in order with --edges, got {ids[row]!r} in "
            f"row {row + 1}; other ids are read in memory (--graph EDGES --nodes NODES), or leave the column out "
            f"(--ignore {title}) if edges are row numbers"
        )


def _store_features(files: Sequence[Path], names: Sequence[str], count: int, out: Path) -> None:
    """The feature columns as one array of single precision on disk, written while the table is read. The same as in memory."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (count, len(names))}
    with open(out, "wb") as target:
        np.lib.format.write_array_header_1_0(target, header)
        for path in files:
            row = 0
            for batch in _opened(path).iter_batches(batch_size=_ROWS, columns=list(names)):
                rows = np.empty((len(batch), len(names)), dtype="<f4")
                for k, name in enumerate(names):
                    rows[:, k] = _numbers(batch.column(name), name, path, row)
                target.write(rows.data)
                row += len(batch)


def _numbers(column: Any, name: str, path: Path, first: int) -> np.ndarray:
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise DataError(
            f"{path}: column {name!r} must hold numbers with --edges, got {kind}; leave it out (--ignore {name}), or read the "
            "tables in memory (--graph EDGES --nodes NODES), where rules of tables apply"
        )
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(
            f"{path}: column {name!r} must hold a number in every row with --edges, got an empty cell in row {first + row + 1}; "
            "fill it, or read the tables in memory (--graph EDGES --nodes NODES --fill ...)"
        )
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
