"""Every broken mechanism of the museum is convicted within its stated number of runs, at epsilon 1 and 8."""

from __future__ import annotations

import pytest

from audit.known_bad_mechanisms import baselines, handling, message_passing, whole_methods
from caribou.audit.distinguish import distinguish
from caribou.audit.verdict import VIOLATED, judge
from caribou.privacy.budget import Budget

MUSEUM = {**message_passing.MECHANISMS, **baselines.MECHANISMS, **handling.MECHANISMS, **whole_methods.MECHANISMS}


def test_the_museum_is_complete() -> None:
    assert len(MUSEUM) == 19


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("name", MUSEUM)
def test_every_exhibit_is_convicted(name: str, epsilon: float) -> None:
    exhibit = MUSEUM[name]
    release, pair, claim = exhibit.make(Budget(epsilon, 1e-5, exhibit.unit))
    evidence = distinguish(release, pair, claim, runs=exhibit.runs, confidence=0.95, name=name)
    verdict = judge(
        {"distinguish": evidence}, claim, confidence=0.95, reproduce=f"distinguish(..., seed={evidence.seed})"
    )
    best = evidence.best
    assert verdict.word == VIOLATED, f"NOT CONVICTED: {name}: {best} of {claim.size}"
    assert verdict.epsilon_lower > epsilon
    assert best.test in verdict.reasons[0]
