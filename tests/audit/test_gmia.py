"""G-MIA: it finds the members of a model that remembers them, not those of a private one; and its controls mean what they say."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import caribou as cb
from audit.known_bad_mechanisms.leaky import STREAMS, Parrot, block_graph, content
from caribou.audit.attack import Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.gmia import Gmia, Half, Sizes, class_area, draw_halves, train_attack
from caribou.audit.metrics import AttackResult
from caribou.errors import InputError
from caribou.methods import Method
from caribou.methods.dpdgc import DpdgcNdp
from caribou.methods.mlp import MlpDp
from caribou.methods.sage import SageEdge
from caribou.privacy.budget import Budget

PRIVATE = Budget(1.0, 1e-5, "node")
SIZES = Sizes(25, 75)


def attack(
    method: Method, graph: cb.Graph, budget: Budget, sizes: Sizes = SIZES, runs: int = 1, seed: int = STREAMS.seed
) -> AttackResult:
    return Gmia(sizes).run(AuditedMethod("mine", method, budget, graph, seed), Terms(runs)).measured["gmia"]


def noisy_graph() -> cb.Graph:
    return cb.datasets.load("csbm:nodes=320,features=64,classes=3,average_degree=4,signal=0.5", seed=0)


def test_a_model_that_remembers_is_found_out_and_a_private_one_is_not() -> None:
    graph = noisy_graph()
    before = content(graph)
    wide = SageEdge(
        hidden=64, layers=1, epochs=60, dropout=0.0
    )  # on many columns of noise: it learns its nodes by heart
    leaky = attack(wide, graph, Budget(math.inf), SIZES, runs=1)
    assert leaky.auc > 0.65
    assert leaky.details["same_query_auc"] > 0.6
    assert set(leaky.tpr_allowed.values()) == {1.0}, "at edge level nothing is promised about nodes"
    private = attack(MlpDp(), graph, PRIVATE, SIZES, runs=3)
    assert abs(private.auc - 0.5) < 0.1
    assert all(private.tpr_at_fpr[rate] <= private.tpr_allowed[rate] + 0.05 for rate in private.tpr_allowed)
    assert abs(private.details["class_auc"] - 0.5) < 0.1
    assert content(graph) == before
    json.dumps(private.to_json())


def test_a_false_claim_is_found_out() -> None:
    result = attack(Parrot(), noisy_graph(), PRIVATE, SIZES, runs=1)
    assert result.auc > 0.95
    assert result.details["same_query_auc"] > 0.95, "it remembers, whatever is asked around it"
    assert result.tpr_at_fpr[0.1] > 2 * result.tpr_allowed[0.1]


def test_a_method_for_one_graph_is_attacked_in_that_graph() -> None:
    result = attack(DpdgcNdp(), block_graph(), PRIVATE, Sizes(10, 20), runs=1)
    assert result.details["mode"].startswith("transductive")


def test_halves_are_disjoint_and_even_by_class() -> None:
    graph = block_graph()
    target, shadow = draw_halves(graph, Sizes(12, 20), np.random.default_rng(0))
    everybody = np.concatenate([target.members, target.others, shadow.members, shadow.others])
    assert len(np.unique(everybody)) == 2 * (36 + 20)
    for half in (target, shadow):
        assert np.bincount(graph.labels[half.members]).tolist() == [12, 12, 12]
    for sizes, words in ((Sizes(30, 5), "per_class"), (Sizes(10, 50), "others")):
        with pytest.raises(InputError, match=words):
            draw_halves(graph, sizes, np.random.default_rng(0))


def test_what_the_class_alone_tells() -> None:
    """A class that only members have: its nodes are known without any model."""
    labels = np.array([0] * 20 + [1] * 20)
    graph = cb.Graph.from_edges(np.zeros((40, 1)), np.empty((2, 0), int), labels=labels)
    even = [Half(np.array([0, 1, 20, 21]), np.array([2, 3, 22, 23])), Half(np.array([4, 24]), np.array([5, 25]))]
    assert class_area(graph, *even) == 0.5
    lopsided = [Half(np.array([0, 1]), np.array([20, 21])), Half(np.array([2, 3]), np.array([22, 23]))]
    assert class_area(graph, *lopsided) == 1.0


def test_the_attack_model_learns_what_there_is() -> None:
    rng = np.random.default_rng(0)
    members = np.arange(300) < 150
    sure = np.where(members, 0.9, 0.6) + 0.05 * rng.standard_normal(300)
    rows = np.stack([sure, 1 - sure], axis=1)
    assert train_attack(rows, members, rng).score(rows, members) > 0.9
