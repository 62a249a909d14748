"""``caribou ledger``: what people and programs see."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy import filters
from caribou.privacy.assumptions import Assumption, AssumptionName
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import EpsilonDelta, Gaussian, NonPrivate
from caribou.privacy.ledger import Ledger
from caribou.privacy.mechanism_records import MeanRecord
from caribou.privacy.plan import ReleasePlan
from cli_support import Done, caribou, refusal


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CARIBOU_LEDGER", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def call(*arguments: str, code: int = 0) -> Done:
    return caribou("ledger", *arguments, code=code)


def failure(*arguments: str) -> str:
    return refusal("ledger", *arguments)


def shown(*arguments: str, code: int = 0) -> dict[str, Any]:
    return call("show", "--json", *arguments, code=code).document


class TestShow:
    def test_table_of_data_sets(self) -> None:
        call("budget", "survey", "--epsilon", "4", "--unit", "edge")
        call("add", "survey", "--epsilon", "0.5", "--unit", "edge")
        call("add", "free", "--epsilon", "2", "--unit", "node", "--over-budget")
        output = call("show").stdout
        rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in output.splitlines() if "│" in line]
        assert rows == [
            ["free", "edge", "0", "4", "1e-05", "none", "no budget is set"],
            ["free", "node", "1", "2", "1e-05", "none", "no budget is set"],
            ["survey", "edge", "1", "0.5", "1e-05", "4 at delta = 1e-05", "2.759 with Gaussian noise, or 3.5 if pure"],
            ["survey", "node", "0", "without bound", "1e-05", "none", "no budget is set"],
        ]
        assert "An edge-level release leaves nothing at node level" in output
        assert "chain intact" in output
        assert "made elsewhere" not in output

    def test_json(self, folder: Path) -> None:
        call("budget", "survey", "--epsilon", "4", "--delta", "1e-6", "--unit", "node")
        call("add", "survey", "--epsilon", "0.5", "--unit", "node", "--description", "histogram")
        call("add", "open", "--epsilon", "inf", "--unit", "edge", "--over-budget")
        report = shown()
        assert report["ledger"] == str(folder / "caribou-ledger.sqlite")
        assert report["chain_intact"] is True
        assert report["problems"] == []
        edge, node = [row for row in report["datasets"] if row["dataset"] == "survey"]
        assert node["budget"] == {"epsilon": 4.0, "delta": 1e-6, "unit": "node"}
        assert edge["epsilon_spent"] == pytest.approx(1.0, abs=1e-4), "a release at node level counts twice"
        assert (edge["budget"], edge["releases"], edge["period"]) == (None, 0, None)
        left = filters.largest_gaussian([[EpsilonDelta(0.5)]], Budget(4, 1e-6))
        assert [node[key] for key in ("epsilon_left", "gaussian_left", "pure_left")] == pytest.approx(
            [3.5, left, 3.5], abs=1e-4
        )
        first, second = report["releases"]
        assert first["time"].endswith("+00:00")
        assert first["events"] == [{"kind": "epsilon_delta", "epsilon": 0.5, "delta": 0.0}]
        assert first["epsilon_cumulative"] == first["epsilon_total"] == pytest.approx(0.5, abs=1e-4)
        assert (first["description"], first["status"], first["purpose"]) == ("histogram", "released", None)
        assert (second["epsilon_cumulative"], second["events"]) == ("inf", [{"kind": "non_private"}])
        only = shown("--dataset", "open")
        assert [(d["dataset"], d["unit"]) for d in only["datasets"]] == [("open", "edge"), ("open", "node")]
        assert [r["id"] for r in only["releases"]] == [2]

    def test_merge(self, folder: Path) -> None:
        call("add", "survey", "--epsilon", "2", "--unit", "edge", "--ledger", "other.sqlite")
        call("budget", "survey", "--epsilon", "1", "--unit", "edge")
        done = call("merge", "other.sqlite")
        assert "took over 1 of 1 releases" in done.stdout
        assert "nothing: more than the budget is spent" in done.words
        assert "took over 0 of 1" in call("merge", "other.sqlite").stdout

    def test_missing_file_is_an_error_and_makes_nothing(self, folder: Path) -> None:
        assert "caribou-ledger.sqlite" in failure("show")
        assert "other.sqlite" in failure("show", "--ledger", "other.sqlite")
        assert os.listdir(folder) == []

    @pytest.mark.parametrize("events", ["[]", "{"])
    def test_broken_chain_is_exit_code_3(self, events: str) -> None:
        call("add", "survey", "--epsilon", "0.5", "--unit", "edge")
        with closing(sqlite3.connect("caribou-ledger.sqlite")) as connection:
            connection.execute("DROP TRIGGER entries_update")
            connection.execute("UPDATE entries SET record = ?", (events,))
            connection.commit()
        result = call("show", code=3)
        assert "chain broken: entry 1 was edited" in result.stderr
        assert "chain intact" not in result.stdout
        report = shown(code=3)
        assert report["chain_intact"] is False
        assert len(report["problems"]) == 2
        assert report["datasets"] == [], "no total is shown that rests on edited records"


def certificate(noise: NoiseSource | None = None) -> Certificate:
    encoder, classifier = MeanRecord(name="encoder", noise_std=4.0), MeanRecord(name="classifier", noise_std=5.0)
    own = (Assumption(AssumptionName.OWN_CODE),)
    plan = ReleasePlan(Budget(3, unit="node"), (encoder, classifier), ("X",), "a test", assumptions=own)
    return plan.certificate(noise or NoiseSource.secure())


class TestAdd:
    def test_certificate_is_counted_once(self) -> None:
        made = certificate()
        made.save("c.json")
        call("add", "survey", "--certificate", "c.json", "--description", "from a colleague")
        (release,) = Ledger("caribou-ledger.sqlite").entries()
        assert (release.unit, release.events) == (PrivacyUnit.NODE, (Gaussian(4.0), Gaussian(5.0)))
        assert (release.certificate_id, release.epsilon_total) == (made.certificate_id, made.epsilon_spent)
        assert (release.description, release.status) == ("from a colleague", "released")
        error = failure("add", "survey", "--certificate", "c.json")
        assert f"{made.certificate_id!r} is already recorded as release 1" in error
        assert len(Ledger("caribou-ledger.sqlite").entries()) == 1

    def test_void_certificate_is_no_evidence(self, folder: Path) -> None:
        made = certificate(NoiseSource.seeded(1))
        made.save("c.json")
        error = failure("add", "survey", "--certificate", "c.json")
        assert f"void as a guarantee ({made.void_reasons[0]})" in error
        assert "a fixed seed: whoever knows it can subtract the noise" in error
        assert "--epsilon inf --unit node" in error
        assert os.listdir(folder) == ["c.json"]

    def test_certificate_that_does_not_verify_is_refused(self, folder: Path) -> None:
        record = certificate().to_dict()
        record["mechanisms"][0]["theorem"] = "it is private"
        Path("c.json").write_text(json.dumps(record))
        error = failure("add", "survey", "--certificate", "c.json")
        assert "does not verify (encoder: figures" in error
        assert os.listdir(folder) == ["c.json"]

    def test_a_certificate_of_too_many_events_is_refused_before_it_is_composed(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        means = tuple(MeanRecord(name=f"mean {k}", noise_std=500.0) for k in range(1001))
        plan = ReleasePlan(Budget(3, unit="node"), means, released=("X",), method="a test")
        plan.certificate(NoiseSource.secure()).save("c.json")
        monkeypatch.setattr("caribou.privacy.verify.verify", lambda _: pytest.fail("composed"))
        assert "events must be at most 1000" in failure("add", "survey", "--certificate", "c.json")
        assert os.listdir(folder) == ["c.json"]

    def test_a_certificate_without_privacy_costs_everything_whatever_its_events_say(self, folder: Path) -> None:
        record = json.loads(certificate().to_json())
        record |= {"epsilon": "inf", "status": "no privacy"}
        (folder / "c.json").write_text(json.dumps(record))
        call("add", "survey", "--certificate", "c.json")
        (release,) = Ledger("caribou-ledger.sqlite").entries()
        assert release.events == (NonPrivate(),)
        assert release.certificate_id == record["certificate_id"]

    def test_beyond_the_budget_only_on_demand(self) -> None:
        call("budget", "survey", "--epsilon", "1", "--unit", "edge")
        error = failure("add", "survey", "--epsilon", "2", "--unit", "edge")
        assert "--over-budget" in error
        assert shown()["releases"] == []
        output = call("add", "survey", "--epsilon", "2", "--unit", "edge", "--over-budget").stdout
        assert "left: nothing: more than the budget is spent" in output
        row = shown()["datasets"][0]
        assert (row["epsilon_left"], row["releases"]) == (0.0, 1)
