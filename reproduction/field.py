"""What docs/field.md takes from records, from the paper's tables and from the accounting.

`reproduction.pages` writes the page; tests/reproduction/test_field.py compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from caribou.experiments.grid import read_experiment
from caribou.experiments.records import Record
from caribou.experiments.report.summary import Mean, figure_of, grouped, seed_words, successes
from caribou.privacy.accounting import epsilon_of, gdp_mu
from caribou.privacy.events import Gaussian
from caribou.privacy.sensitivity import sum_edge_sensitivity
from reproduction import paper
from reproduction.rows import VALIDATED, row_label

ROOT = Path(__file__).parents[1]
FIELD_PAGE = ROOT / "docs" / "field.md"
BUDGETS = (1, 4, 16)
NONE = "—"
DELTA = 1e-5
CONNECTED = ":connected"

PURE, GAUSSIAN, NO_EDGE = "pure ε", "(ε, δ)", "reads no edge"
EDGE = {
    "votes-edp": PURE,
    "caribou-edp": GAUSSIAN,
    "lpgnet-edp": PURE,
    "gap-edp": GAUSSIAN,
    "progap-edp": GAUSSIAN,
    "dpdgc-edp": GAUSSIAN,
    "sage-edp": PURE,
    "lapgraph-edp": PURE,
    "mlp": NO_EDGE,
}
"""The rows at edge level, and the kind of their guarantee for one undirected edge."""

EVERY_NODE, BY_DEGREE = "every node", "nodes up to the declared degree"
NODE = {
    "votes-ndp": BY_DEGREE,
    "caribou-ndp": EVERY_NODE,
    "gap-ndp": BY_DEGREE,
    "progap-ndp": BY_DEGREE,
    "dpdgc-ndp": BY_DEGREE,
    "sage-ndp": BY_DEGREE,
    "mlp-dp": EVERY_NODE,
}
"""The rows at node level, and for whom the headline holds, in every graph."""

PUBLISHED = {"edp": ("caribou-edp", "gap-edp", "dpdgc-edp", "sage-edp"), "ndp": tuple(NODE)}
PAPER_DATASETS = ("cora", "pubmed", "photo", "computers", "facebook")

Means = Mapping[tuple[Any, str, str], Mean]
"""Mean accuracy by epsilon, method and data set."""


def field_page(text: str, records: Mapping[str, Sequence[Record]]) -> str:
    """docs/field.md with its tables as records, published tables and accounting have them."""
    from reproduction import pages  # that module imports this one

    tables = {"field-conversion": conversion_table()}
    for level, rows, words in (
        ("edge", EDGE, "guarantee for one undirected edge"),
        ("node", NODE, "ε is that of"),
    ):
        experiment = f"{level}-accuracy"
        found = one_graph([r for r in successes(records.get(experiment, ())) if _searched_alike(r)])
        tables[f"field-{level}"] = sound_table(found, experiment, rows, words, pages.STANDARD)
    tables["field-published"] = published_table()
    for name, content in tables.items():
        text = pages.between_marks(text, name, content)
    return text


def one_graph(records: Sequence[Record]) -> list[Record]:
    """Records of a graph without its isolated nodes under the name of the graph; of a method that has both, these alone."""
    connected = {(r.cell["method"], r.cell["dataset"]) for r in records if r.cell["dataset"].endswith(CONNECTED)}
    kept = [r for r in records if (r.cell["method"], r.cell["dataset"] + CONNECTED) not in connected]
    return [replace(r, cell={**r.cell, "dataset": r.cell["dataset"].removesuffix(CONNECTED)}) for r in kept]


def _searched_alike(record: Record) -> bool:
    """Whether a record belongs to the row of its method: CARIBOU's is the paper's, with settings chosen as for the others."""
    method, _, face = row_label(record).partition(", ")
    return not method.startswith("caribou") or face == VALIDATED


def undirected_epsilon(directed: float, delta: float = DELTA) -> float:
    """What Gaussian sums over neighbours that are (``directed``, ``delta``)-DP for one entry of A cost for an undirected edge.

    An undirected edge is two entries, in two rows: it moves the sums by sqrt(2) (docs/privacy.md, Theorem 5) where one entry
    moves them by 1, so mu grows by that factor. K hops compose to one Gaussian, so K does not matter.

    Assumes that the noise is calibrated exactly. A looser accountant leaves both figures a little lower.

    >>> [float(f"{undirected_epsilon(epsilon):.3g}") for epsilon in (1, 2, 4, 8, 16)]
    [1.47, 2.95, 5.99, 12.3, 25.3]
    """
    mu = sum_edge_sensitivity() * gdp_mu(epsilon=directed, delta=delta)
    return epsilon_of([Gaussian(1 / mu)], delta)


def conversion_table() -> str:
    """The epsilon of a directed entry and that of an undirected edge, for the same noise."""
    budgets = (1, 2, 4, 8, 16)
    return _table(
        ["ε for one directed entry", *map(str, budgets)],
        [["ε for one undirected edge, the same noise", *(f"{undirected_epsilon(b):.3g}" for b in budgets)]],
    )


def sound_table(
    records: Sequence[Record], experiment: str, rows: Mapping[str, str], words: str, datasets: Sequence[str]
) -> str:
    """Our means at three budgets by method and data set, who leads, and the command for every method without a record."""
    means = grouped(records, "epsilon", "method", "dataset")
    body = [
        [f"`{method}`", kind, *(_figures(means, method, dataset) for dataset in datasets)]
        for method, kind in rows.items()
    ]
    lines = [
        _table(["method", words, *datasets], body),
        "",
        _how(means, rows, datasets),
        _leaders(means, rows, datasets),
    ]
    lines += _mixture([r for r in records if r.cell["epsilon"] in BUDGETS and r.cell["dataset"] in datasets])
    missing = [m for m in rows if not all(_figure(means, e, m, d) for e in BUDGETS for d in datasets)]
    if missing:
        lines += ["", f"{NONE}: there is no record yet.", ""]
        lines += [f"- `{method}`: `{command(method, experiment)}`" for method in missing]
    return "\n".join(lines)


def command(method: str, experiment: str) -> str:
    """What measures a method: its cells of the experiment, or single fits if the experiment has none."""
    cells = read_experiment(ROOT / "reproduction" / "experiments" / f"{experiment}.toml").cells("laptop")
    if any(cell["method"] == method for cell in cells):
        return f"caribou run {experiment} --resume --filter method={method}"
    return f"caribou train {method} --dataset cora --epsilon 4 --seeds 3"


def published_table() -> str:
    """The paper's means of three runs at three budgets, as it prints them."""
    body = []
    for unit, words in (("edp", "edge"), ("ndp", "node")):
        for method in PUBLISHED[unit]:
            cells = [[paper.accuracy("mean", method, d, e) for e in BUDGETS] for d in PAPER_DATASETS]
            if any(value is not None for cell in cells for value in cell):
                shown = (" / ".join(NONE if v is None else f"{v:.1f}" for v in cell) for cell in cells)
                body.append([f"`{method}`", words, *shown])
    return _table(["method", "unit as claimed", *PAPER_DATASETS], body)


