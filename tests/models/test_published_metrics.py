"""Metrics that may be published: every method's predictions read their own node alone, and the release is charged and covered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import caribou as cb
from caribou.errors import BudgetExceeded, InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS, fit
from caribou.metrics import ConfusionMatrix
from caribou.model.verify import verify
from caribou.models.published_metrics import NUMBERS, PublishedMetrics, metrics_plan, publish_metrics
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.ledger import Ledger
from caribou.randomness import Streams

GRAPH = cb.datasets.load("csbm", nodes=60, classes=3, features=6, average_degree=6.0, signal=2.0, seed=2)
NODE = Budget(8.0, 1e-5, "node")
READING_EDGES = {"votes-ndp": {"declared_degree": 20, "votes": {"receivers_per_sender": 10, "share": 0.3}}}


def matrix_of(probabilities: np.ndarray, graph: Graph) -> np.ndarray:
    split, labels = graph.for_learning()
    given = probabilities[split.test].argmax(axis=1)
    return ConfusionMatrix.of(given, np.array(labels)[split.test], graph.num_classes).counts


@pytest.mark.parametrize("name", [n for n, info in METHODS.items() if info.unit is PrivacyUnit.NODE])
def test_one_node_moves_the_matrix_of_every_method_by_at_most_one(name: str) -> None:
    """The release is fixed; every node is taken out in turn, and no other row of the predictions moves."""
    method = METHODS[name].create(**READING_EDGES.get(name, {}))
    fitted = fit(method, GRAPH, NODE, Streams(0), NoiseSource.seeded(0))
    whole = method.predict(fitted.weights, fitted.released, GRAPH)
    before, test = matrix_of(whole, GRAPH), set(GRAPH.split.test.tolist())  # type: ignore[union-attr]
    for node in range(0, GRAPH.num_nodes, 4):
        smaller = GRAPH.without_node(node)
        again = method.predict(fitted.weights, fitted.released, smaller)
        others = np.arange(GRAPH.num_nodes) != node
        assert np.array_equal(again[others], whole[others])
        moved = int(np.abs(matrix_of(again, smaller) - before).sum())
        assert moved == (1 if node in test else 0)


def test_predictions_that_read_edges_are_rejected() -> None:
    """Known bad: a node is given the most frequent class of its neighbours, without noise. A hub moves many counts."""
    star = Graph.from_edges(
        np.eye(9),
        [[0] * 8, list(range(1, 9))],
        labels=[1] * 9,
        split=cb.Split([0], [], list(range(1, 9))),
        classes=2,
    )

    def by_neighbours(graph: Graph) -> np.ndarray:
        votes = graph.adjacency() @ np.eye(2)[np.maximum(graph.labels, 0)]  # type: ignore[type-var]
        return np.asarray(votes)

    smaller = star.without_node(0)
    moved = np.abs(matrix_of(by_neighbours(star), star) - matrix_of(by_neighbours(smaller), smaller)).sum()
    assert moved == 16, "eight test nodes leave one count and join another, though a training node left"


def test_it_is_charged_certified_and_verified(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget(GRAPH.name, Budget(9.0, 1e-5, "node"))
    model = cb.Model("mlp-dp", NODE).fit(GRAPH, ledger=ledger)
    made = model.publish_metrics(0.5, ledger=ledger)
    assert len(ledger.entries()) == 2
    certificate = made.certificate
    assert (certificate.epsilon, certificate.status) == (0.5, "private")
    assert certificate.groups == {"test nodes and the rest": pytest.approx(0.5, rel=1e-3)}
    assert verify(certificate).passed
    assert "counted predictions" in certificate.to_markdown()
    with pytest.raises(BudgetExceeded):
        model.publish_metrics(9.0, ledger=ledger)
    shown = made.to_dict()
    assert shown["classes"] == ["0", "1", "2"]
    assert np.array(shown["noisy_confusion"]).shape == (3, 3)
    for name in NUMBERS:
        low, high = shown[name]["interval95"]
        assert 0 <= low <= high <= 1


def test_a_loaded_model_is_given_its_graph(tmp_path: Path) -> None:
    cb.Model("mlp-dp", NODE).fit(GRAPH).save(tmp_path / "run")
    loaded = cb.load(tmp_path / "run")
    with pytest.raises(InputError, match="data must be given to a loaded model"):
        loaded.publish_metrics(1.0)
    assert loaded.publish_metrics(30.0, GRAPH).confusion.total == len(GRAPH.split.test)  # type: ignore[union-attr]


def test_at_edge_level_nothing_need_be_hidden() -> None:
    with pytest.raises(InputError, match="at edge level labels are public, and metrics may be published as they are"):
        metrics_plan(GRAPH.sizes(PrivacyUnit.EDGE), Budget(1.0))


def test_intervals_cover_the_exact_metrics() -> None:
    """95 % of the time, at a noise that matters: at least 52 of 60 times, and not by being wide."""
    exact = ConfusionMatrix(np.array([[60, 10], [8, 22]]))
    certificate = publish_metrics(np.full((60, 3), 1 / 3), GRAPH, "abc", Budget(1.0, 1e-5, "node")).certificate
    first = PublishedMetrics(exact.counts, ("a", "b"), 0.3, certificate)
    covered = dict.fromkeys(NUMBERS, 0)
    for seed in range(60):
        noisy = NoiseSource.seeded(seed).add_discrete_laplace(exact.counts.astype(np.int64), epsilon=0.3)
        made = replace(first, counts=noisy)
        for name in NUMBERS:
            low, high = made.interval(name)
            covered[name] += low <= getattr(exact, name) <= high
    assert min(covered.values()) >= 52
    assert made.interval("accuracy")[1] - made.interval("accuracy")[0] < 0.3


def test_metrics_of_own_code_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """What such a method reads to predict is not checked: a neighbour, for instance, whom Theorem 14 excludes."""
    own = type("Own", (type(METHODS["mlp-dp"].create()),), {})
    monkeypatch.setitem(METHODS, "own-mlp", replace(METHODS["mlp-dp"], own=own))
    made = [cb.Model(name, NODE).fit(GRAPH).publish_metrics(1.0).certificate for name in ("mlp-dp", "own-mlp")]
    assert ["own code" in {a.name.value for a in certificate.assumptions} for certificate in made] == [False, True]
    assert verify(made[1]).passed
