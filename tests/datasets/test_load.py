"""Data sets by name: options, what is available, real files, and the messages for names that are wrong."""

import os

import numpy as np
import pytest

from caribou.datasets import available, load
from caribou.datasets.table import PUBLIC
from caribou.errors import DataError

FOLDER = os.environ.get("CARIBOU_DATA")
real_data = pytest.mark.skipif(not FOLDER, reason="needs the folder of data set files: set CARIBOU_DATA")


def has_file(name):
    return bool(FOLDER) and any(os.path.exists(os.path.join(FOLDER, file)) for file in PUBLIC[name].files)


class TestNames:
    def test_available(self, tmp_path, monkeypatch):
        monkeypatch.delenv("CARIBOU_DATA", raising=False)
        (tmp_path / "amazon_photo.npz").write_bytes(b"")
        listed = {info.name: info for info in available(tmp_path)}
        assert listed["photo"].where == str(tmp_path / "amazon_photo.npz")
        assert listed["cora"].where == "needs download"
        assert listed["berkeley13"].where == "needs file"
        assert listed["chain-x"].where == "generated"
        assert len(listed) == 16
        for name in ("chain-s", "chain-m", "chain-l", "chain-x", "csbm", "neighbour-features"):
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
