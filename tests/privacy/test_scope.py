"""Scopes: an enum with a number, words that follow from it, and the weakest of several."""

from __future__ import annotations

import itertools

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


def test_other_records_are_refused() -> None:
    for change in ({"limit": 21}, {"words": "every graph"}, {"kind": "every graph"}, {"kind": "most graphs"}):
        with pytest.raises(CaribouError):
            read(Scope, {**write(LARGE), **change}, "scope")
    with pytest.raises(CaribouError):
        read(Scope, {**write(EVERY), "limit": 3}, "scope")


def test_the_weakest_implies_all() -> None:
    assert Scope.weakest([]) == EVERY
    assert Scope.weakest([EVERY, EVERY]) == EVERY
    assert Scope.weakest([EVERY, SMALL]) == SMALL
    assert Scope.weakest([LARGE, EVERY]) == LARGE
    assert Scope.weakest([SMALL, LARGE]) == SMALL
    for scopes in itertools.permutations([EVERY, SMALL, LARGE]):
        assert Scope.weakest(scopes) == SMALL
