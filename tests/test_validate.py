"""The one wording of input errors: field, rule and value; NaN fails every rule, and a boolean is no number."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caribou import _validate as v
from caribou.errors import CertificateError, InputError, broken_rule
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
    assert (refused.value.field, refused.value.rule) == ("field", f"be {rule}")
    assert refused.value.value is x


@pytest.mark.parametrize("check", RULES, ids=lambda check: check.__name__)
def test_what_is_no_number_is_refused_by_name(check: Callable[..., float]) -> None:
    for bad in (True, None, "0.5", [0.5]):
        with pytest.raises(InputError) as refused:
            check(delta=bad)
        assert (refused.value.field, refused.value.value) == ("delta", bad)
    with pytest.raises(InputError) as refused:  # too large for a float: shown by its type
        check(delta=10**400)
    assert refused.value.value == "int"
    assert check(delta=np.float32(0.5)) == check(delta=Fraction(1, 2)) == 0.5


def test_whole_numbers() -> None:
    assert v.integer(at_least=1, hops=np.int64(3)) == 3
    assert type(v.integer(at_least=1, hops=np.int64(3))) is int
    for bad in (0, -1, 1.0, True, None, "3"):
        with pytest.raises(InputError) as refused:
            v.integer(at_least=1, hops=bad)
        assert (refused.value.field, refused.value.value) == ("hops", bad)
    assert v.integer(at_least=0, seed=2**53 - 1) == 2**53 - 1
    with pytest.raises(InputError) as refused:
        v.integer(at_least=0, seed=2**53)
    assert refused.value.value == "one of 54 bits"


def test_words() -> None:
    assert v.one_of(("edge", "node"), unit="node") == "node"
    with pytest.raises(InputError, match=r"^unit must be one of edge, node, got 'Node'$"):
        v.one_of(("edge", "node"), unit="Node")


WORDS = st.text(st.characters(categories=["Ll"]), min_size=1).filter(lambda word: word not in ("must", "got"))


@given(WORDS, st.lists(WORDS, min_size=1), st.one_of(st.integers(), st.booleans(), WORDS, st.lists(WORDS)))
def test_an_error_says_field_rule_and_value_however_it_was_made(field: str, words: list[str], value: object) -> None:
    rule = " ".join(words)
    made = InputError.of(field, rule, value, "say so")
    for error in (made, InputError(str(made)), pickle.loads(pickle.dumps(made)), InputError(f"run x: {made}")):
        assert (error.field, error.rule, error.value) == (field, rule, value)
    assert broken_rule("the disk is full") == (None, None, None)


def test_a_member_of_an_enum_by_its_word() -> None:
    assert v.member(PrivacyUnit, "edge", "unit") is PrivacyUnit.EDGE
    for word in ("Edge", "edge ", None, 1, PrivacyUnit.EDGE):
        with pytest.raises(InputError, match="unit must be one of edge, node, got"):
            v.member(PrivacyUnit, word, "unit")
    with pytest.raises(CertificateError, match="unit must be one of"):
        v.member(PrivacyUnit, "", "unit", CertificateError)
