"""Keys and streams: noise of the right scale, independent draws, and a key that stays secret."""

from __future__ import annotations

import copy
import ctypes
import math
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attack_support import require_std
from caribou.engines import kernels
from caribou.errors import CaribouError, InputError
from caribou.mechanisms import noise_source, samplers
from caribou.mechanisms.noise_source import BlockNoise, NoiseSource, RunKey

KEY = bytes(range(32))
N = 200_000


@pytest.mark.parametrize(
    ("source", "std"),
    [(NoiseSource.secure, 0.01), (lambda: NoiseSource.keyed(KEY), 1.0), (lambda: NoiseSource.seeded(3), 37.0)],
)
def test_standard_deviation_is_right_and_5_percent_off_is_rejected(source, std: float) -> None:
    sample = source().gaussian((N,), std=std)
    require_std(sample, std)
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


def test_grid_and_shape() -> None:
    for shape in ((1,), (3,), (0, 4), (2, 3, 4)):
        assert NoiseSource.secure().gaussian(shape, std=1.0).shape == shape
    grid = 2.0**-20
    sample = NoiseSource.secure().gaussian((1000,), std=1.0, grid=grid)
    assert np.array_equal(sample, np.rint(sample / grid) * grid)
    same = NoiseSource.keyed(KEY).gaussian((1000,), std=1.0)
    rounded = NoiseSource.keyed(KEY).gaussian((1000,), std=1.0, grid=grid)
    assert np.abs(same - rounded).max() <= grid / 2 + 2.0**-29


def test_the_key_is_not_shown_copied_or_pickled() -> None:
    source = NoiseSource.keyed(KEY)
    assert KEY.hex() not in repr(source) + str(source)
    assert "0, 1, 2" not in repr(source)
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(CaribouError, match="must not be copied or stored"):
            leak(source)
    public = {name: value for name, value in vars(source).items() if not name.startswith("_")}
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


# -- forks --------------------------------------------------------------------------------------------------------------

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def draw(source: NoiseSource) -> bytes:
    return source.gaussian((4,), std=1.0).tobytes()


def told_by_a_child(tell: Callable[[], bytes], fork: Callable[[], int] = os.fork) -> bytes:
    """What ``tell`` gives in a forked child."""
    read, write = os.pipe()
    child = fork()
    if child == 0:
        try:
            os.write(write, tell())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return told


def raw_fork() -> int:
    """The fork of the C library, of which Python's hooks learn nothing."""
    return int(ctypes.CDLL(None).fork())


@needs_fork
@pytest.mark.parametrize("fork", [os.fork, raw_fork])
def test_a_forked_child_does_not_repeat_the_noise_of_its_parent(fork: Callable[[], int]) -> None:
    source = NoiseSource.secure()
    part = source.stream("part")
    for tell in (
        lambda: draw(source),
        lambda: draw(part),
        lambda: told_by_a_child(lambda: draw(source)),
    ):
        drawn = {told_by_a_child(tell, fork), told_by_a_child(tell, fork), tell()}
        assert {len(each) for each in drawn} == {32}
        assert len(drawn) == 3, "the same noise"
    opened = {told_by_a_child(lambda: draw(source.stream("late")), fork) for _ in range(2)}
    assert len({*opened, draw(source.stream("late"))}) == 3


@needs_fork
def test_a_child_of_many_threads_draws_at_once() -> None:
    """A thread that is drawing while another one forks is left behind, with the lock it held."""
    with noise_source._LOCK:
        assert len(told_by_a_child(lambda: draw(NoiseSource.secure()))) == 32


@needs_fork
def test_reproducible_noise_stays_reproducible_in_a_child() -> None:
    source = NoiseSource.seeded(1)
    assert told_by_a_child(lambda: draw(source)) == draw(source)


def test_memory_that_is_copied_as_a_whole_does_not_repeat_its_noise() -> None:
    """A snapshot of a virtual machine, started twice: key and number are the same in both."""
    source, twin = NoiseSource.secure(), object.__new__(NoiseSource)
    vars(twin).update(vars(source))
    assert draw(source) != draw(twin)


