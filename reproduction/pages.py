"""Write what pages say about records: the tables of docs/audit-results.md, docs/downstream.md and docs/reproduction.md, and the
column ``minutes`` of reproduction/README.md.

``make result-pages`` runs it (``python -m reproduction.pages``); tests/reproduction/test_pages.py compares.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from caribou.experiments.grid import Experiment, available
from caribou.experiments.records import Record, read_all
from caribou.experiments.report.blocks import NOT_RUN, Entry, Table, few_seeds
from caribou.experiments.report.summary import MIN_SEEDS, mean_of, successes
from reproduction import paper
from reproduction.attacks import audit_blocks
from reproduction.downstream import downstream_blocks
from reproduction.field import FIELD_PAGE, field_page

ROOT = Path(__file__).parents[1]
AUDIT_PAGE, README = ROOT / "docs" / "audit-results.md", ROOT / "reproduction" / "README.md"
CLAIMS_PAGE = ROOT / "docs" / "reproduction.md"
DOWNSTREAM_PAGE = ROOT / "docs" / "downstream.md"
CORES = 2
NOT_MEASURED = "n.m."


def audit_page(text: str, records: Sequence[Record]) -> str:
    """The page with every table between its marks as the records have it."""
    return with_tables(text, audit_blocks(successes(records)))


def downstream_page(text: str, records: Sequence[Record]) -> str:
    """docs/downstream.md with its tables as the records have them."""
    return with_tables(text, downstream_blocks(successes(records)))


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
EPSILONS = (1, 2, 4, 8, 16, 32)


def claims_page(text: str, records: Mapping[str, Sequence[Record]]) -> str:
    """docs/reproduction.md with its tables as the records have them."""
    for unit, level, tables in (
        ("edp", "edge", {"edge": STANDARD, "chains": CHAINS}),
        ("ndp", "node", {"node": STANDARD}),
    ):
        scores = _scores(successes(records.get(f"{level}-accuracy", ())))
        for name, datasets in tables.items():
            # elsewhere no fit of CARIBOU had votes
            more = _alone(successes(records.get("defaults", ()))) if name == "edge" else {}
            text = between_marks(text, f"claims-{name}", claims_table({**scores, **more}, unit, datasets))
    return text


ALONE = "caribou-edp, messages alone"
"""CARIBOU with its defaults, which spend nothing on votes: the mechanism of the paper."""

Scores = Mapping[tuple[Any, str, str], Mapping[int, float]]
"""Accuracies by (epsilon, method, data set) and seed."""


def _scores(records: Sequence[Record]) -> dict[tuple[Any, str, str], dict[int, float]]:
    found: dict[tuple[Any, str, str], dict[int, float]] = {}
    for record in records:
        cell = record.cell
        key = (cell["epsilon"], cell["method"], cell["dataset"])
        found.setdefault(key, {})[cell["seed"]] = record.measures["test_accuracy"]
    return found


def _alone(records: Sequence[Record]) -> dict[tuple[Any, str, str], dict[int, float]]:
    found = _scores([record for record in records if record.cell["method"] == "caribou-edp"])
    return {(epsilon, ALONE, dataset): values for (epsilon, _, dataset), values in found.items()}


def claims_table(scores: Scores, unit: str, datasets: Sequence[str]) -> str:
    """CARIBOU, the best published method, the model without a graph, and votes, at three budgets; then who is best how often."""
    ours, alone = f"caribou-{unit}", any(method == ALONE for _, method, _ in scores)
    compared = {
        **(
            {"CARIBOU, messages alone (paper)": (ALONE,), "CARIBOU as searched": (ours,)}
            if alone
            else {"CARIBOU (paper)": (ours,)}
        ),
        "best of GAP, GraphSAGE, DPDGC": _published(unit),
        "MLP": (_without_graph(unit),),
        "votes": (f"votes-{unit}",),
    }
    lines = [_line(["ε", "", *datasets]), _line(["---"] * (len(datasets) + 2))]
    for epsilon in (1, 4, 16):
        for number, (title, methods) in enumerate(compared.items()):
            row = [str(epsilon) if number == 0 else "", title]
            shown = (_best(scores, epsilon, methods, dataset, paper_too="(paper)" in title) for dataset in datasets)
            lines.append(_line([*row, *shown]))
    cells = [(epsilon, dataset) for epsilon in EPSILONS for dataset in datasets]
    rivals = (*_published(unit), _without_graph(unit))
    whole = sum(all(_found(scores, epsilon, m, dataset) for m in rivals) for epsilon, dataset in cells)
    everywhere = f"in {whole} of them" if whole < len(cells) else "in all of them"
    others = ", in the others some of them" if whole < len(cells) else ""
    words = [
        f"At six budgets there are {len(cells)} cells; {everywhere} all of GAP, GraphSAGE, DPDGC and the MLP were run{others}."
    ]
    for method in (*((ALONE,) if alone else ()), ours):
        words.append(f"{_names(method)} is at least as good as these in {_wins(scores, method, cells, rivals)}.")
    votes = f"votes-{unit}"
    more = _wins(scores, votes, cells, (*rivals, ours))
    words.append(f"{_names(votes)} is at least as good as these and `{ours}` in {more}.")
    return "\n".join([*lines, "", *words])


def _names(method: str) -> str:
    name, _, more = method.partition(", ")
    return f"`{name}`" + (f" with {more}" if more else "")


def _published(unit: str) -> tuple[str, ...]:
    return f"gap-{unit}", f"sage-{unit}", f"dpdgc-{unit}"


def _without_graph(unit: str) -> str:
    return "mlp" if unit == "edp" else "mlp-dp"


def _found(scores: Scores, epsilon: Any, method: str, dataset: str) -> Mapping[int, float]:
    return scores.get(("inf" if method == "mlp" else epsilon, method, dataset), {})


def _strongest(
    scores: Scores, epsilon: Any, methods: Sequence[str], dataset: str
) -> tuple[str, Mapping[int, float]] | None:
    found = {m: values for m in methods if (values := _found(scores, epsilon, m, dataset))}
    return max(found.items(), key=lambda item: mean_of([*item[1].values()]).value) if found else None


def _best(scores: Scores, epsilon: int, methods: Sequence[str], dataset: str, *, paper_too: bool) -> str:
    best = _strongest(scores, epsilon, methods, dataset)
    if best is None:
        return NOT_RUN
    method, values = best
    value = f"{100 * mean_of([*values.values()]).value:.1f}"
    if len(methods) > 1:
        return f"{value} {method.partition('-')[0]}"
    published = paper.accuracy("mean", method.partition(",")[0], dataset, epsilon) if paper_too else None
    return value if published is None else f"{value} ({published:.1f})"


def _wins(scores: Scores, method: str, cells: Sequence[tuple[int, str]], rivals: Sequence[str]) -> str:
    """In how many cells the mean is at least that of the strongest rival; and beyond chance, seed by seed (Student's t, 95 %)."""
    wins = clear = 0
    for epsilon, dataset in cells:
        own, rival = _found(scores, epsilon, method, dataset), _strongest(scores, epsilon, rivals, dataset)
        if own and rival is not None:
            wins += mean_of([*own.values()]).value >= mean_of([*rival[1].values()]).value
            distance = mean_of([own[seed] - rival[1][seed] for seed in own.keys() & rival[1].keys()])
            clear += distance.count >= MIN_SEEDS and distance.value > distance.half_width
    return f"{wins} (beyond chance, seed by seed: {clear})"


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
    return f"{entry.text} ({entry.title})" if few_seeds(entry) else entry.text


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
    records, problems = read_all(ROOT / "reproduction" / "results")
    for problem in problems:
        print(problem, file=sys.stderr)
    return {
        AUDIT_PAGE: audit_page(AUDIT_PAGE.read_text(encoding="utf-8"), records.get("audit", ())),
        CLAIMS_PAGE: claims_page(CLAIMS_PAGE.read_text(encoding="utf-8"), records),
        FIELD_PAGE: field_page(FIELD_PAGE.read_text(encoding="utf-8"), records),
        DOWNSTREAM_PAGE: downstream_page(DOWNSTREAM_PAGE.read_text(encoding="utf-8"), records.get("downstream", ())),
        README: with_minutes(
            README.read_text(encoding="utf-8"), available(ROOT / "reproduction" / "experiments"), records
        ),
    }


if __name__ == "__main__":
    for page, content in pages().items():
        page.write_text(content, encoding="utf-8")
