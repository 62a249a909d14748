"""The report: one page that needs nothing else, a picture, and figures; all or nothing."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from audit.known_bad_mechanisms import message_passing
from audit.known_bad_mechanisms.known_bad import KnownBad
from caribou.audit.auditor import Outcome
from caribou.audit.distinguish import distinguish
from caribou.audit.evidence import OneRun
from caribou.audit.metrics import FALSE_POSITIVE_RATES, summarise
from caribou.audit.report import draw, page, proven_bounds, write_report
from caribou.audit.verdict import CONSISTENT, INCONCLUSIVE, VIOLATED, judge
from caribou.errors import InputError, RunError
from caribou.metrics import Scored
from caribou.privacy.budget import Budget


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
    return outcome_of(message_passing.MECHANISMS["normalisation to the sphere"], "sphere & <ball>")


@pytest.fixture(scope="module")
def folder(violated: Outcome, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(violated, tmp_path_factory.mktemp("audit") / "report")


def test_the_page_needs_no_other_file_and_says_everything(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["audit.html", "audit.json", "audit.png"]
    text = (folder / "audit.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:)""", text), "nothing is loaded from elsewhere"
    assert "<script" not in text
    assert "sphere &amp; &lt;ball&gt;" in text
    assert "&lt;the pair &amp; the score&gt;" in text
    assert "caribou audit &lt;x&gt;" in text
    assert "no data set" in text
    for word in ("VIOLATED", "AUC", "TPR at FPR 0.1", "allowed", "epsilon = 2"):
        assert word in text
    embedded = re.search(r"base64,([A-Za-z0-9+/=]+)", text)
    assert base64.b64decode(embedded[1]) == (folder / "audit.png").read_bytes()
    assert (folder / "audit.png").read_bytes().startswith(b"\x89PNG")


def test_figures_are_those_of_the_outcome(violated: Outcome, folder: Path) -> None:
    record = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert record == violated.to_json()
    assert record["claimed"]["epsilon"] == 2.0
    assert record["verdict"] == "VIOLATED"
    assert record["epsilon_lower"] > 2
    assert set(record["attacks"]["distinguish"]["tpr_at_fpr"]) == {"0.001", "0.01", "0.1"}
    assert record["attacks"]["onerun"]["game"]["canaries"] == 10


def test_no_bound_stands_beside_an_attack_that_did_not_draw_its_members(violated: Outcome) -> None:
    by_nature = replace(violated.attacks["distinguish"], details={"bound_applies": False})
    outcome = replace(violated, attacks={**violated.attacks, "similarity": by_nature})
    text = page(outcome, b"")
    assert text.count("<td>no bound</td>") == len(FALSE_POSITIVE_RATES), "in one row of three"
    labels = [words.get_text() for words in draw(outcome).axes[0].get_legend().get_texts()]
    assert [label.endswith("no bound)") for label in labels if "AUC" in label] == [False, False, True]


def test_the_picture_shows_claim_attacks_and_bounds(violated: Outcome) -> None:
    rates, bounds = draw(violated).axes
    labels = [text.get_text() for text in rates.get_legend().get_texts()]
    assert any("claimed" in label for label in labels)
    assert any(label.startswith("distinguish (AUC") for label in labels)
    lengths = {bar.get_width() for bar in bounds.patches}
    assert max(proven_bounds(violated).values()) in lengths
    assert any("claimed" in text.get_text() for text in bounds.texts)


def test_every_verdict_is_explained_and_no_other_word(violated: Outcome) -> None:
    meanings = set()
    for word, explained in ((VIOLATED, "is rejected"), (CONSISTENT, "is consistent with"), (INCONCLUSIVE, "too thin")):
        text = page(replace(violated, verdict=replace(violated.verdict, word=word)), b"")
        assert f'class="verdict {word}"' in text
        assert explained in text
        meanings.add(text)
    assert len(meanings) == 3
    with pytest.raises(InputError, match="verdict must be VIOLATED, consistent or inconclusive, got 'maybe'"):
        page(replace(violated, verdict=replace(violated.verdict, word="maybe")), b"")


def test_an_existing_folder_is_refused_and_stays_as_it_is(violated: Outcome, tmp_path: Path) -> None:
    (tmp_path / "keep.txt").write_text("mine")
    with pytest.raises(RunError, match="new or empty folder"):
        write_report(violated, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["keep.txt"]
