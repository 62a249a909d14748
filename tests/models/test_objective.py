"""The objective: what a rare class needs is chosen where it is asked for, and nothing changes where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS, fit
from caribou.methods.votes import VotesEdge
from caribou.metrics import Metrics
from caribou.models.heads import Evidence, fit_bayes_head
from caribou.models.objective import USUAL, Objective
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.randomness import Streams


def rare_graph(nodes: int = 180, seed: int = 0) -> Graph:
    """One node in twelve is of class 1; its features are shifted, and its edges mostly stay among its like."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(nodes) < 1 / 12).astype(np.int64)
    x = rng.normal(size=(nodes, 4)) + labels[:, None] * [1.2, 0.8, 0, 0]
    pairs = []
    for u in range(nodes):
        like = np.flatnonzero(labels == labels[u])
        pairs += [(u, int(v)) for v in rng.choice(like, 3) if v != u]
    order = rng.permutation(nodes)
    cuts = np.split(order, [int(0.6 * nodes), int(0.8 * nodes)])
    return Graph.from_edges(x, np.array(pairs).T, labels, Split(*cuts), "rare", classes=["ok", "fraud"])


def test_the_first_wins_unless_another_is_clearly_better() -> None:
    y = np.array([0] * 90 + [1] * 10)
    noise = np.random.default_rng(0).normal(size=(100, 2))
    right = noise + 8 * np.eye(2)[y]
    objective = Objective("ap")
    assert objective.best([noise, right], y) == 1
    assert objective.best([right, noise], y) == 0
    assert objective.best([noise, noise + 1e-9 * right], y) == 0, "no gain to speak of"
    assert objective.score(noise[:3], y[:3]) == 0.0, "where all nodes are of one class there is nothing to rank"


def test_balanced_weights_make_a_head_find_the_rare_class() -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(600) < 0.05).astype(np.int64)
    logs = np.log(np.clip(np.stack([0.7 - 0.25 * y, 0.3 + 0.25 * y], 1) + rng.normal(0, 0.2, (600, 2)), 0.05, 0.95))
    known = Evidence.of_prior(logs)
    recall = [
        Metrics(np.exp(fit_bayes_head(known, y, o)(known)), y).confusion.recall[1]
        for o in (USUAL, Objective(class_weight="balanced"))
    ]
    assert recall[0] < 0.3 < 0.7 < recall[1]


@pytest.mark.usefixtures("quick_learning")
@pytest.mark.parametrize("name", [n for n, info in METHODS.items() if info.unit is PrivacyUnit.EDGE and info.private])
def test_every_method_at_edge_level_takes_an_objective(name: str) -> None:
    graph, budget = rare_graph(), Budget(4, 1e-5, "edge")

    def fitted(**settings: object) -> np.ndarray:
        method = METHODS[name].create(**settings)
        assert METHODS[name].create(**method.settings()) == method
        return fit(method, graph, budget, Streams(0), NoiseSource.seeded(0)).probabilities

    plain, weighted = fitted(), fitted(metric="ap", class_weight="balanced")
    assert weighted.shape == plain.shape
    assert not np.array_equal(plain, weighted), "the objective reaches the losses of the method"


def test_bad_objectives() -> None:
    with pytest.raises(InputError, match="metric must be one of accuracy"):
        Objective("brier")
    with pytest.raises(InputError, match="class_weight must be"):
        VotesEdge(class_weight="none")
