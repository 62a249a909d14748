"""The graph record: building, neighbours, columns, and what it tells."""

import copy
import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from caribou.errors import InputError
from caribou.graph import Cleaning, Graph, Split
from graph_support import assert_same, edge_lists, path_graph


def test_literal_graph():
    graph = Graph.from_edges(np.zeros((4, 2)), [[0, 1, 1, 2, 2, 0], [1, 0, 2, 2, 1, 1]], labels=[0, 1, -1, 2])
    assert graph.indptr.tolist() == [0, 1, 3, 4, 4]
    assert graph.indices.tolist() == [1, 0, 2, 1]
    assert graph.indptr.dtype == graph.indices.dtype == np.int32
    assert graph.cleaning == Cleaning(self_loops=1, duplicates=1, one_way=0)
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.degrees.tolist() == [1, 2, 1, 0]
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (4, 2, 2, 3)
    assert graph.adjacency().toarray().tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert graph.neighbours(1).tolist() == [0, 2]


@given(edge_lists())
def test_from_edges_is_symmetric_simple_and_idempotent(case):
    n, edges = case
    graph = Graph.from_edges(np.zeros((n, 1)), edges)
    wanted = {frozenset((int(u), int(v))) for u, v in edges.T if u != v}
    dense = graph.adjacency().toarray()
    assert (dense == dense.T).all()
    assert (np.diag(dense) == 0).all()
    assert {frozenset(pair) for pair in graph.edge_index.T.tolist()} == wanted
    assert graph.num_edges == len(wanted)
    again = Graph.from_edges(np.zeros((n, 1)), graph.edge_index)
    assert_same(graph, again)
    assert again.cleaning == Cleaning()


def test_arrays_cannot_be_written():
    graph = path_graph(split=Split([0], [1], [2]), node_ids=np.arange(4))
    arrays = [
        graph.features,
        graph.indptr,
        graph.indices,
        graph.labels,
        graph.absent,
        graph.node_ids,
        graph.split.train,
    ]
    sparse = Graph.from_edges(sp.csr_matrix(np.eye(4)), graph.edge_index)
    arrays += [sparse.features.data, sparse.features.indices, sparse.features.indptr]
    derived = [graph.without_edge(0, 1), graph.without_node(1), graph.without_edge(0, 1).with_edge(0, 1)]
    arrays += [array for other in derived for array in (other.features, other.indptr, other.indices, other.labels)]
    arrays += [sparse.without_node(1).features.data]
    for restored in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        arrays += [restored.features, restored.indices, restored.split.val]
    for array in arrays:
        if array.size:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        assert not array.flags.writeable
    with pytest.raises(AttributeError):
        graph.name = "other"


def test_later_changes_of_the_inputs_have_no_effect():
    x, edges, labels = np.eye(3), np.array([[0, 1], [1, 2]]), np.array([0, 1, 0])
    sparse = sp.csr_array(np.eye(3))
    view = x.view()
    view.setflags(write=False)  # the base is still writable
    graphs = [Graph.from_edges(source, edges, labels) for source in (x, sparse, view)]
    x[:], edges[:], labels[:], sparse.data[:] = 7, 0, 0, 7
    for graph in graphs:
        features = graph.features.toarray() if sp.issparse(graph.features) else graph.features
        assert features.tolist() == np.eye(3).tolist()
        assert graph.labels.tolist() == [0, 1, 0]
        assert graph.num_edges == 2


def test_repr_tells_no_private_number():
    graph = path_graph(5, split=Split([0], [1], [2]))
    assert repr(graph) == "Graph('path', nodes=5, features=5, classes=2)"


def small_graphs():
    """All graphs with up to four nodes."""
    for n in range(2, 5):
        pairs = list(itertools.combinations(range(n), 2))
        for chosen in itertools.product([False, True], repeat=len(pairs)):
            edges = np.array([p for p, c in zip(pairs, chosen, strict=True) if c], dtype=int).reshape(-1, 2).T
            yield Graph.from_edges(np.ones((n, 2), np.float32), edges, labels=np.arange(n))


