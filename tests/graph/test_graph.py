"""Tests of the graph record: building, rules, neighbours, splits, PyG."""

import copy
import itertools
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from caribou.datasets import read_graph, write_graph
from caribou.errors import InputError
from caribou.graph import Cleaning, Graph, Split


def path_graph(n=4, **changes):
    fields = {"labels": np.arange(n) % 2, "name": "path", **changes}
    return Graph.from_edges(np.eye(n, dtype=np.float32), [np.arange(n - 1), np.arange(1, n)], **fields)


def assert_same(a, b):
    """Every field that a reader can see is equal."""
    assert sp.issparse(a.features) == sp.issparse(b.features)
    assert a.features.dtype == b.features.dtype
    assert a.features.shape == b.features.shape
    left, right = (g.features.toarray() if sp.issparse(g.features) else g.features for g in (a, b))
    np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(a.indptr, b.indptr)
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_array_equal(a.absent, b.absent)
    assert (a.labels is None) == (b.labels is None)
    if a.labels is not None:
        np.testing.assert_array_equal(a.labels, b.labels)
    assert (a.split is None) == (b.split is None)
    if a.split is not None:
        for part in ("train", "val", "test"):
            np.testing.assert_array_equal(getattr(a.split, part), getattr(b.split, part))
    assert a.num_classes == b.num_classes
    assert a.class_names == b.class_names


