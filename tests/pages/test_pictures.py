"""Pictures in a page: in the colours of the page, and under one style sheet."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.style

from caribou.pages.palette import COLOURS
from caribou.pages.pictures import GROUND, INK, STYLE, inline

SVG = (
    '<?xml version="1.0"?>\n<svg width="100pt" height="50pt" role="img" xmlns="http://www.w3.org/2000/svg"><title>T</title>'
    '<desc>words</desc><metadata>m</metadata><defs><path id="a" d="M1.2345 2.25"/><path id="b"/></defs>'
    f'<use href="#a" style="fill: {COLOURS["votes"]}; stroke: {INK}"/><rect style="fill: {GROUND}"/>'
    '<rect style="fill: #123456"/></svg>'
)


def test_a_picture_takes_the_colours_of_the_page() -> None:
    element = inline(SVG, "mine", min_width=640)
    assert "fill: var(--votes); stroke: var(--text)" in element
    assert "fill: var(--card)" in element
    assert "#123456" in element, "a colour that means something else stays"


def test_the_style_sheet_is_found_by_its_name_and_has_the_colours_of_a_page() -> None:
    with mpl.style.context(STYLE):
        assert f"#{mpl.rcParams['text.color']}".replace("##", "#") == INK
        assert f"#{mpl.rcParams['figure.facecolor']}".replace("##", "#") == GROUND
        assert mpl.rcParams["svg.fonttype"] == "none"
        black = [
            name for name, value in mpl.rcParams.items() if name.startswith("boxplot.") and value in ("black", "k")
        ]
        assert black == [], "on a dark ground nobody sees it"
