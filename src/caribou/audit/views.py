"""What an adversary sees of a run, as tables of numbers: the arrays themselves, the adversary's own scores, and statistics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from caribou.errors import InputError
from caribou.mechanisms.noise import NoiseSource

View = Mapping[str, np.ndarray]
"""Everything that is handed out after one run, by name."""
Scores = Callable[[View], Mapping[str, float]]
"""What an adversary makes of a view; larger for the world with the edge or node, or the other way round."""

STATISTICS = ("equal rows", "zeros", "not finite", "entries", "arrays")
EXTREME = 1e9
"""What an infinite score counts as; one that is missing, or not a number, counts as the negative of it."""
SEEDS_TRIED = 4
SMALLEST_ARRAY = 32
"""Entries from which on a correlation with the noise of a seed can be told from chance."""


def checked_view(view: Any, *, runs: int | None = None) -> dict[str, np.ndarray]:
    """What a release returned, as arrays by name; or an error that says what it must return.

    Shapes may change from run to run: they are seen, too. ``runs``: of ``many``, the length of the first axis of every array.
    """
    if not isinstance(view, Mapping) or not all(isinstance(name, str) for name in view):
        rule = 'a mapping from names to arrays of numbers, such as {"counts": array}'
        raise InputError(f"release must return {rule}, got {_shown(view)}")
    out = {}
    for name, value in view.items():
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError):  # rows of different lengths, a tensor that cannot be copied, ...
            array = np.empty(0, dtype=object)
        if array.dtype.kind not in "biuf":
            raise InputError(f"release must return an array of real numbers under {name!r}, got {_shown(value)}")
        if runs is not None and array.shape[:1] != (runs,):
            raise InputError(f"many must return {runs} runs along the first axis of {name!r}, got shape {array.shape}")
        out[name] = array
    if runs is not None and not out:
        raise InputError("many must return at least one array, got none")
    return out


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of one world. ``arrays``: by name, [runs, entries]; ``scores``: [runs, k], with ``names`` for its columns.

    Arrays need not have the same shape in every run: a row of NaN stands for one that is missing or has another size.
    """

    arrays: Mapping[str, np.ndarray]
    scores: np.ndarray
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.scores)

    def part(self, start: int, stop: int) -> Runs:
        """Some of the runs."""
        cut = {name: array[start:stop] for name, array in self.arrays.items()}
        return Runs(cut, self.scores[start:stop], self.names)

    def entries(self, name: str, count: int) -> np.ndarray:
        """An array of ``count`` entries per run; NaN where there is none of that size. [runs, count]"""
        array = self.arrays.get(name)
        return array if array is not None and array.shape[1] == count else np.full((len(self), count), np.nan)

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """The named scores, all of them finite. [runs, names]"""
        if tuple(names) != self.names:
            place = {name: k for k, name in enumerate(self.names)}
            blank = np.full(len(self), np.nan)
            chosen = [self.scores[:, place[name]] if name in place else blank for name in names]
            return finite(np.stack(chosen, axis=1)) if chosen else np.zeros((len(self), 0))
        return finite(self.scores)

    @staticmethod
    def join(parts: Sequence[Runs]) -> Runs:
        """Several blocks of runs, with the arrays and scores of all of them."""
        widths = {name: array.shape[1] for part in parts[::-1] for name, array in part.arrays.items()}
        arrays = {name: np.concatenate([part.entries(name, n) for part in parts]) for name, n in widths.items()}
        names = tuple(dict.fromkeys(name for part in parts for name in part.names))
        return Runs(arrays, np.concatenate([part.columns(names) for part in parts]), names)


def finite(scores: np.ndarray) -> np.ndarray:
    """Scores that can be compared: infinite ones and those that are no numbers become fixed extreme values."""
    return np.nan_to_num(scores, nan=-EXTREME, posinf=EXTREME, neginf=-EXTREME)


def observe(views: Sequence[View], scores: Scores | None = None) -> Runs:
    """Runs that were made one by one, as tables. An array of another shape than is usual leaves its statistics only."""
    named = [dict(scores(view)) if scores is not None else {} for view in views]
    return tabulate([with_noise_removed(view) for view in views], named)


def tabulate(views: Sequence[View], named: Sequence[Mapping[str, float]]) -> Runs:
    """Views with the scores that an adversary has made of them; names may be missing in some runs."""
    names = tuple(dict.fromkeys(name for row in named for name in row))
    own = np.array([[float(row.get(name, np.nan)) for name in names] for row in named]).reshape(len(views), -1)
    statistics = np.array([list(equality_statistics(view).values()) for view in views])
    arrays = {name: _table([view.get(name) for view in views]) for name in dict.fromkeys(n for v in views for n in v)}
    return Runs(arrays, np.concatenate([own, statistics], axis=1), (*names, *STATISTICS))


