"""The report of an audit: one page (HTML) that needs no other file, and its figures (JSON)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from caribou.audit.auditor import Outcome
from caribou.audit.metrics import NO_BOUND, AttackResult
from caribou.audit.verdict import CONSISTENT, INCONCLUSIVE, VIOLATED, found_little
from caribou.errors import InputError, RunError
from caribou.machine.files import atomic_folder
from caribou.model.state import check_target
from caribou.pages.base import percent, render
from caribou.pages.pictures import INK, PAGE_COLOURS, Line, LineChart

SMALLEST_RATE = 1e-3
PAGE, FIGURES = "audit.html", "audit.json"


def write_report(outcome: Outcome, folder: str | os.PathLike[str]) -> Path:
    """Write page and figures into a new (or empty) folder, both or nothing."""
    target = check_target(folder)
    text = audit_page(outcome)
    try:
        with atomic_folder(target) as temporary:
            (temporary / PAGE).write_text(text, encoding="utf-8")
            (temporary / FIGURES).write_text(json.dumps(outcome.to_json(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(f"report cannot be written to {target}: {error.strerror or error}") from error
    return target


# -- the page ------------------------------------------------------------------------------------------------------

LINE_COLOURS = tuple(PAGE_COLOURS[name] for name in ("accent", "warn", "good", "bad"))
"""Of attacks, which are no methods and have none of their colours; further ones are dashed."""
MOST_POINTS = 150
"""Of a line: more are seen by nobody."""


def audit_page(outcome: Outcome) -> str:
    """The whole report as one HTML text that loads nothing."""
    verdict = outcome.verdict
    titles = {
        "reached": "What attacks reach, and what the claim allows",
        "proven": "What is proven",
        "attacks": "Attacks",
        **({"skipped": "Not done"} if outcome.skipped else {}),
        **({"reproduce": "Reproduce"} if verdict.reproduce else {}),
    }
    rates = sorted({rate for result in outcome.attacks.values() for rate in result.tpr_at_fpr})
    return render(
        "audit.html",
        title="Audit",
        outcome=outcome,
        verdict=verdict,
        little=found_little(verdict.epsilon_lower, verdict.claim.epsilon),
        titles=titles,
        rates=rates_chart(outcome),
        proven=[
            (
                *(name, f"{proof.epsilon_lower:.3g}", f"{verdict.claim.epsilon:g}"),
                _of_game(proof.epsilon_lower, verdict.claim.epsilon, verdict.word),
            )
            for name, proof in outcome.proofs.items()
        ],
        head=[
            "attack",
            "AUC (95 %)",
            *(title for rate in rates for title in (f"TPR at FPR {100 * rate:g} %", "allowed")),
        ],
        attacks=[_row(name, result, rates) for name, result in outcome.attacks.items()],
        bounded=all(result.bounded for result in outcome.attacks.values()),
        no_bound=NO_BOUND,
    )


def _of_game(value: float, claimed: float, word: str) -> str:
    """What a game says by itself: a claim that was not put to the test is not kept either."""
    if value > claimed:
        return "more than claimed"
    return "too little to decide" if word == INCONCLUSIVE else "within the claim"


def audit_figures(folder: Path) -> Mapping[str, Any]:
    """What ``caribou audit --out`` wrote to audit.json, checked for what the release page needs."""
    file = folder / FIGURES
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"audit must be a JSON file that can be read (--audit), got {str(file)!r}: {error}") from error
    needed = ("verdict", "claimed", "confidence", "epsilon_lower", "reasons", "subject")
    missing = [name for name in needed if not isinstance(document, Mapping) or name not in document]
    known = (VIOLATED, CONSISTENT, INCONCLUSIVE)
    if missing or document["verdict"] not in known or not isinstance(document["claimed"], Mapping):
        raise InputError(
            f"audit must be the audit.json of caribou audit --out (--audit), got one without {', '.join(missing) or 'a verdict'}"
        )
    return dict(document)


def rates_chart(outcome: Outcome) -> LineChart:
    """True against false positive rates: every attack, the curve that the claim allows, and guessing."""
    claim = outcome.verdict.claim
    rates = np.geomspace(SMALLEST_RATE, 1.0, 40)
    allowed = [(float(rate), claim.allowed(min(float(rate), 0.999))) for rate in rates]
    lines = [
        Line("allowed by the claim", allowed, INK),
        Line("guessing", [(SMALLEST_RATE, SMALLEST_RATE), (1, 1)], PAGE_COLOURS["dim"], ":"),
    ]
    findings = []
    for place, (name, result) in enumerate(outcome.attacks.items()):
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        style = "-" if place < len(LINE_COLOURS) else "--"
        label = f"{name}, AUC {result.auc:.2f}" + ("" if result.bounded else ", no bound")
        points = _thinned(result)
        if points:
            lines.append(Line(label, points, colour, style, steps=True))
        findings.append(f"{label}: {percent(result.tpr_at_fpr.get(0.01, math.nan), 2)} at 1 % false positives")
    words = (
        f"True positive rates against false positive rates. The claim allows {percent(claim.allowed(0.01), 2)} at 1 %. "
        f"{'; '.join(findings)}."
    )
    return LineChart(words, "false positive rate", "true positive rate", tuple(lines), log="xy", shares=True)


def _thinned(result: AttackResult) -> list[list[float]]:
    """The curve of an attack where a logarithmic axis shows it, with few enough points."""
    fpr, tpr = result.roc
    found = [[float(x), float(y)] for x, y in zip(fpr, tpr, strict=True) if x >= SMALLEST_RATE and y >= SMALLEST_RATE]
    if len(found) <= MOST_POINTS:
        return found
    places = np.unique(np.searchsorted([x for x, _ in found], np.geomspace(SMALLEST_RATE, 1.0, MOST_POINTS)))
    return [found[min(place, len(found) - 1)] for place in places.tolist()]


def _row(name: str, result: AttackResult, rates: Sequence[float]) -> tuple[str, ...]:
    cells = []
    for rate in rates:
        allowed = percent(result.tpr_allowed.get(rate, math.nan), 2) if result.bounded else "no bound"
        cells += [percent(result.tpr_at_fpr.get(rate, math.nan), 2), allowed]
    low, high = result.auc_interval
    return (name, f"{result.auc:.3f} ({low:.3f}, {high:.3f})", *cells)
