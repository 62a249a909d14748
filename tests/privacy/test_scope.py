"""Scopes: an enum with a number, words that follow from it, and the weakest of several."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from caribou.errors import CaribouError
from caribou.privacy.documents import read, write
from caribou.privacy.scope import Scope, ScopeKind

EVERY = Scope()
SMALL = Scope(ScopeKind.NODES_UP_TO_DEGREE, 8)
LARGE = Scope(ScopeKind.NODES_UP_TO_DEGREE, 20)


def test_kind_and_limit_go_together() -> None:
    assert EVERY.is_every_graph
    assert not LARGE.is_every_graph
    for kind, limit in (
        (ScopeKind.EVERY_GRAPH, 5),
        (ScopeKind.NODES_UP_TO_DEGREE, None),
        (ScopeKind.NODES_UP_TO_DEGREE, 0),
        (ScopeKind.NODES_UP_TO_DEGREE, True),
        (ScopeKind.NODES_UP_TO_DEGREE, 2.5),
    ):
        with pytest.raises(CaribouError):
            Scope(kind, limit)  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", [EVERY, SMALL, LARGE])
def test_json_is_the_inverse(scope: Scope) -> None:
    assert read(Scope, write(scope), "scope") == scope
    assert (scope.limit is None) or str(scope.limit) in scope.words


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        "every graph",
        {**write(LARGE), "limit": 21},
        {**write(LARGE), "words": "every graph"},
        {**write(LARGE), "kind": "every graph"},
        {**write(LARGE), "kind": "most graphs"},
        {**write(LARGE), "note": 1},
        {**write(EVERY), "limit": 3},
    ],
)
def test_other_records_are_refused(record: Any) -> None:
    with pytest.raises(CaribouError):
        read(Scope, record, "scope")


def test_the_weakest_implies_all() -> None:
    assert Scope.weakest([]) == EVERY
    assert Scope.weakest([EVERY, EVERY]) == EVERY
    assert Scope.weakest([EVERY, SMALL]) == SMALL
    assert Scope.weakest([LARGE, EVERY]) == LARGE
    assert Scope.weakest([SMALL, LARGE]) == SMALL
    for scopes in itertools.permutations([EVERY, SMALL, LARGE]):
        assert Scope.weakest(scopes) == SMALL
