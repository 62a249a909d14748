"""Every distribution is the one it is named after, in body and tail, and 5 % off is rejected."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from attack_support import p_value
from caribou.engines import kernels
from caribou.errors import InputError
from caribou.mechanisms import samplers
from caribou.mechanisms.noise_source import NoiseSource


class Words:
    """A stream of given words; an error when they are used up."""

    def __init__(self, *words: int) -> None:
        self.data = b"".join(word.to_bytes(8, "little") for word in words)

    def update(self, wanted: bytes) -> bytes:
        assert len(wanted) <= len(self.data), "more bits were drawn than are needed"
        taken, self.data = self.data[: len(wanted)], self.data[len(wanted) :]
        return taken


def test_binomial_numbers_have_their_distribution() -> None:
    noise = NoiseSource.secure()
    for trials, p in ((7, 0.25), (60, 0.5), (60, 2.0**-5), (1_000_000, 2.0**-17)):
        sample = np.array([noise.binomial(trials, probability=p) for _ in range(2000)])
        cells = np.arange(min(trials, 60) + 1)
        expected = 2000 * stats.binom.pmf(cells, trials, p)
        assert p_value(np.bincount(sample, minlength=len(cells))[: len(cells)], expected) > 1e-6
        off = 2000 * stats.binom.pmf(cells, trials, min(1, 1.2 * p))
        assert p_value(np.bincount(sample, minlength=len(cells))[: len(cells)], off) < 1e-6
    large = np.array([noise.binomial(10**10, probability=2.0**-20) for _ in range(300)])
    deviations = (large - 10**10 * 2.0**-20) / math.sqrt(10**10 * 2.0**-20)
    assert stats.kstest(deviations, "norm").pvalue > 1e-6
    assert noise.binomial(9, probability=0.0) == 0
    assert noise.binomial(9, probability=1.0) == 9
    assert noise.binomial(0, probability=0.5) == 0


def test_a_binomial_number_changes_exactly_where_its_distribution_does() -> None:
    """u just below and just above F(k), for every k of a small number of trials; the word of F(k) itself needs the next word."""
    trials, p = 20, Fraction(5, 32)
    below = Fraction(0)
    for k in range(9):
        below += math.comb(trials, k) * p**k * (1 - p) ** (trials - k)
        word, rest = divmod(below.numerator << 64, below.denominator)
        second = (rest << 64) // below.denominator
        for words, number in (
            ([word - 1], k),
            ([word, second - 2], k),
            ([word, second + 1], k + 1),
            ([word + 1], k + 1),
        ):
            stream = Words(*words)
            assert samplers.binomial(stream, trials, probability=float(p)) == number
            assert not stream.data


def test_integers_are_uniform_and_bernoulli_draws_are_exact() -> None:
    noise = NoiseSource.secure()
    sample = noise.integers(60_000, below=6)
    assert p_value(np.bincount(sample, minlength=6), np.full(6, 10_000.0)) > 1e-6
    assert noise.bernoulli(5, probability=1.0).all()
    assert not noise.bernoulli(5, probability=0.0).any()
    heads = noise.bernoulli(200_000, probability=0.25).sum()
    assert abs(heads - 50_000) < 6 * math.sqrt(200_000 * 0.1875)
    with pytest.raises(InputError, match=r"probability must be a multiple of 2\^-64"):
        noise.binomial(5, probability=1e-10)
    # any double is exact: the word of p 2^64 leaves a doubt, and the next word decides at the same place of the rest
    p = Fraction(1e-10)
    word, rest = divmod(p.numerator << 64, p.denominator)
    second = (rest << 64) // p.denominator
    drawn = samplers.bernoullis(Words(word - 1, word, word, word + 1, second - 1, second + 1), 4, probability=1e-10)
    assert drawn.tolist() == [True, True, False, False]
    with pytest.raises(InputError, match=r"probability must be in \[0, 1\]"):
        noise.binomial(5, probability=1.5)


N = 200_000


def test_gaussian_noise_in_body_and_tail() -> None:
    """Cells of the body and the tails beyond 2, 3 and 4; a distortion of 2 % and lighter tails are rejected."""
    sample = NoiseSource.secure().gaussian((N,), std=2.0) / 2.0
    edges = np.linspace(-3, 3, 61)
    expected = np.diff(stats.norm.cdf(edges)) * N

    def body(values: np.ndarray) -> float:
        return float(stats.chi2.sf(((np.histogram(values, edges)[0] - expected) ** 2 / expected).sum(), 60))

    def tails(values: np.ndarray) -> bool:
        wanted = [2 * stats.norm.sf(threshold) * N for threshold in (2.0, 3.0, 4.0)]
        found = [np.sum(np.abs(values) > threshold) for threshold in (2.0, 3.0, 4.0)]
        return all(abs(one - other) < 6 * math.sqrt(other) + 1 for one, other in zip(found, wanted, strict=True))

    assert body(sample) > 1e-6
    assert body(sample * 1.02) < 1e-6
    assert tails(sample)
    assert not tails(np.clip(sample, -2.5, 2.5))


def thresholds(epsilon: float, k: int) -> tuple[int, int]:
    """The first and the second word of e^(-epsilon k)."""
    with mpmath.workprec(400):
        x = mpmath.exp(-mpmath.mpf(epsilon) * k) * mpmath.mpf(2) ** 64
        return int(mpmath.floor(x)), int(mpmath.floor(mpmath.frac(x) * mpmath.mpf(2) ** 64))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 16.0, 40.0])
def test_geometric_cells_end_exactly_at_their_thresholds(epsilon: float) -> None:
    """G falls with u, so its law is that of the words where it changes: all of them, to 128 bits."""
    for k in range(1, max(1, int(36 / epsilon)) + 1, 7 if epsilon < 1 else 1):
        word, second = thresholds(epsilon, k)
        stream = Words(word - 2, word - 1, word, word, word + 1, word + 2, second - 1, second + 1)
        assert samplers.geometrics(stream, 6, rate=epsilon).tolist() == [k, k, k, k - 1, k - 1, k - 1]
        assert not stream.data, "exactly the word of the threshold needs another one"


def test_the_tail_has_no_end() -> None:
    """With u of 128 bits noise ended at 89 / epsilon, and above epsilon = 89.4 there was none."""
    zeros = [0, 0, 1 << 63]  # after the first word: u = 2^-193, -log u = 133.8
    assert samplers.geometrics(Words(0, *zeros), 1, rate=1.0)[0] == 133
    assert samplers.geometrics(Words(0, *zeros), 1, rate=100.0)[0] == 1
    far = samplers.laplaces(Words(0, 1 << 63, *zeros), 1, scale=1.0, grid=2.0**-28)
    assert far[0] == pytest.approx(192 * math.log(2), abs=1e-6)
    drawn = Words(0, 0, 1 << 61, 0, 1 << 63)  # the same u, and an eighth of a turn
    pair = samplers.gaussians(drawn, 2, std=1.0, grid=2.0**-28)
    assert pair == pytest.approx([math.sqrt(193 * math.log(2))] * 2, abs=1e-6)


def test_functions_in_double_precision_keep_the_premise_of_theorem_11() -> None:
    """log, cos and sin of NumPy, as they are called: within 4 units in the last place, also next to 1 and to the axes."""
    rng = np.random.default_rng(6)
    u = np.concatenate(
        [rng.random(500), 1 - rng.random(300) * 2.0 ** -np.arange(300), 2.0 ** -rng.uniform(0, 128, 300)]
    )
    u = u[(u > 0) & (u < 1)]
    angle = np.concatenate(
        [rng.random(800) * 2 * np.pi, np.arange(1, 9) * np.pi / 4, np.arange(1, 9) * np.pi / 4 + 1e-9]
    )
    with mpmath.workprec(200):
        for function, exact, points in (
            (np.log, mpmath.log, u),
            (np.cos, mpmath.cos, angle),
            (np.sin, mpmath.sin, angle),
        ):
            for x, y in zip(points.tolist(), function(points).tolist(), strict=True):
                assert abs(exact(mpmath.mpf(x)) - y) <= 4 * np.spacing(abs(y))


def test_compiled_and_numpy_gaussians_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both round the same real numbers, whatever the last bits of their logarithms are."""
    found = []
    for library in (kernels._library(), None):
        monkeypatch.setattr(kernels, "_library", lambda chosen=library: chosen)
        found.append(NoiseSource.seeded(3).gaussian((20_000,), std=0.3))
    assert np.array_equal(*found)


