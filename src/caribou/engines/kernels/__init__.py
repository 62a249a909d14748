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
_INTERFACE = 5
"""Of the compiled functions: changes whenever they are called in another way."""
_INT32_MAX = 2**31 - 1
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
    """y = S^(-1/2) X in arrays of 2^shift rows (float32, [rows, d]): wherever they lie, row j is found in one step.

    The last array may be shorter. ``missing``: how many arrays of 2^shift rows would come before the first, and are not there.
    """

    arrays: Sequence[np.ndarray]
    shift: int = 62
    missing: int = 0

    @property
    def columns(self) -> int:
        """d."""
        return int(self.arrays[0].shape[1])

    @property
    def nodes(self) -> range:
        """The rows that can be read."""
        first = self.missing << self.shift if self.missing else 0
        return range(first, first + sum(len(array) for array in self.arrays))


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


def register_bits() -> int:
    """How wide the registers are in which the compiled loops add rows on this processor; 0: unknown, or NumPy.

    The bits of a result do not depend on it, so `name` does not tell it.
    """
    library = _library()
    return 0 if library is None else int(library.caribou_register_bits())


def round_tiles(
    rows: Rows, y: Shards, finish: Finish, noises: Iterator[np.ndarray | None], tile: int, out: np.ndarray
) -> np.ndarray:
    """One round for consecutive rows in one pass, ``tile`` of them at a time, each with its own noise: out [rows, d] = the new y.

    ``finish`` is that of all rows; the last round writes x instead of y. Returns the sums of the new x, [tiles, d].

    The next noise is asked for when the one before has been used.
    """
    if tile < 1:
        raise InputError(f"tile must be at least 1, got {tile}")
    _check_product(rows, y)
    _check_finish(finish, (rows.count, y.columns), out)
    for array in y.arrays:
        _check_apart(out, array)
    firsts = range(0, rows.count, tile)
    sums = np.zeros((len(firsts), y.columns))
    library = _library()
    if library is None:
        for number, (first, noise) in enumerate(zip(firsts, noises, strict=True)):
            part = slice(first, min(rows.count, first + tile))
            finish_part = finish.part(part, _checked_noise(noise, (part.stop - first, y.columns)))
            total = np.zeros((part.stop - first, y.columns))
            _add_with_numpy(rows.part(first, part.stop), y, total)
            sums[number] = _finish_with_numpy(finish_part, total, out[part])
        return sums
    pointers, scratch = _pointers(y), np.empty((_GROUP, y.columns))
    product, rest = _product(rows, y, pointers), _rest(replace(finish, noise=None), out, sums)
    # only addresses move from tile to tile: asking NumPy for them again would cost as much as a small product
    moving = [(product, "starts", 8), (rest, "degrees", 8), (rest, "own", 4 * y.columns), (rest, "out", 4 * y.columns)]
    if finish.x0 is not None:
        moving.append((rest, "x0", 4 * y.columns))
    if finish.ownless is not None:
        moving.append((rest, "ownless", 1))
    begins = [(record, field, getattr(record, field), width) for record, field, width in moving]
    sum_begin = pointer(sums, np.float64, sums.shape, written=True)
    arguments = ctypes.byref(product), ctypes.byref(rest), _address(scratch, np.float64, scratch.shape, written=True)
    for number, (first, noise) in enumerate(zip(firsts, noises, strict=True)):
        for record, field, begin, width in begins:
            setattr(record, field, begin + first * width)
        product.rows = min(tile, rows.count - first)
        checked = _checked_noise(noise, (product.rows, y.columns))
        rest.noise = None if checked is None else pointer(checked, np.float64, checked.shape)
        rest.sum = sum_begin + 8 * number * y.columns
        library.caribou_round(*arguments)
    return sums


