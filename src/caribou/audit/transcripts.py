"""Transcripts: all that an adversary sees of a run, as tables of numbers (arrays, the adversary's own scores, statistics)."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource

Transcript = Mapping[str, np.ndarray]
"""Everything that is handed out after one run, by name."""
Scores = Callable[[Transcript], Mapping[str, float]]
"""What an adversary computes from a transcript; larger for the world with the edge or node, or for the other one."""

Shape = tuple[int, ...]

COUNTS = ("equal rows", "zeros", "not finite", "single precision")
STATISTICS = (*COUNTS, "entries", "arrays", "names", "dtypes", "shapes")
EXTREME = 1e9
"""What an infinite score counts as; one that is missing, or not a number, counts as the negative of it."""
WHOLE = 2**53
"""Up to here a double tells any two whole numbers apart."""
MARKS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "NaN": np.isnan,
    "+inf": np.isposinf,
    "-inf": np.isneginf,
    "-0": lambda x: (x == 0) & np.signbit(x),
}
"""What an entry can be that its size does not tell."""
ENDS = 4
"""First and last entries that are kept of an array whose shape varies."""
SEEDS_TRIED = 4
SMALLEST_ARRAY = 32
"""Entries from which on a correlation with the noise of a seed can be told from chance."""


def checked_transcript(transcript: Any, *, runs: int | None = None) -> dict[str, np.ndarray]:
    """What an audit target returned, as arrays by name; or an error that says what it must return.

    Shapes may change from run to run, and are evidence. ``runs``: of ``many``, the length of the first axis of every array.
    """
    if not isinstance(transcript, Mapping) or not all(isinstance(name, str) for name in transcript):
        rule = 'a mapping from names to arrays of numbers, such as {"counts": array}'
        raise InputError(f"target must return {rule}, got {_shown(transcript)}")
    out = {}
    for name, value in transcript.items():
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError):  # rows of different lengths, a tensor that cannot be copied, ...
            array = np.empty(0, dtype=object)
        if array.dtype.kind not in "biuf":
            raise InputError(f"target must return an array of real numbers under {name!r}, got {_shown(value)}")
        if runs is not None and array.shape[:1] != (runs,):
            raise InputError(f"many must return {runs} runs along the first axis of {name!r}, got shape {array.shape}")
        out[name] = array
    if runs is not None and not out:
        raise InputError("many must return at least one array, got none")
    return out


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def summary(array: np.ndarray | None) -> np.ndarray:
    """Of an array of any shape: sum, extremes, first and last entries; NaN where it is missing or empty. [3 + 2 ENDS]"""
    out = np.full(3 + 2 * ENDS, np.nan)
    values = np.empty(0) if array is None else np.asarray(array, dtype=np.float64).ravel()
    if len(values):
        with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs have no sum
            out[:3] = values.sum(), values.min(), values.max()
        shown = min(ENDS, len(values))
        out[3 : 3 + shown], out[-shown:] = values[:shown], values[-shown:]
    return out


@dataclass(frozen=True, eq=False)
class Alike:
    """Runs that handed out arrays of the same names, types and shapes: their ``places`` among all runs, and stacked arrays."""

    places: np.ndarray
    arrays: Transcript

    def entries(self, name: str, shape: Shape) -> np.ndarray | None:
        """The entries of a named array, if it has this shape. [runs, entries]"""
        array = self.arrays.get(name)
        if array is None or array.shape[1:] != shape:
            return None
        return np.asarray(array, dtype=np.float64).reshape(len(array), -1)


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of one world: what each handed out, and its scores [runs, k], with ``names`` for their columns."""

    alike: Sequence[Alike]
    scores: np.ndarray
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.scores)

    def part(self, start: int, stop: int) -> Runs:
        """Some of the runs."""
        parts = []
        for each in self.alike:
            some = (start <= each.places) & (each.places < stop)
            parts.append(Alike(each.places[some] - start, {name: array[some] for name, array in each.arrays.items()}))
        return Runs([part for part in parts if len(part.places)], self.scores[start:stop], self.names)

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """The named scores, all of them finite. [runs, names]"""
        place = {name: k for k, name in enumerate(self.names)}
        blank = np.full(len(self), np.nan)
        chosen = [self.scores[:, place[name]] if name in place else blank for name in names]
        return finite(np.stack(chosen, axis=1)) if chosen else np.zeros((len(self), 0))

    @staticmethod
    def join(parts: Sequence[Runs]) -> Runs:
        """Several blocks of runs, with the scores of all of them."""
        names = tuple(dict.fromkeys(name for part in parts for name in part.names))
        starts = np.cumsum([0, *map(len, parts)]).tolist()
        alike = [
            Alike(each.places + n, each.arrays) for part, n in zip(parts, starts, strict=False) for each in part.alike
        ]
        return Runs(alike, np.concatenate([part.columns(names) for part in parts]), names)


