"""Generated data sets: golden sizes, statistics, what the seed decides, every pair once, and options that are wrong."""

from __future__ import annotations

import numpy as np
import pytest

import caribou as cb
from caribou.datasets import load
from caribou.datasets.generated import BlockModel, _pairs_across, _pairs_inside
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


class TestCsbm:
    def test_statistics(self):
        graph = load("csbm", seed=0, nodes=3000, homophily=0.7, average_degree=12.0, signal=3.0)
        assert graph.num_edges == 18000
        assert graph.cleaning.duplicates == graph.cleaning.self_loops == 0
        assert graph.summary()["class_counts"] == [750] * 4
        assert graph.split.sizes == (2100, 300, 600)
        # Binomial(18000, 0.7): five standard deviations.
        assert abs(graph.summary()["homophily"] - 0.7) < 5 * np.sqrt(0.7 * 0.3 / 18000)
        means = np.stack([graph.features[graph.labels == c].mean(axis=0) for c in range(4)])
        gaps = [np.linalg.norm(means[a] - means[b]) for a in range(4) for b in range(a)]
        assert np.allclose(gaps, 3.0, atol=0.5)  # a mean of 750 is off by sqrt(32 / 750) = 0.2
        inner = graph.features - means[graph.labels]
        assert abs(inner.std() - 1) < 0.02

    def test_names_options_and_seed(self):
        graph = load("csbm:nodes=500,homophily=0.9", seed=4)
        same = load("csbm", nodes=500, homophily=0.9, seed=4)
        assert graph.name == "csbm:nodes=500,homophily=0.9"
        assert np.array_equal(graph.features, same.features)
        assert np.array_equal(graph.indices, same.indices)
        assert not np.array_equal(graph.indices, load("csbm", nodes=500, homophily=0.9, seed=5).indices)

    @pytest.mark.parametrize("homophily", [0.0, 1.0])
    def test_extreme_homophily(self, homophily):
        assert load("csbm", nodes=103, homophily=homophily).summary()["homophily"] == homophily

    def test_complete_graph(self):
        # 12 nodes, 2 classes: 30 pairs inside, 36 across. All of them are edges.
        graph = load("csbm", nodes=12, classes=2, features=2, average_degree=11.0, homophily=30 / 66)
        assert graph.num_edges == 66

    @pytest.mark.parametrize("sizes", [[3, 2, 4], [1, 1], [5, 1, 1, 6], [10]])
    def test_every_pair_has_one_number(self, sizes):
        sizes = np.array(sizes)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        n = len(owner)
        inside = {(u, v) for u in range(n) for v in range(u) if owner[u] == owner[v]}
        across = {(u, v) for u in range(n) for v in range(n) if owner[u] < owner[v]}
        assert set(map(tuple, _pairs_inside(np.arange(len(inside)), sizes).T.tolist())) == inside
        assert set(map(tuple, _pairs_across(np.arange(len(across)), sizes).T.tolist())) == across

    def test_large_pair_numbers_are_exact(self):
        n = 2**31 - 1
        last = n * (n - 1) // 2 - 1
        u, v = _pairs_inside(np.array([0, 1, last - 1, last]), np.array([n])).tolist()
        assert (u, v) == ([1, 2, n - 1, n - 1], [0, 0, n - 3, n - 2])

    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("csbm", {"nodes": 5}, "nodes must be a whole number >= 10, got 5"),
            ("csbm", {"nodes": 2**31}, "nodes must be at most"),
            ("csbm", {"nodes": 100.0}, "nodes must be a whole number"),
            ("csbm", {"classes": 1}, "classes must be a whole number >= 2, got 1"),
            ("csbm", {"features": 3}, "features must be a whole number >= 4, got 3"),
            ("csbm", {"average_degree": 0}, "average_degree must be a finite number > 0"),
            ("csbm", {"average_degree": float("nan")}, "average_degree must be a finite number > 0, got nan"),
            ("csbm", {"nodes": 20, "average_degree": 10}, "average_degree must leave room for 80 edges inside"),
            ("csbm", {"nodes": 20, "average_degree": 19, "homophily": 0.0}, "edges across"),
            ("csbm", {"homophily": 1.5}, r"homophily must be in \[0, 1\], got 1.5"),
            ("csbm", {"signal": -1}, "signal must be a finite number >= 0"),
            ("csbm", {"degree": 3}, "got 'degree'"),
            ("csbm:nodes=500", {"nodes": 500}, "nodes must be given once"),
            ("csbm:nodes=500,nodes=600", {}, "nodes must be given once"),
            ("csbm:nodes", {}, "<name>=<value>"),
            ("csbm:knots=3", {}, "<name>=<value>"),
            ("csbm:nodes=1.5", {}, "csbm option nodes must be a whole number, got '1.5'"),
            ("csbm:signal=x", {}, "csbm option signal must be a number, got 'x'"),
            ("csbm:", {}, "must follow the colon"),
        ],
    )
    def test_bad_options(self, name, options, message):
        with pytest.raises(InputError, match=message):
            load(name, **options)

    def test_defaults(self):
        assert BlockModel() == BlockModel(2000, 4, 32, 10.0, 0.8, 1.0)


def neighbour_means(graph: cb.Graph, values: np.ndarray) -> np.ndarray:
    u, v = graph.edge_index
    total = np.zeros((graph.num_nodes, values.shape[1]))
    np.add.at(total, v, values[u])
    return total / np.maximum(np.bincount(v, minlength=graph.num_nodes), 1)[:, None]


def test_neighbours_features_tell_the_class_and_nothing_else_does() -> None:
    graph = cb.datasets.load("neighbour-features", seed=1)
    labels = np.asarray(graph.labels)
    classes = np.eye(4)[labels]

    def separation(values: np.ndarray) -> float:
        """Variance between classes as a share of all."""
        means = np.stack([values[labels == k].mean(axis=0) for k in range(4)])
        return float(means.var(axis=0).sum() / values.var(axis=0).sum())

    own, theirs, their_classes = graph.features, neighbour_means(graph, graph.features), neighbour_means(graph, classes)
    assert separation(theirs) > 0.2
    assert separation(own) < 0.01
    assert separation(their_classes) < 0.01


def test_a_seed_gives_one_graph() -> None:
    first, second, other = (cb.datasets.load("neighbour-features:300", seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.edge_index, second.edge_index)
    assert np.array_equal(first.features, second.features)
    assert not np.array_equal(first.labels, other.labels)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("neighbour-features:x", "must be a whole number .*, got 'x'"),
        ("neighbour-features:7", "nodes must be"),
    ],
)
def test_bad_sizes(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        cb.datasets.load(name)
