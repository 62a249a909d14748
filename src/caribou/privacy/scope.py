"""For which nodes of a graph a promise holds. It holds in every graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from caribou._validate import integer
from caribou.errors import CertificateError
from caribou.privacy.documents import Count, Words


class ScopeKind(Enum):
    """How far a promise reaches, from the widest to the narrowest."""

    EVERY_GRAPH = "every graph"
    NODES_UP_TO_DEGREE = "nodes up to a declared degree, in every graph"


@dataclass(frozen=True)
class Scope:
    """The reach of a promise. ``limit``: the declared degree up to which the headline holds; None: for every node.

    >>> Scope.weakest([Scope(), Scope(ScopeKind.NODES_UP_TO_DEGREE, 20), Scope(ScopeKind.NODES_UP_TO_DEGREE, 10)]).limit
    10
    """

    derived: ClassVar[tuple[str, ...]] = ("words",)
    kind: ScopeKind = ScopeKind.EVERY_GRAPH
    limit: Count | None = None

    def __post_init__(self) -> None:
        if (self.limit is None) != (self.kind is ScopeKind.EVERY_GRAPH):
            raise CertificateError(f"scope {self.kind.value!r} must go with its own limit, got {self.limit!r}")
        if self.limit is not None:
            integer(at_least=1, limit=self.limit)

    @property
    def is_every_graph(self) -> bool:
        """Whether the promise needs no condition."""
        return self.kind is ScopeKind.EVERY_GRAPH

    @property
    def words(self) -> Words:
        """The scope as a phrase after "for"."""
        if self.kind is ScopeKind.EVERY_GRAPH:
            return "every graph"
        if self.kind is ScopeKind.NODES_UP_TO_DEGREE:
            return (
                f"every graph, and in it every node of degree at most {self.limit}; a node of larger degree is promised the "
                "epsilon that the curve by degree gives for it"
            )
        raise CertificateError(f"scope must be known, got {self.kind!r}")

    @staticmethod
    def weakest(scopes: Iterable[Scope]) -> Scope:
        """The scope within which every one of these promises holds: the smallest declared degree."""
        limits = [scope.limit for scope in scopes if scope.limit is not None]
        return Scope(ScopeKind.NODES_UP_TO_DEGREE, min(limits)) if limits else Scope()
