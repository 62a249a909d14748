"""One colour and one marker per method, in every figure and on every page.

Colours of a ground are at least 8 apart (Oklab, times 100) for readers with normal sight, protanopia, deuteranopia or tritanopia,
and have a contrast of at least 3:1 to the ground. Colour is never the only difference: a method has a marker, too.
"""

from __future__ import annotations

import re

from caribou.methods.catalogue import FAMILIES

COLOURS = {name: each.colour for name, each in FAMILIES.items()}
"""On a light ground, by family of methods."""

DARK_COLOURS = {name: each.dark_colour for name, each in FAMILIES.items()}
"""On a dark ground."""

MARKERS = {name: each.marker for name, each in FAMILIES.items()}
"""In the letters of Matplotlib, which `charts.js` draws, too."""

OTHER_COLOUR, OTHER_DARK_COLOUR = "#374151", "#d6d3d1"
"""Of a method that is not one of the families, such as a user's own."""


def family(method: str) -> str:
    """The method without its privacy unit, and without what a label says besides.

    >>> family("gap-ndp"), family("mlp"), family("caribou, exact")
    ('gap', 'mlp', 'caribou')
    """
    return re.split("[-,]", method)[0]


def style_sheet() -> str:
    """The colours as custom properties of a page: ``var(--votes)`` follows the ground.

    >>> style_sheet().splitlines()[0][:32]
    ':root { --votes: #1269eb; --cari'
    """

    def properties(colours: dict[str, str], other: str) -> str:
        return " ".join(f"--{name}: {colour};" for name, colour in {**colours, "other": other}.items())

    light, dark = properties(COLOURS, OTHER_COLOUR), properties(DARK_COLOURS, OTHER_DARK_COLOUR)
    return f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
