"""GraphML: node attributes are features, ``label`` and ``split``."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from caribou.errors import CaribouError, DataError
from caribou.graph.classes import Classes
from caribou.privacy.budget import PrivacyUnit
from caribou.tables.read import Reading, Titles, build
from caribou.tables.rules import ColumnRules


def read_graphml(
    path: Path,
    titles: Titles,
    name: str,
    classes: Classes | None = None,
    rules: ColumnRules | None = None,
    unit: PrivacyUnit | None = None,
) -> Reading:
    """Read one GraphML file: its attributes by the same rules as a node table. A file that is no GraphML is a `DataError`.

    ``classes``, ``rules`` and ``unit`` as in `read_graph`.
    """
    try:
        content = path.read_bytes()
        declared, keys = _declared(content, path)
        network = _network(content)
        return _reading(network, declared, keys, titles, path, name, classes, rules or ColumnRules(), unit)
    except CaribouError:
        raise
    except Exception as error:  # expat, ElementTree and networkx errors have no common base
        message = " ".join(str(error).split())
        raise DataError(f"{path}: not a readable GraphML file ({type(error).__name__}: {message[:200]})") from error


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


def _network(content: bytes) -> Any:
    import networkx as nx

    return nx.read_graphml(io.BytesIO(content))


def _reading(
    network: Any,
    declared: set[str],
    keys: list[str],
    titles: Titles,
    path: Path,
    name: str,
    classes: Classes | None,
    rules: ColumnRules,
    unit: PrivacyUnit | None,
) -> Reading:
    import pandas as pd

    nodes = list(network.nodes)
    if not nodes:
        raise DataError(f"{path}: must hold at least one node, got none")
    for u, v in network.edges():
        if u not in declared or v not in declared:
            unknown = u if u not in declared else v
            raise DataError(f"{path}: edges must join declared nodes, got the unknown node {unknown!r} in {u!r}-{v!r}")
    if any(set(attributes) - {"id"} for _, _, attributes in network.edges(data=True)):
        warnings.warn(f"{path}: attributes of edges are ignored: edges are unweighted", UserWarning, stacklevel=4)
    defaults = network.graph.get("node_default", {})
    rows = [{**defaults, **network.nodes[node]} for node in nodes]
    optional = {*_optional(keys, titles), *rules.categories, *rules.ignore}
    features = [key for key in keys if key not in optional and rules.fill_of(key) is None]
    for node, row in zip(nodes, rows, strict=True):
        if not any(key in row for key in features):
            continue  # a node without features
        for key in features:
            if key not in row:
                raise DataError(f"{path}: node {node!r}: attribute {key!r} is missing")
    frame = pd.DataFrame({key: pd.Series([row.get(key) for row in rows], dtype=object) for key in keys})
    if not keys:
        frame = pd.DataFrame(index=range(len(nodes)))
    number = {node: k for k, node in enumerate(nodes)}
    pairs = np.array([[number[u], number[v]] for u, v in network.edges()], dtype=np.int64).reshape(-1, 2).T
    ids = np.array([str(node) for node in nodes], dtype=np.str_)
    return build(
        frame,
        titles,
        lambda k: f"{path}: node {nodes[k]!r}",
        path,
        pairs,
        ids,
        name,
        classes=classes,
        rules=rules,
        unit=unit,
    )


def _optional(keys: list[str], titles: Titles) -> set[str]:
    """Attributes that a node may lack: label (unknown) and split (in no part)."""
    default = {"label", "class", "y", "split"}
    named = {title for title in (titles.label, titles.split) if title is not None}
    return {key for key in keys if key in named or key.lower() in default}
