"""Graphs and settings at the edge of what makes sense: every method works, or says in one line what is wrong."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import caribou as cb
from caribou.errors import CaribouError, InputError
from caribou.graph import Graph, Split
from caribou.methods import FAMILIES, METHODS
from caribou.model.estimator import Model
from caribou.privacy.budget import PrivacyUnit

pytestmark = [pytest.mark.usefixtures("quick_learning"), pytest.mark.filterwarnings("error::RuntimeWarning")]

GRAPH = cb.datasets.load("csbm", nodes=80, classes=3, features=6, average_degree=6.0, signal=2.0, seed=3)
NO_EDGES = np.empty((2, 0), dtype=np.int64)
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in METHODS),
    ("caribou-edp", {"messages": "features"}),
    ("caribou-ndp", {"classifier": "mlp", "base": {"hidden": 4}}),
    ("votes-ndp", {"declared_degree": 20, "votes": {"receivers_per_sender": 2, "share": 0.5}}),
    ("mlp-dp", {"hidden": 4}),
    ("mlp-dp", {"random_features": 5}),
]
KINDS = [(name, settings) for name, settings in VARIANTS if settings or not name.endswith("-inf")]


def model_of(name: str, settings: dict[str, Any], epsilon: float = 4.0) -> Model:
    info = METHODS[name]
    return Model(name, cb.Budget(epsilon if info.private else math.inf, 1e-5, info.unit), **settings)


def changed(**changes: Any) -> Graph:
    return dataclasses.replace(GRAPH, **changes)


def without_class_in_training() -> Graph:
    split = GRAPH.split
    kept = split.train[GRAPH.labels[split.train] != 2]
    return GRAPH.with_split(Split(kept, split.val, split.test))


def one_training_node() -> Graph:
    split = GRAPH.split
    return GRAPH.with_split(Split(split.train[:1], split.val, split.test))


def alone() -> Graph:
    return Graph.from_edges(np.ones((1, 6)), NO_EDGES, labels=[0], split=Split([0], [], []), num_classes=3)


def unknown_labels() -> Graph:
    labels = np.array(GRAPH.labels)
    labels[GRAPH.split.test] = -1
    split = Split(GRAPH.split.train, GRAPH.split.val, [])
    return Graph(GRAPH.features, GRAPH.indptr, GRAPH.indices, labels, split, num_classes=3)


def unused_nodes() -> Graph:
    """Most nodes are in no part of the split."""
    return GRAPH.with_split(Split(GRAPH.split.train[:30], GRAPH.split.val[:5], GRAPH.split.test[:5]))


STRANGE: dict[str, Callable[[], Graph]] = {
    "no edges": lambda: Graph.from_edges(GRAPH.features, NO_EDGES, labels=GRAPH.labels, split=GRAPH.split, classes=3),
    "a class missing from training": without_class_in_training,
    "one class of three": lambda: changed(labels=np.zeros(80, dtype=np.int64)),
    "one node": alone,
    "one training node": one_training_node,
    "no validation nodes": lambda: GRAPH.with_split(Split(GRAPH.split.train, [], GRAPH.split.test)),
    "no test labels": unknown_labels,
    "few nodes in the split": unused_nodes,
    "zero features": lambda: changed(features=np.zeros((80, 6))),
    "sparse features": lambda: changed(features=sp.csr_array((np.array(GRAPH.features) > 1).astype(np.float32))),
    "a complete graph": lambda: Graph.from_edges(
        GRAPH.features, np.stack(np.triu_indices(80, 1)), labels=GRAPH.labels, split=GRAPH.split, classes=3
    ),
    "a missing node": lambda: GRAPH.without_node(int(GRAPH.split.train[0])),
}


USUAL = ("caribou-edp", "caribou-ndp", "votes-edp", "votes-ndp", "gap-edp", "mlp-dp")
"""A method of each kind: on every strange graph. All others, and variants, where they are most likely to break."""


ONE_CLASS = ("one class of three", "one node", "one training node")
"""All training labels are of one class: there is nothing to learn, and where labels are public nothing is charged."""


@pytest.mark.parametrize("strange", STRANGE)
def test_strange_graphs_work(strange: str) -> None:
    graph = STRANGE[strange]()
    for name, settings in KINDS if strange in ("no edges", "one node") else [(name, {}) for name in USUAL]:
        if strange in ONE_CLASS and METHODS[name].unit is PrivacyUnit.EDGE:
            with pytest.raises(InputError) as refused:
                model_of(name, settings).fit(graph)
            assert (refused.value.field, refused.value.rule) == ("split.train", "hold labels of at least 2 classes")
            continue
        model = model_of(name, settings).fit(graph)
        p = model.predict_proba()
        assert p.shape == (graph.num_nodes, graph.num_classes), (name, settings)
        assert np.isfinite(p).all(), (name, settings)
        assert np.allclose(p.sum(axis=1), 1), (name, settings)
        assert model.certificate.is_private is METHODS[name].private
        assert not model.certificate.void_reasons, (name, settings)
        assert math.isnan(model.score("test")) is (strange in ("one node", "no test labels"))


def test_a_graph_that_cannot_teach_anything_is_refused() -> None:
    bare = Graph(GRAPH.features, GRAPH.indptr, GRAPH.indices)
    nobody = GRAPH.with_split(Split([], GRAPH.split.val, GRAPH.split.test))
    for name, settings in VARIANTS:
        with pytest.raises(CaribouError, match="at least 2 classes, got 1"):
            model_of(name, settings).fit(changed(labels=np.zeros(80, dtype=np.int64), num_classes=1))
        for graph in (bare, GRAPH.with_split(None), nobody):
            with pytest.raises(InputError) as refused:
                model_of(name, settings).fit(graph)
            assert (refused.value.field, refused.value.rule) == ("graph", "have labels and a split with training nodes")


def test_nobody_is_left_in_training() -> None:
    """At node level that must not be told from one training node; at edge level labels are public, and it is refused."""
    graph = one_training_node()
    empty = graph.without_node(int(graph.split.train[0]))
    assert empty.split.declared == graph.split.declared
    for name, settings in KINDS:
        if METHODS[name].unit is PrivacyUnit.EDGE:
            with pytest.raises(CaribouError, match="must"):
                model_of(name, settings).fit(empty)
        else:
            assert np.isfinite(model_of(name, settings).fit(empty).predict_proba()).all(), (name, settings)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_a_graph_without_columns_is_one_clear_error_or_works() -> None:
    graph = Graph(np.zeros((80, 0)), GRAPH.indptr, GRAPH.indices, GRAPH.labels, GRAPH.split, num_classes=3)
    for name, settings in KINDS:
        if settings.get("messages") == "features":  # nothing to send
            with pytest.raises(CaribouError, match="must"):
                model_of(name, settings).fit(graph)
        else:
            assert np.isfinite(model_of(name, settings).fit(graph).predict_proba()).all(), (name, settings)


@pytest.mark.parametrize("epsilon", [0.05, 40.0])
def test_budgets_far_from_usual_work(epsilon: float) -> None:
    """No noise is too much, and none too little."""
    for name in [name for name, info in METHODS.items() if info.private]:
        assert np.isfinite(model_of(name, {}, epsilon).fit(GRAPH).predict_proba()).all(), name


def test_a_budget_has_a_positive_epsilon_and_a_delta_below_one() -> None:
    for epsilon in (-1, 0, math.nan, "much", None):
        with pytest.raises(InputError) as refused:
            cb.Budget(epsilon)  # type: ignore[arg-type]
        assert (refused.value.field, refused.value.rule) == ("epsilon", "be a number > 0 (inf means no privacy)")
    for delta in (1, 1.5, 0, -0.1, math.nan, math.inf):
        with pytest.raises(InputError) as refused:
            cb.Budget(1.0, delta)
        assert (refused.value.field, refused.value.rule) == ("delta", "be in the open interval (0, 1)")


def test_the_unit_must_be_that_of_the_method() -> None:
    for name, info in METHODS.items():
        if name in FAMILIES:
            continue  # the budget decides which method it is
        wrong = "node" if info.unit is PrivacyUnit.EDGE else "edge"
        with pytest.raises(InputError) as refused:
            Model(name, cb.Budget(math.inf, 1e-5, wrong))
        assert (refused.value.field, refused.value.value) == ("unit", wrong)
    with pytest.raises(InputError) as refused:
        Model("mlp", 4.0)  # type: ignore[arg-type]
    assert (refused.value.field, refused.value.value) == ("budget", "float")


def test_a_method_without_privacy_takes_no_finite_epsilon() -> None:
    with pytest.raises(InputError, match="epsilon must be inf for caribou-inf, which is not private, got 4"):
        Model("caribou-inf", cb.Budget(4.0))


DEEP = ("caribou-edp", "caribou-inf", "caribou-ndp")
BAD_SETTINGS: list[tuple[str, dict[str, Any], str]] = [
    *((name, {"hops": k}, "hops") for name in DEEP for k in (0, -1, 1.5, "two", True)),
    *((name, {"contraction": c}, "contraction") for name in DEEP for c in (1.2, 0, math.nan, "x")),
    ("caribou-edp", {"alpha1": 1.1}, "alpha1"),
    ("caribou-edp", {"beta": -0.1}, "beta"),
    ("caribou-edp", {"beta": math.inf}, "beta"),
    ("caribou-edp", {"degree_floor": -1}, "degree_floor"),
    ("caribou-edp", {"messages": "secrets"}, "messages"),
    ("caribou-edp", {"messages": ["labels"]}, "messages"),
    ("caribou-edp", {"hidden": 8}, "hidden"),
    ("caribou-edp", {"hidden": [0]}, "hidden"),
    ("caribou-edp", {"classifier_hidden": 0}, "classifier_hidden"),
    ("caribou-ndp", {"degree_cap": 0}, "degree_cap"),
    ("votes-ndp", {"declared_average_degree": -1}, "declared_average_degree"),
    ("caribou-ndp", {"graph_share": 1.0}, "graph_share"),
    ("caribou-ndp", {"graph_share": 0}, "graph_share"),
    ("caribou-ndp", {"graph_share": "half"}, "graph_share"),
    ("caribou-ndp", {"graph_share": 0.96}, "graph_share + classifier_share"),
    ("caribou-ndp", {"classifier": "trained"}, "classifier"),
    ("caribou-ndp", {"classifier_share": 0}, "classifier_share"),
    *((name, {"base": {"depth": 1}}, "base") for name in ("caribou-ndp", "votes-ndp")),
    *((name, {"base": 3}, "base") for name in ("caribou-ndp", "votes-ndp")),
    ("votes-ndp", {"votes": {"receivers_per_sender": 2}}, "votes"),
    ("votes-ndp", {"votes": 3}, "votes"),
    ("votes-ndp", {"votes": {"receivers_per_sender": 0, "share": 0.5}}, "receivers_per_sender"),
    ("votes-ndp", {"votes": {"receivers_per_sender": 2, "share": 1.5}}, "share"),
    ("votes-ndp", {"votes": {"receivers_per_sender": 2, "share": 0.5}}, "declared_degree"),
    ("votes-ndp", {"weight": -1}, "weight"),
    ("mlp-dp", {"clip": 0}, "clip"),
    ("mlp-dp", {"logit_noise": 0}, "logit_noise"),
    ("mlp-dp", {"mean_share": 1}, "mean_share"),
    ("mlp-dp", {"shrinkage": -1}, "shrinkage"),
    ("mlp-dp", {"train_size": 0}, "train_size"),
    ("mlp-dp", {"public_features": 3}, "public_features"),
    ("mlp", {"hidden": "wide"}, "hidden"),
    *((name, {"depth": 1}, "setting") for name in METHODS),
]  # fmt: skip


def test_bad_settings_name_their_field() -> None:
    for name, settings, field in BAD_SETTINGS:
        with pytest.raises(InputError) as refused:
            model_of(name, settings)
        assert refused.value.field == field, (name, settings, str(refused.value))


def test_an_unknown_method_lists_the_known_ones() -> None:
    with pytest.raises(InputError) as refused:
        Model("gcn", cb.Budget(1.0))
    assert (refused.value.field, refused.value.value) == ("method", "gcn")
    assert set(str(refused.value.rule).removeprefix("be one of ").split(", ")) == {*METHODS, *FAMILIES}
