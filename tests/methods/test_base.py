"""The table of methods: every entry can be made, and what does not fit is named. The promises of methods: `test_contract`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import caribou as cb
from caribou import methods
from caribou.errors import InputError
from caribou.methods import METHODS, Fitted, Outputs, method_info
from caribou.methods.base import OWN_METHODS, register, require_unit
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.ledger import Ledger
from caribou.randomness import Streams

GRAPH = cb.datasets.load("csbm:nodes=60", seed=0)


@pytest.mark.parametrize("name", METHODS)
def test_every_entry_is_a_frozen_record_of_its_unit(name: str) -> None:
    info = method_info(name)
    method = info.create()
    assert dataclasses.is_dataclass(method)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(method, dataclasses.fields(method)[0].name, 1)  # type: ignore[arg-type]
    assert info.unit is (PrivacyUnit.NODE if name.endswith(("-ndp", "mlp-dp")) else PrivacyUnit.EDGE)
    assert info.private is not name.endswith("-inf")
    unit = next(u for u in PrivacyUnit if u is not info.unit)
    with pytest.raises(InputError, match=f"unit must be {info.unit.value} for {name}, got {unit.value}"):
        info.check(name, Budget(float("inf"), unit=unit))
    if not info.private:
        with pytest.raises(InputError, match=f"epsilon must be inf for {name}, which is not private, got 2"):
            info.check(name, Budget(2.0, unit=info.unit))


def test_unknown_names_are_listed() -> None:
    with pytest.raises(InputError, match=r"method must be one of caribou-edp, .*, mlp, got 'gcn'"):
        method_info("gcn")
    with pytest.raises(InputError, match=r"setting must be one of hidden, metric, class_weight, got depth, width"):
        method_info("mlp").create(width=3, depth=2)
    require_unit(Budget(1.0), PrivacyUnit.EDGE, "x")


def test_what_cannot_be_fitted_is_refused_before_it_is_charged(tmp_path) -> None:
    book = Ledger(tmp_path / "ledger.sqlite")
    method, budget = method_info("mlp-dp").create(), Budget(1.0, unit="node")
    with pytest.raises(InputError, match="labels and a split"):
        methods.fit(method, GRAPH.with_split(None), budget, Streams(0), ledger=book)
    assert book.entries() == ()
    fitted = methods.fit(method, GRAPH, budget, Streams(0), ledger=book)
    assert [entry.certificate_id for entry in book.entries()] == [fitted.certificate.certificate_id]


def test_outputs_become_a_fit_with_its_certificate() -> None:
    fitted = methods.fit(method_info("mlp-dp").create(), GRAPH, Budget(1.0, unit="node"), Streams(0))
    again = Fitted.of(Outputs(fitted.probabilities, {"a": fitted.probabilities}), fitted.certificate)
    assert again.certificate is fitted.certificate
    assert set(again.released) == {"a"}


def test_methods_of_ones_own_are_checked_where_they_are_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from caribou.methods.edge.mlp import Mlp

    with pytest.raises(InputError, match="name must be new, got 'mlp', which is a method of the library"):
        register("mlp", Mlp, unit="edge")
    with pytest.raises(InputError, match="name must be letters, digits and hyphens"):
        register("my method", Mlp, unit="edge")
    with pytest.raises(InputError, match="method must be a dataclass with settings, plan, fit, predict"):
        register("nothing", object, unit="edge")
    with pytest.raises(InputError, match="unit must be"):
        register("my-mlp", Mlp, unit="person")
    broken = tmp_path / "broken_method.py"
    broken.write_text("import nothing_like_this\n")
    monkeypatch.setenv(OWN_METHODS, str(broken))
    with pytest.raises(InputError, match=r"broken_method\.py cannot be imported: ModuleNotFoundError"):
        method_info("unheard-of")
    monkeypatch.setenv(OWN_METHODS, str(tmp_path / "missing.py"))
    with pytest.raises(InputError, match="methods must name Python files"):
        method_info("unheard-of")


@pytest.mark.parametrize("other", [Budget(1.0, 1e-5, "edge"), Budget(4.0, 1e-5, "node")])
def test_a_plan_of_another_budget_is_refused_before_anything_is_charged(
    other: Budget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from caribou.methods.edge.mlp import Mlp

    class Cheaper(Mlp):
        def plan(self, sizes: Any, budget: Budget) -> Any:
            return dataclasses.replace(super().plan(sizes, budget), budget=other)

    monkeypatch.setitem(METHODS, "cheaper", dataclasses.replace(METHODS["mlp"], own=Cheaper))
    with pytest.raises(InputError, match="plan of Cheaper must have the budget that it is given"):
        methods.fit(Cheaper(), GRAPH, Budget(4.0), Streams(0), ledger=tmp_path / "ledger.sqlite")
    assert not (tmp_path / "ledger.sqlite").exists()


def test_a_void_certificate_is_not_charged_at_its_events(tmp_path: Path) -> None:
    """They hold only under the assumption that does not: the ledger would count less than was spent."""
    from caribou.methods.edge.votes import VotesEdge
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
    from caribou.methods.edge.votes import VotesEdge

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
    assert stated(fitted.predict_graph(given.renamed("other")).certificate) >= {"given prior", "own code"}