def test_laplace_noise() -> None:
    sample = NoiseSource.seeded(8).laplace((N // 2,), scale=3.0) / 3.0
    assert stats.kstest(sample, "laplace").pvalue > 1e-6
    for wrong in (0.95, 1.05):
        assert stats.kstest(sample * wrong, "laplace").pvalue < 1e-6


@pytest.mark.parametrize("grid", [2.0**-41, 2.0**-43])
def test_laplace_noise_is_rounded_exactly(grid: float) -> None:
    """Against 200 digits, for values that lie nearly in the middle between two multiples: doubles get some of them wrong."""
    candidates = np.random.default_rng(4).integers(2**58, 2**64, (2, 300_000), dtype=np.uint64)
    x = np.log(candidates[1] / candidates[0]) * 1.5 / grid
    drawn = candidates[:, np.abs(x - np.rint(x)) > 0.498][:, :300]
    found = samplers.laplaces(Words(*map(int, drawn.ravel())), 300, scale=1.5, grid=grid)
    with mpmath.workprec(700):
        for place, (u, v) in enumerate(drawn.T.tolist()):
            ends = [1.5 * mpmath.log(mpmath.mpf(v + b) / mpmath.mpf(u + 1 - b)) / grid for b in (0, 1)]
            assert [int(mpmath.floor(x + 0.5)) * grid for x in ends] == [found[place]] * 2


def discrete_laplace_law(epsilon: float, k: np.ndarray) -> np.ndarray:
    a = math.exp(-epsilon)
    return np.asarray((1 - a) / (1 + a) * a ** np.abs(k))


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 4.0])
def test_discrete_laplace_noise(epsilon: float) -> None:
    sample = NoiseSource.seeded(9).discrete_laplace((N,), epsilon=epsilon)
    k = np.arange(-300, 301)
    observed = np.bincount(sample + 300, minlength=601)
    assert p_value(observed, N * discrete_laplace_law(epsilon, k)) > 1e-6
    for wrong in (0.95 * epsilon, 1.05 * epsilon):
        assert p_value(observed, N * discrete_laplace_law(wrong, k)) < 1e-6


