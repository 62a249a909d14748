"""Votes that say feature codes: they help where features of neighbours tell, one edge moves one entry, and batches keep to it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import caribou as cb
from caribou.graph.arrivals import Arrivals, Grown
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.votes import Batch, Decoded, VotesEdge, VoteStart, run_rounds
from caribou.models.feature_codes import FeatureCodes
from caribou.models.vote_model import VoteModel
from caribou.randomness import Streams

TELLING = cb.datasets.load("neighbour-features:1200", seed=1)
ALIKE = cb.datasets.load("csbm", nodes=600, classes=3, features=6, homophily=0.85, signal=1.5, seed=3)
UNIFORM = np.full((1200, 4), 0.25)


def run(graph: cb.Graph, epsilon: float, prior: np.ndarray = UNIFORM, **settings: object) -> Decoded:
    method, budget = VotesEdge(**settings), VoteBudget(epsilon)  # type: ignore[arg-type]
    start = VoteStart.of(method, graph, prior, budget, Streams(1))
    return run_rounds(method, graph, start, budget, NoiseSource.seeded(1))


def accuracy(decoded: Decoded, graph: cb.Graph) -> float:
    test = graph.split.test
    return float(np.mean(decoded.scores[test].argmax(axis=1) == np.asarray(graph.labels)[test]))


def informed(graph: cb.Graph, right: float = 0.6) -> np.ndarray:
    """A prior that names the label of a share of the nodes, and any class for the others."""
    rng = np.random.default_rng(7)
    labels = np.asarray(graph.labels)
    named = np.where(rng.random(len(labels)) < right, labels, rng.integers(0, graph.num_classes, len(labels)))
    weights = 1 + 2 * np.eye(graph.num_classes)[named]
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def coded() -> Decoded:
    return run(TELLING, 4.0)


def test_the_pilot_takes_codes_where_features_of_neighbours_tell(coded: Decoded) -> None:
    assert set(coded.transcript) == {"pilot", "codes"}
    assert accuracy(coded, TELLING) > 0.8
    assert accuracy(run(TELLING, 4.0, alphabet="class"), TELLING) < 0.4


def test_the_pilot_takes_classes_where_neighbours_are_alike() -> None:
    decoded = run(ALIKE, 4.0, informed(ALIKE))
    assert {"pilot", "round_1"} <= set(decoded.transcript)
    assert "codes" not in decoded.transcript
    alone = run(ALIKE, 4.0, informed(ALIKE), alphabet="class")
    assert accuracy(decoded, ALIKE) > accuracy(alone, ALIKE) - 0.03


def test_a_code_that_no_node_has_is_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The alphabet is that of the codes, not of the nodes at hand: k-means may leave a centre without members."""
    found = FeatureCodes.of(TELLING.features, 7, np.random.default_rng(0))
    far = replace(found, centres=np.concatenate([found.centres, np.full((1, found.centres.shape[1]), 1e6)]))
    monkeypatch.setattr(FeatureCodes, "of", lambda *_: far)
    decoded = run(TELLING, 4.0)
    assert decoded.transcript["pilot"].shape[1] == 4 * far.count
    assert decoded.transcript["codes"].shape[1] == far.count


Asked = list[tuple[object, ...]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found: Asked = []
    ask = NoisyCounts.ask

    def recorded(self: NoisyCounts, *arguments: object) -> np.ndarray:
        found.append(arguments)
        return ask(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(NoisyCounts, "ask", recorded)
    return found


def replay(asked: Asked, graph: cb.Graph, present: np.ndarray | None = None) -> np.ndarray:
    box = NoisyCounts(graph, graph.num_classes, VoteBudget(math.inf), NoiseSource.secure(), present)
    return np.concatenate([box.ask(*stage).ravel() for stage in asked])  # type: ignore[arg-type]


def test_replaying_on_a_neighbouring_graph_moves_one_entry(asked: Asked) -> None:
    run(TELLING, 4.0)
    stages = list(asked)
    assert [stage[4] for stage in stages] == [32, 8] or stages[1][4] < 8, "pilot and codes"
    whole = replay(stages, TELLING)
    edges = TELLING.edge_index[:, TELLING.edge_index[0] < TELLING.edge_index[1]].T[::150]
    moved = [np.abs(whole - replay(stages, TELLING.without_edge(int(u), int(v)))).sum() for u, v in edges]
    assert set(moved) <= {0, 1}
    assert np.mean(moved) > 0.5


def test_what_is_asked_first_reads_no_edge(asked: Asked) -> None:
    """Codes, roles and the pilot's messages are the same on a graph without edges."""
    run(TELLING, 4.0)
    first = asked[0]
    asked.clear()
    run(replace(TELLING, indptr=np.zeros(1201, dtype=np.int64), indices=TELLING.indices[:0]), 4.0)
    assert all(np.array_equal(a, b) for a, b in zip(first, asked[0], strict=True))  # type: ignore[arg-type]


def grown() -> Grown:
    present = np.zeros(1200, dtype=bool)
    present[:1000] = True
    return Grown(TELLING, present, Arrivals((1000, 200)), np.arange(1200))


def test_arrivals_are_told_by_codes_and_old_pairs_are_not_asked(coded: Decoded, asked: Asked) -> None:
    learned = VoteModel.from_arrays(coded.learned.to_arrays())
    assert learned.codes is not None
    before = coded.probabilities[:1000]
    arrivals = Batch(grown(), learned, np.log(UNIFORM[1000:]), learned.codes(TELLING.features))
    batch = arrivals.decode(VotesEdge(), before, VoteBudget(4.0), NoiseSource.seeded(3))
    assert batch.transcript["codes"].shape == (200, learned.codes.count)
    assert np.mean(batch.probabilities.argmax(axis=1) == np.asarray(TELLING.labels)[1000:]) > 0.8
    stages, present = list(asked), grown().present
    whole = replay(stages, TELLING, present)
    edges = TELLING.edge_index[:, TELLING.edge_index[0] < TELLING.edge_index[1]].T[::90]
    for u, v in edges:
        moved = np.abs(whole - replay(stages, TELLING.without_edge(int(u), int(v)), present)).sum()
        assert moved == (0 if present[u] and present[v] else 1)
