"""Likelihood ratios: edges and nodes of leaky methods are found, private ones keep within their certificate."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

import caribou as cb
from audit.known_bad_mechanisms.leaky import NOTHING, SAGE, STREAMS, TIGHT, Parrot, block_graph, content
from caribou.audit.attack import Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.lira import Lira, TargetModel, cross_judged, edge_game
from caribou.audit.metrics import AttackResult
from caribou.audit.targets import without_pairs
from caribou.errors import InputError
from caribou.methods import Method
from caribou.methods.dpdgc import DpdgcNdp
from caribou.methods.mlp import MlpDp
from caribou.metrics import area_under_curve
from caribou.privacy.budget import Budget

NODE = Budget(1.0, 1e-5, "node")


def attack(
    method: Method, graph: cb.Graph, budget: Budget, runs: int, targets: int, seed: int = STREAMS.seed
) -> AttackResult:
    return Lira(targets).run(AuditedMethod("mine", method, budget, graph, seed), Terms(runs)).measured["lira"]


def within(result: AttackResult, slack: float = 0.03) -> bool:
    """No measured rate above the allowed one, up to chance."""
    return all(result.tpr_at_fpr[rate] <= result.tpr_allowed[rate] + slack for rate in result.tpr_allowed)


def test_edges() -> None:
    graph = block_graph()
    before = content(graph)
    leaky = attack(SAGE, graph, NOTHING, 24, 20)
    assert leaky.auc > 0.9
    assert leaky.tpr_at_fpr[0.1] > 0.7
    private = attack(SAGE, graph, TIGHT, 24, 20)
    low, high = private.auc_interval
    assert low - 0.05 < 0.5 < high + 0.05
    assert within(private)
    assert private.details["bound_applies"]
    assert content(graph) == before
    json.dumps(private.to_json())


def test_nodes() -> None:
    graph = block_graph()
    before = content(graph)
    leaky = attack(MlpDp(), graph, Budget(math.inf, unit="node"), 48, 20)
    assert leaky.auc > 0.8
    private = attack(MlpDp(), graph, NODE, 48, 20)
    low, high = private.auc_interval
    assert low - 0.05 < 0.5 < high + 0.05
    assert within(private)
    assert content(graph) == before


def test_a_false_claim_is_found_out() -> None:
    result = attack(Parrot(), block_graph(), NODE, 16, 20)
    assert result.auc > 0.95
    assert result.tpr_at_fpr[0.01] > 2 * result.tpr_allowed[0.01]


def test_a_method_for_one_graph_is_seen_through_neighbours() -> None:
    result = attack(DpdgcNdp(), block_graph(), NODE, 16, 10)
    assert "neighbours" in result.details["seen"]
    assert within(result, 0.1)


def test_gaussian_targets_are_judged_as_well_as_theory_allows() -> None:
    """Mean 0 or 1.5, variance 1: AUC = Phi(1.5 / sqrt 2) for who knows the means; many runs come close to it."""
    rng = np.random.default_rng(0)
    members = rng.random((400, 30)) < 0.5
    seen = rng.standard_normal((400, 30, 1)) + 1.5 * members[:, :, None]
    best = stats.norm.cdf(1.5 / math.sqrt(2))
    areas = [area_under_curve(half) for half in cross_judged(seen, members)]
    assert areas == pytest.approx([best, best], abs=0.02)


def test_where_nothing_is_to_be_seen_the_area_is_one_half() -> None:
    """No bias: over 60 games without any signal the mean AUC is 1/2 to 0.01."""
    rng = np.random.default_rng(1)
    areas = []
    for _ in range(60):
        members = rng.random((16, 20)) < 0.5
        areas += [area_under_curve(half) for half in cross_judged(rng.standard_normal((16, 20, 4)), members)]
    assert np.mean(areas) == pytest.approx(0.5, abs=0.01)


def test_variances_lean_on_the_other_targets() -> None:
    """A target that happens to agree in its few runs is not taken for certain."""
    rng = np.random.default_rng(2)
    members = np.tile([[True], [False]], (4, 5))
    seen = rng.standard_normal((8, 5, 1))
    seen[:, 0] = 0.3
    model = TargetModel.fit(seen, members)
    assert model.variance[0, 0] > 0.2
    assert model.usable.all()
    assert not TargetModel.fit(seen, np.ones((8, 5), dtype=bool)).usable.any()


def test_edge_targets_share_no_node_and_have_small_degrees() -> None:
    graph = block_graph()
    pairs = edge_game(graph, 15, STREAMS).targets
    assert len(np.unique(pairs)) == 30
    assert all(graph.has_edge(int(u), int(v)) for u, v in pairs)
    assert graph.degrees[pairs].max() < graph.degrees.max()
    world = edge_game(graph, 15, STREAMS).world(np.arange(15) < 5)
    assert world.num_edges == graph.num_edges - 10
    with pytest.raises(InputError, match="edge to attack"):
        edge_game(cb.Graph.from_edges(np.eye(3), np.empty((2, 0), int)), 2, STREAMS)


def test_without_pairs_is_the_neighbour_that_the_guarantee_is_about() -> None:
    graph = block_graph(40)
    pairs = edge_game(graph, 2, STREAMS).targets
    step = graph.without_edge(*map(int, pairs[0])).without_edge(*map(int, pairs[1]))
    assert content(without_pairs(graph, pairs.T)) == content(step)
