"""Noise replay: a fit that reads edges through its noise alone hands out the same on any two graphs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from audit.known_bad_mechanisms.whole_methods import (
    CleanFit,
    CleanPredict,
    CleanRelease,
    HalfNoiseInTheFit,
    LargerSensitivityOfTheFit,
    Sound,
)
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.auditor import Audit
from caribou.audit.noise_replay import Recording, ReplayedNoise, clean_shift, cost_of, neighbours, replay_fits
from caribou.audit.verdict import VIOLATED
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS, Method
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.events import NonPrivate
from caribou.randomness import Streams

quick = pytest.mark.usefixtures("quick_encoder")
NOT_ADDED = ("sage-edp", "lapgraph-edp", "sage-ndp")
"""Some of their noise answers about pairs, or chooses."""


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


# -- clean shifts ------------------------------------------------------------------------------------------------------


def worst_shift(method: Method, budget: Budget, transductive: bool = False) -> float:
    audited = AuditedMethod("mine", method, budget, transductive=transductive)
    shifts = [clean_shift(audited, pair) for pair in neighbours(budget.unit)]
    assert not any(shift.unseen for shift in shifts)
    return max(shift.ratio for shift in shifts)


class InOrderOfDegree(Sound):
    """Rows are released in the order of private degrees: an edge moves rows to other places."""

    def clean(self, graph: Graph) -> np.ndarray:
        return super().clean(graph)[np.argsort(-graph.degrees, kind="stable")]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_learning", "quick_public_steps")
@pytest.mark.parametrize("name", [n for n, info in METHODS.items() if info.private and n not in NOT_ADDED])
def test_clean_values_of_no_method_move_farther_than_its_noise_hides(name: str) -> None:
    info = METHODS[name]
    method = info.create(**({"declared_degree": 2} if info.unit is PrivacyUnit.NODE and name != "mlp-dp" else {}))
    worst = worst_shift(method, Budget(1.0, 1e-5, info.unit), info.transductive)
    assert worst <= 1 + 1e-6
    assert worst > 0.7 or name == "mlp", "no pair shows much"


@quick
def test_shifts_that_cost_more_than_is_claimed_are_found_without_a_game() -> None:
    budget = Budget(2.0, 1e-5)
    assert worst_shift(Sound(), budget) == pytest.approx(1)
    assert worst_shift(CleanRelease(), budget) == 0, "without noise nothing is hidden: games show it"
    assert worst_shift(InOrderOfDegree(), budget) > 3
    assert worst_shift(HalfNoiseInTheFit(), budget, transductive=True) == pytest.approx(2)
    assert worst_shift(LargerSensitivityOfTheFit(), budget, transductive=True) == pytest.approx(10)
    outcome = Audit(AuditedMethod("mine", InOrderOfDegree(), budget), ("noise-replay",)).run()
    assert outcome.verdict.word == VIOLATED
    assert "times as far as the noise hides" in outcome.verdict.reasons[0]
    sound = Audit(AuditedMethod("mine", Sound(), budget), ("noise-replay",)).run()
    assert "values under the noise move by at most 100 % of what it hides" in sound.notes[-1]


def test_noise_of_every_kind_pays_for_distances_in_its_own_norm() -> None:
    before, after = Recording(), Recording()
    for recording, shift in ((before, 0.0), (after, 1.0)):
        noise = ReplayedNoise(NoiseSource.seeded(0), recording)
        noise.add_gaussian(np.full(4, shift), std=4.0)
        noise.add_laplace(np.full(4, shift), scale=8.0)
        noise.add_discrete_laplace(np.full(4, int(shift)), epsilon=0.25)
        assert not recording.unseen
    gaussian, pure = cost_of(before.moved(after))
    assert (gaussian.noise_multiplier, pure.epsilon) == (2.0, 0.5 + 1.0)
    assert cost_of({("Gaussian", 1.0): [math.inf]}) == (NonPrivate(),)
    noise.bernoulli(3, probability=0.5)
    assert after.unseen, "not added to a value"
