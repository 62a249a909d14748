"""``caribou audit`` as a user types it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.quick_steps import quick_public_steps
from caribou.audit.auditor import ATTACKS
from caribou.audit.linkteller import LinkTeller
from caribou.cli.audit import _typed_command
from caribou.datasets import load
from caribou.methods import METHODS, MethodInfo
from caribou.model.estimator import Model
from caribou.privacy.budget import Budget, PrivacyUnit
from cli_support import caribou, refusal

pytestmark = pytest.mark.usefixtures("quick_learning", "quick_steps")
QUICK = ("--runs", "200", "--workers", "1")
FEW = ("--runs", "40", "--workers", "1")


@pytest.fixture(scope="module")
def quick_steps() -> Iterator[None]:
    """What decides nothing about privacy is made cheap."""
    with quick_public_steps():
        yield


def found_by(*arguments: object) -> dict[str, Any]:
    return caribou("audit", *arguments, "--json").document


def test_a_correct_method_is_consistent_and_the_json_has_what_it_promises() -> None:
    done = caribou("audit", "mlp-dp", "--epsilon", "8", "--attack", "distinguish", *QUICK, "--json")
    assert done.stderr.startswith("planned: distinguish: 570 runs, 571 fits\n"), "what it takes, before the first run"
    found = done.document
    assert found["claimed"]["epsilon"] == 8
    assert found["claimed"]["delta"] == 1e-5
    assert found["verdict"] == "consistent"
    assert 0 <= found["epsilon_lower"] <= 8
    attack = found["attacks"]["distinguish"]
    assert attack.keys() >= {"auc", "tpr_at_fpr", "tpr_allowed", "game"}
    assert attack["game"]["runs_per_graph"] == 200


def test_a_broken_method_ends_with_3_and_its_report_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = MethodInfo(
        PrivacyUnit.NODE, "audit.known_bad_mechanisms.node_level:BatchNormalised", "batch normalisation"
    )
    monkeypatch.setitem(METHODS, "broken", broken)
    out = tmp_path / "report"
    text = caribou("audit", "broken", "--epsilon", "1", "--attack", "distinguish", *QUICK, "--out", out, code=3).stdout
    assert "VIOLATED" in text
    assert "reproduce" in text
    record = json.loads((out / "audit.json").read_text(encoding="utf-8"))
    assert record["verdict"] == "VIOLATED"
    assert record["epsilon_lower"] > 1
    assert "VIOLATED" in (out / "audit.html").read_text(encoding="utf-8")


def test_a_saved_run_is_audited_with_its_own_claim(tmp_path: Path) -> None:
    run = tmp_path / "run"
    Model("mlp-dp", Budget(6.0, 1e-4, "node"), clip=0.5).fit(load("csbm:nodes=80", seed=1)).save(run)
    found = found_by(str(run), "--attack", "distinguish", *FEW)
    assert found["claimed"] == {"epsilon": 6.0, "delta": 1e-4, "unit": "node", "mu": found["claimed"]["mu"]}
    assert found["subject"] == f"the method of {run} (mlp-dp)"
    assert found["notes"][0].startswith("the audit refits the method")
    assert not any("costs epsilon" in note for note in found["notes"])
    assert "must not be given with a run" in refusal("audit", str(run), "--epsilon", "3")


@pytest.mark.slow
def test_all_attacks_on_a_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTACKS, "linkteller", LinkTeller(nodes=30, query_modes=["cached"]))
    small = ("--set", "epochs=1", "--set", "hidden=2", "--set", "layers=1", *FEW)
    found = found_by("sage-edp", "--dataset", "csbm:nodes=60", "--epsilon", "4", *small)
    done = set(found["attacks"]) | set(found["skipped"])
    assert done >= {"mechanism", "distinguish", "fit", *(ATTACKS.keys() - {"noise-replay"})}
    assert {"mechanism", "distinguish", "fit", "onerun", "linkteller", "gmia", "lira"} <= set(found["attacks"])
    assert any(note.startswith("noise-replay: fits differ in") for note in found["notes"])
    assert set(found["fits"]) == set(ATTACKS)
    assert found["epsilon_lower"] <= 4
    assert found["verdict"] != "VIOLATED"


def test_what_needs_a_data_set_says_so() -> None:
    assert "dataset must be given" in refusal("audit", "caribou-edp", "--attack", "onerun")
    assert "dataset must be given" in refusal("audit", "caribou-edp", "--attack", "onerun", "--attack", "distinguish")
    found = found_by("mlp-dp", "--epsilon", "8", *FEW)
    assert set(found["skipped"]) >= {"onerun", "linkteller", "gmia", "lira"}


def test_the_line_that_plays_again_is_what_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the password of a database."""
    typed = [
        "caribou",
        "audit",
        "mlp-dp",
        "--epsilon",
        "0.1234567",
        "--set",
        "clip=0.5",
        "--db",
        "postgresql://me:secret@host/db",
    ]
    monkeypatch.setattr(sys, "argv", typed)
    line = _typed_command("postgresql://me:secret@host/db")
    words = shlex.split(line)
    assert words[:-1] == typed[:-1]
    assert "secret" not in line
