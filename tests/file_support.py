"""One small graph, written in every format that `read_graph` knows."""

import numpy as np
import pytest
import scipy.sparse as sp

from caribou.datasets import write_graph
from caribou.graph import Graph, Split

NODES = """id,age,height,label,split
ann,31,1.5,red,train
bob,45,1.75,blue,train
cid,28,2,red,val
dan,60,1.25,,test
"""
EDGES = "from,to\nann,bob\nbob,ann\nbob,cid\ncid,dan\ndan,dan\n"


def people(sparse=False):
    """The graph that all the files hold."""
    x = np.array([[31, 1.5], [45, 1.75], [28, 2], [60, 1.25]], dtype=np.float32)
    return Graph.from_edges(
        sp.csr_array(x) if sparse else x,
        [[0, 1, 2], [1, 2, 3]],
        labels=[1, 0, 1, -1],
        split=Split([0, 1], [2], [3]),
        name="people",
        class_names=("blue", "red"),
        node_ids=["ann", "bob", "cid", "dan"],
    )


@pytest.fixture(scope="session")
def valid_files(tmp_path_factory):
    """Paths of valid files: key -> arguments of `read_graph`."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("valid")
    (folder / "edges.csv").write_text(EDGES)
    (folder / "nodes.csv").write_text(NODES)
    pd.read_csv(folder / "edges.csv").to_parquet(folder / "edges.parquet")
    pd.read_csv(folder / "nodes.csv").to_parquet(folder / "nodes.parquet")
    write_graph(people(), folder / "people.npz")
    write_graph(people(sparse=True), folder / "sparse.npz")
    return {
        "csv": (folder / "edges.csv", folder / "nodes.csv"),
        "parquet": (folder / "edges.parquet", folder / "nodes.parquet"),
        "mixed": (folder / "edges.csv", folder / "nodes.parquet"),
        "npz": (folder / "people.npz",),
        "sparse": (folder / "sparse.npz",),
    }


@pytest.fixture(autouse=True)
def quiet_place(monkeypatch, tmp_path):
    """No test writes to the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
