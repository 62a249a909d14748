"""Tables of edges and of features that are read in pieces: .npy files, Parquet files, folders of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from caribou.engines.blocks import regrouped
from caribou.errors import DataError
from caribou.graph import MAX_NODES

_IDS = ("node", "id", "node_id")
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
            if len(shape) != 2 or 2 not in shape or dtype.kind not in "iu":
                raise DataError(f"{path}: edges must be integers of shape [E, 2] or [2, E], got {dtype} {list(shape)}")
            return cls(path, shape[1] if shape[0] == 2 else shape[0])
        return cls(path, sum(file.metadata.num_rows for file in _parquet_files(path)))

    def chunks(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sources and targets of ``size`` pairs at a time."""
        if self.path.suffix == ".npy":
            yield from self._npy_chunks(size)
            return
        for file in _parquet_files(self.path):
            ends = _ends(self.path, file)
            for batch in file.iter_batches(batch_size=size, columns=list(ends)):
                yield _integers(self.path, batch.column(0)), _integers(self.path, batch.column(1))

    def _npy_chunks(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        shape, dtype, offset = _npy_header(self.path)
        for first in range(0, self.count, size):
            count = min(size, self.count - first)
            if shape[0] == 2:
                start = offset + first * dtype.itemsize
                u = np.fromfile(self.path, dtype, count, offset=start)
                v = np.fromfile(self.path, dtype, count, offset=start + self.count * dtype.itemsize)
            else:
                pairs = np.fromfile(self.path, dtype, 2 * count, offset=offset + 2 * first * dtype.itemsize)
                u, v = pairs[::2], pairs[1::2]
            yield u, v


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
            nodes, columns = sum(file.metadata.num_rows for file in files), len(_feature_names(path, files[0]))
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
                raise DataError(f"{self.path}: features must be finite, got NaN or infinity in row {seen + row}")
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
        for file in _parquet_files(self.path):
            for batch in file.iter_batches(batch_size=size, columns=_feature_names(self.path, file)):
                yield np.stack([_numbers(self.path, column) for column in batch.columns], axis=1)


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


def _parquet_files(path: Path) -> list[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.is_dir():
        paths = sorted(path.glob("*.parquet"))
    elif path.suffix in (".parquet", ".pq"):
        paths = [path]
    else:
        raise DataError(f"{path}: must be a .npy file, a .parquet file or a folder of .parquet files")
    try:
        files = [pq.ParquetFile(name) for name in paths]
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


def _integers(path: Path, column: Any) -> np.ndarray:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "iu":
        raise DataError(f"{path}: edges must be whole numbers without gaps, got {column.type}")
    return values


def _numbers(path: Path, column: Any) -> np.ndarray:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        raise DataError(f"{path}: features must be numbers, got {column.type}")
    return values.astype(np.float64)
