"""What a report is made of: tables and figures, each with the forms it is written in."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from caribou.experiments.report.summary import seed_words
from caribou.pages.pictures import inline, packed

BEST, SECOND = "best", "second"
ELEMENTS = {BEST: "b", SECOND: "u"}
"""Of marked entries on the page."""
NOT_RUN = "not run"
PLUS_MINUS = " ± "
LONG = 16
"""Letters from which on an entry without a value is text, which may be broken into lines."""
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

    def to_html(self, notes: dict[str, int] | None = None) -> str:
        """The table for the page, in a frame that scrolls where it is too wide.

        ``notes``: where notes of entries are collected; an entry then holds the number of its note. Without it an entry holds
        the words.
        """
        head = "".join(f'<th scope="col">{escape(title)}</th>' for title in self.head)
        body = []
        for group, rows in self.groups:
            if group:
                body.append(
                    f'<tr class="group"><th scope="rowgroup" colspan="{len(self.head)}">{escape(group)}</th></tr>'
                )
            for row in rows:
                first = f'<th scope="row">{escape(row[0].text)}</th>'
                body.append(
                    f"<tr>{first}{''.join(_html_entry(entry, self.note(entry), notes) for entry in row[1:])}</tr>"
                )
        frame = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(self.title)}">'
        return (
            f'{frame}<table class="scores"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
        )


@dataclass(frozen=True)
class Figure:
    """A figure as SVG and PNG.

    alternative: what it shows, in words, for those who cannot see it. data: what was drawn, titles first. min_width: below it the
    picture scrolls in a page. [px]
    """

    name: str
    title: str
    alternative: str
    svg: str = field(repr=False)
    png: bytes = field(repr=False)
    data: tuple[tuple[Any, ...], ...] = field(repr=False)
    caption: str = ""
    min_width: int = 0

    def to_csv(self) -> str:
        """What was drawn, as plain figures."""
        return _csv(self.data)

    def to_page(self) -> str:
        """The element for the page, packed."""
        return packed(inline(self.svg, self.name, self.min_width))


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


def _html_entry(entry: Entry, note: str, notes: dict[str, int] | None) -> str:
    paper = f"<small>{PAPER} {escape(entry.paper)}</small>" if entry.paper else ""
    # thousands of entries stand on one page: the shortest elements, and no end tag where HTML needs none, keep it below 1 MB
    kind = ELEMENTS[entry.mark] if entry.mark else "i" if entry.text == NOT_RUN else ""
    text = f"<{kind}>{escape(entry.text)}</{kind}>" if kind else escape(entry.text)
    title = ""
    if entry.title and notes is None:
        title = f' title="{escape(entry.title)}"'
    elif entry.title and notes is not None:
        title = f" data-n={notes.setdefault(entry.title, len(notes))}"
    title += ' class="words"' if entry.value is None and len(entry.text) > LONG else ""
    few = f' <small class="few">({escape(note)})</small>' if note else ""
    return f"<td{title}>{text}{few}{paper}"


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
