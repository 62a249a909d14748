"""What all pages share: one template, one style sheet, one file of charts, put together into a single file.

A page loads nothing: style, scripts and figures lie in the file, and a content security policy forbids every request. Templates
are Jinja's with escaping switched on, so that no text of a user becomes markup.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from caribou._files import atomic_write
from caribou.errors import InputError
from caribou.pages import palette

if TYPE_CHECKING:
    from markupsafe import Markup

TEMPLATE = "base.html"
WHOLE = re.compile(
    r"(?:\b\w+ )?(?:[<>]?=|[≥≤]) \d[\w.,+-]*|\b\d[\d.,]* %|\b\d[\w.:]*(?:-[\w.:]+)+|(?<![\w-])--[a-z][\w-]*"
)
"""What no line break may tear: epsilon = 4, 0.1 %, 1e-05, a date, --flag. page.js has the same."""


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
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole"] = whole
    return environment.get_template(template).render(
        title=title,
        style=f"{palette.style_sheet()}\n{asset('page.css')}",
        scripts=[asset(name) for name in scripts],
        data=None if data is None else script_json(data),
        **values,
    )


def whole(text: str) -> Markup:
    """Escaped text in which a browser breaks no line inside a figure or a flag; copied, it is the same text.

    >>> str(whole("delta < 1e-05"))
    'delta &lt; <span class="whole">1e-05</span>'
    """
    from markupsafe import Markup, escape

    parts, end = [], 0
    for found in WHOLE.finditer(text):
        parts += [escape(text[end : found.start()]), Markup('<span class="whole">{}</span>').format(found.group())]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def script_json(data: Any) -> str:
    """Plain values as JSON that can stand inside a script element: no text in it can end the element.

    >>> script_json({"note": "</script>"})
    '{"note": "\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def check_page_path(path: str | os.PathLike[str], *, field: str = "html") -> None:
    """Refuse a path that is no page's or whose folder is not there. ``field``: the option that named it."""
    if not os.fspath(path).lower().endswith((".html", ".htm")):
        raise InputError(f"{field} must be a file that ends in .html, got {os.fspath(path)!r}")
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise InputError(f"{field} must be in a folder that exists, got {os.fspath(path)!r}")


def write_page(path: str | os.PathLike[str], text: str, *, field: str = "html") -> None:
    """Write a page whole or not at all. ``field``: the option that named the file, for the error."""
    check_page_path(path, field=field)
    try:
        atomic_write(path, text)
    except OSError as error:
        raise InputError(
            f"{field} must be a file that can be written, got {os.fspath(path)!r}: {error.strerror}"
        ) from error
