"""Write what pages say about records: tables of pages in docs/ and beside this file.

``make result-pages`` runs it (``python -m reproduction.pages``); tests/reproduction/test_pages.py compares.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from caribou.experiments.grid import Experiment, available
from caribou.experiments.records import Record, read_all
from caribou.experiments.report.blocks import NOT_RUN, Entry, Table
from caribou.experiments.report.page import of_cells, sections
from caribou.experiments.report.summary import mean_of, successes
from reproduction import clean_convolution, paper
from reproduction.attacks import audit_tables
from reproduction.comparison import Scores, Wins, rivals, scores_of, strongest, wins, without_graph
from reproduction.downstream import downstream_blocks
from reproduction.durations import expected
from reproduction.field import FIELD_PAGE, field_page
from reproduction.items import ITEMS
from reproduction.panels import FEATURES, OURS, PAPERS, RUN_HERE, real_panels
from reproduction.rows import AUTHORS, DAGGER, DAGGER_NOTE, VALIDATED, dataset_title

ROOT = Path(__file__).parents[1]
AUDIT_PAGE, README = ROOT / "reproduction" / "attacks.md", ROOT / "reproduction" / "README.md"
CLAIMS_PAGE = ROOT / "docs" / "reproduction.md"
METHOD_PAGE = ROOT / "docs" / "methods" / "caribou.md"
DOWNSTREAM_PAGE = ROOT / "reproduction" / "downstream.md"
HOME_PAGE = ROOT / "docs" / "index.md"
SUMS = ROOT / "reproduction" / "report.sha256"
CORES = 2
NOT_MEASURED = "n.m."
SCALE = "laptop"
"""The scale whose cells the pages are about."""


def audit_page(text: str, records: Sequence[Record]) -> str:
    """The page with every table between its marks as the records have it."""
    return with_tables(text, audit_tables(records))


def downstream_page(text: str, records: Sequence[Record]) -> str:
    """reproduction/downstream.md with its tables as the records have them."""
    return with_tables(text, downstream_blocks(records))


def home_page(text: str, records: Mapping[str, Sequence[Record]]) -> str:
    """The first page with the figures of its picture at one epsilon."""
    return between_marks(text, "home", home_table(records))


def home_table(records: Mapping[str, Sequence[Record]], epsilon: int = 4) -> str:
    """Test accuracy on real graphs: features alone, the paper's method as printed and as run here, and ours."""
    columns = {
        FEATURES: "features alone",
        PAPERS: "the paper's method, as printed",
        RUN_HERE: "the paper's method, run here",
        OURS: "votes, ours",
    }
    lines = [_line(["test accuracy in %", *columns.values()]), _line(["---"] * (len(columns) + 1))]
    for title, found in real_panels(records, "edge-accuracy").items():
        means = [found.get(label, {}).get(epsilon) for label in columns]
        lines.append(_line([title, *(NOT_RUN if mean is None else mean.percent() for mean in means)]))
    return "\n".join(lines)


def with_tables(text: str, tables: Sequence[Table]) -> str:
    """The text with each table between its marks."""
    for table in tables:
        text = between_marks(text, table.name, markdown(table))
    return text


def between_marks(text: str, name: str, content: str) -> str:
    """The text with what stands between the marks of ``name`` replaced."""
    begin, end = f"<!-- {name}: made by reproduction/pages.py -->", f"<!-- end of {name} -->"
    if begin not in text or end not in text:
        raise ValueError(f"the page must have the marks of {name}")
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n\n{content}\n\n{end}{rest.partition(end)[2]}"


# -- claims --------------------------------------------------------------------------------------------------------

STANDARD = ("cora", "pubmed", "photo", "computers", "berkeley13")
CHAINS = ("chain-s:75", "chain-m:75", "chain-l:75", "chain-x:125")
SHOWN = (1, 4, 16)
"""The budgets that a table shows; wins are counted at all six."""


def claims_page(text: str, records: Mapping[str, Sequence[Record]]) -> str:
    """docs/reproduction.md with its tables as the records have them."""
    for unit, level, tables in (
        ("edp", "edge", {"edge": STANDARD, "chains": CHAINS}),
        ("ndp", "node", {"node": STANDARD}),
    ):
        # settings of the table of tops belong to another table
        found = [r for r in records.get(f"{level}-accuracy", ()) if r.cell.get("chosen") != "authors-top"]
        scores = scores_of(found)
        for name, datasets in tables.items():
            text = between_marks(text, f"claims-{name}", claims_table(scores, unit, variants(scores, datasets)))
    return text


