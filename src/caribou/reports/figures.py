"""Figures, drawn with Matplotlib into SVG and PNG. Each is given series of numbers and says in words what it shows."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from caribou.reports.blocks import Figure
from caribou.reports.summary import FEWEST_RUNS, Mean

COLOURS = {
    "votes": "#0b6e99", "caribou": "#c2410c", "gap": "#4d7c0f", "sage": "#7e22ce",
    "dpdgc": "#a16207", "lapgraph": "#be185d", "mlp": "#6b7280",
}  # fmt: skip
MARKERS = {"votes": "o", "caribou": "s", "gap": "^", "sage": "D", "dpdgc": "v", "lapgraph": "P", "mlp": "x"}

Series = Mapping[Any, Mean]


def family(method: str) -> str:
    """The method without its privacy unit.

    >>> family("gap-ndp"), family("mlp")
    ('gap', 'mlp')
    """
    return method.split("-")[0]


def style(name: str) -> dict[str, Any]:
    """Colour and marker of a method: colour is never the only difference."""
    return {"color": COLOURS.get(family(name), "#374151"), "marker": MARKERS.get(family(name), "."), "markersize": 5}


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

    def draw(axes: Sequence[Any]) -> None:
        for ax, (panel, methods) in zip(axes, panels.items(), strict=False):
            for method, series in methods.items():
                _line(ax, method, series, 100 if percent else 1)
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


def _line(ax: Any, method: str, series: Series, factor: float) -> None:
    xs = sorted(series)
    means = [series[v].value * factor for v in xs]
    widths = [0.0 if series[v].runs < FEWEST_RUNS else series[v].half_width * factor for v in xs]
    ax.errorbar(xs, means, yerr=widths, label=method, linewidth=1.4, capsize=2, **style(method))


def boxes(
    name: str,
    title: str,
    panels: Mapping[str, tuple[Mapping[Any, Sequence[float]], Series]],
    *,
    x: str,
    caption: str = "",
) -> Figure:
    """One panel per key: boxes over settings (in share), and a line of means beside them."""

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
    panels: Mapping[str, tuple[Sequence[Any], Sequence[Any], Mapping[Any, Mean]]],
    caption: str = "",
) -> Figure:
    """One panel per key: rows, columns and means by (row, column)."""

    def draw(axes: Sequence[Any]) -> None:
        for ax, (panel, (rows, columns, means)) in zip(axes, panels.items(), strict=False):
            grid = [[100 * means[r, c].value if (r, c) in means else float("nan") for c in columns] for r in rows]
            ax.imshow(grid, aspect="auto", cmap="viridis")
            middle = (max(map(max, grid)) + min(map(min, grid))) / 2
            for i, row in enumerate(grid):
                for j, value in enumerate(row):
                    colour = "black" if value > middle else "white"
                    ax.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=8, color=colour)
            ax.set_xticks(range(len(columns)), [f"{c:g}" for c in columns])
            ax.set_yticks(range(len(rows)), [f"{r:g}" for r in rows])
            ax.set_xlabel("epsilon")
            ax.set_title(panel, fontsize=10)

    words = "; ".join(
        f"{panel}: " + ", ".join(f"{r:g} at epsilon {c:g}: {100 * m.value:.0f}" for (r, c), m in means.items())
        for panel, (_, _, means) in panels.items()
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
                canvas.legend(
                    shown.values(), shown.keys(), loc="outside lower center", ncols=min(4, len(shown)), fontsize=8
                )
        svg, png = io.StringIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        canvas.savefig(png, format="png", dpi=150, metadata={"Software": None})
    return Figure(name, title, alternative, _inline(svg.getvalue(), name), png.getvalue(), caption)


def _inline(svg: str, name: str) -> str:
    """The element alone, with ids of its own, as wide as its place: many figures share one page."""
    element = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    opening, rest = element.split(">", 1)
    width = re.search(r'\bwidth="([0-9.]+)pt"', opening)
    opening = re.sub(r'\s(width|height)="[^"]*"', "", opening)
    natural = "" if width is None else f' style="max-width: {1.4 * float(width[1]):.0f}px"'
    element = f'{opening} aria-hidden="true"{natural}>{rest}'
    element = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', element)
    return re.sub(r'(href="#|url\(#)([^")]+)', rf"\g<1>{name}-\g<2>", element)


def _in_words(methods: Mapping[str, Series], percent: bool) -> str:
    factor = 100 if percent else 1
    return "; ".join(
        f"{method} " + ", ".join(f"{x:g}: {factor * m.value:.3g}" for x, m in sorted(series.items()))
        for method, series in methods.items()
    )
