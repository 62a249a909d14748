"""Conversion from and to torch_geometric."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.privacy.budget import PrivacyUnit
from graph_support import assert_same


class TestPyg:
    """Conversion from and to torch_geometric."""

    def data(self, **changes):

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

        with pytest.warns(UserWarning, match="edge_weight is ignored"):
            Graph.from_pyg(self.data(edge_weight=torch.ones(2)))
        with pytest.warns(UserWarning, match="edge_attr is ignored"):
            Graph.from_pyg(self.data(edge_attr=torch.ones(2, 4)))

    def test_bad_data(self):

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


def test_a_pyg_data_must_state_its_number_of_nodes() -> None:
    """The guess that PyG makes from the largest node of an edge would let one edge change every shape."""
    edges = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(InputError, match="must state its number of nodes"):
        Graph.from_pyg(Data(edge_index=edges))
    assert Graph.from_pyg(Data(edge_index=edges, num_nodes=30)).num_nodes == 30
    assert Graph.from_pyg(Data(edge_index=edges, y=np.zeros(30, np.int64))).num_nodes == 30
    assert Graph.from_pyg(Data(edge_index=edges, train_mask=torch.zeros(30, dtype=torch.bool))).num_nodes == 30


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_a_person_without_data_reads_like_one_who_was_taken_out(part):
    """A row of zeros without edges, label -1 or no number; the part of the split is public and stays in its mask."""
    graph = Graph.from_edges(
        np.eye(6) + 1,
        [[0, 1, 2, 3], [1, 2, 3, 4]],
        labels=[0, 1, 2, 0, 1, 2],
        split=Split([0, 1], [2, 3], [4, 5]),
        classes=3,
    )
    node = int(getattr(graph.split, part)[1])
    gone = graph.without_node(node)
    for unknown in (-1.0, float("nan"), 7.0, 1.5):
        data = gone.to_pyg()
        data[f"{part}_mask"][node] = True
        data.y = data.y.double()
        data.y[node] = unknown
        back = Graph.from_pyg(data, classes=3)
        assert np.array_equal(back.features, gone.features)
        assert np.array_equal(back.edge_index, gone.edge_index)
        assert np.array_equal(back.labels, gone.labels)
        for name in ("train", "val"):
            assert np.array_equal(getattr(back.split, name), getattr(gone.split, name))
        assert back.split.declared == gone.split.declared == (2, 2, 2)
        assert back.sizes(PrivacyUnit.NODE) == gone.sizes(PrivacyUnit.NODE)