def test_discrete_laplace_noise_at_the_ends_of_the_budget() -> None:
    """epsilon = 40: one value in 10^17 is not 0. epsilon = 2^-20: a million wide, and the last bit is fair."""
    noise = NoiseSource.seeded(10)
    assert (noise.discrete_laplace((N,), epsilon=40.0) == 0).all()
    sample = noise.discrete_laplace((N,), epsilon=2.0**-20)
    assert stats.kstest(sample * 2.0**-20, "laplace").pvalue > 1e-6
    assert abs((sample & 1).sum() - N / 2) < 6 * math.sqrt(N / 4)
    assert (noise.discrete_laplace((5,), epsilon=math.inf) == 0).all()
    with pytest.raises(InputError, match=r"epsilon must be at least 2\^-40 for discrete Laplace noise, got 1e-15"):
        noise.discrete_laplace((5,), epsilon=1e-15)


def test_noise_too_fine_for_its_grid_is_refused() -> None:
    for grid in (2.0**-50, 0.3):
        with pytest.raises(InputError, match=r"grid must be a power of two and at least 2\^-44 of the scale 1\.0"):
            NoiseSource.seeded(1).gaussian((3,), std=1.0, grid=grid)
        with pytest.raises(InputError, match="grid must be a power of two"):
            NoiseSource.seeded(1).laplace((3,), scale=1.0, grid=grid)


