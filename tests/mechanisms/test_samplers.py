"""Every distribution is the one it is named after, in body and tail, and 5 % off is rejected."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource


def p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """Chi-square over cells with enough expected draws; the rest is one cell."""
    large = expected >= 10
    o, e = observed[large], expected[large]
    if not large.all():
        o, e = np.append(o, observed[~large].sum()), np.append(e, expected[~large].sum())
    keep = e > 0
    return float(stats.chi2.sf(((o[keep] - e[keep]) ** 2 / e[keep]).sum(), keep.sum() - 1))


def test_binomial_numbers_have_their_distribution() -> None:
    noise = NoiseSource.secure()
    for trials, p in ((7, 0.25), (60, 0.5), (60, 2.0**-5), (1_000_000, 2.0**-17)):
        sample = np.array([noise.binomial(trials, probability=p) for _ in range(4000)])
        cells = np.arange(min(trials, 60) + 1)
        expected = 4000 * stats.binom.pmf(cells, trials, p)
        assert p_value(np.bincount(sample, minlength=len(cells))[: len(cells)], expected) > 1e-6
        off = 4000 * stats.binom.pmf(cells, trials, min(1, 1.2 * p))
        assert p_value(np.bincount(sample, minlength=len(cells))[: len(cells)], off) < 1e-6
    large = np.array([noise.binomial(10**10, probability=2.0**-20) for _ in range(300)])
    deviations = (large - 10**10 * 2.0**-20) / math.sqrt(10**10 * 2.0**-20)
    assert stats.kstest(deviations, "norm").pvalue > 1e-6
    assert noise.binomial(9, probability=0.0) == 0
    assert noise.binomial(9, probability=1.0) == 9
    assert noise.binomial(0, probability=0.5) == 0


def test_the_weights_of_the_binomial_are_right_to_the_stated_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against exact fractions: the total variation is below 2^-100."""
    from caribou.mechanisms import samplers as module

    seen: list[int] = []
    monkeypatch.setattr(module, "uniform_below", lambda stream, bound: seen.append(bound) or 0)
    trials, p = 300, Fraction(1, 8)
    lowest = NoiseSource.keyed(bytes(32)).binomial(trials, probability=float(p))
    total = seen[0]
    numbers: list[int] = []
    for threshold in range(lowest, trials + 1):  # the cumulative weights, found by bisection on the uniform number
        low, high = 0, total
        while low < high:
            middle = (low + high) // 2
            monkeypatch.setattr(module, "uniform_below", lambda stream, bound, m=middle: m)
            if NoiseSource.keyed(bytes(32)).binomial(trials, probability=float(p)) > threshold:
                high = middle
            else:
                low = middle + 1
        numbers.append(low)
        if threshold > lowest + 6:
            break
    exact = [math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]
    below = sum(exact[:lowest], Fraction(0))
    for k, cumulative in enumerate(numbers):
        below += exact[lowest + k]
        assert abs(Fraction(cumulative, total) - below) < Fraction(1, 2**100)


def test_integers_are_uniform_and_bernoulli_draws_are_exact() -> None:
    noise = NoiseSource.secure()
    sample = noise.integers(60_000, below=6)
    assert p_value(np.bincount(sample, minlength=6), np.full(6, 10_000.0)) > 1e-6
    assert noise.bernoulli(5, probability=1.0).all()
    assert not noise.bernoulli(5, probability=0.0).any()
    heads = noise.bernoulli(200_000, probability=0.25).sum()
    assert abs(heads - 50_000) < 6 * math.sqrt(200_000 * 0.1875)
    with pytest.raises(InputError, match=r"probability must be a multiple of 2\^-64"):
        noise.bernoulli(5, probability=1e-10)
    with pytest.raises(InputError, match=r"probability must be in \[0, 1\]"):
        noise.binomial(5, probability=1.5)


N = 200_000


