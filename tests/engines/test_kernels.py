"""The compiled loops and NumPy say the same; their Gaussians are those of the library's sampler."""

from __future__ import annotations

import numpy as np
import pytest

from caribou.engines import kernels
from caribou.engines.kernels import Finish, Rows, Shards


@pytest.fixture
def compiled() -> None:
    if kernels.name().startswith("numpy"):
        pytest.skip("the compiled loops were not built (no C compiler at installation)")


def uniform_words(count: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    words = rng.integers(0, 2**64, count, dtype=np.uint64)
    # corners: the smallest and largest uniforms, and angles on and beside the axes and diagonals
    words[:6] = [0, 1, 2**64 - 1, 2**63, 2**32, 2**64 - 2**11]
    words[-64:] = np.arange(64, dtype=np.uint64) << np.uint64(58)
    words[-32:] -= np.uint64(1)
    return words


def gaussians(words: np.ndarray, *, std: float, grid: float) -> np.ndarray:
    out = np.empty(len(words) // 3 * 2)
    kernels.gaussian(words, out, std=std, grid=grid)
    return out


@pytest.mark.usefixtures("compiled")
def test_compiled_gaussians_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    words = uniform_words(3 * 40_000)
    ours = gaussians(words, std=1.0, grid=2.0**-60)
    monkeypatch.setattr(kernels, "_library", lambda: None)
    theirs = gaussians(words, std=1.0, grid=2.0**-60)
    # numpy rounds the angle before it takes the cosine, 2 pi 2^-53 at most; ours is exact there
    assert np.abs(ours - theirs).max() < 2e-14
    assert np.abs(theirs).max() > 9.0


@pytest.mark.usefixtures("compiled")
def test_compiled_gaussians_lie_on_the_grid() -> None:
    z = gaussians(uniform_words(3000), std=0.3, grid=2.0**-30)
    assert np.array_equal(np.rint(z * 2.0**30), z * 2.0**30)


def test_gaussians_have_the_right_moments() -> None:
    words = np.random.default_rng(2).integers(0, 2**64, 3 * 500_000, dtype=np.uint64)
    z = gaussians(words, std=2.0, grid=2.0**-28) / 2
    n = len(z)
    assert abs(z.mean()) < 5 / np.sqrt(n)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / n)
    assert abs((z**4).mean() - 3) < 5 * np.sqrt(96 / n)
    assert abs(np.corrcoef(z[: n // 2], z[n // 2 :])[0, 1]) < 5 / np.sqrt(n / 2)  # cosines and sines of one angle


def some_rows(d: int) -> tuple[Rows, np.ndarray, Finish]:
    rng = np.random.default_rng(d)
    degrees = np.array([0, 1, 2, 3, 200, 0, 65])
    starts = np.concatenate([[0], np.cumsum(degrees)])
    columns = np.concatenate([np.sort(rng.choice(500, k, replace=False)) for k in degrees]).astype(np.int32)
    y = rng.standard_normal((500, d)).astype(np.float32)
    finish = Finish(
        degrees=degrees,
        own=y[100:107],
        floor=2,
        weight=0.7,
        mean=rng.standard_normal(d),
        beta=0.2,
        x0=rng.standard_normal((7, d)).astype(np.float32),
        inner=True,
        last=False,
        noise=rng.integers(-(2**20), 2**20, (7, d)) * 2.0**-22,
        grid=2.0**-22,
    )
    return Rows(starts, columns), y, finish


def whole_round(rows: Rows, y: Shards, finish: Finish, out: np.ndarray) -> np.ndarray:
    return kernels.round_tiles(rows, y, finish, iter([finish.noise]), rows.count, out)[0]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("d", [1, 3, 16, 20, 32, 33, 48, 64, 100])
def test_a_round_is_the_same_fused_in_halves_sharded_and_in_numpy(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y, finish = some_rows(d)
    whole, halves, sharded, plain = (np.empty((7, d), np.float32) for _ in range(4))
    sums = whole_round(rows, Shards([y]), finish, whole)
    total = np.zeros((7, d))
    kernels.add_rows(rows, Shards([y]), total)
    assert np.array_equal(sums, kernels.finish_rows(finish, total, halves))
    whole_round(rows, Shards([y[:256].copy(), y[256:].copy()], 8), finish, sharded)
    assert np.array_equal(whole, halves)
    assert np.array_equal(whole, sharded)
    monkeypatch.setattr(kernels, "_library", lambda: None)
    other = whole_round(rows, Shards([y[:256], y[256:]], 8), finish, plain)
    assert np.abs(whole - plain).max() < 1e-6
    assert np.abs(sums - other).max() < 1e-9


@pytest.mark.usefixtures("compiled")
def test_votes_are_counted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows, _, _ = some_rows(1)
    place = rng.integers(-1, 6, 500).astype(np.int32)
    receives = rng.random(500) < 0.7
    message = rng.integers(0, 4, 500).astype(np.int32)
    ours = kernels.count_votes(rows, 100, place, receives, message, 4)
    monkeypatch.setattr(kernels, "_library", lambda: None)
    assert np.array_equal(ours, kernels.count_votes(rows, 100, place, receives, message, 4))
    assert ours.sum() > 0
