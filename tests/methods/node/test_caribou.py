"""The method caribou-ndp: the paper's pipeline step by step, how one budget is shared, who pays what, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from caribou.methods.caribou import CaribouNdp, joint_rows, paying_share
from scipy.special import softmax

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.graph.operator import normalize
from caribou.layers import project_rows
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.mlp import MlpDp, apply_encoder, centred
from caribou.methods.node_method import side_by_side
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import EpsilonDelta, gaussian_mu
from caribou.privacy.mechanism_records import Group, Mechanism, groups_of
from caribou.privacy.sensitivity import declared_bounds
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

NODE = {"delta": 1e-5, "unit": "node"}
SIZES = Sizes(nodes=300, columns=32, classes=4, train=210, val=30, test=60)
GRAPH = cb.datasets.load("csbm:nodes=120", seed=1)
LEAVING = CaribouNdp(messages="labels", classifier="chosen", leave_graph=True)


def test_the_graph_pays_on_very_dense_graphs_with_a_large_epsilon_alone() -> None:
    assert [paying_share(e, None) for e in (1, 16)] == [0.0, 0.0]
    assert [paying_share(16, degree) for degree in (49.9, 50)] == [0.0, 0.85]
    assert [paying_share(e, 60) for e in (5.9, 6, 11.9, 12)] == [0.0, 0.5, 0.5, 0.85]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 32.0])
@pytest.mark.parametrize("settings", [{}, {"classifier": "mlp", "base": {"hidden": 4}}, {"degree_cap": 5}])
def test_the_papers_method_always_reads_the_graph(epsilon: float, settings: dict) -> None:
    budget = Budget(epsilon, **NODE)
    fitted = methods.fit(CaribouNdp(**settings), GRAPH, budget, Streams(0), NoiseSource.seeded(1))
    bare = replace(GRAPH, indptr=np.zeros_like(GRAPH.indptr), indices=GRAPH.indices[:0])
    other = methods.fit(CaribouNdp(**settings), bare, budget, Streams(0), NoiseSource.seeded(1))
    assert not np.allclose(fitted.released["state"], other.released["state"])
    assert Mechanism.MESSAGE_PASSING in {record.mechanism for record in fitted.certificate.mechanisms}


def test_the_pipeline_without_noise_is_the_papers() -> None:
    """X^(0): embeddings of the private encoder; two projected hops with residual; a model on both side by side."""
    budget, streams = Budget(math.inf, **NODE), Streams(0)
    fitted = methods.fit(CaribouNdp(), GRAPH, budget, streams, NoiseSource.seeded(1))
    x0 = torch.from_numpy(apply_encoder(fitted.weights, GRAPH))
    layer, bounds = ContractiveGraphLayer(0.9, 1.0, 1.0), declared_bounds("node", nodes=GRAPH.num_nodes)
    operator, state = normalize(GRAPH, bounds, streams.sampling), x0
    for _ in range(2):
        state = project_rows(project_rows(layer(state, operator, x0)))
    assert np.allclose(fitted.released["state"], state.numpy(), atol=1e-12)
    rows = side_by_side([x0.numpy(), state.numpy()])
    assert np.allclose(fitted.probabilities, softmax(rows @ fitted.weights["classifier"], axis=1), atol=1e-9)


def test_embeddings_of_a_network_are_its_hidden_layer_and_those_of_a_linear_model_its_logits() -> None:
    for base, columns in (({}, 4), ({"hidden": 6}, 6)):
        method = CaribouNdp(base=base)
        plan = method.plan(GRAPH.sizes(PrivacyUnit.NODE), Budget(4.0, **NODE))
        assert plan.parts["propagation"].arithmetic.columns == columns
        encoder = method.base.fit_base(plan.parts["base"], GRAPH, Streams(0), NoiseSource.seeded(2))
        rows = encoder.embeddings(method.base.shrinkage)
        assert rows.shape == (GRAPH.num_nodes, columns)
        assert np.allclose(rows, apply_encoder(encoder.parameters(method.base.shrinkage), GRAPH), atol=1e-9)
        assert np.allclose(np.linalg.norm(rows, axis=1), 1)


def test_where_the_graph_does_not_pay_it_can_be_left_alone() -> None:
    budget = Budget(4.0, **NODE)
    ours_planned, theirs_planned = (method.plan(SIZES, budget) for method in (LEAVING, MlpDp()))
    assert ours_planned.description == "caribou-ndp, fitted without the graph"
    assert replace(ours_planned, description=theirs_planned.description) == theirs_planned
    ours, theirs = (methods.fit(m, GRAPH, budget, Streams(0), NoiseSource.seeded(1)) for m in (LEAVING, MlpDp()))
    assert np.array_equal(ours.probabilities, theirs.probabilities)
    dense = replace(LEAVING, declared_average_degree=60.0)
    assert "propagation" in dense.plan(SIZES, Budget(8.0, **NODE)).parts


@pytest.mark.parametrize("classifier", ["linear", "mlp"])
@pytest.mark.parametrize("hops", [1, 4])
def test_a_trained_classifier_shares_mu_squared_with_encoder_and_propagation(hops: int, classifier: str) -> None:
    budget = Budget(4.0, **NODE)
    method = CaribouNdp(graph_share=0.6, classifier=classifier, classifier_share=0.1, hops=hops)
    groups = groups_of(method.plan(SIZES, budget).mechanisms)
    assert gaussian_mu(groups[Group.TRAINING]) == pytest.approx(budget_mu(budget), rel=1e-5)
    for group in (Group.VALIDATION, Group.OTHERS):
        assert gaussian_mu(groups[group]) == pytest.approx(math.sqrt(0.6) * budget_mu(budget), rel=1e-5)


def test_validation_nodes_pay_for_the_choice_of_the_weight_and_keep_the_budget() -> None:
    budget = Budget(4.0, **NODE)
    method = CaribouNdp(messages="labels", classifier="chosen", graph_share=0.5)
    groups = groups_of(method.plan(SIZES, budget).mechanisms)
    assert [type(e) for e in groups[Group.VALIDATION] if isinstance(e, EpsilonDelta)] == [EpsilonDelta]
    assert not any(isinstance(e, EpsilonDelta) for e in (*groups[Group.TRAINING], *groups[Group.OTHERS]))
    for group, events in groups.items():
        assert epsilon_of(events, 1e-5) <= 4.0 * (1 + 1e-9), group
    assert epsilon_of(groups[Group.OTHERS], 1e-5) < epsilon_of(groups[Group.TRAINING], 1e-5)


def test_rows_of_the_classifier_are_logits_and_centred_state_at_length_one() -> None:
    logits, state = np.array([[3.0, -3.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [2.0, 2.0]])
    rows = joint_rows(logits, state)
    assert np.allclose(rows[0], np.array([1, -1, 1, -1]) / 2)
    assert np.allclose(rows[1], 0)
    assert np.allclose(centred(state)[0], [0.5, -0.5])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hops": 0}, "hops must be a whole number >= 1, got 0"),
        ({"degree_cap": 0}, "degree_cap must be a whole number >= 1, got 0"),
        ({"contraction": 0}, "contraction must be"),
        ({"graph_share": 0.0}, r"graph_share must be in the open interval \(0, 1\), got 0.0"),
        ({"graph_share": 0.96, "classifier_share": 0.05}, r"graph_share \+ classifier_share must be < 1"),
        ({"classifier": "tree"}, "classifier must be one of linear, mlp, chosen, got 'tree'"),
        ({"classifier": "chosen"}, "messages must be labels for classifier = chosen, got 'embeddings'"),
        ({"leave_graph": True}, "messages must be labels for leave_graph = true, got 'embeddings'"),
        (
            {"leave_graph": True, "messages": "labels", "classifier_share": 0.2},
            "classifier_share must be < 0.15 for leave_graph = true, got 0.2",
        ),
        ({"messages": "features"}, "messages must be one of embeddings, labels, got 'features'"),
        ({"declared_average_degree": -1}, "declared_average_degree must be a finite number >= 0, got -1"),
        ({"base": MlpDp(choose_shrinkage=True)}, "choose_shrinkage must be False here: validation nodes choose"),
    ],
)
def test_wrong_settings_are_named(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CaribouNdp(**settings)
