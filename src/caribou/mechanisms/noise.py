"""Privacy noise: the only place that draws it.

AES-256 in counter mode gives the bits, 64 per uniform, Box-Muller turns them into Gaussians. The key comes from the operating
system unless an experiment asks for a seed; it is held in memory only, and is never printed, copied or pickled.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import threading
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from caribou._validate import integer, non_negative
from caribou.errors import CaribouError, InputError

_CHUNK = 1 << 20
"""Values per block of cipher stream: bounds the memory of a large draw."""


class NoiseSource:
    """A stream of privacy noise. Make one with `secure`, `keyed` or `seeded`; everything else about it is equal.

    ``is_secret`` is True only for a key from the operating system; certificates of other sources are void. ``draws``
    counts the calls that drew noise.

    >>> noise = NoiseSource.secure()
    >>> noise.gaussian((2, 3), std=1.0).shape, noise.draws, noise.is_secret
    ((2, 3), 1, True)
    """

    def __init__(self, key: bytes, *, origin: str, is_secret: bool) -> None:
        if not isinstance(key, bytes) or len(key) != 32:
            raise InputError(f"key must be 32 bytes, got {type(key).__name__} of length {_length(key)}")
        self.__key = key
        self.origin = origin
        self.is_secret = is_secret
        self.draws = 0
        self._process = os.getpid()
        # Two threads that took the same number would draw the same noise for two different values.
        self._lock = threading.Lock()

    @classmethod
    def secure(cls) -> NoiseSource:
        """Fresh noise under a key from the operating system: what a release uses."""
        return cls(os.urandom(32), origin="the operating system", is_secret=True)

    @classmethod
    def keyed(cls, key: bytes) -> NoiseSource:
        """Reproducible noise under a given key, for tests."""
        return cls(key, origin="a key given by the caller", is_secret=False)

    @classmethod
    def seeded(cls, seed: int) -> NoiseSource:
        """Reproducible noise for experiments; the certificate of such a run is void."""
        seed = integer(at_least=0, noise_seed=seed)
        key = hashlib.sha256(f"caribou noise|{seed}".encode()).digest()
        return cls(key, origin="a fixed seed", is_secret=False)

    def stream(self, purpose: str) -> NoiseSource:
        """An independent child (its key is the HMAC of the purpose under this key), e.g. one per part of a pipeline."""
        self._rekey_after_fork()
        key = hmac.digest(self.__key, purpose.encode(), "sha256")
        return NoiseSource(key, origin=self.origin, is_secret=self.is_secret)

    def gaussian(self, shape: tuple[int, ...], *, std: float, grid: float | None = None) -> np.ndarray:
        """Independent N(0, std^2) in double precision; with ``grid``, rounded to its multiples.

        Rounding noise to the grid on which the value lies equals rounding their sum, i.e. post-processing of the exact Gaussian
        mechanism. Support: |z| <= 9.5 std (64-bit radius).
        """
        std = non_negative(noise_std=std)
        with self._lock:
            self._rekey_after_fork()
            stream = self._cipher_stream()
            self.draws += 1
        size = math.prod(shape)
        flat = np.empty(size, dtype=np.float64)
        for start in range(0, size, _CHUNK):
            stop = min(start + _CHUNK, size)
            flat[start:stop] = _box_muller(stream, stop - start)
        flat *= std
        if grid is not None:
            flat = np.rint(flat / grid) * grid
        return flat.reshape(shape)

    def _cipher_stream(self) -> Any:
        # One counter block per draw: the upper half of the initial block is the number of the draw, the lower half counts.
        initial = self.draws.to_bytes(8, "big") + bytes(8)
        return Cipher(algorithms.AES(self.__key), modes.CTR(initial)).encryptor()

    def _rekey_after_fork(self) -> None:
        """A forked child holds a copy of the key: without a new one, two releases would carry the same noise."""
        if self._process != os.getpid():
            if self.is_secret:
                self.__key = hashlib.sha256(self.__key + os.urandom(32)).digest()
            self._process = os.getpid()

    def __repr__(self) -> str:
        return f"NoiseSource(origin={self.origin!r}, draws={self.draws})"

    def _refuse(self, *_: object) -> NoReturn:
        raise CaribouError("a NoiseSource must not be copied or stored: its key is as secret as the graph")

    __copy__ = __deepcopy__ = __reduce_ex__ = __getstate__ = _refuse


def _box_muller(stream: Any, count: int) -> np.ndarray:
    """``count`` standard Gaussians from a stream of uniform bytes: sqrt(-2 log u) (cos, sin)(2 pi v)."""
    pairs = (count + 1) // 2
    words = np.frombuffer(stream.update(bytes(16 * pairs)), dtype="<u8")
    # (w + 1/2) 2^-64 is never 0; small u keep all their bits, so the tail reaches sqrt(2 * 65 * log 2) = 9.5.
    radius = np.sqrt(-2 * np.log((words[:pairs].astype(np.float64) + 0.5) * 2.0**-64))
    angle = words[pairs:].astype(np.float64) * (2 * np.pi * 2.0**-64)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def _length(key: object) -> int:
    return len(key) if isinstance(key, bytes | bytearray | str) else 0
