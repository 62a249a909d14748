"""Scopes: an enum with a number, words that follow from it, and the weakest of several."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from caribou.errors import CaribouError, CertificateError
from caribou.privacy.scope import Scope, ScopeKind

EVERY = Scope()
SENDERS = Scope(ScopeKind.TRAINING_NODES, 8)
CAPPED = Scope(ScopeKind.DEGREES_WITHIN_CAP, 20)


def test_kind_and_limit_go_together() -> None:
    assert EVERY.is_every_graph
    assert not CAPPED.is_every_graph
    for kind, limit in (
        (ScopeKind.EVERY_GRAPH, 5),
        (ScopeKind.TRAINING_NODES, None),
        (ScopeKind.DEGREES_WITHIN_CAP, None),
        (ScopeKind.DEGREES_WITHIN_CAP, 0),
        (ScopeKind.DEGREES_WITHIN_CAP, True),
        (ScopeKind.DEGREES_WITHIN_CAP, 2.5),
    ):
        with pytest.raises(CaribouError):
            Scope(kind, limit)  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", [EVERY, SENDERS, CAPPED])
def test_json_is_the_inverse(scope: Scope) -> None:
    assert Scope.from_dict(scope.to_dict()) == scope
    assert (scope.limit is None) or str(scope.limit) in scope.words


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        "every graph",
        {**CAPPED.to_dict(), "limit": 21},
        {**CAPPED.to_dict(), "words": "every graph"},
        {**CAPPED.to_dict(), "kind": "every graph"},
        {**CAPPED.to_dict(), "kind": "most graphs"},
        {**CAPPED.to_dict(), "note": 1},
        {**EVERY.to_dict(), "limit": 3},
    ],
)
def test_other_records_are_refused(record: Any) -> None:
    with pytest.raises(CertificateError):
        Scope.from_dict(record)


def test_the_weakest_implies_all() -> None:
    assert Scope.weakest([]) == EVERY
    assert Scope.weakest([EVERY, EVERY]) == EVERY
    assert Scope.weakest([EVERY, SENDERS]) == SENDERS
    assert Scope.weakest([SENDERS, CAPPED]) == Scope(ScopeKind.DEGREES_WITHIN_CAP, 8)
    for scopes in itertools.permutations([EVERY, SENDERS, CAPPED]):
        assert Scope.weakest(scopes) == Scope(ScopeKind.DEGREES_WITHIN_CAP, 8)
