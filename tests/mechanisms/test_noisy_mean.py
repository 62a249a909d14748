"""The private mean: its noise, its shrinkage, what one row does to it, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from attack_support import require_std
from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.noisy_mean import private_mean
from caribou.privacy.allocation import AllocatedPart, Part
from descent_support import full_batch

PART = AllocatedPart(Part("mean"), 3.0)


def test_the_noise_has_the_claimed_std() -> None:
    """A signal in one column, so strong that shrinkage changes 1e-5 of the rest: the rest is noise of std z / n."""
    n, d = 50_000, 20_000
    x = sp.csr_array((np.ones(n), (np.arange(n), np.zeros(n, dtype=int))), shape=(n, d))
    mean = private_mean(x, PART, NoiseSource.secure(), train_size=n)
    assert mean[0] == pytest.approx(1, abs=1e-3)
    require_std(mean[1:], 3.0 / n)


def test_without_noise_it_is_the_mean_and_the_divisor_is_declared() -> None:
    x = np.random.default_rng(0).standard_normal((40, 5)) / 10
    for rows in (x, sp.csr_array(x)):
        mean = private_mean(rows, full_batch(1, 0.0), NoiseSource.seeded(0), train_size=40)
        assert np.allclose(mean, x.mean(axis=0), rtol=1e-5)
        halved = private_mean(rows, full_batch(1, 0.0), NoiseSource.seeded(0), train_size=80)
        assert np.allclose(halved, mean / 2, rtol=1e-12)
    assert np.array_equal(
        private_mean(np.zeros((4, 3)), full_batch(1, 0.0), NoiseSource.seeded(0), train_size=4), np.zeros(3)
    )


def test_shrinkage_removes_noise_alone_and_keeps_a_signal() -> None:
    """James and Stein's positive part, against the formula and for what it is good for."""
    d, n = 50_000, 10
    noise_alone = NoiseSource.seeded(0).add_gaussian(np.zeros(d), std=3.0) / n
    shrunk = private_mean(np.zeros((n, d)), PART, NoiseSource.seeded(0), train_size=n)
    assert np.linalg.norm(shrunk) < 0.2 * np.linalg.norm(noise_alone)
    x = np.full((n, 8), 1 / math.sqrt(8))
    raw = NoiseSource.seeded(4).add_gaussian((1 - 1e-6) * x.sum(axis=0), std=3.0) / n
    expected = raw * max(0.0, 1 - 8 * (3.0 / n) ** 2 / float(raw @ raw))
    assert np.allclose(private_mean(x, PART, NoiseSource.seeded(4), train_size=n), expected, rtol=1e-4)


def test_one_row_moves_the_sum_by_at_most_one() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((30, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    totals = [
        private_mean(rows, full_batch(1, 0.0), NoiseSource.seeded(0), train_size=1, max_rows=30) for rows in (x, x[1:])
    ]
    assert 1 - 1e-5 < np.linalg.norm(totals[0] - totals[1]) <= 1


def test_refusals() -> None:
    noise = NoiseSource.seeded(0)
    with pytest.raises(InputError, match=r"rows must have norm <= 1, got 2\.0"):
        private_mean(2 * np.eye(3), PART, noise, train_size=3)
    with pytest.raises(InputError, match="rows must have norm <= 1, got nan"):
        private_mean(np.full((2, 2), math.nan), PART, noise, train_size=3)
    with pytest.raises(InputError, match="must be one release"):
        private_mean(np.eye(3), full_batch(2, 1.0), noise, train_size=3)
    with pytest.raises(InputError, match="must have a share of the budget"):
        private_mean(np.eye(3), full_batch(1, math.inf), noise, train_size=3)
    with pytest.raises(InputError, match="rows must be at most max_rows = 2, got 3"):
        private_mean(np.eye(3), PART, noise, train_size=3, max_rows=2)
    assert noise.draws == 0
