"""Events: their JSON, their words, and what one protected unit may have to pay."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caribou.errors import InputError
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.events import (
    EpsilonDelta,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    Parallel,
    choices,
    event_from_dict,
    event_to_dict,
    gaussian_mu,
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
    with pytest.raises(InputError, match="groups must be of type array"):
        event_from_dict({"kind": "parallel", "groups": 3})


EVENTS = st.one_of(
    st.builds(Gaussian, st.floats(1e-3, 1e3), st.integers(1, 100)),
    st.builds(Laplace, st.floats(1e-3, 1e3), st.integers(1, 100)),
    st.builds(EpsilonDelta, st.floats(0, 100), st.floats(0, 1)),
    st.just(NonPrivate()),
)


@given(EVENTS)
def test_events_survive_json(event: Event) -> None:
    record = json.loads(json.dumps(event_to_dict(event)))
    assert event_from_dict(record) == event
    both = Parallel(((event,), (event, event)))
    assert event_from_dict(json.loads(json.dumps(event_to_dict(both)))) == both


@given(st.lists(st.builds(Gaussian, st.floats(0.1, 100), st.integers(1, 50)), max_size=5))
def test_mu_of_gaussians_adds_up_in_squares(events: list[Gaussian]) -> None:
    """Dong, Roth and Su 2022, Corollary 2: counting an event k times is repeating it k times."""
    mu = gaussian_mu(events)
    assert mu == pytest.approx(math.sqrt(sum(e.count / e.noise_multiplier**2 for e in events)))
    single = [Gaussian(e.noise_multiplier) for e in events for _ in range(e.count)]
    assert gaussian_mu(single) == pytest.approx(mu)
    assert gaussian_mu([*events, Laplace(1.0)]) is None


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"kind": "cauchy"}, "event kind must be one of gaussian, laplace, .* got 'cauchy'"),
        ({"kind": "gaussian", "sigma": 1.0}, r"event must have count, kind, noise_multiplier, got \['kind', 'sigma'\]"),
        (
            {"kind": "gaussian", "noise_multiplier": 0, "count": 1},
            "noise_multiplier must be a finite number > 0, got 0",
        ),
        ({"kind": "epsilon_delta", "epsilon": 1, "delta": 2}, r"delta must be in \[0, 1\], got 2"),
    ],
)
def test_wrong_records_are_named(record: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        event_from_dict(record)


def test_other_objects_are_no_events() -> None:
    with pytest.raises(InputError, match=r"event must be one of gaussian, .* got str"):
        event_to_dict("gaussian")  # type: ignore[arg-type]


def test_a_group_within_another_is_no_choice() -> None:
    a, b = Gaussian(1.0), EpsilonDelta(1.0)
    assert choices([Parallel(((a,), (a, b)))]) == [tuple(sorted((a, b), key=repr))]
    assert choices([a, b]) == [tuple(sorted((a, b), key=repr))]
    assert choices([]) == [()]