def test_discrete_laplace_and_gaussian_noise_against_opendp() -> None:
    """OpenDP samples by exact rejection (Canonne, Kamath and Steinke 2020), from other bits: two independent exact samplers."""
    dp = pytest.importorskip("opendp.prelude", reason="opendp, the oracle of this test, is not installed")
    dp.enable_features("contrib")
    count, noise = 10_000, NoiseSource.seeded(11)
    for epsilon in (0.5, 2.0):
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
        theirs = np.array(dp.m.make_laplace(*space, scale=1 / epsilon)([0] * count))
        ours = noise.discrete_laplace((count,), epsilon=epsilon)
        assert two_sample_p_value(ours, theirs) > 1e-6
        assert two_sample_p_value(noise.discrete_laplace((count,), epsilon=1.3 * epsilon), theirs) < 1e-6
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, scale=2.0**12)([0] * count))
    ours = noise.gaussian((count,), std=2.0**12, grid=1.0)
    assert stats.ks_2samp(ours, theirs).pvalue > 1e-6
    assert stats.ks_2samp(1.3 * ours, theirs).pvalue < 1e-6


def two_sample_p_value(first: np.ndarray, second: np.ndarray) -> float:
    cells = np.arange(-6, 7)
    table = np.array([[(np.clip(x, -6, 6) == k).sum() for k in cells] for x in (first, second)])
    return float(stats.chi2_contingency(table[:, table.min(axis=0) > 5]).pvalue)


def test_choices_of_the_exponential_mechanism() -> None:
    scores, epsilon, count = [7, 10, 9, 10, 2], 0.5, 2500
    law = np.exp(epsilon * np.array(scores))
    noise = NoiseSource.seeded(12)
    observed = np.bincount([noise.choice(scores, epsilon=epsilon) for _ in range(count)], minlength=5)
    assert p_value(observed, count * law / law.sum()) > 1e-6
    wrong = np.exp(1.3 * epsilon * np.array(scores))
    assert p_value(observed, count * wrong / wrong.sum()) < 1e-6
    # a place is kept exactly if u < e^(-epsilon behind): the words around that threshold, and the next word on it
    word, second = thresholds(epsilon, 1)
    for words, kept in (([word - 1], 1), ([word + 1, 0], 0), ([word, second - 1], 1), ([word, second + 1, 0], 0)):
        assert samplers.exponential_choice(Bytes(1, *words), [5, 4], epsilon=epsilon) == kept
    assert noise.choice([3], epsilon=40.0) == 0
    with pytest.raises(InputError, match="epsilon must be"):
        noise.choice([3, 4], epsilon=math.inf)
    with pytest.raises(InputError, match=r"score must be a whole number >= 0, got 0\.5"):
        noise.choice([0.5], epsilon=1.0)  # type: ignore[list-item]


class Bytes(Words):
    """The first number, and every one that is asked for as a byte, is a byte; the others are words."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def update(self, wanted: bytes) -> bytes:
        return self.numbers.pop(0).to_bytes(len(wanted), "little")


@pytest.mark.parametrize(("shape", "stop"), [(0.0, 0.05), (1.0, 0.2)])
def test_the_number_of_trials(shape: float, stop: float) -> None:
    noise, count = NoiseSource.seeded(13), 1500
    k = np.arange(1, 400)

    def law(g: float) -> np.ndarray:
        return np.asarray((1 - g) ** k / (k * math.log(1 / g)) if shape == 0 else g * (1 - g) ** (k - 1))

    observed = np.bincount([noise.trial_number(shape=shape, stop=stop) for _ in range(count)], minlength=400)[1:]
    assert p_value(observed, count * law(stop)) > 1e-6
    assert p_value(observed, count * law(1.5 * stop)) < 1e-6
    with pytest.raises(InputError, match="shape must be 0 or 1"):
        noise.trial_number(shape=0.5, stop=stop)


def test_pairs_from_one_radius_are_independent() -> None:
    sample = NoiseSource.secure().gaussian((N,), std=1.0)
    first, second = sample[: N // 2], sample[N // 2 :]
    for a, b in ((first, second), (first**2, second**2), (np.abs(first), second)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 6 / math.sqrt(N / 2)
