"""The whole audit: both doors of a method are watched, and a claim is held against what was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from audit.broken.whole_methods import (
    CleanFit,
    CleanPredict,
    CleanRelease,
    HalfNoiseInTheFit,
    LargerClaim,
    LargerSensitivityOfTheFit,
    Sound,
)
from caribou.audit.auditor import Audit, Outcome
from caribou.audit.verdict import CONSISTENT, VIOLATED
from caribou.methods import Method
from caribou.privacy.budget import Budget


def audit(method: Method, epsilon: float = 4.0, runs: int = 400, **settings: Any) -> Outcome:
    return Audit("mine", method, Budget(epsilon, 1e-5), None, ("distinguish",), runs, workers=1, **settings).run()


def test_a_sound_method_is_consistent_and_its_fits_need_no_game() -> None:
    outcome = audit(Sound())
    assert outcome.verdict.word == CONSISTENT, outcome.verdict.reasons
    assert list(outcome.games) == ["distinguish"]
    assert "noisy values are the same" in outcome.to_json()["skipped"]["fit"]


@pytest.mark.parametrize(
    ("method", "game"), [(CleanFit(), "fit"), (HalfNoiseInTheFit(), "fit"), (CleanRelease(), "distinguish")]
)
def test_a_fit_and_a_release_are_both_watched(method: Method, game: str) -> None:
    outcome = audit(method)
    assert outcome.verdict.word == VIOLATED
    assert [name for name, evidence in outcome.games.items() if evidence.refuted] == [game]


def test_a_fit_with_a_larger_sensitivity_is_played() -> None:
    outcome = audit(LargerSensitivityOfTheFit(), runs=120)
    assert [name for name, evidence in outcome.games.items() if evidence.refuted] == ["fit"]


def test_predictions_about_the_private_graph_are_watched() -> None:
    outcome = audit(CleanPredict(), runs=160)
    assert outcome.verdict.word == VIOLATED
    assert outcome.games["distinguish"].refuted


def test_a_claim_beyond_what_was_asked_for_is_violated() -> None:
    outcome = audit(LargerClaim(), epsilon=1.0, runs=40)
    assert outcome.verdict.word == VIOLATED
    assert "claims epsilon = 8" in outcome.verdict.reasons[0]
    assert "epsilon = 1.0" in outcome.verdict.reasons[0]
