"""A hook of mkdocs for phones and screen readers. Flags, names of code and percentages stay on one line, sentences in tables get
room, an empty cell is no title, and files have no indents.

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
_EMPTY_TITLE = re.compile(r"<th[^>]*></th>")
_PRE = re.compile(r"(<(pre|script|textarea)\b.*?</\2>)", re.DOTALL)
_CELL = re.compile(r"<td>((?:(?!</td>).){60,}</td>)", re.DOTALL)


def on_page_content(text: str, **_: Any) -> str:
    """A page whose flags, names and percentages stay whole, and whose cells with sentences are marked.

    >>> on_page_content("<p>1 % with <code>caribou plan --html</code></p>")
    '<p>1\\xa0% with <code>caribou plan <span class="whole">--html</span></code></p>'
    """
    inside, parts = 0, []
    text = _EMPTY_TITLE.sub("<td></td>", _CELL.sub(r'<td class="sentence">\1', text))
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


def on_post_page(output: str, **_: Any) -> str:
    """A page without blank lines and indents, a tenth of a long one; code stays as it is.

    >>> on_post_page("<p>\\n  a\\n\\n  b<pre> 1\\n  2</pre></p>")
    '<p>\\na\\nb<pre> 1\\n  2</pre></p>'
    """
    parts = _PRE.split(output)  # text, a whole element, its name, and so on
    parts[::3] = [re.sub(r"[ \t]*\n\s*", "\n", part) for part in parts[::3]]
    del parts[2::3]
    return "".join(parts)
