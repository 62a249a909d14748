"""A Griffe extension for the API page: docstrings are Markdown with doctests and ``name: meaning`` lines.

Doctests become fenced blocks (Markdown would read ``>>>`` as quotations). Runs of ``name: meaning`` lines become lists,
also below a title such as ``Args:``.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_SECTION = re.compile(r"^(Args|Returns|Raises|Shapes):$")
_FIELD = re.compile(r"^([a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*): (?=\S)")


class DocstringMarkup(griffe.Extension):
    """Rewrite the docstring of every object, once it is complete."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = markup(obj.docstring.value)


def markup(text: str) -> str:
    """The docstring as Markdown.

    >>> print(markup("Adds.\\n\\n>>> 1 + 1\\n2"))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    return "\n\n".join(_paragraph(part) for part in re.split(r"\n[ ]*\n", text.strip("\n")))


def _paragraph(part: str) -> str:
    lines = part.split("\n")
    for at, line in enumerate(lines):
        if line.startswith(">>>"):
            before = [_listed(lines[:at]), ""] if at else []
            return "\n".join([*before, "```pycon", *lines[at:], "```"])
    return _listed(lines)


def _listed(lines: list[str]) -> str:
    if lines and (section := _SECTION.match(lines[0])):
        body = textwrap.dedent("\n".join(lines[1:])).split("\n")
        return f"**{section[1]}**\n\n{_listed(body)}"
    if not lines or not _FIELD.match(lines[0]):
        return "\n".join(lines)
    return "\n".join(_FIELD.sub(r"- `\1`: ", line) if _FIELD.match(line) else f"  {line.strip()}" for line in lines)
