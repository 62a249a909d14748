"""Budgets and units: defaults, words, and what is refused."""

from __future__ import annotations

import math

import pytest

from caribou.errors import InputError
from caribou.privacy.budget import DEFAULT_DELTA, Budget, PrivacyUnit


def test_budget() -> None:
    assert Budget(1).delta == DEFAULT_DELTA
    assert Budget(1, unit=PrivacyUnit.NODE).unit is PrivacyUnit.NODE
    assert not Budget(math.inf).is_private
    assert "no privacy" in str(Budget(math.inf))
    for epsilon in (0, -1, math.nan, "4", None):
        with pytest.raises(InputError, match="epsilon must be a number > 0"):
            Budget(epsilon)  # type: ignore[arg-type]
    for delta in (0, 1, 1.5, -1e-5, math.nan):
        with pytest.raises(InputError, match="delta must be in the open interval"):
            Budget(1, delta)
    with pytest.raises(InputError, match="unit must be one of edge, node"):
        Budget(1, unit="Edge")
