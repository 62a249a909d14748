"""The method caribou-edp: the paper's pipeline step by step, its cost and floor, and what it refuses.

The method caribou-ndp: the paper's pipeline step by step, how one budget is shared, who pays what, and what it refuses.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

import caribou as cb
from caribou import methods
from caribou.graph.operator import normalize
from caribou.layers import project_rows
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.caribou import (
    MESSAGES,
    Caribou,
    CaribouNdp,
    default_floor,
    message_unit,
    state_columns,
)
from caribou.methods.mlp import applied
from caribou.methods.node_method import side_by_side
from caribou.models.encoder import fit_one
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import Gaussian, gaussian_mu
from caribou.privacy.mechanism_records import Group, Mechanism, groups_of
from caribou.privacy.sensitivity import Bounds, declared_bounds
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

SIZES = Sizes(nodes=60, columns=8, classes=4, train=40, val=8, test=12)

GRAPH = cb.datasets.load("csbm:nodes=60,features=8", seed=1)


@given(mu=st.floats(1e-3, 100))
def test_the_default_floor_is_public_and_falls_with_mu(mu: float) -> None:
    assert 2 <= default_floor(2 * mu) <= default_floor(mu) <= 20


@pytest.mark.parametrize("hops", [1, 3, 64])
@pytest.mark.parametrize("messages", MESSAGES)
def test_any_number_of_hops_is_one_gaussian_of_the_whole_budget(hops: int, messages: str) -> None:
    budget = Budget(3.0, 1e-5)
    plan = Caribou(hops=hops, messages=messages, degree_floor=5).plan(SIZES, budget)
    (event,) = plan.cost
    assert isinstance(event, Gaussian)
    assert 1 / event.noise_multiplier == pytest.approx(budget_mu(budget), rel=1e-6)
    assert 3.0 * (1 - 1e-3) < epsilon_of(plan.cost, 1e-5) <= 3.0
    columns = {"features": 8, "embeddings": 16}[messages]
    assert plan.parts["propagation"].arithmetic.columns == columns


def test_the_noise_of_a_row_is_at_most_as_long_as_the_row_beside_it() -> None:
    noisy = Caribou(hops=4, messages="features").plan(SIZES, Budget(0.1)).parts["propagation"]
    row = np.full((1, 8), noisy.noise_std)
    assert np.linalg.norm(state_columns(row, noisy)) == pytest.approx(1.0)
    quiet = Caribou(hops=4, messages="features").plan(SIZES, Budget(math.inf)).parts["propagation"]
    assert np.allclose(state_columns(row, quiet), row * message_unit(quiet))


@pytest.mark.usefixtures("quick_encoder", "quick_classifier")
def test_the_defaults_are_the_papers_pipeline() -> None:
    """Embeddings of one encoder are X^(0), K = 2 hops of the contractive layer with residual, MLPs on X^(0) and X^(K)."""
    settings = Caribou().settings()
    expected = {"hops": 2, "contraction": 0.9, "alpha1": 1.0, "beta": 1.0, "messages": "embeddings"}
    assert {name: settings[name] for name in expected} == expected
    assert settings["layer"] == "contractive"
    budget = Budget(math.inf)
    fitted = methods.fit(Caribou(), GRAPH, budget, Streams(0), NoiseSource.seeded(0))
    start = fit_one(GRAPH, Streams(0), Caribou().hidden).encoder.embeddings(GRAPH.features)
    layer, x0 = ContractiveGraphLayer(0.9, 1.0, 1.0), torch.from_numpy(start)
    operator = normalize(GRAPH, Bounds(degree_floor=2, nodes=60))
    state = x0
    for _ in range(2):
        state = project_rows(layer(state, operator, x0))
    assert np.allclose(fitted.released["state"], state.numpy(), atol=1e-12)
    arrays = {name.removeprefix("module."): a for name, a in fitted.weights.items() if name.startswith("module.")}
    assert {array.shape[1] for name, array in arrays.items() if name.startswith("bases") and array.ndim == 2} == {16}
    assert len({name.split(".")[1] for name in arrays if name.startswith("bases")}) == 2


NODE = {"delta": 1e-5, "unit": "node"}


NODE_SIZES = Sizes(nodes=300, columns=32, classes=4, train=210, val=30, test=60)


NODE_GRAPH = cb.datasets.load("csbm:nodes=120", seed=1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 32.0])
@pytest.mark.parametrize("settings", [{}, {"classifier": "mlp", "base": {"hidden": 4}}, {"degree_cap": 5}])
def test_the_papers_method_always_reads_the_graph(epsilon: float, settings: dict) -> None:
    budget = Budget(epsilon, **NODE)
    fitted = methods.fit(CaribouNdp(**settings), NODE_GRAPH, budget, Streams(0), NoiseSource.seeded(1))
    bare = replace(NODE_GRAPH, indptr=np.zeros_like(NODE_GRAPH.indptr), indices=NODE_GRAPH.indices[:0])
    other = methods.fit(CaribouNdp(**settings), bare, budget, Streams(0), NoiseSource.seeded(1))
    assert not np.allclose(fitted.released["state"], other.released["state"])
    assert Mechanism.MESSAGE_PASSING in {record.mechanism for record in fitted.certificate.mechanisms}


def test_the_pipeline_without_noise_is_the_papers() -> None:
    """X^(0): embeddings of the private encoder; two projected hops with residual; a model on both side by side."""
    budget, streams = Budget(math.inf, **NODE), Streams(0)
    fitted = methods.fit(CaribouNdp(), NODE_GRAPH, budget, streams, NoiseSource.seeded(1))
    x0 = torch.from_numpy(applied(fitted.weights, NODE_GRAPH).embeddings())
    layer, bounds = ContractiveGraphLayer(0.9, 1.0, 1.0), declared_bounds("node", nodes=NODE_GRAPH.num_nodes)
    operator, state = normalize(NODE_GRAPH, bounds, streams.sampling), x0
    for _ in range(2):
        state = project_rows(project_rows(layer(state, operator, x0)))
    assert np.allclose(fitted.released["state"], state.numpy(), atol=1e-12)
    rows = side_by_side([x0.numpy(), state.numpy()])
    assert np.allclose(fitted.probabilities, softmax(rows @ fitted.weights["classifier"], axis=1), atol=1e-9)


@pytest.mark.parametrize("classifier", ["linear", "mlp"])
@pytest.mark.parametrize("hops", [1, 4])
def test_a_trained_classifier_shares_mu_squared_with_encoder_and_propagation(hops: int, classifier: str) -> None:
    budget = Budget(4.0, **NODE)
    method = CaribouNdp(graph_share=0.6, classifier=classifier, classifier_share=0.1, hops=hops)
    groups = groups_of(method.plan(NODE_SIZES, budget).mechanisms)
    assert gaussian_mu(groups[Group.TRAINING]) == pytest.approx(budget_mu(budget), rel=1e-5)
    for group in (Group.VALIDATION, Group.OTHERS):
        assert gaussian_mu(groups[group]) == pytest.approx(math.sqrt(0.6) * budget_mu(budget), rel=1e-5)
