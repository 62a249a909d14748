"""Randomness is an argument: independent streams, one per purpose.

`Streams` holds the *public* randomness (split, sampling, model, attack). Private randomness lives in
`caribou.mechanisms.noise_source.NoiseSource` alone; by default its key comes from the operating system and has nothing to do
with any seed here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from caribou._validate import integer


def stream_seed(seed: int, purpose: str) -> int:
    """A 63-bit seed for one purpose: SHA-256 of purpose and seed, so that streams of different names are unrelated."""
    digest = hashlib.sha256(f"caribou public stream|{purpose}|{seed}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


@dataclass(frozen=True)
class Streams:
    """Independent children of one public seed.

    >>> streams = Streams(7)
    >>> int(streams.split.integers(100)) == int(streams.split.integers(100))   # a fresh generator each time
    True
    >>> streams.model_seed != streams.seed
    True
    """

    seed: int

    def __post_init__(self) -> None:
        integer(at_least=0, seed=self.seed)

    def generator(self, purpose: str) -> np.random.Generator:
        """A NumPy generator for ``purpose``; equal purposes give equal draws, different ones are independent."""
        return np.random.default_rng(stream_seed(self.seed, purpose))

    def child(self, purpose: str) -> Streams:
        """Streams of their own for one part of an experiment, e.g. for one of its runs.

        >>> Streams(7).child("run 1") == Streams(7).child("run 1") != Streams(7).child("run 2")
        True
        """
        return Streams(stream_seed(self.seed, purpose) >> 11)  # a seed has at most 53 bits

    @property
    def split(self) -> np.random.Generator:
        """Draws the train / validation / test split."""
        return self.generator("split")

    @property
    def sampling(self) -> np.random.Generator:
        """Draws the edges that survive a degree cap, and other public samples."""
        return self.generator("sampling")

    @property
    def model_seed(self) -> int:
        """Seed for initial weights, batches and dropout."""
        return stream_seed(self.seed, "model")

    @property
    def attack(self) -> np.random.Generator:
        """Draws of an adversary."""
        return self.generator("attack")
