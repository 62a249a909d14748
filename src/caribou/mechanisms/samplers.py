"""Every distribution of privacy noise, once: from a stream of uniform bytes to numbers. Keys and streams: `noise_source`.

A stream is a cipher in counter mode; ``stream.update(bytes(k))`` gives its next k bytes.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from typing import Any

import numpy as np

from caribou._validate import unit_interval
from caribou.errors import InputError

CHUNK = 1 << 20
"""Values per block of cipher stream: bounds the memory of a large draw."""
PROBABILITY_BITS = 64
_WEIGHT_BITS = 256


def gaussians(stream: Any, count: int) -> np.ndarray:
    """``count`` standard Gaussians from a stream of uniform bytes: sqrt(-2 log u) (cos, sin)(2 pi v)."""
    pairs = (count + 1) // 2
    radius = np.sqrt(2 * exponentials(stream, pairs))
    angle = np.frombuffer(stream.update(bytes(8 * pairs)), dtype="<u8").astype(np.float64) * (2 * np.pi * 2.0**-64)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def exponentials(stream: Any, count: int) -> np.ndarray:
    """``count`` standard exponentials -log u, u = (w + (w' + 1/2) 2^-64) 2^-64 from two words.

    The second word keeps the relative precision of small u: with one word the far tail would be a set of isolated points.
    """
    words = np.frombuffer(stream.update(bytes(16 * count)), dtype="<u8").astype(np.float64)
    return -np.log((words[:count] + (words[count:] + 0.5) * 2.0**-64) * 2.0**-64)


def words(stream: Any, count: int) -> np.ndarray:
    """``count`` uniform 64-bit words."""
    return np.frombuffer(stream.update(bytes(8 * count)), dtype="<u8")


def uniform_below(stream: Any, bound: int) -> int:
    """An exactly uniform integer in 0 .. bound - 1, of any size."""
    size = (bound.bit_length() + 7) // 8
    while True:
        drawn = int.from_bytes(stream.update(bytes(size)), "little") & ((1 << bound.bit_length()) - 1)
        if drawn < bound:
            return drawn


def probability_threshold(probability: float) -> int:
    """p 2^64, which must be a whole number: only then is the probability exact."""
    p = unit_interval(probability=probability)
    scaled = math.ldexp(p, PROBABILITY_BITS)
    if not scaled.is_integer():
        raise InputError(f"probability must be a multiple of 2^-{PROBABILITY_BITS}, got {p!r}")
    return int(scaled)


def laplaces(stream: Any, count: int) -> np.ndarray:
    """``count`` standard Laplace variables: the difference of two exponentials of 128-bit uniforms; support 89 scales."""
    return exponentials(stream, count) - exponentials(stream, count)


def discrete_laplaces(stream: Any, count: int, *, epsilon: float) -> np.ndarray:
    """``count`` integers with P(k) = (1 - a)/(1 + a) a^|k|, a = e^-epsilon: the difference of two floor(E / epsilon)."""
    up, down = exponentials(stream, count), exponentials(stream, count)
    return (np.floor(up / epsilon) - np.floor(down / epsilon)).astype(np.int64)


def gumbels(stream: Any, count: int) -> np.ndarray:
    """``count`` standard Gumbel variables."""
    return -np.log(exponentials(stream, count))


def bernoullis(stream: Any, count: int, *, probability: float) -> np.ndarray:
    """``count`` booleans, True with exactly ``probability``, a multiple of 2^-64: a 64-bit word below p 2^64."""
    threshold = probability_threshold(probability)
    flips = np.empty(count, dtype=bool)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        drawn = words(stream, stop - start)
        flips[start:stop] = drawn < np.uint64(threshold) if threshold < 1 << PROBABILITY_BITS else True
    return flips


def integers_below(stream: Any, count: int, *, below: int) -> np.ndarray:
    """``count`` integers, exactly uniform in 0 .. below - 1 (words beyond the last multiple are drawn again)."""
    last = np.uint64((1 << 64) // below * below - 1)
    drawn = np.empty(count, dtype=np.int64)
    done = 0
    while done < count:
        found = words(stream, min(count - done, CHUNK))
        found = found[found <= last]
        drawn[done : done + len(found)] = (found % np.uint64(below)).astype(np.int64)
        done += len(found)
    return drawn


def binomial(stream: Any, trials: int, *, probability: float) -> int:
    """How many of ``trials`` booleans of `bernoullis` are True, without drawing them: time and memory O(sqrt(trials p (1 - p))).

    Inversion in integers: the weight of the mode is 2^256, the others follow by the exact ratio of neighbouring
    probabilities, (M - k) p / ((k + 1)(1 - p)), rounded down, until they are 0; then a uniform integer below their sum
    chooses. Each rounding takes less than 1 from a weight: weights above 2^128 are right to L 2^-128 for L weights, the
    others have a share below L 2^-128, so the total variation from the binomial is below L 2^-126 (2^-100 for L up to 2^26).
    """
    p, whole = probability_threshold(probability), 1 << PROBABILITY_BITS
    mode = min(trials, (trials + 1) * p // whole)
    upper, lower = [1 << _WEIGHT_BITS], [1 << _WEIGHT_BITS]
    for k in range(mode, trials):
        upper.append(upper[-1] * (trials - k) * p // ((k + 1) * (whole - p)))
        if upper[-1] == 0:
            break
    for k in range(mode, 0, -1):
        lower.append(lower[-1] * k * (whole - p) // ((trials - k + 1) * p))
        if lower[-1] == 0:
            break
    totals = list(itertools.accumulate(lower[:0:-1] + upper))
    chosen = bisect_right(totals, uniform_below(stream, totals[-1]))
    return mode - (len(lower) - 1) + chosen
