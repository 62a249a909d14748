"""LinkTeller: it finds the edges of models that leak, and nothing in a release; every query mode means what it says."""

from __future__ import annotations

import json
from typing import Any

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
from caribou.audit.attack import Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.linkteller import (
    CACHED,
    FIXED,
    FRESH,
    LinkTeller,
    draw_nodes,
    possible_modes,
    preferred_mode,
    query_of,
)
from caribou.audit.metrics import AttackResult
from caribou.methods import Method
from caribou.methods.dpdgc import Dpdgc
from caribou.methods.gap import Gap
from caribou.metrics import area_under_curve, average_precision
from caribou.privacy.budget import Budget
from caribou.randomness import Streams


def attack(
    method: Method, graph: cb.Graph, budget: Budget, *, runs: int = 1, seed: int = STREAMS.seed, **settings: Any
) -> AttackResult:
    audited = AuditedMethod("mine", method, budget, graph, seed)
    return LinkTeller(**{"nodes": 60, **settings}).run(audited, Terms(runs)).measured["linkteller"]


def test_plain_gcn_is_read_like_a_book() -> None:
    for entries in ["all", "half"]:
        graph = block_graph()
        drawn = draw_nodes(graph, 60, STREAMS.attack)
        found = LinkTeller(entries=entries).scored(gcn(graph), graph, drawn)
        assert area_under_curve(found) > 0.95
        assert average_precision(found) > 0.3, "ten times what guessing gives"


def test_chains_are_recovered_exactly_by_one_hop() -> None:
    """One layer: the reaction is zero beyond the neighbours, so every edge among the drawn nodes stands out."""
    graph = cb.datasets.load("chain-s:3", seed=0)
    features = np.random.default_rng(0).standard_normal((graph.num_nodes, 5))
    graph = cb.Graph.from_edges(features, graph.edge_index, labels=graph.labels)
    found = LinkTeller().scored(gcn(graph, layers=1), graph, np.arange(graph.num_nodes))
    assert average_precision(found) == 1.0
    assert found.members.sum() == graph.num_edges


def test_influence_is_the_derivative() -> None:
    """For a linear model of the logits the reaction is known: |W_uv| times the length of the changed row."""
    graph = block_graph(40)
    matrix = graph.adjacency(np.float64).todense()
    query = lambda x: np.exp(matrix @ x[:, :2]) / np.exp(matrix @ x[:, :2]).sum(axis=1, keepdims=True)  # noqa: E731
    chosen = np.arange(40)
    found = LinkTeller(40, entries="all").influence(query, np.array(graph.features, dtype=np.float64), chosen)
    changed = np.array(graph.features[:, :2], dtype=np.float64)
    lengths = np.linalg.norm(changed - changed.mean(axis=1, keepdims=True), axis=1)
    assert found == pytest.approx(np.asarray(matrix) * lengths[None, :], rel=1e-5, abs=1e-7)


def test_sage_without_privacy_leaks_and_its_release_does_not() -> None:
    graph = block_graph()
    before = content(graph)
    leaky = attack(SAGE, graph, NOTHING, runs=2)
    assert leaky.auc > 0.95
    assert leaky.details["query_mode"] == "fixed"
    assert set(leaky.details["query_modes"]) == {"cached", "fixed"}
    assert leaky.details["query_modes"]["cached"]["pairs_with_influence"] == 0, "one release answers: nothing reacts"
    private = attack(SAGE, graph, TIGHT, runs=3)
    assert private.details["query_mode"] == "cached"
    assert private.auc == 0.5
    assert all(private.tpr_at_fpr[rate] <= private.tpr_allowed[rate] for rate in private.tpr_allowed)
    for mode in ("fixed", "fresh"):
        assert abs(private.details["query_modes"][mode]["auc"] - 0.5) < 0.15, mode
    assert content(graph) == before
    json.dumps(leaky.to_json())


def test_a_leak_behind_predict_is_found_in_the_cached_mode() -> None:
    graph = block_graph()
    result = attack(AnswersFromTheGraph(hidden=16, epochs=20), graph, TIGHT, query_modes=["cached"])
    assert result.auc > 0.95
    assert result.tpr_at_fpr[0.1] > result.tpr_allowed[0.1]


def test_noise_used_twice_gives_the_edges_away(quick_learning: None) -> None:
    """GAP's sums move with the features: under one noise key the noise cancels, under fresh noise nothing is left to see."""
    graph = block_graph()
    modes = attack(Gap(), graph, TIGHT).details["query_modes"]
    assert modes["cached"]["auc"] == 0.5
    assert modes["fixed"]["auc"] > 0.95
    assert modes["fresh"]["auc"] < 0.75
    assert modes["fresh"]["pairs_with_influence"] > 0.99


def test_a_method_for_one_graph_has_one_release_only(quick_learning: None) -> None:
    graph = block_graph(60)
    result = attack(Dpdgc(), graph, NOTHING, nodes=20)
    assert set(result.details["query_modes"]) == {"cached"}
    assert "transductive" in result.details["refused"]


def test_enlarged_changes_one_row_of_a_copy() -> None:
    for sparse in [False, True]:
        x = np.array([[1.0, 0, 2, 3], [4, 5, 0, 0]])
        features = sp.csr_array(x) if sparse else x
        for entries, row in (("all", [2, 0, 4, 6]), ("half", [2, 0, 2, 6])):
            changed = LinkTeller(2, 1.0, entries).enlarged(features, 0)
            dense = np.asarray(changed.todense()) if sparse else changed
            assert dense.tolist() == [row, [4, 5, 0, 0]]
        assert np.asarray(features.todense() if sparse else features).tolist() == x.tolist()


# -- query modes -------------------------------------------------------------------------------------------------------


def test_equal_noise_and_fresh_noise() -> None:
    graph = block_graph(60)
    audited = AuditedMethod("sage", SAGE, TIGHT, graph)
    fitted = audited.fit(graph, STREAMS, Streams(1))
    for mode, same in ((CACHED, True), (FIXED, True), (FRESH, False)):
        query = query_of(mode, audited, fitted, STREAMS, Streams(3))
        assert np.array_equal(query(graph.features), query(graph.features)) == same, mode


def test_which_modes_are_made_and_which_is_the_headline() -> None:
    for asked, budget, refused, modes, headline in [
        (None, TIGHT, "", (CACHED, FIXED, FRESH), CACHED),
        (None, NOTHING, "", (CACHED, FIXED), FIXED),
        (None, TIGHT, "transductive", (CACHED,), CACHED),
        (None, NOTHING, "transductive", (CACHED,), CACHED),
        ((FRESH, FIXED), TIGHT, "", (FRESH, FIXED), FIXED),
        ((FRESH,), NOTHING, "", (FRESH,), FRESH),
        ((FIXED,), TIGHT, "transductive", (CACHED,), CACHED),
    ]:
        assert possible_modes(asked, budget, refused) == modes
        assert preferred_mode(modes, budget) == headline
