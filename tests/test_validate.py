"""The one wording of input errors: field, rule and value; NaN fails every rule, and a boolean is no number."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caribou import _validate as v
from caribou.errors import CertificateError, InputError
from caribou.privacy.budget import PrivacyUnit

RULES: dict[Callable[..., float], tuple[str, Callable[[float], bool]]] = {
    v.positive: ("a finite number > 0", lambda x: 0 < x < math.inf),
    v.positive_or_inf: ("a number > 0 (inf means no privacy)", lambda x: x > 0),
    v.finite: ("a finite number", math.isfinite),
    v.non_negative: ("a finite number >= 0", lambda x: 0 <= x < math.inf),
    v.open_unit_interval: ("in the open interval (0, 1)", lambda x: 0 < x < 1),
    v.unit_interval: ("in [0, 1]", lambda x: 0 <= x <= 1),
    v.half_open_unit_interval: ("in (0, 1]", lambda x: 0 < x <= 1),
    v.below_one: ("in [0, 1)", lambda x: 0 <= x < 1),
}
NUMBERS = st.one_of(st.floats(), st.integers(-3, 3), st.sampled_from([0.0, 1.0, -0.0, math.inf, -math.inf, math.nan]))


@pytest.mark.parametrize("check", RULES, ids=lambda check: check.__name__)
@given(x=NUMBERS)
def test_exactly_the_numbers_of_the_rule_pass(check: Callable[..., float], x: float) -> None:
    rule, holds = RULES[check]
    if holds(x):
        assert check(field=x) == x
        assert type(check(field=x)) is float
        return
    with pytest.raises(InputError) as refused:
        check(field=x)
    assert str(refused.value) == f"field must be {rule}, got {x!r}"


@pytest.mark.parametrize("check", RULES, ids=lambda check: check.__name__)
def test_what_is_no_number_is_refused_by_name(check: Callable[..., float]) -> None:
    rule, _ = RULES[check]
    for bad in (True, None, "0.5", [0.5]):
        with pytest.raises(InputError) as refused:
            check(delta=bad)
        assert str(refused.value) == f"delta must be {rule}, got {bad!r}"
    with pytest.raises(InputError, match="got int"):  # too large for a float: shown by its type
        check(delta=10**400)
    assert check(delta=np.float32(0.5)) == check(delta=Fraction(1, 2)) == 0.5


def test_whole_numbers() -> None:
    assert v.integer(at_least=1, hops=np.int64(3)) == 3
    assert type(v.integer(at_least=1, hops=np.int64(3))) is int
    for bad in (0, -1, 1.0, True, None, "3", math.nan):
        with pytest.raises(InputError) as refused:
            v.integer(at_least=1, hops=bad)
        assert str(refused.value) == f"hops must be a whole number >= 1, got {bad!r}"
    assert v.integer(at_least=0, seed=2**53 - 1) == 2**53 - 1
    with pytest.raises(InputError, match=r"^seed must be a whole number below 2\^53, got one of 54 bits$"):
        v.integer(at_least=0, seed=2**53)


def test_words_and_booleans() -> None:
    assert v.one_of(("edge", "node"), unit="node") == "node"
    with pytest.raises(InputError, match=r"^unit must be one of edge, node, got 'Node'$"):
        v.one_of(("edge", "node"), unit="Node")
    assert v.boolean(flag=False) is False
    for bad in (0, 1, "true", None):
        with pytest.raises(InputError, match=f"^flag must be true or false, got {bad!r}$"):
            v.boolean(flag=bad)


def test_one_field_at_a_time() -> None:
    for arguments in ({}, {"a": 1.0, "b": 2.0}):
        with pytest.raises(TypeError, match="exactly one keyword"):
            v.positive(**arguments)


def test_a_member_of_an_enum_by_its_word() -> None:
    assert v.member(PrivacyUnit, "edge", "unit") is PrivacyUnit.EDGE
    for word in ("Edge", "edge ", None, 1, PrivacyUnit.EDGE):
        with pytest.raises(InputError, match="unit must be one of edge, node, got"):
            v.member(PrivacyUnit, word, "unit")
    with pytest.raises(CertificateError, match="unit must be one of"):
        v.member(PrivacyUnit, "", "unit", CertificateError)
