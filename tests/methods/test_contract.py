"""What every method promises, whatever its settings: see `caribou.methods.Method`."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

import caribou as cb
from caribou import methods, randomness
from caribou.errors import CertificateError, InputError
from caribou.graph import Graph
from caribou.machine import memory
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS, Fitted, Method
from caribou.methods.caribou import Caribou, CaribouNdp
from caribou.methods.dpdgc import Dpdgc, DpdgcNdp
from caribou.methods.gap import Gap, GapNdp
from caribou.methods.lapgraph import LapGraph
from caribou.methods.lpgnet import LpgNet
from caribou.methods.mlp import Mlp, MlpDp
from caribou.methods.progap import Progap, ProgapNdp
from caribou.methods.sage import SageEdge, SageNdp
from caribou.methods.votes import VotePlan, VotesEdge, VotesNdp
from caribou.model.verify import verify
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.mechanism_records import groups_of
from caribou.privacy.plan import ReleasePlan
from caribou.randomness import Streams

pytestmark = pytest.mark.usefixtures("quick_learning")


def halves() -> tuple[Graph, Graph]:
    """Two disjoint parts of one generated world: the same classes, other people."""
    whole = cb.datasets.load("csbm", nodes=260, classes=3, features=6, average_degree=14.0, signal=2.0, seed=3)
    parts = []
    for nodes in (np.arange(0, 260, 2), np.arange(1, 260, 2)):
        u, v = whole.edge_index
        inside = np.isin(u, nodes) & np.isin(v, nodes)
        graph = Graph.from_edges(
            whole.features[nodes], np.stack([u[inside], v[inside]]) // 2, labels=whole.labels[nodes], num_classes=3
        )
        parts.append(graph.random_split(1))
    return parts[0], parts[1]


GRAPH, OTHER = halves()
PLAN = {"receivers_per_sender": 2, "share": 0.5}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("caribou-edp", {}),
    ("caribou-edp", {"hops": 3, "alpha1": 0.8}),
    ("caribou-edp", {"messages": "features", "beta": 0.5}),
    ("caribou-edp", {"layer": "attention", "hops": 2}),
    ("caribou-edp", {"layer": "spectral", "layer_settings": {"theta0": 0.5, "theta1": -0.5}}),
    ("caribou-edp", {"layer": "gcn", "messages": "embeddings"}),
    ("caribou-inf", {"hops": 2}),
    ("caribou-ndp", {}),
    ("caribou-ndp", {"graph_share": 0.5, "hops": 3}),
    ("caribou-ndp", {"classifier": "mlp", "classifier_hidden": 8, "classifier_share": 0.5}),
    ("caribou-ndp", {"graph_share": 0.5, "degree_cap": 5, "declared_degree": 3}),
    ("votes-edp", {}),
    ("votes-edp", {"noise": "gaussian"}),
    ("votes-ndp", {}),
    ("votes-ndp", {"declared_degree": 30, "votes": PLAN}),
    ("votes-ndp", {"declared_degree": 30, "votes": {"receivers_per_sender": None, "share": 0.5}}),
    ("votes-ndp", {"declared_degree": 30, "votes": PLAN, "weight": 0.5, "base": {"hidden": 8}}),
    ("mlp-dp", {}),
    ("mlp-dp", {"hidden": 8}),
    ("mlp-dp", {"random_features": 20}),
    ("mlp", {}),
    ("sage-edp", {"epochs": 20, "hidden": 16}),
    ("sage-inf", {"epochs": 20, "hidden": 16, "layers": 1}),
    ("sage-ndp", {"declared_degree": 1}),
    ("lapgraph-edp", {"epochs": 20, "hidden": 16}),
    ("gap-edp", {}),
    ("gap-inf", {}),
    ("gap-ndp", {}),
    ("gap-ndp", {"hops": 2, "degree_cap": 5, "radius": 1.5}),
    ("progap-edp", {}),
    ("progap-inf", {"hops": 1}),
    ("progap-ndp", {}),
    ("progap-ndp", {"hops": 3, "degree_cap": 5, "radius": 1.5}),
    ("lpgnet-edp", {}),
    ("dpdgc-edp", {}),
    ("dpdgc-inf", {}),
    ("dpdgc-ndp", {}),
]
every_case = pytest.mark.parametrize(
    ("name", "settings"), CASES, ids=[f"{n}-{'-'.join(map(str, s.values()))}" for n, s in CASES]
)
every_name = pytest.mark.parametrize("name", list(METHODS))


def test_what_does_not_fit_into_memory_is_refused_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No method starts what it cannot finish; that it cannot is a matter of public sizes."""
    monkeypatch.setattr(memory, "machine_memory", lambda: 2**10)
    for name in METHODS:
        with pytest.raises(InputError, match=r"must fit into memory \(9.54e-07 GiB\), got about .* GiB"):
            methods.fit(create(name, {}), GRAPH, budget_of(name), Streams(0), NoiseSource.seeded(0))


