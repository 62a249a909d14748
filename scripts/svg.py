"""How a picture of the site is saved: as SVG with words. The site makes its dark twin (scripts/hooks/site_pages.py)."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any
from xml.sax.saxutils import escape

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from caribou.pages.pictures import STYLE, lean

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MADE_BY = "<metadata>Matplotlib</metadata>"
"""The hook of the site knows by it which pictures get a dark twin."""


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
    (IMAGES / f"{name}.svg").write_text(small(drawn), encoding="utf-8")


def small(drawn: str) -> str:
    """A picture as a file: what nobody sees is left out, and a style that many elements have stands once, as a class.

    >>> small('<svg><style>*{}</style><g><path style="fill: none" d="M 1 2 L 3 4 "/></g><path style="fill: none"/></svg>')
    '<svg><style>*{}.a{fill: none}</style>\\n<path class="a" d="M1 2L3 4"/>\\n<path class="a"/></svg>\\n'
    """
    drawn = lean(re.sub(r"<metadata>.*?</metadata>", MADE_BY, drawn, flags=re.DOTALL))
    drawn = re.sub(r"(?<= d=\")[^\"]*", lambda path: re.sub(" ?([A-Za-z]) ?", r"\1", path[0]).strip(), drawn)
    styles = Counter(re.findall(r' style="([^"]*)"', drawn))
    often = [style for style, count in styles.items() if count > 1]
    names = {style: f"{ascii_lowercase[k % 26]}{k // 26 or ''}" for k, style in enumerate(often)}
    drawn = re.sub(r' style="([^"]*)"', lambda s: f' class="{names[s[1]]}"' if s[1] in names else s[0], drawn)
    rules = "".join(f".{name}{{{style}}}" for style, name in names.items())
    drawn = without_plain_groups(drawn.replace("</style>", f"{rules}</style>", 1))
    return re.sub(r"\n*(<(?:path|g|use|text|defs)[ >])", r"\n\1", drawn).strip() + "\n"


def without_plain_groups(drawn: str) -> str:
    """A picture without groups that say nothing."""
    plain: list[bool] = []

    def kept(tag: re.Match[str]) -> str:
        if tag[0] != "</g>":
            plain.append(tag[0] == "<g>")
            return "" if plain[-1] else tag[0]
        return "" if plain.pop() else tag[0]

    return re.sub(r"</?g\b[^>]*>", kept, drawn.replace("<g/>", ""))


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
