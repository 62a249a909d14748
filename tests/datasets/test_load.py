"""Data sets by name: golden sizes, options, statistics, and the messages for names that are wrong."""

import os

import numpy as np
import pytest

from caribou.datasets import available, load
from caribou.datasets.csbm import BlockModel, _pairs_across, _pairs_inside
from caribou.datasets.table import PUBLIC
from caribou.errors import DataError, InputError

FOLDER = os.environ.get("CARIBOU_DATA")
real_data = pytest.mark.skipif(not FOLDER, reason="needs the folder of data set files: set CARIBOU_DATA")


def has_file(name):
    return bool(FOLDER) and any(os.path.exists(os.path.join(FOLDER, file)) for file in PUBLIC[name].files)


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


class TestNames:
    def test_unknown(self):
        with pytest.raises(
            InputError, match=r"^dataset must be one of chain-s, .*csbm:nodes=.*, got 'coral' \(did you mean cora"
        ):
            load("coral")
        with pytest.raises(InputError, match=r"got 'zzz'$"):
            load("zzz")
        with pytest.raises(InputError, match="got 'cora:3'"):
            load("cora:3")
        with pytest.raises(InputError, match="must be the name of a data set, got 3"):
            load(3)

    def test_bad_arguments(self, tmp_path):
        with pytest.raises(InputError, match="split must be one of random, public, got 'fixed'"):
            load("chain-s", split="fixed")
        for name in ("chain-s", "csbm", "photo"):
            with pytest.raises(InputError, match="split must be random for"):
                load(name, split="public", data_dir=tmp_path)
        with pytest.raises(InputError, match="cora has no options, got nodes"):
            load("cora", nodes=3, data_dir=tmp_path)
        with pytest.raises(InputError, match="chain-s has no options"):
            load("chain-s", nodes=3)
        with pytest.raises(InputError, match="seed"):
            load("chain-s", seed=-1)

    def test_available(self, tmp_path, monkeypatch):
        monkeypatch.delenv("CARIBOU_DATA", raising=False)
        (tmp_path / "amazon_photo.npz").write_bytes(b"")
        listed = {info.name: info for info in available(tmp_path)}
        assert listed["photo"].where == str(tmp_path / "amazon_photo.npz")
        assert listed["cora"].where == "needs download"
        assert listed["berkeley13"].where == "needs file"
        assert listed["chain-x"].where == "generated"
        assert len(listed) == 15
        for name in ("chain-s", "chain-m", "chain-l", "chain-x", "csbm"):
            graph, info = load(name), listed[name]
            found = (graph.num_nodes, 2 * graph.num_edges, graph.num_features, graph.num_classes)
            assert found == (info.nodes, info.edges, info.features, info.classes)
        with pytest.raises(DataError, match="does not exist"):
            available(tmp_path / "nowhere")


@real_data
class TestRealFiles:
    """Statistics are checked by `load` itself; the split sizes here are 70/10/20 of the table's nodes."""

    @pytest.mark.parametrize("name", sorted(PUBLIC))
    def test_statistics_and_random_split(self, name):
        if not has_file(name):
            pytest.skip(f"no file of {name} in CARIBOU_DATA")
        graph, spec = load(name, seed=1), PUBLIC[name]
        assert (graph.num_nodes, 2 * graph.num_edges) == (spec.nodes, spec.edges)
        assert (graph.num_features, graph.num_classes) == (spec.features, spec.classes)
        assert sum(graph.split.sizes) == spec.nodes
        for size, share in zip(graph.split.sizes, (0.7, 0.1, 0.2), strict=True):
            assert abs(size - share * spec.nodes) <= 1
        assert graph.features.dtype == np.float32
        assert graph.cleaning.self_loops == graph.cleaning.duplicates == graph.cleaning.one_way == 0

    @pytest.mark.parametrize(
        ("name", "sizes"),
        [("cora", (140, 500, 1000)), ("pubmed", (60, 500, 1000)), ("arxiv-edges", (90941, 29799, 48603))],
    )
    def test_public_split(self, name, sizes):
        if not has_file(name):
            pytest.skip(f"no file of {name} in CARIBOU_DATA")
        assert load(name, split="public").split.sizes == sizes

    def test_cora_is_the_known_graph(self):
        if not has_file("cora"):
            pytest.skip("no file of cora in CARIBOU_DATA")
        summary = load("cora").summary()
        assert summary["class_counts"] == [351, 217, 418, 818, 426, 298, 180]
        assert (summary["degree_min"], summary["degree_median"], summary["degree_max"]) == (1, 3, 168)
        assert round(summary["homophily"], 2) == 0.81