def plan_of(name: str, settings: Mapping[str, Any]) -> ReleasePlan:
    budget = budget_of(name)
    return create(name, settings).plan(GRAPH.sizes(budget.unit), budget)


def test_what_is_data_independent_costs_nothing() -> None:
    for name, info in METHODS.items():
        assert info.data_independent == (epsilon_of(plan_of(name, {}).cost, 1e-5) == 0), name


def create(name: str, settings: Mapping[str, Any]) -> Method:
    return METHODS[name].create(**settings)


def budget_of(name: str, epsilon: float = 4.0) -> Budget:
    return Budget(epsilon if METHODS[name].private else math.inf, 1e-5, METHODS[name].unit)


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A fit, every draw of privacy noise by kind, and the public streams that were opened."""

    fitted: Fitted
    drawn: tuple[tuple[str, bytes], ...]
    streams: frozenset[tuple[int, str]]


def fit(name: str, settings: Mapping[str, Any], seed: int = 1, noise: int | None = 1) -> Fitted:
    return recorded_fit(name, settings, seed, noise).fitted


def recorded_fit(name: str, settings: Mapping[str, Any], seed: int = 1, noise: int | None = 1) -> Recorded:
    """noise = None: from the operating system."""
    return _recorded_fit(name, json.dumps(settings), seed, noise)


@functools.cache
def _recorded_fit(name: str, settings: str, seed: int, noise: int | None) -> Recorded:
    source = NoiseSource.secure() if noise is None else NoiseSource.seeded(noise)
    drawn: list[tuple[str, bytes]] = []
    streams: set[tuple[int, str]] = set()
    before = global_generators()
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("gaussian", "laplace", "discrete_laplace", "choice", "bernoulli"):
            patch.setattr(NoiseSource, kind, noting(kind, getattr(NoiseSource, kind), drawn))
        seed_of = randomness.stream_seed
        patch.setattr(randomness, "stream_seed", lambda s, purpose: streams.add((s, purpose)) or seed_of(s, purpose))
        fitted = methods.fit(create(name, json.loads(settings)), GRAPH, budget_of(name), Streams(seed), source)
    assert global_generators() == before, "a fit must not draw from, or set, the generators of the process"
    return Recorded(fitted, tuple(drawn), frozenset(streams))


def noting(kind: str, draw: Any, drawn: list[tuple[str, bytes]]) -> Any:
    def noted(self: NoiseSource, *args: Any, **kwargs: Any) -> np.ndarray:
        z = draw(self, *args, **kwargs)
        drawn.append((kind, np.asarray(z).tobytes()))
        return z

    return noted


def global_generators() -> tuple[bytes, str]:
    return torch.random.get_rng_state().numpy().tobytes(), str(np.random.get_state())  # noqa: NPY002


def arrays(fitted: Fitted) -> dict[str, np.ndarray]:
    return {"own": fitted.probabilities, **fitted.released, **{f"weights.{k}": v for k, v in fitted.weights.items()}}


def same(one: Mapping[str, np.ndarray], two: Mapping[str, np.ndarray]) -> bool:
    return one.keys() == two.keys() and all(np.array_equal(one[key], two[key]) for key in one)


def content(graph: Graph) -> list[bytes]:
    split = graph.split
    parts = (graph.features, graph.indptr, graph.indices, graph.labels, split.train, split.val, split.test)
    return [part.tobytes() for part in parts]


def test_every_method_has_a_case() -> None:
    assert {name for name, _ in CASES} == set(METHODS)


@every_case
def test_one_row_of_probabilities_per_node_that_follows_from_what_was_kept(name: str, settings: dict[str, Any]) -> None:
    before = content(GRAPH)
    fitted, method = fit(name, settings), create(name, settings)
    p = fitted.probabilities
    assert p.shape == (GRAPH.num_nodes, GRAPH.num_classes)
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    assert np.allclose(p.sum(axis=1), 1)
    assert np.mean(p.argmax(axis=1) == GRAPH.labels) > 0.5
    assert np.allclose(method.predict(fitted.weights, fitted.released, GRAPH), p, rtol=0, atol=1e-12)
    assert content(GRAPH) == before
    assert create(name, json.loads(json.dumps(method.settings()))) == method


@every_case
def test_the_seeds_decide_everything_and_the_noise_matters(name: str, settings: dict[str, Any]) -> None:
    first = fit(name, settings)
    again = methods.fit(create(name, settings), GRAPH, budget_of(name), Streams(1), NoiseSource.seeded(1))
    assert same(arrays(first), arrays(again))
    draws_noise = METHODS[name].private and name != "mlp"
    assert same(arrays(first), arrays(fit(name, settings, noise=2))) is not draws_noise


@every_case
def test_public_seed_and_noise_are_unrelated(name: str, settings: dict[str, Any]) -> None:
    first, other_seed, other_noise = (
        recorded_fit(name, settings, seed, noise) for seed, noise in ((1, 1), (2, 1), (1, 2))
    )
    # a question to fewer nodes is another draw: how many are asked may depend on the public seed
    pairs = [(a, b) for a, b in zip(first.drawn, other_seed.drawn, strict=False) if len(a[1]) == len(b[1])]
    assert all(a == b for a, b in pairs)
    if METHODS[name].private and name != "mlp":
        assert len(pairs) > 0
        assert first.drawn[0] != other_noise.drawn[0]
    else:
        assert not first.drawn
    assert first.streams == other_noise.streams
    assert {seed for seed, _ in first.streams} <= {1}
    assert {seed for seed, _ in other_seed.streams} <= {2}


def covers(cost: Any, certificate: Any, budget: Budget) -> None:
    for delta in (1e-7, 1e-5, 1e-3):
        spent, charged = epsilon_of(certificate.cost, delta), epsilon_of(cost, delta)
        assert spent <= charged + 1e-3 * max(1.0, charged if math.isfinite(charged) else 1.0)
    for events in groups_of(certificate.mechanisms).values():
        assert epsilon_of(events, budget.delta) <= budget.epsilon * (1 + 1e-9)
        assert epsilon_of(events, budget.delta) <= certificate.epsilon_spent * (1 + 1e-3)


SELECTING = [
    # Groups of nodes whose costs are incomparable: pure epsilon for some, Gaussians for others.
    (name, settings)
    for name, settings in CASES
    if ("votes" in settings and name == "votes-ndp")
    or name == "sage-ndp"
    or (name, settings) == ("caribou-ndp", {"graph_share": 0.5, "hops": 3})
]


@pytest.mark.parametrize(("name", "settings"), SELECTING, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_the_cost_of_two_fits_covers_every_group(name: str, settings: dict[str, Any]) -> None:
    cost = plan_of(name, settings).cost
    for events in groups_of(fit(name, settings, noise=None).certificate.mechanisms).values():
        assert epsilon_of(events * 2, 1e-5) <= epsilon_of([*cost, *cost], 1e-5) * (1 + 1e-3)


@every_case
def test_the_cost_depends_on_public_numbers_only_and_covers_the_certificate(
    name: str, settings: dict[str, Any]
) -> None:
    method, budget = create(name, settings), budget_of(name)
    cost, certificate = plan_of(name, settings).cost, fit(name, settings, noise=None).certificate
    assert certificate.cost == cost
    covers(cost, certificate, budget)
    missing = next(v for v in range(1, GRAPH.num_nodes) if not GRAPH.has_edge(0, v))
    graphs = [GRAPH, GRAPH.with_edge(0, missing)]
    if budget.unit is PrivacyUnit.NODE:
        graphs.append(dataclasses.replace(GRAPH, features=GRAPH.features[::-1], labels=np.array(GRAPH.labels[::-1])))
    sizes = {graph.sizes(budget.unit) for graph in graphs}
    assert len(sizes) == 1
    assert method.plan(*sizes, budget) == method.plan(*sizes, budget)


@every_case
def test_certificates_verify_or_say_what_they_are_not(name: str, settings: dict[str, Any]) -> None:
    secret = fit(name, settings, noise=None).certificate
    if not METHODS[name].private:
        assert secret.status == "no privacy"
        assert not verify(secret).passed
        return
    assert secret.status == ("private" if secret.scope.is_every_graph else "private by degree")
    if METHODS[name].unit is PrivacyUnit.EDGE or name == "mlp-dp":
        assert secret.status == "private"
    if name in ("gap-ndp", "progap-ndp", "dpdgc-ndp", "sage-ndp"):
        assert secret.status == "private by degree"
    assert verify(secret).passed
    assert secret.epsilon_spent <= 4.0
    assert (secret.epsilon_spent > 3.9) is not METHODS[name].data_independent, "nothing of the budget is wasted"
    seeded = fit(name, settings).certificate
    assert seeded.status == "void"
    assert not verify(seeded).passed
    infinite = Budget(math.inf, 1e-5, METHODS[name].unit)
    open_book = methods.fit(create(name, settings), GRAPH, infinite, Streams(1), NoiseSource.secure())
    assert open_book.certificate.status == "no privacy"
    assert np.mean(open_book.probabilities.argmax(axis=1) == GRAPH.labels) > 0.6


FIGURES = (
    "noise_std",
    "noise_multiplier",
    "noise_epsilon",
    "epsilon",
    "sensitivity",
    "hops",
    "steps",
    "stages",
    "clip",
)


@every_case
def test_a_certificate_with_another_figure_does_not_verify(name: str, settings: dict[str, Any]) -> None:
    """Half the noise, more hops, a smaller sensitivity: each figure follows from the others and from the plan."""
    document = fit(name, settings, noise=None).certificate.to_dict()
    if not METHODS[name].private or METHODS[name].data_independent:
        return
    changed = 0
    for record in document["mechanisms"]:
        details = record["details"]
        for figure in set(FIGURES) & set(details):
            kept = details[figure]
            if isinstance(kept, dict):
                details[figure] = kept | {"value": 0.5 * kept["value"]}
            elif isinstance(kept, int | float) and kept not in (0, math.inf):
                details[figure] = kept + 1 if isinstance(kept, int) else 0.5 * kept
            else:
                continue
            assert not believed(document), (record["name"], figure)
            details[figure], changed = kept, changed + 1
    assert changed > 0
    assert believed(document)


def believed(document: Mapping[str, Any]) -> bool:
    """Whether a certificate verifies; figures that make no mechanism at all are refused where it is read."""
    try:
        return verify(Certificate.from_dict(document)).passed
    except CertificateError:
        return False


@every_name
def test_labels_of_test_nodes_and_the_storage_of_features_change_nothing(name: str) -> None:
    labels = np.array(GRAPH.labels)
    labels[GRAPH.split.test] = labels[GRAPH.split.test][::-1]
    rounded = np.round(np.asarray(GRAPH.features), 2)
    found = []
    for graph in (
        dataclasses.replace(GRAPH, features=sp.csr_array(rounded)),
        dataclasses.replace(GRAPH, features=sp.csr_array(rounded), labels=labels),
    ):
        found.append(methods.fit(create(name, {}), graph, budget_of(name), Streams(1), NoiseSource.seeded(1)))
    assert np.array_equal(found[0].probabilities, found[1].probabilities)
    assert np.allclose(found[0].probabilities.sum(axis=1), 1)


def test_graphs_units_and_budgets_that_a_method_cannot_use_are_refused() -> None:
    for name, info in METHODS.items():
        method = create(name, {})
        for split in (None, cb.Split([], GRAPH.split.val, GRAPH.split.test)):
            with pytest.raises(InputError, match="labels and a split"):
                methods.fit(method, GRAPH.with_split(split), budget_of(name), Streams(0), NoiseSource.secure())
        wrong = Budget(4.0, 1e-5, next(unit for unit in PrivacyUnit if unit is not info.unit))
        words = rf"unit must be {info.unit.value} for {name.removesuffix('-inf')}"
        with pytest.raises(InputError, match=words):
            methods.fit(method, GRAPH, wrong, Streams(1), NoiseSource.secure())
        with pytest.raises(InputError, match=words):
            methods.predict_graph(method, fit(name, {}).weights, OTHER, wrong, Streams(1), NoiseSource.secure())
        if not info.private:
            with pytest.raises(InputError, match=f"epsilon must be inf for {name}"):
                info.check(name, Budget(1.0))


@every_case
def test_another_graph_is_predicted_within_its_own_cost(name: str, settings: dict[str, Any]) -> None:
    method, fitted, budget = create(name, settings), fit(name, settings), budget_of(name)
    if METHODS[name].transductive:
        with pytest.raises(InputError, match="transductive"):
            methods.predict_graph(method, fitted.weights, OTHER, budget, Streams(1), NoiseSource.secure())
        with pytest.raises(InputError, match="transductive"):
            method.plan_graph(OTHER.sizes(budget.unit), budget, fitted.weights)
        return
    before = content(OTHER)
    result = methods.predict_graph(method, fitted.weights, OTHER, budget, Streams(1), NoiseSource.secure())
    assert result.probabilities.shape == (OTHER.num_nodes, OTHER.num_classes)
    assert np.allclose(result.probabilities.sum(axis=1), 1)
    assert np.mean(result.probabilities.argmax(axis=1) == OTHER.labels) > 0.45
    assert content(OTHER) == before
    plan = method.plan_graph(OTHER.sizes(budget.unit), budget, fitted.weights)
    covers(plan.cost, result.certificate, budget)
    assert verify(result.certificate).passed is METHODS[name].private
    assert (epsilon_of(plan.cost, budget.delta) == 0) is (result.certificate.epsilon_spent == 0)


# -- settings ------------------------------------------------------------------------------------------------------


CLASSES = (Caribou, CaribouNdp, VotesEdge, VotesNdp, VotePlan, MlpDp, Mlp)
CLASSES += (SageEdge, SageNdp, LapGraph, Gap, GapNdp, Progap, ProgapNdp, LpgNet, Dpdgc, DpdgcNdp)
"""All records of settings; `ALTERNATIVES` must have every field of theirs."""
DEEP, GRAPHIC = {"hops": 2}, {"graph_share": 0.5}
BRIEF = {"epochs": 10}
SAGE: dict[str, tuple[dict[str, Any], Any]] = {
    "hidden": (BRIEF, 8),
    "layers": (BRIEF, 1),
    "aggregator": (BRIEF, "sum"),
    "dropout": (BRIEF, 0.2),
    "epochs": (BRIEF, 5),
    "count_share": (BRIEF, 0.4),
    "max_edges": (BRIEF, 20),
}
OBJECTIVE: dict[str, tuple[dict[str, Any], Any]] = {"metric": ({}, "ap"), "class_weight": ({}, "balanced")}
ALTERNATIVES: dict[type, dict[str, tuple[dict[str, Any], Any]]] = {
    # field: (what else is set, another value)
    Caribou: {
        "hops": ({}, 3),
        "contraction": (DEEP, 0.5),
        "alpha1": (DEEP, 0.5),
        "beta": (DEEP, 0.5),
        "degree_floor": (DEEP, 9),
        "messages": ({}, "features"),
        "hidden": ({}, (8,)),
        "classifier_hidden": ({}, 8),
        "layer": (DEEP, "spectral"),
        "layer_settings": (DEEP | {"layer": "spectral"}, {"theta0": 0.2, "theta1": -0.7}),
        **OBJECTIVE,
        "metric": ({"classifier_hidden": 1}, "ap"),
    },
    CaribouNdp: {
        "hops": (GRAPHIC, 3),
        "contraction": (GRAPHIC | DEEP, 0.5),
        "alpha1": (GRAPHIC, 0.5),
        "beta": (GRAPHIC | DEEP, 0.5),
        "degree_floor": (GRAPHIC, 9),
        "degree_cap": (GRAPHIC, 5),
        "declared_degree": (GRAPHIC | {"degree_cap": 5}, 3),
        "graph_share": ({}, 0.5),
        "classifier": (GRAPHIC, "mlp"),
        "classifier_share": (GRAPHIC, 0.3),
        "classifier_hidden": (GRAPHIC | {"classifier": "mlp"}, 8),
        "base": ({}, MlpDp(clip=0.1)),
    },
    VotesEdge: {
        "voter_confidence": ({}, 0.6),
        "round_confidence": ({}, 0.99),
        "max_rounds": ({}, 1),
        "calibration": ({}, 0.2),
        "noise": ({}, "gaussian"),
        "alphabet": ({}, "code"),
        "pilot": ({}, 0.4),
        "codes": ({"alphabet": "code"}, 3),
        **OBJECTIVE,
        "metric": ({"calibration": 0.3}, "ap"),
    },
    VotesNdp: {
        "declared_degree": ({"declared_average_degree": 60}, 60),
        "declared_average_degree": ({"declared_degree": 60}, 60),
        "votes": ({"declared_degree": 20}, VotePlan(1, 0.9)),
        "weight": ({"declared_degree": 20, "votes": PLAN}, 0.123),
        "base": ({}, MlpDp(clip=0.1)),
    },
    VotePlan: {
        "receivers_per_sender": ({"share": 0.5}, 3),
        "share": ({"receivers_per_sender": 2}, 0.9),
    },
    MlpDp: {
        "logit_noise": ({}, 0.9),
        "clip": ({}, 0.1),
        "mean_share": ({}, 0.6),
        "shrinkage": ({}, 0.0),
        "train_size": ({}, 300),
        "random_features": ({"random_features": 0}, 20),
        "hidden": ({}, 8),
        "public_features": ({}, "FILE"),
    },
    Mlp: {"hidden": ({}, (8,)), **OBJECTIVE, "metric": ({"hidden": (8,)}, "ap")},
    SageEdge: {**SAGE, **OBJECTIVE, "metric": ({"hidden": 4, "dropout": 0.8}, "ap")},
    LapGraph: {**SAGE, **OBJECTIVE, "metric": ({"hidden": 4, "dropout": 0.8}, "ap")},
    SageNdp: {
        "declared_degree": ({}, 7),
        "degree_cap": ({}, 4),
        "message_scale": ({}, 7),
        "own_share": ({}, 0.5),
        "mean_share": ({}, 0.6),
        "sums_share": ({}, 0.4),
        "radius": ({}, 0.3),
        "clip": ({}, 0.1),
        "shrinkage": ({}, 2.0),
        "train_size": ({}, 300),
    },
    Gap: {
        "hops": ({}, 2),
        "hidden": ({}, (8,)),
        "classifier_hidden": ({}, 8),
        **OBJECTIVE,
        "metric": ({"classifier_hidden": 1}, "ap"),
    },
    GapNdp: {
        "hops": ({}, 2),
        "declared_degree": ({}, 7),
        "degree_cap": ({}, 5),
        "radius": ({}, 2.0),
        "sums_share": ({}, 0.4),
        "classifier_share": ({}, 0.4),
        "base": ({}, MlpDp(clip=0.1)),
    },
    Progap: {"hops": ({}, 3), "hidden": ({}, (8,)), **OBJECTIVE},
    ProgapNdp: {
        "hops": ({}, 3),
        "declared_degree": ({}, 7),
        "degree_cap": ({}, 5),
        "radius": ({}, 2.0),
        "sums_share": ({}, 0.4),
        "classifier_share": ({}, 0.4),
        "base": ({}, MlpDp(clip=0.1)),
    },
    LpgNet: {"stages": ({}, 1), "hidden": ({"stages": 1}, (8,)), "classifier_hidden": ({"stages": 1}, 8), **OBJECTIVE},
    Dpdgc: {
        "training_share": ({}, 0.2),
        "structure_share": ({}, 0.8),
        "hidden": ({}, (8,)),
        "classifier_hidden": ({}, 8),
        **OBJECTIVE,
    },
    DpdgcNdp: {
        "declared_degree": ({}, 7),
        "degree_cap": ({}, 5),
        "radius": ({}, 2.0),
        "training_share": ({}, 0.3),
        "sums_share": ({}, 0.3),
        "classifier_share": ({}, 0.3),
        "base": ({}, MlpDp(clip=0.1)),
    },
}


def test_every_setting_is_listed() -> None:
    """A new option needs a line in ALTERNATIVES, and with it a proof that it does something."""
    homes = {type(METHODS[name].create()) for name in METHODS}
    nested = {type(getattr(cls(), f.name)) for cls in homes for f in dataclasses.fields(cls)}
    assert homes | {cls for cls in nested if dataclasses.is_dataclass(cls)} | {VotePlan} == set(CLASSES)
    for cls in CLASSES:
        assert ALTERNATIVES[cls].keys() == {f.name for f in dataclasses.fields(cls)}, cls


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_setting_has_an_effect(cls: type, tmp_path: Path, kept_encoder: None) -> None:
    without_effect = []
    for field, (others, value) in ALTERNATIVES[cls].items():
        if value == "FILE":
            value = tmp_path / "public.npy"
            np.save(value, OTHER.features)
        default = {"receivers_per_sender": 2, "share": 0.5}[field] if cls is VotePlan else None
        outcomes = [_outcome(cls, json.dumps(others), field, setting) for setting in (default, value)]
        without_effect += [] if clearly_differ(*outcomes) else [field]
    assert without_effect == []


def clearly_differ(one: Mapping[str, np.ndarray], two: Mapping[str, np.ndarray]) -> bool:
    """In predictions or releases, by more than rounding."""
    if one.keys() != two.keys() or any(one[key].shape != two[key].shape for key in one):
        return True
    return not all(np.allclose(one[key], two[key], rtol=0, atol=1e-6) for key in one)


@functools.cache
def _usual(cls: type, settings: str) -> dict[str, np.ndarray]:
    return _outputs(cls(**json.loads(settings)))


def _outcome(cls: type, others: str, field: str, value: Any) -> dict[str, np.ndarray]:
    """Predictions and releases with one setting at a value; None = the usual one."""
    if cls is VotePlan:
        return _outputs(VotesNdp(declared_degree=20, votes=VotePlan(**json.loads(others), **{field: value})))
    if value is None:
        return _usual(cls, others)
    return _outputs(cls(**(json.loads(others) | {field: value})))


def _outputs(method: Method) -> dict[str, np.ndarray]:
    edge = Caribou | VotesEdge | Mlp | SageEdge | Gap | Progap | LpgNet | Dpdgc
    unit = PrivacyUnit.EDGE if isinstance(method, edge) else PrivacyUnit.NODE
    fitted = methods.fit(method, GRAPH, Budget(8.0, 1e-5, unit), Streams(1), NoiseSource.seeded(1))
    return {"own": fitted.probabilities, **fitted.released}


REFUSED: dict[type, tuple[dict[str, Any], ...]] = {
    Caribou: (
        {"hops": 0},
        {"contraction": 1.5},
        {"degree_floor": -1},
        {"messages": "degrees"},
        {"layer": "dense"},
        {"alpha1": 0.5, "layer": "attention"},
        {"layer_settings": {"theta0": 1}},
        {"layer_settings": {"x": 1}, "layer": "spectral"},
    ),
    CaribouNdp: (
        {"hops": 0},
        {"degree_cap": 0},
        {"contraction": 0},
        {"graph_share": 0.0},
        {"graph_share": 0.96, "classifier_share": 0.05},
        {"classifier": "tree"},
    ),
    Mlp: ({"hidden": 64},),
    MlpDp: ({"hidden": -1}, {"random_features": -1}, {"random_features": 1.5}, {"random_features": 5, "hidden": 4}),
    VotesNdp: ({"declared_degree": 0}, {"declared_average_degree": -1}, {"weight": -1.0}),
    VotesEdge: (
        {"voter_confidence": 1.0},
        {"round_confidence": 0},
        {"max_rounds": 0},
        {"calibration": 2},
        {"noise": "none"},
        {"alphabet": "word"},
        {"pilot": 0.6},
        {"pilot": 0.0},
        {"codes": 1},
    ),
    SageEdge: ({"layers": 0}, {"aggregator": "max"}, {"count_share": 1.0}, {"max_edges": -1}),
    SageNdp: ({"own_share": 0.1}, {"degree_cap": 0}, {"message_scale": 0}, {"sums_share": 0.99}, {"radius": 0.0}),
    Gap: ({"hops": 0}, {"hidden": 3}, {"classifier_hidden": 0}),
    Progap: ({"hops": 0}, {"hidden": 3}),
    LpgNet: ({"stages": 0}, {"stages": 1.5}, {"hidden": 3}, {"classifier_hidden": 0}),
    Dpdgc: ({"training_share": 1.0}, {"structure_share": 0}, {"hidden": 3}, {"classifier_hidden": 0}),
    **dict.fromkeys(
        (GapNdp, ProgapNdp),
        (
            {"hops": 0},
            {"degree_cap": 0},
            {"declared_degree": 0},
            {"radius": 0.5},
            {"sums_share": 1.0},
            {"classifier_share": 0.95},
            {"base": {"clips": 1}},
        ),
    ),
    DpdgcNdp: (
        {"degree_cap": 0},
        {"declared_degree": 0},
        {"radius": 0.5},
        {"sums_share": 0.95},
        {"training_share": 0},
    ),
}


@pytest.mark.parametrize("cls", REFUSED, ids=lambda cls: cls.__name__)
def test_bad_settings_are_refused_by_name(cls: type) -> None:
    for bad in REFUSED[cls]:
        with pytest.raises(InputError, match=next(iter(bad))):
            cls(**bad)


# -- one person's data, and nothing handed out ------------------------------------------------------------------------


NODE_CASES = [(n, s) for n, s in CASES if METHODS[n].unit is PrivacyUnit.NODE]
every_node_case = pytest.mark.parametrize(
    ("name", "settings"), NODE_CASES, ids=[f"{n}-{'-'.join(map(str, s.values()))}" for n, s in NODE_CASES]
)


@functools.cache
def people() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A node table and an edge table of a few people; in each part there is one without features, labelled."""
    rng = np.random.default_rng(5)
    n = 36
    labels = np.arange(n) % 3
    x = rng.standard_normal((n, 4)) + 2 * np.eye(4)[labels]
    x[[7, 25, 31]] = 0
    nodes = pd.DataFrame({"id": np.arange(n), **{f"x{k}": x[:, k] for k in range(4)}})
    nodes["label"] = np.array(["a", "b", "c"])[labels]
    nodes["split"] = ["train"] * 20 + ["val"] * 8 + ["test"] * 8
    pairs = np.array(
        [(u, v) for u in range(n) for v in range(u) if rng.random() < (0.3 if labels[u] == labels[v] else 0.05)]
    )
    return nodes, pd.DataFrame(pairs, columns=["from", "to"])


