"""The method caribou-edp: the paper's pipeline step by step, its cost and floor, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from caribou.methods.caribou import (
    MESSAGES,
    Caribou,
    counting_floor,
    default_floor,
    message_unit,
    state_columns,
    unit_rows,
)
from hypothesis import given
from hypothesis import strategies as st

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.layers import project_rows
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.mechanisms.noise_source import NoiseSource
from caribou.models.encoder import cross_fit, fit_one
from caribou.models.features import sent_rows
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.budget import Budget
from caribou.privacy.calibration import budget_mu
from caribou.privacy.events import Gaussian
from caribou.privacy.sensitivity import Bounds
from caribou.privacy.sizes import Sizes
from caribou.randomness import Streams

SIZES = Sizes(nodes=60, columns=8, classes=4, train=40, val=8, test=12)
GRAPH = cb.datasets.load("csbm:nodes=60,features=8", seed=1)


@given(mu=st.floats(1e-3, 100))
def test_the_default_floor_is_public_and_falls_with_mu(mu: float) -> None:
    assert 2 <= default_floor(2 * mu) <= default_floor(mu) <= 20


@pytest.mark.parametrize(
    ("settings", "floor"),
    [
        ({}, 3),
        ({"hops": 1}, 3),
        ({"messages": "labels", "hops": 1}, 59),
        ({"messages": "labels", "hops": 2}, 3),
        ({"messages": "labels", "hops": 1, "degree_floor": 7}, 7),
    ],
)
def test_only_class_messages_over_one_hop_are_counts(settings: dict, floor: int) -> None:
    plan = Caribou(**settings).plan(SIZES, Budget(16.0, 1e-5))
    assert plan.parts["propagation"].sensitivity.bounds.degree_floor == floor
    assert counting_floor(nodes=1, mu=1.0) == 1


@pytest.mark.parametrize("hops", [1, 3, 64])
@pytest.mark.parametrize("messages", MESSAGES)
def test_any_number_of_hops_is_one_gaussian_of_the_whole_budget(hops: int, messages: str) -> None:
    budget = Budget(3.0, 1e-5)
    plan = Caribou(hops=hops, messages=messages, degree_floor=5).plan(SIZES, budget)
    (event,) = plan.cost
    assert isinstance(event, Gaussian)
    assert 1 / event.noise_multiplier == pytest.approx(budget_mu(budget), rel=1e-6)
    assert 3.0 * (1 - 1e-3) < epsilon_of(plan.cost, 1e-5) <= 3.0
    columns = {"features": 8, "embeddings": 16}.get(messages, 4)
    assert plan.parts["propagation"].arithmetic.columns == columns


def test_the_noise_of_a_row_is_at_most_as_long_as_the_row_beside_it() -> None:
    noisy = Caribou(hops=4, messages="features").plan(SIZES, Budget(0.1)).parts["propagation"]
    row = np.full((1, 8), noisy.noise_std)
    assert np.linalg.norm(state_columns(row, noisy)) == pytest.approx(1.0)
    quiet = Caribou(hops=4, messages="features").plan(SIZES, Budget(math.inf)).parts["propagation"]
    assert np.allclose(state_columns(row, quiet), row * message_unit(quiet))


def test_messages_have_length_one_or_nothing_to_say() -> None:
    x = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]])
    graph = Graph.from_edges(x, [[0], [1]])
    assert unit_rows(graph).tolist() == [[0.6, 0.8], [0, 0], [1, 0]]
    assert sent_rows(graph, np.ones((3, 2))).tolist() == [[1, 1], [0, 0], [1, 1]]


@pytest.mark.usefixtures("quick_encoder", "quick_classifier")
def test_the_defaults_are_the_papers_pipeline() -> None:
    """Embeddings of one encoder are X^(0), K = 2 hops of the contractive layer with residual, MLPs on X^(0) and X^(K)."""
    settings = Caribou().settings()
    expected = {"hops": 2, "contraction": 0.9, "alpha1": 1.0, "beta": 1.0, "messages": "embeddings", "votes": 0.0}
    assert {name: settings[name] for name in expected} == expected
    assert (settings["layer"], settings["cross_fit"]) == ("contractive", False)
    budget = Budget(math.inf)
    fitted = methods.fit(Caribou(), GRAPH, budget, Streams(0), NoiseSource.seeded(0))
    start = fit_one(GRAPH, Streams(0), Caribou().hidden).embeddings(GRAPH.features)
    layer, x0 = ContractiveGraphLayer(0.9, 1.0, 1.0), torch.from_numpy(start)
    operator = normalize(GRAPH, Bounds(degree_floor=2, nodes=60))
    state = x0
    for _ in range(2):
        state = project_rows(layer(state, operator, x0))
    assert np.allclose(fitted.released["state"], state.numpy(), atol=1e-12)
    arrays = {name.removeprefix("module."): a for name, a in fitted.weights.items() if name.startswith("module.")}
    assert {array.shape[1] for name, array in arrays.items() if name.startswith("bases") and array.ndim == 2} == {16}
    assert len({name.split(".")[1] for name in arrays if name.startswith("bases")}) == 2


@pytest.mark.usefixtures("quick_encoder", "quick_classifier")
def test_cross_fitted_embeddings_are_what_is_sent() -> None:
    fitted = methods.fit(Caribou(cross_fit=True, hops=1), GRAPH, Budget(math.inf), Streams(0), NoiseSource.seeded(0))
    start = cross_fit(GRAPH, Streams(0), Caribou().hidden).embeddings(GRAPH.features)
    layer, x0 = ContractiveGraphLayer(0.9, 1.0, 1.0), torch.from_numpy(start)
    expected = project_rows(layer(x0, normalize(GRAPH, Bounds(degree_floor=2, nodes=60)), x0))
    assert np.allclose(fitted.released["state"], expected.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hops": 0}, "hops must be a whole number >= 1, got 0"),
        ({"contraction": 1.5}, r"contraction must be in \(0, 1\], got 1.5"),
        ({"degree_floor": -1}, "degree_floor must be a whole number >= 0, got -1"),
        ({"messages": "degrees"}, "messages must be one of embeddings, features, labels, probabilities, got 'degrees'"),
        ({"cross_fit": "yes"}, "cross_fit must be true or false, got 'yes'"),
        ({"cross_fit": True, "messages": "features"}, "cross_fit must be false for messages = features"),
        ({"calibration": 0}, r"calibration must be in the open interval \(0, 1\), got 0"),
        ({"classifier": "tree"}, "classifier must be one of evidence, mlp, got 'tree'"),
        ({"classifier": "evidence", "messages": "features"}, "classifier must be mlp for messages = features"),
        ({"votes": 1.0}, r"votes must be in \[0, 1\), got 1.0"),
        ({"votes": 0.5, "classifier": "mlp"}, "votes must be 0 unless the classifier is evidence, got 0.5"),
        ({"layer": "dense"}, "layer must be one of contractive, attention, spectral, gcn, got 'dense'"),
        ({"layer": "attention", "alpha1": 0.5}, "alpha1 must be 1 for the layer attention, got 0.5"),
        ({"layer": "gcn", "classifier": "evidence"}, "classifier must be mlp for the layer gcn, got 'evidence'"),
        ({"layer_settings": {"theta0": 1}}, "layer_settings must be of nothing for contractive"),
        ({"layer": "spectral", "layer_settings": {"x": 1}}, "layer_settings must be of theta0, theta1 for spectral"),
    ],
)
def test_wrong_settings_are_named(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Caribou(**settings)
