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

from caribou.errors import InputError

VERSION = 2
"""Of the arithmetic: changes whenever the bits of a result may."""
_INTERFACE = 3
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
    [rows, d] on ``grid``, or None; inner: project before the noise; last: give x instead of S^(-1/2) x; ownless: [rows] bool or
    None, rows without self loop, mean and residual, which are not in the sum either.
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
    ownless: np.ndarray | None = None

    def part(self, rows: slice, noise: np.ndarray | None) -> Finish:
        """The same for some of the rows, with their noise."""
        x0 = None if self.x0 is None else self.x0[rows]
        ownless = None if self.ownless is None else self.ownless[rows]
        return replace(self, degrees=self.degrees[rows], own=self.own[rows], x0=x0, noise=noise, ownless=ownless)


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
        ("ownless", ctypes.c_void_p),
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
    if finish.ownless is not None:
        moving.append((rest, "ownless", 1))
    begins = [(record, field, getattr(record, field), width) for record, field, width in moving]
    arguments = ctypes.byref(product), ctypes.byref(rest), ctypes.c_void_p(scratch.ctypes.data)
    call = _library().caribou_round  # type: ignore[union-attr]
    for number, (first, noise) in enumerate(zip(firsts, noises, strict=True)):
        for record, field, begin, width in begins:
            setattr(record, field, begin + first * width)
        product.rows = min(tile, rows.count - first)
        rest.noise = None if noise is None else pointer(noise, np.float64, (product.rows, y.columns))
        rest.sum = sums.ctypes.data + 8 * number * y.columns
        call(*arguments)
    return sums


def add_rows(rows: Rows, y: Shards, total: np.ndarray) -> None:
    """total [rows, d] += the sum of y over the neighbours, term by term in ascending order."""
    library = _library()
    if library is not None:
        pointers = _pointers(y)
        address = pointer(total, np.float64, (rows.count, y.columns), written=True)
        library.caribou_add(ctypes.byref(_product(rows, y, pointers)), ctypes.c_void_p(address))
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
        address = pointer(total, np.float64, out.shape, written=True)
        library.caribou_finish(
            ctypes.byref(rest), ctypes.c_int64(len(out)), ctypes.c_int32(out.shape[1]), ctypes.c_void_p(address)
        )
        return sums
    a = 1 / np.sqrt(np.maximum(finish.degrees, finish.floor) + 1.0)[:, None]
    ones = 1.0 if finish.ownless is None else (~finish.ownless)[:, None].astype(np.float64)
    x = (total + ones * finish.own) * (finish.weight * a)
    if finish.mean is not None:
        x += ones * finish.mean
    if finish.x0 is not None:
        x += ones * (finish.beta * finish.x0.astype(np.float64))
    if finish.inner:
        x = _projected(x)
    if finish.noise is not None:
        x = np.rint(x / finish.grid) * finish.grid + finish.noise
    x = _projected(x)
    out[:] = x if finish.last else x * a
    return (ones * x).sum(axis=0)


def gaussian(words: np.ndarray, out: np.ndarray, *, std: float, grid: float) -> None:
    """Box-Muller: 3 m uniform words of 64 bits to 2 m Gaussians of standard deviation ``std`` on the grid. out: float64, [2 m]

    u = (w + (w' + 1/2) 2^-64) 2^-64 from the first two thirds, the angle 2 pi w 2^-64 from the last; all cosines, then all sines.
    """
    pairs = len(words) // 3
    library = _library()
    if library is not None:
        numbers = (ctypes.c_double(std), ctypes.c_double(grid), ctypes.c_double(1 / grid))
        source = ctypes.c_void_p(pointer(words, np.uint64, (3 * pairs,)))
        target = ctypes.c_void_p(pointer(out, np.float64, (2 * pairs,), written=True))
        library.caribou_gaussian(source, ctypes.c_int64(pairs), *numbers, target)
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
    n = len(place)
    _checked_rows(rows, n)
    if not 0 <= first <= n - rows.count:
        raise InputError(f"first must leave room for {rows.count} rows of {n} nodes, got {first}")
    senders = message[place >= 0]
    if len(senders) and not (int(senders.min()) >= 0 and int(senders.max()) < classes):
        raise InputError(f"message must be a class in 0 .. {classes - 1} of every sender")
    library = _library()
    if library is not None:
        addresses = (
            pointer(rows.starts, np.int64, (rows.count + 1,)),
            pointer(rows.columns, np.int32, (int(rows.starts[-1]),)),
            pointer(place, np.int32, (n,)),
            pointer(receives, np.bool_, (n,)),
            pointer(message, np.int32, (n,)),
        )
        library.caribou_votes(
            ctypes.c_int64(rows.count),
            ctypes.c_int64(first),
            *map(ctypes.c_void_p, addresses),
            ctypes.c_int32(classes),
            ctypes.c_void_p(counts.ctypes.data),
        )
        return counts
    u = rows.columns[int(rows.starts[0]) : int(rows.starts[-1])]
    row = np.repeat(np.arange(rows.count), np.diff(rows.starts))
    used = (place[u] >= 0) & (place[u] < place[first + row]) & receives[first + row]
    flat = np.bincount(row[used] * classes + message[u[used]], minlength=rows.count * classes)
    return flat.reshape(rows.count, classes)


