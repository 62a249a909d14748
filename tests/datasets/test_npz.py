"""The .npz file of a graph: what is read and written, and the message for each array that is wrong."""

import io
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from caribou.datasets import read_graph, write_graph
from caribou.errors import DataError, InputError
from caribou.graph import Graph, Split
from caribou.privacy.budget import PrivacyUnit
from caribou.tables.rules import ColumnRules
from dataset_support import fails


class TestNpz:
    def save(self, path, **changes):
        arrays = {"edge_index": np.array([[0, 1], [1, 2]]), "x": np.eye(3), "y": np.array([0, 1, 0])}
        arrays |= {"split_train": np.array([0]), "split_val": np.array([1]), "split_test": np.array([2])}
        arrays.update(changes)
        np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
        return path

    def test_narrow_integers(self, tmp_path):
        # 40,000 entries: the running sums of an int16 index would overflow.
        x = sp.random_array((300, 200), density=0.9, rng=np.random.default_rng(0), format="csr")
        x.data[:] = 1
        path = self.save(
            tmp_path / "g.npz", x=None, y=None, x_data=x.data.astype(np.int8), x_indices=x.indices.astype(np.int16),
            x_indptr=x.indptr.astype(np.int64), x_shape=np.array(x.shape), split_train=None, split_val=None,
            split_test=None, edge_index=np.array([[0], [299]], np.int32),
        )  # fmt: skip
        graph = read_graph(path)
        assert isinstance(graph.features, sp.csr_array)
        assert graph.features.dtype == np.float32
        assert graph.features.indices.dtype == np.int32
        assert (graph.features.toarray() == x.toarray()).all()

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"edge_index": None}, "array edge_index is missing"),
            ({"edge_index": np.zeros((3, 2), int)}, r"edge_index must be 2 x E integers, got int64 of shape \(3, 2\)"),
            ({"edge_index": np.zeros((2, 2))}, "edge_index must be 2 x E integers, got float64"),
            ({"edge_index": np.array([[0], [3]])}, r"got 3 at edges\[1, 0\]"),
            ({"edge_index": np.array([[0], [None]])}, "array edge_index holds Python objects"),
            ({"x": np.array([[object()]] * 3)}, "array x holds Python objects"),
            ({"x": np.zeros(3)}, "2-D"),
            ({"x": np.zeros((0, 3)), "edge_index": np.zeros((2, 0), int)}, "between 1 and"),
            ({"x": np.full((3, 2), np.nan)}, "got nan in row 0, column 0"),
            ({"x": np.zeros((3, 1), complex)}, "must be numbers"),
            ({"x": None, "y": None, "split_train": None, "split_val": None, "split_test": None}, "needs features"),
            ({"x": None, "x_data": np.ones(3)}, "array x_indices is missing"),
            ({"x": None, "num_nodes": np.array(5)}, "num_nodes must be the length of y"),
            ({"y": np.array([0, 1])}, "one entry per node"),
            ({"y": np.array([0.0, 1, 0])}, "labels must be a 1-D integer array"),
            ({"y": np.array([0, -3, 1])}, "got -3 at node 1"),
            ({"split_val": None}, "array split_val is missing"),
            ({"split_val": np.array([], int)}, "split part val must hold at least one node"),
            ({"split_val": np.array([0])}, "disjoint, got node 0 in train and val"),
            ({"split_val": np.array([7])}, "below 3, got 7"),
            ({"class_names": np.array([1, 2])}, "class_names must be a 1-D array of text"),
            ({"num_classes": np.array([1, 2])}, "num_classes must be one whole number"),
            ({"node_ids": np.array([1, 1, 2])}, "node_ids must be unique"),
        ],
    )
    def test_bad_arrays(self, tmp_path, changes, message):
        path = self.save(tmp_path / "g.npz", **changes)
        assert str(path) in fails(message, path)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"x_indices": np.array([0, 1])}, "x_indices must have as many entries"),
            ({"x_indices": np.array([0, 1, 3])}, r"x_indices must be columns in \[0, 3\)"),
            ({"x_indices": np.array([0, -1, 2])}, "x_indices must be columns"),
            ({"x_indices": np.array([0.0, 1, 2])}, "x_indices must be a 1-D array of numbers"),
            ({"x_indptr": np.array([0, 1, 3])}, "x_indptr must rise from 0 to 3 in 4 entries"),
            ({"x_indptr": np.array([0, 2, 1, 3])}, "x_indptr must rise"),
            ({"x_shape": np.array([3])}, "x_shape must be two sizes"),
            ({"x_shape": np.array([10**12, 3])}, "x_shape must be two sizes"),
            ({"x_data": np.array([1.0, np.inf, 2])}, "got inf in row 1, column 1"),
            ({"x_data": np.array(["a", "b", "c"])}, "x_data must be a 1-D array of numbers"),
        ],
    )
    def test_bad_sparse_features(self, tmp_path, changes, message):
        parts = {"x_data": np.ones(3), "x_indices": np.arange(3), "x_indptr": np.arange(4), "x_shape": np.array([3, 3])}
        fails(message, self.save(tmp_path / "g.npz", x=None, **{**parts, **changes}))

    def test_claims_of_size_are_not_believed(self, tmp_path):
        none = dict.fromkeys(("x", "y", "split_train", "split_val", "split_test"))
        fails("needs an array of that length", self.save(tmp_path / "g.npz", **none, num_nodes=np.array(2**31 - 2)))
        assert read_graph(self.save(tmp_path / "g.npz", **none, num_nodes=np.array(9))).num_nodes == 9

    def test_other_archives(self, tmp_path):
        target = tmp_path / "g.npz"
        buffer = io.BytesIO()
        np.save(buffer, np.eye(2))
        target.write_bytes(buffer.getvalue())
        fails("is not an npz archive .* got a single array", target)
        for junk in (pickle.dumps({"edge_index": 1}), b"junk", b"\x80\x04junk", b"PK\x03\x04junk"):
            target.write_bytes(junk)
            message = fails("g.npz: is not an npz archive", target)
            assert "pickle" not in message
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("edge_index.npy", "words")
        fails("archive is damaged|edge_index must be|Python objects", target)

    def test_write_round_trip(self, tmp_path):
        graph = Graph.from_edges(
            sp.csr_array(np.diag([1.5, 2, 3, 4])), [[0, 1], [1, 2]], labels=[0, 1, 0, 1], split=Split([0], [1], [2]),
            class_names=("a", "é", "unused"), node_ids=["x", "y", "z", "w"],
        )  # fmt: skip
        for original in (graph, graph.without_node(3), Graph.from_edges(np.zeros((4, 0), np.float32), [[0], [3]])):
            back = read_graph(write_graph(original, tmp_path / "g.npz"), name="graph")
            assert back.features.dtype == original.features.dtype
            assert (back.adjacency() != original.adjacency()).nnz == 0
            assert np.array_equal(back.absent, original.absent)
            assert back.num_classes == original.num_classes
            assert back.class_names == original.class_names
            assert back.split is None if original.split is None else back.split.sizes == original.split.sizes
            assert sp.issparse(back.features) == sp.issparse(original.features)
            assert abs(back.features - original.features).sum() == 0
        assert [entry.name for entry in tmp_path.iterdir()] == ["g.npz"]

    def test_write_is_atomic(self, tmp_path, monkeypatch):
        graph = Graph.from_edges(np.eye(2), [[0], [1]])
        write_graph(graph, tmp_path / "g.npz")
        before = (tmp_path / "g.npz").read_bytes()

        def full(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(np, "savez_compressed", full)
        with pytest.raises(DataError, match=r"g.npz: cannot be written \(No space left on device\)"):
            write_graph(graph, tmp_path / "g.npz")
        assert [entry.name for entry in tmp_path.iterdir()] == ["g.npz"]
        assert (tmp_path / "g.npz").read_bytes() == before
        with pytest.raises(DataError, match="must end in"):
            write_graph(graph, tmp_path / "g.csv")
        with pytest.raises(DataError, match="cannot be written"):
            write_graph(graph, tmp_path / "nowhere" / "g.npz")


def test_rules_of_a_table_are_kept_and_node_level_still_refuses_what_was_learned(tmp_path) -> None:
    edges, nodes = pd.DataFrame({"a": [1], "b": [2]}), pd.DataFrame({"id": range(12), "kind": ["x", "y"] * 6})
    graph = Graph.from_tables(edges, nodes, rules=ColumnRules(categories={"kind": None}))
    again = read_graph(write_graph(graph, tmp_path / "g.npz"))
    assert again.column_rules == graph.column_rules
    with pytest.raises(InputError, match="categories must be declared at node level"):
        again.sizes(PrivacyUnit.NODE)
    with np.load(tmp_path / "g.npz") as stored:
        arrays = dict(stored)
    for bad in ("{", '{"colour": 1}', '{"ranges": {"a": [2, 1]}}'):
        np.savez(tmp_path / "bad.npz", **{**arrays, "column_rules": np.array(bad)})
        with pytest.raises(DataError, match=r"bad.npz: column_rules must be the JSON of column rules"):
            read_graph(tmp_path / "bad.npz")
