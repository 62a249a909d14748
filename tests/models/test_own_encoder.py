"""Encoders of the user's own: cross-fitted, deterministic, and refused where they know labels or cannot serve."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import caribou as cb
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.models import own_encoder
from caribou.models.own_encoder import STEPS, batches_and_steps, module_logits, train_module, with_encoder
from caribou.randomness import Streams

pytestmark = pytest.mark.usefixtures("short_training")
GRAPH = cb.datasets.load("csbm:nodes=300,signal=2", seed=0)
LABELS = np.array(GRAPH.labels)
TEST = GRAPH.split.test


def network(columns: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(columns, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, classes))


def noise_table(rows: int = 600) -> Graph:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 3))
    return Graph.from_edges(x, np.empty((2, 0), int), rng.integers(2, size=rows)).random_split(seed=0)


@pytest.mark.parametrize("encoder", [LogisticRegression(), network], ids=["scikit-learn", "torch"])
def test_it_learns_and_follows_the_public_seed(encoder: object) -> None:
    state = torch.random.get_rng_state()
    (graph, fitted), (again, _) = (with_encoder(GRAPH, encoder, Streams(0)) for _ in range(2))
    assert np.array_equal(graph.prior, again.prior)
    assert torch.equal(state, torch.random.get_rng_state())
    assert (graph.prior.argmax(axis=1) == LABELS)[TEST].mean() > 0.5
    assert np.allclose(fitted.probabilities(GRAPH.features)[TEST], graph.prior[TEST], atol=1e-5)


def test_a_classifier_that_remembers_every_row_knows_no_label() -> None:
    """The nearest row is the row itself: in sample it is always right."""
    graph = noise_table()
    labelled = np.concatenate([graph.split.train, graph.split.val])
    found, _ = with_encoder(graph, KNeighborsClassifier(1), Streams(0))
    right = (found.prior.argmax(axis=1) == np.array(graph.labels))[labelled]
    assert abs(right.mean() - 0.5) < 0.1


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        (LinearSVC(), "encoder must have predict_proba, got LinearSVC"),
        (LogisticRegression, "needs its brackets"),
        (nn.Linear(2, 2), "got Linear: .* makes a new one for every fold"),
        (lambda d, C: nn.Linear(d, C + 1), r"module with 4 logits per row, got outputs of shape \(2, 5\)"),
        (lambda d, C: "net", "encoder must make a torch module of .* made str"),
        (
            np.full((300, 3), 1 / 3),
            "as class probabilities: prior must be class probabilities of 300 nodes in 4 classes",
        ),
        (LogisticRegression(C=-1.0), "encoder must be able to learn from the graph's features, got LogisticRegression"),
    ],
)
def test_what_cannot_serve_is_refused(encoder: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        with_encoder(GRAPH, encoder, Streams(0))


def test_a_classifier_that_stays_fitted_is_refused() -> None:
    """scikit-learn does not clone what is frozen: it would know the labels of all folds."""
    graph = noise_table()
    fitted = DecisionTreeClassifier().fit(graph.features, np.array(graph.labels))
    for encoder in (FrozenEstimator(fitted), CalibratedClassifierCV(FrozenEstimator(fitted))):
        with pytest.raises(InputError, match=r"encoder must be fitted anew for every fold, got .*Frozen"):
            with_encoder(graph, encoder, Streams(0))


def test_a_function_that_gives_the_same_module_again_is_refused() -> None:
    """Weights that the first folds trained would know the labels of the last."""
    module, body = network(32, 4), nn.Linear(32, 8)
    for encoder in (lambda d, C: module, lambda d, C: nn.Sequential(body, nn.Linear(8, C))):
        with pytest.raises(InputError, match="encoder must make a new module for every fold, got weights of another"):
            with_encoder(GRAPH, encoder, Streams(0))


def test_labelled_rows_are_out_of_fold_on_other_graphs_too() -> None:
    """Next month's graph has the same people: the mean of all models would know their labels."""
    graph = noise_table()
    labelled = np.concatenate([graph.split.train, graph.split.val])
    found, fitted = with_encoder(graph, KNeighborsClassifier(1), Streams(0))
    again = fitted.probabilities(graph.features)
    assert np.array_equal(again[labelled], found.prior[labelled])
    assert np.allclose(again, found.prior)
    order = np.random.default_rng(1).permutation(600)
    assert np.allclose(fitted.probabilities(graph.features[order]), found.prior[order])


