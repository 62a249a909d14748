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

NOTHING = dict.fromkeys(("x", "y", "split_train", "split_val", "split_test"))
SPARSE = {"x": None}
X = {"x_data": np.ones(3), "x_indices": np.arange(3), "x_indptr": np.arange(4), "x_shape": np.array([3, 3])}
BAD_ARRAYS = {
    "edge_index": [{"edge_index": a} for a in (None, np.zeros((3, 2), int), np.zeros((2, 2)), np.array([[0], [None]]))],
    "edges": [{"edge_index": np.array([[0], [3]])}],
    "array x": [{"x": np.array([[object()]] * 3)}],
    "features": [{"x": a} for a in (np.zeros(3), np.full((3, 2), np.nan), np.zeros((3, 1), complex))] + [NOTHING],
    "labels": [{"y": a} for a in (np.array([0, 1]), np.array([0.0, 1, 0]), np.array([0, -3, 1]))],
    "num_nodes": [{"x": None, "num_nodes": np.array(5)}],
    "split": [{"split_val": a} for a in (None, np.array([], int), np.array([0]), np.array([7]))],
    "class_names": [{"class_names": np.array([1, 2])}],
    "num_classes": [{"num_classes": np.array([1, 2])}],
    "node_ids": [{"node_ids": np.array([1, 1, 2])}],
    "x_indices": [{**X, "x_indices": np.array(a)} for a in ([0, 1], [0, 1, 3], [0, -1, 2], [0.0, 1, 2])]
    + [{"x_data": np.ones(3)}],
    "x_indptr": [{**X, "x_indptr": np.array(a)} for a in ([0, 1, 3], [0, 2, 1, 3])],
    "x_shape": [{**X, "x_shape": np.array(a)} for a in ([3], [10**12, 3])],
    "x_data": [{**X, "x_data": np.array(["a", "b", "c"])}],
}
"""What is wrong with the arrays of a file, by the array or field that is named."""


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

    @pytest.mark.parametrize("name", BAD_ARRAYS)
    def test_bad_arrays(self, tmp_path, name):
        for changes in BAD_ARRAYS[name]:
            path = self.save(tmp_path / "g.npz", **(SPARSE if name.startswith("x_") else {}), **changes)
            message = fails(name, path)
            assert message.startswith(f"{path}: ")

    def test_claims_of_size_are_not_believed(self, tmp_path):
        fails("needs an array of that length", self.save(tmp_path / "g.npz", **NOTHING, num_nodes=np.array(2**31 - 2)))
        assert read_graph(self.save(tmp_path / "g.npz", **NOTHING, num_nodes=np.array(9))).num_nodes == 9

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