# -- noise by address ---------------------------------------------------------------------------------------------------

USE = b"one plan on one graph"


def block_gaussians(
    noise: BlockNoise, number: int, first: int, counts: list[int], **changes: float
) -> list[np.ndarray]:
    numbers = {"size": 1000, "std": 1.0, "grid": 2.0**-40, **changes}
    return [z.copy() for z in noise.gaussians(number, first, counts, **numbers)]


def test_block_noise_depends_on_key_use_round_and_block_alone() -> None:
    noise = RunKey.seeded(1).noise(USE)
    (first,) = block_gaussians(noise, 1, 2, [1000])
    again = block_gaussians(BlockNoise.from_worker(noise.for_worker()), 1, 0, [1000, 1000, 1000, 7])
    assert np.array_equal(first, again[2])
    assert np.array_equal(first, block_gaussians(RunKey.seeded(1).noise(USE), 1, 2, [1000])[0])
    others = [
        *again[:2],
        block_gaussians(noise, 2, 2, [1000])[0],
        block_gaussians(noise, 1, 3, [1000])[0],
        block_gaussians(RunKey.seeded(2).noise(USE), 1, 2, [1000])[0],
        block_gaussians(RunKey.seeded(1).noise(USE + b"!"), 1, 2, [1000])[0],
    ]
    for other in others:
        assert abs(np.corrcoef(first, other)[0, 1]) < 5 / np.sqrt(1000)


@pytest.mark.parametrize("change", [{"std": 1.25}, {"grid": 2.0**-39}, {"size": 1004}])
def test_noise_at_another_scale_grid_or_width_is_other_noise(change: dict[str, float]) -> None:
    """The same noise at two scales: T / s - T' / s' would be the values without noise."""
    noise = RunKey.seeded(1).noise(USE)
    (one,) = block_gaussians(noise, 1, 0, [1000])
    (other,) = block_gaussians(noise, 1, 0, [1000], **change)
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(1000)


def test_a_resumed_run_draws_the_same_stream_again_for_the_same_use_only(tmp_path: Path) -> None:
    key = RunKey.secure()
    key.save(tmp_path / "key")

    def drawn(use: bytes) -> np.ndarray:
        source = RunKey.load(tmp_path / "key").source(use)
        assert source.is_secret
        assert source.is_new
        return np.concatenate([source.gaussian((500,), std=1.0), source.stream("part").gaussian((500,), std=1.0)])

    first, other = drawn(USE), drawn(USE + b"!")
    assert np.array_equal(first, drawn(USE))
    assert abs(np.corrcoef(first, other)[0, 1]) < 5 / np.sqrt(1000)
    assert abs(np.corrcoef(first[:500], first[500:])[0, 1]) < 5 / np.sqrt(500), "draws differ in a run"
    key.source(USE)
    with pytest.raises(CaribouError, match="a key must have one use"):
        key.noise(USE + b"!")


def test_a_key_has_one_use_and_one_place(tmp_path: Path) -> None:
    key = RunKey.seeded(1)
    assert key.is_new
    key.noise(USE)
    key.noise(USE)
    assert not key.is_new
    with pytest.raises(CaribouError, match="a key must have one use"):
        key.noise(USE + b"!")
    assert key.seal(USE) != key.seal(USE + b"!") != RunKey.seeded(2).seal(USE + b"!")
    key.save(tmp_path / "one")
    with pytest.raises(CaribouError, match="a key must be stored once"):
        key.save(tmp_path / "two")
    with pytest.raises(CaribouError, match="a key must be stored once"):
        RunKey.load(tmp_path / "one").save(tmp_path / "two")


