"""The pictures of the first page and of the gallery, from stored records and sample runs. `make pictures`."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from reproduction.pages import ROOT
from reproduction.panels import FEATURES, OURS, PAPERS, RUN_HERE, real_panels
from sample_runs import FRAUD, SIMULATION
from svg import label_ends, save, use_style

import caribou as cb
from caribou.experiments.records import read_all
from caribou.experiments.report.summary import Mean
from caribou.pages.palette import COLOURS, MARKERS, OTHER_COLOUR, family
from caribou.privacy.accounting import attack_rate

LINES = {OURS: "-", PAPERS: "--", RUN_HERE: "-", FEATURES: ":"}
"""How the lines of a panel are drawn, and in which order they are named."""
SHORT = {OURS: "votes, ours", PAPERS: "caribou, as printed", RUN_HERE: "caribou, run here", FEATURES: "features alone"}
EPSILONS = (1, 2, 4, 8, 16, 32)
SIZE = (4.5, 3.0)
"""Of a picture of the gallery: its letters can be read on a phone. [inches]"""
Line = Mapping[Any, Mean]


def draw_lines(axes: Axes, lines: Mapping[str, Line]) -> list[tuple[float, float, str, str]]:
    """One data set: accuracy in % against epsilon, with intervals. Returns the ends of lines."""
    ends = []
    for label, style in LINES.items():
        if label not in lines:
            continue
        line, colour = lines[label], COLOURS[family(label)]
        x = sorted(line)
        y = [100 * line[e].value for e in x]
        marker = None if label == FEATURES else MARKERS[family(label)]
        axes.plot(
            x, y, style, color=colour, marker=marker, markersize=3.5, fillstyle="none" if style == "--" else "full"
        )
        for e in x:
            if (half := line[e].shown_half) is not None:
                low, high = (100 * (line[e].value + sign * half) for sign in (-1, 1))
                axes.plot([e, e], [low, high], color=colour, linewidth=1, alpha=0.7)
        ends.append((x[-1], y[-1], SHORT[label], colour))
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 4, 16], ["1", "4", "16"])
    axes.margins(y=0.12)
    return ends


def accuracy(records: Mapping[str, Sequence[Any]]) -> None:
    """The picture of the first page: a panel per real data set, side by side, or in two columns for phones."""
    panels = real_panels(records, "edge-accuracy")
    text = described(panels)
    for target, size, shape in (("accuracy", (11.4, 2.7), (1, 5)), ("accuracy-narrow", (4.3, 6.4), (3, 2))):
        figure = Figure(figsize=size)
        places = list(figure.subplots(*shape).flat)
        for place, (title, lines) in zip(places, panels.items(), strict=False):
            ends = draw_lines(place, lines)
            place.set_title(short(title))
            if shape[0] == 1 and title == list(panels)[-1]:
                low, high = place.get_ylim()
                label_ends(place, ends, 0.11 * (high - low))
        for place in places[len(panels) :]:
            place.axis("off")
            handles = [
                place.plot(
                    [],
                    [],
                    s,
                    color=COLOURS[family(label)],
                    marker=None if label == FEATURES else MARKERS[family(label)],
                )[0]
                for label, s in LINES.items()
            ]
            place.legend(handles, SHORT.values(), loc="center", fontsize=9)
        figure.supylabel("test accuracy in %", fontsize=9)
        figure.supxlabel("ε: less is more private (edge level)", fontsize=9)
        save(figure, target, "Accuracy against epsilon on real graphs", text)


def short(title: str) -> str:
    """A data set without what its title says besides; the page says it.

    >>> short("Berkeley13 (stands in for Facebook)")
    'Berkeley13'
    """
    return title.partition(" (")[0]


def described(panels: Mapping[str, Mapping[str, Line]]) -> str:
    """What the picture says, in words, from the same figures."""
    found = []
    for title, lines in panels.items():
        at = {label: line[4].value for label, line in lines.items() if 4 in line}
        said = [f"{SHORT[label]} {100 * at[label]:.1f} %" for label in LINES if label in at]
        found.append(f"{title}: {', '.join(said)}")
    return f"Mean test accuracy at epsilon 4. {'. '.join(found)}."


def social(records: Mapping[str, Sequence[Any]]) -> None:
    """Friendships of a university, which are protected; one panel of the same records."""
    panels = real_panels(records, "edge-accuracy")
    title = next(name for name in panels if name.startswith("Berkeley"))
    figure = Figure(figsize=SIZE)
    axes = figure.subplots()
    # what the paper printed is of another graph
    lines = {label: line for label, line in panels[title].items() if label != PAPERS}
    ends = draw_lines(axes, lines)
    axes.set_xticks(EPSILONS, list(map(str, EPSILONS)))
    low, high = axes.get_ylim()
    label_ends(axes, ends, 0.08 * (high - low))
    axes.set_xlabel("ε of one friendship")
    axes.set_title("Class year of students, test accuracy in %", loc="left")
    save(figure, "gallery-social", "Friendships are protected, and still help", described({title: lines}))


def fraud() -> None:
    """Average precision on the generated bank, and what an attacker finds at the same epsilon."""
    with FRAUD.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    votes = [row for row in rows if row["method"] == "votes-edp"]
    alone = next(row for row in rows if row["method"] == "mlp")
    x = [float(row["epsilon"]) for row in votes]
    y = [float(row["average_precision"]) for row in votes]
    bars = [
        [v - float(r["low"]) for v, r in zip(y, votes, strict=True)],
        [float(r["high"]) - v for v, r in zip(y, votes, strict=True)],
    ]
    figure = Figure(figsize=SIZE)
    axes = figure.subplots()
    axes.errorbar(x, y, yerr=bars, color=COLOURS["votes"], marker="o")
    base = float(alone["average_precision"])
    axes.axhspan(float(alone["low"]), float(alone["high"]), color=COLOURS["mlp"], alpha=0.15, linewidth=0)
    axes.plot(x, [base] * len(x), ":", color=COLOURS["mlp"])
    axes.set_xscale("log", base=2)
    axes.set_xticks(x, [f"{e:g}" for e in x])
    low, high = axes.get_ylim()
    ends = [(x[-1], y[-1], "votes, ours", COLOURS["votes"]), (x[-1], base, "features alone", COLOURS["mlp"])]
    label_ends(axes, ends, 0.08 * (high - low))
    axes.set_xlabel("ε of one transfer")
    axes.set_title("Fraud found: average precision on test accounts", loc="left")
    said = ", ".join(f"{p:.2f} at epsilon {e:g}" for e, p in zip(x, y, strict=True))
    text = f"Mean of {alone['seeds']} splits with 95 % intervals. Features alone: {base:.2f}. Votes: {said}."
    save(figure, "gallery-fraud", "Fraud in a generated bank", text)


def health() -> None:
    """Node level in a simulated network of contacts: accuracy of three methods with intervals."""
    stored = json.loads(SIMULATION.read_text(encoding="utf-8"))
    figures = [f for f in stored["figures"] if f["unit"] == "node"]
    names = {"votes-ndp": "votes", "caribou-ndp": "caribou", "mlp-dp": "features alone"}
    figure = Figure(figsize=SIZE)
    axes = figure.subplots()
    ends, said = [], []
    for shift, (method, name) in zip((0.97, 1.0, 1.03), names.items(), strict=True):
        line = sorted((f for f in figures if f["method"] == method), key=lambda f: f["epsilon"])
        x, y = [f["epsilon"] for f in line], [100 * f["mean"] for f in line]
        bars = [[100 * (f["mean"] - f["low"]) for f in line], [100 * (f["high"] - f["mean"]) for f in line]]
        colour = COLOURS[family(method)]
        style = ":" if method == "mlp-dp" else "-"
        axes.errorbar(
            [shift * e for e in x], y, yerr=bars, color=colour, marker=MARKERS[family(method)], linestyle=style
        )
        ends.append((x[-1], y[-1], name, colour))
        said.append(f"{name} {y[0]:.0f} % at epsilon {x[0]:g} and {y[-1]:.0f} % at {x[-1]:g}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(x, [f"{e:g}" for e in x])
    low, high = axes.get_ylim()
    label_ends(axes, ends, 0.08 * (high - low))
    axes.set_xlabel("ε of one patient with everything about them")
    axes.set_title("Test accuracy in %, a simulated network", loc="left")
    declared = stored["declared"]
    text = f"{declared['nodes']} patients, {declared['seeds']} graphs, 95 % intervals: {'; '.join(said)}."
    save(figure, "gallery-health", "Node level: a person with everything is protected", text)


def research() -> None:
    """What depth costs: the convergent bound against one that grows with every hop."""
    hops = (1, 2, 4, 8, 16, 32, 64, 128)
    rows = cb.plan(4, hops=hops, degree_floor=20).rows
    lines = {
        "linear composition": ([row.linear_gdp_noise_multiplier for row in rows], OTHER_COLOUR, "--"),
        "convergent": ([row.noise_multiplier for row in rows], COLOURS["caribou"], "-"),
    }
    figure = Figure(figsize=SIZE)
    axes = figure.subplots()
    for y, colour, style in lines.values():
        axes.plot(hops, y, style, color=colour, marker="s" if style == "-" else None)
    axes.set_xscale("log", base=2)
    axes.set_xticks(hops, list(map(str, hops)))
    low, high = axes.get_ylim()
    label_ends(axes, [(hops[-1], y[-1], name, colour) for name, (y, colour, _) in lines.items()], 0.08 * (high - low))
    axes.set_xlabel("hops K")
    axes.set_title("Noise per unit of sensitivity at ε = 4", loc="left")
    ends = "; ".join(f"{name} {y[0]:.2f} at 1 hop and {y[-1]:.2f} at {hops[-1]}" for name, (y, _, _) in lines.items())
    save(figure, "gallery-research", "Depth converges", f"Contraction 0.9, delta 1e-5. {ends}.")


def attacker() -> None:
    """What epsilon means: how many of 100 an attacker finds who may be wrong once in a hundred."""
    x = [0.25, 0.5, 1, 2, 3, 4, 6, 8]
    figure = Figure(figsize=SIZE)
    axes = figure.subplots()
    ends, said = [], []
    for gaussian, name, colour in (
        (False, "pure ε-DP (votes)", COLOURS["votes"]),
        (True, "Gaussian noise", COLOURS["caribou"]),
    ):
        y = [100 * attack_rate(epsilon=e, delta=1e-5, false_positive_rate=0.01, gaussian=gaussian) for e in x]
        axes.plot(x, y, color=colour, marker="s" if gaussian else "o")
        ends.append((x[-1], y[-1], name, colour))
        said.append(f"{name}: {y[2]:.0f} at epsilon 1, {y[5]:.0f} at 4, {y[-1]:.0f} at 8")
    axes.set_ylim(0, 105)
    label_ends(axes, ends, 8)
    axes.set_xlabel("ε")
    axes.set_title("Found at most, of 100, at 1 % false alarms", loc="left")
    save(figure, "gallery-attacker", "What an attacker finds", "; ".join(said) + ".")


if __name__ == "__main__":
    use_style()
    stored = read_all(ROOT / "reproduction" / "results")[0]
    accuracy(stored)
    social(stored)
    fraud()
    health()
    research()
    attacker()
