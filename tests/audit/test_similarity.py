"""The similarity attack: what it finds in posteriors, beside what features alone tell."""

from __future__ import annotations

import numpy as np
import pytest

from audit.known_bad_mechanisms.leaky import NOTHING, SAGE, STREAMS, TIGHT, block_graph, content
from caribou.audit.attack import Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.metrics import AttackResult
from caribou.audit.similarity import Similarity, correlations
from caribou.graph import Graph
from caribou.methods import Method
from caribou.methods.sage import SageEdge
from caribou.privacy.budget import Budget


def attack(method: Method, graph: Graph, budget: Budget, runs: int = 1, seed: int = STREAMS.seed) -> AttackResult:
    return Similarity(200).run(AuditedMethod("mine", method, budget, graph, seed), Terms(runs)).measured["similarity"]


def test_correlations_are_numpys_where_columns_are_centred() -> None:
    rows = np.random.default_rng(0).standard_normal((6, 4))
    centred = rows - rows.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1)
    assert correlations(rows) == pytest.approx(centred @ centred.T / np.outer(lengths, lengths))
    assert not correlations(np.ones((3, 2))).any(), "equal rows have no direction"


def test_posteriors_tell_more_than_features_without_privacy_only() -> None:
    graph = block_graph(200)
    before = content(graph)
    deep = SageEdge(hidden=16, layers=3, epochs=40)
    leaky = attack(deep, graph, NOTHING, runs=3)
    private = attack(SAGE, graph, TIGHT, runs=3)
    assert leaky.auc > leaky.details["auc_of_features"] + 0.1
    assert leaky.auc > private.auc + 0.1
    assert private.auc < private.details["auc_of_features"] + 0.05
    assert not private.details["bound_applies"]
    assert content(graph) == before


def test_equal_seeds_give_equal_results() -> None:
    graph = block_graph(80)
    one, two, other = (attack(SAGE, graph, TIGHT, seed=seed).to_json() for seed in (1, 1, 2))
    assert one == two
    assert one != other
