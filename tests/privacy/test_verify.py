"""Verification by figures alone, without the methods: what it finds, and what it then says is declared."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from caribou.errors import CertificateError, InputError
from caribou.privacy.assumptions import AssumptionName, Sampler, floating_point
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.verify import Verification, verify
from certificate_support import (
    PRIVATE,
    assume,
    certificates,
    document,
    edits,
    forget,
    is_declared,
    own_certificate,
    recounted,
    reload,
    same,
)


def outcome(record: dict[str, Any]) -> Verification | None:
    """The verification of an edited document, None where it is refused as a document."""
    try:
        return verify(reload(record))
    except CertificateError:
        return None


@pytest.mark.parametrize("name", PRIVATE)
def test_the_figures_of_every_method_follow_from_each_other(name: str) -> None:
    result = verify(certificates()[name])
    assert result.passed
    assert {"released", "public_parameters", "mechanisms: complete"} <= set(result.declared)


@pytest.mark.parametrize("name", ["votes-edp", "mlp-dp", "sage-ndp", "search of pairs"])
def test_what_figures_do_not_determine_passes_and_is_declared(name: str) -> None:
    record = document(name)
    for kind, path, changed in edits(record):
        found = None if same(changed, record) or kind not in ("other words", "1 % more") else outcome(changed)
        if found is not None and found.passed:
            assert is_declared(kind, path, found.declared), (kind, path)


def test_a_mechanism_that_does_not_count_can_be_left_out_and_that_is_declared() -> None:
    record = document("votes-ndp")
    record["mechanisms"] = record["mechanisms"][:-1]
    assume(record, floating_point([Sampler.GAUSSIAN]))
    result = verify(reload(recounted(record)))
    assert result.passed
    assert "mechanisms: complete" in result.declared


def test_a_mechanism_of_ones_own_is_declared_as_a_whole() -> None:
    record = json.loads(own_certificate().to_json())
    result = verify(reload(record))
    assert result.passed
    assert {"mechanisms.0.costs", "mechanisms.0.details", "mechanisms.0.theorem"} <= set(result.declared)
    for kind, path, changed in edits(record):
        if same(changed, record):
            continue
        found = outcome(changed)
        if found is not None and found.passed:
            assert is_declared(kind, path, found.declared), (kind, path)
    # a known mechanism that is passed off as one's own is not recomputed any more, and that is said
    laundered = document("embeddings, edge")
    m = laundered["mechanisms"][0]
    m["mechanism"] = Mechanism.OWN.value
    paid, why = m["costs"], m["theorem"]
    m["details"] = {"unit": "edge", "why": why, "paid": paid, "reads": True, "declared_degree": None, "notes": {}}
    forget(laundered, AssumptionName.INITIAL_STATE)
    assume(laundered, floating_point([Sampler.OWN]))
    found = verify(reload(laundered))
    assert found.passed
    assert "mechanisms.0.costs" in found.declared


def _refuses(_: Any) -> None:
    raise InputError.of("hops", "be at least 1", 0)


@pytest.mark.parametrize(("remake", "passed"), [(lambda _: None, True), (_refuses, False)])
def test_a_plan_that_nobody_can_make_is_declared_and_one_that_is_refused_fails(
    remake: Callable[[Any], None], passed: bool
) -> None:
    result = verify(certificates()["votes-edp"], remake)
    assert result.passed is passed
    assert "released" in result.declared
    assert [check.name for check in result.checks if not check.passed] == [] if passed else ["plan"]
