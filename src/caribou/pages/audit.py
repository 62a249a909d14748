"""The report of an audit: one page (HTML) that needs no other file, one picture (PNG), and the figures (JSON)."""

from __future__ import annotations

import io
import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from caribou._files import atomic_folder
from caribou.audit.auditor import Outcome
from caribou.audit.claims import Claim
from caribou.audit.metrics import NO_BOUND, AttackResult
from caribou.audit.verdict import CONSISTENT, INCONCLUSIVE, VIOLATED, found_little
from caribou.errors import InputError, RunError
from caribou.model.state import check_target
from caribou.pages.base import percent, render
from caribou.pages.pictures import INK, PAGE_COLOURS, STYLE, Line, LineChart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5195", "#8C8C00")
"""Okabe and Ito's, which stay apart for colour-blind readers, and two more."""
SMALLEST_RATE = 1e-3
PNG, PAGE, FIGURES = "audit.png", "audit.html", "audit.json"


def write_report(outcome: Outcome, folder: str | os.PathLike[str]) -> Path:
    """Write picture, page and figures into a new (or empty) folder, all of them or nothing."""
    target = check_target(folder)
    picture, text = png(outcome), audit_page(outcome)
    try:
        with atomic_folder(target) as temporary:
            (temporary / PNG).write_bytes(picture)
            (temporary / PAGE).write_text(text, encoding="utf-8")
            (temporary / FIGURES).write_text(json.dumps(outcome.to_json(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(f"report cannot be written to {target}: {error.strerror or error}") from error
    return target


# -- the picture ---------------------------------------------------------------------------------------------------


def png(outcome: Outcome) -> bytes:
    """The picture as bytes."""
    import matplotlib.style

    buffer = io.BytesIO()
    with matplotlib.style.context(STYLE):
        draw(outcome).savefig(buffer, format="png", dpi=140)
    return buffer.getvalue()


def draw(outcome: Outcome) -> Figure:
    """Left: what attacks reach, below the curve that the claim allows. Right: what is proven of the claimed epsilon."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_rates(left, outcome)
    _draw_bounds(right, outcome)
    colour = "#B00020" if outcome.verdict.word == VIOLATED else "black"
    figure.suptitle(f"{outcome.subject}: {outcome.verdict.word}", color=colour, fontweight="bold")
    return figure


def _draw_rates(axes: Axes, outcome: Outcome) -> None:
    claim = outcome.verdict.claim
    rates = np.geomspace(SMALLEST_RATE, 0.999, 120)
    allowed = _allowed_curve(claim, rates)
    axes.fill_between(rates, allowed, 1, color="0.9", label="excluded by the claim")
    axes.plot(rates, allowed, color="black", linewidth=1.6, label="claimed: the most that any attack reaches")
    axes.plot(rates, rates, color="0.5", linestyle=":", label="guessing")
    for colour, (name, result) in zip(itertools.cycle(COLOURS), outcome.attacks.items(), strict=False):
        fpr, tpr = result.roc
        keep = fpr >= SMALLEST_RATE
        style, words = ("-", "") if result.bounded else ("--", ", no bound")
        label = f"{name} (AUC {result.auc:.2f}{words})"
        axes.step(fpr[keep], tpr[keep], where="post", color=colour, linestyle=style, label=label)
    axes.set(xscale="log", yscale="log", xlim=(SMALLEST_RATE, 1), ylim=(SMALLEST_RATE, 1.05))
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    axes.grid(alpha=0.3, which="both", linewidth=0.5)
    axes.legend(loc="lower right", fontsize=8)
    axes.set_title("What attacks reach, and what the claim allows", fontsize=10)


def _allowed_curve(claim: Claim, rates: np.ndarray) -> np.ndarray:
    return np.array([claim.allowed(float(rate)) for rate in rates])


def proven_bounds(outcome: Outcome) -> dict[str, float]:
    """The epsilon that every game proved, by name."""
    return {name: proof.epsilon_lower for name, proof in outcome.proofs.items()}


def _draw_bounds(axes: Axes, outcome: Outcome) -> None:
    claimed, bounds = outcome.verdict.claim.epsilon, proven_bounds(outcome)
    names = list(bounds) or ["no game"]
    values = [bounds.get(name, 0.0) for name in names]
    finite = [value for value in (*values, claimed) if math.isfinite(value)]
    top = 1.15 * max(finite, default=1.0)
    colours = ["#B00020" if value > claimed else "#0072B2" for value in values]
    axes.barh(names, [min(value, top) for value in values], color=colours, height=0.55)
    if math.isfinite(claimed):
        axes.axvline(claimed, color="black", linewidth=1.6)
    plain = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"}
    for place, value in enumerate(values):
        at = min(value, top) + 0.015 * top
        axes.text(at, place, f"ε ≥ {value:.2f}", va="center", fontsize=9, bbox=plain)
    if math.isfinite(claimed):
        axes.text(claimed, -0.62, f"claimed ε = {claimed:g}", ha="center", va="center", fontsize=9, bbox=plain)
    axes.set_xlim(0, 1.25 * top)
    axes.set_ylim(len(names) - 0.4, -0.9)
    axes.set_xlabel("ε at the claimed δ")
    axes.set_title(f"Proven lower bounds (confidence {outcome.verdict.confidence:g})", fontsize=10)


# -- the page ------------------------------------------------------------------------------------------------------

LINE_COLOURS = tuple(PAGE_COLOURS[name] for name in ("accent", "warn", "good", "bad"))
"""Of attacks, which are no methods and have none of their colours; further ones are dashed."""
MOST_POINTS = 150
"""Of a line: more are seen by nobody."""


def audit_page(outcome: Outcome) -> str:
    """The whole report as one HTML text that loads nothing."""
    verdict = outcome.verdict
    words, look = meaning(verdict.word, verdict.epsilon_lower, verdict.claim.epsilon)
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
        meaning=words,
        look=look,
        titles=titles,
        rates=rates_chart(outcome),
        proven=[
            (name, f"{value:.3g}", f"{verdict.claim.epsilon:g}", _of_game(value, verdict.claim.epsilon))
            for name, value in proven_bounds(outcome).items()
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


def _of_game(value: float, claimed: float) -> str:
    return "more than claimed" if value > claimed else "within the claim"


def meaning(word: str, proven: float, claimed: float) -> tuple[str, str]:
    """A verdict in words, and how they look: green only where something was found within the claim."""
    if word == VIOLATED:
        return (
            "The claim is rejected: an attack proves more than was claimed. Either the claim is false, or the code does not do "
            "what it claims. Do not sign.",
            "bad",
        )
    if word == CONSISTENT and found_little(proven, claimed):
        return (
            "The evidence is consistent with the claim, but says little: the attacks that were tried found next to nothing. "
            "That is not a proof of the claim: another attack may see more.",
            "warn",
        )
    if word == CONSISTENT:
        return (
            "The evidence is consistent with the claim: no attack that was tried shows more, and the runs were enough to see "
            "twice as much. That is not a proof of the claim: another attack may see more.",
            "good",
        )
    if word == INCONCLUSIVE:
        return "The claim is not rejected, but the evidence is too thin to say that it was put to the test.", "warn"
    raise InputError(f"verdict must be {VIOLATED}, {CONSISTENT} or {INCONCLUSIVE}, got {word!r}")


def audit_figures(document: Any) -> Mapping[str, Any]:
    """What ``caribou audit --out`` wrote to audit.json, checked for what the release page needs."""
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
