"""The report of an audit: one picture (PNG) and one page (HTML) that needs no other file, beside the figures (JSON)."""

from __future__ import annotations

import base64
import html
import io
import itertools
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from caribou._files import atomic_folder
from caribou.audit.auditor import Outcome
from caribou.audit.claims import Claim
from caribou.audit.metrics import NO_BOUND
from caribou.audit.verdict import CONSISTENT, INCONCLUSIVE, VIOLATED
from caribou.errors import InputError, RunError
from caribou.saved_model import check_target

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
    picture = png(outcome)
    try:
        with atomic_folder(target) as temporary:
            (temporary / PNG).write_bytes(picture)
            (temporary / PAGE).write_text(page(outcome, picture), encoding="utf-8")
            (temporary / FIGURES).write_text(json.dumps(outcome.to_json(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(f"report cannot be written to {target}: {error.strerror or error}") from error
    return target


# -- the picture ---------------------------------------------------------------------------------------------------


def png(outcome: Outcome) -> bytes:
    """The picture as bytes."""
    import matplotlib.style

    buffer = io.BytesIO()
    with matplotlib.style.context("caribou.pages.caribou"):
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

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #8886; padding: .35rem .6rem; text-align: right; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.verdict { font-size: 1.4rem; font-weight: 700; padding: .6rem 1rem; border-radius: .4rem; color: white; display: inline-block; }
.consistent { background: #00664b; } .VIOLATED { background: #b00020; } .inconclusive { background: #8a5a00; }
.scroll { overflow-x: auto; } .scroll img { min-width: 40rem; }
img { width: 100%; background: white; border-radius: .4rem; }
code { background: #8882; padding: .1rem .3rem; border-radius: .2rem; overflow-wrap: anywhere; }
"""


def page(outcome: Outcome, picture: bytes) -> str:
    """The whole report as one HTML document."""
    verdict = outcome.verdict
    embedded = base64.b64encode(picture).decode("ascii")
    reasons = "".join(f"<li>{html.escape(reason)}</li>" for reason in verdict.reasons)
    more = f"<p>{verdict.more_runs:,} runs per graph would decide.</p>" if verdict.more_runs else ""
    again = f"<h2>Reproduce</h2><p><code>{html.escape(verdict.reproduce)}</code></p>" if verdict.reproduce else ""
    skipped = "".join(f"<li>{html.escape(k)}: {html.escape(v)}</li>" for k, v in outcome.skipped.items())
    notes = "".join(f"<p>{html.escape(note[0].upper() + note[1:])}.</p>" for note in outcome.notes)
    left_out = f"<h2>Not done</h2><ul>{skipped}</ul>" if skipped else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Audit of {html.escape(outcome.subject)}</title><style>{STYLE}</style></head><body>"
        f"<h1>Audit of {html.escape(outcome.subject)}</h1>"
        f'<p><span class="verdict {verdict.word}">{verdict.word}</span></p>'
        f"<p>Claimed: {html.escape(verdict.claim.describe())}. Proven at confidence {verdict.confidence:g} (of this "
        f"one audit): {html.escape(verdict.proven())}.</p><p>{_meaning(verdict.word)}</p><ul>{reasons}</ul>{more}{notes}"
        '<div class="scroll" tabindex="0"><img alt="Rates of all attacks beside the claimed curve, and proven lower bounds" '
        f'src="data:image/png;base64,{embedded}"></div>'
        f'<h2>Attacks</h2><div class="scroll" tabindex="0">{_table(outcome)}</div>{_notes(outcome)}'
        f"{left_out}{again}</body></html>\n"
    )


def _meaning(word: str) -> str:
    if word == VIOLATED:
        return (
            "The claim is rejected: an attack proves more than was claimed. Either the claim is false, or the code does not do "
            "what it claims."
        )
    if word == CONSISTENT:
        return (
            "The evidence is consistent with the claim: no attack that was tried shows more, and the runs were enough to see "
            "twice as much. That is not a proof of the claim: another attack may see more."
        )
    if word == INCONCLUSIVE:
        return "The claim is not rejected, but the evidence is too thin to say that it was put to the test."
    raise InputError(f"verdict must be {VIOLATED}, {CONSISTENT} or {INCONCLUSIVE}, got {word!r}")


def _table(outcome: Outcome) -> str:
    rates = sorted({rate for result in outcome.attacks.values() for rate in result.tpr_at_fpr})
    head = "".join(f"<th>TPR at FPR {100 * rate:g}&nbsp;%</th><th>allowed</th>" for rate in rates)
    rows = "".join(_row(name, result, rates) for name, result in outcome.attacks.items())
    return f"<table><thead><tr><th>attack</th><th>AUC (95 %)</th>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(name: str, result: Any, rates: list[float]) -> str:
    cells = ""
    for rate in rates:
        reached, allowed = result.tpr_at_fpr.get(rate, math.nan), result.tpr_allowed.get(rate, math.nan)
        cells += f"<td>{100 * reached:.2f} %</td><td>{f'{100 * allowed:.2f} %' if result.bounded else 'no bound'}</td>"
    low, high = result.auc_interval
    return f"<tr><td>{html.escape(name)}</td><td>{result.auc:.3f} ({low:.3f}, {high:.3f})</td>{cells}</tr>"


def _notes(outcome: Outcome) -> str:
    notes = "".join(
        f"<li><b>{html.escape(name)}</b>: {html.escape(r.note)}</li>" for name, r in outcome.attacks.items()
    )
    small = "A measured rate is an estimate: at a false positive rate of 0.1 % a thousand runs hold one false alarm."
    unbounded = "" if all(result.bounded for result in outcome.attacks.values()) else f" No bound: {NO_BOUND}"
    return f"<ul>{notes}</ul><p>{small} Only the lower bounds above are proven.{unbounded}</p>"