def variants(scores: Scores, datasets: Sequence[str]) -> list[str]:
    """The data sets as they were run: without isolated nodes, as in the paper, where there are such records."""
    run = {dataset for _, _, dataset in scores}
    return [f"{dataset}:connected" if f"{dataset}:connected" in run else dataset for dataset in datasets]


def claims_table(scores: Scores, unit: str, datasets: Sequence[str]) -> str:
    """CARIBOU, the best published method, the model without a graph, and votes, at three budgets; then who is best how often."""
    authors, validated = (f"caribou-{unit}, {face}" for face in (AUTHORS, VALIDATED))
    compared = {
        f"CARIBOU, {AUTHORS} (paper)": (authors,),
        f"CARIBOU, {VALIDATED}": (validated,),
        "best of GAP, GraphSAGE, DPDGC": rivals(unit),
        "MLP": (without_graph(unit),),
        "votes": (f"votes-{unit}",),
    }
    lines = [_line(["ε", "", *map(dataset_title, datasets)]), _line(["---"] * (len(datasets) + 2))]
    for epsilon in SHOWN:
        for number, (title, rows) in enumerate(compared.items()):
            shown = [_best(scores, epsilon, rows, dataset, paper_too="(paper)" in title) for dataset in datasets]
            lines.append(_line([str(epsilon) if number == 0 else "", title, *shown]))
    if any(DAGGER in line for line in lines):
        lines += ["", DAGGER_NOTE]
    return "\n".join([*lines, "", *counts_table(scores, unit, datasets)])


def counts_table(scores: Scores, unit: str, datasets: Sequence[str]) -> list[str]:
    """Cells in which a row is at least as good as its rivals: those of the paper, and with the model without a graph, too."""
    level = {"edp": "edge", "ndp": "node"}[unit]
    cells = [(epsilon, dataset) for epsilon in paper.EPSILONS for dataset in datasets]
    theirs = [(epsilon, paper.paper_dataset(dataset)) for epsilon, dataset in cells]
    lines = [_line(["best or level, of cells with all of them", "among the paper's four", "and the MLP"])]
    lines.append(_line(["---"] * 3))
    both = (rivals(unit), (*rivals(unit), without_graph(unit)))
    for title, table in (("means", "mean"), ("tops", "top1")):
        own = paper.scores(table, level)
        found = [wins(own, f"caribou-{unit}", theirs, others) for others in both]
        lines.append(_line([f"CARIBOU in the paper's table of {title}", *(_counted(w, seeds=False) for w in found)]))
    for face in (AUTHORS, VALIDATED):
        found = [wins(scores, f"caribou-{unit}, {face}", cells, others) for others in both]
        lines.append(_line([f"CARIBOU, {face}", *(_counted(w) for w in found)]))
    ours = f"caribou-{unit}, {AUTHORS}"
    found = [wins(scores, f"votes-{unit}", cells, (ours, *others)) for others in both]
    lines.append(_line([f"`votes-{unit}` against these and CARIBOU, {AUTHORS}", *(_counted(w) for w in found)]))
    return lines


def _counted(found: Wins, *, seeds: bool = True) -> str:
    if not found.compared:
        return NOT_RUN
    clear = f" (beyond chance, seed by seed: {found.clear})" if seeds else ""
    return f"{found.wins} of {found.compared}{clear}"


def _best(scores: Scores, epsilon: int, rows: Sequence[str], dataset: str, *, paper_too: bool) -> str:
    best, mark = strongest(scores, epsilon, rows, dataset), ""
    if best is None:
        best, mark = strongest(scores, epsilon, rows, dataset.removesuffix(":connected")), DAGGER
    if best is None:
        return NOT_RUN
    row, values = best
    value = f"{100 * mean_of([*values.values()]).value:.1f}{mark}"
    if len(rows) > 1:
        return f"{value} {row.partition('-')[0]}"
    published = paper.accuracy("mean", row.partition(",")[0], dataset, epsilon) if paper_too else None
    return value if published is None else f"{value} ({published:.1f})"


# -- the method's own page, and the fault of the public code ---------------------------------------------------------


