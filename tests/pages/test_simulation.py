"""Expected accuracy: the same declaration gives the same figures, features alone are one figure, and sizes have a limit."""

from __future__ import annotations

import pytest

from caribou.datasets.generated import BlockModel
from caribou.methods import METHODS
from caribou.pages import simulation
from caribou.pages.simulation import LARGEST, SIMULATED, fits, simulate

pytestmark = pytest.mark.usefixtures("quick_learning")


@pytest.fixture
def two_epsilons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "EPSILONS", (1.0, 8.0))


@pytest.mark.usefixtures("two_epsilons")
def test_every_method_of_both_units_is_simulated_again_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    world, steps = BlockModel(nodes=100, average_degree=8.0, homophily=0.9, signal=1.5), []
    found = simulate(world, seeds=1, advance=lambda: steps.append(1))
    assert {(p.unit, p.method) for p in found} == {(METHODS[m].unit.value, m) for m in SIMULATED}
    assert len(steps) == fits(1) == 2 * 6 + 1
    assert [p.epsilon for p in found if p.method == "mlp"] == [8.0]
    assert all(0 <= p.low == p.mean == p.high <= 1 and p.seeds == 1 for p in found)
    monkeypatch.setattr(simulation, "SIMULATED", ["votes-edp", "mlp-dp"])
    assert [p for p in found if p.method in ("votes-edp", "mlp-dp")] == list(simulate(world, seeds=1))
    votes = {p.epsilon: p.mean for p in found if p.method == "votes-edp"}
    features = next(p.mean for p in found if p.method == "mlp")
    assert votes[8.0] > features, "homophily of 0.9 is worth something at epsilon = 8"


def test_what_cannot_be_kept_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "EPSILONS", (2.0**-20,))
    monkeypatch.setattr(simulation, "SIMULATED", ["caribou-edp", "mlp"])
    methods = {p.method for p in simulate(BlockModel(nodes=60), seeds=1)}
    assert "mlp" in methods


def test_large_graphs_are_simulated_smaller_and_none_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(simulation, "_fitted", lambda world, *_: drawn.append(world.nodes) or ())
    assert simulate(BlockModel(nodes=10**7), seeds=1) == simulate(BlockModel(nodes=100), seeds=0) == ()
    assert drawn == [LARGEST]
