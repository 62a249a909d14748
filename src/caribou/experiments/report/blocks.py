"""What a report is made of: tables and figures, each with the forms it is written in."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from caribou.experiments.report.summary import seed_words
from caribou.pages.pictures import inline

if TYPE_CHECKING:
    from markupsafe import Markup

BEST, SECOND = "best", "second"
NOT_RUN = "not run"
PLUS_MINUS = " ± "
PAPER = "paper"
"""What stands before a published figure, and after a comma in the label of a published line."""


@dataclass(frozen=True)
class Entry:
    """One entry of a table.

    text: what is shown. value: the number behind it. paper: what a publication has. mark: best or second. title: a note on
    hover. seeds: how many seeds it is over; 0 where that has no meaning.
    """

    text: str = ""
    value: float | None = None
    paper: str = ""
    mark: str = ""
    title: str = ""
    seeds: int = 0

    @property
    def with_paper(self) -> str:
        """What is shown, with the published figure beside it.

        >>> Entry("79.2 ± 0.5", paper="84.3").with_paper
        '79.2 ± 0.5 (paper 84.3)'
        """
        return f"{self.text} ({PAPER} {self.paper})".lstrip() if self.paper else self.text


@dataclass(frozen=True)
class Table:
    """A table. ``head``: titles of the columns, the first of which name rows. ``groups``: a title and its rows."""

    name: str
    title: str
    head: tuple[str, ...]
    groups: tuple[tuple[str, tuple[tuple[Entry, ...], ...]], ...]
    caption: str = ""

    @property
    def usual_seeds(self) -> int:
        """Over how many seeds most entries are: what a caption says once."""
        counts = Counter(entry.seeds for _, rows in self.groups for row in rows for entry in row if entry.seeds)
        return max(counts, key=lambda count: (counts[count], count)) if counts else 0

    def note(self, entry: Entry) -> str:
        """What is to be said of a single entry: that it is over fewer seeds than the others."""
        return seed_words(entry.seeds) if 0 < entry.seeds < self.usual_seeds else ""

    def to_csv(self) -> str:
        """Plain figures: the group, a column per title, its half width and the paper's figure in columns of their own."""
        columns = [[row[k] for _, rows in self.groups for row in rows] for k in range(len(self.head))]
        with_width = [any(PLUS_MINUS in entry.text for entry in column) for column in columns]
        with_paper = [any(entry.paper for entry in column) for column in columns]
        titles = ["group"]
        for title, width, paper in zip(self.head, with_width, with_paper, strict=True):
            titles += [title, *([f"{title} (half width)"] * width), *([f"{title} (paper)"] * paper)]
        lines = [titles]
        for group, rows in self.groups:
            for row in rows:
                line = [group]
                for entry, width, paper in zip(row, with_width, with_paper, strict=True):
                    figure, _, half = entry.text.partition(PLUS_MINUS)
                    line += [figure, *([half] * width), *([entry.paper] * paper)]
                lines.append(line)
        return _csv(lines)

    def to_latex(self) -> str:
        """A tabular for booktabs: best in bold, second underlined, the paper's in brackets; title and caption as comments."""
        lines = [f"% {self.title}. {self.caption}".rstrip(), "% needs booktabs"]
        lines += [r"\begin{tabular}{l" + "r" * (len(self.head) - 1) + "}", r"\toprule"]
        lines += [" & ".join(_latex(title) for title in self.head) + r" \\"]
        for group, rows in self.groups:
            lines.append(r"\midrule")
            if group:
                lines.append(rf"\multicolumn{{{len(self.head)}}}{{l}}{{{_latex(group)}}} \\")
            lines += [" & ".join(_latex_entry(entry) for entry in row) + r" \\" for row in rows]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


@dataclass(frozen=True)
class Figure:
    """A figure, which is drawn when it is looked at.

    alternative: what it shows, in words, for those who cannot see it. draw: makes SVG and PNG. data: what is drawn, titles first.
    min_width: below it the picture scrolls in a page. [px]
    """

    name: str
    title: str
    alternative: str
    draw: Callable[[], tuple[str, bytes]] = field(repr=False, compare=False)
    data: tuple[tuple[Any, ...], ...] = field(repr=False)
    caption: str = ""
    min_width: int = 0

    @cached_property
    def drawn(self) -> tuple[str, bytes]:
        """The picture as SVG and PNG."""
        return self.draw()

    def to_csv(self) -> str:
        """What was drawn, as plain figures."""
        return _csv(self.data)

    def to_page(self) -> Markup:
        """The element for the page."""
        return inline(self.drawn[0], self.name, self.min_width)


Block = Table | Figure


def marked(row_entries: Sequence[Entry | None]) -> list[Entry]:
    """The entries with the largest value marked best and the next one second; equal texts get equal marks, a single one none."""
    known = [round(e.value, 6) for e in row_entries if e is not None and e.value is not None]
    values = sorted(set(known), reverse=True) if len(known) > 1 else []
    marks = dict(zip(values[:2], (BEST, SECOND), strict=False))
    out = []
    for entry in row_entries:
        if entry is None:
            out.append(Entry(NOT_RUN, title=NOT_RUN))
        elif entry.value is None:
            out.append(entry)
        else:
            out.append(replace(entry, mark=marks.get(round(entry.value, 6), "")))
    return out


def _csv(lines: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


_LATEX = {
    "\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "±": r"$\pm$", "ε": r"$\varepsilon$", "δ": r"$\delta$",
    "∞": r"$\infty$", "α": r"$\alpha$", "β": r"$\beta$", "#": r"\#", "$": r"\$",
}  # fmt: skip


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _latex_entry(entry: Entry) -> str:
    text = _latex(entry.text)
    if entry.mark == BEST:
        text = rf"\textbf{{{text}}}"
    elif entry.mark == SECOND:
        text = rf"\underline{{{text}}}"
    return text + (rf" \,({PAPER} {_latex(entry.paper)})" if entry.paper else "")
