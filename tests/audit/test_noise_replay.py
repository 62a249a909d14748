"""Noise replay: a fit that reads edges through its noise alone hands out the same on any two graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.known_bad_mechanisms.whole_methods import (
    CleanFit,
    CleanPredict,
    HalfNoiseInTheFit,
    LargerSensitivityOfTheFit,
    Sound,
)
from caribou.audit.noise_replay import Recording, ReplayedNoise, replay_fits
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS, Method
from caribou.privacy.budget import Budget
from caribou.randomness import Streams

quick = pytest.mark.usefixtures("quick_encoder")


def differences(method: Method) -> tuple[str, ...]:
    return replay_fits(method, Budget(1.0, 1e-5), Streams(0), 0).differences


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("votes-edp", {}),
        ("gap-edp", {}),
        ("progap-edp", {}),
        ("lpgnet-edp", {}),
        ("mlp", {}),
    ],
)
@quick
def test_fits_read_edges_through_noise_alone(name: str, settings: dict[str, Any]) -> None:
    assert differences(METHODS[name].create(**settings)) == ()


@quick
def test_a_fit_beside_its_noise_is_seen() -> None:
    assert differences(Sound()) == ()
    assert "weights.bias" in differences(CleanFit())
    assert "released.sums" not in differences(CleanFit())
    assert differences(CleanPredict()) == ("predictions",)
    assert differences(LargerSensitivityOfTheFit()) == (
        "how far edges move the values under its noise and those under the noise of a prediction",
    )
    assert differences(HalfNoiseInTheFit()) == ("the scales of its noise and those of a prediction",)


@quick
def test_noise_that_cannot_be_replayed_is_not_trusted() -> None:
    assert "released.edges" in differences(METHODS["sage-edp"].create(epochs=1, hidden=2))


@quick
def test_a_recorded_source_draws_what_its_source_draws() -> None:
    recording, value = Recording(), np.arange(6.0)
    plain, recorded = NoiseSource.seeded(3), ReplayedNoise(NoiseSource.seeded(3), recording)
    for source in (plain, recorded):
        source.bernoulli(3, probability=0.5)
    drawn = [
        (
            s.stream("a").add_gaussian(value, std=2.0),
            s.add_laplace(value, scale=1.0),
            s.add_discrete_laplace(value, epsilon=1.0),
        )
        for s in (plain, recorded)
    ]
    assert all(np.array_equal(a, b) for a, b in zip(*drawn, strict=True))
    assert recording.drawn == [("/a", "Gaussian", 2.0), ("", "Laplace", 1.0), ("", "discrete_laplace", 1.0)]
    replayed = ReplayedNoise(NoiseSource.seeded(4), Recording(), recording)
    assert np.array_equal(replayed.stream("a").add_gaussian(value + 5, std=2.0), drawn[0][0])
    assert np.array_equal(replayed.add_laplace(value[:3], scale=1.0).shape, (3,)), "another shape is not replayed"
    assert replayed.add_gaussian(value + 5, std=0.0).tolist() == (value + 5).tolist(), (
        "without noise nothing is replayed"
    )
