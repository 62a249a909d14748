"""The rules of a graph: what is refused, by field, rule and value; what is cleaned, and how it is counted."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given

import caribou as cb
from caribou.errors import InputError
from caribou.graph import Cleaning, Graph, Split
from caribou.layers import ContractiveGraphLayer
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.neighbour_sums import bounded_adjacency, noisy_sums
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import perturb
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import calibrate_sums
from caribou.privacy.pair_response import PairBudget, asymmetric_response
from caribou.privacy.sensitivity import Bounds, sum_sensitivity
from caribou.release import release
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
    ({"edges": [[True], [False]]}, "edges must be integers, got bool"),
    ({"edges": [[0, 1], [1, 3]]}, r"in \[0, 3\), got 3 at edges\[1, 1\]"),
    ({"edges": [[0, -1], [1, 2]]}, r"got -1 at edges\[0, 1\]"),
    ({"edges": np.array([[0], [2**63]], dtype=np.uint64)}, r"at edges\[1, 0\]"),
    ({"labels": [0, 1]}, r"one entry per node \(3\), got 2"),
    ({"labels": [0, -2, 1]}, "got -2 at node 1"),
    ({"labels": [0.0, 1.0, 1.0]}, "1-D integer array, got float64"),
    ({"split": Split([0], [1], [2])}, "needs labels"),
    ({"labels": [0, 1, 1], "split": Split([0], [1], [3])}, "below 3, got 3"),
    ({"labels": [0, 1, 1], "split": ([0], [1], [2])}, "split must be a Split, got tuple"),
    ({"classes": 2, "num_classes": 2}, "classes must not go with class_names or num_classes"),
    ({"class_names": ("a", 1)}, "class_names must be strings"),
    ({"class_names": ("a", "b"), "num_classes": 3}, "num_classes = 3"),
    ({"num_classes": -1}, "num_classes must be a whole number"),
    ({"node_ids": ["a", "b"]}, "one entry per node"),
    ({"node_ids": ["a", "b", "a"]}, "unique, got 1 repeated"),
    ({"node_ids": [0.5, 1, 2]}, "whole numbers or strings"),
    ({"name": ""}, "name must be a non-empty string"),
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
        ([0, 2, 1, 2], [1, 0], "rise from 0 to 2"),
        ([0, 1, 2, 2], [1, 3], r"in \[0, 3\)"),
        ([0, 1, 1, 1], [0], "no self loop, got one at node 0"),
        ([0, 2, 4, 4], [1, 1, 0, 0], "sorted and unique"),
        ([0, 1, 2, 3], [1, 2, 0], "symmetric"),
        ([0.0, 1, 2, 2], [1, 0], "1-D integer array"),
    ],
)
def test_bad_rows_are_refused(indptr, indices, message):
    with pytest.raises(InputError, match=message):
        Graph(np.zeros((3, 1)), np.array(indptr), np.array(indices))


# -- memory -----------------------------------------------------------------------------------------------------------


def lying_otherwise(array, folder):
    """The same values, read-only, as they may lie in memory: none of them can be handed to a compiled loop as it is."""
    table = np.stack([np.full_like(array, 7), array], axis=-1)
    np.save(folder / "table.npy", table)
    raw = np.zeros(array.nbytes + 1, dtype=np.uint8)
    raw[1:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), dtype=np.uint8)
    odd = {
        "mapped column": np.load(folder / "table.npy", mmap_mode="r")[..., 1],
        "strided": table[..., 1],
        "reversed": array[::-1].copy()[::-1],
        "misaligned": np.frombuffer(raw.tobytes(), dtype=array.dtype, offset=1).reshape(array.shape),
        "big-endian": array.astype(array.dtype.newbyteorder(">")),
        "64 bits": array.astype(np.uint64 if array.dtype.kind == "i" else np.float64),
    }
    for view in odd.values():
        view.setflags(write=False)
    return odd


def released_of(graph):
    """What every mechanism that reads edges draws of a graph, from the same noise, and its fingerprint."""
    n, noise = graph.num_nodes, NoiseSource.seeded
    layer, bounds = ContractiveGraphLayer(contraction=0.8), Bounds(degree_floor=5)
    embeddings = release(graph, layer, hops=2, budget=Budget(4, 1e-5, "edge"), bounds=bounds, noise=noise(1))
    sums = calibrate_sums(sum_sensitivity("edge"), hops=1, mu=1.0, nodes=n, columns=3)
    adjacency = bounded_adjacency(graph, None, np.random.default_rng(0))
    votes = NoisyCounts(graph, 2, VoteBudget(1.0), noise(2))
    new = np.arange(n) % 2 == 0
    return {
        "embeddings": embeddings.state.numpy(),
        "sums": noisy_sums(adjacency, np.array(graph.features[:, :3], dtype=float), sums, noise(3))[0],
        "votes": votes.ask(new, np.arange(float(n)), np.arange(n) % 2),
        "pairs": perturb(graph, PairBudget(1.0, 1.0), noise(4), asymmetric_response, max_edges=None).pairs,
        "content": np.frombuffer(b"".join(graph.content()), dtype=np.uint8),
    }


def test_nothing_depends_on_how_arrays_lie_in_memory(tmp_path):
    """A read-only column of a mapped edge list was once read as other memory: one edge moved a transcript by 182."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((60, 4)).astype(np.float32)
    plain = Graph.from_edges(features, rng.integers(0, 60, (2, 300)), labels=rng.integers(0, 2, 60))
    expected = released_of(plain)
    parts = {"features": plain.features, "indptr": plain.indptr, "indices": plain.indices, "labels": plain.labels}
    for name, array in parts.items():
        for lying, view in lying_otherwise(array, tmp_path).items():
            graph = Graph(**{**parts, name: view})
            stored = getattr(graph, name)
            assert stored.flags.c_contiguous
            assert stored.flags.aligned
            assert stored.dtype.isnative
            assert np.array_equal(stored, array)
            for mechanism, value in released_of(graph).items():
                if lying != "64 bits" or name != "features":  # double precision may differ in its last digits
                    assert np.array_equal(value, expected[mechanism]), (name, lying, mechanism)


