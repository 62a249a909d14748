"""What a report is made of: tables and figures, each with the forms it is written in."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from html import escape

BEST, SECOND = "best", "second"


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
        """Plain figures: the group, the texts, and a column with the paper's figure where there is one."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        with_paper = [
            any(row[k].paper for _, rows in self.groups for row in rows if k < len(row)) for k in range(len(self.head))
        ]
        titles = ["group"]
        for title, paper in zip(self.head, with_paper, strict=True):
            titles += [title, f"{title} (paper)"] if paper else [title]
        writer.writerow(titles)
        for group, rows in self.groups:
            for row in rows:
                line = [group]
                for entry, paper in zip(row, with_paper, strict=True):
                    line += [entry.text, entry.paper] if paper else [entry.text]
                writer.writerow(line)
        return out.getvalue()

    def to_latex(self) -> str:
        """A tabular: best in bold, second underlined, the paper's figure in brackets."""
        lines = [r"\begin{tabular}{l" + "r" * (len(self.head) - 1) + "}", r"\toprule"]
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


def marked(row_entries: list[Entry | None]) -> list[Entry]:
    """The entries with the largest value marked best and the next one second; equal texts get equal marks."""
    values = sorted({round(e.value, 6) for e in row_entries if e is not None and e.value is not None}, reverse=True)
    marks = dict(zip(values[:2], (BEST, SECOND), strict=False))
    out = []
    for entry in row_entries:
        if entry is None:
            out.append(Entry("not run", title="not run"))
        elif entry.value is None:
            out.append(entry)
        else:
            mark = marks.get(round(entry.value, 6), "")
            out.append(Entry(entry.text, entry.value, entry.paper, mark, entry.title))
    return out


def _html_entry(entry: Entry) -> str:
    paper = f'<small class="paper">{escape(entry.paper)}</small>' if entry.paper else ""
    kind = f' class="{entry.mark}"' if entry.mark else (' class="none"' if entry.text == "not run" else "")
    title = f' title="{escape(entry.title)}"' if entry.title else ""
    return f"<td{kind}{title}>{escape(entry.text)}{paper}</td>"


_LATEX = {
    "\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "±": r"$\pm$", "ε": r"$\varepsilon$", "δ": r"$\delta$",
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