def method_page(text: str, records: Mapping[str, Sequence[Record]]) -> str:
    """docs/methods/caribou.md with the rows of CARIBOU, the paper's and ours."""
    lines: list[str] = []
    for unit, level in (("edp", "edge"), ("ndp", "node")):
        scores = scores_of(r for r in records.get(f"{level}-accuracy", ()) if r.cell.get("chosen") != "authors-top")
        rows = [r for r in dict.fromkeys(row for _, row, _ in scores) if r.startswith(f"caribou-{unit}")]
        datasets = variants(scores, STANDARD)
        if not lines:
            words = f"test accuracy in % at ε = {' / '.join(map(str, SHOWN))}"
            lines += [_line([words, *map(dataset_title, datasets)]), _line(["---"] * (1 + len(datasets)))]
        for row in (*sorted(rows), without_graph(unit)):
            shown = [
                " / ".join(_best(scores, epsilon, (row,), dataset, paper_too=False) for epsilon in SHOWN)
                for dataset in datasets
            ]
            lines.append(_line([row, *shown]))
    if any(DAGGER in line for line in lines):
        lines += ["", DAGGER_NOTE]
    return between_marks(text, "method-caribou", "\n".join(lines))


def fault_table(rows: Sequence[Sequence[str]]) -> str:
    """Accuracy of the sound mechanism, and with the clean last convolution of the public code. ``rows``: as measured."""
    found: dict[tuple[str, str, int], list[float]] = {}
    for dataset, epsilon, _, *shares in rows:
        for which, share in enumerate(shares):
            found.setdefault((dataset, epsilon, which), []).append(float(share))
    datasets = [d for d in clean_convolution.GRAPHS if any(key[0] == d for key in found)]
    lines = [_line(["ε", "", *map(dataset_title, datasets)]), _line(["---"] * (2 + len(datasets)))]
    for epsilon in map(str, clean_convolution.EPSILONS):
        for which, title in enumerate(("sound", "with the fault: not private", "paper")):
            cells = []
            for dataset in datasets:
                if title == "paper":
                    value = paper.accuracy("mean", "caribou-edp", dataset, epsilon)
                    cells.append("" if value is None else f"{value:.1f}")
                else:
                    values = found.get((dataset, epsilon, which), [])
                    cells.append(f"{100 * mean_of(values).value:.1f}" if values else NOT_RUN)
            lines.append(_line([epsilon if which == 0 else "", title, *cells]))
    return "\n".join(lines)


