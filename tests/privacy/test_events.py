"""Events: their JSON, their words, and what one protected unit may have to pay."""

from __future__ import annotations

import pytest

from caribou.errors import InputError
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.events import (
    EpsilonDelta,
    Gaussian,
    Laplace,
    Parallel,
    choices,
    event_from_dict,
    event_to_dict,
)


def test_parallel_events() -> None:
    gaussian, pure = Gaussian(2.0), EpsilonDelta(1.0)
    both = Parallel(((gaussian,), (pure,), (gaussian, Laplace(9.0))))
    assert event_from_dict(event_to_dict(both)) == both
    assert choices([both]) == [(gaussian, Laplace(9.0)), (pure,)]
    assert len(choices([both] * 5)) == 6, "equal releases are not told apart"
    alone = max(epsilon_of(group, 1e-5) for group in both.groups)
    assert epsilon_of([both], 1e-5) == alone
    many = [Parallel(((Gaussian(50.0 + k),), (EpsilonDelta(0.01 + k / 1000),))) for k in range(8)]
    assert min(map(len, choices(many))) >= 14, "too many to be compared one by one: all are charged"
    for bad in ((), ((both,),)):
        with pytest.raises(InputError, match="groups must be"):
            Parallel(bad)
    with pytest.raises(InputError, match="parallel"):
        event_from_dict({"kind": "parallel", "groups": 3})
