"""What a page for reading is made of: sections of short texts, facts, tables, charts and folds.

What the owner of the data wrote stands in `Declared`: the page sets it apart, so that no word of theirs can be taken for a
promise of the library. Everything else is the library's own sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from caribou.pages.base import render
from caribou.pages.pictures import LineChart, drawn

if TYPE_CHECKING:
    from markupsafe import Markup

LONGEST = 600
"""Letters of a declared text that a page shows; a longer one is cut, and the page says so."""
KINDS = ("", "good", "warn", "bad", "dim")
"""How a text looks: as it is, in a green, yellow or red frame, or small."""


@dataclass(frozen=True)
class Declared:
    """Words of somebody else: a name, a purpose, a description. Shown in one line of printable letters, and never as markup.

    >>> Declared("sales\\u202e 2026").shown
    'sales\\ufffd 2026'
    """

    words: str

    @property
    def shown(self) -> str:
        """The words as the page has them."""
        line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(self.words))
        more = len(line) - LONGEST
        return line if more <= 0 else f"{line[:LONGEST]} … ({more} more)"


Words = str | Declared
"""A sentence of ours, or words of somebody else."""


@dataclass(frozen=True)
class Text:
    """A paragraph. ``kind``: one of `KINDS`."""

    words: Words
    kind: str = ""


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Words, ...]


@dataclass(frozen=True)
class Facts:
    """Names and values. ``large``: as the figures that a page is about."""

    rows: tuple[tuple[str, Words], ...]
    large: bool = False


@dataclass(frozen=True)
class Grid:
    """A table: titles of its columns, then rows, the first entry of which names the row."""

    head: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Chart:
    """A picture of lines. ``name``: of the picture in the page."""

    name: str
    shown: LineChart
    caption: str = ""

    @property
    def element(self) -> Markup:
        """The picture as markup."""
        from markupsafe import Markup

        return Markup(drawn(self.shown, self.name))


@dataclass(frozen=True)
class Code:
    """Text for machines: a command, or a document."""

    text: str


@dataclass(frozen=True)
class SignHere:
    """Lines to fill in by hand."""

    labels: tuple[str, ...]


@dataclass(frozen=True)
class Fold:
    """Blocks behind a line that opens them. ``printed``: paper has them open; else it leaves them out."""

    title: str
    blocks: tuple[Block, ...]
    printed: bool = True


Block = Text | Items | Facts | Grid | Chart | Code | SignHere | Fold


@dataclass(frozen=True)
class Section:
    """A part of a page with a title. ``name``: its place in the address. ``about``: words of somebody else behind the title."""

    name: str
    title: str
    blocks: tuple[Block, ...] = field(default=())
    about: Declared | None = None


def section_page(title: str, sections: Sequence[Section], *, subject: Words = "", first: Sequence[Block] = ()) -> str:
    """A page of sections as one HTML text.

    Args:
        title: of window and page.
        sections: in their order; the page lists them at its beginning.
        subject: what the page is about.
        first: blocks before everything else: what a reader must know even if nothing more is read.

    Returns:
        The whole page.

    >>> "<h1>Ledger</h1>" in section_page("Ledger", [Section("all", "All", (Text("Nothing yet."),))])
    True
    """
    return render("sections.html", title=title, subject=subject, first=tuple(first), sections=tuple(sections))


def in_words(blocks: Iterable[Block]) -> str:
    """Everything that blocks say, as plain text: for tests and for whoever searches a page."""
    return "\n".join(_lines(blocks))


def _lines(blocks: Iterable[Block]) -> list[str]:
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            lines.append(plain(block.words))
        elif isinstance(block, Items):
            lines += map(plain, block.items)
        elif isinstance(block, Facts):
            lines += [f"{name}: {plain(value)}" for name, value in block.rows]
        elif isinstance(block, Grid):
            lines += [" | ".join(block.head), *(" | ".join(map(plain, row)) for row in block.rows), block.caption]
        elif isinstance(block, Chart):
            lines += [block.shown.words, block.caption]
        elif isinstance(block, Code):
            lines.append(block.text)
        elif isinstance(block, SignHere):
            lines += block.labels
        elif isinstance(block, Fold):
            lines += [block.title, *_lines(block.blocks)]
        else:
            raise TypeError(f"block must be one of those of a page, got {type(block).__name__}")
    return lines


def percent(share: float, digits: int) -> str:
    """A share in a sentence, as the charts write it.

    >>> percent(0.546, 1)
    '54.6 %'
    """
    return f"{100 * share:.{digits}f} %"


def plain(words: Words) -> str:
    """Words as text."""
    return words.shown if isinstance(words, Declared) else words
