"""Privacy noise: the only place that draws it.

AES-256 in counter mode gives the bits; `samplers` turns them into every distribution, exactly. The key comes from the operating
system unless an experiment asks for a seed; it is held in memory only, and is never printed, copied or pickled. The one exception
is `RunKey`, which outlives a crash in a private file, because a resumed run must draw the same noise again. Noise of such a run
is drawn under a key that is derived from it and from all that decides what the noise is added to (`BlockNoise`).
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from caribou._validate import integer, non_negative, positive, positive_or_inf
from caribou.errors import CaribouError, InputError
from caribou.machine.files import erase
from caribou.mechanisms import samplers
from caribou.privacy.arithmetic import grid_spacing


class _Keyed:
    """A key and where it came from. The key is never shown, copied or stored with the object."""

    def __init__(self, key: bytes, *, origin: str, is_secret: bool = False) -> None:
        if not isinstance(key, bytes) or len(key) != 32:
            length = len(key) if isinstance(key, bytes | bytearray | str) else 0
            raise InputError(f"key must be 32 bytes, got {type(key).__name__} of length {length}")
        self._key, self._is_secret, self.origin = key, is_secret, origin

    @property
    def is_secret(self) -> bool:
        """Whether the key came from the operating system."""
        return self._is_secret

    def __repr__(self) -> str:
        return f"{type(self).__name__}(origin={self.origin!r})"

    def _refuse(self, *_: object) -> NoReturn:
        raise CaribouError(f"{type(self).__name__} must not be copied or stored: its key is as secret as the graph")

    __copy__ = __deepcopy__ = __reduce_ex__ = __getstate__ = _refuse


class NoiseSource(_Keyed):
    """A stream of privacy noise. Make one with `secure`, `keyed` or `seeded`; everything else about it is equal.

    ``is_secret`` is True only for a key from the operating system; certificates of other sources are void. ``draws``
    counts the calls that drew noise.

    Args:
        key: 32 bytes.
        origin: where the key came from, in words, for the certificate.

    >>> noise = NoiseSource.secure()
    >>> noise.gaussian((2, 3), std=1.0).shape, noise.draws, noise.is_secret
    ((2, 3), 1, True)
    """

    def __init__(self, key: bytes, *, origin: str) -> None:
        super().__init__(key, origin=origin)  # only `secure` and its streams may say that it is secret
        self._draws, self._repeats = 0, False
        self._purposes: set[str] = set()

    @classmethod
    def secure(cls) -> NoiseSource:
        """Fresh noise under a key from the operating system: what a release uses."""
        source = cls(os.urandom(32), origin="the operating system")
        source._is_secret = True
        return source

    @classmethod
    def keyed(cls, key: bytes) -> NoiseSource:
        """Reproducible noise under a given key, for tests."""
        return cls(key, origin="a key given by the caller")

    @classmethod
    def seeded(cls, seed: int) -> NoiseSource:
        """Reproducible noise for experiments; the certificate of such a run is void."""
        seed = integer(at_least=0, noise_seed=seed)
        key = hashlib.sha256(f"caribou noise|{seed}".encode()).digest()
        return cls(key, origin="a fixed seed")

    @property
    def draws(self) -> int:
        """How many calls drew noise: the number of the next draw, which nobody sets back."""
        return self._draws

    @property
    def is_new(self) -> bool:
        """Whether nothing was drawn and no stream was opened."""
        return self.draws == 0 and not self._purposes

    def stream(self, purpose: str) -> NoiseSource:
        """An independent child (its key is the HMAC of the purpose under this key), e.g. one per part of a pipeline.

        Each purpose can be used once: a second child of the same name would repeat the noise of the first.
        """
        with _LOCK:
            if purpose in self._purposes:
                raise CaribouError(
                    f"purpose must be new for this source (its noise would repeat), got {purpose!r} again"
                )
            self._purposes.add(purpose)
            child = NoiseSource(hmac.digest(self._key, purpose.encode(), "sha256"), origin=self.origin)
        child._is_secret, child._repeats = self._is_secret, self._repeats
        return child

    def gaussian(self, shape: tuple[int, ...], *, std: float, grid: float | None = None) -> np.ndarray:
        """Independent N(0, std^2), rounded exactly to multiples of ``grid``, a power of two (default: `grid_spacing`).

        Rounding noise to the grid on which the value lies equals rounding their sum. std = 0 gives zeros.
        """
        return self._rounded(samplers.gaussians, shape, non_negative(noise_std=std), grid)

    def add_gaussian(self, value: np.ndarray, *, std: float) -> np.ndarray:
        """value + N(0, std^2), both rounded to the common grid of `grid_spacing`. std = 0 draws nothing."""
        if std == 0:
            return value
        grid = grid_spacing(noise_std=std)
        # + 0.0: a negative zero would tell on which side of zero the value was
        return np.rint(value / grid) * grid + self.gaussian(value.shape, std=std, grid=grid) + 0.0

    def laplace(self, shape: tuple[int, ...], *, scale: float, grid: float | None = None) -> np.ndarray:
        """Independent Laplace noise of the given scale (std = sqrt(2) scale), rounded exactly to multiples of ``grid``.

        The grid is a power of two (default: `grid_spacing`). scale = 0 gives zeros.
        """
        return self._rounded(samplers.laplaces, shape, non_negative(laplace_scale=scale), grid)

    def add_laplace(self, value: np.ndarray, *, scale: float) -> np.ndarray:
        """value + Laplace noise, both rounded to the common grid of `grid_spacing`. scale = 0 draws nothing."""
        if scale == 0:
            return value
        grid = grid_spacing(noise_std=scale)
        return np.rint(value / grid) * grid + self.laplace(value.shape, scale=scale, grid=grid) + 0.0

    def _rounded(
        self, sampler: Callable[..., np.ndarray], shape: tuple[int, ...], scale: float, grid: float | None
    ) -> np.ndarray:
        stream = self._next_stream()
        if scale == 0:
            return np.zeros(shape)
        grid = grid_spacing(noise_std=scale) if grid is None else positive(grid=grid)
        return sampler(stream, math.prod(shape), scale, grid=grid).reshape(shape)

    def discrete_laplace(self, shape: tuple[int, ...], *, epsilon: float) -> np.ndarray:
        """Independent integers with P(k) = (1 - a)/(1 + a) a^|k|, a = e^-epsilon: the noise of integer counts.

        A count that moves by 1 between neighbours is epsilon-DP with it (Ghosh, Roughgarden and Sundararajan 2009), exactly: the
        probabilities are those of the formula, with epsilon as the double that it is. epsilon = inf gives zeros.
        """
        epsilon = positive_or_inf(epsilon=epsilon)
        if epsilon == math.inf:
            return np.zeros(shape, dtype=np.int64)
        return samplers.discrete_laplaces(self._next_stream(), math.prod(shape), epsilon=epsilon).reshape(shape)

    def add_discrete_laplace(self, counts: np.ndarray, *, epsilon: float) -> np.ndarray:
        """Whole counts + `discrete_laplace`, which needs no grid. epsilon = inf draws nothing."""
        if epsilon == math.inf:
            return counts
        return counts + self.discrete_laplace(counts.shape, epsilon=epsilon)

    def choice(self, scores: Sequence[int], *, epsilon: float) -> int:
        """The exponential mechanism: the place of a whole score, with probability proportional to e^(epsilon score), exactly."""
        chosen = [integer(at_least=0, score=score) for score in scores]
        return samplers.exponential_choice(self._next_stream(), chosen, epsilon=positive(epsilon=epsilon))

    def trial_number(self, *, shape: float, stop: float) -> int:
        """How many trials a search makes, with the exact probabilities of `RandomTrials`."""
        return samplers.trial_number(self._next_stream(), shape=shape, stop=stop)

    def bernoulli(self, count: int, *, probability: float) -> np.ndarray:
        """Independent booleans, True with exactly ``probability``. [count]"""
        return samplers.bernoullis(self._next_stream(), count, probability=probability)

    def integers(self, count: int, *, below: int) -> np.ndarray:
        """Independent integers, exactly uniform in 0 .. below - 1 (words beyond the last multiple are drawn again). [n]"""
        return samplers.integers_below(self._next_stream(), count, below=integer(at_least=1, below=below))

    def binomial(self, trials: int, *, probability: float) -> int:
        """How many of ``trials`` booleans of `bernoulli` are True, without drawing them (`samplers.binomial`)."""
        trials = integer(at_least=0, trials=trials)
        certain = samplers.probability_threshold(probability) in (0, 1 << samplers.PROBABILITY_BITS)
        if trials == 0 or certain:
            return trials if probability else 0
        return samplers.binomial(self._next_stream(), trials, probability=probability)

    def _next_stream(self) -> Any:
        with _LOCK:
            stream = self._cipher_stream()
            self._draws += 1
        return stream

    def _cipher_stream(self) -> Any:
        # One counter block per draw: the upper half of the initial block is the number of the draw, the lower half counts.
        initial = self._draws.to_bytes(8, "big") + bytes(8)
        # A forked child, or a snapshot of the machine that is started twice, has this key and this number, too: only fresh bytes
        # keep two releases from carrying the same noise (docs/decisions.md, record 0008). A source of `RunKey.source` is for one
        # use alone, whoever holds it: there the same noise is meant, and is added to the same.
        fresh = self._is_secret and not self._repeats
        key = hashlib.sha256(self._key + os.urandom(32)).digest() if fresh else self._key
        return Cipher(algorithms.AES(key), modes.CTR(initial)).encryptor()

    def __repr__(self) -> str:
        return f"NoiseSource(origin={self.origin!r}, draws={self.draws})"


class RunKey(_Keyed):
    """The key of one run that can be resumed. It draws nothing: noise comes from a key that `noise` or `source` derives from it.

    Everything that decides what noise is added to goes into the derivation. So a run that is resumed with another budget, another
    graph or another scale would draw independent noise, and no two results under one key can be subtracted.

    >>> key = RunKey.seeded(3)
    >>> key.is_new, key.noise(b"this plan, this graph").is_secret, key.is_new
    (True, False, False)
    """

    def __init__(self, key: bytes, *, origin: str, is_secret: bool = False) -> None:
        super().__init__(key, origin=origin, is_secret=is_secret)
        self.__use: bytes | None = None
        self.__is_stored = False

    @classmethod
    def secure(cls) -> RunKey:
        """A fresh key from the operating system: what a release uses."""
        return cls(os.urandom(32), origin="the operating system", is_secret=True)

    @classmethod
    def seeded(cls, seed: int) -> RunKey:
        """A reproducible key for experiments; the certificate of such a run is void."""
        key = hashlib.sha256(f"caribou block noise|{integer(at_least=0, noise_seed=seed)}".encode()).digest()
        return cls(key, origin="a fixed seed")

    @property
    def is_new(self) -> bool:
        """Whether no noise was derived from this object. A resumed run reads its key anew and derives the same noise again."""
        return self.__use is None

    def noise(self, use: bytes) -> BlockNoise:
        """The noise of one use of this key: ``use`` states all that decides what it is added to. A key has one use."""
        return BlockNoise(self._derived(b"caribou noise by block", use), origin=self.origin, is_secret=self._is_secret)

    def source(self, use: bytes) -> NoiseSource:
        """The same as a stream, whose draws are told apart by their order: a resumed run repeats those of the run before."""
        found = NoiseSource(self._derived(b"caribou noise in order", use), origin=self.origin)
        found._is_secret, found._repeats = self._is_secret, True
        return found

    def _derived(self, kind: bytes, use: bytes) -> bytes:
        if self.__use not in (None, use):
            raise CaribouError("a key must have one use, got another plan or another graph under the same key")
        self.__use = use
        return hmac.digest(self._key, kind + hashlib.sha256(use).digest(), "sha256")

    def seal(self, use: bytes) -> str:
        """A keyed digest of a use, to be stored and compared: without the key it tells nothing about the graph."""
        return hmac.new(self._key, b"caribou use of a key" + hashlib.sha256(use).digest(), "sha256").hexdigest()

    def save(self, path: Path) -> None:
        """Write the key for its owner's eyes only (mode 0600), durably, whole or not at all. A key is never replaced.

        It is stored in one place only: two runs would otherwise share it.
        """
        if self.__is_stored:
            raise CaribouError("a key must be stored once, got a second place for the same key")
        self.__is_stored = True
        temporary = path.with_name(f".{path.name}.tmp")
        erase(temporary)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_packed(self._key, self.origin, self._is_secret))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)  # unlike a rename it fails where a key is already
        except BaseException:
            erase(temporary)
            raise
        temporary.unlink()

    @classmethod
    def load(cls, path: Path) -> RunKey:
        """Read what `save` wrote."""
        key, origin, is_secret = _unpacked(path.read_bytes())
        found = cls(key, origin=origin, is_secret=is_secret)
        found.__is_stored = True
        return found


class BlockNoise(_Keyed):
    """Noise by address: the same (round, block) under the same key is the same noise, whoever draws it and however often.

    A retried, restarted or speculative piece of work must redraw what it drew before: fresh noise would release one value twice.
    So the address, not the order of calls, chooses the stream. Every round, size, scale and grid has a derived key of its own,
    and the block is the counter of AES-256 under it. One address never serves two different values: the key was derived from all
    that decides them (`RunKey.noise`), and a runner refuses a round that is asked otherwise (`engines.rounds.RoundGuard`). Forked
    or copied on purpose, a source gives the same noise; it is never printed or pickled.

    >>> noise = RunKey.seeded(3).noise(b"one graph")
    >>> draws = [next(noise.gaussians(1, 0, [4], size=4, std=1.0, grid=2.0**-28)).tolist() for _ in range(2)]
    >>> draws[0] == draws[1]
    True
    """

    def for_worker(self) -> bytes:
        """The key of this noise with its origin, to be handed to a worker of the same run and to nobody else.

        It is as secret as the graph. The key of the run cannot be had from it: a worker can draw no other noise.
        """
        return _packed(self._key, self.origin, self._is_secret)

    @classmethod
    def from_worker(cls, secret: bytes) -> BlockNoise:
        """The inverse of `for_worker`."""
        key, origin, is_secret = _unpacked(secret)
        return cls(key, origin=origin, is_secret=is_secret)

    def gaussians(
        self, round_number: int, first: int, counts: Sequence[int], *, size: int, std: float, grid: float
    ) -> Iterator[np.ndarray]:
        """The noise of the blocks ``first``, ``first`` + 1, ... of a round, N(0, std^2) on the grid, as `NoiseSource.gaussian`.

        A block has ``size`` values, an even number, the last block of all may have fewer: ``counts``. Their words follow each
        other in one stream, so a block is the same however many are drawn at once. Each array is overwritten by the next.
        """
        std, grid = positive(noise_std=std), positive(grid=grid)
        if size % 4 or any(not 0 < count <= size for count in counts) or any(count != size for count in counts[:-1]):
            raise InputError(
                f"size must be a multiple of 4 and bound every count, only the last may differ, got {size}"
            )
        address = struct.pack(">QQdd", round_number, size, std, grid)
        stream = self._stream(address, first * (12 * size // 16))
        words, out = np.empty(3 * size // 2 + 2, dtype="<u8"), np.empty(size)
        room = words.view(np.uint8).data
        for block, count in enumerate(counts, first):
            pairs = (count + 1) // 2
            stream.update_into(_zeros(24 * pairs), room)

            def further(pair: int, before: int = block * size // 2) -> Any:
                return self._stream(address, _FURTHER + (before + pair << 16))

            drawn = words[: 3 * pairs].astype(np.uint64, copy=False)
            samplers.gaussians_of_words(drawn, out[: 2 * pairs], std=std, grid=grid, further=further)
            yield out[:count]

    def _stream(self, address: bytes, position: int) -> Any:
        """From 16-byte word ``position`` on, under the key of an address: the same noise at two scales would cancel out."""
        key = hmac.digest(self._key, address, "sha256")
        return Cipher(algorithms.AES(key), modes.CTR(position.to_bytes(16, "big"))).encryptor()


_FURTHER = 1 << 95
"""Position in a round from which on every pair of values has 2^16 words of 16 bytes of its own, beyond the words of all pairs."""
_LOCK = threading.Lock()
"""Held while a source takes its next number: two threads with the same one would draw the same noise for two values."""


def _free_lock() -> None:
    global _LOCK  # a thread that held it was left behind in the parent
    _LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_lock)


def _packed(key: bytes, origin: str, is_secret: bool) -> bytes:
    return bytes([is_secret]) + key + origin.encode()


def _unpacked(secret: bytes) -> tuple[bytes, str, bool]:
    return secret[1:33], secret[33:].decode(), secret[:1] == b"\x01"


@lru_cache(maxsize=4)
def _zeros(count: int) -> bytes:
    return bytes(count)