# -- saved encoders --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prior of another graph of the same kind."""
    place = tmp_path_factory.mktemp("encoder") / "run"
    cb.Model("mlp", cb.Budget(4)).fit(cb.datasets.load("csbm:nodes=300,signal=2", seed=1)).save(place)
    return place


def test_a_saved_encoder_serves_rows_that_it_has_not_seen(folder: Path) -> None:
    model = cb.Model("mlp", cb.Budget(4), encoder=folder).fit(GRAPH)
    own = cb.load(folder).release(GRAPH).probabilities
    assert np.allclose(model.predict_proba(), own)
    assert "given prior" in {a.name.value for a in model.certificate.assumptions}


def test_a_saved_encoder_is_refused_where_it_was_fitted_on_the_rows(folder: Path) -> None:
    seen = cb.datasets.load("csbm:nodes=300,signal=2", seed=1)
    for graph in (seen, seen.random_split(7), seen.renamed("copy").without_edge(*seen.edge_index[:, 0])):
        with pytest.raises(InputError, match="must not have been fitted on labelled rows of this graph, got "):
            cb.Votes(cb.Budget(4), encoder=str(folder)).fit(graph)


def test_a_saved_encoder_is_refused_for_another_graph_with_rows_that_it_was_fitted_on(folder: Path) -> None:
    seen = cb.datasets.load("csbm:nodes=300,signal=2", seed=1)
    model = cb.Model("mlp", cb.Budget(4), encoder=folder).fit(GRAPH)
    with pytest.raises(InputError, match="must not have been fitted on labelled rows of this graph, got "):
        model.release(seen)


@pytest.mark.usefixtures("quick_encoder")
@pytest.mark.parametrize("name", ["caribou", "lpgnet"])
def test_an_encoder_serves_every_method_that_has_one(name: str) -> None:
    """Beside votes and mlp: its probabilities are what the method starts from, on another graph, too."""
    other = cb.datasets.load("csbm:nodes=90,signal=2", seed=5)
    model = cb.Model(name, cb.Budget(4), encoder=LogisticRegression()).fit(GRAPH)
    assert "encoder.row_length" not in model.state.weights
    assert model.release(other).probabilities.shape == (90, other.num_classes)
    own = cb.Model(name, cb.Budget(4)).fit(GRAPH)
    with pytest.raises(InputError, match="graph must come without class probabilities"):
        own.release(other.with_prior(np.full((90, other.num_classes), 1 / other.num_classes)))
    assert own.release(other).probabilities.shape == (90, other.num_classes), "and without one by its own"
    with pytest.raises(InputError, match="features are private at node level"):
        cb.Model("gap", cb.Budget(4, 1e-5, "node"), encoder=LogisticRegression())


def test_a_module_that_reads_edges_is_refused_with_the_reason() -> None:
    class Convolution(torch.nn.Module):
        def __init__(self, columns: int, classes: int) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(columns, classes)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

    with pytest.raises(InputError, match="whose forward takes x, edge_index: edges are private"):
        cb.Model("mlp", cb.Budget(4), encoder=lambda d, c: Convolution(d, c)).fit(GRAPH)


RNG = np.random.default_rng(0)
POINTS = torch.from_numpy(RNG.standard_normal((700, 3)).astype(np.float32))
SIGNS = (POINTS[:, 0] * POINTS[:, 1] > 0).long().numpy()


def trained(seed: int, weights: np.ndarray | None = None) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2))
    return train_module(module, POINTS.__getitem__, np.arange(500), SIGNS, np.random.default_rng(seed), weights)


def test_it_learns_what_is_not_linear_and_follows_the_seed() -> None:
    first, again = (module_logits(trained(0), POINTS.__getitem__, np.arange(500, 700)) for _ in range(2))
    assert torch.equal(first, again)
    assert (first.argmax(dim=1).numpy() == SIGNS[500:]).mean() > 0.75


def test_class_weights_move_the_decision() -> None:
    shares = [
        float((module_logits(trained(0, w), POINTS.__getitem__, np.arange(700)).argmax(dim=1) == 1).double().mean())
        for w in (np.array([1.0, 0.02]), np.array([0.02, 1.0]))
    ]
    assert shares[0] + 0.2 < shares[1]


def test_steps_follow_the_rows_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_encoder, "EPOCHS", (8, 80))
    assert batches_and_steps(32) == (1, 80)
    assert batches_and_steps(50 * 512) == (50, STEPS)
    assert batches_and_steps(1000 * 512) == (1000, 8 * 1000)
