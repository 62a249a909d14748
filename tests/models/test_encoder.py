"""The encoder: no node is predicted by a model that was fitted on it, what is read, how features are scaled, what is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.special import softmax

from caribou.datasets import load
from caribou.graph import Graph
from caribou.models import encoder as module
from caribou.models.encoder import (
    FOLDS,
    EncoderConfig,
    Prior,
    Scaling,
    cross_fit,
)
from caribou.randomness import Streams

GRAPH = load("csbm:nodes=150,classes=3,features=8,average_degree=6,signal=2.0", seed=2)
HIDDEN = (12, 6)
FEW = EncoderConfig(36, 0.02, 1e-3, 0.1, 0.1, sparse_row_length=16.0)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """One configuration with few steps: nothing but the models themselves then depends on labels."""
    monkeypatch.setattr(module, "configurations", lambda graph: (FEW,))


def graph_with(graph: Graph = GRAPH, *, labels=None, features=None, edges=None, split=None) -> Graph:
    changed = Graph.from_edges(
        graph.features if features is None else features,
        graph.edge_index if edges is None else edges,
        labels=graph.labels if labels is None else labels,
        num_classes=graph.num_classes,
    )
    return changed.with_split(graph.split if split is None else split)


def bits(prior: Prior) -> list[bytes]:
    return [prior.probabilities.tobytes(), *(a.tobytes() for a in prior.encoder.to_arrays().values())]


# -- cross-fitting -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few_steps")
def test_a_training_node_is_never_predicted_by_a_model_that_was_fitted_on_it() -> None:
    """Its own label may be anything: its row stays as it is, bit by bit, while rows of other folds move."""
    train = GRAPH.split.train
    before = cross_fit(GRAPH, Streams(0), HIDDEN).probabilities
    for node in train[:2]:
        labels = np.array(GRAPH.labels)
        labels[node] = (labels[node] + 1) % 3
        after = cross_fit(graph_with(labels=labels), Streams(0), HIDDEN).probabilities
        assert np.array_equal(after[node], before[node])
        same = (after[train] == before[train]).all(axis=1).mean()
        assert same == pytest.approx(1 / FOLDS, abs=0.05), "its own fold, and nobody else"
        assert not np.array_equal(after[GRAPH.split.test], before[GRAPH.split.test])


@pytest.mark.usefixtures("few_steps")
def test_other_nodes_are_predicted_by_the_mean_of_all_models() -> None:
    prior = cross_fit(GRAPH, Streams(0), HIDDEN)
    each = softmax(prior.encoder.logits(GRAPH.features), axis=2)
    assert each.shape == (1 + FOLDS, 150, 3)
    others = np.concatenate([GRAPH.split.val, GRAPH.split.test])
    assert np.allclose(prior.probabilities[others], each.mean(axis=0)[others], atol=1e-5)
    assert np.allclose(prior.encoder.probabilities(GRAPH.features), each.mean(axis=0), atol=1e-5)
    # every training node has the row of one model that left something out
    gap = np.abs(each[1:, GRAPH.split.train] - prior.probabilities[GRAPH.split.train]).max(axis=2)
    assert gap.min(axis=0).max() < 1e-5
    assert np.allclose(prior.probabilities.sum(axis=1), 1)


@pytest.mark.usefixtures("few_steps")
def test_neither_edges_nor_test_labels_are_read() -> None:
    before = bits(cross_fit(GRAPH, Streams(0), HIDDEN))
    assert bits(cross_fit(graph_with(edges=GRAPH.edge_index[:, :0]), Streams(0), HIDDEN)) == before
    labels = np.array(GRAPH.labels)
    labels[GRAPH.split.test] = 0
    assert bits(cross_fit(graph_with(labels=labels), Streams(0), HIDDEN)) == before


@pytest.mark.usefixtures("few_steps")
def test_deterministic_per_seed_and_the_global_generator_is_left_alone() -> None:
    state = torch.get_rng_state()
    one, two, other = (bits(cross_fit(GRAPH, Streams(s), HIDDEN)) for s in (1, 1, 2))
    assert one == two
    assert one != other
    assert torch.equal(torch.get_rng_state(), state)


# -- validation ----------------------------------------------------------------------------------------------------


def test_validation_chooses_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not learn loses, wherever it stands."""
    still = replace(FEW, learning_rate=0.0)
    for order in ((still, FEW), (FEW, still)):
        monkeypatch.setattr(module, "configurations", lambda graph, order=order: order)
        assert np.linalg.norm(cross_fit(GRAPH, Streams(0), ()).encoder.biases[0]) > 0, "the biases begin at 0"


