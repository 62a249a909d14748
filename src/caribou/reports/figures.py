"""Figures, drawn with Matplotlib into SVG and PNG. Each is given series of numbers and says in words what it shows."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from caribou.reports.blocks import Figure
from caribou.reports.summary import MIN_RUNS, Mean

COLOURS = {
    "votes": "#0b6e99", "caribou": "#c2410c", "gap": "#4d7c0f", "sage": "#7e22ce",
    "dpdgc": "#a16207", "lapgraph": "#be185d", "mlp": "#6b7280",
}  # fmt: skip
MARKERS = {"votes": "o", "caribou": "s", "gap": "^", "sage": "D", "dpdgc": "v", "lapgraph": "P", "mlp": "x"}
MORE_MARKERS = ("o", "s", "^", "D", "v", "P", "x")
STROKES = ("-", "--", ":", "-.")
LEAST_SPAN = 5
"""A scale of colours spans at least this, so that chance does not look like an effect. [percentage points]"""
NARROWEST = 640
"""Below this width the text of three panels cannot be read: the figure scrolls instead. [px]"""

Series = Mapping[Any, Mean]


def family(method: str) -> str:
    """The method without its privacy unit, and without what a label says besides.

    >>> family("gap-ndp"), family("mlp"), family("caribou, exact")
    ('gap', 'mlp', 'caribou')
    """
    return re.split("[-,]", method)[0]


def style(name: str) -> dict[str, Any]:
    """Colour and marker of a method: colour is never the only difference."""
    return {"color": COLOURS.get(family(name), "#374151"), "marker": MARKERS.get(family(name), "."), "markersize": 5}


def styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A style per label, no two alike: labels of one family differ by stroke, and by colour where there is one family only."""
    from matplotlib import colormaps

    families = {family(label) for label in labels}
    found, seen = {}, dict.fromkeys(families, 0)
    for label in labels:
        k = seen[family(label)]
        seen[family(label)] += 1
        found[label] = {**style(label), "linestyle": STROKES[k % len(STROKES)]}
        if len(families) == 1 and len(labels) > 1:
            found[label]["color"] = colormaps["viridis"](0.9 * k / (len(labels) - 1))
            found[label]["marker"] = MORE_MARKERS[k % len(MORE_MARKERS)]
    return found


def curves(
    name: str,
    title: str,
    panels: Mapping[str, Mapping[str, Series]],
    *,
    x: str,
    y: str = "test accuracy, %",
    log: bool = True,
    lines: Mapping[str, Mapping[str, float]] | None = None,
    percent: bool = True,
    caption: str = "",
) -> Figure:
    """One panel per key, one line with its 95 % interval per method; ``lines``: horizontal lines by panel and label."""

    looks = styles(list(dict.fromkeys(method for methods in panels.values() for method in methods)))

    def draw(axes: Sequence[Any]) -> None:
        for ax, (panel, methods) in zip(axes, panels.items(), strict=False):
            for method, series in methods.items():
                _line(ax, method, series, 100 if percent else 1, looks[method])
            for label, height in (lines or {}).get(panel, {}).items():
                ax.axhline(100 * height, linestyle=":", linewidth=1.2, color=style(label)["color"], label=label)
            ax.set_title(panel, fontsize=10)
            ax.set_xlabel(x)
            if log:
                ax.set_xscale("log", base=2)
                ticks = sorted({v for series in methods.values() for v in series})
                ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
            ax.grid(alpha=0.25)
            if percent:
                low, high = ax.get_ylim()
                ax.set_ylim(max(0, low), min(100, high))
        axes[0].set_ylabel(y)

    words = "; ".join(f"{panel}: {_in_words(methods, percent)}" for panel, methods in panels.items())
    return _figure(name, title, len(panels), draw, f"{title}. {words}", caption)


def _line(ax: Any, method: str, series: Series, factor: float, look: Mapping[str, Any]) -> None:
    xs = sorted(series)
    means = [series[v].value * factor for v in xs]
    widths = [0.0 if series[v].runs < MIN_RUNS else series[v].half_width * factor for v in xs]
    ax.errorbar(xs, means, yerr=widths, label=method, linewidth=1.4, capsize=2, **look)


def boxes(
    name: str,
    title: str,
    panels: Mapping[str, tuple[Mapping[Any, Sequence[float]], Series]],
    *,
    x: str,
    guessing: float,
    caption: str = "",
) -> Figure:
    """One panel per key, all on one scale: boxes over settings (in share), a line of means beside them, and what guessing has."""
    shares = [
        v for spread, line in panels.values() for s in (*spread.values(), [m.value for m in line.values()]) for v in s
    ]
    low, high = 100 * min([guessing, *shares]) - 1, 100 * max([guessing, *shares]) + 1

    def draw(axes: Sequence[Any]) -> None:
        for ax, (panel, (spread, line)) in zip(axes, panels.items(), strict=False):
            places = {value: k for k, value in enumerate(sorted({*spread, *line}))}
            values = sorted(spread)
            ax.boxplot(
                [[100 * v for v in spread[value]] for value in values],
                positions=[places[value] for value in values],
                widths=0.55,
                patch_artist=True,
                boxprops={"facecolor": "#fed7aa", "edgecolor": COLOURS["caribou"]},
                medianprops={"color": COLOURS["caribou"]},
                flierprops={"markersize": 2},
                manage_ticks=False,
            )
            if line:
                xs = sorted(line)
                ax.plot([places[v] for v in xs], [100 * line[v].value for v in xs], label="gap", **style("gap"))
            ax.plot([], [], color=COLOURS["caribou"], linewidth=6, alpha=0.5, label="caribou, over settings")
            ax.axhline(100 * guessing, linestyle=":", linewidth=1.2, color="#374151", label="guessing")
            ax.set_ylim(low, high)
            ax.set_xticks(list(places.values()), [f"{v:g}" for v in places])
            ax.set_title(panel, fontsize=10)
            ax.set_xlabel(x)
            ax.grid(alpha=0.25)
        axes[0].set_ylabel("test accuracy, %")

    words = []
    for panel, (spread, line) in panels.items():
        medians = ", ".join(f"{x} {v:g}: {100 * sorted(s)[len(s) // 2]:.0f}" for v, s in sorted(spread.items()))
        beside = ", ".join(f"{v:g}: {100 * m.value:.0f}" for v, m in sorted(line.items()))
        words.append(f"{panel}: medians of caribou by {medians}; gap {beside or 'not run'}")
    return _figure(name, title, len(panels), draw, f"{title}. {'; '.join(words)}", caption)


