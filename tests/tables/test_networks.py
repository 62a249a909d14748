"""NetworkX: attributes by the rules of a node table, and the message for each way in which they can be wrong."""

from __future__ import annotations

import networkx as nx
import pytest

from caribou.errors import DataError, InputError
from caribou.graph import Graph
from caribou.tables.rules import ColumnRules
from table_support import RULES, bank, content


def test_rules_read_attributes_as_they_read_columns() -> None:
    network = nx.path_graph([f"n{k}" for k in range(12)])
    for k, node in enumerate(network):
        network.nodes[node].update(kind="ab"[k % 2], **({} if k == 3 else {"age": float(k)}))
    rules = ColumnRules(categories={"kind": ["a", "b"]}, fills={"age": 5}, ranges={"age": (0, 10)})
    graph = Graph.from_networkx(network, rules=rules)
    row = graph.features[graph.node_ids.tolist().index("n3")]
    assert dict(zip(graph.feature_names, row.tolist(), strict=True)) == {"kind=a": 0, "kind=b": 1, "age": 0.5}
    assert graph.column_rules == rules


def network(kind: type = nx.MultiDiGraph) -> nx.Graph:
    edges, nodes = bank()
    graph = kind()
    for row in nodes.sample(frac=1, random_state=1).to_dict("records"):
        graph.add_node(row.pop("id"), **{key: None if value != value else value for key, value in row.items()})
    known = edges[edges["receiver"] != "x99"]
    graph.add_edges_from(known[["sender", "receiver"]].itertuples(index=False), amount=3)
    return graph


@pytest.mark.filterwarnings("ignore:.*are not used")
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiDiGraph])
def test_a_network_is_the_graph_of_its_tables(kind: type) -> None:
    assert content(Graph.from_networkx(network(kind), rules=RULES)) == content(Graph.from_tables(*bank(), rules=RULES))


def test_problems_of_attributes_are_told_at_once() -> None:
    with pytest.raises(DataError) as caught:
        Graph.from_networkx(network())
    for words in ("--fill income=indicator", "--category segment", "--ignore opened", "--unknown unknown"):
        assert words in str(caught.value)


def test_attributes_by_other_names_and_networks_without_any() -> None:
    path = nx.path_graph(12)
    nx.set_node_attributes(path, {k: "ab"[k % 2] for k in path}, "kind")
    graph = Graph.from_networkx(path, label="kind", name="path")
    assert (graph.class_names, graph.num_features, graph.num_edges, graph.name) == (("a", "b"), 0, 11, "path")
    assert graph.split is not None
    for bad in (nx.Graph(), {"a": 1}):
        with pytest.raises(InputError, match="network must"):
            Graph.from_networkx(bad)
    lone = nx.Graph()
    lone.add_nodes_from([("a", {"node": 1, "id": 2}), ("b", {"node": 3, "id": 4})])
    graph = Graph.from_networkx(lone)
    assert (graph.feature_names, graph.features.tolist(), graph.num_edges) == (("node", "id"), [[1, 2], [3, 4]], 0)
    tuples = nx.Graph([((1, 2), (3, 4))])
    with pytest.raises(DataError, match="column 'node' must hold text or whole numbers"):
        Graph.from_networkx(tuples)
