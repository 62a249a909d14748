"""For which nodes of a graph a promise holds. It holds in every graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from caribou._validate import integer, member
from caribou.errors import CertificateError


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

    kind: ScopeKind = ScopeKind.EVERY_GRAPH
    limit: int | None = None

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
    def words(self) -> str:
        """The scope as a phrase after "for"."""
        if self.kind is ScopeKind.EVERY_GRAPH:
            return "every graph"
        if self.kind is ScopeKind.NODES_UP_TO_DEGREE:
            return (
                f"every graph, and in it every node of degree at most {self.limit}; a node of larger degree is promised the "
                "epsilon that the curve by degree gives for it"
            )
        raise CertificateError(f"scope must be known, got {self.kind!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"kind": self.kind.value, "limit": self.limit, "words": self.words}

    @classmethod
    def from_dict(cls, record: Any) -> Scope:
        """The inverse of `to_dict`; words that do not follow from the kind are an error."""
        if not isinstance(record, Mapping) or set(record) != {"kind", "limit", "words"}:
            raise CertificateError(f"scope must have kind, limit and words, got {record!r}")
        made = cls(member(ScopeKind, record["kind"], "scope", CertificateError), record["limit"])
        if record["words"] != made.words:
            raise CertificateError(f"scope must say {made.words!r}, got {record['words']!r}")
        return made

    @staticmethod
    def weakest(scopes: Iterable[Scope]) -> Scope:
        """The scope within which every one of these promises holds: the smallest declared degree."""
        limits = [scope.limit for scope in scopes if scope.limit is not None]
        return Scope(ScopeKind.NODES_UP_TO_DEGREE, min(limits)) if limits else Scope()
