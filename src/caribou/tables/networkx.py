"""NetworkX: a graph from a ``networkx`` graph. Its nodes and their attributes are read by the rules of a node table."""

from __future__ import annotations

from typing import Any

import numpy as np

from caribou.errors import InputError
from caribou.graph.classes import Classes
from caribou.graph.graph import Graph
from caribou.privacy.budget import PrivacyUnit
from caribou.tables import cells as columns
from caribou.tables.inspect import Findings
from caribou.tables.read import Titles, build, divided
from caribou.tables.rules import ColumnRules


def graph_from_networkx(
    network: Any,
    name: str,
    seed: int,
    label: str | None,
    split: str | None,
    classes: Classes | None,
    rules: ColumnRules | None,
    unit: PrivacyUnit | str | None,
) -> Graph:
    """See `Graph.from_networkx`."""
    import pandas as pd

    if not all(hasattr(network, part) for part in ("nodes", "edges", "is_directed")):
        raise InputError(f"network must be a graph of NetworkX, got {type(network).__name__}")
    nodes = list(network.nodes(data=True))
    if not nodes:
        raise InputError("network must have at least one node, got none")
    rules, findings = rules or ColumnRules(), Findings()

    def place(k: int) -> str:
        return f"network: node {nodes[k][0]!r}"

    ids = columns.texts(pd.Series([node for node, _ in nodes], dtype=object), "node", place, findings)
    node_ids = columns.unique_ids(ids, "node", place, findings)
    titles = dict.fromkeys(title for _, attributes in nodes for title in attributes)
    cells = {
        str(title): pd.Series([attributes.get(title) for _, attributes in nodes], dtype=object).infer_objects()
        for title in titles
    }
    frame = pd.DataFrame(cells) if cells else pd.DataFrame(index=range(len(nodes)))
    number = {node: k for k, (node, _) in enumerate(nodes)}
    pairs = np.array([[number[u], number[v]] for u, v in network.edges()], dtype=np.int64).reshape(-1, 2).T
    reading = build(
        frame,
        Titles(label=label, split=split),
        place,
        "network",
        pairs,
        node_ids,
        name,
        classes=classes,
        rules=rules,
        unit=None if unit is None else PrivacyUnit.parse(unit),
        findings=findings,
    )
    return divided(reading.require(), seed, "network")
