"""The method mlp: it reads no edge, draws no noise and spends nothing."""

from __future__ import annotations

import numpy as np
import pytest

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.edge.mlp import Mlp
from caribou.models.class_prior import fit_class_prior
from caribou.models.encoder import cross_fit
from caribou.privacy.accounting import epsilon_of
from caribou.randomness import Streams

GRAPH = cb.datasets.load("csbm:nodes=120,signal=3", seed=2)
pytestmark = pytest.mark.usefixtures("quick_learning")


@pytest.mark.parametrize("hidden", [None, (64, 16)])
def test_it_is_the_encoder_whatever_the_edges_and_the_noise(hidden: tuple[int, ...] | None) -> None:
    bare = Graph.from_edges(GRAPH.features, GRAPH.edge_index[:, :0], GRAPH.labels, GRAPH.split)
    noise = NoiseSource.secure()
    fits = [methods.fit(Mlp(hidden), graph, cb.Budget(1.0), Streams(0), noise) for graph in (GRAPH, bare)]
    assert np.array_equal(fits[0].probabilities, fits[1].probabilities)
    prior = fit_class_prior(GRAPH, Streams(0))[1] if hidden is None else cross_fit(GRAPH, Streams(0)).probabilities
    assert np.array_equal(fits[0].probabilities, prior)
    assert noise.draws == 0
    assert fits[0].certificate.epsilon_spent == 0
    assert fits[0].certificate.status == "private"


@pytest.mark.parametrize("hidden", [None, ()])
def test_another_graph_costs_nothing_either(hidden: tuple[int, ...] | None) -> None:
    fitted = methods.fit(Mlp(hidden), GRAPH, cb.Budget(1.0), Streams(0))
    other = cb.datasets.load("csbm:nodes=60,signal=3", seed=5)
    result = methods.predict_graph(Mlp(hidden), fitted.weights, other, cb.Budget(1.0), Streams(0))
    assert result.probabilities.shape == (60, 4)
    assert result.certificate.epsilon_spent == 0
    assert epsilon_of(Mlp().plan(GRAPH.sizes(cb.PrivacyUnit.EDGE), cb.Budget(1.0)).cost, 1e-5) == 0


def test_bad_input() -> None:
    with pytest.raises(InputError, match="hidden must be a list of widths such as"):
        Mlp(hidden=64)
    with pytest.raises(InputError, match="unit must be edge for mlp, got node"):
        methods.fit(Mlp(), GRAPH, cb.Budget(1.0, unit="node"), Streams(0))
