"""Keys and streams: noise of the right scale, independent draws, and a key that stays secret."""

from __future__ import annotations

import copy
import math
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from caribou.engines import kernels
from caribou.errors import CaribouError, InputError
from caribou.mechanisms import samplers
from caribou.mechanisms.noise_source import BlockNoise, NoiseSource

KEY = bytes(range(32))
N = 200_000


def std_is_rejected(sample: np.ndarray, claimed: float, level: float = 1e-6) -> bool:
    """Two-sided chi-square test of the standard deviation."""
    statistic = float((sample**2).sum()) / claimed**2
    tail = stats.chi2.cdf(statistic, len(sample))
    return min(tail, 1 - tail) < level / 2


@pytest.mark.parametrize("source", [NoiseSource.secure, lambda: NoiseSource.keyed(KEY), lambda: NoiseSource.seeded(3)])
@pytest.mark.parametrize("std", [0.01, 1.0, 37.0])
def test_standard_deviation_is_right_and_5_percent_off_is_rejected(source, std: float) -> None:
    sample = source().gaussian((N,), std=std)
    assert not std_is_rejected(sample, std)
    assert std_is_rejected(sample, std * 1.05)
    assert std_is_rejected(sample, std * 0.95)
    assert abs(sample.mean()) < 6 * std / math.sqrt(N)


def test_draws_and_streams_are_independent() -> None:
    root = NoiseSource.keyed(KEY)
    samples = [root.gaussian((N,), std=1.0), root.gaussian((N,), std=1.0)]
    root.stream("twice")
    with pytest.raises(CaribouError, match="purpose must be new"):
        root.stream("twice")
    samples += [root.stream(name).gaussian((N,), std=1.0) for name in ("encoder", "propagation", "classifier")]
    samples += [NoiseSource.seeded(seed).gaussian((N,), std=1.0) for seed in (0, 1)]
    correlation = np.corrcoef(samples)
    off_diagonal = correlation[~np.eye(len(samples), dtype=bool)]
    assert np.abs(off_diagonal).max() < 6 / math.sqrt(N)
    for lag in (1, 2, 3):
        assert abs(np.corrcoef(samples[0][:-lag], samples[0][lag:])[0, 1]) < 6 / math.sqrt(N)


def test_keyed_noise_is_reproducible_and_secure_noise_is_not() -> None:
    a = NoiseSource.keyed(KEY).gaussian((50, 3), std=1.0)
    assert np.array_equal(a, NoiseSource.keyed(KEY).gaussian((50, 3), std=1.0))
    assert np.array_equal(
        NoiseSource.seeded(5).stream("x").gaussian((9,), std=1.0),
        NoiseSource.seeded(5).stream("x").gaussian((9,), std=1.0),
    )
    assert not np.array_equal(
        NoiseSource.secure().gaussian((50,), std=1.0), NoiseSource.secure().gaussian((50,), std=1.0)
    )


def test_large_draws_do_not_repeat_between_blocks() -> None:
    sample = NoiseSource.keyed(KEY).gaussian((3 * (1 << 20) + 7,), std=1.0)
    assert len(np.unique(sample[:: 1 << 10])) == len(sample[:: 1 << 10])
    assert not np.array_equal(sample[: 1 << 20], sample[1 << 20 : 2 << 20])
    assert len(sample) == 3 * (1 << 20) + 7


@pytest.mark.parametrize("shape", [(1,), (3,), (0, 4), (2, 3, 4)])
def test_shapes(shape: tuple[int, ...]) -> None:
    assert NoiseSource.secure().gaussian(shape, std=1.0).shape == shape


def test_grid() -> None:
    grid = 2.0**-20
    sample = NoiseSource.secure().gaussian((1000,), std=1.0, grid=grid)
    assert np.array_equal(sample, np.rint(sample / grid) * grid)
    same = NoiseSource.keyed(KEY).gaussian((1000,), std=1.0)
    rounded = NoiseSource.keyed(KEY).gaussian((1000,), std=1.0, grid=grid)
    assert np.abs(same - rounded).max() <= grid / 2 + 2.0**-29


def test_draws_are_counted() -> None:
    source = NoiseSource.secure()
    for _ in range(5):
        source.gaussian((2, 2), std=1.0)
    assert source.draws == 5


def test_the_key_is_not_shown_copied_or_pickled() -> None:
    source = NoiseSource.keyed(KEY)
    assert KEY.hex() not in repr(source) + str(source)
    assert "0, 1, 2" not in repr(source)
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(CaribouError, match="must not be copied or stored"):
            leak(source)
    public = {name: value for name, value in vars(source).items() if not name.startswith("_NoiseSource__")}
    assert KEY not in public.values()


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match="key must be 32 bytes"):
        NoiseSource.keyed(b"short")
    with pytest.raises(InputError, match="noise_seed must be a whole number >= 0"):
        NoiseSource.seeded(-1)
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="noise_std must be"):
            NoiseSource.secure().gaussian((1,), std=bad)


def test_only_the_operating_system_counts_as_secret() -> None:
    assert NoiseSource.secure().is_secret
    assert NoiseSource.secure().stream("x").is_secret
    assert not NoiseSource.keyed(KEY).is_secret
    assert not NoiseSource.seeded(1).stream("x").is_secret


