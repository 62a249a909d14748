"""The method votes-edp: votes help, one edge moves one entry of the transcript, certificates, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.mechanisms import edge_votes as mechanism
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.edge.votes import VotesEdge, run_rounds
from caribou.models.class_prior import class_probabilities
from caribou.privacy.verify import verify
from caribou.randomness import Streams

pytestmark = pytest.mark.usefixtures("kept_encoder")
GRAPH = cb.datasets.load(
    "csbm", nodes=400, classes=3, average_degree=8.0, homophily=0.85, signal=1.0, features=6, seed=3
)


def accuracy(fitted: object, graph: cb.Graph = GRAPH) -> float:
    test = graph.split.test
    return float(np.mean(fitted.probabilities[test].argmax(axis=1) == graph.labels[test]))  # type: ignore[attr-defined]


def fit(method: VotesEdge, epsilon: float, graph: cb.Graph = GRAPH, seed: int = 1, noise_seed: int = 1):
    return methods.fit(method, graph, cb.Budget(epsilon), Streams(seed), NoiseSource.seeded(noise_seed))


def transcript(fitted: object) -> dict[str, np.ndarray]:
    """The released counts, without what is computed from them."""
    return {k: v for k, v in fitted.released.items() if k != "probabilities"}  # type: ignore[attr-defined]


def test_votes_help_and_are_deterministic_per_seed() -> None:
    first, second = fit(VotesEdge(), 1.0), fit(VotesEdge(), 1.0)
    assert np.array_equal(first.probabilities, second.probabilities)
    assert np.allclose(first.probabilities.sum(axis=1), 1)
    other_noise = fit(VotesEdge(), 1.0, noise_seed=2)
    assert not np.array_equal(first.released["round_1"], other_noise.released["round_1"])
    assert accuracy(fit(VotesEdge(), 8.0)) > accuracy(fit(VotesEdge(), 0.05)) + 0.05


def test_the_graph_is_unchanged_and_the_transcript_holds_integers() -> None:
    before = (GRAPH.indices.tobytes(), GRAPH.features.tobytes(), GRAPH.labels.tobytes())
    fitted = fit(VotesEdge(max_rounds=2), 2.0)
    assert before == (GRAPH.indices.tobytes(), GRAPH.features.tobytes(), GRAPH.labels.tobytes())
    counts = transcript(fitted)
    assert 1 <= len(counts) <= 4
    assert all(c.dtype == np.int64 for c in counts.values())


@pytest.mark.usefixtures("quick_encoder")
def test_the_public_seed_does_not_move_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing the public seed leaves the drawn noise bit-identical."""
    drawn: list[np.ndarray] = []
    original = NoiseSource.discrete_laplace

    def recorded(self: NoiseSource, shape: tuple[int, ...], *, epsilon: float) -> np.ndarray:
        z = original(self, shape, epsilon=epsilon)
        drawn.append(z.ravel()[:50].copy())
        return z

    monkeypatch.setattr(NoiseSource, "discrete_laplace", recorded)
    fit(VotesEdge(max_rounds=1), 1.0, seed=1)
    fit(VotesEdge(max_rounds=1), 1.0, seed=2)
    assert np.array_equal(drawn[0], drawn[2])