def test_edge_neighbours_on_all_small_graphs():
    for graph in small_graphs():
        dense = graph.adjacency().toarray()
        for u, v in itertools.permutations(range(graph.num_nodes), 2):
            assert graph.has_edge(u, v) == bool(dense[u, v])
            changed, undo = ("without_edge", "with_edge") if dense[u, v] else ("with_edge", "without_edge")
            other = getattr(graph, changed)(u, v)
            expected = dense.copy()
            expected[u, v] = expected[v, u] = 1 - dense[u, v]
            # Building again through the constructor checks every rule of the rows.
            checked = Graph(other.features, other.indptr, other.indices, other.labels)
            assert (checked.adjacency().toarray() == expected).all()
            assert_same(getattr(other, undo)(v, u), graph)
            assert (graph.adjacency().toarray() == dense).all()


def test_node_neighbours_on_all_small_graphs():
    for graph in small_graphs():
        dense = graph.adjacency().toarray()
        for v in range(graph.num_nodes):
            other = graph.without_node(v)
            expected = dense.copy()
            expected[v] = expected[:, v] = 0
            checked = Graph(other.features, other.indptr, other.indices, other.labels, absent=other.absent)
            assert (checked.adjacency().toarray() == expected).all()
            assert other.num_nodes == graph.num_nodes
            assert (graph.adjacency().toarray() == dense).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_without_node_takes_everything(sparse):
    x = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    graph = Graph.from_edges(
        sp.csr_array(x) if sparse else x, [[0, 1, 2], [1, 2, 3]], labels=[0, 1, 0, 2], split=Split([0, 3], [1], [2])
    )
    before = pickle.dumps(graph)
    other = graph.without_node(3)
    rows = other.features.toarray() if sparse else other.features
    assert rows.tolist() == [[1, 2], [3, 4], [5, 6], [0, 0]]
    assert other.labels.tolist() == [0, 1, 0, -1]
    assert other.split.train.tolist() == [0]
    assert other.absent.tolist() == [3]
    assert other.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert other.num_classes == 3  # a public fact, although class 2 has no node left
    assert pickle.dumps(graph) == before
    assert other.without_node(0).absent.tolist() == [0, 3]
    with pytest.raises(InputError, match="absent node 3"):
        other.without_node(3)
    with pytest.raises(InputError, match="absent node 3"):
        other.with_edge(0, 3)
    with pytest.raises(InputError, match="no edge, feature, label or part, got node 3"):
        other.with_split(Split([0], [1], [3]))