@st.composite
def edge_lists(draw):
    n = draw(st.integers(1, 7))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))
    return n, np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def test_import_is_light():
    code = "import sys, caribou.graph, caribou.datasets; print([m for m in sys.modules if m in sys.argv])"
    heavy = ["torch", "torch_geometric", "pandas", "pyarrow", "networkx"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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


def test_many_repetitions_do_not_wrap_around():
    # 256 copies of one entry sum to 0 in 8 bits; the edge must still be there.
    graph = Graph.from_edges(np.zeros((2, 1)), np.tile([[0], [1]], 256))
    assert graph.num_edges == 1
    assert graph.cleaning == Cleaning(duplicates=255, one_way=1)


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


@given(edge_lists())
def test_cleaning_counts_every_entry_once(case):
    n, edges = case
    cleaning = Graph.from_edges(np.zeros((n, 1)), edges).cleaning
    entries = [(int(u), int(v)) for u, v in edges.T]
    proper = [pair for pair in entries if pair[0] != pair[1]]
    assert cleaning.self_loops == len(entries) - len(proper)
    assert cleaning.duplicates == len(proper) - len(set(proper))
    assert cleaning.one_way == sum((v, u) not in set(proper) for u, v in set(proper))


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


def test_feature_types():
    assert path_graph().features.dtype == np.float32
    for dtype, kept in ((np.float64, np.float64), (np.float16, np.float32), (np.int8, np.float32), (bool, np.float32)):
        assert Graph.from_edges(np.ones((2, 1), dtype), [[0], [1]]).features.dtype == kept
    for kind in (sp.csr_matrix, sp.csc_matrix, sp.coo_array):
        graph = Graph.from_edges(kind(np.eye(3, dtype=np.int16)), [[0], [1]])
        assert isinstance(graph.features, sp.csr_array)
        assert graph.features.dtype == np.float32
        assert (graph.features @ np.eye(3)).tolist() == np.eye(3).tolist()
    assert Graph.from_edges(np.zeros((3, 0)), [[0], [1]]).num_features == 0


BAD = [
    ({"features": np.zeros(3)}, "2-D"),
    ({"features": np.zeros((0, 2)), "edges": np.empty((2, 0))}, "between 1 and"),
    ({"features": np.array([["a"]] * 3)}, "features must be numbers"),
    ({"features": np.array([[0, 1], [2, np.nan], [0, 0]])}, "got nan in row 1, column 1"),
    ({"features": np.array([[0, 1], [2, 3], [-np.inf, 0]])}, "got -inf in row 2, column 0"),
    ({"features": sp.csr_array(np.array([[0, 1], [0, np.inf], [0, 0]]))}, "got inf in row 1, column 1"),
    ({"edges": [[0, 1, 2]]}, r"2 x E array, got shape \(1, 3\)"),
    ({"edges": [[0.0], [1.0]]}, "edges must be integers, got float64"),
    ({"edges": [[True], [False]]}, "edges must be integers, got bool"),
    ({"edges": [[0, 1], [1, 3]]}, r"in \[0, 3\), got 3 at edges\[1, 1\]"),
    ({"edges": [[0, -1], [1, 2]]}, r"got -1 at edges\[0, 1\]"),
    ({"edges": np.array([[0], [2**63]], dtype=np.uint64)}, r"at edges\[1, 0\]"),
    ({"labels": [0, 1]}, r"one entry per node \(3\), got 2"),
    ({"labels": [0, -2, 1]}, "got -2 at node 1"),
    ({"labels": [0, 2**40, 1]}, "below 2"),
    ({"labels": [0.0, 1.0, 1.0]}, "1-D integer array, got float64"),
    ({"labels": [[0], [1], [1]]}, "1-D integer array"),
    ({"labels": [0, -1, 1], "split": Split([0, 1], [], [2])}, "got node 1 without a label"),
    ({"split": Split([0], [1], [2])}, "needs labels"),
    ({"labels": [0, 1, 1], "split": Split([0], [1], [3])}, "below 3, got 3"),
    ({"labels": [0, 1, 1], "split": ([0], [1], [2])}, "split must be a Split, got tuple"),
    ({"labels": [0, 1, 2], "class_names": ("a", "b")}, r"number of classes \(2\), got 2"),
    ({"labels": [0, 1, 2], "num_classes": 2}, r"number of classes \(2\), got 2"),
    ({"class_names": ("a", 1)}, "class_names must be strings"),
    ({"class_names": ("a", "b"), "num_classes": 3}, "num_classes = 3"),
    ({"num_classes": -1}, "num_classes must be a whole number"),
    ({"node_ids": ["a", "b"]}, "one entry per node"),
    ({"node_ids": ["a", "b", "a"]}, "unique, got 1 repeated"),
    ({"node_ids": [0.5, 1, 2]}, "whole numbers or strings"),
    ({"name": ""}, "name must be a non-empty string"),
    ({"absent": [5]}, "absent must hold node indices below 3"),
    ({"absent": [0]}, "got node 0 with one"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_input_is_named(changes, message):
    arguments = {"features": np.zeros((3, 2)), "edges": [[0, 1], [1, 2]], **changes}
    with pytest.raises(InputError, match=message) as caught:
        Graph.from_edges(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([0, 1], [1], "n \\+ 1 = 4 entries, got 2"),
        ([0, 1, 2, 3], [1, 0], "rise from 0 to 2"),
        ([0, 2, 1, 2], [1, 0], "rise from 0 to 2"),
        ([0, 1, 2, 2], [1, 3], r"in \[0, 3\)"),
        ([0, 1, 1, 1], [0], "no self loop, got one at node 0"),
        ([0, 2, 3, 4], [2, 1, 0, 0], "sorted and unique"),
        ([0, 2, 4, 4], [1, 1, 0, 0], "sorted and unique"),
        ([0, 1, 1, 1], [1], "symmetric"),
        ([0, 1, 2, 3], [1, 2, 0], "symmetric"),
        ([0.0, 1, 2, 2], [1, 0], "1-D integer array"),
    ],
)
def test_bad_rows_are_refused(indptr, indices, message):
    with pytest.raises(InputError, match=message):
        Graph(np.zeros((3, 1)), np.array(indptr), np.array(indices))


def test_split_rules():
    split = Split([3, 1], (), [0])
    assert split.train.tolist() == [1, 3]
    assert split.sizes == (2, 0, 1)
    for parts, message in (
        (([0, 1], [1], [2]), "disjoint, got node 1 in train and val"),
        (([0, 0], [1], [2]), "split.train must not repeat a node"),
        (([0], [-1], [2]), "split.val must hold node indices >= 0, got -1"),
        (([0], [1], [True]), "split.test must be a 1-D array of integer|split.test must be a 1-D integer"),
        (([0], [1], [0.5]), "float64"),
    ):
        with pytest.raises(InputError, match=message):
            Split(*parts)


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


def test_random_split():
    labels = np.where(np.arange(110) < 10, -1, np.arange(110) % 3)
    graph = Graph.from_edges(np.zeros((110, 1)), np.empty((2, 0)), labels=labels)
    split = graph.random_split(5).split
    assert all(abs(a - b) <= 4 for a, b in zip(split.sizes, (70, 10, 20), strict=True))
    assert sorted(np.concatenate([split.train, split.val, split.test])) == list(range(10, 110))
    assert graph.split is None
    assert_same(graph.random_split(5), graph.random_split(5))
    assert graph.random_split(6).split.train.tolist() != split.train.tolist()


@given(st.integers(10, 400))
@settings(max_examples=30)
def test_random_split_sizes_sum_up(n):
    graph = Graph.from_edges(np.zeros((n, 1)), np.empty((2, 0)), labels=np.zeros(n, int))
    sizes = graph.random_split(0, (0.6, 0.2, 0.2)).split.sizes
    assert sum(sizes) == n
    assert all(abs(size - share * n) <= 1 for size, share in zip(sizes, (0.6, 0.2, 0.2), strict=True))


def test_random_split_errors():
    with pytest.raises(InputError, match="without labels"):
        Graph.from_edges(np.zeros((9, 1)), [[0], [1]]).random_split(0)
    with pytest.raises(InputError, match="no validation node"):
        path_graph(4).random_split(0)
    for fractions in ((0.5, 0.5), (0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (0.5, float("nan"), 0.5), (1.2, -0.1, -0.1)):
        with pytest.raises(InputError, match="fractions must be three positive numbers"):
            path_graph(40).random_split(0, fractions)
    with pytest.raises(InputError, match="seed"):
        path_graph(40).random_split(-1)


def test_summary():
    graph = Graph.from_edges(np.eye(4), [[0, 1, 1], [1, 2, 1]], labels=[0, 0, 1, -1], split=Split([0], [1], [2]))
    summary = graph.summary()
    expected = {"nodes": 4, "edges": 2, "features": 4, "classes": 2, "train": 1, "isolated": 1, "self_loops_dropped": 1}
    assert {key: summary[key] for key in expected} == expected
    assert summary["class_counts"] == [2, 1]
    assert summary["homophily"] == 0.5


class TestPyg:
    """Conversion from and to torch_geometric."""

    def data(self, **changes):
        import torch
        from torch_geometric.data import Data

        fields = {"x": torch.eye(3), "edge_index": torch.tensor([[0, 1], [1, 2]]), "y": torch.tensor([0, 1, 0])}
        fields.update(changes)
        return Data(**{key: value for key, value in fields.items() if value is not None})

    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize("labelled", [False, True])
    def test_round_trip(self, sparse, labelled):
        x = np.array([[1, 0], [0, 2], [0, 0]], dtype=np.float32)
        graph = Graph.from_edges(
            sp.csr_array(x) if sparse else x,
            [[0, 1], [1, 2]],
            labels=[0, -1, 1] if labelled else None,
            split=Split([0], [1], [2]) if labelled else None,
        )
        data = graph.to_pyg()
        assert data.is_undirected()
        assert_same(Graph.from_pyg(data), graph)
        data.edge_index.zero_()  # shares nothing
        if not sparse:
            data.x.zero_()
        assert graph.num_edges == 2
        assert graph.features.sum() == 3

    def test_layouts_masks_and_labels(self):
        import torch

        mask = torch.tensor([[True, False], [False, True], [False, False]])
        graph = Graph.from_pyg(self.data(y=torch.tensor([[0.0], [1.0], [0.0]]), train_mask=mask), name="tiny")
        assert graph.labels.tolist() == [0, 1, 0]
        assert graph.split.train.tolist() == [0]
        assert graph.split.sizes == (1, 0, 0)
        assert graph.cleaning.one_way == 2
        assert graph.name == "tiny"
        csr = Graph.from_pyg(self.data(x=torch.eye(3).to_sparse_csr()))
        assert isinstance(csr.features, sp.csr_array)
        for half in (torch.float16, torch.bfloat16):
            assert Graph.from_pyg(self.data(x=torch.eye(3, dtype=half))).features.dtype == np.float32
            assert Graph.from_pyg(self.data(x=torch.eye(3, dtype=half).to_sparse())).features.dtype == np.float32
        empty = self.data(x=None, y=None, num_nodes=3)
        assert Graph.from_pyg(empty).features.shape == (3, 0)
        assert Graph.from_pyg(self.data(x=None, y=torch.arange(5))).num_nodes == 5

    def test_weights_are_reported(self):
        import torch

        with pytest.warns(UserWarning, match="edge_weight is ignored"):
            Graph.from_pyg(self.data(edge_weight=torch.ones(2)))
        with pytest.warns(UserWarning, match="edge_attr is ignored"):
            Graph.from_pyg(self.data(edge_attr=torch.ones(2, 4)))

    def test_bad_data(self):
        import torch

        for changes, message in (
            ({"y": torch.tensor([0.5, 1, 0])}, "whole numbers, got 0.5 at node 0"),
            ({"y": torch.tensor([float("nan"), 1, 0])}, "whole numbers, got nan"),
            ({"y": torch.zeros(3, 2, dtype=torch.long)}, "multi-label"),
            ({"y": torch.zeros(2, dtype=torch.long)}, "one entry per node"),
            ({"y": torch.tensor([0, -2, 0])}, "got -2 at node 1"),
            ({"y": "words"}, "data.y must be a dense tensor, got str"),
            ({"x": torch.full((3, 1), float("inf"))}, "got inf in row 0"),
            ({"x": torch.zeros(3)}, "2-D"),
            ({"x": torch.eye(4).to_sparse()}, r"one entry per row of x \(4\), got 3"),
            ({"x": torch.eye(3).to_sparse(1)}, "sparse in both dimensions"),
            ({"edge_index": None}, "edge_index must be"),
            ({"x": None, "num_nodes": torch.tensor([3])}, "num_nodes must be a whole number >= 1, got a tensor"),
            ({"edge_index": torch.tensor([[0], [9]])}, "got 9 at"),
            ({"train_mask": torch.tensor([True])}, "train_mask must have one entry per node"),
            ({"val_mask": torch.tensor([0, 1, 2])}, "val_mask must hold true or false"),
            ({"x": None, "y": None, "edge_index": torch.empty(2, 0, dtype=torch.long), "num_nodes": 0}, "num_nodes"),
        ):
            with pytest.raises(InputError, match=message):
                Graph.from_pyg(self.data(**changes))


def test_a_label_does_not_move_other_nodes_between_parts() -> None:
    labels = np.arange(60) % 3
    labels[::7] = -1
    whole = Graph.from_edges(np.zeros((60, 1)), np.empty((2, 0), int), labels=labels).random_split(4)
    node = int(whole.split.train[0])
    labels[node] = -1
    without = Graph.from_edges(np.zeros((60, 1)), np.empty((2, 0), int), labels=labels).random_split(4)
    assert set(whole.split.train.tolist()) - {node} == set(without.split.train.tolist())
    assert np.array_equal(whole.split.val, without.split.val)
    assert np.array_equal(whole.split.test, without.split.test)


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


def test_one_class_is_nothing_to_learn() -> None:
    graph = Graph.from_edges(np.zeros((3, 1)), [[0], [1]], labels=[0, 0, 0], split=Split([0], [1], [2]))
    with pytest.raises(InputError, match="at least 2 classes, got 1"):
        graph.for_learning()


class TestDeclaredSizes:
    """What is public about a split does not change when a node is zeroed out, before or after the split was drawn."""

    def graph(self) -> Graph:
        return Graph.from_edges(np.eye(20), [[0, 1], [1, 2]], labels=[0, 1] * 10)

    def test_they_follow_from_the_seed_alone(self) -> None:
        whole = self.graph().random_split(3)
        for node in range(20):
            early = self.graph().without_node(node).random_split(3)
            late = whole.without_node(node)
            assert early.split.declared == late.split.declared == whole.split.declared == (14, 2, 4)
            assert [p.tolist() for p in (early.split.train, early.split.val, early.split.test)] == [
                p.tolist() for p in (late.split.train, late.split.val, late.split.test)
            ]

    def test_a_file_keeps_them(self, tmp_path: Path) -> None:
        smaller = self.graph().random_split(3).without_node(5)
        again = read_graph(write_graph(smaller, tmp_path / "g.npz"))
        assert again.split.declared == smaller.split.declared == (14, 2, 4)

    def test_one_declared_training_node_that_is_gone_is_no_refusal(self) -> None:
        split = Split([0], [1], [2, 3])
        graph = Graph.from_edges(np.eye(4), [[0], [1]], labels=[0, 1, 0, 1], split=split)
        graph.for_learning()
        graph.without_node(0).for_learning()


def test_a_pyg_data_must_state_its_number_of_nodes() -> None:
    """The guess that PyG makes from the largest node of an edge would let one edge change every shape."""
    edges = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(InputError, match="must state its number of nodes"):
        Graph.from_pyg(Data(edge_index=edges))
    assert Graph.from_pyg(Data(edge_index=edges, num_nodes=30)).num_nodes == 30
    assert Graph.from_pyg(Data(edge_index=edges, y=np.zeros(30, np.int64))).num_nodes == 30
    assert Graph.from_pyg(Data(edge_index=edges, train_mask=torch.zeros(30, dtype=torch.bool))).num_nodes == 30
