"""Pictures in a page: the same after packing, in the colours of the page, and under one style sheet."""

from __future__ import annotations

import re

import matplotlib as mpl
import matplotlib.style

from caribou.pages.palette import COLOURS
from caribou.pages.pictures import GROUND, INK, STYLE, inline, packed
from page_support import unpacked

SVG = (
    '<?xml version="1.0"?>\n<svg width="100pt" height="50pt" role="img" xmlns="http://www.w3.org/2000/svg"><title>T</title>'
    '<desc>words</desc><metadata>m</metadata><defs><path id="a" d="M1.2345 2.25"/><path id="b"/></defs>'
    f'<use href="#a" style="fill: {COLOURS["votes"]}; stroke: {INK}"/><rect style="fill: {GROUND}"/>'
    '<rect style="fill: #123456"/></svg>'
)


def test_packing_is_undone_and_the_same_every_time() -> None:
    text = "<svg>ä</svg>" * 100
    assert unpacked(packed(text)) == text
    assert packed(text) == packed(text)
    assert len(packed(text)) < len(text) / 5


def test_a_picture_takes_the_colours_of_the_page() -> None:
    element = inline(SVG, "mine", min_width=640)
    assert "fill: var(--votes); stroke: var(--text)" in element
    assert "fill: var(--card)" in element
    assert "#123456" in element, "a colour that means something else stays"


def test_a_picture_has_its_own_ids_and_the_width_of_its_place() -> None:
    element = inline(SVG, "mine", min_width=640)
    assert re.findall(r' id="([^"]+)"', element) == ["mine-a"], "an id that nothing refers to is gone"
    assert 'href="#mine-a"' in element
    assert 'style="max-width: 140px; min-width: 640px"' in element
    assert 'd="M1.2 2.2"' in element
    assert not re.search("<title>|<desc>|<metadata>|height=", element), "the page says it in words"


def test_lines_of_a_picture_are_as_short_as_they_can_be() -> None:
    """A report of 29 pictures is one file of less than 1 MB."""
    line = '<path d="M 40.1 173.96 L 264 173.9 L 264.0 16.5 L 40 16.5 z M 1 2 L 3 4.06 "/><path d="M 1 2 Q 3 4 5 6 L 7 6"/>'
    element = inline(f"<svg>{line}</svg>", "mine")
    assert element.endswith('<path d="M40.1 173.9H264V16.5H40zM1 2L3 4"/><path d="M 1 2 Q 3 4 5 6 L 7 6"/></svg>')


def test_the_style_sheet_is_found_by_its_name_and_has_the_colours_of_a_page() -> None:
    with mpl.style.context(STYLE):
        assert f"#{mpl.rcParams['text.color']}".replace("##", "#") == INK
        assert f"#{mpl.rcParams['figure.facecolor']}".replace("##", "#") == GROUND
        assert mpl.rcParams["svg.fonttype"] == "none"
        black = [
            name for name, value in mpl.rcParams.items() if name.startswith("boxplot.") and value in ("black", "k")
        ]
        assert black == [], "on a dark ground nobody sees it"