def test_replaying_a_transcript_on_a_neighbouring_graph_moves_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record what the method asks; ask the same on the graph without one edge: one stage, one entry, by one."""
    asked: list[tuple] = []
    original = mechanism.NoisyCounts.ask

    def recorded(self: mechanism.NoisyCounts, *arguments: np.ndarray) -> np.ndarray:
        asked.append(arguments)
        return original(self, *arguments)

    monkeypatch.setattr(mechanism.NoisyCounts, "ask", recorded)
    fit(VotesEdge(), 2.0)
    monkeypatch.undo()

    def replay(graph: cb.Graph) -> np.ndarray:
        box = mechanism.NoisyCounts(graph, 3, mechanism.VoteBudget(math.inf), NoiseSource.secure())
        return np.concatenate([box.ask(*arguments).ravel() for arguments in asked])

    whole = replay(GRAPH)
    edges = GRAPH.edge_index[:, GRAPH.edge_index[0] < GRAPH.edge_index[1]]
    moved = [np.abs(whole - replay(GRAPH.without_edge(int(u), int(v)))).sum() for u, v in edges.T[::12]]
    assert set(moved) <= {0, 1}
    assert np.mean(moved) > 0.5


@pytest.mark.usefixtures("quick_encoder")
def test_certificate() -> None:
    fitted = methods.fit(VotesEdge(max_rounds=1), GRAPH, cb.Budget(1.5), Streams(0), NoiseSource.secure())
    assert verify(fitted.certificate).passed
    assert fitted.certificate.epsilon_spent == pytest.approx(1.5, abs=1e-4)
    assert fit(VotesEdge(max_rounds=1), 1.5).certificate.status == "void"
    assert fit(VotesEdge(max_rounds=1), math.inf).certificate.status == "no privacy"


@pytest.mark.usefixtures("quick_encoder")
def test_gaussian_certificate_keeps_epsilon_and_delta() -> None:
    method = VotesEdge(max_rounds=1, noise="gaussian")
    fitted = methods.fit(method, GRAPH, cb.Budget(1.5, 1e-5), Streams(0), NoiseSource.secure())
    assert verify(fitted.certificate).passed
    assert fitted.certificate.epsilon_spent == pytest.approx(1.5, rel=1e-3)
    assert fitted.certificate.epsilon_spent <= 1.5
    assert "Gaussian" in str(fitted.certificate.to_dict())
    assert all(c.dtype == np.float64 for c in transcript(fitted).values())
    assert fit(method, math.inf).certificate.status == "no privacy"


def test_gaussian_votes_help_too() -> None:
    method = VotesEdge(noise="gaussian")
    assert accuracy(fit(method, 8.0)) > accuracy(fit(method, 0.05)) + 0.03


@pytest.mark.usefixtures("quick_encoder")
def test_rounds_can_be_run_under_a_part_of_a_composed_budget() -> None:
    prior, _ = class_probabilities(GRAPH, Streams(1))
    decoded = run_rounds(
        VotesEdge(max_rounds=2), GRAPH, prior, mechanism.VoteBudget.gaussian(0.6), Streams(1), NoiseSource.seeded(1)
    )
    assert decoded.scores.shape == decoded.probabilities.shape == (400, 3)
    assert {"round_1", "round_2"} <= set(decoded.transcript)
    whole = fit(VotesEdge(), 2.0)
    alone = run_rounds(VotesEdge(), GRAPH, prior, mechanism.VoteBudget(2.0), Streams(1), NoiseSource.seeded(1))
    assert np.array_equal(alone.probabilities, whole.probabilities)


@pytest.mark.usefixtures("quick_encoder")
def test_test_labels_are_never_used() -> None:
    """Permuting the labels of the test nodes changes nothing."""
    labels = np.array(GRAPH.labels)
    labels[GRAPH.split.test] = labels[GRAPH.split.test][::-1]
    other = replace(GRAPH, labels=labels)
    assert np.array_equal(fit(VotesEdge(), 2.0).probabilities, fit(VotesEdge(), 2.0, graph=other).probabilities)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="unit must be edge"):
        methods.fit(VotesEdge(), GRAPH, cb.Budget(1, unit="node"), Streams(0), NoiseSource.secure())
    with pytest.raises(InputError, match="labels and a split"):
        methods.fit(VotesEdge(), GRAPH.with_split(None), cb.Budget(1), Streams(0), NoiseSource.secure())
    for arguments in (
        {"voter_confidence": 1.0},
        {"round_confidence": 0},
        {"max_rounds": 0},
        {"calibration": 2},
        {"noise": "none"},
    ):
        with pytest.raises(InputError, match=next(iter(arguments))):
            VotesEdge(**arguments)


def test_long_range_chains() -> None:
    """Information travels from the head of a chain to its end, round by round, at the cost of one question per edge."""
    graph = cb.datasets.load("chain-s:75", seed=0)
    fitted = methods.fit(VotesEdge(), graph, cb.Budget(16.0), Streams(0), NoiseSource.secure())
    assert accuracy(fitted, graph) >= 0.97
    assert len(transcript(fitted)) > 4


def test_a_class_that_no_labelled_node_has_costs_no_accuracy() -> None:
    """As many published files declare one. Rates of the other classes must not follow the noise of its counts."""
    empty = replace(GRAPH, num_classes=GRAPH.num_classes + 1, class_names=None)
    for seed in range(6):
        assert accuracy(fit(VotesEdge(), 4.0, empty, noise_seed=seed), empty) > 0.9
