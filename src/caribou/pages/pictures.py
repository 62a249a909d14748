"""Pictures of Matplotlib inside a page: in the colours of its ground, and packed, so that many fit into one file.

All pictures follow one style sheet, ``caribou.mplstyle``. Other programs use it by name: ``matplotlib.style.use(STYLE)``.
"""

from __future__ import annotations

import base64
import gzip
import re

from caribou.pages.palette import COLOURS, OTHER_COLOUR

STYLE = "caribou.pages.caribou"
"""The style sheet, as Matplotlib looks for it."""
INK, GROUND = "#1c1917", "#fefefe"
"""What a picture draws text, axes and hollow markers with; in a page these are the colours of its text and of its cards."""


def packed(text: str) -> str:
    """A text that ``pictures.js`` unpacks again: compressed, in letters that can stand in a page.

    >>> len(packed("<svg>" * 1000)) < 100
    True
    """
    # a fixed time gives the same page for the same text
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode("ascii")


def unpacked(text: str) -> str:
    """The inverse of `packed`."""
    return gzip.decompress(base64.b64decode(text)).decode()


def inline(svg: str, name: str, min_width: int = 0) -> str:
    """The element of a picture for a page.

    It has ids of its own where they are needed, because many pictures share one page; it is as wide as its place, and follows
    the colours of the page. ``min_width``: below it the picture scrolls. [px]
    """
    # the page says in words what the picture shows
    element = re.sub(r"<(metadata|title|desc)>.*?</\1>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    opening, rest = element.split(">", 1)
    width = re.search(r'\bwidth="([0-9.]+)pt"', opening)
    opening = re.sub(r'\s(width|height|role)="[^"]*"', "", opening)
    natural = "" if width is None else f' style="max-width: {1.4 * float(width[1]):.0f}px; min-width: {min_width}px"'
    element = f'{opening} aria-hidden="true"{natural}>{rest}'
    # equal pictures have equal ids, which nothing refers to
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', element))
    element = re.sub(r' id="([^"]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", element)
    element = re.sub(r'(href="#|url\(#)([^")]+)', rf"\g<1>{name}-\g<2>", element)
    # the page has its own letters, and lines without a turn or an indent say the same
    element = re.sub(r"font-family: [^;\"]*;? ?", "", element)
    element = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", element)
    element = re.sub(r"\s*\n\s*", " ", element).replace("> <", "><")
    return _in_colours_of_the_page(_shorter_paths(rounded(element)))


def rounded(svg: str) -> str:
    """A picture with its places in tenths of a point, which nobody sees; its words keep all their digits.

    >>> rounded('<text x="1.2345">0.75</text>')
    '<text x="1.2">0.75</text>'
    """
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r"(?<=\d)(?:\.0|(\.\d))(?!\.)\d*", r"\1", tag[0]), svg)


def _shorter_paths(svg: str) -> str:
    """Paths of straight lines with H and V where a line is level or upright, and without blanks: a tenth of a packed picture."""
    return re.sub(r' d="([MLz\d. -]+)"', lambda found: f' d="{_shorter(found[1])}"', svg)


def _shorter(path: str) -> str:
    made, last = [], ("", "")
    for kind, x, y, end in re.findall(r"([ML]) ?(-?[\d.]+) (-?[\d.]+)|(z)", path):
        if end:
            made.append("z")
        elif kind == "L" and y == last[1]:
            made.append(f"H{x}")
        elif kind == "L" and x == last[0]:
            made.append(f"V{y}")
        else:
            made.append(f"{kind}{x} {y}")
        last = ("", "") if end else (x, y)
    return "".join(made)


def _in_colours_of_the_page(element: str) -> str:
    names = {colour: f"var(--{name})" for name, colour in {**COLOURS, "other": OTHER_COLOUR}.items()}
    names |= {INK: "var(--text)", GROUND: "var(--card)"}
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: names.get(found[0], found[0]), element)
