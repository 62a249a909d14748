"""A bounded layer of one's own: the one in examples/, its bound under attack, its release, and what is refused."""

from __future__ import annotations

import json
import math
import runpy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import caribou as cb
from caribou.errors import CertificateError, InputError
from caribou.graph.operator import normalize
from caribou.layers import LAYERS, ContractiveGraphLayer, OwnLayer, SpectralLayer
from caribou.methods.catalogue import OWN_METHODS
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.calibration import calibrate_propagation
from caribou.privacy.certificate import Certificate
from caribou.privacy.mechanism_records import message_passing_record
from cli_support import run
from layer_attacks import ascend, edge_pairs

FILE = Path(__file__).parents[2] / "examples" / "own_layer.py"


@pytest.fixture
def tanh() -> Iterator[OwnLayer]:
    yield runpy.run_path(str(FILE))["TanhLayer"](contraction=0.7, beta=0.3)
    LAYERS.pop("tanh")


def test_its_bound_is_never_exceeded_and_nearly_reached(tanh: OwnLayer) -> None:
    bounds, best = cb.Bounds(degree_floor=1), 0.0
    bound = tanh.sensitivity("edge", bounds).value
    for graph, other in edge_pairs(largest=8)[::7]:
        one, two = (normalize(g, bounds).matrix.to_dense() for g in (graph, other))
        moved = ascend(one, two, lambda rows: tanh.contraction * rows.tanh(), columns=1, starts=6)
        assert moved <= bound * (1 + 1e-9)
        best = max(best, moved)
    assert best > 0.7 * bound


def test_a_certificate_says_that_the_bound_is_the_owners(tanh: OwnLayer, tmp_path: Path) -> None:
    graph = cb.datasets.load("csbm", nodes=120, seed=1)
    made = cb.release(graph, tanh, hops=2, budget=cb.Budget(4), bounds=cb.Bounds(degree_floor=5))
    model = cb.Model("caribou-edp", cb.Budget(4), layer="tanh", hidden=[4]).fit(graph)
    for certificate in (made.certificate, model.certificate):
        (record,) = certificate.mechanisms
        assert record.mechanism.value == "own mechanism"
        assert "the owner's statement: tanh is 1-Lipschitz" in record.theorem
        certificate.save(tmp_path / "certificate.json")
        LAYERS.pop("tanh", None)  # whoever verifies it need not have the layer
        assert cb.verify(Certificate.load(tmp_path / "certificate.json")).passed
        assert 3.9 < certificate.epsilon_spent <= 4
    LAYERS["tanh"] = type(tanh)
    with pytest.raises(InputError, match="unit must be edge for the layer tanh"):
        cb.release(graph, tanh, hops=2, budget=cb.Budget(4, unit="node"), bounds=cb.Bounds(degree_floor=5))


def test_a_command_finds_it_by_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWN_METHODS, "")  # restored afterwards, whatever the command sets
    world = ("--dataset", "csbm:nodes=80", "--epsilon", "4", "--json")
    done = run("--methods", FILE, "train", "caribou-edp", *world, "--set", "layer=tanh", "--set", "hidden=[4]")
    LAYERS.pop("tanh", None)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["certificate"]["mechanisms"][0]["details"]["notes"]["layer"] == "tanh"


def test_what_is_no_layer_of_ones_own_is_refused() -> None:
    class Taken(OwnLayer):
        name = "gcn"

    for wrong in (SpectralLayer, Taken, "tanh"):
        with pytest.raises(InputError, match="layer must"):
            cb.register_layer(wrong)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError):
        Taken().edge_bound(cb.Bounds())


def test_a_subclass_does_not_inherit_a_theorem() -> None:
    class Louder(ContractiveGraphLayer):
        def forward(self, x: Any, operator: Any, x0: Any = None) -> Any:
            return 1000 * super().forward(x, operator, x0)

    graph = cb.datasets.load("csbm", nodes=60, seed=1)
    with pytest.raises(InputError, match="must be the contractive layer itself to have its theorem, got Louder"):
        cb.release(graph, Louder(0.5), hops=2, budget=cb.Budget(2), bounds=cb.Bounds(degree_floor=2))


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf])
def test_a_bound_that_is_none_is_refused(tanh: OwnLayer, bound: float) -> None:
    tanh.edge_bound = lambda bounds: bound  # type: ignore[method-assign]
    with pytest.raises(InputError, match="edge_bound must be a finite number > 0"):
        tanh.sensitivity("edge", cb.Bounds(degree_floor=2))


def test_nothing_is_promised_about_cut_degrees_or_people(tanh: OwnLayer) -> None:
    """A scope of its own would have to say up to which degree; the record of one's own bound states none."""
    with pytest.raises(InputError, match="degree_cap must be None at edge level"):
        tanh.sensitivity("edge", cb.Bounds(degree_cap=3))
    node = replace(tanh.sensitivity("edge", cb.Bounds(nodes=9)), unit=PrivacyUnit.NODE)
    with pytest.raises(CertificateError, match="unit must be edge for the layer tanh"):
        message_passing_record(calibrate_propagation(node, hops=2, mu=1.0))


def test_a_run_with_a_layer_of_ones_own_is_read_again(tanh: OwnLayer, tmp_path: Path) -> None:
    graph = cb.datasets.load("csbm", nodes=120, seed=1)
    cb.Model("caribou-edp", cb.Budget(4), layer="tanh", hidden=[4]).fit(graph).save(tmp_path / "run")
    assert cb.load(tmp_path / "run").predict().shape == (120,)
