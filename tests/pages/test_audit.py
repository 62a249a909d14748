"""The report: one page that needs nothing else, a picture, and figures; all or nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from audit.known_bad_mechanisms import edge_level
from audit.known_bad_mechanisms.known_bad import KnownBad
from browser_support import AXE, WIDTHS, Tab, needs_browser
from caribou.audit.auditor import Outcome
from caribou.audit.distinguish import distinguish
from caribou.audit.evidence import OneRun
from caribou.audit.metrics import FALSE_POSITIVE_RATES, summarise
from caribou.audit.verdict import judge
from caribou.metrics import Scored
from caribou.pages.audit import audit_page, write_report
from caribou.privacy.budget import Budget
from page_support import said


def outcome_of(bad: KnownBad, name: str, runs: int | None = None) -> Outcome:
    target, pair, claim = bad.make(Budget(2.0, 1e-5, bad.unit))
    game = distinguish(target, pair, claim, runs=runs or bad.runs)
    allowed = {rate: claim.allowed(rate) for rate in FALSE_POSITIVE_RATES}
    result = summarise("distinguish", [game.judged], allowed=allowed, details={}, note="<the pair & the score>")
    one_run = OneRun(claim, 10, 4, 3, 0.95, Scored(np.arange(4.0), np.array([0, 1, 0, 1], dtype=bool)), 0)
    proofs = {"distinguish": game, "onerun": one_run}
    verdict = judge(proofs, claim, confidence=0.95, reproduce="caribou audit <x>")
    return Outcome(name, verdict, proofs, dict.fromkeys(proofs, result), {"gmia": "no data set"})


@pytest.fixture(scope="module")
def violated() -> Outcome:
    return outcome_of(edge_level.MECHANISMS["normalisation to the sphere"], "sphere & <ball>")


@pytest.fixture(scope="module")
def folder(violated: Outcome, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(violated, tmp_path_factory.mktemp("audit") / "report")


def test_the_page_needs_no_other_file_and_says_everything(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["audit.html", "audit.json"]
    text = (folder / "audit.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", text), "nothing is loaded from elsewhere"
    assert "sphere &amp; &lt;ball&gt;" in text
    assert "&lt;the pair &amp; the score&gt;" in text
    assert "caribou audit &lt;x&gt;" in text
    assert "no data set" in text
    for word in ("VIOLATED", "AUC", "TPR at FPR 0.1 %", "allowed", "epsilon = 2"):
        assert word in "\n".join(said(text).values())
    assert len(text) < 1_000_000


def test_a_game_that_decides_nothing_is_not_within_the_claim() -> None:
    found = {}
    for name, runs in (("noise std halved", 40), ("noise std halved", 6000)):
        outcome = outcome_of(edge_level.MECHANISMS[name], name, runs)
        found[outcome.verdict.word] = "\n".join(said(audit_page(outcome)).values())
    assert list(found) == ["inconclusive", "VIOLATED"]
    assert "within the claim" not in found["inconclusive"]
    assert "too little to decide" in found["inconclusive"]
    assert "more than claimed" in found["VIOLATED"]


def test_figures_are_those_of_the_outcome(violated: Outcome, folder: Path) -> None:
    record = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert record == violated.to_json()
    assert record["claimed"]["epsilon"] == 2.0
    assert record["verdict"] == "VIOLATED"
    assert record["epsilon_lower"] > 2
    assert set(record["attacks"]["distinguish"]["tpr_at_fpr"]) == {"0.001", "0.01", "0.1"}
    assert record["attacks"]["onerun"]["game"]["canaries"] == 10


@needs_browser
def test_the_page_in_a_browser(folder: Path, look: Callable[[Path], Tab]) -> None:
    tab = look(folder / "audit.html")
    for width in WIDTHS:
        tab.resize(width)
        assert (width, tab.overflowing(), tab.cut_text()) == (width, [], [])
    assert tab.run("document.querySelectorAll('[role=img] svg').length") == 1
    assert tab.complaints() == []
    if AXE.exists():
        tab.scheme("dark")
        assert tab.violations() == []
