"""GraphML and NetworkX: attributes by the rules of a node table, and the message for each way in which they can be wrong."""

from __future__ import annotations

import networkx as nx
import pytest

from caribou.datasets import read_graph
from caribou.errors import DataError, InputError
from caribou.graph import Graph
from caribou.tables.rules import ColumnRules
from dataset_support import fails
from table_support import RULES, bank, content


class TestGraphml:
    def write(self, folder, old="", new="", source=None):
        text = source.read_text()
        assert old in text
        (folder / "g.graphml").write_text(text.replace(old, new))
        return folder / "g.graphml"

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('<data key="d0">45</data>', "", "node 'bob': attribute 'age' is missing"),
            (">45<", ">x<", "not a readable GraphML file"),
            (">1.75<", ">nan<", "node 'bob': column 'height' must hold .*numbers"),
            (">1.75<", ">inf<", "node 'bob': column 'height' must hold finite numbers, got inf"),
            ('"int"', '"string"', None),
            ('target="dan"', 'target="eve"', "got the unknown node 'eve' in 'cid'-'eve'"),
            ('<node id="dan">', '<node id="ann">', "node ids must be unique, got 'ann' again"),
            ('<node id="dan">', "<node>", "node elements must have an id"),
            (">test<", ">dev<", "node 'dan': column 'split' must be train, val or test, got 'dev'"),
            (">test<", ">val<", "split part test must hold at least one node"),
            ("</graphml>", "", "not a readable GraphML file"),
            ("UTF-8", "no-such-code", "not a readable GraphML file"),
        ],
    )
    def test_changed_files(self, valid_files, tmp_path, old, new, message):
        path = self.write(tmp_path, old, new, valid_files["graphml"][0])
        if message is None:
            assert read_graph(path).features[:, 0].tolist() == [31, 45, 28, 60]
        else:
            fails(message, path)

    def test_text_feature(self, valid_files, tmp_path):
        path = self.write(tmp_path, 'attr.name="label"', 'attr.name="colour"', valid_files["graphml"][0])
        fails("attribute 'colour' is missing", path)
        assert read_graph(path, label_column="colour").class_names == ("blue", "red")

    def test_columns_are_the_declared_attributes(self, valid_files, tmp_path):
        """Not those that some node happens to have: one person's attribute would be a column of everybody."""
        line = '<data key="d0">45</data><data key="d1">1.75</data>'
        source = valid_files["graphml"][0]
        assert read_graph(self.write(tmp_path, line, "", source)).features[1].tolist() == [0, 0]
        extra = '<key id="d9" for="node" attr.name="size" attr.type="double"/>\n  <graph edge'
        text = self.write(tmp_path, "<graph edge", extra, source).read_text()
        for node in ("ann", "bob"):
            with_it = text.replace(f'<node id="{node}">', f'<node id="{node}"><data key="d9">1</data>')
            (tmp_path / "g.graphml").write_text(with_it)
            fails("attribute 'size' is missing", tmp_path / "g.graphml")
        (tmp_path / "g.graphml").write_text(text)
        fails("attribute 'size' is missing", tmp_path / "g.graphml")

    def test_no_entities(self, valid_files, tmp_path):
        laughs = '<!DOCTYPE g [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>\n<graphml'
        path = self.write(tmp_path, "<graphml", laughs, valid_files["graphml"][0])
        fails("a DOCTYPE is not allowed", path)
        path.write_bytes(path.read_text().replace("UTF-8", "UTF-16").encode("utf-16"))
        fails("a DOCTYPE is not allowed", path)

    def test_defaults_weights_and_empty_graphs(self, tmp_path):
        head = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        path = tmp_path / "g.graphml"
        path.write_text(head + '<graph edgedefault="directed"></graph></graphml>')
        fails("must hold at least one node", path)
        path.write_text(
            head + '<key id="a" for="node" attr.name="f" attr.type="int"><default>7</default></key>'
            '<key id="w" for="edge" attr.name="weight" attr.type="double"/><graph edgedefault="directed">'
            '<node id="1"/><node id="2"><data key="a">3</data></node>'
            '<edge source="1" target="2"><data key="w">0.5</data></edge></graph></graphml>'
        )
        with pytest.warns(UserWarning, match="attributes of edges are ignored"):
            graph = read_graph(path)
        assert graph.features.tolist() == [[7], [3]]
        assert graph.num_edges == 1
        path.write_text(head + '<graph edgedefault="directed"><node id="1"/><node id="2"/></graph></graphml>')
        assert read_graph(path).features.shape == (2, 0)


def test_rules_read_attributes_as_they_read_columns(tmp_path) -> None:
    network = nx.path_graph([f"n{k}" for k in range(12)])
    for k, node in enumerate(network):
        network.nodes[node].update(kind="ab"[k % 2], **({} if k == 3 else {"age": float(k)}))
    nx.write_graphml(network, tmp_path / "g.graphml")
    rules = ColumnRules(categories={"kind": ["a", "b"]}, fills={"age": 5}, ranges={"age": (0, 10)})
    graph = read_graph(tmp_path / "g.graphml", rules=rules)
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
    tuples = nx.Graph([((1, 2), (3, 4))])
    with pytest.raises(DataError, match="column 'node' must hold text or whole numbers"):
        Graph.from_networkx(tuples)
