"""What a report is made of: tables and figures, each with the forms it is written in."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

BEST, SECOND = "best", "second"
NOT_RUN = "not run"
PLUS_MINUS = " ± "


@dataclass(frozen=True)
class Entry:
    """One entry of a table: what is shown, the number behind it, what the paper has, and whether it is best or second."""

    text: str = ""
    value: float | None = None
    paper: str = ""
    mark: str = ""
    title: str = ""


@dataclass(frozen=True)
class Table:
    """A table. ``head``: titles of the columns, the first of which name rows. ``groups``: a title and its rows."""

    name: str
    title: str
    head: tuple[str, ...]
    groups: tuple[tuple[str, tuple[tuple[Entry, ...], ...]], ...]
    caption: str = ""

    def to_csv(self) -> str:
        """Plain figures: the group, a column per title, its half width and the paper's figure in columns of their own."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        columns = [[row[k] for _, rows in self.groups for row in rows] for k in range(len(self.head))]
        with_width = [any(PLUS_MINUS in entry.text for entry in column) for column in columns]
        with_paper = [any(entry.paper for entry in column) for column in columns]
        titles = ["group"]
        for title, width, paper in zip(self.head, with_width, with_paper, strict=True):
            titles += [title, *([f"{title} (half width)"] * width), *([f"{title} (paper)"] * paper)]
        writer.writerow(titles)
        for group, rows in self.groups:
            for row in rows:
                line = [group]
                for entry, width, paper in zip(row, with_width, with_paper, strict=True):
                    figure, _, half = entry.text.partition(PLUS_MINUS)
                    line += [figure, *([half] * width), *([entry.paper] * paper)]
                writer.writerow(line)
        return out.getvalue()

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

    def to_html(self) -> str:
        """The table for the page, in a frame that scrolls where it is too wide."""
        head = "".join(f'<th scope="col">{escape(title)}</th>' for title in self.head)
        body = []
        for group, rows in self.groups:
            if group:
                body.append(
                    f'<tr class="group"><th scope="rowgroup" colspan="{len(self.head)}">{escape(group)}</th></tr>'
                )
            for row in rows:
                first = f'<th scope="row">{escape(row[0].text)}</th>'
                body.append(f"<tr>{first}{''.join(_html_entry(entry) for entry in row[1:])}</tr>")
        return (
            f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table></div>"
        )


@dataclass(frozen=True)
class Figure:
    """A figure as SVG and PNG. ``alternative``: what it shows, in words, for those who cannot see it."""

    name: str
    title: str
    alternative: str
    svg: str = field(repr=False)
    png: bytes = field(repr=False)
    caption: str = ""

    def to_html(self) -> str:
        """The figure for the page."""
        return f'<div class="figure" role="img" aria-label="{escape(self.alternative)}">{self.svg}</div>'


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
            mark = marks.get(round(entry.value, 6), "")
            out.append(Entry(entry.text, entry.value, entry.paper, mark, entry.title))
    return out


def _html_entry(entry: Entry) -> str:
    paper = f'<small class="paper">{escape(entry.paper)}</small>' if entry.paper else ""
    kind = entry.mark or ("none" if entry.text == NOT_RUN else "")
    text = f'<span class="{kind}">{escape(entry.text)}</span>' if kind else escape(entry.text)
    title = f' title="{escape(entry.title)}"' if entry.title else ""
    few = f" <small>({escape(entry.title)})</small>" if few_seeds(entry) else ""
    return f"<td{title}>{text}{few}{paper}</td>"


def few_seeds(entry: Entry) -> bool:
    """Whether a mean is over so few seeds that it has no interval, which is to be said."""
    return "seed" in entry.title and PLUS_MINUS not in entry.text


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
    return text + (rf" \,({_latex(entry.paper)})" if entry.paper else "")