def test_wrong_neighbours_are_refused():
    graph = path_graph()
    for call, message in (
        (lambda: graph.without_edge(0, 2), "needs an edge of the graph, got 0-2"),
        (lambda: graph.with_edge(0, 1), "got the edge 0-1"),
        (lambda: graph.with_edge(2, 2), "two different nodes, got 2-2"),
        (lambda: graph.without_node(4), "below 4, got 4"),
        (lambda: graph.has_edge(0, -1), "whole number >= 0, got -1"),
        (lambda: graph.has_edge(0, 1.5), "whole number >= 0, got 1.5"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_summary():
    graph = Graph.from_edges(np.eye(4), [[0, 1, 1], [1, 2, 1]], labels=[0, 0, 1, -1], split=Split([0], [1], [2]))
    summary = graph.summary()
    expected = {"nodes": 4, "edges": 2, "features": 4, "classes": 2, "train": 1, "isolated": 1, "self_loops_dropped": 1}
    assert {key: summary[key] for key in expected} == expected
    assert summary["class_counts"] == [2, 1]
    assert summary["homophily"] == 0.5


def test_columns_are_put_in_order_by_name() -> None:
    dense = np.arange(6.0).reshape(2, 3)
    for features in (dense, sp.csr_array(dense)):
        graph = Graph.from_edges(features, np.empty((2, 0), int), feature_names=["a", "b", "c"])
        swapped = graph.with_columns(["c", "a", "b"])
        found = swapped.features.toarray() if sp.issparse(swapped.features) else swapped.features
        np.testing.assert_array_equal(found, dense[:, [2, 0, 1]])
        assert swapped.feature_names == ("c", "a", "b")
        assert graph.with_columns(("a", "b", "c")) is graph
        with pytest.raises(
            InputError, match="feature columns must be 'a', 'x', got a graph without 'x' and with 'b', 'c'"
        ):
            graph.with_columns(["a", "x"])
    with pytest.raises(InputError, match="one entry per feature column"):
        Graph.from_edges(dense, np.empty((2, 0), int), feature_names=["a"])
    with pytest.raises(InputError, match="different strings"):
        Graph.from_edges(dense, np.empty((2, 0), int), feature_names=["a", "a", "b"])


def test_the_first_nodes_do_not_tell_that_a_node_was_removed() -> None:
    graph = Graph.from_edges(
        np.eye(6), [[0, 1], [1, 2]], labels=[0, 1] * 3, split=Split([0, 1, 2, 3], [4], [5]), node_ids=range(6)
    )
    assert graph.first_nodes(5).split.declared == (4, 1, 0)
    with pytest.raises(InputError, match="first_nodes needs a split that no node was taken out of"):
        graph.without_node(1).first_nodes(5)
    month = graph.without_node(1).with_split(None).first_nodes(5)
    assert month.absent.tolist() == [1]
    assert graph.with_prior(np.full((6, 2), 0.5)).first_nodes(5).prior.shape == (5, 2)


def test_one_class_is_nothing_to_learn() -> None:
    graph = Graph.from_edges(np.zeros((3, 1)), [[0], [1]], labels=[0, 0, 0], split=Split([0], [1], [2]))
    with pytest.raises(InputError, match="at least 2 classes, got 1"):
        graph.for_learning()


def test_the_first_nodes_are_the_subgraph_of_an_earlier_month() -> None:
    rng = np.random.default_rng(4)
    pairs = rng.integers(0, 30, (2, 90))
    graph = Graph.from_edges(
        rng.normal(size=(30, 2)),
        pairs,
        labels=rng.integers(0, 3, 30),
        split=Split(range(20), range(20, 25), range(25, 30)),
        node_ids=np.arange(30),
    )
    for count in (1, 12, 22, 30):
        first = graph.first_nodes(count)
        inside = (pairs < count).all(axis=0)
        again = Graph.from_edges(graph.features[:count], pairs[:, inside], labels=graph.labels[:count])
        assert first.edge_index.tolist() == again.edge_index.tolist()
        assert first.features.tolist() == again.features.tolist()
        assert first.split.sizes == (min(count, 20), max(0, min(count, 25) - 20), max(0, count - 25))
        assert (first.num_classes, len(first.node_ids)) == (3, count)
    for wrong in (0, 31):
        with pytest.raises(InputError, match="count must be"):
            graph.first_nodes(wrong)


@pytest.mark.parametrize("sparse", [False, True])
def test_nodes_are_moved_with_all_that_is_theirs(sparse: bool) -> None:
    """Any places, some of them nobody's, some nodes left out: checked again by the constructor, and moved back to what was."""
    rng = np.random.default_rng(0)
    n, total = 12, 15
    x = rng.normal(size=(n, 3))
    graph = Graph.from_edges(
        sp.csr_array(x) if sparse else x,
        rng.integers(0, n, (2, 30)),
        labels=rng.integers(0, 3, n),
        split=Split([0, 1, 2], [3, 4], [5]),
        node_ids=[f"p{k}" for k in range(n)],
    )
    graph = graph.with_prior(rng.dirichlet(np.ones(3), n)).without_node(7)
    place = rng.permutation(total)[:n]
    moved = graph.placed(place, total)
    assert {frozenset(pair) for pair in moved.edge_index.T.tolist()} == {
        frozenset(place[list(pair)].tolist()) for pair in graph.edge_index.T.tolist()
    }
    assert moved.node_ids is None, "some places have no node"
    Graph(moved.features, moved.indptr, moved.indices, moved.labels, moved.split, absent=moved.absent)
    back = np.full(total, -1)
    back[place] = np.arange(n)
    again = moved.placed(back, n)
    assert_same(again, replace(graph, node_ids=None))
    np.testing.assert_array_equal(again.prior, graph.prior)
    assert graph.placed(rng.permutation(n), n).node_ids.tolist() != graph.node_ids.tolist()


def test_declared_sizes_stay_where_nodes_are_moved() -> None:
    """A node without a label is counted in its part: the lengths of the lists are private at node level."""
    graph = Graph.from_edges(np.eye(4), [[0], [1]], labels=[0, 1, -1, 0], num_classes=2, split=Split([0, 2], [1], [3]))
    assert graph.split.declared == (2, 1, 1)
    assert graph.placed(np.array([3, 2, 1, 0]), 4).split.declared == (2, 1, 1)