# -- features ------------------------------------------------------------------------------------------------------


def test_dense_features_are_standardised_by_column() -> None:
    x = np.random.default_rng(0).normal(5, 3, (40, 4)).astype(np.float32)
    x[:, 3] = 7
    scaling = Scaling.of(x, row_length=4.0)
    scaled = scaling(x)
    assert np.allclose(scaled.mean(axis=0), 0, atol=1e-4)
    assert np.allclose(scaled.std(axis=0), [1, 1, 1, 0], atol=1e-4)
    assert np.array_equal(scaling.by_rows(x)[np.array([3, 1])], scaled[[3, 1]])
    assert scaling.by_rows(x).shape == (40, 4)
    assert np.array_equal(Scaling.of(sp.csr_array(x), 4.0)(sp.csr_array(x)), scaled), (
        "CSR with many entries is the same"
    )


def test_sparse_rows_get_one_length_and_stay_sparse() -> None:
    x = sp.csr_array(np.array([[3.0, 0, 0, 0, 0, 0, 0, 0, 4.0, 0, 0], [0] * 11], dtype=np.float32))
    scaled = Scaling.of(x, row_length=10.0)(x)
    assert sp.issparse(scaled)
    assert scaled.todense()[:, [0, 8]].tolist() == [[6.0, 8.0], [0.0, 0.0]]
    assert np.array_equal(
        np.asarray(Scaling.of(x, 10.0)(np.asarray(x.todense())).todense()), np.asarray(scaled.todense())
    )


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("hidden", [(), (5,)])
@pytest.mark.parametrize("sparse", [False, True])
def test_logits_are_those_of_the_layers_written_out(hidden: tuple[int, ...], sparse: bool) -> None:
    rng = np.random.default_rng(0)
    x = sp.csr_array((rng.random((150, 40)) < 0.1).astype(np.float32)) if sparse else GRAPH.features
    graph = graph_with(features=x)
    encoder = cross_fit(graph, Streams(0), hidden).encoder
    scaled = encoder.scaling(x)
    h = np.asarray(scaled.todense()) if sparse else scaled
    h = np.broadcast_to(h, (1 + FOLDS, *h.shape))
    for i, (w, b) in enumerate(zip(encoder.weights, encoder.biases, strict=True)):
        h = h if i == 0 else 1.0507009873554805 * np.where(h > 0, h, 1.6732632423543772 * (np.exp(h) - 1))
        h = h @ w + b
        if i == max(0, len(hidden) - 1):
            assert np.allclose(encoder.embeddings(x), h[0] / np.linalg.norm(h[0], axis=1, keepdims=True), atol=1e-4)
    assert np.allclose(encoder.logits(x), h, atol=1e-3)


# -- one model, and embeddings -------------------------------------------------------------------------------------


# -- encoders that are kept ----------------------------------------------------------------------------------------


# -- what it is good for -------------------------------------------------------------------------------------------


def test_it_learns_and_a_saved_one_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Well separated classes: nodes that no model was fitted on are right, training nodes out of fold included."""
    monkeypatch.setattr(module, "configurations", lambda graph: (replace(FEW, steps=100),))
    graph = load("csbm:nodes=300,classes=3,features=8,average_degree=6,signal=5.0", seed=2)
    prior = cross_fit(graph, Streams(0))
    right = prior.probabilities.argmax(axis=1) == graph.labels
    assert right[graph.split.test].mean() > 0.9
    assert right[graph.split.train].mean() > 0.9
    loaded = module.Encoder.from_arrays(prior.encoder.to_arrays())
    assert np.array_equal(loaded.logits(graph.features), prior.encoder.logits(graph.features))
