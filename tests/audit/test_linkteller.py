"""LinkTeller: it finds the edges of models that leak, and nothing in a release; every way of querying means what it says."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp

import caribou as cb
from audit.known_bad_mechanisms.leaky import (
    NOTHING,
    SAGE,
    STREAMS,
    TIGHT,
    AnswersFromTheGraph,
    block_graph,
    content,
    gcn,
)
from caribou.audit import fits, linkteller
from caribou.audit.linkteller import Setting, at_beliefs, draw_nodes, enlarged, influence, pairs_of
from caribou.audit.metrics import Scored
from caribou.audit.query_modes import logits, query_of, refusal
from caribou.errors import InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.edge.dpdgc import Dpdgc
from caribou.methods.edge.gap import Gap
from caribou.methods.node.mlp import MlpDp
from caribou.privacy.budget import Budget
from caribou.randomness import Streams

SMALL = Setting(nodes=60)


@pytest.mark.parametrize("entries", ["all", "half"])
def test_plain_gcn_is_read_like_a_book(entries: str) -> None:
    graph = block_graph()
    result = linkteller.attack_black_box(gcn(graph), graph, STREAMS, runs=3, setting=Setting(60, entries=entries))
    assert result.auc > 0.95
    assert result.average_precision > 0.3, "ten times what guessing gives"
    assert result.details["ways"]["black box"]["at_belief"]["1k"]["precision"] > 0.3


def test_chains_are_recovered_exactly_by_one_hop() -> None:
    """One layer: the reaction is zero beyond the neighbours, so every edge among the drawn nodes stands out."""
    graph = cb.datasets.load("chain-s:3", seed=0)
    features = np.random.default_rng(0).standard_normal((graph.num_nodes, 5))
    graph = cb.Graph.from_edges(features, graph.edge_index, labels=graph.labels)
    result = linkteller.attack_black_box(gcn(graph, layers=1), graph, STREAMS, setting=Setting(graph.num_nodes))
    assert result.auc == 1.0
    assert result.average_precision == 1.0
    assert result.details["ways"]["black box"]["edges"] == [graph.num_edges]


def test_influence_is_the_derivative() -> None:
    """For a linear model of the logits the reaction is known: |W_uv| times the length of the changed row."""
    graph = block_graph(40)
    matrix = graph.adjacency(np.float64).todense()
    query = lambda x: np.exp(matrix @ x[:, :2]) / np.exp(matrix @ x[:, :2]).sum(axis=1, keepdims=True)  # noqa: E731
    chosen = np.arange(40)
    found = influence(query, np.array(graph.features, dtype=np.float64), chosen, Setting(40, entries="all"))
    changed = np.array(graph.features[:, :2], dtype=np.float64)
    lengths = np.linalg.norm(changed - changed.mean(axis=1, keepdims=True), axis=1)
    assert found == pytest.approx(np.asarray(matrix) * lengths[None, :], rel=1e-5, abs=1e-7)


def test_sage_without_privacy_leaks_and_its_release_does_not() -> None:
    graph = block_graph()
    before = content(graph)
    leaky = linkteller.attack(SAGE, graph, NOTHING, STREAMS, runs=2, setting=SMALL)
    assert leaky.auc > 0.95
    assert leaky.details["way"] == "fixed"
    assert set(leaky.details["ways"]) == {"cached", "fixed"}
    assert leaky.details["ways"]["cached"]["pairs_with_influence"] == 0, "one release answers: nothing reacts"
    private = linkteller.attack(SAGE, graph, TIGHT, STREAMS, runs=3, setting=SMALL)
    assert private.details["way"] == "cached"
    assert private.auc == 0.5
    assert all(private.tpr_at_fpr[rate] <= private.tpr_allowed[rate] for rate in private.tpr_allowed)
    for way in ("fixed", "fresh"):
        assert abs(private.details["ways"][way]["auc"] - 0.5) < 0.15, way
    assert content(graph) == before
    json.dumps(leaky.to_json())


def test_a_leak_behind_predict_is_found_in_the_cached_way() -> None:
    graph = block_graph()
    result = linkteller.attack(
        AnswersFromTheGraph(hidden=16, epochs=20), graph, TIGHT, STREAMS, runs=1, setting=SMALL, ways=["cached"]
    )
    assert result.auc > 0.95
    assert result.tpr_at_fpr[0.1] > result.tpr_allowed[0.1]


def test_noise_used_twice_gives_the_edges_away(quick_learning: None) -> None:
    """GAP's sums move with the features: under one noise key the noise cancels, under fresh noise nothing is left to see."""
    graph = block_graph()
    ways = linkteller.attack(Gap(), graph, TIGHT, STREAMS, runs=1, setting=SMALL).details["ways"]
    assert ways["cached"]["auc"] == 0.5
    assert ways["fixed"]["auc"] > 0.95
    assert ways["fresh"]["auc"] < 0.75
    assert ways["fresh"]["pairs_with_influence"] > 0.99


