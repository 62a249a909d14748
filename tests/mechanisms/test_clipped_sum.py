"""The pairing of clip, rounding and noise: what one contribution does to a computed sum stays within the clip."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attack_support import require_std
from caribou.errors import InputError
from caribou.mechanisms.clipped_sum import ClippedSum, rounding_margin, row_count_bound, running_multiplier
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.arithmetic import grid_spacing
from descent_support import full_batch


def test_noise_and_bound_belong_to_one_clip() -> None:
    clipped = ClippedSum.of(full_batch(1, 4.0), clip=0.3, rows=1000, entries=50, sensitivity_multiple=2.5)
    assert clipped.noise_std == pytest.approx(0.3 * 4.0 * 2.5, rel=1e-15)
    margin = rounding_margin(rows=1000, entries=50, noise_multiplier=10.0)
    assert clipped.bound == 0.3 * (1 - margin)
    assert 0.3 * (1 - 1e-5) < clipped.bound < 0.3, "shortened, and by almost nothing"


def test_the_release_has_the_claimed_std() -> None:
    clipped = ClippedSum.of(full_batch(1, 4.0), clip=0.5, rows=10, entries=20_000)
    require_std(clipped.release(np.full(20_000, 7.0), NoiseSource.secure()) - 7.0, 2.0)
    noise = NoiseSource.seeded(0)
    assert np.array_equal(ClippedSum(1.0, 0.0).release(np.ones(3), noise), np.ones(3))
    assert noise.draws == 0


def test_the_margin_is_what_its_docstring_says() -> None:
    n, entries, z = 5000, 64, 3.0
    grid = 2 * math.sqrt(entries) * grid_spacing(noise_std=z)
    assert rounding_margin(rows=n, entries=entries, noise_multiplier=z) == 2.0**-20 + 32 * n**2 * 2.0**-52 + grid
    assert rounding_margin(rows=n, entries=entries, noise_multiplier=0.0) == 2.0**-20 + 32 * n**2 * 2.0**-52
    assert 0.4 < rounding_margin(rows=7_900_000, entries=1, noise_multiplier=0.0) < 0.5
    with pytest.raises(InputError, match="must be few enough for double precision"):
        rounding_margin(rows=9_000_000, entries=1, noise_multiplier=0.0)


def test_rounding_to_the_grid_cannot_lengthen_a_contribution() -> None:
    """The computed sums with and without one example, both rounded to the grid of the noise, differ by at most the clip."""
    rng = np.random.default_rng(0)
    n, d, clip, z = 40, 16, 1.0, 2.0e5
    part = full_batch(1, z)
    clipped = ClippedSum.of(part, clip=clip, rows=n, entries=d)
    grid = grid_spacing(noise_std=clipped.noise_std)
    assert grid > 1e-4, "coarse, so that the test has teeth"
    moved, without_margin = [], []
    for _ in range(300):
        x = rng.standard_normal((n, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        for bound, found in ((clipped.bound, moved), (clip, without_margin)):
            with_it, less = (np.rint((bound * part).sum(axis=0) / grid) * grid for part in (x, x[1:]))
            found.append(np.linalg.norm(with_it - less))
    assert max(moved) <= clip
    assert max(without_margin) > clip


def test_the_allowance_follows_the_public_bound_and_not_the_number_of_rows() -> None:
    """Otherwise one example more would change the noise of every released entry."""
    part = full_batch(1, 4.0)
    sizes = [ClippedSum.of(part, clip=1.0, rows=n, entries=9, max_rows=10_000) for n in (3, 4, 9999)]
    assert sizes[0] == sizes[1] == sizes[2]
    open_sizes = [ClippedSum.of(part, clip=1.0, rows=n, entries=9) for n in (3, 9999)]
    assert open_sizes[0] != open_sizes[1]
    assert row_count_bound(5, None) == 5
    with pytest.raises(InputError, match="rows must be at most max_rows = 4, got 5"):
        row_count_bound(5, 4)


def test_refusals() -> None:
    with pytest.raises(InputError, match="'training' must have a share of the budget to run"):
        running_multiplier(full_batch(1, math.inf))
    for multiple in (0.99, math.nan):
        with pytest.raises(InputError, match="sensitivity_multiple must be >= 1"):
            ClippedSum.of(full_batch(1, 1.0), clip=1.0, rows=1, entries=1, sensitivity_multiple=multiple)
