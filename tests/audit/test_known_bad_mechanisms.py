"""Known bad mechanisms: the audit rejects the claim of each within its stated number of runs, at epsilon 1 and 8."""

from __future__ import annotations

import pytest

from audit.known_bad_mechanisms import edge_level, node_level, whole_methods
from caribou.audit.distinguish import distinguish
from caribou.audit.verdict import VIOLATED, judge
from caribou.privacy.budget import Budget

pytestmark = pytest.mark.usefixtures("remembered_accounts")
KNOWN_BAD = {**edge_level.MECHANISMS, **node_level.MECHANISMS, **whole_methods.MECHANISMS}


def test_none_is_missing() -> None:
    assert len(KNOWN_BAD) == 30


@pytest.mark.parametrize("name", KNOWN_BAD)
def test_every_claim_is_rejected(name: str) -> None:
    bad = KNOWN_BAD[name]
    for epsilon in (1.0, 8.0):
        target, pair, claim = bad.make(Budget(epsilon, 1e-5, bad.unit))
        evidence = distinguish(target, pair, claim, runs=bad.runs, confidence=0.95)
        verdict = judge({"distinguish": evidence}, claim, confidence=0.95)
        best = evidence.best
        assert verdict.word == VIOLATED, f"NOT REJECTED: {name} at {epsilon}: {best} of {claim.size}"
        assert verdict.epsilon_lower > epsilon
        assert best.test in verdict.reasons[0]
