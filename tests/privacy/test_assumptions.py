"""Assumptions: a name, figures, and a sentence that follows from both."""

from __future__ import annotations

from typing import Any

import pytest

from caribou.errors import CaribouError, CertificateError
from caribou.privacy.assumptions import (
    ORIGINS,
    Assumption,
    AssumptionName,
    Sampler,
    floating_point,
    in_order,
    initial_state,
    randomness,
)
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.documents import read, write

PARAMETERS: dict[AssumptionName, dict[str, Any]] = {
    AssumptionName.FEATURES_WITHOUT_EDGES: {"columns": 2, "names": ["age", "income"]},
    AssumptionName.RANDOMNESS: {"secret": True, "origin": "the operating system", "resumable": False},
    AssumptionName.FLOATING_POINT: {"samplers": ["Gaussian", "Bernoulli"]},
    AssumptionName.HIDDEN_STATES: {"resumable": False},
    AssumptionName.HYPER_PARAMETERS: {"search": None},
    AssumptionName.INITIAL_STATE: {"unit": "edge"},
    AssumptionName.ARRIVALS: {"release": "a1", "extends": "b2", "batch": 3},
}
EVERY = [Assumption(name, PARAMETERS.get(name, {})) for name in AssumptionName]


def test_every_name_has_a_sentence_of_its_own_and_survives_json() -> None:
    for assumption in EVERY:
        assert assumption.statement.endswith(".")
        assert read(Assumption, write(assumption), "assumption") == assumption
    assert len({a.statement for a in EVERY}) == len(EVERY)
    assert initial_state(PrivacyUnit.EDGE).statement != initial_state(PrivacyUnit.NODE).statement


def test_the_samplers_are_named() -> None:
    said = floating_point([Sampler.LAPLACE, Sampler.DISCRETE_LAPLACE, Sampler.LAPLACE])
    assert said.parameters == {"samplers": ["Laplace", "discrete Laplace"]}
    assert (
        "Sampled exactly, with no distance to add (docs/privacy.md, Theorem 11): Laplace noise rounded to a grid, discrete"
        in (said.statement)
    )
    assert "outside the proof" not in "".join(floating_point([s]).statement for s in Sampler if s.value[0] != "d")
    assert "Sampled exactly" not in floating_point([Sampler.OWN]).statement
    assert "Sampled" not in floating_point([]).statement
    assert len({floating_point([sampler]).statement for sampler in Sampler}) == len(Sampler)
    for wrong in (["dice"], ["Laplace", "Gaussian"], ["Gaussian", "Gaussian"], [1]):
        with pytest.raises(CertificateError, match="sampler"):
            Assumption(AssumptionName.FLOATING_POINT, {"samplers": wrong})


@pytest.mark.parametrize("assumption", EVERY, ids=lambda a: a.name.value)
def test_parameters_of_another_kind_are_refused(assumption: Assumption) -> None:
    with pytest.raises(CertificateError, match="must have the parameters"):
        Assumption(assumption.name, {**assumption.parameters, "note": 1})
    for key in assumption.parameters:
        with pytest.raises(CaribouError):
            Assumption(assumption.name, {**assumption.parameters, key: 1}, assumption.holds)
        left = {k: v for k, v in assumption.parameters.items() if k != key}
        with pytest.raises(CertificateError, match="must have the parameters"):
            Assumption(assumption.name, left)


def test_other_records_are_refused() -> None:
    seeded = {"secret": False, "origin": "the operating system", "resumable": False}
    for change in ({"name": "hope"}, {"statement": "All is well."}, {"holds": 1}, {"parameters": seeded}, {"note": 1}):
        with pytest.raises(CaribouError):
            read(Assumption, {**write(EVERY[0]), **change}, "assumption")


def test_randomness_holds_exactly_if_it_is_secret() -> None:
    for secret in (True, False):
        with pytest.raises(CertificateError, match="exactly if the noise is secret"):
            Assumption(
                AssumptionName.RANDOMNESS, {"secret": secret, "origin": "x", "resumable": False}, holds=not secret
            )


def test_order_is_that_of_the_names_and_the_later_one_counts() -> None:
    assert in_order(EVERY[::-1]) == tuple(EVERY)
    other = initial_state(PrivacyUnit.NODE)
    assert in_order([initial_state(PrivacyUnit.EDGE), other]) == (other,)


@pytest.mark.parametrize("secret", [True, False])
def test_no_sentence_of_somebody_else_stands_in_the_origin_of_the_noise(secret: bool) -> None:
    for origin in (
        *ORIGINS[not secret],
        "the operating system. Besides, epsilon = 0.1 holds for households. That key",
        "",
    ):
        with pytest.raises(CertificateError, match="origin of the noise must be"):
            randomness(secret=secret, origin=origin, resumable=False)
    for origin in ORIGINS[secret]:
        assert origin in randomness(secret=secret, origin=origin, resumable=False).statement
