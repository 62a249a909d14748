"""Every distribution of privacy noise, once: from a stream of uniform bytes to numbers. Keys and streams: `noise_source`.

A stream is a cipher in counter mode; ``stream.update(bytes(k))`` gives its next k bytes.

All samplers are exact (docs/privacy.md, Theorem 11): if the bytes are uniform, every value has exactly the probability that its
formula says. A value is a function of uniform real numbers. Their first bits, in double precision, decide nearly all values;
where they leave a doubt, `uniform_reals` draws further bits and decides with rational bounds. The premise about doubles: IEEE
arithmetic, and log, cos and sin that err by at most 4 units in the last place.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import caribou.engines.kernels as kernels
from caribou._validate import unit_interval
from caribou.errors import InputError
from caribou.mechanisms.uniform_reals import (
    UniformReal,
    is_below,
    is_below_exp,
    logarithmic_number,
    rounded_exponentials,
    rounded_gaussians,
)

CHUNK = 1 << 16
"""Values per block of cipher stream: bounds the memory of a large draw, and stays in the cache."""
PROBABILITY_BITS = 64
SMALLEST_RATE = 2.0**-40
"""Of `geometrics`: below it double precision would decide nothing."""
FINEST_GRID = 2.0**-44
"""Of Gaussian and Laplace noise, in units of its scale: below it double precision would decide nothing."""


def gaussians(stream: Any, count: int, std: float, *, grid: float) -> np.ndarray:
    """``count`` Gaussians of standard deviation ``std``, rounded to the nearest multiple of the grid, a power of two."""
    out = np.empty(count)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        pairs = (stop - start + 1) // 2
        found = np.empty(2 * pairs)
        gaussians_of_words(words(stream, 3 * pairs), found, std=std, grid=grid, further=lambda _: stream)
        out[start:stop] = found[: stop - start]
    return out


def gaussians_of_words(
    drawn: np.ndarray, out: np.ndarray, *, std: float, grid: float, further: Callable[[int], Any]
) -> None:
    """3 m words to 2 m Gaussians on the grid: all cosines of the m pairs, then all sines.

    A pair is R (cos, sin)(2 pi v), R = sqrt(-2 log u), with the first 128 bits of u and 64 of v from its three words. Where they
    leave a doubt about the nearest multiple, further bits come from ``further(pair)``: a stream that serves no other pair, or
    one that all pairs share in their order.
    """
    _require_coarse(grid, std)
    doubtful = kernels.gaussian(drawn, out, std=std, grid=grid)
    pairs = len(drawn) // 3
    for pair in doubtful.tolist():
        high, low, turn = (int(drawn[pair + part * pairs]) for part in range(3))
        stream = further(pair)
        u, v = UniformReal(high << 64 | low, 128, stream), UniformReal(turn, 64, stream)
        found = rounded_gaussians(u, v, Fraction(std) / Fraction(grid))
        out[pair], out[pair + pairs] = found[0] * grid, found[1] * grid


def laplaces(stream: Any, count: int, scale: float, *, grid: float) -> np.ndarray:
    """``count`` Laplace variables scale (E - E'), rounded to the nearest multiple of the grid, a power of two.

    Doubles: for words of at least 2^46 (others are in doubt anyway), 64 bits leave a relative 2^-47 of u open, and a logarithm
    below 13 errs by at most 2^-47; with all roundings factor (E - E') errs by less than 2^-44 factor.
    """
    _require_coarse(grid, scale)
    factor = scale / grid
    out = np.empty(count)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        drawn = words(stream, 2 * (stop - start)).reshape(2, -1)
        exponential = _exponentials(drawn)
        x = np.subtract(exponential[0], exponential[1])
        x *= factor
        nearest = np.rint(x)
        np.abs(np.subtract(x, nearest, out=x), out=x)
        doubt = (x >= 0.5 - factor * 2.0**-44) | (drawn.min(axis=0) < np.uint64(1 << 46))
        for place in np.flatnonzero(doubt).tolist():
            reals = [UniformReal(int(word), 64, stream) for word in drawn[:, place]]
            nearest[place] = rounded_exponentials(reals, (1, -1), Fraction(scale) / Fraction(grid), Fraction(1, 2))
        out[start:stop] = nearest
    out *= grid
    return out


def discrete_laplaces(stream: Any, count: int, *, epsilon: float) -> np.ndarray:
    """``count`` integers with P(k) = (1 - a)/(1 + a) a^|k|, a = e^-epsilon: the difference of two `geometrics`."""
    out = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        found = geometrics(stream, 2 * (stop - start), rate=epsilon).reshape(2, -1)
        np.subtract(found[0], found[1], out=out[start:stop])
    return out


def geometrics(stream: Any, count: int, *, rate: float) -> np.ndarray:
    """``count`` integers with P(G >= k) = e^(-rate k): floor(E / rate), E = -log u. [count], int64

    Doubles: for words of at least 2^40 (others are in doubt anyway), 64 bits leave a relative 2^-41 of u open, and a logarithm
    below 17 errs by at most 2^-46; with the division E / rate errs by less than 2^-40 / rate.
    """
    if not rate >= SMALLEST_RATE:
        raise InputError(f"epsilon must be at least 2^-40 for discrete Laplace noise, got {rate!r}")
    drawn = words(stream, count)
    x = _exponentials(drawn)
    x /= rate
    doubt = np.abs(x - np.rint(x)) <= 2.0**-40 / rate
    doubt |= drawn < np.uint64(1 << 40)
    found = x.astype(np.int64)  # towards 0, which is the floor
    for place in np.flatnonzero(doubt).tolist():
        real = UniformReal(int(drawn[place]), 64, stream)
        found[place] = rounded_exponentials([real], (1,), 1 / Fraction(rate), Fraction(0))
    return found


def _exponentials(drawn: np.ndarray) -> np.ndarray:
    """-log u in double precision, u = (w + 1/2) 2^-64."""
    u = drawn.astype(np.float64)
    u += 0.5
    u *= 2.0**-64
    np.log(u, out=u)
    return np.negative(u, out=u)


def _require_coarse(grid: float, unit: float) -> None:
    if not grid >= FINEST_GRID * unit or math.frexp(grid)[0] != 0.5:
        raise InputError(f"grid must be a power of two and at least 2^-44 of the scale {unit!r}, got {grid!r}")


def exponential_choice(stream: Any, scores: Sequence[int], *, epsilon: float) -> int:
    """The place k of a score, with probability proportional to e^(epsilon score_k).

    Rejection: a place drawn uniformly is kept with probability e^(-epsilon (best - score)). Time depends on the scores.
    """
    best = max(scores)
    while True:
        place = uniform_below(stream, len(scores))
        behind = best - scores[place]
        if behind == 0 or is_below_exp(_uniform_real(stream), Fraction(epsilon) * behind):
            return place


def trial_number(stream: Any, *, shape: float, stop: float) -> int:
    """A number k >= 1: P(k) = (1 - g)^k / (k log(1/g)) (shape 0), or g (1 - g)^(k - 1) (shape 1); g = ``stop`` in (0, 1)."""
    if shape == 0:
        return logarithmic_number(_uniform_real(stream), Fraction(stop))
    if shape != 1:
        raise InputError(f"shape must be 0 or 1, got {shape!r}")
    number = 1
    while not is_below(_uniform_real(stream), Fraction(stop)):
        number += 1
    return number


def _uniform_real(stream: Any) -> UniformReal:
    real = UniformReal(0, 0, stream)
    real.refine()
    return real


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


def bernoullis(stream: Any, count: int, *, probability: float) -> np.ndarray:
    """``count`` booleans, True with exactly ``probability``: u < p. A word equal to floor(p 2^64) leaves a doubt."""
    p = Fraction(unit_interval(probability=probability))
    threshold = math.floor(p * (1 << 64))
    flips = np.ones(count, dtype=bool)
    if threshold == 1 << 64:
        return flips
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        drawn = words(stream, stop - start)
        np.less(drawn, np.uint64(threshold), out=flips[start:stop])
        for place in np.flatnonzero(drawn == np.uint64(threshold)).tolist():
            flips[start + place] = is_below(UniformReal(threshold, 64, stream), p)
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

    Inversion: the smallest k with u < F(k). The weight of the mode is 2^b, the others follow by the exact ratio of neighbouring
    probabilities, (M - k) p / ((k + 1)(1 - p)), rounded down, until they are 0. Each rounding takes less than 1, and ratios away
    from the mode are at most 1, so after j steps a weight is short by at most j, and L weights and the at most M that are left
    out by ``short`` = (L + M) L in all. So C / (T + short) <= F(k) <= (C + short) / T for cumulative weights C and their sum T.
    Where that leaves a doubt, u and b get more bits.
    """
    p, whole = probability_threshold(probability), 1 << PROBABILITY_BITS
    mode = min(trials, (trials + 1) * p // whole)
    u, bits = _uniform_real(stream), 256
    while True:
        upper, lower = [1 << bits], [1 << bits]
        for k in range(mode, trials):
            upper.append(upper[-1] * (trials - k) * p // ((k + 1) * (whole - p)))
            if upper[-1] == 0:
                break
        for k in range(mode, 0, -1):
            lower.append(lower[-1] * k * (whole - p) // ((trials - k + 1) * p))
            if lower[-1] == 0:
                break
        totals = list(itertools.accumulate(lower[:0:-1] + upper))
        short = (len(totals) + trials) * len(totals)
        chosen = bisect_right(totals, u.numerator * totals[-1] >> u.bits)
        below = totals[chosen - 1] if chosen > 0 else 0
        first = chosen == 0 and len(lower) - 1 == mode
        if (u.numerator + 1) * (totals[-1] + short) <= totals[chosen] << u.bits and (
            first or u.numerator * totals[-1] >= (below + short) << u.bits
        ):
            return mode - (len(lower) - 1) + chosen
        u.refine()
        bits += 256
