"""Write what pages say about records: the tables of docs/audit-results.md and docs/reproduction.md, and the column ``minutes`` of
experiments/README.md.

``make result-pages`` runs it; tests/test_result_pages.py compares.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from caribou.experiments.grid import Experiment, available
from caribou.reports import paper
from caribou.reports.attacks import audit_blocks
from caribou.reports.blocks import Entry, Table
from caribou.reports.summary import Mean, grouped, successes
from caribou.results import Record, read_all

ROOT = Path(__file__).parents[1]
AUDIT_PAGE, README = ROOT / "docs" / "audit-results.md", ROOT / "experiments" / "README.md"
CLAIMS_PAGE = ROOT / "docs" / "reproduction.md"
CORES = 2
NOT_MEASURED = "n.m."


def audit_page(text: str, records: Sequence[Record]) -> str:
    """The page with every table between its marks as the records have it."""
    for table in audit_blocks(successes(records)):
        text = between_marks(text, table.name, markdown(table))
    return text


def between_marks(text: str, name: str, content: str) -> str:
    """The text with what stands between the marks of ``name`` replaced."""
    begin, end = f"<!-- {name}: made by scripts/result_pages.py -->", f"<!-- end of {name} -->"
    if begin not in text or end not in text:
        raise ValueError(f"the page must have the marks of {name}")
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n\n{content}\n\n{end}{rest.partition(end)[2]}"


# -- claims --------------------------------------------------------------------------------------------------------

STANDARD = ("cora", "pubmed", "photo", "computers", "berkeley13")
CHAINS = ("chain-s:75", "chain-m:75", "chain-l:75", "chain-x:125")
EPSILONS = (1, 2, 4, 8, 16, 32)


def claims_page(text: str, records: Mapping[str, Sequence[Record]]) -> str:
    """docs/reproduction.md with its tables as the records have them."""
    for unit, level, tables in (
        ("edp", "edge", {"edge": STANDARD, "chains": CHAINS}),
        ("ndp", "node", {"node": STANDARD}),
    ):
        means = grouped(successes(records.get(f"{level}-accuracy", ())), "epsilon", "method", "dataset")
        for name, datasets in tables.items():
            text = between_marks(text, f"claims-{name}", claims_table(means, unit, datasets))
    return text


def claims_table(means: Mapping[Any, Mean], unit: str, datasets: Sequence[str]) -> str:
    """CARIBOU, the best published method, the model without a graph, and votes, at three budgets; then who is best how often."""
    lines = [_line(["ε", "", *datasets]), _line(["---"] * (len(datasets) + 2))]
    for epsilon in (1, 4, 16):
        compared = {
            "CARIBOU (paper)": (f"caribou-{unit}",),
            "best of GAP, GraphSAGE, DPDGC": _published(unit),
            "MLP": (_without_graph(unit),),
            "votes": (f"votes-{unit}",),
        }
        for number, (title, methods) in enumerate(compared.items()):
            row = [str(epsilon) if number == 0 else "", title]
            lines.append(_line([*row, *(_best(means, epsilon, methods, dataset) for dataset in datasets)]))
    cells = [(epsilon, dataset) for epsilon in EPSILONS for dataset in datasets]
    wins = sum(_wins(means, f"caribou-{unit}", cell) for cell in cells)
    votes = sum(_wins(means, f"votes-{unit}", cell, f"caribou-{unit}") for cell in cells)
    rivals = "GAP, GraphSAGE, DPDGC and the MLP (as far as they were run)"
    words = (
        f"At six budgets, {len(cells)} cells: `caribou-{unit}` is at least as good as all of {rivals} in {wins} of them"
    )
    return "\n".join(lines) + f"\n\n{words}; `votes-{unit}` at least as good as these and `caribou-{unit}` in {votes}."


def _published(unit: str) -> tuple[str, ...]:
    return f"gap-{unit}", f"sage-{unit}", f"dpdgc-{unit}"


def _without_graph(unit: str) -> str:
    return "mlp" if unit == "edp" else "mlp-dp"


def _mean(means: Mapping[Any, Mean], epsilon: Any, method: str, dataset: str) -> Mean | None:
    return means.get(("inf" if method == "mlp" else epsilon, method, dataset))


def _best(means: Mapping[Any, Mean], epsilon: int, methods: Sequence[str], dataset: str) -> str:
    found = {m: mean for m in methods if (mean := _mean(means, epsilon, m, dataset)) is not None}
    if not found:
        return "not run"
    method = max(found, key=lambda m: found[m].value)
    value = f"{100 * found[method].value:.1f}"
    if len(methods) > 1:
        return f"{value} {method.partition('-')[0]}"
    published = paper.accuracy("mean", method, dataset, epsilon) if method.startswith("caribou") else None
    return value if published is None else f"{value} ({published:.1f})"


def _wins(means: Mapping[Any, Mean], method: str, cell: tuple[int, str], *more: str) -> bool:
    epsilon, dataset = cell
    unit = method.rpartition("-")[2]
    rivals = (*_published(unit), _without_graph(unit), *more)
    own = _mean(means, epsilon, method, dataset)
    others = [mean.value for m in rivals if (mean := _mean(means, epsilon, m, dataset)) is not None]
    return own is not None and bool(others) and own.value >= max(others)


# -- Markdown ------------------------------------------------------------------------------------------------------


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
    return (
        figure
        if len(known) == len(cells)
        else f"> {figure.strip('< ')} (time known for {len(known)} of {len(cells)} cells)"
    )


def _kind(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(cell.get(name) for name in ("attack", "method", "dataset"))


def pages() -> dict[Path, str]:
    """All pages as they should be."""
    records, problems = read_all(ROOT / "results")
    for problem in problems:
        print(problem, file=sys.stderr)
    return {
        AUDIT_PAGE: audit_page(AUDIT_PAGE.read_text(encoding="utf-8"), records.get("audit", ())),
        CLAIMS_PAGE: claims_page(CLAIMS_PAGE.read_text(encoding="utf-8"), records),
        README: with_minutes(README.read_text(encoding="utf-8"), available(ROOT / "experiments"), records),
    }


if __name__ == "__main__":
    for page, content in pages().items():
        page.write_text(content, encoding="utf-8")
