"""The faulty variant differs from the sound one by the clean convolution alone, and its leak is there to see."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from reproduction.clean_convolution import EPSILONS, HEAD, RESULT, SEEDS, fit_both

import caribou as cb
from caribou import methods
from caribou.graph import Graph, Split
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.caribou import Caribou
from caribou.privacy.budget import Budget
from caribou.randomness import Streams

pytestmark = pytest.mark.usefixtures("quick_learning")
METHOD = Caribou(hops=2, beta=0.0, hidden=(4,))


def test_the_sound_half_is_the_method_itself() -> None:
    graph = cb.datasets.load("csbm:nodes=60,features=8", seed=1)
    budget = Budget(4.0, 1e-5)
    sound, faulty = fit_both(METHOD, graph, budget, Streams(0), noise=5)
    fitted = methods.fit(METHOD, graph, budget, Streams(0), NoiseSource.seeded(5))
    assert np.array_equal(sound.released["state"], fitted.released["state"])
    assert np.array_equal(sound.probabilities, fitted.probabilities)
    assert not np.allclose(faulty.released["state"], sound.released["state"])


def test_two_nodes_with_the_same_closed_neighbourhood_have_equal_rows_in_the_faulty_release_alone() -> None:
    """What betrays the edge between them with probability 1, whatever the noise."""
    x = np.random.default_rng(0).standard_normal((8, 3))
    edges = np.array([(0, 1), (0, 2), (1, 2), (3, 4), (5, 6)]).T
    graph = Graph.from_edges(x, edges, labels=[0, 1] * 4, split=Split(range(4), [4, 5], [6, 7]))
    sound, faulty = fit_both(METHOD, graph, Budget(0.5, 1e-5), Streams(0), noise=1)
    assert np.allclose(faulty.released["state"][0], faulty.released["state"][1], atol=1e-12)
    assert not np.allclose(sound.released["state"][0], sound.released["state"][1], atol=1e-2)
    apart = graph.without_edge(0, 1)
    _, without = fit_both(METHOD, apart, Budget(0.5, 1e-5), Streams(0), noise=1)
    assert not np.allclose(without.released["state"][0], without.released["state"][1], atol=1e-2)


def test_the_file_has_every_seed_of_what_it_has() -> None:
    if not RESULT.exists():
        pytest.skip("results/clean-convolution.csv has not been measured yet")
    with RESULT.open(encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == HEAD
    graphs = {row[0] for row in rows}
    assert len(rows) == len(graphs) * len(EPSILONS) * len(SEEDS)
    assert all(0 <= float(share) <= 1 for row in rows for share in row[3:])
