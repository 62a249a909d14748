"""Uniform reals: every prefix of bits that decides is checked by enumeration against the exact law."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import pytest

from caribou.mechanisms import uniform_reals as module
from caribou.mechanisms.uniform_reals import (
    UniformReal,
    is_below,
    is_below_exp,
    logarithmic_number,
    rounded_exponentials,
    rounded_gaussians,
)


class NeedsBits(Exception):
    """Raised in place of further bits."""


class NoBits:
    def update(self, _: bytes) -> bytes:
        raise NeedsBits


class Bits:
    """Further words, in order."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def update(self, wanted: bytes) -> bytes:
        assert len(wanted) == 8
        return self.words.pop(0).to_bytes(8, "little")


def decided(decision: Callable[[UniformReal], int], bits: int) -> tuple[dict[int, Fraction], Fraction]:
    """The probability that the first ``bits`` bits decide for each value, over all of them, and that they do not decide."""
    masses: dict[int, Fraction] = {}
    open_mass = Fraction(0)
    for numerator in range(1 << bits):
        try:
            value = decision(UniformReal(numerator, bits, NoBits()))
        except NeedsBits:
            open_mass += Fraction(1, 1 << bits)
        else:
            masses[value] = masses.get(value, Fraction(0)) + Fraction(1, 1 << bits)
    return masses, open_mass


def digits(function: Callable[[], Decimal]) -> Fraction:
    with localcontext() as context:
        context.prec = 60
        return Fraction(function())


EPSILON = Fraction(3, 8)
TAIL = [digits(lambda k=k: (-Decimal(3) / 8 * k).exp()) for k in range(400)]
STOP = Fraction(1, 8)
LOG = [digits(lambda k=k: (Decimal(7) / 8) ** k / (k * Decimal(8).ln())) for k in range(1, 400)]
LAWS: dict[str, tuple[Callable[[UniformReal], int], dict[int, Fraction]]] = {
    "a probability": (lambda u: is_below(u, Fraction(1, 3)), {1: Fraction(1, 3), 0: Fraction(2, 3)}),
    "e^-gamma": (lambda u: is_below_exp(u, EPSILON), {1: TAIL[1], 0: 1 - TAIL[1]}),
    "geometric": (
        lambda u: rounded_exponentials([u], (1,), 1 / EPSILON, Fraction(0)),
        {k: TAIL[k] - TAIL[k + 1] for k in range(399)},
    ),
    "logarithmic": (lambda u: logarithmic_number(u, STOP), dict(enumerate(LOG, start=1))),
}


@pytest.mark.parametrize("name", LAWS)
def test_all_prefixes_of_bits_agree_with_the_law(name: str) -> None:
    """Over all 2^b prefixes: decided <= P(value) <= decided + open, and b bits leave only the edges of cells open."""
    decision, law = LAWS[name]
    for bits in (5, 11):
        masses, open_mass = decided(decision, bits)
        for value, probability in law.items():
            mass = masses.get(value, Fraction(0))
            assert mass <= probability <= mass + open_mass
            assert probability - mass <= Fraction(2, 1 << bits) + (open_mass if mass == 0 else 0)
        assert set(masses) <= set(law)
        cells = len(masses) + 1
        assert open_mass <= Fraction(2 * cells, 1 << bits)


def test_a_wrong_law_is_rejected_by_the_same_enumeration() -> None:
    law = LAWS["geometric"][1]
    wrong = EPSILON * Fraction(102, 100)
    masses, open_mass = decided(lambda u: rounded_exponentials([u], (1,), 1 / wrong, Fraction(0)), 10)
    cumulative = sum((masses.get(k, Fraction(0)) for k in range(3)), Fraction(0))
    assert cumulative > sum(law[k] for k in range(3)) + open_mass / 8


def test_differences_of_exponentials_agree_with_the_law() -> None:
    """rint(E - E'), all pairs of prefixes: P(|E - E'| < 1/2) = 1 - e^(-1/2), and so on."""
    masses: dict[int, Fraction] = {}
    b = 5
    for first, second in itertools.product(range(1 << b), repeat=2):
        terms = [UniformReal(first, b, NoBits()), UniformReal(second, b, NoBits())]
        try:
            value = rounded_exponentials(terms, (1, -1), Fraction(1), Fraction(1, 2))
        except NeedsBits:
            continue
        masses[value] = masses.get(value, Fraction(0)) + Fraction(1, 1 << (2 * b))
    law = {
        k: digits(lambda k=k: (Decimal(-abs(k)) + Decimal("0.5")).exp() * (1 - Decimal(-1).exp()) / 2)
        for k in range(-9, 10)
    }
    law[0] = 1 - digits(lambda: Decimal("-0.5").exp())
    left = 1 - sum(masses.values())
    assert left < Fraction(1, 3)
    assert all(masses.get(k, 0) <= p <= masses.get(k, 0) + left for k, p in law.items())
    assert all(masses[k] == masses[-k] for k in range(4))


