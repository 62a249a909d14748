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


def stacked(transcripts: Sequence[Transcript], name: str, shape: Shape) -> tuple[list[int], np.ndarray]:
    """Which runs have a named array of this shape, and its entries there. [some], [some, entries]"""
    rows = [run for run, each in enumerate(transcripts) if name in each and np.shape(each[name]) == shape]
    values = [np.asarray(transcripts[run][name], dtype=np.float64) for run in rows]
    return rows, np.stack(values).reshape(len(rows), -1) if rows else np.empty((0, math.prod(shape)))


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
class Runs:
    """Runs of one world: what each handed out, and its scores [runs, k], with ``names`` for their columns."""

    transcripts: Sequence[Transcript]
    scores: np.ndarray
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.scores)

    def part(self, start: int, stop: int) -> Runs:
        """Some of the runs."""
        return Runs(self.transcripts[start:stop], self.scores[start:stop], self.names)

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
        """Several blocks of runs, with the scores of all of them."""
        names = tuple(dict.fromkeys(name for part in parts for name in part.names))
        transcripts = [transcript for part in parts for transcript in part.transcripts]
        return Runs(transcripts, np.concatenate([part.columns(names) for part in parts]), names)


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
        seen = Runs.join(worlds).transcripts
        counts: dict[str, Counter[Shape]] = {}
        for transcript in seen:
            for name, array in transcript.items():
                counts.setdefault(name, Counter())[np.shape(array)] += 1
        shapes = {name: each.most_common(1)[0][0] for name, each in counts.items()}
        marks = []
        for name, shape in shapes.items():
            values = stacked(seen, name, shape)[1]
            for kind, test in MARKS.items():
                found = np.flatnonzero(test(values).any(axis=0))
                marks += [(name, kind, found)] if len(found) else []
        return Layout(shapes, tuple(name for name, each in counts.items() if len(each) > 1), tuple(marks))

    def __call__(self, runs: Runs) -> np.ndarray:
        """A row per run, which depends on that run alone; NaN where an array is missing or has another shape. [runs, columns]"""
        found = {name: stacked(runs.transcripts, name, shape) for name, shape in self.shapes.items()}
        parts = [self._filled(len(runs), np.nan, *each) for each in found.values()]
        parts += [
            np.stack([summary(each.get(name)) for each in runs.transcripts]) for name in self.varying if len(runs)
        ]
        for name, kind, entries in self.marks:
            rows, values = found[name]
            parts.append(self._filled(len(runs), 0.0, rows, MARKS[kind](values[:, entries])))
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(runs), 0))

    @staticmethod
    def _filled(runs: int, otherwise: float, rows: list[int], values: np.ndarray) -> np.ndarray:
        """The values in their rows. [runs, entries]"""
        out = np.full((runs, values.shape[1]), otherwise)
        out[rows] = values
        return out


def finite(scores: np.ndarray) -> np.ndarray:
    """Scores that can be compared: infinities and NaN become fixed extreme values."""
    return np.nan_to_num(scores, nan=-EXTREME, posinf=EXTREME, neginf=-EXTREME)


def observe(transcripts: Sequence[Transcript], scores: Scores | None = None) -> Runs:
    """Runs that were made one by one, as tables."""
    named = [dict(scores(transcript)) if scores is not None else {} for transcript in transcripts]
    return tabulate([with_noise_removed(transcript) for transcript in transcripts], named)


def observe_batch(batch: Transcript, scores: Callable[[Transcript], Mapping[str, np.ndarray]] | None = None) -> Runs:
    """Runs that were made as one tensor: every array has the runs as its first axis, and scores give one number per run."""
    runs = range(len(next(iter(batch.values()))))
    found = scores(batch) if scores is not None else {}
    named = [{name: float(values[run]) for name, values in found.items()} for run in runs]
    return tabulate([{name: array[run] for name, array in batch.items()} for run in runs], named)


def tabulate(transcripts: Sequence[Transcript], named: Sequence[Mapping[str, float]]) -> Runs:
    """Transcripts with the adversary's scores of them; names may be missing in some runs."""
    names = tuple(dict.fromkeys(name for row in named for name in row))
    own = np.array([[float(row.get(name, np.nan)) for name in names] for row in named]).reshape(len(transcripts), -1)
    found = dict.fromkeys(name for transcript in transcripts for name in transcript)
    counts = sum((equality_of(name, transcripts) for name in found), start=np.zeros((len(transcripts), len(COUNTS))))
    shapes = np.array([structure(transcript) for transcript in transcripts])
    seen = [with_low_words(transcript) for transcript in transcripts]
    return Runs(seen, np.concatenate([own, counts, shapes], axis=1), (*names, *STATISTICS))


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


def structure(transcript: Transcript) -> tuple[float, ...]:
    """Entries and arrays that are handed out, and their names in order, types and shapes, each as one number.

    Equal words have equal numbers.
    """
    return _structure(tuple((name, array.dtype.str, array.shape) for name, array in transcript.items()))


@lru_cache(maxsize=4096)
def _structure(arrays: tuple[tuple[str, str, Shape], ...]) -> tuple[float, ...]:
    """Remembered: most runs hand out the same."""
    names, types, shapes = zip(*arrays, strict=True) if arrays else ((), (), ())
    words = ("|".join(names), "|".join(types), "|".join(map(str, shapes)))
    return float(sum(map(math.prod, shapes))), float(len(arrays)), *map(word_number, words)


@lru_cache(maxsize=4096)
def word_number(text: str) -> float:
    """A number in (0, 1) for a text; different texts have different ones, but for 2^-48 by chance."""
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") + 0.5) * 2.0**-48


def with_low_words(transcript: Transcript) -> Transcript:
    """The transcript, and the lower 32 bits of whole numbers that are too large for a double."""
    out = dict(transcript)
    for name, values in transcript.items():
        wide = values.dtype.kind in "iu" and values.dtype.itemsize == 8 and values.size > 0
        if wide and not (int(values.max()) <= WHOLE and int(values.min()) >= -WHOLE):
            out[f"{name}, low words"] = (values & values.dtype.type(2**32 - 1)).astype(np.float64)
    return out


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
