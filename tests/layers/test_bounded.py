"""The protocol: every layer has its theorem, its record, its place in a release; one from outside works like those inside."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from caribou.engines.rounds import steps_of
from caribou.errors import CertificateError, InputError
from caribou.graph import Graph
from caribou.graph.operator import Operator, normalize_weighted
from caribou.layers import (
    LAYERS,
    AttentionLayer,
    BoundedLayer,
    ContractiveGraphLayer,
    FusedStep,
    GCNLayer,
    SpectralLayer,
    layer_from_record,
    project_rows,
)
from caribou.mechanisms.message_passing import propagate
from caribou.mechanisms.noise_source import NoiseSource
from caribou.model.verify import verify
from caribou.privacy.assumptions import LAYER_ASSUMPTIONS
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import calibrate_propagation
from caribou.privacy.certificate import Certificate
from caribou.privacy.documents import read, write
from caribou.privacy.sensitivity import (
    LAYER_THEOREMS,
    Bounds,
    Sensitivity,
    spectral_sensitivity,
)
from caribou.release import release
from certificate_support import edited
from graph_families import any_graphs
from layer_attacks import proven_mu, star_pair, star_rows

NODES, COLUMNS = 20, 3
RNG = np.random.default_rng(0)
GRAPH = Graph.from_edges(RNG.standard_normal((NODES, COLUMNS)), RNG.integers(0, NODES, (2, 40)))
PUBLIC: dict[str, dict[str, Any]] = {"attention": {"rows": GRAPH.features}, "gcn": {"seed": 3}}
MADE: dict[str, BoundedLayer] = {
    "contractive": ContractiveGraphLayer(0.8, 0.7, 0.3),
    "attention": AttentionLayer(GRAPH.features, sharpness=1.5, contraction=0.8, beta=0.3),
    "spectral": SpectralLayer(theta0=0.25, theta1=-0.5, contraction=0.8, beta=0.3),
    "gcn": GCNLayer(COLUMNS, seed=3, activation="relu", contraction=0.8, beta=0.3),
}


def certified(layer: BoundedLayer) -> Certificate:
    return release(GRAPH, layer, hops=3, budget=Budget(2), bounds=Bounds(5)).certificate


def test_every_layer_has_a_theorem_and_is_tested_here() -> None:
    assert set(LAYERS) == set(LAYER_THEOREMS) == set(MADE)
    assert set(LAYER_ASSUMPTIONS) <= set(LAYERS)


@pytest.mark.parametrize("name", list(MADE))
def test_a_layer_carries_what_its_theorem_needs(name: str) -> None:
    layer, bounds = MADE[name], Bounds(5, nodes=NODES)
    assert isinstance(layer, BoundedLayer)
    s = layer.sensitivity("edge", bounds)
    assert (s.layer, s.unit, s.bounds) == (name, PrivacyUnit.EDGE, bounds)
    assert dict(s.parameters) == layer.parameters_dict()
    assert list(s.parameters) == sorted(s.parameters)
    assert layer.lipschitz <= s.contraction
    assert hash(s) == hash(layer.sensitivity("edge", bounds))
    assert read(Sensitivity, json.loads(json.dumps(write(s))), "sensitivity") == s
    again = layer_from_record(json.loads(json.dumps(layer.record())), **PUBLIC.get(name, {}))
    assert again.record() == layer.record()
    x = torch.from_numpy(RNG.standard_normal((NODES, COLUMNS)))
    operator = layer.operator(GRAPH, bounds)
    assert torch.equal(layer(x, operator, x), again(x, operator, x))
    assert layer(x, operator, x).shape == x.shape


LAYER_OF: dict[str, Callable[[np.ndarray, float, float, float], BoundedLayer]] = {
    "contractive": lambda rows, contraction, share, beta: ContractiveGraphLayer(contraction, abs(share), beta),
    "attention": lambda rows, contraction, share, beta: AttentionLayer(
        rows, sharpness=1e6 * abs(share), contraction=contraction, beta=beta
    ),
    "spectral": lambda rows, contraction, share, beta: SpectralLayer(
        theta0=share, theta1=rows[0, 0] / np.abs(rows).max() * (1 - abs(share)), contraction=contraction, beta=beta
    ),
    "gcn": lambda rows, contraction, share, beta: GCNLayer(
        3, seed=int(1e6 * abs(share)), activation=("relu", "tanh")[share > 0], contraction=contraction, beta=beta
    ),
}


@pytest.mark.parametrize("name", list(MADE))
@settings(deadline=None, max_examples=60)
@given(
    graph=any_graphs(),
    contraction=st.floats(0.05, 1),
    share=st.floats(-1, 1),
    beta=st.floats(0, 5),
    floor=st.integers(0, 12),
    seed=st.integers(0, 2**16),
)
def test_one_step_contracts(
    name: str, graph: Graph, contraction: float, share: float, beta: float, floor: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y, x0, rows = (torch.randn(graph.num_nodes, 3, dtype=torch.float64, generator=generator) for _ in range(4))
    layer = LAYER_OF[name](rows.numpy(), contraction, share, beta)
    operator = layer.operator(graph, Bounds(floor))
    one, other = layer(x, operator, x0), layer(y, operator, x0)
    after = torch.linalg.norm(one - other)
    assert after <= layer.lipschitz * torch.linalg.norm(x - y) * (1 + 1e-12) + 1e-12
    assert torch.linalg.norm(project_rows(one) - project_rows(other)) <= after * (1 + 1e-12) + 1e-12
    assert np.linalg.norm(operator.matrix.to_dense().numpy(), 2) <= 1 + 1e-12


WORLDS: dict[str, tuple[Callable[[int], BoundedLayer], np.ndarray, tuple[int, ...]]] = {
    "contractive": (lambda _: ContractiveGraphLayer(0.9), star_rows(3), (4, 16)),
    "attention": (lambda copies: AttentionLayer(np.zeros((8 * copies, 1)), contraction=0.9), star_rows(3), (4,)),
    "spectral": (lambda _: SpectralLayer(theta0=0.2, theta1=-0.8, contraction=0.9), star_rows(3), (4,)),
    "gcn": (lambda _: GCNLayer(2, activation="identity", contraction=0.9), star_rows(3) @ [[0.6, 0.8]], ()),
    "gcn of tanh": (lambda _: GCNLayer(2, activation="tanh", contraction=0.9), star_rows(3) @ [[0.6, 0.8]], (4,)),
}


@pytest.mark.parametrize("name", WORLDS)
def test_two_worlds_are_as_hard_to_tell_apart_as_claimed(name: str) -> None:
    """`propagate` on the worst pair, rows of opposite sign on the two stars; halved noise is rejected."""
    layer_of, start, depths = WORLDS[name]
    attack = partial(proven_mu, layer_of, star_pair(3), start, Bounds(3))
    for hops in depths:
        assert attack(hops=hops) <= 1.0
    if name != "gcn of tanh":
        assert 0.5 < attack(hops=1) <= 1.0
        assert attack(hops=1, noise_factor=0.5) > 1.0


@pytest.mark.parametrize("name", list(MADE))
def test_propagate_takes_any_layer_and_only_its_own_noise(name: str) -> None:
    layer, bounds = MADE[name], Bounds(5)
    s = layer.sensitivity("edge", bounds)
    start = torch.from_numpy(np.array(GRAPH.features, dtype=np.float64))
    arithmetic = s.arithmetic(nodes=NODES, columns=COLUMNS)
    calibrated = calibrate_propagation(s, hops=2, mu=1.0, arithmetic=arithmetic)
    operator = layer.operator(GRAPH, bounds)
    state = propagate(layer, operator, start, calibrated, NoiseSource.secure())
    assert torch.linalg.vector_norm(state, dim=1).max() <= 1 + 1e-12
    noise = NoiseSource.secure()
    for other in MADE.values():
        if other is not layer:
            with pytest.raises(InputError, match="calibrated must belong to this layer"):
                propagate(other, other.operator(GRAPH, bounds), start, calibrated, noise)
    bare = calibrate_propagation(s, hops=2, mu=1.0)
    with pytest.raises(InputError, match="calibrated must include the arithmetic error of this size"):
        propagate(layer, operator, start, bare, noise)
    assert noise.draws == 0


SAID_OF_INPUTS = {
    "attention": "The rows that give the edge weights are public: they were computed without looking at any edge.",
    "gcn": "The matrix Theta of the layer is public: it was chosen without looking at private data.",
}


@pytest.mark.parametrize(
    ("name", "unit"), [*((name, "edge") for name in MADE), *((n, "node") for n in MADE if n != "attention")]
)
def test_a_release_verifies_and_says_what_is_public(name: str, unit: str) -> None:
    bounds = Bounds(20, 20) if unit == "node" else Bounds(5)
    budget = Budget(2, 1e-5, unit)
    certificate = release(GRAPH, MADE[name], hops=4, budget=budget, bounds=bounds).certificate
    verification = verify(certificate)
    assert verification.passed, [check for check in verification.checks if not check.passed]
    assert certificate.status == "private"
    assert certificate.epsilon_spent <= 2
    text = certificate.to_json()
    assert f'"{GRAPH.num_edges}"' not in text
    assert f" {GRAPH.num_edges}," not in text
    assert "seed" not in text.replace("fixed seed", "")
    assert MADE[name].parameters_dict().items() <= certificate.public_parameters.items()
    assert not {"theta", "rows"} & set(certificate.public_parameters)
    said = [a.statement for a in certificate.assumptions if a.name in LAYER_ASSUMPTIONS.values()]
    assert said == ([SAID_OF_INPUTS[name]] if name in SAID_OF_INPUTS else [])


@pytest.mark.parametrize("name", list(MADE))
def test_what_does_not_fit_a_layer_is_refused(name: str) -> None:
    layer = MADE[name]
    operator, x = layer.operator(GRAPH, Bounds(5)), torch.ones(NODES, COLUMNS)
    for state, x0, field in ((x[:4], x, "x"), (x, None, "x0"), (x, x[:4], "x0"), (x[0], x, "x")):
        with pytest.raises(InputError, match=rf"{field} must have"):
            layer(state, operator, x0)
    if name != "contractive":  # which takes a graph, too
        with pytest.raises(InputError, match="operator must be an Operator"):
            layer(x, GRAPH, x)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="degree_cap must be None at edge level"):
        layer.sensitivity("edge", Bounds(degree_cap=3))
    if name != "attention":  # which has no node level
        with pytest.raises(InputError, match="nodes must be given at node level where there is no degree_cap"):
            layer.sensitivity("node", Bounds(3))


@pytest.mark.parametrize("name", list(MADE))
def test_a_certificate_of_one_layer_is_not_one_of_another(name: str) -> None:
    """Every other field is changed in the tests of verification."""
    certificate = certified(MADE[name])
    assert verify(certificate).passed
    sensitivity = ("mechanisms", 0, "details", "sensitivity")
    for path in ((*sensitivity, "layer"), ("public_parameters", "layer")):
        for other in (*(key for key in MADE if key != name), "unheard of", ["contractive"]):
            with contextlib.suppress(CertificateError):
                forged = edited(json.loads(certificate.to_json()), path, other)
                assert not verify(Certificate.from_dict(forged)).passed, f"{path} = {other!r} was not noticed"


def test_single_storage_is_bounded_for_the_contractive_layer_only() -> None:
    size = {"nodes": NODES, "columns": COLUMNS, "storage": "single"}
    assert MADE["contractive"].sensitivity("edge", Bounds(5)).arithmetic(**size).storage == "single"
    for name in ("attention", "spectral", "gcn"):
        with pytest.raises(InputError, match="storage must be double for the layer"):
            MADE[name].sensitivity("edge", Bounds(5)).arithmetic(**size)
    with pytest.raises(InputError, match="storage must be one of double, single"):
        MADE["gcn"].sensitivity("edge", Bounds(5)).arithmetic(nodes=1, columns=1, storage="half")


def test_the_engines_take_layers_with_a_fused_step_only() -> None:
    numbers = MADE["contractive"].parameters_dict()
    assert ContractiveGraphLayer.fused_step(numbers) == FusedStep(0.8 * 0.7, 0.8 * (1 - 0.7), 0.3)
    for name, layer in MADE.items():
        calibrated = calibrate_propagation(layer.sensitivity("edge", Bounds(5)), hops=2, mu=1.0)
        if name == "contractive":
            assert [step.start_weight for step in steps_of(calibrated)] == [0.3, 0.3]
            continue
        with pytest.raises(InputError, match=rf"layer must offer a fused step .*got '{name}'"):
            steps_of(calibrated)


def test_unknown_layers_and_things_that_are_no_layer_are_refused() -> None:
    with pytest.raises(InputError, match="layer must be one of contractive, attention, spectral, gcn, got 'mine'"):
        layer_from_record({"layer": "mine", "parameters": {}})
    with pytest.raises(InputError, match=r"layer must be a BoundedLayer, got Linear"):
        release(GRAPH, torch.nn.Linear(3, 3), hops=1, budget=Budget(1), bounds=Bounds(5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (ContractiveGraphLayer, {"contraction": 1.2}),
        (ContractiveGraphLayer, {"contraction": 0}),
        (ContractiveGraphLayer, {"alpha1": -0.1}),
        (ContractiveGraphLayer, {"beta": -1}),
        (ContractiveGraphLayer, {"beta": np.nan}),
        (SpectralLayer, {"theta0": np.nan}),
        (SpectralLayer, {"theta1": "a"}),
        (SpectralLayer, {"contraction": 1.1}),
        (SpectralLayer, {"beta": -1.0}),
        (partial(AttentionLayer, np.zeros((4, 1))), {"sharpness": -1.0}),
        (AttentionLayer, {"rows": np.zeros(4)}),
        (AttentionLayer, {"rows": np.zeros((4, 0))}),
        (AttentionLayer, {"rows": np.zeros((4, 1), dtype=complex)}),
        (AttentionLayer, {"rows": np.full((4, 1), np.nan)}),
        (GCNLayer, {"columns": 0}),
        (partial(GCNLayer, 2), {"activation": "sigmoid"}),
        (partial(GCNLayer, 2), {"theta": np.eye(3)}),
        (partial(GCNLayer, 2), {"theta": np.eye(2) * 1j}),
        (partial(GCNLayer, 2), {"theta": np.full((2, 2), np.inf)}),
        (partial(GCNLayer, 2), {"seed": -1}),
    ],
)
def test_what_a_layer_cannot_be_made_of(made: Callable[..., BoundedLayer], wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        made(**wrong)
    assert caught.value.field == next(iter(wrong))


@pytest.mark.parametrize(("wrong", "used"), [(1.5, 1.0), (-0.1, 0.0), (np.nan, 0.0), (np.inf, 1.0)])
def test_weights_outside_of_the_unit_interval_are_brought_into_it(wrong: float, used: float) -> None:
    """Never refused: an error would tell that a certain pair is an edge."""
    graph = Graph.from_edges(np.zeros((3, 1)), [[0, 1], [1, 2]])
    made, same = (
        normalize_weighted(graph, Bounds(1), lambda u, v, w=w: np.full(len(u), w), weighting="test").matrix.to_dense()
        for w in (wrong, used)
    )
    assert torch.equal(made, same)
    with pytest.raises(InputError, match="weights must be one number per edge"):
        normalize_weighted(graph, Bounds(1), lambda u, v: np.ones(3), weighting="test")


# -- a layer from outside ----------------------------------------------------------------------------------------------


class LazyLayer(BoundedLayer):
    """(X + W X) / 2 times C_L, as somebody else might write it."""

    name: ClassVar[str] = "lazy"

    def __init__(self, contraction: float = 0.9) -> None:
        super().__init__()
        self.contraction, self.beta = contraction, 0.0

    def forward(self, x: torch.Tensor, operator: Operator, x0: torch.Tensor | None = None) -> torch.Tensor:
        return self._finished((x + operator.aggregate(x)) / 2, operator, x0)

    def parameters_dict(self) -> dict[str, Any]:
        return {"contraction": self.contraction}


def lazy_theorem(unit: PrivacyUnit | str, parameters: Any, bounds: Bounds, degree: int | None) -> Sensitivity:
    numbers = {"contraction": parameters["contraction"], "theta0": 0.5, "theta1": 0.5, "beta": 0.0}
    half = spectral_sensitivity(unit, **numbers, bounds=bounds, degree=degree)
    return replace(half, layer="lazy", parameters=tuple(sorted(parameters.items())))


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> LazyLayer:
    monkeypatch.setitem(LAYERS, "lazy", LazyLayer)
    monkeypatch.setitem(LAYER_THEOREMS, "lazy", lazy_theorem)
    return LazyLayer(0.7)


def test_a_layer_from_outside_releases_and_verifies(lazy: LazyLayer) -> None:
    assert isinstance(lazy, BoundedLayer)
    certificate = certified(lazy)
    assert verify(certificate).passed
    assert certificate.public_parameters["layer"] == "lazy"
    assert layer_from_record(lazy.record()).record() == lazy.record()
    spectral = SpectralLayer(theta0=0.5, theta1=0.5, contraction=0.7)
    x = torch.eye(NODES, dtype=torch.float64)
    operator = lazy.operator(GRAPH, Bounds(5))
    assert torch.allclose(lazy(x, operator), spectral(x, operator))


def test_a_layer_that_claims_more_contraction_than_it_has_is_refused(
    lazy: LazyLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LazyLayer, "lipschitz", 0.95)
    with pytest.raises(InputError, match=r"must be at least its Lipschitz constant, 0.95, got 0.7"):
        certified(lazy)


def test_a_certificate_of_a_layer_that_is_not_known_is_refused(lazy: LazyLayer) -> None:
    document = certified(lazy).to_json()
    LAYER_THEOREMS.pop("lazy")
    with pytest.raises(CertificateError, match="lazy"):
        Certificate.from_json(document)
