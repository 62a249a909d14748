"""Pictures of Matplotlib inside a page, in the colours of its ground.

`LineChart` says what a picture of lines shows, and `drawn` draws it.

All pictures follow one style sheet, ``caribou.mplstyle``. Other programs use it by name: ``matplotlib.style.use(STYLE)``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from caribou.pages.palette import COLOURS, OTHER_COLOUR

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = "caribou.pages.caribou"
"""The style sheet, as Matplotlib looks for it."""
INK, GROUND = "#1c1917", "#fefefe"
"""What a picture draws text, axes and hollow markers with; in a page these are the colours of its text and of its cards."""
PAGE_COLOURS = {"accent": "#0b5f85", "warn": "#8a5a00", "good": "#166534", "bad": "#b00020", "dim": "#57534e"}
"""Of page.css, for lines that are no method's."""
WIDTH, HEIGHT = 4.2, 3.0
"""Of a line chart: a phone shows it in its own size. [in]"""
LETTERS = {"font.size": 10, "axes.labelsize": 10, "legend.fontsize": 9}
"""Of a line chart. [pt]"""


@dataclass(frozen=True)
class Line:
    """A line: its points (x, y).

    ``colour``: one of `PAGE_COLOURS` or of the methods follows the ground of a page. ``style`` and ``marker`` in the letters of
    Matplotlib. ``steps``: a value holds until the next one.
    """

    name: str
    points: Sequence[Sequence[float]]
    colour: str
    style: str = "-"
    marker: str = ""
    steps: bool = False


@dataclass(frozen=True)
class LineChart:
    """A picture of lines.

    Args:
        words: what it shows, for those who cannot see it.
        x, y: labels of the axes.
        lines: in their order.
        marks: dots at (x, y).
        log: which axes are logarithmic: "", "x" or "xy".
        shares: both axes are shares, from 1 in 1000 to all where they are logarithmic, and written as percentages.
        dates: x is a time, in days since 1970 (UTC).
    """

    words: str
    x: str
    y: str
    lines: tuple[Line, ...]
    marks: tuple[tuple[float, float], ...] = ()
    log: str = ""
    shares: bool = False
    dates: bool = False

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """What is drawn, as text: the line, x and y."""
        return [(line.name, self._x(x), f"{y:.6g}") for line in self.lines for x, y in line.points]

    def _x(self, value: float) -> str:
        return f"{datetime.fromtimestamp(value * 86400, UTC):%Y-%m-%d %H:%M:%S}" if self.dates else f"{value:.6g}"


def drawn(chart: LineChart, name: str) -> Markup:
    """The element of a chart for a page. ``name``: of the picture in the page, for its ids."""
    import matplotlib.style

    buffer = io.StringIO()
    with matplotlib.style.context([STYLE, LETTERS, {"svg.hashsalt": name}]):
        _figure(chart).savefig(buffer, format="svg", metadata={"Date": None})
    return inline(buffer.getvalue(), name, scale=1.6)


def _figure(chart: LineChart) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    for line in chart.lines:
        x, y = zip(*line.points, strict=True)
        (artist,) = axes.plot(x, y, line.style, color=line.colour, marker=line.marker, label=line.name)
        artist.set_drawstyle("steps-post" if line.steps else "default")
    for at, height in chart.marks:
        axes.plot(at, height, marker="o", color=INK, zorder=3)
    _draw_axes(axes, chart)
    if len(chart.lines) > 1:
        figure.legend(loc="outside lower left", ncols=2)
    return figure


def _draw_axes(axes: Axes, chart: LineChart) -> None:
    from matplotlib import dates, ticker

    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    for letter, one, scale in (("x", axes.xaxis, axes.set_xscale), ("y", axes.yaxis, axes.set_yscale)):
        if letter in chart.log:
            scale("log")
            one.set_minor_locator(ticker.NullLocator())
        if chart.shares:
            one.set_major_formatter(ticker.FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    if chart.shares:
        axes.set_xlim(1e-3 if "x" in chart.log else 0, 1)
        axes.set_ylim(1e-3 if "y" in chart.log else 0, 1.03)
    elif not chart.log.endswith("y"):
        axes.set_ylim(bottom=0)
    if chart.dates:
        locator = dates.AutoDateLocator(minticks=2, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        # the label of the axis says the day; beside it the formatter's own date would be written over it
        formats = ["%Y", "%b", "%d", "%H:%M", "%H:%M", "%H:%M:%S"]
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, formats=formats, show_offset=False))


def inline(svg: str, name: str, min_width: int = 0, scale: float = 1.4) -> Markup:
    """The element of a picture for a page.

    It has ids of its own where they are needed, because many pictures share one page; it is as wide as its place, and follows
    the colours of the page. ``min_width``: below it the picture scrolls. [px] ``scale``: how far it grows at most. [px per point]
    """
    from markupsafe import Markup

    # the page says in words what the picture shows
    element = re.sub(r"<(metadata|title|desc)>.*?</\1>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    opening, rest = element.split(">", 1)
    width = re.search(r'\bwidth="([0-9.]+)pt"', opening)
    opening = re.sub(r'\s(width|height|role)="[^"]*"', "", opening)
    natural = "" if width is None else f' style="max-width: {scale * float(width[1]):.0f}px; min-width: {min_width}px"'
    element = f'{opening} aria-hidden="true"{natural}>{rest}'
    element = re.sub(r'( id="|href="#|url\(#)([^")]+)', rf"\g<1>{name}-\g<2>", lean(element))
    # the page has its own letters
    element = element.replace("font-family: sans-serif; ", "")
    return Markup(_in_colours_of_the_page(element))


def lean(svg: str) -> str:
    """A picture without what nobody sees: digits of places, ids, long lists of fonts, turns by nothing, blanks.

    >>> lean('<g id="a"><text x="1.2345" transform="rotate(-0 1 2)">0.75</text></g>')
    '<g><text x="1.2">0.75</text></g>'
    """
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", svg)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: sans-serif", svg)
    svg = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", svg)
    svg = re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><")
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r"(?<=\d)(?:\.0|(\.\d))(?!\.)\d*", r"\1", tag[0]), svg)


def _in_colours_of_the_page(element: str) -> str:
    names = {colour: f"var(--{name})" for name, colour in {**COLOURS, "other": OTHER_COLOUR}.items()}
    names |= {INK: "var(--text)", GROUND: "var(--card)"}
    names |= {colour: f"var(--{name})" for name, colour in PAGE_COLOURS.items()}
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: names.get(found[0], found[0]), element)
