"""Graphs of NetworkX: attributes of nodes are read by the rules of a node table."""

from __future__ import annotations

from typing import Any

import numpy as np

from caribou.errors import InputError
from caribou.graph.classes import Classes
from caribou.graph.graph import Graph
from caribou.privacy.budget import PrivacyUnit
from caribou.tables import cells as columns
from caribou.tables.inspect import Findings
from caribou.tables.read import Roles, Titles, build, divided
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
    rows = [{str(title): cell for title, cell in row.items()} for _, row in network.nodes(data=True)]
    if not rows:
        raise InputError("network must have at least one node, got none")
    rules, findings, nodes = rules or ColumnRules(), Findings(), list(network.nodes)

    def place(k: int) -> str:
        return f"network: node {nodes[k]!r}"

    ids = columns.texts(pd.Series(nodes, dtype=object), "node", place, findings)
    node_ids = columns.unique_ids(ids, "node", place, findings)
    titles = list(dict.fromkeys(title for row in rows for title in row))
    # a missing attribute is an empty cell
    cells = {title: pd.Series([row.get(title) for row in rows], dtype=object).infer_objects() for title in titles}
    number = {node: k for k, node in enumerate(nodes)}
    pairs = np.array([[number[u], number[v]] for u, v in network.edges()], dtype=np.int64).reshape(-1, 2).T
    roles = Roles.of(titles, Titles(label=label, split=split), rules, "network", ids=())
    roles.check(rules, "network", findings)
    frame = pd.DataFrame(cells, index=range(len(nodes)))
    protected = None if unit is None else PrivacyUnit.parse(unit)
    reading = build(frame, roles, place, "network", pairs, node_ids, name, classes, rules, protected, findings)
    return divided(reading.require(), seed, "network")
