"""Shared by the tests of graphs: a path, a random graph, lists of edges, and equality of everything that a reader can see."""

import networkx as nx
import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from caribou.graph import Graph


def path_graph(n=4, **changes):
    fields = {"labels": np.arange(n) % 2, "name": "path", **changes}
    return Graph.from_edges(np.eye(n, dtype=np.float32), [np.arange(n - 1), np.arange(1, n)], **fields)


def random_graph(n: int = 40, seed: int = 0, columns: int = 6) -> Graph:
    rng = np.random.default_rng(seed)
    edges = np.array(list(nx.gnp_random_graph(n, 0.15, seed=seed).edges)).T
    return Graph.from_edges(rng.standard_normal((n, columns)), edges)


def assert_same(a, b):
    """Every field that a reader can see is equal."""
    assert sp.issparse(a.features) == sp.issparse(b.features)
    assert a.features.dtype == b.features.dtype
    assert a.features.shape == b.features.shape
    left, right = (g.features.toarray() if sp.issparse(g.features) else g.features for g in (a, b))
    np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(a.indptr, b.indptr)
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_array_equal(a.absent, b.absent)
    assert (a.labels is None) == (b.labels is None)
    if a.labels is not None:
        np.testing.assert_array_equal(a.labels, b.labels)
    assert (a.split is None) == (b.split is None)
    if a.split is not None:
        for part in ("train", "val", "test"):
            np.testing.assert_array_equal(getattr(a.split, part), getattr(b.split, part))
    assert a.num_classes == b.num_classes
    assert a.class_names == b.class_names


@st.composite
def edge_lists(draw):
    n = draw(st.integers(1, 7))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))
    return n, np.array(pairs, dtype=np.int64).reshape(-1, 2).T
