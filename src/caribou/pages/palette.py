"""One colour and one marker per method, in every figure and on every page.

Colours of a ground are at least 8 apart (Oklab, times 100) for readers with normal sight, protanopia, deuteranopia or tritanopia,
and have a contrast of at least 3:1 to the ground. Colour is never the only difference: a method has a marker, too.
"""

from __future__ import annotations

import re

COLOURS = {
    "votes": "#1269eb", "caribou": "#d87c0b", "gap": "#132d23", "sage": "#4405c0", "dpdgc": "#4b4622",
    "lapgraph": "#7e016c", "lpgnet": "#1da0bd", "progap": "#316e0a", "mlp": "#6b7280",
}  # fmt: skip
"""On a light ground, by family of methods."""

DARK_COLOURS = {
    "votes": "#699ceb", "caribou": "#f69929", "gap": "#9afdca", "sage": "#8453f6", "dpdgc": "#9c6a00",
    "lapgraph": "#d9208f", "lpgnet": "#4dcfe8", "progap": "#ebfd07", "mlp": "#a8a29e",
}  # fmt: skip
"""On a dark ground."""

MARKERS = {
    "votes": "o", "caribou": "s", "gap": "^", "sage": "D", "dpdgc": "v", "lapgraph": "P", "lpgnet": "X", "progap": "<",
    "mlp": "x",
}  # fmt: skip
"""In the letters of Matplotlib, which `charts.js` knows, too."""

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