@dataclass(frozen=True, eq=False)
class Layout:
    """The columns of a table of runs: decided on runs of both worlds that are not judged, then the same for every run.

    ``shapes``: the usual shape of every array; ``varying``: arrays that have had another one, of which summaries are kept, too.
    ``marks``: (array, kind of `MARKS`, entries) where some run had such an entry; ordinary transcripts have none.
    """

    shapes: Mapping[str, Shape]
    varying: tuple[str, ...]
    marks: tuple[tuple[str, str, np.ndarray], ...] = ()

    @staticmethod
    def of(worlds: Sequence[Runs]) -> Layout:
        """The shapes that most runs of all worlds have: the usual shape of one world alone would tell which world it is."""
        seen = Runs.join(worlds).alike
        counts: dict[str, Counter[Shape]] = {}
        for each in seen:
            for name, array in each.arrays.items():
                counts.setdefault(name, Counter())[array.shape[1:]] += len(array)
        shapes = {name: count.most_common(1)[0][0] for name, count in counts.items()}
        marks = []
        for name, shape in shapes.items():
            found = [values for each in seen if (values := each.entries(name, shape)) is not None]
            for kind, test in MARKS.items():
                marked = np.flatnonzero(np.any([test(values).any(axis=0) for values in found], axis=0))
                marks += [(name, kind, marked)] if len(marked) else []
        return Layout(shapes, tuple(name for name, each in counts.items() if len(each) > 1), tuple(marks))

    def __call__(self, runs: Runs) -> np.ndarray:
        """A row per run, which depends on that run alone; NaN where an array is missing or has another shape. [runs, columns]"""
        tables = [self._table(each) for each in runs.alike]
        out = np.empty((len(runs), tables[0].shape[1]))
        for each, table in zip(runs.alike, tables, strict=True):
            out[each.places] = table
        return out

    def _table(self, runs: Alike) -> np.ndarray:
        count = len(runs.places)
        found = {name: runs.entries(name, shape) for name, shape in self.shapes.items()}
        blank = {name: np.full((count, math.prod(shape)), np.nan) for name, shape in self.shapes.items()}
        parts = [blank[name] if values is None else values for name, values in found.items()]
        parts += [np.stack([summary(x) for x in runs.arrays.get(name, [None] * count)]) for name in self.varying]
        for name, kind, entries in self.marks:
            values = found[name]
            parts.append(np.zeros((count, len(entries))) if values is None else MARKS[kind](values[:, entries]))
        return np.concatenate(parts, axis=1) if parts else np.zeros((count, 0))


def finite(scores: np.ndarray) -> np.ndarray:
    """Scores that can be compared: infinities and NaN become fixed extreme values."""
    return np.nan_to_num(scores, nan=-EXTREME, posinf=EXTREME, neginf=-EXTREME)


def observe(transcripts: Sequence[Transcript], scores: Scores | None = None) -> Runs:
    """Runs that were made one by one, as tables."""
    named = [dict(scores(transcript)) if scores is not None else {} for transcript in transcripts]
    return tabulate([with_noise_removed(transcript) for transcript in transcripts], named)


def observe_batch(batch: Transcript) -> Runs:
    """Runs that were made as one tensor: every array has the runs as its first axis."""
    count = len(next(iter(batch.values())))
    if any(beyond_doubles(array) for array in batch.values()):
        return tabulate([{name: array[run] for name, array in batch.items()} for run in range(count)], [{}] * count)
    return _tabulated([Alike(np.arange(count), batch)], np.zeros((count, 0)), ())


def tabulate(transcripts: Sequence[Transcript], named: Sequence[Mapping[str, float]]) -> Runs:
    """Transcripts with the adversary's scores of them; names may be missing in some runs."""
    names = tuple(dict.fromkeys(name for row in named for name in row))
    own = np.array([[float(row.get(name, np.nan)) for name in names] for row in named]).reshape(len(transcripts), -1)
    kinds: dict[Any, list[int]] = {}
    for run, transcript in enumerate(transcripts):
        kind = ((name, x.dtype.str, x.shape, beyond_doubles(x)) for name, x in transcript.items())
        kinds.setdefault(tuple(kind), []).append(run)
    alike = [
        Alike(
            np.array(runs), {name: np.stack([transcripts[run][name] for run in runs]) for name in transcripts[runs[0]]}
        )
        for runs in kinds.values()
    ]
    return _tabulated(alike, own, names)


def _tabulated(alike: Sequence[Alike], own: np.ndarray, names: tuple[str, ...]) -> Runs:
    """With `STATISTICS` beside the adversary's own scores."""
    statistics = np.zeros((len(own), len(STATISTICS)))
    for each in alike:
        counts = sum(
            (equality_counts(x) for x in each.arrays.values()), start=np.zeros((len(each.places), len(COUNTS)))
        )
        shape = np.tile(structure(each.arrays), (len(counts), 1))
        statistics[each.places] = np.concatenate([counts, shape], axis=1)
    seen = [Alike(each.places, with_low_words(each.arrays)) for each in alike]
    return Runs(seen, np.concatenate([own, statistics], axis=1), (*names, *STATISTICS))


