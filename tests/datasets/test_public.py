"""Public data sets: where they are looked for, how the publishers' files are parsed, what a failed download leaves."""

import gzip
import io
import socket
import urllib.error
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import savemat

from caribou.datasets import available, load, public, write_graph
from caribou.datasets.public import amazon_graph, arxiv_graph, facebook_graph
from caribou.datasets.table import PUBLIC
from caribou.errors import DataError
from caribou.graph import Graph, Split


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """No folder from outside, and no network."""
    monkeypatch.delenv("CARIBOU_DATA", raising=False)

    def refuse(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", refuse)


def tiny(name="cora", **changes):
    fields = {"labels": np.arange(10) % 2, "split": Split([0, 1], [2], [3]), "name": name, **changes}
    return Graph.from_edges(np.eye(10, 3, dtype=np.float32), [[0, 1], [1, 2]], **fields)


@pytest.fixture
def small_table(monkeypatch):
    """The table with the sizes of `tiny`."""
    for name in ("cora", "photo", "reddit2", "facebook", "arxiv"):
        monkeypatch.setitem(PUBLIC, name, replace(PUBLIC[name], nodes=10, edges=4, features=3, classes=2))


class TestFolder:
    def test_file_alias_and_variable(self, tmp_path, monkeypatch, small_table):
        write_graph(tiny(), tmp_path / "amazon_photo.npz")
        assert load("photo", data_dir=tmp_path).split.sizes == (7, 1, 2)
        monkeypatch.setenv("CARIBOU_DATA", str(tmp_path))
        assert load("photo", seed=3).name == "photo"
        write_graph(tiny(), tmp_path / "cora.npz")
        assert load("cora", split="public").split.sizes == (2, 1, 1)
        write_graph(tiny(split=None), tmp_path / "cora.npz")
        with pytest.raises(DataError, match="cora: the file holds no public split"):
            load("cora", split="public")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"nodes": 11}, "nodes of cora must be 11, found 10"),
            ({"edges": 6}, r"edges \(both directions\) of cora must be 6, found 4"),
            ({"features": 4}, "features of cora must be 4, found 3"),
            ({"classes": 3}, "classes of cora must be 3, found 2"),
        ],
    )
    def test_other_statistics_are_refused(self, tmp_path, monkeypatch, small_table, changes, message):
        monkeypatch.setitem(PUBLIC, "cora", replace(PUBLIC["cora"], **changes))
        write_graph(tiny(), tmp_path / "cora.npz")
        with pytest.raises(DataError, match=message) as caught:
            load("cora", data_dir=tmp_path)
        assert str(tmp_path / "cora.npz") in str(caught.value)


@pytest.fixture
def served(monkeypatch):
    """Content by the last part of an address, and what was asked for; other addresses cannot be reached."""
    content, asked = {}, []

    def answer(address, timeout):
        asked.append(address)
        name = address.rpartition("/")[2]
        if name not in content:
            raise TimeoutError("timed out\nafter a while")
        return io.BytesIO(content[name])

    monkeypatch.setattr("urllib.request.urlopen", answer)
    return content, asked


@pytest.fixture
def parsed(monkeypatch):
    """The files that PyG found when it was asked for a data set of Planetoid."""
    from torch_geometric import datasets

    calls = []

    class FakePlanetoid:
        def __init__(self, root, name):
            calls.append({file.name: file.read_bytes() for file in Path(root, name, "raw").iterdir()})

        def __getitem__(self, _):
            return tiny().to_pyg()

    monkeypatch.setattr(datasets, "Planetoid", FakePlanetoid)
    return calls


