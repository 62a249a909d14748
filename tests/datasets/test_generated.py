"""Generated data sets: golden sizes, statistics, what the seed decides, every pair once, and options that are wrong."""

from __future__ import annotations

import numpy as np
import pytest

import caribou as cb
from caribou.datasets import load
from caribou.datasets.generated import _pairs_across, _pairs_inside
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


BAD: dict[str, list[tuple[str, dict[str, object]]]] = {
    "nodes": [*(("csbm", {"nodes": bad}) for bad in (5, 2**31, 100.0)), ("csbm:nodes=500", {"nodes": 500})],
    "classes": [("csbm", {"classes": 1})],
    "features": [("csbm", {"features": 3})],
    "average_degree": [("csbm", {"average_degree": bad}) for bad in (0, float("nan"))]
    + [("csbm", {"nodes": 20, "average_degree": 19, "homophily": 0.0})],
    "homophily": [("csbm", {"homophily": 1.5})],
    "signal": [("csbm", {"signal": -1}), ("csbm:signal=x", {})],
    "csbm": [(f"csbm:{rest}", {}) for rest in ("", "nodes", "knots=3", "nodes=1.5")] + [("csbm", {"degree": 3})],
    "chain-s": [(f"chain-s:{rest}", {}) for rest in ("x", "-1", "", "1.5", "75:2", "٣", "1e3", " 5")],
    "chains": [("chain-s:0", {}), ("chain-s:chains=0", {}), ("chain-s", {"chains": True})],
    "nodes|preference": [(f"neighbour-features:{rest}", {}) for rest in ("x", "7", "preference=21")],
    "dataset": [("coral", {}), ("cora:3", {}), (3, {})],
    "split": [("chain-s", {"split": "fixed"}), ("csbm", {"split": "public"})],
    "options": [("chain-s", {"nodes": 3}), ("cora", {"nodes": 3})],
    "seed": [("chain-s", {"seed": -1})],
}


@pytest.mark.parametrize("named", BAD)
def test_what_no_data_set_has_is_refused_by_name(named: str) -> None:
    for name, options in BAD[named]:
        with pytest.raises(InputError, match=named):
            load(name, **options)


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