# -- statistics that noise should hide -----------------------------------------------------------------------------


def equality_counts(array: np.ndarray) -> np.ndarray:
    """What noise hides and its absence shows, in the order of `COUNTS`. [runs, ...] -> [runs, counts]

    Equal rows, zeros, entries that are not finite, and entries of a double that single precision can hold: they show where noise
    of few digits was added to nothing.
    """
    runs = len(array)
    if array.dtype.kind != "f":
        return np.zeros((runs, len(COUNTS)))
    flat = array.reshape(runs, -1)
    equal = equal_rows(array) if array.ndim == 3 else np.zeros(runs)
    with np.errstate(over="ignore", invalid="ignore"):
        short = (flat.astype(np.float32) == flat) if flat.dtype.itemsize > 4 else np.zeros(flat.shape, dtype=bool)
    counts = ((flat == 0).sum(axis=1), (~np.isfinite(flat)).sum(axis=1), short.sum(axis=1))
    return np.stack([equal, *counts], axis=1)


def structure(arrays: Transcript) -> tuple[float, ...]:
    """Entries and arrays that a run hands out, and their names in order, types and shapes, each as one number.

    Equal words have equal numbers. The first axis of every array are runs.
    """
    shapes = [array.shape[1:] for array in arrays.values()]
    words = ("|".join(arrays), "|".join(array.dtype.str for array in arrays.values()), "|".join(map(str, shapes)))
    return float(sum(map(math.prod, shapes))), float(len(arrays)), *map(word_number, words)


@lru_cache(maxsize=4096)
def word_number(text: str) -> float:
    """A number in (0, 1) for a text; different texts have different ones, but for 2^-48 by chance."""
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") + 0.5) * 2.0**-48


def beyond_doubles(array: np.ndarray) -> bool:
    """Whether it holds whole numbers that are too large for a double."""
    wide = array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size > 0
    return wide and not (int(array.max()) <= WHOLE and int(array.min()) >= -WHOLE)


def with_low_words(arrays: Transcript) -> Transcript:
    """The arrays, and the lower 32 bits of whole numbers that are too large for a double."""
    wide = {name: array for name, array in arrays.items() if beyond_doubles(array)}
    low = {f"{name}, low words": (x & x.dtype.type(2**32 - 1)).astype(np.float64) for name, x in wide.items()}
    return {**arrays, **low}


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


def with_noise_removed(transcript: Transcript) -> Transcript:
    """The transcript, and every array without its noise if a number in the transcript turns out to be the seed of that noise.

    The adversary tries every whole number in a small array as the seed of a `NoiseSource` whose first draw is Gaussian or Laplace
    noise (rounded Laplace noise is discrete Laplace noise). If an array correlates with the noise of that seed far beyond chance
    (5 standard deviations), the noise is subtracted. A transcript without a seed stays as it is.
    """
    seeds = _possible_seeds(transcript)
    found: dict[str, np.ndarray] = {}
    for name, array in transcript.items() if seeds else ():
        values = np.asarray(array)
        if values.dtype.kind == "b" or values.size < SMALLEST_ARRAY or not np.isfinite(values).all():
            continue
        if values.std() == 0:
            continue
        direction = _unit(values)
        for seed in seeds:
            for kind in ("gaussian", "laplace"):
                z, unit = _first_draw(seed, values.shape, kind)
                if abs(direction @ unit) > 5 / np.sqrt(values.size):
                    found[f"{name} without {kind} noise"] = _exact_residual(values, z)
    return {**transcript, **found} if found else transcript


def _unit(values: np.ndarray) -> np.ndarray:
    """Centred, of length 1: the product of two is their correlation. [entries]"""
    centred = values.ravel() - values.mean()
    return np.asarray(centred / np.linalg.norm(centred))


@lru_cache(maxsize=64)
def _first_draw(seed: int, shape: Shape, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """The draw and its direction. Remembered: a small count that is no seed is the same in most runs."""
    noise = NoiseSource.seeded(seed)
    z = noise.gaussian(shape, std=1.0) if kind == "gaussian" else noise.laplace(shape, scale=1.0)
    return z, _unit(z)


def _exact_residual(values: np.ndarray, z: np.ndarray) -> np.ndarray:
    """values - s z with the s for which most of the residual's differences vanish: a median of ratios of differences."""
    dv, dz = np.diff(values.ravel().astype(np.float64)), np.diff(z.ravel())
    return np.asarray(values - float(np.median(dv / np.where(dz == 0, 1.0, dz))) * z)


def _possible_seeds(transcript: Transcript) -> list[int]:
    """Whole numbers in arrays of few entries, whatever their type and shape; each once."""
    small = [
        array
        for array in map(np.asarray, transcript.values())
        if array.size <= SEEDS_TRIED and array.dtype.kind in "iuf"
    ]
    numbers = [number for array in small for number in array.ravel().tolist()]
    seeds = dict.fromkeys(int(number) for number in numbers if 0 <= number < WHOLE and number == int(number))
    return list(seeds)[:SEEDS_TRIED]
