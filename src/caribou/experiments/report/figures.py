"""Figures, drawn with Matplotlib into SVG and PNG. Each is given series of numbers and says in words what it shows."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from caribou.experiments.report.blocks import PAPER, Figure
from caribou.experiments.report.summary import Mean
from caribou.pages.palette import COLOURS, MARKERS, OTHER_COLOUR, family
from caribou.pages.pictures import GROUND, STYLE

MORE_MARKERS = ("o", "s", "^", "D", "v", "P", "x")
STROKES = ("-", ":", "-.", (0, (5, 1)))
MIN_WIDTH = 640
"""Below this width the text of three panels cannot be read: the figure scrolls instead. [px]"""

Series = Mapping[Any, Mean]


def is_published(label: str) -> bool:
    """Whether a line is a publication's: its label says so at its end.

    >>> is_published("gap-edp, paper"), is_published("caribou, the paper's formula")
    (True, False)
    """
    return label.endswith(f", {PAPER}")


def style(name: str) -> dict[str, Any]:
    """Colour and marker of a method: colour is never the only difference. Published lines are thin, with hollow markers."""
    colour = COLOURS.get(family(name), OTHER_COLOUR)
    look = {"color": colour, "marker": MARKERS.get(family(name), "."), "markersize": 5}
    return {**look, "markerfacecolor": GROUND, "linewidth": 0.9} if is_published(name) else {**look, "linewidth": 1.4}


def styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A style per label, no two alike: labels of one family differ by stroke, and by colour where there is one family only."""
    from matplotlib import colormaps

    families = {family(label) for label in labels}
    found, seen = {}, dict.fromkeys(families, 0)
    for label in labels:
        if is_published(label):
            found[label] = {**style(label), "linestyle": "--"}
            continue
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
                ax.axhline(
                    (100 if percent else 1) * height,
                    linestyle=":",
                    linewidth=1.2,
                    color=style(label)["color"],
                    label=label,
                )
            ax.set_title(panel)
            ax.set_xlabel(x)
            if log:
                ax.set_xscale("log", base=2)
                ticks = sorted({v for series in methods.values() for v in series})
                ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
            if percent:
                low, high = ax.get_ylim()
                ax.set_ylim(max(0, low), min(100, high))
        axes[0].set_ylabel(y)

    words = "; ".join(f"{panel}: {_in_words(methods, percent)}" for panel, methods in panels.items())
    data = _drawn(panels, lines or {}, x, y, 100 if percent else 1)
    return figure(name, title, len(panels), draw, f"{title}. {words}", data, caption)


Rows = Sequence[Sequence[Any]]
"""What a figure draws, for its CSV: titles, then rows."""


def _drawn(
    panels: Mapping[str, Mapping[str, Series]], lines: Mapping[str, Mapping[str, float]], x: str, y: str, factor: float
) -> Rows:
    rows: list[Sequence[Any]] = [("panel", "line", x, y, "half width of the 95 % interval", "seeds")]
    for panel, methods in panels.items():
        for method, series in methods.items():
            for at in sorted(series):
                rows.append((panel, method, f"{at:g}", *mean_columns(series[at], factor)))
        for label, height in lines.get(panel, {}).items():
            rows.append((panel, label, "", f"{factor * height:.4g}", "", ""))
    return rows


def mean_columns(mean: Mean, factor: float) -> tuple[str, str, Any]:
    """A mean as three columns: value, half width (empty where there is none), seeds (empty for a published figure)."""
    half = "" if mean.shown_half is None else f"{factor * mean.shown_half:.3g}"
    return f"{factor * mean.value:.4g}", half, mean.count or ""


def _line(ax: Any, method: str, series: Series, factor: float, look: Mapping[str, Any]) -> None:
    xs = sorted(series)
    means = [series[v].value * factor for v in xs]
    widths = [factor * (series[v].shown_half or 0.0) for v in xs]
    ax.errorbar(xs, means, yerr=widths, label=method, **look)


def figure(
    name: str,
    title: str,
    panels: int,
    draw: Callable[[Sequence[Any]], None],
    alternative: str,
    data: Rows,
    caption: str,
    legend: bool = True,
    across: int = 3,
) -> Figure:
    """``panels`` panels, ``across`` in a row, with one legend.

    draw: draws into the axes of all panels. alternative: what the figure shows, in words. data: the same as rows, titles first.
    """

    def picture() -> tuple[str, bytes]:
        svg, png = _picture(name, panels, min(across, panels), draw, legend)
        return _described(svg, title, alternative), png

    min_width = MIN_WIDTH if min(across, panels) == 3 else 0
    return Figure(name, title, alternative, picture, tuple(map(tuple, data)), caption, min_width)


def _picture(
    name: str, panels: int, columns: int, draw: Callable[[Sequence[Any]], None], legend: bool
) -> tuple[str, bytes]:
    """SVG and PNG."""
    import matplotlib as mpl
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    rows = -(-panels // columns)
    # a fixed salt gives the same file for the same records
    with mpl.style.context([STYLE, {"svg.hashsalt": name}]):
        canvas = Canvas(figsize=(3.4 * columns + 0.6, 2.7 * rows + 0.7), layout="constrained")
        axes = [canvas.add_subplot(rows, columns, k + 1) for k in range(panels)]
        draw(axes)
        if legend:
            shown: dict[str, Any] = {}
            for ax in axes:
                for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
                    shown.setdefault(label, handle)
            if shown:
                side_by_side = _labels_across(list(shown), canvas.get_figwidth())
                canvas.set_figheight(2.7 * rows + 0.5 + 0.2 * -(-len(shown) // side_by_side))
                canvas.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=side_by_side)
        svg, png = io.StringIO(), io.BytesIO()
        # savefig would draw twice, and compute the layout each time
        FigureCanvasSVG(canvas).print_svg(svg, metadata={"Date": None})
        canvas.set_layout_engine("none")
        canvas.set_dpi(150)
        FigureCanvasAgg(canvas).print_png(png, metadata={"Software": None})
    return svg.getvalue(), png.getvalue()


def _described(svg: str, title: str, alternative: str) -> str:
    """The picture as a file, with its title and what it shows in words."""
    element = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    opening, rest = element.split(">", 1)
    return f'{opening} role="img"><title>{escape(title)}</title><desc>{escape(alternative)}</desc>{rest}'


def _labels_across(labels: Sequence[str], width: float) -> int:
    """How many labels of a legend stand side by side without being cut off, in a figure of this width. [inch]

    >>> _labels_across(["gap"] * 9, 10.8), _labels_across(["caribou-edp, validated on our splits"] * 9, 10.8)
    (9, 3)
    """
    handle, letter = 0.55, 0.068  # at 8 points, with the gap between columns
    return max(1, min(len(labels), int(width / (handle + letter * max(map(len, labels))))))


def _in_words(methods: Mapping[str, Series], percent: bool) -> str:
    factor = 100 if percent else 1
    return "; ".join(
        f"{method} " + ", ".join(f"{x:g}: {factor * m.value:.3g}" for x, m in sorted(series.items()))
        for method, series in methods.items()
    )
