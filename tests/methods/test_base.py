"""A fit is planned, certified and charged in its order, whatever the method is. The promises of methods: `test_contract`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.methods import METHODS, method_info
from caribou.methods.catalogue import register
from caribou.privacy.budget import Budget
from caribou.privacy.ledger import Ledger
from caribou.randomness import Streams

GRAPH = cb.datasets.load("csbm:nodes=60", seed=0)


def test_what_cannot_be_fitted_is_refused_before_it_is_charged(tmp_path) -> None:
    book = Ledger(tmp_path / "ledger.sqlite")
    method, budget = method_info("mlp-dp").create(), Budget(1.0, unit="node")
    with pytest.raises(InputError, match="labels and a split"):
        methods.fit(method, GRAPH.with_split(None), budget, Streams(0), ledger=book)
    assert book.entries() == ()
    fitted = methods.fit(method, GRAPH, budget, Streams(0), ledger=book)
    assert [entry.certificate_id for entry in book.entries()] == [fitted.certificate.certificate_id]


@pytest.mark.parametrize("other", [Budget(1.0, 1e-5, "edge"), Budget(4.0, 1e-5, "node")])
def test_a_plan_of_another_budget_is_refused_before_anything_is_charged(
    other: Budget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from caribou.methods.mlp import Mlp

    class Cheaper(Mlp):
        def plan(self, sizes: Any, budget: Budget) -> Any:
            return dataclasses.replace(super().plan(sizes, budget), budget=other)

    monkeypatch.setitem(METHODS, "cheaper", dataclasses.replace(METHODS["mlp"], own=Cheaper))
    with pytest.raises(InputError, match="plan of Cheaper must have the budget that it is given"):
        methods.fit(Cheaper(), GRAPH, Budget(4.0), Streams(0), ledger=tmp_path / "ledger.sqlite")
    assert not (tmp_path / "ledger.sqlite").exists()


def test_a_void_certificate_is_not_charged_at_its_events(tmp_path: Path) -> None:
    """They hold only under the assumption that does not: the ledger would count less than was spent."""
    from caribou.methods.votes import VotesEdge
    from caribou.privacy.assumptions import Assumption, AssumptionName

    class Searched(VotesEdge):
        def plan(self, sizes: Any, budget: Budget) -> Any:
            searched = Assumption(AssumptionName.HYPER_PARAMETERS, {"search": None}, holds=False)
            return dataclasses.replace(super().plan(sizes, budget), assumptions=(searched,))

    ledger = tmp_path / "ledger.sqlite"
    with pytest.raises(InputError, match=r"certificate must be a guarantee when a ledger is given.*--epsilon inf"):
        methods.fit(Searched(max_rounds=1), GRAPH, Budget(4.0), Streams(0), ledger=ledger)
    assert not ledger.exists()
    assert methods.fit(Searched(max_rounds=1), GRAPH, Budget(4.0), Streams(0)).certificate.status == "void"


def test_certificates_say_what_is_declared_about_own_code_and_a_given_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    from caribou.methods.votes import VotesEdge

    @dataclasses.dataclass(frozen=True)
    class Own(VotesEdge):
        pass

    def stated(certificate: Any) -> set[str]:
        return {assumption.name.value for assumption in certificate.assumptions}

    monkeypatch.setitem(METHODS, "own-votes", METHODS["votes-edp"])  # taken back after the test
    del METHODS["own-votes"]
    register("own-votes", Own, unit="edge")
    prior = np.full((60, GRAPH.num_classes), 1 / GRAPH.num_classes)
    given = GRAPH.with_prior(prior)
    plain = cb.Model("votes-edp", Budget(4.0), max_rounds=1).fit(GRAPH.first_nodes(50))
    assert stated(plain.certificate) >= {"features without edges"}
    assert not stated(plain.certificate) & {"given prior", "own code"}
    assert stated(plain.extend(GRAPH.first_nodes(55).with_prior(prior[:55])).extend(GRAPH).certificate) >= {
        "features without edges",
        "arrivals",
        "given prior",
    }, "the rows of the second batch rest on it"
    own = cb.Model("own-votes", Budget(4.0), max_rounds=1)
    assert "own code" in {assumption.name.value for assumption in own.plan(given).assumptions}
    fitted = own.fit(given)
    assert stated(fitted.certificate) >= {"given prior", "own code", "features without edges"}
    assert stated(fitted.release(given.renamed("other")).certificate) >= {"given prior", "own code"}


def test_code_that_nobody_registered_is_own_code_too() -> None:
    """`methods.fit` takes any object with the protocol, a subclass of a method of the library as well."""
    from caribou.methods.mlp import Mlp
    from caribou.privacy.assumptions import AssumptionName

    @dataclasses.dataclass(frozen=True)
    class Leaking(Mlp):
        def run(self, plan: Any, graph: Any, *rest: Any) -> Any:
            made = super().run(plan, graph, *rest)
            return methods.Outputs(made.probabilities, {**made.released, "edges": graph.edge_index}, made.weights)

    def names(method: Any) -> set[AssumptionName]:
        made = methods.fit(method, GRAPH, Budget(1.0), Streams(0)).certificate
        return {assumption.name for assumption in made.assumptions}

    assert AssumptionName.OWN_CODE in names(Leaking())
    assert AssumptionName.OWN_CODE not in names(Mlp())
