"""A hook of mkdocs for narrow screens: flags, names of code and percentages stay on one line, and sentences in tables get room.

A browser breaks lines after every hyphen, and ``--out`` would begin on one line and end on the next. It makes all columns of a
table as narrow as it can, and a sentence becomes a column of single words.
"""

from __future__ import annotations

import re
from typing import Any

_TAG = re.compile(r"(<[^>]+>)")
_CODE = re.compile(r"<(/?)code\b")
_NAME = re.compile(r"(?<![\w/.:-])(?=[\w-]*-)[\w-]{2,28}(?![\w/.:-])")
"""Short enough for a phone: a longer one may break."""
_PERCENT = re.compile(r"(?<=\d) %")
_CELL = re.compile(r"<td>((?:(?!</td>).){60,}</td>)", re.DOTALL)


def on_page_content(text: str, **_: Any) -> str:
    """A page whose flags, names and percentages stay whole, and whose cells with sentences are marked.

    >>> on_page_content("<p>1 % with <code>caribou plan --html</code></p>")
    '<p>1\\xa0% with <code>caribou plan <span class="whole">--html</span></code></p>'
    """
    inside, parts = 0, []
    for part in _TAG.split(_CELL.sub(r'<td class="sentence">\1', text)):
        if part.startswith("<"):
            if found := _CODE.match(part):
                inside += -1 if found[1] else 1
            parts.append(part)
        elif inside:
            parts.append(_NAME.sub(r'<span class="whole">\g<0></span>', part))
        else:
            parts.append(_PERCENT.sub("\N{NO-BREAK SPACE}%", part))
    return "".join(parts)