def test_indices_of_a_mapped_file_are_checked_in_a_copy(tmp_path):
    """Whoever writes to the file afterwards must not turn a checked index into one that is out of bounds."""
    graph = path_graph()
    np.save(tmp_path / "indices.npy", graph.indices)
    mapped = np.load(tmp_path / "indices.npy", mmap_mode="r")
    ours = Graph(graph.features, graph.indptr, mapped)
    np.load(tmp_path / "indices.npy", mmap_mode="r+")[:] = 2**31 - 1
    assert int(mapped[0]) == 2**31 - 1
    assert np.array_equal(ours.indices, graph.indices)


BAD_PLACES = [
    ("csr", [0, 1, 2, 3], [0, 1, 9], "must be < 4"),
    ("csr", [0, 1, 2, 3], [0, -1, 2], "must be >= 0"),
    ("csr", [0, 3, 1, 3], [0, 1, 2], "non-decreasing"),
    ("csr", [1, 1, 2, 3], [0, 1, 2], "should start with 0"),
    ("csr", [0, 1, 2, 3], [0, 1], "same size"),
    ("csr", [0, 1, 2, 4], [0, 1, 2], "less than the size"),
    ("csc", [0, 1, 2, 3, 3], [0, 1, 3], "must be < 3"),
    ("coo", None, [0, 1, 4], "exceeds matrix"),
    ("coo", None, [0, 1, -1], "negative"),
]


@pytest.mark.parametrize(("kind", "starts", "places", "message"), BAD_PLACES)
def test_no_entry_of_sparse_features_lies_outside(kind, starts, places, message):
    """SciPy multiplies with whatever lies there: released rows would be other memory of the process."""
    features = getattr(sp, f"{kind}_array")((np.ones(3, np.float32), ([0, 1, 2], [0, 1, 2])), shape=(3, 4))
    if kind == "coo":
        features.coords = (features.coords[0], np.array(places))
    else:
        features.indptr, features.indices = np.array(starts), np.array(places)
        features.has_canonical_format = True
    message = rf"features must have sparse indices inside of its shape \(3, 4\), got others: .*{message}"
    with pytest.raises(InputError, match=message):
        Graph.from_edges(features, [[0], [1]])
    for name in ("data", "indices", "indptr") if kind != "coo" else ("data",):
        getattr(features, name).setflags(write=False)
    with pytest.raises(InputError, match=message):
        Graph.from_edges(features, [[0], [1]])


def test_a_sparse_matrix_is_not_believed_to_be_sorted():
    parts = (np.array([1, 2, 3, 4], np.float32), np.array([2, 1, 0, 0]), np.array([0, 2, 2, 4]))
    features = sp.csr_array(parts, shape=(3, 4))
    features.has_canonical_format = True
    for part in (features.data, features.indices, features.indptr):
        part.setflags(write=False)
    stored = Graph.from_edges(features, [[0], [1]]).features
    assert stored.indices.tolist() == [1, 2, 0]
    assert stored.toarray().tolist() == [[0, 2, 1, 0], [0, 0, 0, 0], [7, 0, 0, 0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda frame, network: cb.read_graph(frame, frame), r"path must .*Graph\.from_tables"),
        (lambda frame, network: cb.read_graph(network), r"path must .*Graph\.from_networkx"),
        (lambda frame, network: cb.read_graph(path_graph(3)), r"path must .*a graph already"),
        (lambda frame, network: Graph.from_networkx(frame), r"network must .*Graph\.from_tables"),
        (lambda frame, network: Graph.from_networkx("graph.gml"), r"network must .*caribou\.read_graph"),
        (lambda frame, network: Graph.from_tables(network, frame), r"edges must .*Graph\.from_networkx"),
        (lambda frame, network: Graph.from_tables("edges.csv", "nodes.csv"), r"must .*caribou\.read_graph"),
        (lambda frame, network: Graph.from_pyg(frame), r"edge_index must .*Graph\.from_tables"),
        (lambda frame, network: Graph(network, [0], [0]), r"features must .*Graph\.from_networkx"),
        (lambda frame, network: Graph.from_edges(frame.assign(a="x"), [[0], [1]]), r"features .*Graph\.from_tables"),
        (lambda frame, network: Graph.from_edges(np.eye(3), frame), r"edges must .*Graph\.from_tables"),
        (lambda frame, network: Graph.from_edges(np.eye(3), network), r"edges must .*Graph\.from_networkx"),
    ],
)
def test_what_is_given_to_the_wrong_door_is_sent_to_the_one_that_reads_it(call, words):
    with pytest.raises(InputError, match=words):
        call(pd.DataFrame({"id": [0, 1], "b": [1, 2]}), nx.path_graph(3))