DECLARED = cb.ColumnRules(ranges={"*": (-4, 4)}, fills={"*": "indicator"})
"""Node level learns nothing from a table. A person who is deleted is no gap that an indicator would show."""


def graph_of_files(folder: Path, nodes: pd.DataFrame, edges: pd.DataFrame) -> Graph:
    folder.mkdir()
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    files = (folder / "edges.csv", folder / "nodes.csv")
    return cb.read_graph(*files, classes=["a", "b", "c"], name="people", rules=DECLARED)


def handed_out(name: str, settings: Mapping[str, Any], graph: Graph) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """All arrays of a fit, and the certificate but for its id and date; predictions are each person's own."""
    fitted = methods.fit(create(name, settings), graph, budget_of(name, 8.0), Streams(0), NoiseSource.seeded(4))
    certificate = {k: v for k, v in fitted.certificate.to_dict().items() if k not in ("certificate_id", "created")}
    return {**fitted.released, **{f"weight {k}": v for k, v in fitted.weights.items()}}, certificate


@every_node_case
def test_a_person_deleted_from_the_files_is_the_neighbour_of_the_theorem(
    name: str, settings: Mapping[str, Any], tmp_path: Path
) -> None:
    """Bit by bit: id and part of the split stay, features, label and edges are gone from the files, or from the graph."""
    nodes, edges = people()
    graph = graph_of_files(tmp_path / "all", nodes, edges)
    for person in (3, 22, 30):
        blank, others = nodes.copy(), edges[(edges["from"] != person) & (edges["to"] != person)]
        blank["label"] = blank["label"].where(blank["id"] != person)
        for column in ("x0", "x1", "x2", "x3"):
            blank[column] = blank[column].where(blank["id"] != person)
        files = graph_of_files(tmp_path / str(person), blank, others)
        theorem, deleted = (handed_out(name, settings, world) for world in (graph.without_node(person), files))
        assert theorem[1] == deleted[1]
        assert theorem[0].keys() == deleted[0].keys()
        for key, value in theorem[0].items():
            assert np.array_equal(value, deleted[0][key]), key