def measured_fault() -> list[list[str]]:
    """The rows of results/clean-convolution.csv; none if it was not measured."""
    if not clean_convolution.RESULT.exists():
        return []
    with clean_convolution.RESULT.open(encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


# -- Markdown ------------------------------------------------------------------------------------------------------


def markdown(table: Table) -> str:
    """The table, a line per row; titles of groups are rows of their own."""
    lines = [_line(table.head), _line(["---"] * len(table.head))]
    for group, rows in table.groups:
        lines.append(_line([f"**{group}**", *[""] * (len(table.head) - 1)]))
        lines += [_line([_words(table, entry) for entry in row]) for row in rows]
    return "\n".join(lines)


def _line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"


def _words(table: Table, entry: Entry) -> str:
    """What is shown, with the number of seeds where they are fewer than elsewhere."""
    return f"{entry.text} ({note})" if (note := table.note(entry)) else entry.text


# -- the map of items ----------------------------------------------------------------------------------------------


def readme_page(text: str, experiments: Sequence[Experiment], records: Mapping[str, Sequence[Record]]) -> str:
    """reproduction/README.md with its tables of items, of experiments and of what cannot be had."""
    text = between_marks(text, "items", items_table())
    text = between_marks(text, "experiments", experiments_table(experiments, records))
    return between_marks(text, "missing", missing_table())


def items_table() -> str:
    """Every item with what it is in the paper, its command and its experiments."""
    lines = [_line(["item of the paper", "what it is", "command", "experiments"]), _line(["---"] * 4)]
    for item in ITEMS:
        names = ", ".join(f"`{name}`" for name in item.experiments)
        lines.append(_line([item.paper, item.title, f"`caribou reproduce {item.name}`", names]))
    return "\n".join(lines)


def experiments_table(experiments: Sequence[Experiment], records: Mapping[str, Sequence[Record]]) -> str:
    """Every experiment with its items, its cells and how long they take."""
    lines = [_line(["experiment", "items", "cells", "minutes"]), _line(["---", "---", "---:", "---:"])]
    for experiment in experiments:
        items = ", ".join(item.name for item in ITEMS if experiment.name in item.experiments)
        cells = f"{len(experiment.cells(SCALE)):,}"
        time = minutes(experiment, records.get(experiment.name, ()))
        lines.append(_line([f"`{experiment.name}.toml`: {experiment.title}", items, cells, time]))
    return "\n".join(lines)


MISSING = {
    "UIllinois20, the paper's Facebook graph, cannot be had here; Berkeley13, another school of Facebook100, stands in": (
        "caribou train caribou-edp --graph uillinois20.npz --epsilon 4"
    ),
    "Reddit2's features cannot be had here; `larger` has generated graphs of its size and the edges of ogbn-arxiv": (
        "caribou train caribou-edp --graph reddit2.npz --epsilon 4"
    ),
    "with alpha_1 = 0 the layer gives edges no weight, and a release that reads no edge is refused; the records say so": (
        "caribou train caribou-edp --dataset cora --epsilon 4 --set alpha1=0"
    ),
}
"""Cells of the paper that have no record of their own: the reason, and the command that would run them."""


def missing_table() -> str:
    """What of the paper cannot be had here, and the command that would run it."""
    lines = [_line(["what", "command"]), _line(["---"] * 2)]
    lines += [_line([reason, f"`{command}`"]) for reason, command in MISSING.items()]
    return "\n".join(lines)


def minutes(experiment: Experiment, records: Sequence[Record]) -> str:
    """CPU minutes of all cells at scale laptop by the mean of their kind, over two cores.

    Kinds that were never measured are left out and said so.
    """
    time = expected(experiment.cells(SCALE), records)
    if not time.known:
        return NOT_MEASURED
    total = time.seconds / 60 / CORES
    figure = f"{total:.0f}" if total >= 1 else "< 1"
    if time.known == time.cells:
        return figure
    return f"> {figure.strip('< ')} (time known for {time.known} of {time.cells} cells)"


def current(records: Mapping[str, Sequence[Record]], experiments: Sequence[Experiment]) -> dict[str, list[Record]]:
    """The records of cells that the grids have today."""
    return {e.name: of_cells(successes(records.get(e.name, ())), e.cells(SCALE)) for e in experiments}


def sums(experiments: Sequence[Experiment], records: Mapping[str, Sequence[Record]]) -> str:
    """A checksum for the figures of every table and picture of the report: a number that changes shows.

    ``cd report && sha256sum --check ../reproduction/report.sha256``, after ``make report``.
    """
    known = {experiment.name: experiment for experiment in experiments}
    found = sections({name: records.get(name, ()) for name in known}, known, SCALE, ITEMS)
    blocks = [block for part in found for block in part.blocks]
    return "".join(f"{sha256(block.to_csv().encode()).hexdigest()}  {block.name}.csv\n" for block in blocks)


def pages() -> dict[Path, str]:
    """All pages as they should be."""
    records, problems = read_all(ROOT / "reproduction" / "results")
    for problem in problems:
        print(problem, file=sys.stderr)
    experiments = available(ROOT / "reproduction" / "experiments")
    found = current(records, experiments)
    return {
        AUDIT_PAGE: audit_page(AUDIT_PAGE.read_text(encoding="utf-8"), found["audit"]),
        CLAIMS_PAGE: between_marks(
            claims_page(CLAIMS_PAGE.read_text(encoding="utf-8"), found), "fault", fault_table(measured_fault())
        ),
        HOME_PAGE: home_page(HOME_PAGE.read_text(encoding="utf-8"), records),
        METHOD_PAGE: method_page(METHOD_PAGE.read_text(encoding="utf-8"), found),
        FIELD_PAGE: field_page(FIELD_PAGE.read_text(encoding="utf-8"), records),
        DOWNSTREAM_PAGE: downstream_page(DOWNSTREAM_PAGE.read_text(encoding="utf-8"), found["downstream"]),
        README: readme_page(README.read_text(encoding="utf-8"), experiments, records),
        SUMS: sums(experiments, records),
    }


if __name__ == "__main__":
    for page, content in pages().items():
        page.write_text(content, encoding="utf-8")
