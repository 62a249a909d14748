"""A hook of mkdocs: formulas as formulas, made when the site is built, so that no page loads a script for them.

A fenced block ``math`` holds LaTeX and becomes MathML, which browsers draw by themselves. GitHub draws the same blocks. In
running text, indices and powers that are written as ``C_L``, ``X^(K)`` or ``2^-53`` get their place below or above the line.
"""

from __future__ import annotations

import html
import re
from typing import Any

_TAG = re.compile(r"(<[^>]+>)")
_KEPT = re.compile(r"<(/?)(code|pre|math|h1|h2|h3|h4|h5|h6|script|style|svg)\b")
_INDEX = re.compile(r"(?:(?<![\w.])(?:[A-Za-zΑ-Ωα-ω]|deg)'?|(?<=\w)\|\||(?<=[\])])\|\|)_(?=[\w({])")
_POWER = re.compile(r"(?<=[\w)'|])\^(?=[\w({|-])")
_SIMPLE = re.compile(r"-?[^\W¹²³⁰-⁹₀-₉]+(?:\.\d+)?|\|[^|<]+\|")
_STATES = "XZ"
"""Letters whose power is the number of a round, which keeps its brackets."""


def on_config(config: Any, **_: Any) -> Any:
    """Teach the fenced blocks what ``math`` is."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    if not any(fence["name"] == "math" for fence in fences):
        fences.append({"name": "math", "class": "formula", "format": fence})
    return config


def on_page_content(text: str, **_: Any) -> str:
    """Indices and powers of a page, outside of code, formulas and headings."""
    kept, parts = 0, []
    for part in _TAG.split(text):
        if part.startswith("<"):
            if found := _KEPT.match(part):
                kept += -1 if found[1] else 1
            parts.append(part)
        else:
            parts.append(part if kept else raised(part))
    return "".join(parts)


def fence(source: str, language: str, css_class: str, options: Any, md: Any, **_: Any) -> str:
    """A block of LaTeX as HTML. A formula that is too wide for a phone scrolls, by keys as well."""
    return f'<div class="{css_class}" tabindex="0" role="group" aria-label="formula">{mathml(source)}</div>'


def mathml(latex: str) -> str:
    """MathML of a formula; lines inside ``aligned`` stand one below the other."""
    from latex2mathml.converter import convert

    # the converter knows the same environment by another name
    lines = " ".join(latex.split()).replace("{aligned}", "{align*}")
    return convert(lines, display="block")


def raised(text: str) -> str:
    """Text of HTML with its indices and powers as elements.

    >>> raised("X^(K) and C_L, ||W||_2, 2^-53, noise_std, S^(-1/2)")
    'X<sup>(K)</sup> and C<sub>L</sub>, ||W||<sub>2</sub>, 2<sup>-53</sup>, noise_std, S<sup>-1/2</sup>'
    >>> raised("x_i² + deg_j")
    'x<sub>i</sub>² + deg<sub>j</sub>'
    >>> raised("e^(-ε (max s - s_k)) and Z_(k-1)")
    'e<sup>-ε (max s - s<sub>k</sub>)</sup> and Z<sub>k-1</sub>'
    """
    text = html.unescape(text)
    made, at = [], 0
    while found := _next(text, at):
        mark, is_power = found
        before = text[at:mark]
        script, end = _script(text, mark + 1, keep=is_power and before[-1:] in _STATES)
        element = "sup" if is_power else "sub"
        made += [html.escape(before, quote=False), f"<{element}>{raised(html.escape(script, quote=False))}</{element}>"]
        at = end
    return "".join(made) + html.escape(text[at:], quote=False)


def _next(text: str, start: int) -> tuple[int, bool] | None:
    """Where the next mark of an index or a power stands, and whether it is a power."""
    index, power = _INDEX.search(text, start), _POWER.search(text, start)
    places = [(found.end() - 1, is_power) for found, is_power in ((index, False), (power, True)) if found is not None]
    return min(places, default=None)


def _script(text: str, start: int, keep: bool) -> tuple[str, int]:
    """What stands above or below the line, and where the text goes on. ``keep``: with its brackets."""
    if text[start] in "({":
        depth = 0
        for end in range(start, len(text)):
            depth += (text[end] in "({") - (text[end] in ")}")
            if depth == 0:
                return (text[start : end + 1] if keep else text[start + 1 : end]), end + 1
    found = _SIMPLE.match(text, start)
    end = start + 1 if found is None else found.end()
    return text[start:end], end