def test_distribution_is_gaussian_in_body_and_tail() -> None:
    sample = NoiseSource.secure().gaussian((N,), std=2.0) / 2.0
    assert stats.kstest(sample, "norm").pvalue > 1e-6
    for threshold in (2.0, 3.0, 4.0):
        expected = 2 * stats.norm.sf(threshold) * N
        assert abs(np.sum(np.abs(sample) > threshold) - expected) < 6 * math.sqrt(expected) + 1
    # the test has power: a distribution with lighter tails fails it
    light = np.clip(sample, -2.5, 2.5)
    assert np.sum(np.abs(light) > 3.0) < 2 * stats.norm.sf(3.0) * N - 6 * math.sqrt(2 * stats.norm.sf(3.0) * N)


def test_the_tail_has_no_holes() -> None:
    """u is built from two words: also the smallest u keep 53 bits, and the support ends at 13.4, not at 9.5 or 5.8."""
    from caribou.mechanisms.samplers import exponentials

    class Words:
        def __init__(self, first: int, second: int) -> None:
            self.data = np.array([first, second], dtype="<u8").tobytes()

        def update(self, wanted: bytes) -> bytes:
            return self.data[: len(wanted)]

    assert math.sqrt(2 * exponentials(Words(0, 0), 1)[0]) == pytest.approx(13.37, abs=0.01)
    assert exponentials(Words(2**64 - 1, 2**64 - 1), 1)[0] >= 0
    # between w = 3 and w = 4 the second word fills the gap: a single word could give nothing in between
    between = [float(exponentials(Words(3, k << 60), 1)[0]) for k in range(16)]
    assert len(set(between)) == 16
    gaps = -np.diff(between)
    assert (gaps > 0).all()
    assert gaps.max() < 0.022  # one word alone would leave a gap of log(4.5/3.5) = 0.25


def test_grid_cells_have_gaussian_probability() -> None:
    """A chi-square test on coarse cells of the rounded noise, and the same test rejects a 2 % distortion."""
    sample = NoiseSource.secure().gaussian((N,), std=1.0, grid=2.0**-28)
    edges = np.linspace(-3, 3, 61)
    expected = np.diff(stats.norm.cdf(edges)) * N
    statistic = ((np.histogram(sample, edges)[0] - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, 60) > 1e-6
    distorted = ((np.histogram(sample * 1.02, edges)[0] - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(distorted, 60) < 1e-6


def test_other_distributions() -> None:
    source = NoiseSource.secure()
    laplace = source.laplace((N,), scale=3.0)
    assert stats.kstest(laplace / 3.0, "laplace").pvalue > 1e-6
    assert stats.kstest(laplace / 3.0 * 1.05, "laplace").pvalue < 1e-6
    assert stats.kstest(laplace / 3.0 * 0.95, "laplace").pvalue < 1e-6
    assert stats.kstest(source.gumbel((N,)), "gumbel_r").pvalue > 1e-6
    for epsilon in (0.3, 1.0, 4.0):
        counts = source.discrete_laplace((N,), epsilon=epsilon)
        a = math.exp(-epsilon)
        k = np.arange(-3, 4)
        expected = (1 - a) / (1 + a) * a ** np.abs(k) * N
        observed = np.array([(counts == value).sum() for value in k])
        assert (np.abs(observed - expected) < 6 * np.sqrt(expected) + 1).all()
        # 5 % off in epsilon is rejected
        for wrong in (0.95 * epsilon, 1.05 * epsilon):
            b = math.exp(-wrong)
            other = (1 - b) / (1 + b) * N
            assert abs((counts == 0).sum() - other) > 4 * math.sqrt(other * (1 - other / N)) or epsilon > 2
    assert (source.discrete_laplace((5,), epsilon=math.inf) == 0).all()


def test_pairs_from_one_radius_are_independent() -> None:
    sample = NoiseSource.secure().gaussian((N,), std=1.0)
    first, second = sample[: N // 2], sample[N // 2 :]
    for a, b in ((first, second), (first**2, second**2), (np.abs(first), second)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 6 / math.sqrt(N / 2)
