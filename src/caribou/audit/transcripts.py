"""Transcripts: all that an adversary sees of a run, as tables of numbers (arrays, the adversary's own scores, statistics)."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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


@dataclass(frozen=True, eq=False)
class Ragged:
    """One array of many runs; it may be missing in some, or have another shape. ``stacks``: by shape, runs and [runs, entries].

    Nothing here depends on which shape is usual: that is decided once, by a `Layout`, on runs that are not judged.
    """

    runs: int
    stacks: Mapping[Shape, tuple[np.ndarray, np.ndarray]]

    @staticmethod
    def of(arrays: Sequence[np.ndarray | None]) -> Ragged:
        """One array per run, None where there is none."""
        rows: dict[Shape, list[int]] = {}
        for run, array in enumerate(arrays):
            if array is not None:
                rows.setdefault(np.shape(array), []).append(run)
        stacks = {
            shape: (np.array(some), np.stack([_reals(arrays[run]) for run in some]).reshape(len(some), -1))
            for shape, some in rows.items()
        }
        return Ragged(len(arrays), stacks)

    @staticmethod
    def of_batch(array: np.ndarray) -> Ragged:
        """An array whose first axis are the runs."""
        runs = len(array)
        return Ragged(runs, {array.shape[1:]: (np.arange(runs), _reals(array).reshape(runs, -1))})

    def part(self, start: int, stop: int) -> Ragged:
        """Some of the runs."""
        stacks = {}
        for shape, (rows, values) in self.stacks.items():
            first, last = np.searchsorted(rows, [start, stop])
            if first < last:
                stacks[shape] = (rows[first:last] - start, values[first:last])
        return Ragged(max(0, min(stop, self.runs) - start), stacks)

    @staticmethod
    def join(parts: Sequence[Ragged]) -> Ragged:
        """Several blocks of runs."""
        found: dict[Shape, list[tuple[np.ndarray, np.ndarray]]] = {}
        done = 0
        for part in parts:
            for shape, (rows, values) in part.stacks.items():
                found.setdefault(shape, []).append((rows + done, values))
            done += part.runs
        stacks = {
            shape: (np.concatenate([rows for rows, _ in each]), np.concatenate([values for _, values in each]))
            for shape, each in found.items()
        }
        return Ragged(done, stacks)

    def entries(self, shape: Shape) -> np.ndarray:
        """The runs with this shape; NaN in the others. [runs, entries]"""
        rows, values = self.stacks.get(shape, (np.arange(0), np.empty((0, math.prod(shape)))))
        if len(rows) == self.runs:
            return values
        out = np.full((self.runs, math.prod(shape)), np.nan)
        out[rows] = values
        return out

    def marked(self, shape: Shape, kind: str, found: np.ndarray) -> np.ndarray:
        """1 where one of these entries is of that kind of `MARKS`, else 0. [runs, found]"""
        out = np.zeros((self.runs, len(found)))
        if shape in self.stacks:
            rows, values = self.stacks[shape]
            out[rows] = MARKS[kind](values[:, found])
        return out

    def summaries(self) -> np.ndarray:
        """Of an array of any shape: sum, extremes, first and last entries; NaN where it is missing. [runs, 3 + 2 ENDS]"""
        out = np.full((self.runs, 3 + 2 * ENDS), np.nan)
        for rows, values in self.stacks.values():
            if values.shape[1]:
                with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs have no sum
                    out[rows, :3] = np.stack([values.sum(axis=1), values.min(axis=1), values.max(axis=1)], axis=1)
                shown = min(ENDS, values.shape[1])
                out[rows, 3 : 3 + shown] = values[:, :shown]
                out[rows, -shown:] = values[:, -shown:]
        return out


def _reals(array: Any) -> np.ndarray:
    return np.asarray(array, dtype=np.float64)


def shape_counts(tables: Iterable[Ragged]) -> Counter[Shape]:
    """How many runs have each shape."""
    counts: Counter[Shape] = Counter()
    for table in tables:
        counts.update({shape: len(rows) for shape, (rows, _) in table.stacks.items()})
    return counts


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of one world, a row for each. ``arrays``: by name; ``scores``: [runs, k], with ``names`` for its columns."""

    arrays: Mapping[str, Ragged]
    scores: np.ndarray
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.scores)

    def part(self, start: int, stop: int) -> Runs:
        """Some of the runs."""
        cut = {name: array.part(start, stop) for name, array in self.arrays.items()}
        return Runs(cut, self.scores[start:stop], self.names)

    def array(self, name: str) -> Ragged:
        """A named array; of no run if there is none."""
        return self.arrays.get(name, Ragged(len(self), {}))

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
        arrays = {
            name: Ragged.join([part.array(name) for part in parts])
            for name in dict.fromkeys(name for part in parts for name in part.arrays)
        }
        names = tuple(dict.fromkeys(name for part in parts for name in part.names))
        return Runs(arrays, np.concatenate([part.columns(names) for part in parts]), names)


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
        names = dict.fromkeys(name for runs in worlds for name in runs.arrays)
        counts = {name: shape_counts(runs.array(name) for runs in worlds) for name in names}
        shapes = {name: each.most_common(1)[0][0] for name, each in counts.items()}
        marks = []
        for name, shape in shapes.items():
            stacks = [runs.array(name).stacks[shape][1] for runs in worlds if shape in runs.array(name).stacks]
            for kind, test in MARKS.items():
                found = np.flatnonzero(np.any([test(values).any(axis=0) for values in stacks], axis=0))
                marks += [(name, kind, found)] if len(found) else []
        return Layout(shapes, tuple(name for name, each in counts.items() if len(each) > 1), tuple(marks))

    def __call__(self, runs: Runs) -> np.ndarray:
        """A row per run, which depends on that run alone; NaN where an array is missing or has another shape. [runs, columns]"""
        parts = [runs.array(name).entries(shape) for name, shape in self.shapes.items()]
        parts += [runs.array(name).summaries() for name in self.varying]
        parts += [runs.array(name).marked(self.shapes[name], kind, found) for name, kind, found in self.marks]
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(runs), 0))


