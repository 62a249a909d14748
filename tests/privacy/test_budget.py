"""Budgets and units: defaults, words, and what is refused."""

from __future__ import annotations

import math
import warnings

import pytest

from caribou.errors import InputError
from caribou.privacy.budget import DEFAULT_DELTA, Budget, PrivacyUnit, warn_of_large_delta


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


def test_budgets_that_promise_nothing_or_leave_nothing_are_refused() -> None:
    """At epsilon = 90 a sampler in double precision drew no noise at all; below 1e-15 the last bit of a count showed."""
    assert [Budget(epsilon).epsilon for epsilon in (2.0**-20, 32, 40, math.inf)] == [2.0**-20, 32, 40, math.inf]
    for epsilon in (math.nextafter(2.0**-20, 0), 1e-15, math.nextafter(40, 41), 89.5, 701):
        with pytest.raises(InputError) as error:
            Budget(epsilon)
        assert str(error.value) == (
            f"epsilon must be between 2^-20 and 40, or inf for no privacy (--epsilon), got {epsilon!r}"
        )


def test_units_say_what_neighbours_are() -> None:
    assert [PrivacyUnit.parse(word) for word in ("edge", PrivacyUnit.NODE)] == [PrivacyUnit.EDGE, PrivacyUnit.NODE]
    assert "differ in one undirected edge" in PrivacyUnit.EDGE.adjacency
    assert "one node zeroed out" in PrivacyUnit.NODE.adjacency
    assert str(Budget(4, 1e-6, "node")) == "epsilon = 4, delta = 1e-06 at node level"


def test_a_delta_above_one_over_n_is_warned_of() -> None:
    """A mechanism that publishes one person at random is (0, 1/n)-DP."""
    with pytest.warns(
        UserWarning, match=r"delta = 1e-05 is above 1/n = 5e-06: it allows to publish a person at random"
    ):
        warn_of_large_delta(Budget(1.0), 200_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_large_delta(Budget(1.0), 100_000)
        warn_of_large_delta(Budget(math.inf), 200_000)


def test_a_budget_for_a_risk() -> None:
    presence, replacement = (Budget.for_risk(0.2, 0.01, unit="node", question=q) for q in ("presence", "replacement"))
    assert presence.unit is PrivacyUnit.NODE
    assert presence.epsilon == pytest.approx(2 * replacement.epsilon, rel=1e-3), "this one or that one is two steps"
    assert Budget.for_risk(0.2, 0.01, gaussian=True).epsilon > presence.epsilon
    with pytest.raises(InputError, match="question must be"):
        Budget.for_risk(0.2, question="who")
