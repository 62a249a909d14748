"""Write what pages say about records: the tables of docs/audit-results.md, and the column ``minutes`` of experiments/README.md.

``make result-pages`` runs it; tests/test_result_pages.py compares.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from caribou.experiments.grid import Experiment, available
from caribou.reports.attacks import audit_blocks
from caribou.reports.blocks import Entry, Table
from caribou.reports.summary import successes
from caribou.results import Record, read_all

ROOT = Path(__file__).parents[1]
AUDIT_PAGE, README = ROOT / "docs" / "audit-results.md", ROOT / "experiments" / "README.md"
CORES = 2
NOT_MEASURED = "n.m."


def audit_page(text: str, records: Sequence[Record]) -> str:
    """The page with every table between its marks as the records have it."""
    for table in audit_blocks(successes(records)):
        begin, end = f"<!-- {table.name}: made by scripts/result_pages.py -->", f"<!-- end of {table.name} -->"
        if begin not in text or end not in text:
            raise ValueError(f"{AUDIT_PAGE.name} must have the marks of {table.name}")
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n\n{markdown(table)}\n\n{end}{rest.partition(end)[2]}"
    return text


def markdown(table: Table) -> str:
    """The table, a line per row; titles of groups are rows of their own."""
    lines = [_line(table.head), _line(["---"] * len(table.head))]
    for group, rows in table.groups:
        lines.append(_line([f"**{group}**", *[""] * (len(table.head) - 1)]))
        lines += [_line([_words(entry) for entry in row]) for row in rows]
    return "\n".join(lines)


def _line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"


def _words(entry: Entry) -> str:
    """What is shown, with the number of seeds where they are too few for an interval."""
    return f"{entry.text} ({entry.title})" if entry.title and "±" not in entry.text else entry.text


def with_minutes(text: str, experiments: Sequence[Experiment], records: Mapping[str, Sequence[Record]]) -> str:
    """The table of experiments with its last column filled in."""
    lines = text.split("\n")
    for experiment in experiments:
        for k, line in enumerate(lines):
            if line.startswith("|") and f"`{experiment.name}.toml`" in line:
                kept = line.strip("|").split("|")[:-1]
                lines[k] = f"|{'|'.join(kept)}| {minutes(experiment, records.get(experiment.name, ()))} |"
    return "\n".join(lines)


def minutes(experiment: Experiment, records: Sequence[Record]) -> str:
    """CPU minutes of all cells at scale laptop by the mean of their kind (attack, method, data set), over two cores.

    An encoder that cells share counts once, where it was fitted. Kinds that were never measured are left out and said so.
    """
    seconds: dict[Any, list[float]] = {}
    for record in successes(records):
        if "cpu_seconds" in record.measures:
            own = record.measures["cpu_seconds"] - record.measures.get("shared_cpu_seconds", 0.0)
            seconds.setdefault(_kind(record.cell), []).append(own)
    cells = experiment.cells("laptop")
    known = [cell for cell in cells if _kind(cell) in seconds]
    if not known:
        return NOT_MEASURED
    total = sum(sum(seconds[_kind(cell)]) / len(seconds[_kind(cell)]) for cell in known) / 60 / CORES
    figure = f"{total:.0f}" if total >= 1 else "< 1"
    return figure if len(known) == len(cells) else f"> {figure.strip('< ')} ({len(known)} of {len(cells)} cells)"


def _kind(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(cell.get(name) for name in ("attack", "method", "dataset"))


def pages() -> dict[Path, str]:
    """Both pages as they should be."""
    records, problems = read_all(ROOT / "results")
    for problem in problems:
        print(problem, file=sys.stderr)
    return {
        AUDIT_PAGE: audit_page(AUDIT_PAGE.read_text(encoding="utf-8"), records.get("audit", ())),
        README: with_minutes(README.read_text(encoding="utf-8"), available(ROOT / "experiments"), records),
    }


if __name__ == "__main__":
    for page, content in pages().items():
        page.write_text(content, encoding="utf-8")