def add_rows(rows: Rows, y: Shards, total: np.ndarray) -> None:
    """total [rows, d] += the sum of y over the neighbours, term by term in ascending order."""
    _check_product(rows, y)
    check_array(total, np.float64, (rows.count, y.columns), written=True)
    library = _library()
    if library is None:
        _add_with_numpy(rows, y, total)
        return
    pointers = _pointers(y)
    library.caribou_add(
        ctypes.byref(_product(rows, y, pointers)), _address(total, np.float64, total.shape, written=True)
    )


def _add_with_numpy(rows: Rows, y: Shards, total: np.ndarray) -> None:
    import scipy.sparse as sp

    first, last = int(rows.starts[0]), int(rows.starts[-1])
    columns = rows.columns[first:last]
    shift = min(y.shift, 31)
    taken = np.empty((len(columns), y.columns))
    for number, array in enumerate(y.arrays, start=y.missing):
        here = columns >> shift == number
        if here.any():
            taken[here] = array[columns[here] & ((1 << shift) - 1)]
    counting = (np.ones(len(columns)), np.arange(len(columns)), rows.starts - first)
    total += sp.csr_array(counting, shape=(rows.count, len(columns))) @ taken


def finish_rows(finish: Finish, total: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The rest of the round for summed rows; ``total`` is used up. Returns the sum of the new x, [d]."""
    if out.ndim != 2:
        raise InputError(f"out must be rows of columns, got the shape {out.shape}")
    _check_finish(finish, out.shape, out)
    check_array(total, np.float64, out.shape, written=True)
    _checked_noise(finish.noise, out.shape)
    library = _library()
    if library is None:
        return _finish_with_numpy(finish, total, out)
    sums = np.zeros(out.shape[1])
    library.caribou_finish(
        ctypes.byref(_rest(finish, out, sums)),
        ctypes.c_int64(len(out)),
        ctypes.c_int32(out.shape[1]),
        _address(total, np.float64, out.shape, written=True),
    )
    return sums


def _finish_with_numpy(finish: Finish, total: np.ndarray, out: np.ndarray) -> np.ndarray:
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


def gaussian(words: np.ndarray, out: np.ndarray, *, std: float, grid: float) -> np.ndarray:
    """Box-Muller: 3 m uniform words of 64 bits to 2 m Gaussians of standard deviation ``std`` on the grid. out: float64, [2 m]

    u = (w + (w' + 1/2) 2^-64) 2^-64 from the first two thirds, the angle 2 pi w 2^-64 from the last; all cosines, then all sines.
    Returns the pairs, in order, of which double precision does not decide the nearest multiple of the grid; their entries are NaN
    or undecided. With r = sqrt(-2 log u), 2^-20 < r < 9.75, the computed entry is within 2^-47 (0.6 r + 0.15/r) std of
    sqrt(-2 log u) cos(2 pi v) std for every u and v that begin with these words (docs/privacy.md, Theorem 11).
    """
    pairs = len(words) // 3
    check_array(words, np.uint64, (3 * pairs,))
    check_array(out, np.float64, (2 * pairs,), written=True)
    _check_apart(out, words)
    library = _library()
    if library is not None:
        numbers = (ctypes.c_double(std), ctypes.c_double(grid), ctypes.c_double(1 / grid))
        source = _address(words, np.uint64, words.shape)
        target = _address(out, np.float64, out.shape, written=True)
        if not library.caribou_gaussian(source, ctypes.c_int64(pairs), *numbers, target):
            return np.empty(0, dtype=np.int64)
    else:
        w = words.astype(np.float64)
        radius = np.sqrt(-2 * np.log((w[:pairs] + (w[pairs : 2 * pairs] + 0.5) * 2.0**-64) * 2.0**-64))
        angle = w[2 * pairs :] * (2 * np.pi * 2.0**-64)
        inside = (radius > 2.0**-20) & (radius < 9.75)
        error = np.where(inside, std / grid * 2.0**-47 * (0.6 * radius + 0.15 / np.where(inside, radius, 1.0)), 1.0)
        for part, turned in enumerate((np.cos(angle), np.sin(angle))):
            x = radius * turned * std / grid
            nearest = np.rint(x)
            decided = np.abs(x - nearest) < 0.5 - error
            out[part * pairs : (part + 1) * pairs] = np.where(decided, nearest * grid, np.nan)
    return np.flatnonzero(np.isnan(out[:pairs]) | np.isnan(out[pairs : 2 * pairs]))


def count_votes(
    rows: Rows, first: int, place: np.ndarray, receives: np.ndarray, message: np.ndarray, classes: int
) -> np.ndarray:
    """Messages per receiver and class: u sends message[u] to v if 0 <= place[u] < place[v] and v receives. [rows, classes]

    ``first`` is the index of the first row; place (int32, -1: does not send), receives (bool) and message (int32): [n].
    """
    n = len(place)
    _check_rows(rows, range(n))
    for array, kind in ((place, np.int32), (receives, np.bool_), (message, np.int32)):
        check_array(array, kind, (n,))
    if not 0 <= first <= n - rows.count:
        raise InputError(f"first must leave room for {rows.count} rows of {n} nodes, got {first}")
    if not 1 <= classes <= _INT32_MAX:
        raise InputError(f"classes must be in 1 .. {_INT32_MAX}, got {classes}")
    senders = message[place >= 0]
    if len(senders) and not (int(senders.min()) >= 0 and int(senders.max()) < classes):
        raise InputError(f"message must be a class in 0 .. {classes - 1} of every sender")
    counts = np.zeros((rows.count, classes), dtype=np.int64)
    library = _library()
    if library is not None:
        library.caribou_votes(
            ctypes.c_int64(rows.count),
            ctypes.c_int64(first),
            _address(rows.starts, np.int64, (rows.count + 1,)),
            _address(rows.columns, np.int32, rows.columns.shape),
            _address(place, np.int32, (n,)),
            _address(receives, np.bool_, (n,)),
            _address(message, np.int32, (n,)),
            ctypes.c_int32(classes),
            _address(counts, np.int64, counts.shape, written=True),
        )
        return counts
    u = rows.columns[int(rows.starts[0]) : int(rows.starts[-1])]
    row = np.repeat(np.arange(rows.count), np.diff(rows.starts))
    used = (place[u] >= 0) & (place[u] < place[first + row]) & receives[first + row]
    flat = np.bincount(row[used] * classes + message[u[used]], minlength=rows.count * classes)
    return flat.reshape(rows.count, classes)


def _projected(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(1, np.sqrt((x * x).sum(axis=1, keepdims=True)))


# -- what goes to C ---------------------------------------------------------------------------------------------------
# C sees an address and nothing else. A strided view, another byte order or an index out of bounds would be read as other memory,
# silently: one edge could then move a count by any amount. Both implementations check the same, so that a call which one of them
# refuses never works in the other.


def check_array(array: np.ndarray, kind: type, shape: tuple[int, ...], *, written: bool = False) -> None:
    """An array that a loop may take: of exactly this type and shape, native, contiguous, aligned, writable if it is written."""
    dtype = np.dtype(kind)
    if not isinstance(array, np.ndarray) or array.dtype != dtype or not array.dtype.isnative:
        found = f"{array.dtype.str}" if isinstance(array, np.ndarray) else type(array).__name__
        raise InputError(f"array must be of type {dtype.str}, got {found}")
    if array.shape != shape:
        raise InputError(f"array must have the shape {shape}, got {array.shape}")
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise InputError(f"array must be contiguous and aligned, got strides {array.strides} for shape {array.shape}")
    if written and not array.flags.writeable:
        raise InputError("array must be writable, got a read-only one")


def pointer(array: np.ndarray, kind: type, shape: tuple[int, ...], *, written: bool = False) -> int:
    """The address of an array that passes `check_array`: the only way to C."""
    check_array(array, kind, shape, written=written)
    return array.ctypes.data


def _address(array: np.ndarray, kind: type, shape: tuple[int, ...], *, written: bool = False) -> ctypes.c_void_p:
    return ctypes.c_void_p(pointer(array, kind, shape, written=written))


def _check_rows(rows: Rows, nodes: range) -> None:
    """Rows whose starts rise within their columns, and columns that are among ``nodes``."""
    if len(rows.starts) == 0:
        raise InputError("starts must have one entry more than there are rows, got none")
    check_array(rows.starts, np.int64, (rows.count + 1,))
    check_array(rows.columns, np.int32, (len(rows.columns),))
    first, last = int(rows.starts[0]), int(rows.starts[-1])
    if first < 0 or last > len(rows.columns) or (np.diff(rows.starts) < 0).any():
        raise InputError(f"starts must rise within 0 .. {len(rows.columns)}, got {first} .. {last}")
    used = rows.columns[first:last]
    if len(used) and not (int(used.min()) >= nodes.start and int(used.max()) < nodes.stop):
        raise InputError(f"columns must be nodes in {nodes.start} .. {nodes.stop - 1}, got another one")


def _check_product(rows: Rows, y: Shards) -> None:
    if not (len(y.arrays) and 0 <= y.shift <= 62 and 0 <= y.missing << y.shift <= _INT32_MAX):
        raise InputError(f"arrays must be at least one of 2^shift rows, got {len(y.arrays)} with shift {y.shift}")
    for array in y.arrays:
        check_array(array, np.float32, (len(array), y.columns))
    if any(len(array) != 1 << y.shift for array in y.arrays[:-1]) or len(y.arrays[-1]) > 1 << y.shift:
        raise InputError(f"arrays must have 2^{y.shift} rows each, the last at most, got {[*map(len, y.arrays)]}")
    _check_rows(rows, y.nodes)


def _check_finish(finish: Finish, shape: tuple[int, ...], out: np.ndarray) -> None:
    """All but the noise, which may come tile by tile."""
    check_array(finish.degrees, np.int64, shape[:1])
    check_array(finish.own, np.float32, shape)
    if finish.mean is not None:
        check_array(finish.mean, np.float64, shape[1:])
    if finish.x0 is not None:
        check_array(finish.x0, np.float32, shape)
        _check_apart(out, finish.x0)
    check_array(out, np.float32, shape, written=True)
    _check_apart(out, finish.own)


def _checked_noise(noise: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    if noise is not None:
        check_array(noise, np.float64, shape)
    return noise


def _check_apart(written: np.ndarray, read: np.ndarray) -> None:
    """A row that is overwritten before it is read would be another row."""
    if np.may_share_memory(written, read):
        raise InputError("out must be memory of its own, got a part of what is read")


def _pointers(y: Shards) -> np.ndarray:
    addresses = [pointer(array, np.float32, (len(array), y.columns)) for array in y.arrays]
    return np.array([0] * y.missing + addresses, dtype=np.uint64)


def _product(rows: Rows, y: Shards, pointers: np.ndarray) -> _Product:
    return _Product(
        rows.count,
        pointer(rows.starts, np.int64, (rows.count + 1,)),
        pointer(rows.columns, np.int32, rows.columns.shape),
        int(rows.starts[-1]),
        pointer(pointers, np.uint64, pointers.shape),
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
        None if finish.noise is None else pointer(finish.noise, np.float64, (rows, d)),
        finish.grid,
        1 / finish.grid,
        pointer(out, np.float32, (rows, d), written=True),
        pointer(sums, np.float64, sums.shape, written=True),
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
            functions += [library.caribou_votes, library.caribou_register_bits]
            if library.caribou_version() == _INTERFACE:
                for function in functions:
                    function.restype = None
                library.caribou_gaussian.restype = ctypes.c_int64
                library.caribou_register_bits.restype = ctypes.c_int32
                return library
        except (OSError, AttributeError):
            continue
    return None
