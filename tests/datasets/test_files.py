"""Paths and formats: every format holds the same graph, and what is no usable file is named."""

import os

import numpy as np
import pandas as pd
import pytest

from caribou.datasets import read_graph
from caribou.errors import InputError
from dataset_support import fails, tables


@pytest.mark.parametrize("key", ["csv", "parquet", "mixed", "graphml", "pt", "npz", "sparse"])
def test_every_format_holds_the_same_graph(valid_files, key):
    graph = read_graph(*valid_files[key], name="people")
    assert graph.edge_index.tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    features = graph.features.toarray() if key == "sparse" else graph.features
    assert features.tolist() == [[31, 1.5], [45, 1.75], [28, 2], [60, 1.25]]
    assert features.dtype == np.float32
    assert graph.labels.tolist() == [1, 0, 1, -1]
    assert [part.tolist() for part in (graph.split.train, graph.split.val, graph.split.test)] == [[0, 1], [2], [3]]
    assert graph.name == "people"
    if key != "pt":
        assert graph.class_names == ("blue", "red")
        assert graph.node_ids.tolist() == ["ann", "bob", "cid", "dan"]


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

    def test_content_of_arguments_is_not_shown(self, tmp_path):
        frame = pd.DataFrame({"from": ["secret"], "to": ["person"]})
        with pytest.raises(InputError, match=r"^path must be the path of a file, got DataFrame$"):
            read_graph(frame, frame)
        edges, _ = tables(tmp_path)
        with pytest.raises(InputError, match=r"^nodes must be the path of a file, got DataFrame$"):
            read_graph(edges, frame)

    @pytest.mark.parametrize("key", ["parquet", "graphml", "pt", "npz"])
    def test_empty_and_truncated(self, valid_files, tmp_path, key):
        source = valid_files[key][0]
        content = source.read_bytes()
        target = tmp_path / source.name
        for part in (b"", content[: len(content) // 2], content[:-3], content[:4]):
            target.write_bytes(part)
            fails(f"{target.name}: ", target, *valid_files[key][1:])

    def test_arguments_without_meaning(self, valid_files):
        nodes = valid_files["csv"][1]
        with pytest.raises(InputError, match="nodes goes with an edge table"):
            read_graph(*valid_files["npz"], nodes)
        with pytest.raises(InputError, match="label_column has no meaning"):
            read_graph(*valid_files["npz"], label_column="y")
        with pytest.raises(InputError, match="id_column has no meaning"):
            read_graph(*valid_files["graphml"], id_column="id")
        with pytest.raises(InputError, match="seed"):
            read_graph(*valid_files["npz"], seed=-1)
