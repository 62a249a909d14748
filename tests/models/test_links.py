"""Scores are what the formula says, symmetric in their ends, and made of rows and public pairs: never of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import caribou as cb
from caribou.datasets import load
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.metrics import Scored, area_under_curve, average_precision
from caribou.models.links import LinkPredictor, hide_edges
from caribou.randomness import Streams

RNG = np.random.default_rng(0)
STATE = RNG.standard_normal((40, 6))
PAIRS = np.array([(u, v) for u in range(40) for v in range(u)]).T
PAIRS = PAIRS[:, RNG.permutation(PAIRS.shape[1])]


def cosine(u: int, v: int) -> float:
    x = STATE - STATE.mean(axis=0)
    return float(x[u] @ x[v] / np.linalg.norm(x[u]) / np.linalg.norm(x[v]))


def test_cosines_by_hand() -> None:
    found = LinkPredictor().scores(STATE, PAIRS)
    assert found == pytest.approx([cosine(u, v) for u, v in PAIRS.T])
    assert np.array_equal(found, LinkPredictor().scores(STATE, PAIRS[::-1]))


def test_training_finds_the_column_that_carries_the_signal() -> None:
    """Edges join nodes that agree in the first column; the other 5 are noise, which cosines cannot leave out."""
    same = (STATE[PAIRS[0], 0] > 0) == (STATE[PAIRS[1], 0] > 0)
    known, asked = PAIRS[:, :390], PAIRS[:, 390:]
    trained = LinkPredictor("logistic").fit(STATE, known, same[:390]).scores(STATE, asked)
    plain = LinkPredictor().scores(STATE, asked)
    truth = same[390:]
    assert area_under_curve(Scored(trained, truth)) > 0.9 > 0.8 > area_under_curve(Scored(plain, truth))
    assert average_precision(Scored(trained, truth)) > average_precision(Scored(plain, truth))
    assert ((trained > 0) & (trained < 1)).all()


def test_a_predictor_is_used_on_another_release() -> None:
    labels = np.arange(PAIRS.shape[1]) % 2
    predictor = LinkPredictor("logistic").fit(STATE, PAIRS, labels)
    assert predictor.scores(STATE[:9], [[0], [8]]).shape == (1,)
    with pytest.raises(InputError, match="state must have 6 columns, got 5"):
        predictor.scores(STATE[:, :5], PAIRS)
    assert repr(predictor) == "LinkPredictor('logistic', fitted)"


@pytest.mark.parametrize("argument", ["state", "public_pairs", "public_labels", "pairs"])
def test_the_private_graph_is_refused_everywhere(argument: str) -> None:
    graph = cb.datasets.load("csbm", nodes=40, seed=1)
    labels = np.arange(PAIRS.shape[1]) % 2
    for private in (graph, graph.to_pyg(), graph.adjacency()):
        given = {"state": STATE, "public_pairs": PAIRS, "public_labels": labels, "pairs": PAIRS, argument: private}
        asked = given.pop("pairs")
        with pytest.raises(InputError, match=rf"{argument} must be .*not covered by the certificate"):
            LinkPredictor("logistic").fit(**given).scores(STATE, asked)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[0.5], [1.0]], r"pairs must be whole numbers of shape \[2, m\]"),
        ([[0], [40]], r"pairs must be node indices in \[0, 40\), got 40"),
        ([[0, 3], [1, 3]], "pairs must join two different nodes, got 3-3"),
    ],
)
def test_bad_pairs(pairs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        LinkPredictor().scores(STATE, pairs)


GRAPH = load("csbm:nodes=150,average_degree=12,signal=2", seed=3)


def codes(pairs: np.ndarray) -> set[tuple[int, int]]:
    return {(min(u, v), max(u, v)) for u, v in pairs.T.tolist()}


def test_hidden_edges_are_gone_and_other_pairs_are_no_edges() -> None:
    hidden = hide_edges(GRAPH, Streams(0))
    whole, left = codes(GRAPH.edge_index), codes(hidden.graph.edge_index)
    edges, others = codes(hidden.pairs[:, hidden.labels == 1]), codes(hidden.pairs[:, hidden.labels == 0])
    assert len(edges) == len(others) == 90
    assert edges | left == whole
    assert not edges & left
    assert not others & whole
    assert np.array_equal(hidden.graph.split.train, GRAPH.split.train)


def test_other_pairs_are_uniform() -> None:
    """On 12 nodes every pair that is no edge is drawn about equally often."""
    graph = Graph.from_edges(np.eye(12), np.stack([np.arange(11), np.arange(1, 12)]))
    counts: dict[tuple[int, int], int] = {}
    for seed in range(550):
        hidden = hide_edges(graph, Streams(seed), share=0.5)
        for pair in codes(hidden.pairs[:, hidden.labels == 0]):
            counts[pair] = counts.get(pair, 0) + 1
    assert len(counts) == 55
    assert 550 * 6 / 55 == 60
    assert 32 < min(counts.values()) < max(counts.values()) < 92, "60 on average, standard deviation 7.3"
