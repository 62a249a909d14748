"""The inner loops: one round over consecutive rows, uniform words to Gaussians, counts of votes.

Two implementations of the same statements: compiled C (`_fused.c`, built at installation where a compiler is present) and NumPy.
They agree to rounding; `name` says which one runs, and a run that was begun with one is never continued with the other.
Nothing here is random and nothing here knows about privacy.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np

VERSION = 1
"""Of the arithmetic: changes whenever the bits of a result may."""
_INTERFACE = 2
"""Of the compiled functions: changes whenever they are called in another way."""
_GROUP = 128
"""Rows whose sums the compiled loop makes together, as in the C file."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Consecutive rows of the adjacency: ``starts`` [rows + 1] into ``columns``, neighbours ascending inside a row."""

    starts: np.ndarray  # int64
    columns: np.ndarray  # int32

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    def part(self, first: int, last: int) -> Rows:
        """Rows first .. last - 1; shares the arrays."""
        return Rows(self.starts[first : last + 1], self.columns)


@dataclass(frozen=True, eq=False)
class Shards:
    """y = S^(-1/2) X in arrays of 2^shift rows (float32, [rows, d]): wherever they lie, row j is found in one step."""

    arrays: Sequence[np.ndarray]
    shift: int = 62

    @property
    def columns(self) -> int:
        """d."""
        return int(self.arrays[0].shape[1])


@dataclass(frozen=True, eq=False)
class Finish:
    """What follows the product: scaling by S^(-1/2), mean, residual, inner projection, noise on its grid, projection.

    degrees: [rows]; own: [rows, d], y of the same rows; weight = C_L alpha_1; mean = C_L alpha_2 Mean(X) or None; noise:
    [rows, d] on ``grid``, or None; inner: project before the noise; last: give x instead of S^(-1/2) x.
    """

    degrees: np.ndarray
    own: np.ndarray
    floor: int
    weight: float
    mean: np.ndarray | None
    beta: float
    x0: np.ndarray | None
    inner: bool
    last: bool
    noise: np.ndarray | None
    grid: float

    def part(self, rows: slice, noise: np.ndarray | None) -> Finish:
        """The same for some of the rows, with their noise."""
        x0 = None if self.x0 is None else self.x0[rows]
        return replace(self, degrees=self.degrees[rows], own=self.own[rows], x0=x0, noise=noise)


class _Product(ctypes.Structure):
    _fields_ = (
        ("rows", ctypes.c_int64),
        ("starts", ctypes.c_void_p),
        ("columns", ctypes.c_void_p),
        ("end", ctypes.c_int64),
        ("shards", ctypes.c_void_p),
        ("shift", ctypes.c_int32),
        ("d", ctypes.c_int32),
    )


class _Rest(ctypes.Structure):
    _fields_ = (
        ("degrees", ctypes.c_void_p),
        ("own", ctypes.c_void_p),
        ("floor", ctypes.c_int64),
        ("weight", ctypes.c_double),
        ("mean", ctypes.c_void_p),
        ("beta", ctypes.c_double),
        ("x0", ctypes.c_void_p),
        ("inner", ctypes.c_int32),
        ("last", ctypes.c_int32),
        ("noise", ctypes.c_void_p),
        ("grid", ctypes.c_double),
        ("per_grid", ctypes.c_double),
        ("out", ctypes.c_void_p),
        ("sum", ctypes.c_void_p),
    )


def empty_rows(rows: int, columns: int) -> np.ndarray:
    """An uninitialised float32 matrix that begins on a cache line: a row of 16 columns is then one line and not two."""
    size = 4 * rows * columns
    raw = np.empty(size + 64, dtype=np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + size].view(np.float32).reshape(rows, columns)


def name() -> str:
    """Which implementation runs; part of what must stay equal between the beginning and the end of a run."""
    return f"{'numpy' if _library() is None else 'compiled'} {VERSION}"