class TestDownload:
    FILES = {"ind.cora.x": b"rows", "ind.cora.graph": b"edges"}  # noqa: RUF012

    @pytest.fixture
    def expected(self, monkeypatch, small_table):
        """Two files of these bytes, and no other."""
        digests = {f"https://there/{name}": sha256(content).hexdigest() for name, content in self.FILES.items()}
        monkeypatch.setitem(PUBLIC, "cora", replace(PUBLIC["cora"], download=digests))

    def test_no_network(self, tmp_path):
        for name in [name for name, spec in PUBLIC.items() if spec.download]:
            with pytest.raises(DataError) as caught:
                load(name, data_dir=tmp_path)
            for part in (PUBLIC[name].files[0], str(tmp_path), "no route to host", "data_dir or CARIBOU_DATA"):
                assert part in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def test_success_is_kept_and_used(self, tmp_path, served, parsed, expected):
        content, asked = served
        content.update(self.FILES)
        first = load("cora", data_dir=tmp_path, seed=2)
        assert sp.issparse(first.features)
        assert [entry.name for entry in (tmp_path / "downloads").iterdir()] == ["cora.npz"]
        second = load("cora", data_dir=tmp_path, seed=2)
        assert parsed == [self.FILES]
        assert len(asked) == 2
        assert second.split.train.tolist() == first.split.train.tolist()
        assert load("cora", data_dir=tmp_path, split="public").split.sizes == (2, 1, 1)
        assert {info.name: info.where for info in available(tmp_path)}["cora"].endswith("cora.npz")

    def test_other_bytes_are_not_opened_and_not_kept(self, tmp_path, served, parsed, expected):
        served[0].update(self.FILES | {"ind.cora.graph": b"edges."})
        with pytest.raises(DataError, match=r"ind\.cora\.graph: SHA-256 must be [0-9a-f]{64}, got [0-9a-f]{64}"):
            load("cora", data_dir=tmp_path)
        assert parsed == []
        assert list(tmp_path.iterdir()) == []

    def test_every_file_has_a_digest_and_a_fixed_place(self):
        files = {address: digest for spec in PUBLIC.values() for address, digest in spec.download.items()}
        assert len(files) == 25
        assert len(set(files.values())) == 25
        for address, digest in files.items():
            assert address.startswith("https://")
            assert bytes.fromhex(digest).hex() == digest
            assert len(digest) == 64

    def test_without_a_digest_nothing_is_asked_for(self, tmp_path, served):
        for name in ("photo", "facebook", "reddit2", "berkeley13"):
            with pytest.raises(DataError, match=f"{name}: .*it is not downloaded, for no digest of its files is known"):
                load(name, data_dir=tmp_path)
        assert served[1] == []

    def test_failure_half_way(self, tmp_path, served, parsed, expected):
        served[0]["ind.cora.x"] = b"rows"
        before = socket.getdefaulttimeout()
        with pytest.raises(DataError, match=r"download failed \(TimeoutError: timed out after a while\)"):
            load("cora")
        assert not any(entry.is_file() for entry in tmp_path.rglob("*"))
        assert socket.getdefaulttimeout() == before

    def test_cache_folder(self, tmp_path, monkeypatch):
        assert public.cache_folder(tmp_path) == tmp_path / "downloads"
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert public.cache_folder(None) == tmp_path / "xdg" / "caribou"
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o555)
        assert public.cache_folder(locked) == tmp_path / "xdg" / "caribou"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert public.cache_folder(None).parts[-2:] == (".cache", "caribou")


