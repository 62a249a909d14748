"""Chains: golden sizes, content, and what the seed decides."""

import numpy as np
import pytest

from caribou.datasets import load
from caribou.errors import InputError


class TestChains:
    # Nodes, chains per class, length, split: Table "Chain-structured Datasets Statistics" of the CARIBOU paper.
    @pytest.mark.parametrize(
        ("name", "nodes", "length", "sizes"),
        [
            ("chain-s", 48, 8, (8, 8, 32)),
            ("chain-m", 60, 10, (10, 10, 40)),
            ("chain-l", 90, 15, (15, 15, 60)),
            ("chain-x", 150, 15, (25, 25, 100)),
            ("chain-s:75", 1200, 8, (200, 200, 800)),
            ("chain-x:1", 30, 15, (5, 5, 20)),
        ],
    )
    def test_golden_sizes(self, name, nodes, length, sizes):
        graph = load(name, seed=3)
        assert (graph.num_nodes, graph.num_features, graph.num_classes) == (nodes, 5, 2)
        assert graph.num_edges == nodes - nodes // length
        assert graph.split.sizes == sizes
        assert graph.name == name

    def test_content(self):
        graph = load("chain-m")
        heads = np.arange(0, 60, 10)
        assert graph.labels.tolist() == [0] * 30 + [1] * 30
        assert graph.features[heads].tolist() == [[1, 0, 0, 0, 0]] * 3 + [[0, 1, 0, 0, 0]] * 3
        assert np.delete(graph.features, heads, axis=0).sum() == 0
        assert graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].T.tolist() == [
            [u, u + 1] for u in range(60) if u % 10 != 9
        ]

    def test_only_the_split_depends_on_the_seed(self):
        one, two = load("chain-l", seed=1), load("chain-l", seed=2)
        assert np.array_equal(one.features, two.features)
        assert np.array_equal(one.indices, two.indices)
        assert one.split.train.tolist() != two.split.train.tolist()
        assert load("chain-l", seed=1).split.train.tolist() == one.split.train.tolist()

    @pytest.mark.parametrize("suffix", ["0", "x", "-1", "", "1.5", "75:2", "1000001", "٣", "1e3", " 5", "9" * 30])
    def test_bad_suffix(self, suffix):
        with pytest.raises(InputError, match="number of chains per class in chain-s:<number>"):
            load(f"chain-s:{suffix}")