def round_tiles(
    rows: Rows, y: Shards, finish: Finish, noises: Iterator[np.ndarray | None], tile: int, out: np.ndarray
) -> np.ndarray:
    """One round for consecutive rows in one pass, ``tile`` of them at a time, each with its own noise: out [rows, d] = the new y.

    ``finish`` is that of all rows; the last round writes x instead of y. Returns the sums of the new x, [tiles, d].

    The next noise is asked for when the one before has been used.
    """
    firsts = range(0, rows.count, tile)
    sums = np.zeros((len(firsts), y.columns))
    if _library() is None:
        for number, (first, noise) in enumerate(zip(firsts, noises, strict=True)):
            part = slice(first, min(rows.count, first + tile))
            total = np.zeros((part.stop - first, y.columns))
            add_rows(rows.part(first, part.stop), y, total)
            sums[number] = finish_rows(finish.part(part, noise), total, out[part])
        return sums
    pointers, scratch = _pointers(y), np.empty((_GROUP, y.columns))
    product, rest = _product(rows, y, pointers), _rest(finish, out, sums)
    # only addresses move from tile to tile: asking NumPy for them again would cost as much as a small product
    moving = [(product, "starts", 8), (rest, "degrees", 8), (rest, "own", 4 * y.columns), (rest, "out", 4 * y.columns)]
    if finish.x0 is not None:
        moving.append((rest, "x0", 4 * y.columns))
    begins = [(record, field, getattr(record, field), width) for record, field, width in moving]
    arguments = ctypes.byref(product), ctypes.byref(rest), _address(scratch)
    call = _library().caribou_round  # type: ignore[union-attr]
    for number, (first, noise) in enumerate(zip(firsts, noises, strict=True)):
        for record, field, begin, width in begins:
            setattr(record, field, begin + first * width)
        product.rows = min(tile, rows.count - first)
        rest.noise = None if noise is None else noise.ctypes.data
        rest.sum = sums.ctypes.data + 8 * number * y.columns
        call(*arguments)
    return sums


def add_rows(rows: Rows, y: Shards, total: np.ndarray) -> None:
    """total [rows, d] += the sum of y over the neighbours, term by term in ascending order."""
    library = _library()
    if library is not None:
        pointers = _pointers(y)
        library.caribou_add(ctypes.byref(_product(rows, y, pointers)), _address(total))
        return
    import scipy.sparse as sp

    first, last = int(rows.starts[0]), int(rows.starts[-1])
    columns = rows.columns[first:last]
    shift = min(y.shift, 31)
    taken = np.empty((len(columns), y.columns))
    for number, array in enumerate(y.arrays):
        here = columns >> shift == number
        if array is not None and here.any():
            taken[here] = array[columns[here] & ((1 << shift) - 1)]
    counting = (np.ones(len(columns)), np.arange(len(columns)), rows.starts - first)
    total += sp.csr_array(counting, shape=(rows.count, len(columns))) @ taken


