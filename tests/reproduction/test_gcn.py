"""The plain GCN learns, leaks, and leaves everybody else's random numbers alone."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from reproduction.gcn import PlainGcn, rows_of_sum_one

import caribou as cb
from caribou.model.estimator import accuracy
from caribou.randomness import Streams


def test_it_learns_and_a_query_is_a_function_of_the_features() -> None:
    graph = cb.datasets.load("csbm", nodes=200, homophily=0.9, signal=3.0, seed=0)
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    box = PlainGcn.fit(graph, Streams(0))
    assert torch.equal(torch.random.get_rng_state(), before)
    posteriors = box.query(box.graph.features)
    assert posteriors.shape == (200, 4)
    assert np.allclose(posteriors.sum(axis=1), 1)
    assert accuracy(posteriors, graph, "test") > 0.6
    again = PlainGcn.fit(graph, Streams(0))
    assert np.array_equal(again.query(box.graph.features), posteriors)
    other = np.array(box.graph.features)
    other[0] += 1
    moved = np.abs(box.query(other) - posteriors).max(axis=1) > 0
    near = np.asarray((graph.adjacency() + sp.eye_array(200)).todense()) > 0
    assert np.array_equal(np.flatnonzero(moved), np.flatnonzero((near @ near)[0])), "two hops and no further"


def test_rows_of_sum_one() -> None:
    x = np.array([[1.0, 3.0], [0.2, 0.2], [0.0, 0.0]])
    expected = np.array([[0.25, 0.75], [0.2, 0.2], [0.0, 0.0]], dtype=np.float32)
    assert np.array_equal(rows_of_sum_one(x), expected)
    assert np.array_equal(rows_of_sum_one(sp.csr_array(x)), expected)
