"""The rules of a graph: what is refused, by field, rule and value; what is cleaned, and how it is counted."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from caribou.errors import InputError
from caribou.graph import Cleaning, Graph, Split
from graph_support import edge_lists, path_graph


def test_many_repetitions_do_not_wrap_around():
    # 256 copies of one entry sum to 0 in 8 bits; the edge must still be there.
    graph = Graph.from_edges(np.zeros((2, 1)), np.tile([[0], [1]], 256))
    assert graph.num_edges == 1
    assert graph.cleaning == Cleaning(duplicates=255, one_way=1)


@given(edge_lists())
def test_cleaning_counts_every_entry_once(case):
    n, edges = case
    cleaning = Graph.from_edges(np.zeros((n, 1)), edges).cleaning
    entries = [(int(u), int(v)) for u, v in edges.T]
    proper = [pair for pair in entries if pair[0] != pair[1]]
    assert cleaning.self_loops == len(entries) - len(proper)
    assert cleaning.duplicates == len(proper) - len(set(proper))
    assert cleaning.one_way == sum((v, u) not in set(proper) for u, v in set(proper))


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
    ({"split": Split([0], [1], [2])}, "needs labels"),
    ({"labels": [0, 1, 1], "split": Split([0], [1], [3])}, "below 3, got 3"),
    ({"labels": [0, 1, 1], "split": ([0], [1], [2])}, "split must be a Split, got tuple"),
    ({"classes": 1}, "classes must be a whole number >= 2, got 1"),
    ({"classes": ["a", "a"]}, "classes must differ, got 'a' more than once"),
    ({"classes": "ab"}, "classes must be a list of classes, or their number, got 'ab'"),
    ({"classes": ["a", " "]}, "classes must have a name each"),
    ({"classes": ["a", 0.5]}, "classes must be text or whole numbers, got 0.5"),
    ({"classes": 2, "num_classes": 2}, "classes must not go with class_names or num_classes"),
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