def _projected(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(1, np.sqrt((x * x).sum(axis=1, keepdims=True)))


def pointer(array: np.ndarray, kind: type | str, shape: tuple[int, ...], *, written: bool = False) -> int:
    """The address of an array that goes to C: of exactly this type, native, contiguous, aligned, and at least this large.

    C sees an address and nothing else. A strided view or another byte order would be read as other memory, silently: one edge
    could then move a count by any amount. ``shape``: that the loop will read; the first axis may be longer.
    """
    dtype = np.dtype(kind)
    if not isinstance(array, np.ndarray) or array.dtype != dtype or not array.dtype.isnative:
        found = f"{array.dtype.str}" if isinstance(array, np.ndarray) else type(array).__name__
        raise InputError(f"array must be of type {dtype.str}, got {found}")
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise InputError(f"array must be contiguous and aligned, got strides {array.strides} for shape {array.shape}")
    if array.ndim != len(shape) or array.shape[1:] != shape[1:] or array.shape[0] < shape[0]:
        raise InputError(f"array must have at least the shape {shape}, got {array.shape}")
    if written and not array.flags.writeable:
        raise InputError("array must be writable, got a read-only one")
    return array.ctypes.data


def _pointers(y: Shards) -> np.ndarray:
    addresses = [0 if a is None else pointer(a, np.float32, (len(a), y.columns)) for a in y.arrays]
    return np.array(addresses, dtype=np.uint64)


def _checked_rows(rows: Rows, nodes: int) -> None:
    """Rows whose starts rise within their columns, and columns that are nodes."""
    first, last = int(rows.starts[0]), int(rows.starts[-1])
    if first < 0 or last > len(rows.columns) or (np.diff(rows.starts) < 0).any():
        raise InputError(f"starts must rise within 0 .. {len(rows.columns)}, got {first} .. {last}")
    used = rows.columns[first:last]
    if len(used) and not (int(used.min()) >= 0 and int(used.max()) < nodes):
        raise InputError(f"columns must be nodes in 0 .. {nodes - 1}, got {int(used.min())} .. {int(used.max())}")


def _product(rows: Rows, y: Shards, pointers: np.ndarray) -> _Product:
    end = int(rows.starts[-1])
    return _Product(
        rows.count,
        pointer(rows.starts, np.int64, (rows.count + 1,)),
        pointer(rows.columns, np.int32, (end,)),
        end,
        pointers.ctypes.data,
        y.shift,
        y.columns,
    )


def _rest(finish: Finish, out: np.ndarray, sums: np.ndarray) -> _Rest:
    rows, d = out.shape
    return _Rest(
        pointer(finish.degrees, np.int64, (rows,)),
        pointer(finish.own, np.float32, (rows, d)),
        None if finish.ownless is None else pointer(finish.ownless, np.bool_, (rows,)),
        finish.floor,
        finish.weight,
        None if finish.mean is None else pointer(finish.mean, np.float64, (d,)),
        finish.beta,
        None if finish.x0 is None else pointer(finish.x0, np.float32, (rows, d)),
        int(finish.inner),
        int(finish.last),
        None if finish.noise is None else _noise_pointer(finish.noise, d),
        finish.grid,
        1 / finish.grid,
        pointer(out, np.float32, (rows, d), written=True),
        pointer(sums, np.float64, sums.shape, written=True),
    )


def _noise_pointer(noise: np.ndarray, d: int) -> int:
    return pointer(noise, np.float64, (noise.shape[0], d))


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