def _figure(means: Means, epsilon: int, method: str, dataset: str) -> Mean | None:
    """The mean of a cell; a method that spends nothing has one for all budgets."""
    return means.get((epsilon, method, dataset)) or means.get(("inf", method, dataset))


def _figures(means: Means, method: str, dataset: str) -> str:
    found = [_figure(means, epsilon, method, dataset) for epsilon in BUDGETS]
    shown = [NONE if mean is None else f"{100 * mean.value:.1f}" for mean in found]
    return shown[0] if len(set(shown)) == 1 else " / ".join(shown)


def _how(means: Means, rows: Mapping[str, str], datasets: Sequence[str]) -> str:
    shown = [mean for m in rows for d in datasets for e in BUDGETS if (mean := _figure(means, e, m, d)) is not None]
    if not shown:
        return "Nothing was measured yet."
    counts = sorted({mean.count for mean in shown})
    seeds = seed_words(counts[0]) if len(counts) == 1 else f"{counts[0]} to {seed_words(counts[-1])}"
    widths = sorted(100 * mean.half_width for mean in shown if mean.count > 1)
    interval = f"; half of a 95 % interval is {widths[len(widths) // 2]:.1f} in the median" if widths else ""
    return f"Test accuracy in % at ε = {' / '.join(map(str, BUDGETS))}, mean of {seeds}{interval}."


def _leaders(means: Means, rows: Mapping[str, str], datasets: Sequence[str]) -> str:
    """In how many cells which method has the highest mean."""
    wins: dict[str, int] = {}
    for epsilon in BUDGETS:
        for dataset in datasets:
            found = {m: mean.value for m in rows if (mean := _figure(means, epsilon, m, dataset)) is not None}
            if found:
                best = max(found, key=lambda method: found[method])
                wins[best] = wins.get(best, 0) + 1
    ranked = sorted(wins.items(), key=lambda item: -item[1])
    words = ", ".join(f"`{method}` in {count}" for method, count in ranked)
    return f"The highest of these means, over {sum(wins.values())} cells of budget and graph: {words}."


def _mixture(records: Sequence[Record]) -> list[str]:
    """Where a method spent a part of its budget on another one."""
    ours = [record for record in records if record.cell["method"] == "caribou-edp"]
    mixed = sum(bool(figure_of(record.measures, "settings/votes")) for record in ours)
    return [f"In {mixed} of {len(ours)} fits of `caribou-edp` a part of the budget went to votes."] if mixed else []


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