def test_equal_noise_and_fresh_noise() -> None:
    graph = block_graph(60)
    fitted = fits.fit(SAGE, graph, TIGHT, STREAMS, NoiseSource.seeded(1))
    for way, same in (("cached", True), ("fixed", True), ("fresh", False)):
        query = query_of(way, SAGE, fitted, graph, TIGHT, STREAMS, Streams(3))
        assert np.array_equal(query(graph.features), query(graph.features)) == same, way


def test_rows_of_one_length_do_not_feel_the_published_step() -> None:
    """MlpDp scales rows: all entries times 1 + step is the same row again; every other entry is not."""
    graph = block_graph(60)
    budget = Budget(math.inf, unit="node")
    fitted = fits.fit(MlpDp(), graph, budget, STREAMS, NoiseSource.seeded(1))
    query = query_of("fixed", MlpDp(), fitted, graph, budget, STREAMS, Streams(3))
    own = [
        np.diag(influence(query, graph.features, np.arange(60), Setting(60, 0.1, entries)))
        for entries in ("all", "half")
    ]
    assert own[0].max() < 1e-3 * own[1].min()


def test_a_method_for_one_graph_has_one_release_only(quick_learning: None) -> None:
    graph = block_graph(60)
    assert refusal(Dpdgc(), graph, TIGHT)
    assert not refusal(SAGE, graph, TIGHT)
    result = linkteller.attack(Dpdgc(), graph, NOTHING, STREAMS, runs=1, setting=Setting(20))
    assert set(result.details["ways"]) == {"cached"}
    assert "transductive" in result.details["refused"]


def test_equal_seeds_give_equal_results() -> None:
    graph = block_graph(80)
    setting = Setting(30)
    one, two, other = (
        linkteller.attack(SAGE, graph, TIGHT, Streams(seed), runs=1, setting=setting).to_json() for seed in (1, 1, 2)
    )
    assert one == two
    assert one != other


def test_progress_is_told() -> None:
    steps: list[tuple[int, int]] = []
    linkteller.attack(
        SAGE,
        block_graph(60),
        TIGHT,
        STREAMS,
        runs=2,
        setting=Setting(20),
        ways=["cached"],
        progress=lambda done, total: steps.append((done, total)),
    )
    assert steps == [(1, 2), (2, 2)]


@pytest.mark.parametrize("sparse", [False, True])
def test_enlarged_changes_one_row_of_a_copy(sparse: bool) -> None:
    x = np.array([[1.0, 0, 2, 3], [4, 5, 0, 0]])
    features = sp.csr_array(x) if sparse else x
    for entries, row in (("all", [2, 0, 4, 6]), ("half", [2, 0, 2, 6])):
        changed = enlarged(features, 0, Setting(2, 1.0, entries))
        dense = np.asarray(changed.todense()) if sparse else changed
        assert dense.tolist() == [row, [4, 5, 0, 0]]
    assert np.asarray(features.todense() if sparse else features).tolist() == x.tolist()


def test_strata() -> None:
    graph = block_graph()
    middle = np.median(graph.degrees)
    rng = np.random.default_rng(0)
    assert (graph.degrees[draw_nodes(graph, Setting(30, stratum="low"), rng)] <= middle).all()
    assert (graph.degrees[draw_nodes(graph, Setting(30, stratum="high"), rng)] > middle).all()
    assert len(draw_nodes(graph, Setting(500), rng)) == graph.num_nodes
    alone = cb.Graph.from_edges(np.eye(4), np.empty((2, 0), int))
    with pytest.raises(InputError, match="stratum"):
        draw_nodes(alone, Setting(3, stratum="high"), rng)


def test_pairs_are_read_in_one_direction() -> None:
    graph = cb.Graph.from_edges(np.eye(3), [[0], [2]])
    matrix = np.arange(9.0).reshape(3, 3)
    scores, joined = pairs_of(matrix, graph, np.arange(3))
    assert scores.tolist() == [matrix[0, 1], matrix[0, 2], matrix[1, 2]]
    assert joined.tolist() == [False, True, False]


def test_beliefs() -> None:
    """12 edges among 1000 pairs: density 0.012, one digit: 0.01; the top 10 at belief k, the top 3 at k/4."""
    found = at_beliefs(Scored(-np.arange(1000.0), np.arange(1000) < 12))
    assert {k: v["hits"] for k, v in found.items()} == {"0.25k": 3, "0.5k": 5, "1k": 10, "2k": 12, "4k": 12}
    assert found["2k"]["precision"] == pytest.approx(12 / 20)
    assert found["1k"]["recall"] == pytest.approx(10 / 12)


def test_logits_survive_zero() -> None:
    assert np.isfinite(logits(np.array([[1.0, 0.0]]))).all()


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InputError, match="way must be one of"):
        linkteller.attack(SAGE, block_graph(60), TIGHT, STREAMS, runs=1, ways=["sideways"])
    with pytest.raises(InputError, match="runs must be"):
        linkteller.attack(SAGE, block_graph(60), TIGHT, STREAMS, runs=0)
    for settings in ({"nodes": 1}, {"step": 0.0}, {"entries": "none"}, {"stratum": "middle"}):
        with pytest.raises(InputError, match=next(iter(settings))):
            Setting(**settings)