def test_threads_do_not_share_a_draw() -> None:
    from concurrent.futures import ThreadPoolExecutor

    source = NoiseSource.keyed(KEY)
    with ThreadPoolExecutor(8) as pool:
        first = list(pool.map(lambda _: float(source.gaussian((3,), std=1.0)[0]), range(400)))
    assert len(set(first)) == 400
    assert source.draws == 400


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_repeat_the_noise_of_its_parent() -> None:
    source = NoiseSource.secure()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, source.gaussian((8,), std=1.0).tobytes())
        os._exit(0)
    os.close(write)
    theirs = np.frombuffer(os.read(read, 64))
    os.waitpid(child, 0)
    os.close(read)
    assert not np.array_equal(theirs, source.gaussian((8,), std=1.0))


def block_gaussians(noise: BlockNoise, number: int, first: int, counts: list[int]) -> list[np.ndarray]:
    return [z.copy() for z in noise.gaussians(number, first, counts, size=1000, std=1.0, grid=2.0**-40)]


def test_block_noise_depends_on_key_round_and_block_alone() -> None:
    noise = BlockNoise.seeded(1)
    (first,) = block_gaussians(noise, 1, 2, [1000])
    again = block_gaussians(BlockNoise.from_worker(noise.for_worker()), 1, 0, [1000, 1000, 1000, 7])
    assert np.array_equal(first, again[2])
    others = [
        *again[:2],
        block_gaussians(noise, 2, 2, [1000])[0],
        block_gaussians(noise, 1, 3, [1000])[0],
        block_gaussians(BlockNoise.seeded(2), 1, 2, [1000])[0],
    ]
    for other in others:
        assert abs(np.corrcoef(first, other)[0, 1]) < 5 / np.sqrt(1000)


def test_streams_of_rounds_and_blocks_do_not_overlap() -> None:
    """The words themselves: 1000 values take 12,000 bytes, and the next block goes on exactly there."""
    noise = BlockNoise.seeded(1)
    whole = noise._stream(1, 0).update(bytes(3 * 12_000))
    assert noise._stream(1, 750).update(bytes(24_000)) == whole[12_000:]
    assert noise._stream(2, 0).update(bytes(64)) not in whole


@pytest.mark.parametrize(("counts", "size"), [([8], 6), ([9], 8), ([4, 8], 8), ([0], 8)])
def test_block_sizes_are_checked(counts: list[int], size: int) -> None:
    with pytest.raises(InputError, match="size must be"):
        next(BlockNoise.seeded(1).gaussians(1, 0, counts, size=size, std=1.0, grid=2.0**-28))


def test_block_noise_is_the_sampler_of_the_library() -> None:
    """The same words give the same Gaussians: only their address is new."""
    noise = BlockNoise.seeded(1)
    (ours,) = (z.copy() for z in noise.gaussians(3, 7, [901], size=1000, std=1.0, grid=2.0**-28))
    assert np.array_equal(ours, samplers.gaussians(noise._stream(3, 7 * 750), 901, std=1.0, grid=2.0**-28))


def test_further_bits_of_a_block_depend_on_the_address_of_their_pair_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs in doubt: decided with further bits, however many blocks are drawn at once, and next to what doubles say."""
    decided = block_gaussians(BlockNoise.seeded(1), 1, 2, [1000])[0]
    asked = []
    stream = BlockNoise._stream
    monkeypatch.setattr(BlockNoise, "_stream", lambda self, *address: asked.append(address) or stream(self, *address))

    def all_in_doubt(drawn: np.ndarray, out: np.ndarray, **_: float) -> np.ndarray:
        out[:] = np.nan
        return np.arange(len(drawn) // 3)

    monkeypatch.setattr(kernels, "gaussian", all_in_doubt)
    noise = BlockNoise.seeded(1)
    (alone,) = block_gaussians(noise, 1, 2, [1000])
    addresses = asked[1:]
    assert len(set(addresses)) == 500
    assert min(position for _, position in addresses) > 2**95
    together = block_gaussians(noise, 1, 1, [1000, 1000])
    assert asked[-500:] == addresses
    assert np.array_equal(alone, together[1])
    assert np.array_equal(alone, decided)


def test_block_noise_key_is_private_and_never_replaced(tmp_path: Path) -> None:
    noise, path = BlockNoise.secure(), tmp_path / "key"
    noise.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    loaded = BlockNoise.load(path)
    assert loaded.for_worker() == noise.for_worker()
    assert loaded.is_secret
    with pytest.raises(FileExistsError):
        BlockNoise.secure().save(path)
    assert BlockNoise.load(path).for_worker() == noise.for_worker()
    assert noise.for_worker()[1:33].hex() not in repr(noise)
    for refuse in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(CaribouError):
            refuse(noise)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_no_sign_of_zero_survives(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value just below zero is rounded to -0.0; with noise of -0.0 its sign would be released."""
    monkeypatch.setattr(NoiseSource, kind, lambda self, shape, **_: np.full(shape, -0.0))
    add = {"gaussian": lambda s, v: s.add_gaussian(v, std=1.0), "laplace": lambda s, v: s.add_laplace(v, scale=1.0)}[
        kind
    ]
    assert not np.signbit(add(NoiseSource.seeded(1), np.array([-1e-12, 0.0, 1e-12]))).any()
