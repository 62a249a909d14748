"""What all pages share: one template, one style sheet, the look of words that somebody else declared.

A page loads nothing: style, scripts and figures lie in the file, and a content security policy forbids every request. Templates
are Jinja's with escaping switched on, so that no text of a user becomes markup.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caribou.errors import InputError
from caribou.machine.files import atomic_write
from caribou.pages import palette

if TYPE_CHECKING:
    from jinja2 import Environment

LONGEST = 600
"""Letters of a declared text that a page shows; a longer one is cut, and the page says so."""


def asset(name: str) -> str:
    """The text of a file of this package: a template, a style sheet or a script."""
    return (files("caribou.pages") / name).read_text(encoding="utf-8")


def render(template: str, *, title: str, scripts: Sequence[str] = (), data: Any = None, **values: Any) -> str:
    """A page as one HTML text.

    Args:
        template: its file, which extends ``base.html`` and fills the block ``body``.
        title: of the window.
        scripts: files of scripts to put in, in this order.
        data: plain JSON values; scripts read them with ``Page.data()``.
        values: what the template asks for. They are escaped.

    Returns:
        The whole page, without any address that a browser would load.
    """
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            style=f"{palette.style_sheet()}\n{asset('page.css')}",
            scripts=[asset(name) for name in scripts],
            data=None if data is None else script_json(data),
            **values,
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    from caribou.pages.pictures import drawn

    environment = Environment(
        loader=FunctionLoader(lambda name: asset(name)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"declared": declared, "drawn": drawn, "figure": figure}
    return environment


def declared(words: str | None, missing: str = "not stated") -> str:
    """Words of somebody else, set apart, so that none of them can be taken for a promise of the library.

    They stand in one line of printable letters, and are never markup. ``missing``: where there are none, in our words.

    >>> str(declared("sales\\u202e <2026>"))
    '<code class="declared">sales\ufffd &lt;2026&gt;</code>'
    """
    from markupsafe import Markup

    if words is None:
        return missing
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(words))
    more = len(line) - LONGEST
    shown = line if more <= 0 else f"{line[:LONGEST]} … ({more} more)"
    return Markup('<code class="declared">{}</code>').format(shown)


def figure(epsilon: float | None) -> str:
    """An epsilon for people.

    >>> figure(0.123456), figure(math.inf), figure(None)
    ('0.1235', 'without bound', 'none')
    """
    if epsilon is None:
        return "none"
    return "without bound" if math.isinf(epsilon) else f"{epsilon:.4g}"


def percent(share: float, digits: int) -> str:
    """A share in a sentence, as pictures write it.

    >>> percent(0.546, 1), percent(math.nan, 1)
    ('54.6 %', '–')
    """
    return "–" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def script_json(data: Any) -> str:
    """Plain values as JSON that can stand inside a script element: no text in it can end the element.

    >>> script_json({"note": "</script>"})
    '{"note": "\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_page(path: str | os.PathLike[str], page: Callable[[], str]) -> None:
    """Write a page whole or not at all, into a folder that is there. ``page`` makes it, if it can have this place."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"html must be a file that ends in .html, got {str(target)!r}")
    if not target.absolute().parent.is_dir():
        raise InputError(f"html must be in a folder that exists, got {str(target)!r}")
    try:
        atomic_write(target, page())
    except OSError as error:
        raise InputError(f"html must be a file that can be written, got {str(target)!r}: {error.strerror}") from error
