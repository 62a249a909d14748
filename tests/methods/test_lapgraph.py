"""LapGraph by a threshold: how it differs from keeping exactly the largest cells."""

from __future__ import annotations

import math

import numpy as np
import pytest

import caribou as cb
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.randomized_response import perturbed_pairs
from caribou.privacy.pair_response import laplace_threshold_response, pair_count


def test_its_edges_are_as_many_as_the_largest_cells_on_average() -> None:
    """Against the published rule on 60 nodes: as many edges in the mean, and as many true ones."""
    graph = cb.datasets.load("csbm:nodes=60", seed=1)
    epsilon, runs = 3.0, 300
    T, N = graph.num_edges, pair_count(60)
    truth = np.zeros(N)
    u, v = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    truth[v * (v - 1) // 2 + u] = 1
    noise = NoiseSource.seeded(1)
    cells = truth + noise.laplace((runs, N), scale=1 / epsilon)
    top = np.argsort(-cells, axis=1)[:, :T]
    published = truth[top].sum(axis=1)
    response = laplace_threshold_response(epsilon=epsilon, edges=T, nodes=60)
    drawn = [perturbed_pairs(graph, response, noise) for _ in range(runs)]
    sizes = np.array([pairs.shape[1] for pairs in drawn])
    ours = np.array([truth[p[1] * (p[1] - 1) // 2 + p[0]].sum() for p in drawn])
    assert sizes.mean() == pytest.approx(T, abs=6 * sizes.std() / math.sqrt(runs))
    assert sizes.std() > 0, "the number of edges is random here, and fixed in the published rule"
    assert ours.mean() == pytest.approx(published.mean(), rel=0.03)