def test_rounded_gaussians_agree_with_the_law() -> None:
    """The nearest integers to Z/2, Z'/2 over all prefixes of 6 + 6 bits, against the error function."""
    masses: dict[tuple[int, int], Fraction] = {}
    b = 6
    for first, second in itertools.product(range(1 << b), repeat=2):
        try:
            pair = rounded_gaussians(UniformReal(first, b, NoBits()), UniformReal(second, b, NoBits()), Fraction(1, 2))
        except NeedsBits:
            continue
        masses[pair] = masses.get(pair, Fraction(0)) + Fraction(1, 1 << (2 * b))
    left = 1 - sum(masses.values())
    assert left < Fraction(1, 2)
    cell = [math.erf((2 * k + 1) / math.sqrt(2)) / 2 - math.erf((2 * k - 1) / math.sqrt(2)) / 2 for k in range(4)]
    for x, y in itertools.product(range(-3, 4), repeat=2):
        probability = cell[abs(x)] * cell[abs(y)]
        assert masses.get((x, y), 0) <= probability + 1e-12
        assert probability <= masses.get((x, y), 0) + left + 1e-12


def test_further_bits_decide_where_the_first_do_not() -> None:
    """u = 2/3 = 0.101010...: the first word is that of the threshold, and the third decides."""
    pattern = 0xAAAAAAAAAAAAAAAA
    assert is_below(UniformReal(pattern, 64, Bits(pattern, pattern - 1)), Fraction(2, 3))
    assert not is_below(UniformReal(pattern, 64, Bits(pattern, pattern + 1)), Fraction(2, 3))
    with mpmath.workprec(300):
        second = int(mpmath.floor(mpmath.frac(mpmath.exp(-1) * mpmath.mpf(2) ** 64) * 2**64))
        threshold = int(mpmath.floor(mpmath.exp(-1) * mpmath.mpf(2) ** 64))
    assert is_below_exp(UniformReal(threshold, 64, Bits(second - 1)), Fraction(1))
    assert not is_below_exp(UniformReal(threshold, 64, Bits(second + 1)), Fraction(1))
    assert rounded_exponentials([UniformReal(threshold, 64, Bits(second - 1))], (1,), Fraction(1), Fraction(0)) == 1
    assert rounded_exponentials([UniformReal(threshold, 64, Bits(second + 1))], (1,), Fraction(1), Fraction(0)) == 0


def test_the_tail_has_no_end() -> None:
    """192 zero bits: -log u is about 133, where 128 bits end at 89."""
    real = UniformReal(0, 64, Bits(0, 0, 1 << 63))
    assert rounded_exponentials([real], (1,), Fraction(1), Fraction(0)) == math.floor(193 * math.log(2))
    far = rounded_gaussians(UniformReal(0, 128, Bits(0, 1 << 63)), UniformReal(0, 64, Bits(*[7] * 3)), Fraction(1))
    assert far == (round(math.sqrt(2 * 193 * math.log(2))), 0)


def test_elementary_functions_are_within_their_bounds() -> None:
    with mpmath.workprec(1200):
        for p in (70, 200, 900):
            assert abs(module._pi(p) - mpmath.pi * mpmath.mpf(2) ** p) <= 1
            for numerator in [0, 1, 2**63, 2**62 - 1, 2**61, 2**61 - 1, 2**64 - 1, *range(3**39, 2**64, 2**58)]:
                angle = 2 * mpmath.pi * mpmath.mpf(numerator) / 2**64
                cosine, sine = module._cos_sin(numerator, 64, p)
                assert abs(cosine - mpmath.cos(angle) * mpmath.mpf(2) ** p) <= 1
                assert abs(sine - mpmath.sin(angle) * mpmath.mpf(2) ** p) <= 1
                if numerator:
                    low, high = module._minus_log(numerator, 64, p)
                    assert low <= -mpmath.log(mpmath.mpf(numerator) / 2**64) * mpmath.mpf(2) ** p <= high
                    assert high - low == 3


@pytest.mark.parametrize("bits", [20, 33, 64, 128])
def test_one_logarithm_encloses_both_ends(bits: int) -> None:
    """-log of every number that begins with the known bits lies inside, and the enclosure is hardly wider than that."""
    p = bits + 64
    with mpmath.workprec(p + 80):
        for numerator in (1, 2, 3, (1 << min(bits, 32)) - 1, 1 << min(bits - 1, 32), (1 << bits) - 1):
            low, high = UniformReal(numerator, bits, None).minus_log(p)
            ends = [-mpmath.log(mpmath.mpf(k) / mpmath.mpf(2) ** bits) * 2**p for k in (numerator + 1, numerator)]
            assert low <= ends[0] <= ends[1] <= high
            assert high - low <= (ends[1] - ends[0]) * (1 + mpmath.mpf(2) ** -31) + 8
