"""Tasks on what was released: rows read no edge, halves are crossed, graphs that test did not train, cells can be repeated."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from reproduction.tasks import (
    link_figures,
    rows_by_name,
)

from caribou.datasets import load
from caribou.experiments.measures import measure
from caribou.graph import Graph
from caribou.methods import fit, method_info
from caribou.metrics import Scored, area_under_curve
from caribou.models.graph_classifier import GraphClassifier
from caribou.models.links import LinkPredictor, hide_edges
from caribou.privacy.budget import Budget
from caribou.randomness import Streams

TIMES = {"seconds", "cpu_seconds", "peak_mb", "peak_mb_before"}
GRAPH = load("csbm:nodes=150,average_degree=12,signal=2", seed=3)


def ends(pairs: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(sorted(pair)) for pair in pairs.T.tolist()}


@pytest.mark.usefixtures("quick_encoder")
@pytest.mark.parametrize(
    ("name", "rows"),
    [("caribou-edp", ["released", "joined"]), ("gap-edp", ["released", "joined"]), ("mlp", ["embeddings", "features"])],
)
def test_rows_read_no_edge(name: str, rows: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"messages": "embeddings"} if name.startswith("caribou") else {}
    settings |= {"hidden": [64, 16]} if name == "mlp" else {}
    budget = Budget(4.0)
    fitted = fit(method_info(name).create(**settings), GRAPH, budget, Streams(0))
    expected = rows_by_name(fitted.released, fitted.weights, GRAPH)

    def read(*_: object) -> None:
        raise AssertionError("an edge was read")

    hidden = hide_edges(GRAPH, Streams(0))
    for attribute in ("indptr", "indices"):  # a data descriptor comes before the field of the same name
        monkeypatch.setattr(Graph, attribute, property(read), raising=False)
    for attribute in ("edge_index", "degrees", "num_edges"):
        monkeypatch.setattr(Graph, attribute, property(read))
    with pytest.raises(AssertionError, match="an edge was read"):
        _ = GRAPH.indices
    found = rows_by_name(fitted.released, fitted.weights, GRAPH)
    assert list(found) == rows
    assert all(np.array_equal(found[key], expected[key]) for key in rows)
    link_figures(found[rows[0]], hidden.pairs, hidden.labels)
    groups = np.arange(150) % 30
    GraphClassifier().fit(found[rows[0]], groups, np.arange(30) % 2).predict(found[rows[0]], groups)


def test_a_logistic_predictor_is_scored_on_the_half_it_was_not_fitted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, fitted = hide_edges(GRAPH, Streams(0)), []
    rows = np.asarray(GRAPH.features, np.float64)
    original, scores = LinkPredictor.fit, LinkPredictor.scores

    def watched_fit(self: LinkPredictor, state: Any, pairs: np.ndarray, labels: np.ndarray) -> LinkPredictor:
        fitted.append(ends(pairs))
        return original(self, state, pairs, labels)

    def watched_scores(self: LinkPredictor, state: Any, pairs: np.ndarray) -> np.ndarray:
        if self.kind == "logistic":
            assert not ends(pairs) & fitted[-1]
            assert ends(pairs) | fitted[-1] == ends(hidden.pairs)
        return scores(self, state, pairs)

    monkeypatch.setattr(LinkPredictor, "fit", watched_fit)
    monkeypatch.setattr(LinkPredictor, "scores", watched_scores)
    found = link_figures(rows, hidden.pairs, hidden.labels)
    assert len(fitted) == 2
    plain = scores(LinkPredictor(), rows, hidden.pairs)
    assert found["cosine"]["auc"] == area_under_curve(Scored(plain, hidden.labels == 1))


LINKS = {
    "kind": "downstream", "task": "links", "dataset": "csbm:nodes=200,signal=3", "method": "caribou-edp", "epsilon": 16,
    "seed": 0, "settings": {"messages": "embeddings", "hops": 2, "beta": 1.0},
}  # fmt: skip


def results(measures: dict) -> dict:
    return {name: value for name, value in measures.items() if name not in TIMES}


@pytest.mark.usefixtures("quick_learning")
def test_links_of_hidden_edges() -> None:
    found = measure(LINKS, None)
    assert set(found["by_rows"]) == {"released", "joined"}
    assert found["auc"] == found["by_rows"]["released"]["cosine"]["auc"]
    assert found["average_precision"] == found["by_rows"]["released"]["cosine"]["average_precision"]
    assert found["pairs"] == 200, "a tenth of 1,000 edges, and as many other pairs"
    assert found["epsilon_spent"] == pytest.approx(16, rel=1e-3)
    json.dumps(found, allow_nan=False)
    assert results(measure(LINKS, None)) == results(found), "a cell can be measured again"
    free = measure({**LINKS, "method": "mlp", "epsilon": "inf", "settings": {}}, None)
    assert set(free["by_rows"]) == {"embeddings", "features"}
    assert free["epsilon_spent"] == 0


@pytest.mark.usefixtures("quick_learning")
def test_the_release_does_not_see_hidden_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    from caribou.methods.gap import Gap

    seen, fit = [], Gap.fit
    monkeypatch.setattr(
        Gap, "fit", lambda self, plan, graph, *rest: seen.append(graph) or fit(self, plan, graph, *rest)
    )
    measure({**LINKS, "method": "gap-edp", "settings": {}}, None)
    assert [graph.num_edges for graph in seen] == [900]
