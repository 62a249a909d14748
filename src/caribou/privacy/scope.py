"""For which graphs, and for which nodes of them, a promise holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from caribou._validate import integer
from caribou.errors import CertificateError


class ScopeKind(Enum):
    """How far a promise reaches, from the widest to the narrowest."""

    EVERY_GRAPH = "every graph"
    TRAINING_NODES = "training nodes of every graph"
    DEGREES_WITHIN_CAP = "graphs within the degree cap"


@dataclass(frozen=True)
class Scope:
    """The reach of a promise. ``limit``: the public number M that it depends on; None for every graph.

    >>> Scope.weakest([Scope(), Scope(ScopeKind.DEGREES_WITHIN_CAP, 20), Scope(ScopeKind.DEGREES_WITHIN_CAP, 10)]).limit
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
        if self.kind is ScopeKind.TRAINING_NODES:
            return (
                "training nodes of every graph; validation and test nodes of graphs in which no training node has more than "
                f"{self.limit} neighbours outside the training set"
            )
        if self.kind is ScopeKind.DEGREES_WITHIN_CAP:
            return (
                f"graphs whose degrees are all at most the degree cap {self.limit}; where a larger degree had to be cut, a node "
                "can cost more, and this certificate promises nothing"
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
        for kind in ScopeKind:
            if record["kind"] == kind.value:
                made = cls(kind, record["limit"])
                if record["words"] != made.words:
                    raise CertificateError(f"scope must say {made.words!r}, got {record['words']!r}")
                return made
        raise CertificateError(f"scope must be one of {', '.join(k.value for k in ScopeKind)}, got {record['kind']!r}")

    @staticmethod
    def weakest(scopes: Iterable[Scope]) -> Scope:
        """A scope within which every one of these promises holds.

        Degrees within the smallest limit imply both conditions: no sender then has more receivers than degrees.
        """
        limited = [scope for scope in scopes if not scope.is_every_graph]
        if not limited:
            return Scope()
        order = list(ScopeKind)
        kind = max((scope.kind for scope in limited), key=order.index)
        return Scope(kind, min(scope.limit for scope in limited if scope.limit is not None))
