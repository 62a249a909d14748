"""A folder of plain arrays is read without copying its features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from caribou.datasets import read_graph
from caribou.errors import DataError, InputError
from caribou.graph import Graph


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    base = tmp_path / "big"
    base.mkdir()
    np.save(base / "edges.npy", rng.integers(0, 60, (200, 2)))
    np.save(base / "features.npy", rng.standard_normal((60, 5)).astype(np.float32))
    np.save(base / "labels.npy", np.arange(60) % 3)
    return base


def test_the_graph_is_that_of_its_arrays(folder: Path) -> None:
    graph = read_graph(folder, seed=4)
    edges, features, labels = (np.load(folder / f"{name}.npy") for name in ("edges", "features", "labels"))
    expected = Graph.from_edges(features, edges.T, labels=labels).random_split(4)
    assert graph.name == "big"
    assert b"".join(graph.content()) == b"".join(expected.content())
    assert np.array_equal(graph.split.train, expected.split.train)
    np.save(folder / "edges.npy", np.ascontiguousarray(edges.T))
    np.save(folder / "split.npy", np.repeat([0, 1, 2], 20))
    again = read_graph(folder)
    assert np.array_equal(again.indices, graph.indices)
    assert again.split.sizes == (20, 20, 20)


def test_features_stay_in_their_file(folder: Path) -> None:
    graph = read_graph(folder)
    base = graph.features
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert type(base).__name__ == "mmap"
    with pytest.raises(ValueError, match="read-only"):
        graph.features[0, 0] = 1


def test_bad_folders_are_named(folder: Path) -> None:
    with pytest.raises(InputError, match="nodes goes with"):
        read_graph(folder, folder / "labels.npy")
    np.save(folder / "split.npy", np.full(60, 7))
    with pytest.raises(DataError, match=r"split.npy must be 60 numbers"):
        read_graph(folder)
    (folder / "split.npy").unlink()
    (folder / "features.npy").write_bytes(b"no array")
    with pytest.raises(DataError, match=r"features.npy"):
        read_graph(folder)
