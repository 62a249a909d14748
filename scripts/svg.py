"""How a picture of the site is saved: as SVG with words. The site makes its dark twin (scripts/hooks/site_pages.py)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from caribou.pages.pictures import STYLE, lean

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def use_style() -> None:
    """The style sheet of all pictures, and output that does not change from run to run."""
    matplotlib.use("Agg")
    matplotlib.style.use(STYLE)
    matplotlib.rcParams.update({"svg.hashsalt": "caribou"})


def save(figure: Figure, name: str, title: str, text: str) -> None:
    """Write ``name``.svg into docs/images, with a title and a description for those who cannot see."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    drawn = buffer.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    start = drawn.index(">") + 1
    drawn = f"{drawn[:start]}<title>{escape(title)}</title><desc>{escape(text)}</desc>{drawn[start:]}"
    (IMAGES / f"{name}.svg").write_text(lean(drawn).replace("<g>", "\n<g>").strip() + "\n", encoding="utf-8")


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]], gap: float) -> None:
    """Names at the right ends of lines, (x, y, words, colour), at least ``gap`` of the y axis apart."""
    last: float | None = None
    for x, y, words, colour in sorted(ends, key=lambda end: end[1]):
        at = y if last is None else max(y, last + gap)
        place: dict[str, Any] = {
            "xytext": (7, 0),
            "textcoords": "offset points",
            "va": "center",
            "annotation_clip": False,
        }
        axes.annotate(words, (x, at), color=colour, **place)
        last = at
