"""Graphs of NetworkX, and of GraphML files: attributes of nodes are read by the rules of a node table."""

from __future__ import annotations

import io
import warnings
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from caribou.errors import CaribouError, DataError, InputError
from caribou.graph.classes import Classes
from caribou.graph.graph import Graph
from caribou.privacy.budget import PrivacyUnit
from caribou.tables import cells as columns
from caribou.tables.inspect import Findings
from caribou.tables.read import LABELS, SPLITS, Reading, Roles, Titles, build, divided
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
    if not all(hasattr(network, part) for part in ("nodes", "edges", "is_directed")):
        raise InputError(f"network must be a graph of NetworkX, got {type(network).__name__}")
    nodes = dict(network.nodes(data=True))
    if not nodes:
        raise InputError("network must have at least one node, got none")
    titles = [str(title) for title in dict.fromkeys(title for row in nodes.values() for title in row)]
    rows = {node: {str(title): cell for title, cell in row.items()} for node, row in nodes.items()}
    protected = None if unit is None else PrivacyUnit.parse(unit)
    reading = _reading(
        network, rows, titles, "network", Titles(label=label, split=split), name, classes, rules, protected
    )
    return divided(reading.require(), seed, "network")


def read_graphml(
    path: Path,
    titles: Titles,
    name: str,
    classes: Classes | None = None,
    rules: ColumnRules | None = None,
    unit: PrivacyUnit | None = None,
) -> Reading:
    """Read one GraphML file. One that is no GraphML is a `DataError`; ``classes``, ``rules`` and ``unit`` as in `read_graph`."""
    import networkx as nx

    try:
        content = path.read_bytes()
        declared, keys = _declared(content, path)
        network = nx.read_graphml(io.BytesIO(content))
        _check(network, declared, path)
        defaults = network.graph.get("node_default", {})
        rows = {node: {**defaults, **row} for node, row in network.nodes(data=True)}
        _require_features(rows, keys, path, titles, rules or ColumnRules())
        return _reading(network, rows, keys, str(path), titles, name, classes, rules, unit)
    except CaribouError:
        raise
    except Exception as error:  # expat, ElementTree and networkx errors have no common base
        message = " ".join(str(error).split())
        raise DataError(f"{path}: not a readable GraphML file ({type(error).__name__}: {message[:200]})") from error


def _reading(
    network: Any,
    rows: Mapping[Hashable, Mapping[str, Any]],
    titles: Sequence[str],
    source: str,
    asked: Titles,
    name: str,
    classes: Classes | None,
    rules: ColumnRules | None,
    unit: PrivacyUnit | None,
) -> Reading:
    """A graph from the attributes of nodes; a missing one is an empty cell."""
    import pandas as pd

    rules, findings, nodes = rules or ColumnRules(), Findings(), list(rows)

    def place(k: int) -> str:
        return f"{source}: node {nodes[k]!r}"

    ids = columns.texts(pd.Series(nodes, dtype=object), "node", place, findings)
    node_ids = columns.unique_ids(ids, "node", place, findings)
    cells = {
        title: pd.Series([row.get(title) for row in rows.values()], dtype=object).infer_objects() for title in titles
    }
    number = {node: k for k, node in enumerate(nodes)}
    pairs = np.array([[number[u], number[v]] for u, v in network.edges()], dtype=np.int64).reshape(-1, 2).T
    roles = Roles.of(titles, asked, rules, source, ids=())
    roles.check(rules, source, findings)
    frame = pd.DataFrame(cells) if cells else pd.DataFrame(index=range(len(nodes)))
    return build(frame, roles, place, source, pairs, node_ids, name, classes, rules, unit, findings)


def _declared(content: bytes, path: Path) -> tuple[set[str], list[str]]:
    """Ids of the ``node`` elements, each once, and the attributes that ``key`` elements declare for nodes.

    The columns are the declared attributes, not those that some node happens to have. Refuses a DOCTYPE: entities could expand
    without bound.
    """
    found: set[str] = set()
    keys: dict[str, None] = {}

    def doctype(*_: Any) -> None:
        raise DataError(f"{path}: a DOCTYPE is not allowed in GraphML (its entities may expand without bound)")

    def start(element: str, attributes: dict[str, str]) -> None:
        kind = element.rpartition(" ")[2]
        if kind == "key" and attributes.get("for", "all") in ("node", "all") and "attr.name" in attributes:
            keys[attributes["attr.name"]] = None
        if kind != "node":
            return
        node = attributes.get("id")
        if node is None:
            raise DataError(f"{path}: node elements must have an id, got one without (node {len(found) + 1})")
        if node in found:
            raise DataError(f"{path}: node ids must be unique, got {node!r} again")
        found.add(node)

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = start
    parser.Parse(content, True)
    return found, list(keys)


def _check(network: Any, declared: set[str], path: Path) -> None:
    """There are nodes, and edges join declared ones."""
    if not network.nodes:
        raise DataError(f"{path}: must hold at least one node, got none")
    for u, v in network.edges():
        if u not in declared or v not in declared:
            unknown = u if u not in declared else v
            raise DataError(f"{path}: edges must join declared nodes, got the unknown node {unknown!r} in {u!r}-{v!r}")
    if any(set(attributes) - {"id"} for _, _, attributes in network.edges(data=True)):
        warnings.warn(f"{path}: attributes of edges are ignored: edges are unweighted", UserWarning, stacklevel=5)


def _require_features(
    rows: Mapping[Hashable, Mapping[str, Any]], keys: Sequence[str], path: Path, titles: Titles, rules: ColumnRules
) -> None:
    """A node has all features or none, but for those with a fill: an attribute that is missing is likely a slip."""
    optional = {titles.label, titles.split, *rules.categories, *rules.ignore}
    features = [
        key
        for key in keys
        if key not in optional and key.lower() not in (*LABELS, *SPLITS) and rules.fill_of(key) is None
    ]
    for node, row in rows.items():
        missing = [key for key in features if key not in row]
        if missing and len(missing) < len(features):
            raise DataError(f"{path}: node {node!r}: attribute {missing[0]!r} is missing")
