"""Tuning: the search is paid for, the winner is the best, and nothing else about it leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import caribou as cb
from caribou.errors import BudgetExceeded, InputError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS, fit
from caribou.privacy.verify import verify
from caribou.tuning import SPACES, combinations, tune

GRAPH = cb.datasets.load("csbm", nodes=200, seed=3)
pytestmark = pytest.mark.usefixtures("quick_learning")


def budget(name: str, epsilon: float = 8.0) -> cb.Budget:
    return cb.Budget(epsilon, 1e-5, METHODS[name].unit)


@pytest.mark.parametrize("name", ["mlp-dp", "votes-ndp", "caribou-ndp", "votes-edp"])
def test_the_certificate_covers_the_whole_search(name: str) -> None:
    found = tune(name, GRAPH, budget(name), trials=3)
    assert found.fitted is not None
    assert found.plan is not None
    certificate = found.fitted.certificate
    assert verify(certificate).passed
    assert 7 < certificate.epsilon_spent <= 8
    assert found.plan.epsilon < 8
    assert all(m.name == "private selection" for m in certificate.mechanisms)
    assert any("search is accounted for" in a.statement for a in certificate.assumptions)
    assert (found.score is None) == (METHODS[name].unit is cb.PrivacyUnit.NODE)  # a private figure stays inside


def test_random_trials_draw_settings_with_replacement_from_private_randomness(monkeypatch: pytest.MonkeyPatch) -> None:
    """The theorem is about independent trials: neither the public seed nor the order of the space decides what is tried."""
    tried: list[float] = []
    original = type(METHODS["mlp-dp"].create()).fit

    def recorded(self, *arguments):
        tried.append(self.clip)
        return original(self, *arguments)

    monkeypatch.setattr(type(METHODS["mlp-dp"].create()), "fit", recorded)
    lists = []
    for seed in (1, 2, 3, 4):
        tried.clear()
        tune(
            "mlp-dp", GRAPH, budget("mlp-dp"), trials=6, space={"clip": [0.1, 0.2, 0.3]}, noise=NoiseSource.seeded(seed)
        )
        lists.append(tuple(tried))
    assert len(set(lists)) > 1
    assert any(len(set(drawn)) < min(3, len(drawn)) for drawn in lists), lists


def test_the_best_score_wins_on_public_data() -> None:
    found = tune("mlp", GRAPH, budget("mlp"), trials=2, public=True, space={"hidden": [[], [32]]})
    assert found.fitted is None
    assert found.plan is None
    split, labels = GRAPH.for_learning()
    scores = {}
    for hidden in ([], [32]):
        p = fit(METHODS["mlp"].create(hidden=hidden), GRAPH, budget("mlp"), cb.Model("mlp", budget("mlp"))._streams)
        scores[tuple(hidden)] = float(np.mean(p.probabilities[split.val].argmax(axis=1) == labels[split.val]))
    assert found.score == max(scores.values())
    assert scores[tuple(found.settings["hidden"])] == found.score


def test_a_ledger_is_charged_once_for_the_whole_search_or_refuses(tmp_path: Path) -> None:
    ledger = cb.Ledger(tmp_path / "book.sqlite")
    ledger.set_budget(GRAPH.name, budget("mlp-dp"))
    tune("mlp-dp", GRAPH, budget("mlp-dp"), trials=2, ledger=ledger)
    assert len(ledger.entries(GRAPH.name)) == 1
    with pytest.raises(BudgetExceeded):
        tune("mlp-dp", GRAPH, budget("mlp-dp"), trials=2, ledger=ledger)


def test_spaces_are_of_known_settings() -> None:
    for name, space in SPACES.items():
        for settings in combinations(name, space, {}):
            METHODS[name].create(**settings)
    assert len(combinations("x", {"a": [1, 2], "b": [3, 4, 5]}, {})) == 6
    assert combinations("x", {"a": [1, 2], "b": [3]}, {"b": 9}) == [{"b": 9, "a": 1}, {"b": 9, "a": 2}]
    for bad in ({}, {"a": 3}, {"a": []}):
        with pytest.raises(InputError, match="space"):
            combinations("x", bad, {})