def _table(arrays: Sequence[np.ndarray | None]) -> np.ndarray:
    """One row per run; of arrays with the usual shape. [runs, entries]"""
    usual = Counter(np.shape(array) for array in arrays if array is not None).most_common(1)[0][0]
    out = np.full((len(arrays), math.prod(usual)), np.nan)
    for row, array in zip(out, arrays, strict=True):
        if array is not None and np.shape(array) == usual:
            row[:] = np.ravel(array)
    return out


def observe_batch(views: View, scores: Callable[[View], Mapping[str, np.ndarray]] | None = None) -> Runs:
    """Runs that were made as one tensor: every array has the runs as its first axis, and scores give one number per run."""
    first = next(iter(views.values()))
    runs = len(first)
    own = {name: np.asarray(values, dtype=np.float64) for name, values in (scores(views) if scores else {}).items()}
    equal, zeros, odd = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    for array in views.values():
        if array.dtype.kind == "f":
            zeros += (array == 0).reshape(runs, -1).sum(axis=1)
            odd += (~np.isfinite(array)).reshape(runs, -1).sum(axis=1)
            equal += equal_rows(array) if array.ndim == 3 else 0
    entries = np.full(runs, sum(array[0].size for array in views.values()))
    columns = [*own.values(), equal, zeros, odd, entries, np.full(runs, len(views))]
    arrays = {name: array.reshape(runs, -1).astype(np.float64) for name, array in views.items()}
    return Runs(arrays, np.stack(columns, axis=1), (*own, *STATISTICS))


# -- statistics that noise should hide -----------------------------------------------------------------------------


def equality_statistics(view: View) -> dict[str, float]:
    """What noise should hide and its absence shows: equal rows, zeros, and the shape of everything that is handed out."""
    equal, zeros, odd = 0.0, 0.0, 0.0
    for array in map(np.asarray, view.values()):
        if array.dtype.kind == "f":
            zeros += float((array == 0).sum())
            odd += float((~np.isfinite(array)).sum())
            equal += float(equal_rows(array[None])[0]) if array.ndim == 2 else 0.0
    size = sum(np.size(array) for array in view.values())
    return dict(zip(STATISTICS, (equal, zeros, odd, float(size), float(len(view))), strict=True))


def equal_rows(array: np.ndarray) -> np.ndarray:
    """Pairs of rows that are equal (to 1e-10) and not zero; none are counted among more than 64 rows. [runs, n, d] -> [runs]"""
    runs, n = array.shape[:2]
    if not 2 <= n <= 64:
        return np.zeros(runs)
    out = np.empty(runs)
    array = np.nan_to_num(array)
    for start in range(0, runs, 512):
        some = array[start : start + 512]
        gaps = np.abs(some[:, :, None, :] - some[:, None, :, :]).max(axis=3, initial=0.0)
        size = np.abs(some).max(axis=(1, 2), initial=0.0)
        alike = gaps <= 1e-10 * (1 + size)[:, None, None]
        informative = np.abs(some).max(axis=2, initial=0.0) > 0
        out[start : start + 512] = np.triu(alike & informative[:, :, None], 1).sum(axis=(1, 2))
    return out


def with_noise_removed(view: View) -> View:
    """The view, and beside every array what is left of it without noise, if a number in the view turns out to be its seed.

    Every whole number of the view is tried as the seed of a `NoiseSource`. If an array correlates with the noise of that seed
    far beyond chance (5 standard deviations), the noise is subtracted. A release that stores no seed is left as it is.
    """
    found: dict[str, np.ndarray] = {}
    for seed in _possible_seeds(view):
        for name, array in view.items():
            values = np.asarray(array)
            if values.dtype.kind != "f" or values.size < SMALLEST_ARRAY or not np.isfinite(values).all():
                continue
            if values.std() == 0:
                continue
            noise = NoiseSource.seeded(seed)
            z = noise.gaussian(values.shape, std=1.0)
            if abs(np.corrcoef(values.ravel(), z.ravel())[0, 1]) > 5 / np.sqrt(values.size):
                found[f"{name} without noise"] = _exact_residual(values, z)
    return {**view, **found} if found else view


def _exact_residual(values: np.ndarray, z: np.ndarray) -> np.ndarray:
    """values - s z with the s for which most of the residual's differences vanish: a median of ratios of differences."""
    dv, dz = np.diff(values.ravel()), np.diff(z.ravel())
    return values - float(np.median(dv / np.where(dz == 0, 1.0, dz))) * z


def _possible_seeds(view: View) -> list[int]:
    seeds = [
        int(array)
        for array in map(np.asarray, view.values())
        if array.ndim == 0 and array.dtype.kind in "iu" and array >= 0
    ]
    return [seed for seed in seeds if seed < 2**53][:SEEDS_TRIED]