@every_node_case
def test_one_label_changes_no_shape_and_no_name(name: str, settings: Mapping[str, Any], tmp_path: Path) -> None:
    """A test node of a class that nobody declared, or that nobody else has, is in no file."""
    nodes, edges = people()
    shapes = []
    for number, label in enumerate(["a", "zebra", None, "1.5"]):
        changed = nodes.copy()
        changed.loc[changed["id"] == 33, "label"] = label
        graph = graph_of_files(tmp_path / str(number), changed, edges)
        arrays, certificate = handed_out(name, settings, graph)
        shapes.append(({k: v.shape for k, v in arrays.items()}, certificate["public_parameters"], graph.class_names))
    assert all(found == shapes[0] for found in shapes)


@pytest.mark.parametrize("name", [n for n, info in METHODS.items() if info.unit is PrivacyUnit.NODE])
def test_classes_that_were_read_from_labels_are_refused(name: str) -> None:
    measured, other = (dataclasses.replace(g, num_classes=0, classes_declared=None) for g in (GRAPH, OTHER))
    model = cb.Model(name, budget_of(name))
    for call in (model.plan, model.fit):
        with pytest.raises(InputError, match=r"classes must be declared at node level.*--classes a,b,c"):
            call(measured)
    if not METHODS[name].transductive:
        model.fit(GRAPH)
        with pytest.raises(InputError, match="classes must be declared at node level"):
            model.release(other)
