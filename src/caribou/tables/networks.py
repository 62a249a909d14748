"""Graphs of NetworkX: nodes with their attributes, and edges, as two frames."""

from __future__ import annotations

from typing import Any

from caribou.errors import InputError
from caribou.graph.checks import reading_call


def frames_of(network: Any) -> tuple[Any, Any, str]:
    """Edges from ``source`` to ``target``, and nodes with their attributes, whose ids are in the column that is named last."""
    import pandas as pd

    if not all(hasattr(network, part) for part in ("nodes", "edges", "is_directed")):
        raise InputError(f"network must be a graph of NetworkX, got {type(network).__name__}{reading_call(network)}")
    rows = [{str(title): cell for title, cell in row.items()} for _, row in network.nodes(data=True)]
    if not rows:
        raise InputError("network must have at least one node, got none")
    titles = list(dict.fromkeys(title for row in rows for title in row))
    own = "node"
    while own in titles:  # an attribute may be called so
        own += "_"
    # a missing attribute is an empty cell
    cells = {title: pd.Series([row.get(title) for row in rows], dtype=object).infer_objects() for title in titles}
    nodes = pd.DataFrame({own: pd.Series(list(network.nodes), dtype=object), **cells})
    ends = [pd.Series(end, dtype=object) for end in zip(*network.edges(), strict=True)] or [[], []]
    return pd.DataFrame(dict(zip(("source", "target"), ends, strict=True)), dtype=object), nodes, own