def heat_maps(
    name: str,
    title: str,
    panels: Mapping[tuple[str, str], tuple[Sequence[Any], Sequence[Any], Mapping[Any, Mean]]],
    caption: str = "",
) -> Figure:
    """One panel per (parameter, data set): rows, columns and means by (row, column). A data set has one scale of colours."""
    scales: dict[str, list[float]] = {}
    for (_, dataset), (_, _, means) in panels.items():
        scales.setdefault(dataset, []).extend(100 * mean.value for mean in means.values())

    def draw(axes: Sequence[Any]) -> None:
        for ax, ((parameter, dataset), (rows, columns, means)) in zip(axes, panels.items(), strict=False):
            grid = [[100 * means[r, c].value if (r, c) in means else float("nan") for c in columns] for r in rows]
            low = min(scales[dataset])
            high = max(*scales[dataset], low + LEAST_SPAN)
            image = ax.imshow(grid, aspect="auto", cmap="viridis", vmin=low, vmax=high)
            ax.figure.colorbar(image, ax=ax)
            for i, row in enumerate(grid):
                for j, value in enumerate(row):
                    colour = "black" if value > (low + high) / 2 else "white"
                    ax.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=7, color=colour)
            ax.set_xticks(range(len(columns)), [f"{c:g}" for c in columns])
            ax.set_yticks(range(len(rows)), [f"{r:g}" for r in rows])
            ax.set_xlabel("epsilon")
            ax.set_ylabel(parameter)
            ax.set_title(f"{parameter} on {dataset}", fontsize=10)

    words = "; ".join(
        f"{parameter} on {dataset}: "
        + ", ".join(f"{r:g} at epsilon {c:g}: {100 * m.value:.1f}" for (r, c), m in means.items())
        for (parameter, dataset), (_, _, means) in panels.items()
    )
    return _figure(name, title, len(panels), draw, f"{title}, test accuracy in %. {words}", caption, legend=False)


def _figure(
    name: str,
    title: str,
    panels: int,
    draw: Callable[[Sequence[Any]], None],
    alternative: str,
    caption: str,
    legend: bool = True,
) -> Figure:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    columns = min(3, panels)
    rows = -(-panels // columns)
    # a fixed salt gives the same file for the same records
    with mpl.rc_context({"svg.hashsalt": name, "font.size": 9, "svg.fonttype": "path"}):
        canvas = Canvas(figsize=(3.4 * columns + 0.6, 2.7 * rows + 0.7), layout="constrained")
        axes = [canvas.add_subplot(rows, columns, k + 1) for k in range(panels)]
        draw(axes)
        if legend:
            shown: dict[str, Any] = {}
            for ax in axes:
                for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
                    shown.setdefault(label, handle)
            if shown:
                across = min(2 * columns, len(shown))  # two of the longest labels fit under a panel
                canvas.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=across, fontsize=8)
        svg, png = io.StringIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        canvas.savefig(png, format="png", dpi=150, metadata={"Software": None})
    narrowest = NARROWEST if columns == 3 else 0
    return Figure(name, title, alternative, _inline(svg.getvalue(), name, narrowest), png.getvalue(), caption)


def _inline(svg: str, name: str, narrowest: int) -> str:
    """The element alone, with ids of its own where they are needed, as wide as its place: many figures share one page."""
    element = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    opening, rest = element.split(">", 1)
    width = re.search(r'\bwidth="([0-9.]+)pt"', opening)
    opening = re.sub(r'\s(width|height)="[^"]*"', "", opening)
    natural = "" if width is None else f' style="max-width: {1.4 * float(width[1]):.0f}px; min-width: {narrowest}px"'
    element = f'{opening} aria-hidden="true"{natural}>{rest}'
    used = set(
        re.findall(r'(?:href="#|url\(#)([^")]+)', element)
    )  # equal pictures have equal ids, which nothing refers to
    element = re.sub(r' id="([^"]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", element)
    return re.sub(r'(href="#|url\(#)([^")]+)', rf"\g<1>{name}-\g<2>", element)


def _in_words(methods: Mapping[str, Series], percent: bool) -> str:
    factor = 100 if percent else 1
    return "; ".join(
        f"{method} " + ", ".join(f"{x:g}: {factor * m.value:.3g}" for x, m in sorted(series.items()))
        for method, series in methods.items()
    )
