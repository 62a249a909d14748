"""Public streams: equal by seed and purpose, unrelated otherwise, and golden so that splits never move."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from caribou.errors import InputError
from caribou.randomness import Streams, stream_seed


def test_golden_seeds() -> None:
    """SHA-256 of purpose and seed: a change here would move every published split and model."""
    assert stream_seed(0, "split") == 2305847850152557203
    assert Streams(7).model_seed == 3820089663344556709
    assert Streams(7).child("run 1").seed == 1161526167006901
    assert Streams(0).split.integers(10**6, size=3).tolist() == [699430, 558334, 807019]


def test_streams_of_other_names_or_seeds_are_unrelated() -> None:
    purposes = [(seed, purpose) for seed in (0, 1, 10) for purpose in ("split", "sampling", "attack", "model", "1|0")]
    seeds = [stream_seed(*pair) for pair in purposes]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    draws = [Streams(seed).generator(purpose).standard_normal(4000) for seed, purpose in purposes]
    for a, b in itertools.combinations(draws, 2):
        assert abs(np.corrcoef(a, b)[0, 1]) < 6 / np.sqrt(4000)


def test_a_generator_is_fresh_each_time() -> None:
    streams = Streams(3)
    for name in ("split", "sampling", "attack"):
        first, second = (getattr(streams, name).integers(2**62, size=5) for _ in range(2))
        assert np.array_equal(first, second)
        assert np.array_equal(first, streams.generator(name).integers(2**62, size=5))


def test_children_are_streams_of_their_own() -> None:
    children = [Streams(3).child(f"run {k}") for k in range(50)]
    assert len({child.seed for child in children}) == 50
    assert all(child.seed < 2**53 for child in children)
    assert Streams(3).child("run 1") == children[1] != Streams(4).child("run 1")


def test_a_seed_is_a_whole_number() -> None:
    for seed in [-1, 1.5, True, None, 2**53]:
        with pytest.raises(InputError, match="seed must be a whole number"):
            Streams(seed)  # type: ignore[arg-type]