def finish_rows(finish: Finish, total: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The rest of the round for summed rows; ``total`` is used up. Returns the sum of the new x, [d]."""
    library = _library()
    if library is not None:
        sums = np.zeros(out.shape[1])
        rest = _rest(finish, out, sums)
        library.caribou_finish(
            ctypes.byref(rest), ctypes.c_int64(len(out)), ctypes.c_int32(out.shape[1]), _address(total)
        )
        return sums
    a = 1 / np.sqrt(np.maximum(finish.degrees, finish.floor) + 1.0)[:, None]
    x = (total + finish.own) * (finish.weight * a)
    if finish.mean is not None:
        x += finish.mean
    if finish.x0 is not None:
        x += finish.beta * finish.x0.astype(np.float64)
    if finish.inner:
        x = _projected(x)
    if finish.noise is not None:
        x = np.rint(x / finish.grid) * finish.grid + finish.noise
    x = _projected(x)
    out[:] = x if finish.last else x * a
    return x.sum(axis=0)


def gaussian(words: np.ndarray, out: np.ndarray, *, std: float, grid: float) -> None:
    """Box-Muller: 3 m uniform words of 64 bits to 2 m Gaussians of standard deviation ``std`` on the grid. out: float64, [2 m]

    u = (w + (w' + 1/2) 2^-64) 2^-64 from the first two thirds, the angle 2 pi w 2^-64 from the last; all cosines, then all sines.
    """
    pairs = len(words) // 3
    library = _library()
    if library is not None:
        numbers = (ctypes.c_double(std), ctypes.c_double(grid), ctypes.c_double(1 / grid))
        library.caribou_gaussian(_address(words), ctypes.c_int64(pairs), *numbers, _address(out))
        return
    w = words.astype(np.float64)
    radius = np.sqrt(-2 * np.log((w[:pairs] + (w[pairs : 2 * pairs] + 0.5) * 2.0**-64) * 2.0**-64))
    angle = w[2 * pairs :] * (2 * np.pi * 2.0**-64)
    z = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)]) * std
    np.multiply(np.rint(z / grid), grid, out=out)


def count_votes(
    rows: Rows, first: int, place: np.ndarray, receives: np.ndarray, message: np.ndarray, classes: int
) -> np.ndarray:
    """Messages per receiver and class: u sends message[u] to v if 0 <= place[u] < place[v] and v receives. [rows, classes]

    ``first`` is the index of the first row; place (int32, -1: does not send), receives (bool) and message (int32): [n].
    """
    counts = np.zeros((rows.count, classes), dtype=np.int64)
    library = _library()
    if library is not None:
        library.caribou_votes(
            ctypes.c_int64(rows.count),
            ctypes.c_int64(first),
            *(_address(part) for part in (rows.starts, rows.columns, place, receives, message)),
            ctypes.c_int32(classes),
            _address(counts),
        )
        return counts
    u = rows.columns[int(rows.starts[0]) : int(rows.starts[-1])]
    row = np.repeat(np.arange(rows.count), np.diff(rows.starts))
    used = (place[u] >= 0) & (place[u] < place[first + row]) & receives[first + row]
    flat = np.bincount(row[used] * classes + message[u[used]], minlength=rows.count * classes)
    return flat.reshape(rows.count, classes)


def _projected(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(1, np.sqrt((x * x).sum(axis=1, keepdims=True)))


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _pointers(y: Shards) -> np.ndarray:
    return np.array([0 if array is None else array.ctypes.data for array in y.arrays], dtype=np.uint64)


def _product(rows: Rows, y: Shards, pointers: np.ndarray) -> _Product:
    return _Product(
        rows.count,
        rows.starts.ctypes.data,
        rows.columns.ctypes.data,
        int(rows.starts[-1]),
        pointers.ctypes.data,
        y.shift,
        y.columns,
    )


def _rest(finish: Finish, out: np.ndarray, sums: np.ndarray) -> _Rest:
    return _Rest(
        finish.degrees.ctypes.data,
        finish.own.ctypes.data,
        finish.floor,
        finish.weight,
        None if finish.mean is None else finish.mean.ctypes.data,
        finish.beta,
        None if finish.x0 is None else finish.x0.ctypes.data,
        int(finish.inner),
        int(finish.last),
        None if finish.noise is None else finish.noise.ctypes.data,
        finish.grid,
        1 / finish.grid,
        out.ctypes.data,
        sums.ctypes.data,
    )


@cache
def _library() -> ctypes.CDLL | None:
    """The compiled loops, or None: not built, built from other sources, or switched off by CARIBOU_KERNELS=numpy."""
    if os.environ.get("CARIBOU_KERNELS") == "numpy":
        return None
    for suffix in EXTENSION_SUFFIXES:
        path = Path(__file__).with_name(f"_fused{suffix}")
        if not path.exists():
            continue
        try:
            library = ctypes.CDLL(str(path))
            functions = [library.caribou_round, library.caribou_add, library.caribou_finish, library.caribou_gaussian]
            functions.append(library.caribou_votes)
            if library.caribou_version() == _INTERFACE:
                for function in functions:
                    function.restype = None
                return library
        except (OSError, AttributeError):
            continue
    return None