class TestFacebook:
    def mat(self, path, info=None, adjacency=None):
        # status, gender, major, minor, housing, year, high school
        rows = [
            [1, 1, 7, 0, 3, 2004, 9],
            [2, 2, 5, 0, 0, 2005, 9],
            [1, 0, 7, 8, 3, 2004, 9],
            [1, 1, 0, 0, 0, 0, 9],  # year unknown: dropped, but its values have their columns
            [6, 1, 0, 0, 0, 2009, 9],  # the least frequent year: dropped
            [1, 2, 7, 0, 3, 2005, 9],
            [1, 2, 7, 0, 3, 2005, 9],  # only friend is dropped: isolated
        ]
        dense = np.zeros((7, 7))
        for u, v in ((0, 1), (0, 2), (0, 3), (1, 5), (4, 6)):
            dense[u, v] = dense[v, u] = 1
        content = {
            "A": sp.csc_matrix(dense if adjacency is None else adjacency),
            "local_info": np.array(rows if info is None else info, dtype=np.int32),
        }
        savemat(path, content)
        return path

    def test_parsing(self, tmp_path):
        graph = facebook_graph(self.mat(tmp_path / "f.mat"), classes=2)
        assert graph.class_names == ("2004", "2005")
        assert graph.labels.tolist() == [0, 1, 0, 1]
        assert graph.edge_index[:, ::1].T.tolist() == [[0, 1], [0, 2], [1, 0], [1, 3], [2, 0], [3, 1]]
        # status 1, 2, 6; gender 1, 2; major 5, 7; minor 8; housing 3
        assert graph.features.toarray().tolist() == [
            [1, 0, 0, 1, 0, 0, 1, 0, 1],
            [0, 1, 0, 0, 1, 1, 0, 0, 0],
            [1, 0, 0, 0, 0, 0, 1, 1, 1],
            [1, 0, 0, 0, 1, 0, 1, 0, 1],
        ]

    def test_bad_files(self, tmp_path, monkeypatch):
        whole = self.mat(tmp_path / "whole.mat").read_bytes()
        target = tmp_path / "f.mat"
        for content in (b"MATLAB 5.0 MAT-file, broken", whole[: len(whole) // 2]):
            target.write_bytes(content)
            with pytest.raises(DataError, match="not a Facebook100"):
                facebook_graph(target)
        with pytest.raises(DataError, match="A must be n x n and local_info n x 7"):
            facebook_graph(self.mat(target, info=[[1, 2, 3, 4, 5, 6, 7]]))
        outside = sp.csc_matrix(np.eye(7))
        outside.indices[6] = 10**6  # SciPy would write there when it turns columns into rows
        found = {"A": outside, "local_info": np.ones((7, 7), np.int32)}
        monkeypatch.setattr("scipy.io.loadmat", lambda *_, **__: found)
        with pytest.raises(DataError, match=r"A must have sparse indices inside of its shape"):
            facebook_graph(target)


class TestAmazon:
    def arrays(self, **changes):
        features, edges = (
            sp.csr_array([[2.0, 0, 1], [0, 0, 0], [0, 3, 0]]),
            sp.csr_array([[1, 1, 0], [0, 0, 0], [1, 0, 0]]),
        )
        found = {"labels": np.array([0, 1, 1])}
        for kind, matrix in (("attr", features), ("adj", edges)):
            found |= {f"{kind}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
        return {**found, **changes}

    def test_parsing(self, tmp_path, monkeypatch):
        file = tmp_path / "amazon_electronics_photo.npz"
        np.savez(file, **self.arrays())
        graph = amazon_graph(file, "photo")
        assert graph.features.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
        assert graph.edge_index.T.tolist() == [[0, 1], [0, 2], [1, 0], [2, 0]]
        monkeypatch.setitem(PUBLIC, "photo", replace(PUBLIC["photo"], nodes=3, edges=4, features=3, classes=2))
        assert public.public_graph(PUBLIC["photo"], tmp_path).num_nodes == 3

    def test_bad_files(self, tmp_path):
        file = tmp_path / "amazon_electronics_photo.npz"
        pickled = np.array([{"a": 1}], dtype=object)
        for changes in ({"attr_indices": np.array([0, 9, 1])}, {"adj_shape": np.array([4, 4])}, {"labels": pickled}):
            np.savez(file, **self.arrays(**changes))
            with pytest.raises(DataError, match=r"not a file of Shchur et al\."):
                amazon_graph(file, "photo")


class TestArxiv:
    MEMBERS = {  # noqa: RUF012
        "arxiv/raw/edge.csv.gz": "0,1\n1,2\n2,1\n",
        "arxiv/raw/node-feat.csv.gz": "0.5,1\n-0.25,2\n0,3\n",
        "arxiv/raw/node-label.csv.gz": "4\n0\n1\n",
        "arxiv/raw/num-node-list.csv.gz": "3\n",
        "arxiv/split/time/train.csv.gz": "2\n",
        "arxiv/split/time/valid.csv.gz": "0\n",
        "arxiv/split/time/test.csv.gz": "1\n",
    }

    def pack(self, path, **changes):
        with zipfile.ZipFile(path, "w") as archive:
            for member, text in self.MEMBERS.items():
                key = member.rpartition("/")[2].partition(".")[0].replace("-", "_")
                text = changes.get(key, text)
                if text is not None:
                    archive.writestr(member, gzip.compress(text.encode()))
        return path

    def test_parsing(self, tmp_path):
        graph = arxiv_graph(self.pack(tmp_path / "arxiv.zip"))
        assert graph.features.tolist() == [[0.5, 1], [-0.25, 2], [0, 3]]
        assert graph.features.dtype == np.float32
        assert graph.labels.tolist() == [4, 0, 1]
        assert graph.num_edges == 2
        assert graph.cleaning.one_way == 1
        assert [part.tolist() for part in (graph.split.train, graph.split.val, graph.split.test)] == [[2], [0], [1]]

    def test_bad_files(self, tmp_path):
        for changes in ({"edge": None}, {"edge": "0,9\n"}, {"edge": "0,x\n"}, {"node_label": ""}, {"valid": "2\n"}):
            with pytest.raises(DataError, match=r"arxiv\.zip"):
                arxiv_graph(self.pack(tmp_path / "arxiv.zip", **changes))
        path = self.pack(tmp_path / "arxiv.zip")
        path.write_bytes(path.read_bytes()[:-40])
        with pytest.raises(DataError, match="not OGB's"):
            arxiv_graph(path)
