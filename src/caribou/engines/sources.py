"""Tables of edges and of features that are read in pieces: .npy files, Parquet files, folders of Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from caribou.engines.blocks import regrouped
from caribou.errors import DataError
from caribou.graph import MAX_NODES

_IDS = ("node", "id", "node_id")
Place = Callable[[int], str]
"""Says where entry k of a piece stands."""
_ENDS = (("source", "target"), ("from", "to"), ("src", "dst"))


@dataclass(frozen=True)
class EdgeTable:
    """Pairs of node numbers in a file. ``count``: how many there are (private)."""

    path: Path
    count: int

    @classmethod
    def open(cls, path: Path) -> EdgeTable:
        """Look at the shape, read nothing."""
        if path.suffix == ".npy":
            shape, dtype, _ = _npy_header(path)
            table = cls(path, shape[-1] if shape[:1] == (2,) else sum(shape[:1]))
            pairs = len(shape) == 2 and 2 in shape
            if pairs and dtype.kind == "f":
                table._refuse_fractions()
            if not pairs or dtype.kind not in "iu":
                raise DataError(f"{path}: edges must be integers of shape [E, 2] or [2, E], got {dtype} {list(shape)}")
            return table
        return cls(path, sum(file.metadata.num_rows for _, file in _parquet_files(path)))

    def chunks(self, size: int, nodes: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sources and targets of ``size`` pairs at a time; with ``nodes``, an end outside [0, nodes) is an error with its row.

        Of a refused edge an error tells the place and the bad end, never a good one: edges are secret.
        """
        for place, u, v in self._pieces(size):
            if nodes is not None:
                _require_nodes(u, v, nodes, place)
            yield u, v

    def _pieces(self, size: int) -> Iterator[tuple[Place, np.ndarray, np.ndarray]]:
        if self.path.suffix == ".npy":
            yield from self._npy_pieces(size)
            return
        for path, file in _parquet_files(self.path):
            first, ends = 0, _ends(path, file)
            for batch in file.iter_batches(batch_size=size, columns=list(ends)):
                place = _place(path, "row", first)
                yield place, _integers(batch.column(0), path, place), _integers(batch.column(1), path, place)
                first += len(batch)

    def _refuse_fractions(self) -> None:
        for place, u, v in self._npy_pieces(1 << 20):
            for ends in (u, v):
                _refuse_fraction(ends, np.zeros(len(ends), dtype=bool), place)

    def _npy_pieces(self, size: int) -> Iterator[tuple[Place, np.ndarray, np.ndarray]]:
        shape, dtype, offset = _npy_header(self.path)
        entry = "column" if shape[0] == 2 else "row"
        for first in range(0, self.count, size):
            count = min(size, self.count - first)
            if shape[0] == 2:
                start = offset + first * dtype.itemsize
                u = np.fromfile(self.path, dtype, count, offset=start)
                v = np.fromfile(self.path, dtype, count, offset=start + self.count * dtype.itemsize)
            else:
                pairs = np.fromfile(self.path, dtype, 2 * count, offset=offset + 2 * first * dtype.itemsize)
                u, v = pairs[::2], pairs[1::2]
            yield _place(self.path, entry, first), u, v


@dataclass(frozen=True)
class FeatureTable:
    """A matrix of n rows and d columns in a file."""

    path: Path
    nodes: int
    columns: int

    @classmethod
    def open(cls, path: Path) -> FeatureTable:
        """Look at the shape, read nothing."""
        if path.suffix == ".npy":
            shape, dtype, _ = _npy_header(path)
            if len(shape) != 2 or dtype.kind not in "fiub":
                raise DataError(f"{path}: features must be numbers of shape [n, d], got {dtype} {list(shape)}")
            nodes, columns = shape
        else:
            files = _parquet_files(path)
            nodes, columns = sum(file.metadata.num_rows for _, file in files), len(_feature_names(*files[0]))
        if not 1 <= nodes <= MAX_NODES or columns < 1:
            raise DataError(f"{path}: features must have 1 to {MAX_NODES} rows and a column, got {nodes} x {columns}")
        return cls(path, nodes, columns)

    def chunks(self, size: int) -> Iterator[np.ndarray]:
        """``size`` rows at a time (the last: fewer), float64 and finite."""
        return regrouped(self._finite_pieces(size), size)

    def _finite_pieces(self, size: int) -> Iterator[np.ndarray]:
        seen = 0
        for piece in self._pieces(size):
            if not np.isfinite(piece).all():
                row = int(np.argwhere(~np.isfinite(piece))[0][0])
                raise DataError(
                    f"{self.path}: features must be finite, got NaN or infinity in row {seen + row} (from 0)"
                )
            seen += len(piece)
            yield piece

    def _pieces(self, size: int) -> Iterator[np.ndarray]:
        if self.path.suffix == ".npy":
            _, dtype, offset = _npy_header(self.path)
            for first in range(0, self.nodes, size):
                count = (min(self.nodes, first + size) - first) * self.columns
                start = offset + first * self.columns * dtype.itemsize
                yield np.fromfile(self.path, dtype, count, offset=start).astype(np.float64).reshape(-1, self.columns)
            return
        for path, file in _parquet_files(self.path):
            for batch in file.iter_batches(batch_size=size, columns=_feature_names(path, file)):
                yield np.stack([_numbers(path, column) for column in batch.columns], axis=1)


