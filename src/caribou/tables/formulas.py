"""Text that a spreadsheet would run as a formula: escaped where CSV is written, and as it was where CSV is read.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break is a formula to a spreadsheet, and a formula can start
programs. With an apostrophe before it, it is text. A number is none: ``-5`` stays.
"""

from __future__ import annotations

import re
from typing import Any

_SIGNS = "=+@\t\r\n\uff1d\uff0b\uff0d\uff20-"
"""Also in full width, which some spreadsheets take for the same."""
_FORMULA = re.compile(f"'*[{_SIGNS}]")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_ESCAPED = re.compile(f"'('*[{_SIGNS}])")


def escaped(cell: Any) -> Any:
    """A cell as it is written; what is no text stays.

    >>> [escaped(cell) for cell in ("=1+2", "-5", "-a", "'=x", "ann", 7)]
    ["'=1+2", '-5', "'-a", "''=x", 'ann', 7]
    """
    if not isinstance(cell, str) or not _FORMULA.match(cell) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def unescaped(text: str) -> str:
    """The inverse of `escaped`.

    >>> [unescaped(text) for text in ("'=1+2", "''=x", "'quoted'")]
    ['=1+2', "'=x", "'quoted'"]
    """
    return text[1:] if _ESCAPED.match(text) else text


def unescaped_column(column: Any) -> Any:
    """The same for a column of text of Arrow."""
    import pyarrow.compute as pc

    if not pc.any(pc.starts_with(column, "'")).as_py():
        return column
    return pc.replace_substring_regex(column, f"^{_ESCAPED.pattern}", r"\1")
