"""Uniform real numbers whose bits are drawn as they are needed, and what follows from them exactly.

The vectorised samplers decide nearly all values from the first bits in double precision. Here are decided those that the first
bits leave open: with rational bounds, and with further bits until no doubt is left. So a value is a function of an exactly
uniform real number, and arithmetic only decides how many bits of it are looked at.

Fixed point: a real x is enclosed by two integers, low <= x 2^p <= high.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

_GUARD = 64
"""Bits of fixed point beyond those of the uniform numbers."""
_MANY = 1 << 32
"""A numerator from which on 1/k is taken for log(k + 1) - log k: it makes the enclosure wider by less than 2^-33 of itself."""

Enclosure = tuple[int, int]


class UniformReal:
    """A uniform real number u in [0, 1), of which ``numerator`` 2^-``bits`` <= u < (``numerator`` + 1) 2^-``bits`` is known.

    Args:
        numerator: the known bits.
        bits: how many they are.
        stream: where further bits come from, 64 at a time: ``stream.update(bytes(8))``.
    """

    def __init__(self, numerator: int, bits: int, stream: Any) -> None:
        self.numerator, self.bits, self._stream = numerator, bits, stream

    def refine(self) -> None:
        """Draw 64 further bits."""
        self.numerator = self.numerator << 64 | int.from_bytes(self._stream.update(bytes(8)), "little")
        self.bits += 64

    def minus_log(self, p: int) -> Enclosure:
        """-log u. Bits are drawn until u is known not to be 0.

        Where many bits are known, one logarithm serves both ends: log(k + 1) - log k <= 1/k, and is hardly less.
        """
        while self.numerator == 0:
            self.refine()
        low, high = _minus_log(self.numerator, self.bits, p)
        if self.numerator >= _MANY:
            low -= (1 << p) // self.numerator + 1
        else:
            low, _ = _minus_log(self.numerator + 1, self.bits, p)
        return max(0, low), high

    def turned(self, p: int) -> tuple[Enclosure, Enclosure]:
        """cos(2 pi u) and sin(2 pi u). Both move by at most 2 pi per unit of u."""
        doubt = 2 + (7 << max(0, p - self.bits))
        cosine, sine = _cos_sin(self.numerator, self.bits, p)
        return (cosine - doubt, cosine + doubt), (sine - doubt, sine + doubt)


# -- decisions ---------------------------------------------------------------------------------------------------------


def is_below(u: UniformReal, probability: Fraction) -> bool:
    """Whether u < probability: true with exactly this probability."""
    while True:
        scaled = probability * (1 << u.bits)
        if u.numerator + 1 <= scaled:
            return True
        if u.numerator >= scaled:
            return False
        u.refine()


def is_below_exp(u: UniformReal, exponent: Fraction) -> bool:
    """Whether u < e^-exponent, which is -log u > exponent."""
    while True:
        p = u.bits + _GUARD
        low, high = u.minus_log(p)
        if low > exponent * (1 << p):
            return True
        if high < exponent * (1 << p):
            return False
        u.refine()


def rounded_exponentials(terms: Sequence[UniformReal], signs: Sequence[int], factor: Fraction, offset: Fraction) -> int:
    """floor(factor (sum of sign E) + offset), E = -log u a standard exponential per term."""
    while True:
        p = max(u.bits for u in terms) + _GUARD
        low = high = 0
        for u, sign in zip(terms, signs, strict=True):
            a, b = u.minus_log(p)
            low, high = (low + a, high + b) if sign > 0 else (low - b, high - a)
        bottom, top = (math.floor(factor * Fraction(x, 1 << p) + offset) for x in (low, high))
        if bottom == top:
            return bottom
        for u in terms:
            u.refine()


def rounded_gaussians(u: UniformReal, v: UniformReal, factor: Fraction) -> tuple[int, int]:
    """The integers next to factor R cos(2 pi v) and factor R sin(2 pi v), R = sqrt(-2 log u): two independent Gaussians."""
    half = Fraction(1, 2)
    while True:
        p = max(u.bits, v.bits) + _GUARD
        low, high = u.minus_log(p)
        radii = math.isqrt(low << (p + 1)), math.isqrt(high << (p + 1)) + 1
        unit = factor / (1 << (2 * p))
        found = []
        for ends in v.turned(p):
            products = [r * c for r in radii for c in ends]
            found.append([math.floor(unit * x + half) for x in (min(products), max(products))])
        if all(bottom == top for bottom, top in found):
            return found[0][0], found[1][0]
        u.refine()
        v.refine()


def logarithmic_number(u: UniformReal, stop: Fraction) -> int:
    """The smallest k >= 1 with u < F(k), F(k) = sum_{j <= k} (1 - g)^j / (j log(1/g)), g = ``stop`` in (0, 1).

    Powers and quotients are rounded down: after k terms the sum is short by at most 2 k units.
    """
    q = 1 - stop
    while True:
        p = u.bits + _GUARD
        above, below = _minus_log(stop.denominator, 0, p), _minus_log(stop.numerator, 0, p)
        total = below[0] - above[1], below[1] - above[0]  # log(1/g)
        power, reached, k = 1 << p, 0, 0
        while True:
            k += 1
            power = power * q.numerator // q.denominator
            reached += power // k
            if (u.numerator + 1) * total[1] <= reached << u.bits:
                return k
            if u.numerator * total[0] < (reached + 2 * k) << u.bits:
                break
        u.refine()


# -- elementary functions ------------------------------------------------------------------------------------------------


def _minus_log(numerator: int, bits: int, p: int) -> Enclosure:
    """-log(numerator 2^-bits). `decimal` rounds logarithms correctly; 30 spare digits make the rest smaller than one unit."""
    digits = math.ceil(p * math.log10(2)) + len(str(bits)) + 30
    with decimal.localcontext(decimal.Context(prec=digits, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)):
        x = (bits * _log_2(digits) - Decimal(numerator).ln()) * Decimal(1 << p)
        nearest = int(x.to_integral_value(rounding=decimal.ROUND_FLOOR))
    return nearest - 1, nearest + 2


@lru_cache(maxsize=16)
def _log_2(digits: int) -> Decimal:
    return Decimal(2).ln(decimal.Context(prec=digits))


def _cos_sin(numerator: int, bits: int, p: int) -> tuple[int, int]:
    """cos and sin of 2 pi numerator 2^-bits, times 2^p, to within one unit.

    The angle is taken from the next quarter of a turn, so |x| <= pi/4, and both series are summed with 32 spare bits: each of
    the fewer than 2^10 terms (and x itself) is off by a few units of those.
    """
    q = p + 32
    quarter = ((numerator << 3 >> bits) + 1) >> 1
    x = 2 * _pi(q) * ((numerator << 2) - (quarter << bits)) >> (bits + 2)
    sums, term, k = [0, 0], 1 << q, 0
    while term:
        sums[k & 1] += -term if k & 2 else term
        k += 1
        term = (term * x >> q) // k if term * x >= 0 else -((-term * x >> q) // k)
    c, s = (value + (1 << 31) >> 32 for value in sums)
    return ((c, s), (-s, c), (-c, -s), (s, -c))[quarter & 3]


@lru_cache(maxsize=16)
def _pi(p: int) -> int:
    """pi 2^p to within one unit (Machin: 16 arctan 1/5 - 4 arctan 1/239)."""
    q = p + 32

    def arctan(inverse: int) -> int:
        total, power, k = 0, (1 << q) // inverse, 0
        while power:
            total += (-power if k & 1 else power) // (2 * k + 1)
            power //= inverse * inverse
            k += 1
        return total

    return (16 * arctan(5) - 4 * arctan(239)) >> 32