def test_streams_of_rounds_and_blocks_do_not_overlap() -> None:
    """The words themselves: 1000 values take 12,000 bytes, and the next block goes on exactly there."""
    noise = RunKey.seeded(1).noise(USE)
    whole = noise._stream(b"1", 0).update(bytes(3 * 12_000))
    assert noise._stream(b"1", 750).update(bytes(24_000)) == whole[12_000:]
    assert noise._stream(b"2", 0).update(bytes(64)) not in whole


@pytest.mark.parametrize(("counts", "size"), [([8], 6), ([9], 8), ([4, 8], 8), ([0], 8)])
def test_block_sizes_are_checked(counts: list[int], size: int) -> None:
    with pytest.raises(InputError, match="size must be"):
        next(RunKey.seeded(1).noise(USE).gaussians(1, 0, counts, size=size, std=1.0, grid=2.0**-28))


def test_block_noise_is_the_sampler_of_the_library() -> None:
    """The same words give the same Gaussians: only their address is new."""
    noise = RunKey.seeded(1).noise(USE)
    (ours,) = (z.copy() for z in noise.gaussians(3, 7, [901], size=1000, std=1.0, grid=2.0**-28))
    address = struct.pack(">QQdd", 3, 1000, 1.0, 2.0**-28)
    drawn = samplers.gaussians(noise._stream(address, 7 * 750), 901, std=1.0, grid=2.0**-28)
    assert np.array_equal(ours, drawn)


def test_further_bits_of_a_block_depend_on_the_address_of_their_pair_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs in doubt: decided with further bits, however many blocks are drawn at once, and next to what doubles say."""
    decided = block_gaussians(RunKey.seeded(1).noise(USE), 1, 2, [1000])[0]
    asked = []
    stream = BlockNoise._stream
    monkeypatch.setattr(BlockNoise, "_stream", lambda self, *address: asked.append(address) or stream(self, *address))

    def all_in_doubt(drawn: np.ndarray, out: np.ndarray, **_: float) -> np.ndarray:
        out[:] = np.nan
        return np.arange(len(drawn) // 3)

    monkeypatch.setattr(kernels, "gaussian", all_in_doubt)
    noise = RunKey.seeded(1).noise(USE)
    (alone,) = block_gaussians(noise, 1, 2, [1000])
    addresses = asked[1:]
    assert len(set(addresses)) == 500
    assert min(position for _, position in addresses) > 2**95
    together = block_gaussians(noise, 1, 1, [1000, 1000])
    assert asked[-500:] == addresses
    assert np.array_equal(alone, together[1])
    assert np.array_equal(alone, decided)


def test_the_key_of_a_run_is_private_and_never_replaced(tmp_path: Path) -> None:
    key, path = RunKey.secure(), tmp_path / "key"
    key.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    loaded = RunKey.load(path)
    assert loaded.noise(USE).for_worker() == key.noise(USE).for_worker()
    assert loaded.is_secret
    assert loaded.noise(USE).is_secret
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        RunKey.secure().save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["key"]
    secret = before[1:33]
    assert secret not in key.noise(USE).for_worker(), "a worker gets a derived key, and can draw nothing else"
    for source in (key, key.noise(USE)):
        assert secret.hex() not in repr(source)
        for refuse in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(CaribouError):
                refuse(source)


def test_no_count_is_set_back_and_no_seed_is_called_secret() -> None:
    source = NoiseSource.seeded(1)
    for name, value in (("draws", 0), ("is_secret", True)):
        with pytest.raises(AttributeError):
            setattr(source, name, value)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_no_sign_of_zero_survives(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value just below zero is rounded to -0.0; with noise of -0.0 its sign would be released."""
    monkeypatch.setattr(NoiseSource, kind, lambda self, shape, **_: np.full(shape, -0.0))
    add = {"gaussian": lambda s, v: s.add_gaussian(v, std=1.0), "laplace": lambda s, v: s.add_laplace(v, scale=1.0)}[
        kind
    ]
    assert not np.signbit(add(NoiseSource.seeded(1), np.array([-1e-12, 0.0, 1e-12]))).any()
