"""Runs every compiled loop of a given library on boundary sizes; a program of its own, for `test_kernels`.

python kernel_boundaries.py LIBRARY          all sizes
python kernel_boundaries.py LIBRARY beyond   one array that is too short, past the checks: the sanitizer must end this process
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

from caribou.engines import kernels
from caribou.engines.kernels import Finish, Rows, Shards

WIDTHS = (1, 3, 4, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 96, 112)
HEIGHTS = (0, 1, 2, 127, 128, 129)
NODES = 70
PAIRS = (0, 1, 2, 511, 512, 513, 1025)


def rows_of(count: int, rng: np.random.Generator) -> Rows:
    """Rows with no entry, a few and many more than are fetched ahead; the last node is a neighbour of the last row."""
    degrees = rng.choice([0, 0, 1, 5, 69], count)
    if count:
        degrees[-1] = 1
    columns = [np.sort(rng.choice(NODES, k, replace=False)) for k in degrees]
    if count:
        columns[-1] = np.array([NODES - 1])
    flat = np.concatenate(columns) if columns else np.empty(0)
    return Rows(np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64), flat.astype(np.int32))


def run_rounds(count: int, d: int, rng: np.random.Generator) -> None:
    """The fused round in one tile and in several, and its two halves, on whole and on divided states."""
    rows, y = rows_of(count, rng), rng.standard_normal((NODES, d)).astype(np.float32)
    for full in (True, False):
        finish = Finish(
            degrees=np.diff(rows.starts),
            own=rng.standard_normal((count, d)).astype(np.float32),
            floor=2,
            weight=0.7,
            mean=rng.standard_normal(d) if full else None,
            beta=0.2,
            x0=rng.standard_normal((count, d)).astype(np.float32) if full else None,
            inner=full,
            last=not full,
            noise=None,
            grid=2.0**-28,
        )
        found = []
        for shards in (Shards([y]), Shards([y[:64].copy(), y[64:].copy()], 6)):
            for tile in (1024, 50):
                out = np.empty((count, d), np.float32)
                parts = [min(tile, count - first) for first in range(0, count, tile)]
                kernels.round_tiles(
                    rows, shards, finish, (np.zeros((k, d)) if full else None for k in parts), tile, out
                )
                found.append(out)
            total, out = np.zeros((count, d)), np.empty((count, d), np.float32)
            kernels.add_rows(rows, shards, total)
            kernels.finish_rows(finish.part(slice(None), np.zeros((count, d)) if full else None), total, out)
            found.append(out)
        assert all(np.array_equal(found[0], out) for out in found)


def main(path: str, *how: str) -> None:
    library = ctypes.CDLL(path)
    for name in ("round", "add", "finish", "gaussian", "votes"):
        getattr(library, f"caribou_{name}").restype = None
    kernels._library = lambda: library  # type: ignore[assignment]
    if how == ("beyond",):
        words, out = np.zeros(3 * 64, np.uint64), np.zeros(64)
        numbers = (ctypes.c_double(1.0), ctypes.c_double(1.0), ctypes.c_double(1.0))
        library.caribou_gaussian(
            ctypes.c_void_p(words.ctypes.data), ctypes.c_int64(64), *numbers, ctypes.c_void_p(out.ctypes.data)
        )
        return
    rng = np.random.default_rng(0)
    for d in WIDTHS:
        for count in HEIGHTS:
            run_rounds(count, d, rng)
    for pairs in PAIRS:
        words = rng.integers(0, 2**64, 3 * pairs, dtype=np.uint64)
        kernels.gaussian(words, np.empty(2 * pairs), std=1.0, grid=2.0**-28)
    for count in (0, 1, NODES):
        for first in {0, NODES - count}:
            place = rng.integers(-1, NODES, NODES).astype(np.int32)
            message = np.full(NODES, 4, np.int32)
            kernels.count_votes(rows_of(count, rng), first, place, np.ones(NODES, bool), message, 5)
    sys.stdout.write("all sizes\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
