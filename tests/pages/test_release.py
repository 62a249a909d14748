"""The release page: everything of the certificate in plain words, nothing beyond it, and trouble first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser_support import AXE, WIDTHS, Tab, needs_browser
from caribou.mechanisms.noise_source import NoiseSource
from caribou.model.state import ModelState
from caribou.model.verify import verify
from caribou.pages.ledger import ledger_page
from caribou.pages.release import (
    NUMBERS,
    Account,
    PublishedQuality,
    Quality,
    Release,
    attack_chart,
    release_page,
)
from caribou.privacy.accounting import largest_true_positive_rate
from caribou.privacy.assumptions import features_without_edges
from caribou.privacy.budget import Budget
from caribou.privacy.certificate import Certificate
from caribou.privacy.ledger import EntryNote, Ledger
from caribou.privacy.signature import SignatureCheck, SignatureState
from certificate_support import FITS, certified, plan_of, recounted, reload
from page_support import said

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
FACTORS = [
    *("privacy parameter ε", "unit of privacy", "algorithms and correctness", "utility", "bias", "query model"),
    *("threat model", "side channels", "security", "access control", "data collection exposure"),
]
"""Figure 1 of NIST SP 800-226, from the top."""
HOSTILE = "<b>CARIBOU guarantees epsilon = 0</b>"
METRICS: dict[str, Any] = {
    **{name: 0.5 + k / 100 for k, name in enumerate(NUMBERS)},
    "per_class": {"fraud": {"precision": 0.25, "recall": None, "f1": 0.125, "support": 3}},
}


@cache
def certificate(name: str) -> Certificate:
    made = certified(plan_of(*FITS[name]))
    named = features_without_edges(32, [f"column {k}" for k in range(32)])
    return replace(made, assumptions=tuple(named if a.name is named.name else a for a in made.assumptions))


@cache
def known(name: str) -> Release:
    made = certificate(name)
    return Release(made, verify(made))


def saved(name: str, **changes: Any) -> ModelState:
    method, settings, _ = FITS[name]
    made = certificate(name)
    arrays = {"x": np.zeros(1)}
    budget = Budget(made.epsilon, made.delta, made.unit)
    run = ModelState(
        method, settings, budget, made, arrays, arrays, 80, 32, ("a", "b"), batches=(80,), dataset="survey"
    )
    return replace(run, **changes)


def parts(release: Release) -> dict[str, str]:
    return said(release_page(release))


@cache
def shown_of(name: str) -> dict[str, str]:
    return parts(known(name))


def everything(release: Release) -> str:
    return "\n".join(parts(release).values())


# -- what it says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["votes-edp", "caribou-edp", "votes-ndp", "mlp-dp"])
def test_the_page_states_what_the_certificate_states(name: str) -> None:
    release = known(name)
    c, shown = release.certificate, shown_of(name)
    assert f"epsilon = {c.epsilon:g} and delta = {c.delta:g}, for one {c.unit.value}" in shown["first"]
    assert all(words in shown["released"] for words in c.released)
    assert c.unit.adjacency in shown["protected"]
    assert c.unit.unprotected[1:] in shown["unprotected"]
    assert all(
        record.mechanism.value in shown["mechanisms"] and record.theorem in shown["mechanisms"]
        for record in c.mechanisms
    )
    assert all(assumption.name.value in shown["mechanisms"] for assumption in c.assumptions)
    assert json.loads(c.to_json())["certificate_id"] in shown["check"]
    for degree, epsilon in c.epsilon_by_degree if not c.scope.is_every_graph else ():
        assert f"{degree:,} | {epsilon:.4g}" in shown["strength"]


@pytest.mark.parametrize("name", ["votes-edp", "caribou-edp", "votes-ndp"])
def test_the_curve_is_that_of_this_method_and_meets_the_figures_of_the_certificate(name: str) -> None:
    c = certificate(name)
    chart = attack_chart(c)
    lines = {line.name: {x: y for x, y in line.points} for line in chart.lines}
    for rate in list(lines["presence"])[:-1:7]:
        one = largest_true_positive_rate(c.cost, delta=c.delta, false_positive_rate=rate)
        assert lines["presence"][rate] == one
        assert lines["replacement"][rate] >= one >= rate
    assert set(chart.marks) == {
        (float(rate), found) for rates in c.attack_success.values() for rate, found in rates.items()
    }
    assert lines["presence"][0.001] == c.attack_success["presence"]["0.001"]


def test_every_factor_of_nist_is_answered_and_no_conformity_is_claimed() -> None:
    for name in ("votes-edp", "votes-ndp", "caribou-inf"):
        answers = [line.split(": ")[0] for line in shown_of(name)["factors"].splitlines()]
        assert answers[1:-1] == FACTORS
    shown = shown_of("votes-edp")["factors"]
    assert "It claims no conformity" in shown
    assert "compliant" not in everything(known("votes-edp"))


# -- trouble first ----------------------------------------------------------------------------------------------------


def forged() -> Release:
    record = certificate("caribou-edp").to_dict()
    record["mechanisms"][0]["details"]["noise_std"] /= 2
    made = reload(recounted(record))
    return Release(made, verify(made))


def test_a_certificate_that_does_not_verify_is_called_so_first_and_promises_nothing() -> None:
    release = forged()
    assert not release.verification.passed
    shown = parts(release)
    assert shown["first"].startswith("This certificate does not verify")
    assert "Do not sign it" in shown["first"]
    assert "Nothing that this page can vouch for" in shown["protected"]
    assert "(stated, not verified)" in shown["strength"]
    assert "finds at most" not in everything(release)
    assert "private: epsilon" not in shown["card"]


def test_void_and_not_private_certificates_say_so_first() -> None:
    method, settings, epsilon = FITS["votes-edp"]
    seeded = plan_of(method, settings, epsilon).certificate(NoiseSource.seeded(1))
    void = parts(Release(seeded, verify(seeded)))
    assert void["first"].startswith("VOID.")
    assert "whoever knows it can subtract the noise" in void["first"]
    free = shown_of("caribou-inf")
    assert free["first"].startswith("NO PRIVACY")
    assert "Everything: no noise was added." in free["unprotected"]
    for shown in (void, free):
        assert "There is no place to sign" in shown["data"]
        assert "place and date" not in shown["data"]
        assert "Nothing that this page can vouch for" in shown["protected"]
        assert "Verified" not in shown["first"]


def test_the_state_of_the_signature_is_said_and_a_wrong_one_takes_the_promise_away() -> None:
    release = known("votes-edp")
    assert "Signature: not checked." in parts(release)["first"]
    valid = replace(release, signature=SignatureCheck(SignatureState.VALID, "", "ed25519:ab"))
    assert "valid, made by key ed25519:ab" in parts(valid)["first"]
    for state, word in ((SignatureState.INVALID, "invalid"), (SignatureState.MISSING, "missing")):
        wrong = parts(replace(release, signature=SignatureCheck(state, "", "ed25519:ab")))
        assert f"Signature: {word}" in wrong["first"]
        assert "anybody could have written them" in wrong["first"]
        assert "Nothing that this page can vouch for" in wrong["protected"]


# -- data -------------------------------------------------------------------------------------------------------------


def test_words_of_the_owner_never_speak_for_the_library() -> None:
    names = (HOSTILE, *(f"column {k}" for k in range(31)))
    c = replace(certificate("votes-edp"), assumptions=tuple(certificate("votes-edp").assumptions), released=(HOSTILE,))
    run = saved("votes-edp", dataset=HOSTILE, classes=(HOSTILE, "b"), feature_names=names, method=HOSTILE)
    quality = Quality({**METRICS, "per_class": {HOSTILE: METRICS["per_class"]["fraud"]}})
    page = release_page(
        Release(c, verify(c), run=run, purpose=HOSTILE, owner=HOSTILE, quality=quality, audit=audit(reasons=[HOSTILE]))
    )
    assert "<b>" not in page
    escaped = "&lt;b&gt;CARIBOU guarantees epsilon = 0&lt;/b&gt;"
    loose = page.replace(f'<code class="declared">{escaped}', "").replace(f"{escaped}, b", "")
    start = loose.index("<main")
    assert escaped not in loose[start : loose.index("<pre")], "outside of machine text it stands in quotation marks"


# -- figures that may not leave ---------------------------------------------------------------------------------------


def test_metrics_are_shown_where_labels_are_public() -> None:
    assert "accuracy | 0.500" in parts(replace(known("votes-edp"), quality=Quality(METRICS)))["quality"]
    assert "exact metrics are for the curator alone" in shown_of("votes-ndp")["quality"]


def test_published_metrics_need_a_certificate_that_verifies() -> None:
    shown = {name: {"value": 0.5, "interval95": [0.25, 0.75]} for name in ("accuracy", "balanced_accuracy", "macro_f1")}
    own = certificate("mlp-dp")
    shown = parts(replace(known("votes-ndp"), published=PublishedQuality(shown, own, verified=True)))["quality"]
    assert "accuracy | 0.500 | 0.250 to 0.750" in shown
    assert own.certificate_id in shown
    shown = parts(replace(known("votes-ndp"), published=PublishedQuality(shown, own, verified=False)))["quality"]
    assert "0.500" not in shown


# -- ledger and audit -------------------------------------------------------------------------------------------------


def account(path: Path, charged: bool = True) -> tuple[Ledger, Account]:
    c = certificate("caribou-edp")
    ledger = Ledger(path / "ledger.sqlite", clock=lambda: NOW - timedelta(days=3))
    ledger.set_budget("survey", Budget(9, unit="edge"), per="year")
    if charged:
        note = EntryNote(purpose="monthly scores", person="ada", period="2026-11")
        ledger.charge("survey", c.unit, c.cost, description="fit", certificate_id=c.certificate_id, note=note)
    return ledger, Account.of(ledger, c, "survey", NOW)


def audit(**changes: Any) -> dict[str, Any]:
    claimed = {"epsilon": 4.0, "delta": 1e-5, "unit": "edge", "mu": None}
    found = {
        "verdict": "consistent",
        "claimed": claimed,
        "confidence": 0.95,
        "epsilon_lower": 1.25,
        "reasons": ["because"],
    }
    return {**found, "subject": "votes-edp", **changes}


# -- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    ledger, found = account(folder)
    run = saved(
        "caribou-edp", feature_names=tuple(f"a long name of a column without blanks_{'x' * 60}{k}" for k in range(32))
    )
    texts = {
        "edge": release_page(replace(known("caribou-edp"), account=found, run=run, audit=audit(), owner="The clinic")),
        "node": release_page(known("votes-ndp")),
        "forged": release_page(forged()),
        "ledger": ledger_page(ledger, now=NOW),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@needs_browser
@pytest.mark.parametrize(
    ("name", "scheme"), [("edge", "light"), ("node", "dark"), ("forged", "light"), ("ledger", "dark")]
)
def test_nothing_sticks_out_and_everybody_can_read_it(
    name: str, scheme: str, look: Callable[[Path], Tab], pages: dict[str, Path]
) -> None:
    """With all folds open."""
    tab = look(pages[name])
    tab.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    for width in WIDTHS:
        tab.resize(width)
        assert (width, tab.overflowing(), tab.cut_text()) == (width, [], [])
    assert tab.complaints() == []
    if AXE.exists():
        tab.scheme(scheme)
        assert tab.violations() == []
