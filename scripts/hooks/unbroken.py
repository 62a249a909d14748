"""A hook of mkdocs: on a phone no line breaks inside a flag or a name of code, nor between a number and its per cent sign.

A browser breaks lines after every hyphen, and ``--out`` would begin on one line and end on the next.
"""

from __future__ import annotations

import re
from typing import Any

_TAG = re.compile(r"(<[^>]+>)")
_CODE = re.compile(r"<(/?)code\b")
_NAME = re.compile(r"(?<![\w/.:-])(?=[\w-]*-)[\w-]{2,28}(?![\w/.:-])")
"""Short enough for a phone: a longer one may break."""
_PERCENT = re.compile(r"(?<=\d) %")


def on_page_content(text: str, **_: Any) -> str:
    """A page whose flags, names and percentages stay whole.

    >>> on_page_content("<p>1 % with <code>caribou plan --html</code></p>")
    '<p>1\\xa0% with <code>caribou plan <span class="whole">--html</span></code></p>'
    """
    inside, parts = 0, []
    for part in _TAG.split(text):
        if part.startswith("<"):
            if found := _CODE.match(part):
                inside += -1 if found[1] else 1
            parts.append(part)
        elif inside:
            parts.append(_NAME.sub(r'<span class="whole">\g<0></span>', part))
        else:
            parts.append(_PERCENT.sub("\N{NO-BREAK SPACE}%", part))
    return "".join(parts)