def finite(scores: np.ndarray) -> np.ndarray:
    """Scores that can be compared: infinities and NaN become fixed extreme values."""
    return np.nan_to_num(scores, nan=-EXTREME, posinf=EXTREME, neginf=-EXTREME)


def observe(transcripts: Sequence[Transcript], scores: Scores | None = None) -> Runs:
    """Runs that were made one by one, as tables."""
    named = [dict(scores(transcript)) if scores is not None else {} for transcript in transcripts]
    return tabulate([with_noise_removed(transcript) for transcript in transcripts], named)


def tabulate(transcripts: Sequence[Transcript], named: Sequence[Mapping[str, float]]) -> Runs:
    """Transcripts with the adversary's scores of them; names may be missing in some runs."""
    names = tuple(dict.fromkeys(name for row in named for name in row))
    own = np.array([[float(row.get(name, np.nan)) for name in names] for row in named]).reshape(len(transcripts), -1)
    found = dict.fromkeys(name for transcript in transcripts for name in transcript)
    arrays = {name: Ragged.of([transcript.get(name) for transcript in transcripts]) for name in found}
    for name in found:
        lower = [low_words(transcript[name]) if name in transcript else None for transcript in transcripts]
        if any(words is not None for words in lower):
            arrays[f"{name}, low words"] = Ragged.of(lower)
    counts = sum((equality_of(name, transcripts) for name in found), start=np.zeros((len(transcripts), len(COUNTS))))
    shapes = np.array([structure(transcript) for transcript in transcripts])
    return Runs(arrays, np.concatenate([own, counts, shapes], axis=1), (*names, *STATISTICS))


def equality_of(name: str, transcripts: Sequence[Transcript]) -> np.ndarray:
    """`equality_counts` of an array that may be missing in some runs, or have another type or shape. [runs, counts]"""
    alike: dict[tuple[np.dtype[Any], Shape], list[int]] = {}
    for run, transcript in enumerate(transcripts):
        if name in transcript:
            array = np.asarray(transcript[name])
            alike.setdefault((array.dtype, array.shape), []).append(run)
    out = np.zeros((len(transcripts), len(COUNTS)))
    for rows in alike.values():
        out[rows] = equality_counts(np.stack([transcripts[run][name] for run in rows]))
    return out


def observe_batch(
    transcripts: Transcript, scores: Callable[[Transcript], Mapping[str, np.ndarray]] | None = None
) -> Runs:
    """Runs that were made as one tensor: every array has the runs as its first axis, and scores give one number per run."""
    first = next(iter(transcripts.values()))
    runs = len(first)
    own = {
        name: np.asarray(values, dtype=np.float64) for name, values in (scores(transcripts) if scores else {}).items()
    }
    counts = sum((equality_counts(array) for array in transcripts.values()), start=np.zeros((runs, len(COUNTS))))
    shape = structure({name: array[0] for name, array in transcripts.items()})
    columns = [*own.values(), *counts.T, *(np.full(runs, value) for value in shape)]
    arrays = {name: Ragged.of_batch(array) for name, array in transcripts.items()}
    for name, array in transcripts.items():
        if low_words(array) is not None:
            arrays[f"{name}, low words"] = Ragged.of([low_words(each) for each in array])
    return Runs(arrays, np.stack(columns, axis=1), (*own, *STATISTICS))


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


def structure(transcript: Transcript) -> tuple[float, float, float, float, float]:
    """Entries and arrays that are handed out, and their names in order, types and shapes, each as one number.

    Equal words have equal numbers.
    """
    arrays = [np.asarray(array) for array in transcript.values()]
    return (
        float(sum(array.size for array in arrays)),
        float(len(arrays)),
        word_number("|".join(transcript)),
        word_number("|".join(array.dtype.str for array in arrays)),
        word_number("|".join(str(array.shape) for array in arrays)),
    )


@lru_cache(maxsize=4096)
def word_number(text: str) -> float:
    """A number in (0, 1) for a text; different texts have different ones, but for 2^-48 by chance."""
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") + 0.5) * 2.0**-48


def low_words(array: Any) -> np.ndarray | None:
    """The lower 32 bits of whole numbers that are too large for a double; None if there are none."""
    values = np.asarray(array)
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or values.size == 0:
        return None
    if int(values.max()) <= WHOLE and int(values.min()) >= -WHOLE:
        return None
    return (values & values.dtype.type(2**32 - 1)).astype(np.float64)


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