def _npy_header(path: Path) -> tuple[tuple[int, ...], np.dtype, int]:
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
            offset = file.tell()
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: must be a .npy file that can be read: {error}") from error
    if fortran and len(shape) == 2 and min(shape) > 1:
        raise DataError(f"{path}: must be stored by rows (C order), got Fortran order")
    if dtype.hasobject:
        raise DataError(f"{path}: must hold numbers, got objects")
    if path.stat().st_size - offset < int(np.prod(shape)) * dtype.itemsize:
        raise DataError(f"{path}: must hold {list(shape)} numbers, got a truncated file")
    return shape, dtype, offset


def _parquet_files(path: Path) -> list[tuple[Path, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.is_dir():
        paths = sorted(path.glob("*.parquet"))
    elif path.suffix in (".parquet", ".pq"):
        paths = [path]
    else:
        raise DataError(f"{path}: must be a .npy file, a .parquet file or a folder of .parquet files")
    try:
        files = [(name, pq.ParquetFile(name)) for name in paths]
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path}: must be Parquet that can be read: {error}") from error
    if not files:
        raise DataError(f"{path}: must hold at least one .parquet file, got none")
    return files


def _ends(path: Path, file: Any) -> tuple[str, str]:
    names = file.schema_arrow.names
    for ends in _ENDS:
        if set(ends) <= set(names):
            return ends
    if len(names) == 2:
        return names[0], names[1]
    raise DataError(f"{path}: edges must have columns source and target, or two columns, got {', '.join(names)}")


def _feature_names(path: Path, file: Any) -> list[str]:
    names = [name for name in file.schema_arrow.names if name not in _IDS]
    if not names:
        raise DataError(f"{path}: features must have at least one column beside the node's number, got none")
    return names


def _place(path: Path, entry: str, first: int) -> Place:
    return lambda k: f"{path}: {entry} {first + k} (from 0)"


def _require_nodes(u: np.ndarray, v: np.ndarray, nodes: int, place: Place) -> None:
    if all(len(ends) == 0 or (int(ends.min()) >= 0 and int(ends.max()) < nodes) for ends in (u, v)):
        return
    outside = np.stack([(ends < 0) | (ends >= nodes) for ends in (u, v)])
    k = int(np.flatnonzero(outside.any(axis=0))[0])
    bad = (u, v)[int(outside[:, k].argmax())][k]
    raise DataError(f"{place(k)}: edges must be node numbers in [0, {nodes}), the rows of the feature table, got {bad}")


def _integers(column: Any, path: Path, place: Place) -> np.ndarray:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind in "iu":
        return values
    if values.dtype.kind == "f":
        _refuse_fraction(values, column.is_null().to_numpy(zero_copy_only=False), place)
    raise DataError(f"{path}: edges must be a column of integers, got {column.type}")


def _refuse_fraction(values: np.ndarray, empty: np.ndarray, place: Place) -> None:
    bad = np.flatnonzero(~np.isfinite(values) | (values != np.floor(values)))
    if len(bad):
        k = int(bad[0])
        raise DataError(f"{place(k)}: edges must be whole numbers, got {'an empty cell' if empty[k] else values[k]}")


def _numbers(path: Path, column: Any) -> np.ndarray:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        raise DataError(f"{path}: features must be numbers, got {column.type}")
    return values.astype(np.float64)
