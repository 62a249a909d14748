"""The protocol of an attack: all attacks are made through it, fit as often as they say, and keep to what they promise to test."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from audit.known_bad_mechanisms.leaky import content
from audit.known_bad_mechanisms.whole_methods import CleanFit, Sound
from caribou import methods
from caribou.audit.attack import Findings, Forecast, MeasuringAttack, Terms
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.auditor import ATTACKS
from caribou.audit.catalogue import BOTH, TESTED, Entry, Promise
from caribou.audit.gmia import Sizes
from caribou.datasets import load
from caribou.methods import Method
from caribou.methods.mlp import MlpDp
from caribou.privacy.budget import Budget, PrivacyUnit

GRAPH = load("csbm:nodes=60,features=4,classes=2,average_degree=4", seed=0)
TERMS = {Promise.CLAIM: Terms(40), Promise.RATES: Terms(8)}
SMALL: dict[str, dict[str, Any]] = {"linkteller": {"nodes": 30}, "gmia": {"sizes": Sizes(6, 8)}, "lira": {"targets": 8}}


@dataclass(frozen=True)
class Made:
    """What an attack said that it would do, and what it did."""

    said: int
    counted: int
    found: Findings


def make(name: str, method: Method, unit: str, monkeypatch: pytest.MonkeyPatch) -> Made:
    attack: Any = replace(ATTACKS[name], **SMALL.get(name, {}))
    audited = AuditedMethod("mine", method, Budget(2.0, 1e-5, unit), GRAPH)
    terms = TERMS.get(attack.facts.promise, Terms(1))
    calls, fit = [], methods.fit
    monkeypatch.setattr(methods, "fit", lambda *arguments: calls.append(1) or fit(*arguments))
    found = attack.run(audited, terms)
    counted = len(calls)
    return Made(attack.forecast(audited, terms).fits, counted, found)


METHODS: list[tuple[Method, str]] = [(Sound(), "edge"), (CleanFit(), "edge"), (MlpDp(), "node")]


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_fits_as_often_as_it_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attack = ATTACKS[name]
    for method, unit in METHODS:
        if PrivacyUnit(unit) not in attack.facts.units:
            continue
        made = make(name, method, unit, monkeypatch)
        assert 0 < made.counted <= made.said, method
        if attack.facts.promise is not Promise.CLAIM:
            assert made.counted == made.said, "only a game may stop early"
        assert bool(made.found.proofs) == (attack.facts.promise is Promise.CLAIM)
        if attack.facts.promise in (Promise.RATES, Promise.NONE):
            assert list(made.found.measured) == [name]
            assert made.found.measured[name].bounded == (attack.facts.promise is Promise.RATES)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_decided_by_its_seed_tells_of_its_progress_and_changes_no_graph(name: str) -> None:
    before, found = content(GRAPH), []
    for seed in (1, 1, 2):
        attack: Any = replace(ATTACKS[name], **SMALL.get(name, {}))
        audited = AuditedMethod("mine", Sound(), Budget(2.0, 1e-5), GRAPH, seed)
        told: list[tuple[Any, ...]] = []
        terms = replace(TERMS.get(attack.facts.promise, Terms(1)), progress=lambda *step, told=told: told.append(step))
        made = attack.run(audited, terms)
        assert not told or {step[0] for step in told} <= {name, "fit"}
        found.append(
            json.dumps([made.notes, *(each.to_json() for each in (*made.proofs.values(), *made.measured.values()))])
        )
    assert found[0] == found[1]
    assert found[0] != found[2] or not json.loads(found[0])[1:], "a replay of noise measures nothing"
    assert content(GRAPH) == before


def test_games_are_as_many_as_lower_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for method, unit, games in ((Sound(), "edge", 1), (CleanFit(), "edge", 2), (MlpDp(), "node", 1)):
        audited = AuditedMethod("mine", method, Budget(2.0, 1e-5, unit), GRAPH)
        assert ATTACKS["distinguish"].games(audited) == games
        assert ATTACKS["onerun"].games(audited) == 1
        assert not any(
            attack.games(audited) for attack in ATTACKS.values() if attack.facts.promise is not Promise.CLAIM
        ), "an attack that measures takes no share of the error"
    assert len(make("distinguish", CleanFit(), "edge", monkeypatch).found.proofs) == 2


def test_an_attack_of_ones_own_states_its_facts_and_measures_nothing_but_what_it_says() -> None:
    @dataclass(frozen=True)
    class Constant(MeasuringAttack):
        name: ClassVar[str] = "constant"
        facts = Entry("", "nothing", Promise.NONE, BOTH, False, "no fit")

        def run(self, audited: AuditedMethod, terms: Terms) -> Findings:
            return Findings(notes=tuple(f"{audited.name}, run {run}" for run in self.each_run(terms)))

    audited, told = AuditedMethod("mine", Sound(), Budget(1.0)), []
    found = Constant().run(audited, Terms(2, progress=lambda *step: told.append(step)))
    assert found.notes == ("mine, run 0", "mine, run 1")
    assert told == [("constant", 1, 2, 0.0), ("constant", 2, 2, 0.0)]
    assert (Constant().forecast(audited, Terms()), Constant().games(audited)) == (Forecast(3), 0)


def test_the_page_says_of_every_attack_what_it_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "auditing.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| `")]
    said = {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in rows if len(cells) == 5}
    assert list(said) == list(ATTACKS)
    for name, attack in ATTACKS.items():
        tested, units, graph, _ = said[name]
        assert tested.startswith(TESTED[attack.facts.promise]), name
        assert set(units.split(", ")) == {unit.value for unit in attack.facts.units}, name
        assert (graph == "yes") == attack.facts.needs_graph, name
