"""How objects look in a notebook: a small table of public words. What a text may not show, a notebook may not show either."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, rows: Iterable[Sequence[object]], heading: Sequence[str] = ()) -> str:
    """A titled table; every cell is escaped.

    >>> html_table("Graph", [("nodes", 3)])
    '<table><caption>Graph</caption><tr><th>nodes</th><td>3</td></tr></table>'
    """
    head = "".join(f"<th>{escape(word)}</th>" for word in heading)
    lines = [f"<tr>{head}</tr>"] if head else []
    for first, *others in rows:
        cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in others)
        lines.append(f"<tr><th>{escape(str(first))}</th>{cells}</tr>")
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"
