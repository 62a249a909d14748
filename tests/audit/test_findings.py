"""What every attack is asked and answers: records that share nothing and tell nobody by default."""

from __future__ import annotations

import dataclasses

import pytest

from caribou.audit.findings import Findings, Terms, no_progress


def test_findings_are_empty_by_default_and_share_nothing() -> None:
    one, two = Findings(), Findings()
    assert [one.measured, one.proofs, one.skipped, one.notes, one.untried] == [{}, {}, {}, (), ()]
    assert one.measured is not two.measured
    assert one.proofs is not one.measured
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.notes = ("changed",)  # type: ignore[misc]


def test_terms_leave_the_runs_to_the_attack_and_tell_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    terms = Terms()
    assert terms.runs is None
    assert (terms.confidence, terms.workers) == (0.95, 1)
    assert terms.progress is no_progress
    terms.progress("linkteller", 1, 3, 0.0)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
