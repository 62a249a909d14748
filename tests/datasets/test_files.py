"""Paths and formats: every format holds the same graph, and what is no usable file is named."""

import os

import numpy as np
import pytest

from caribou.datasets import read_graph, write_graph
from caribou.errors import InputError
from dataset_support import fails, tables


@pytest.mark.parametrize("key", ["csv", "parquet", "mixed", "npz", "sparse"])
def test_every_format_holds_the_same_graph(valid_files, key):
    graph = read_graph(*valid_files[key], name="people")
    assert graph.edge_index.tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    features = graph.features.toarray() if key == "sparse" else graph.features
    assert features.tolist() == [[31, 1.5], [45, 1.75], [28, 2], [60, 1.25]]
    assert features.dtype == np.float32
    assert graph.labels.tolist() == [1, 0, 1, -1]
    assert [part.tolist() for part in (graph.split.train, graph.split.val, graph.split.test)] == [[0, 1], [2], [3]]
    assert graph.name == "people"
    assert graph.class_names == ("blue", "red")
    assert graph.node_ids.tolist() == ["ann", "bob", "cid", "dan"]


@pytest.mark.parametrize("key", ["csv", "parquet", "mixed", "npz", "sparse"])
def test_every_format_takes_declared_classes(valid_files, key):
    """Their order is the declared one, a label that is none of them is unknown, and labels of numbers are numbered."""
    measured = read_graph(*valid_files[key])
    assert measured.classes_declared == (key in ("npz", "sparse")), "a graph file says what its writer declared"
    names = ["red", "green", "blue"]
    graph = read_graph(*valid_files[key], classes=names)
    assert graph.class_names == tuple(names)
    assert [None if k < 0 else names[k] for k in graph.labels] == ["red", "blue", "red", None]
    fewer = read_graph(*valid_files[key], classes=["blue", "green"])
    assert fewer.labels.tolist() == [-1, 0, -1, -1]
    assert fewer.num_classes == 2
    assert (fewer.split.train.tolist(), fewer.split.declared) == ([1], (2, 1, 1))
    numbered = read_graph(*valid_files[key], classes=5)
    assert (numbered.num_classes, numbered.classes_declared) == (5, True)
    with pytest.raises(InputError, match="classes must be at least 2, got 1"):
        read_graph(*valid_files[key], classes=["a"])


def test_a_folder_of_arrays_takes_declared_classes(tmp_path):
    np.save(tmp_path / "edges.npy", np.array([[0, 1]]))
    np.save(tmp_path / "features.npy", np.eye(12))
    np.save(tmp_path / "labels.npy", np.array([0, 3] * 5 + [9, -7]))
    graph = read_graph(tmp_path, classes=[3, 0])
    assert graph.labels.tolist() == [1, 0] * 5 + [-1, -1]
    assert graph.class_names == ("3", "0")


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_a_person_without_data_reads_like_one_who_was_taken_out(tmp_path, ending):
    """Features, label and edges are gone; id and part of the split are public and stay. Nothing is refused."""
    edges, nodes = tables(
        tmp_path,
        "from,to\n1,3\n",
        "id,age,height,label,split\n1,31,1.5,a,train\n2,,,,train\n3,28,2,b,val\n4,60,1,a,test\n",
    )
    graph = read_graph(edges, nodes, classes=["a", "b"])
    if ending == "npz":
        graph = read_graph(write_graph(graph, tmp_path / "g.npz"))
    assert graph.features.tolist() == [[31, 1.5], [0, 0], [28, 2], [60, 1]]
    assert graph.labels.tolist() == [0, -1, 1, 0]
    assert graph.split.train.tolist() == [0]
    assert graph.split.declared == (2, 1, 1)
    assert graph.classes_declared


class TestPaths:
    def test_no_usable_file(self, tmp_path):
        fails("absent.npz: file not found", tmp_path / "absent.npz")
        fails("must be a file, got a directory", tmp_path)
        (tmp_path / "graph.txt").write_text("1 2")
        fails("unknown ending '.txt', must be one of .npz, .csv, .parquet", tmp_path / "graph.txt")
        os.mkfifo(tmp_path / "pipe.npz")
        fails("must be a file, got a special file", tmp_path / "pipe.npz")
        fails("cannot be read|file not found", "nul\0byte.npz")
        fails("cannot be read|file not found", "x" * 5000 + ".npz")
        with pytest.raises(InputError, match=r"^path must be the path of a file, got int$"):
            read_graph(3)
