"""The tables of attacks: AUCs by data set, method and epsilon, beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from caribou.experiments.records import Record
from caribou.experiments.report.blocks import PAPER, Block, Entry, Figure, Table
from caribou.experiments.report.figures import curves
from caribou.experiments.report.summary import Mean, axis, budget_words, grouped, seed_words
from reproduction import paper
from reproduction.rows import dataset_title, labelled

Records = Sequence[Record]

QUERY_MODES = {
    "cached": "one release answers all queries: what a certificate covers",
    "fixed": "a new release per query with the same noise, which then cancels: no certificate covers it",
    "fresh": "a new release per query with fresh noise, each of which is paid for",
}
"""How the queries of LinkTeller draw their noise, in words; see `caribou.audit.linkteller`."""
PRIVATE = (1, 2, 4, 8, 16, 32)
BLACK_BOX = "black box"
RATES = ("0.01", "0.1")
OF_THE_PAPER = "CARIBOU, paper"
SEEDS = "AUC, mean ± half of the 95 % interval over the seeds (3, or as many as an entry says); 0.5 is guessing."


def audit_blocks(records: Records) -> list[Block]:
    """One table per attack that was made, and the AUCs over epsilon beside the paper's."""
    return [*audit_tables(records), *audit_curves(records)]


def audit_curves(records: Records) -> list[Figure]:
    """AUC over epsilon, a panel per attack and data set; of LinkTeller with fresh noise in each query."""
    panels: dict[str, dict[str, Any]] = {}
    for attack, theirs, words, measure in (
        ("linkteller", "linkteller", "LinkTeller", "details/query_modes/fresh/auc"),
        ("gmia", "g-mia", "G-MIA", "auc"),
    ):
        made = [r for r in labelled(records) if r.cell["attack"] == attack and r.cell["epsilon"] != "inf"]
        for dataset in axis(records, "dataset"):
            here = [r for r in made if r.cell["dataset"] == dataset]
            lines = {
                m: grouped([r for r in here if r.cell["method"] == m], "epsilon", measure=measure)
                for m in axis(here, "method")
            }
            lines = {label: line for label, line in lines.items() if line}
            published = {e: paper.attack_auc(theirs, dataset, e) for e in PRIVATE}
            if lines:
                line = {e: Mean(value, math.nan, 0) for e, value in published.items() if value is not None}
                panels[f"{words}, {dataset_title(dataset)}"] = lines | ({f"caribou, {PAPER}": line} if line else {})
    if not panels:
        return []
    caption = "LinkTeller: fresh noise in each query. Bars: 95 % intervals over the seeds. 0.5 is guessing."
    title = "AUC of attacks against epsilon"
    return [curves("audit-figure", title, panels, x="epsilon", y="AUC", percent=False, caption=caption)]


def audit_tables(records: Records) -> list[Table]:
    """One table per attack that was made."""
    records = labelled(records)
    made = {"linkteller": linkteller_table, "gmia": gmia_table, "lira": lira_table}
    found = {attack: [r for r in records if r.cell["attack"] == attack] for attack in made}
    return [table(found[attack]) for attack, table in made.items() if found[attack]]


def linkteller_table(records: Records) -> Table:
    """A group per data set and query mode, a row per method, a column per epsilon."""
    groups = []
    for dataset in axis(records, "dataset"):
        here = [r for r in records if r.cell["dataset"] == dataset]
        for mode, words in QUERY_MODES.items():
            means: dict[Any, Mean] = {}
            for name in (mode, BLACK_BOX) if mode == "fixed" else (mode,):
                means |= grouped(here, "method", "epsilon", measure=f"details/query_modes/{name}/auc")
            # The paper does not say how two queries draw noise; its figures below 1/2 are like those of fresh noise.
            published: Sequence[Any] = {"fixed": ("inf",), "fresh": PRIVATE}.get(mode, ())
            if means:
                theirs = _published(records, "linkteller", dataset, published)
                groups.append((f"{dataset_title(dataset)}: {words}", (*theirs, *_rows(records, means))))
    caption = (
        f"{SEEDS} All pairs of 500 nodes. gcn: the attack as published, on a plain GCN. "
        "The paper does not say how its queries draw noise."
    )
    return Table("audit-linkteller", "LinkTeller: which nodes are joined", _head(records), tuple(groups), caption)


def gmia_table(records: Records) -> Table:
    """A group per data set for the attack, and one for its control; what classes alone tell is in the title."""
    groups = []
    for dataset in axis(records, "dataset"):
        here = [r for r in records if r.cell["dataset"] == dataset]
        once = {r.cell["seed"]: r for r in here}  # the same nodes are drawn for all methods
        classes = grouped(once.values(), "dataset", measure="details/class_auc")[dataset].decimals()
        theirs = _published(records, "g-mia", dataset, ("inf", *PRIVATE))
        means = grouped(here, "method", "epsilon", measure="auc")
        title = f"{dataset_title(dataset)}: the attack (the class of a node alone, without a model: {classes})"
        groups.append((title, (*theirs, *_rows(records, means))))
        control = grouped(here, "method", "epsilon", measure="details/same_query_auc")
        groups.append(
            (f"{dataset_title(dataset)}: control, all nodes queried in the full graph", _rows(records, control))
        )
    caption = f"{SEEDS} Trained on a subgraph, tested on the full graph."
    return Table("audit-gmia", "G-MIA: which nodes were in training", _head(records), tuple(groups), caption)


def lira_table(records: Records) -> Table:
    """AUC, and true positive rates beside what the certificate allows."""
    names = ("dataset", "method", "epsilon")
    areas = grouped(records, *names, measure="auc")
    rates = {rate: grouped(records, *names, measure=f"tpr_at_fpr/{rate}") for rate in RATES}
    limits = {rate: grouped(records, *names, measure=f"tpr_allowed/{rate}") for rate in RATES}
    groups = []
    for dataset in axis(records, "dataset"):
        rows = []
        for key in sorted((k for k in areas if k[0] == dataset), key=_order):
            row = [Entry(f"{key[1]}, {budget_words(key[2])}"), _entry(areas[key])]
            for rate in RATES:
                row += [_entry(rates[rate].get(key)), Entry(f"{limits[rate][key].value:.3f}")]
            rows.append(tuple(row))
        groups.append((dataset_title(dataset), tuple(rows)))
    head = ["method", "AUC"]
    for rate in RATES:
        head += [f"TPR at FPR {rate}", f"allowed at {rate}"]
    caption = (
        f"{SEEDS} TPR: true positive rate at a false positive rate; allowed: the largest that the certificate permits. "
        "-ndp: nodes, -edp: edges. The attack draws whether a target is in: a rate beyond the allowed one would "
        "speak against the certificate."
    )
    return Table("audit-lira", "Likelihood ratios: who is in", tuple(head), tuple(groups), caption)


def _head(records: Records) -> tuple[str, ...]:
    return ("method", *map(budget_words, _epsilons(records)))


def _epsilons(records: Records) -> list[Any]:
    """Without privacy first, as in the paper's table."""
    found = axis(records, "epsilon")
    return [*(e for e in found if e == "inf"), *(e for e in found if e != "inf")]


def _published(records: Records, attack: str, dataset: str, epsilons: Sequence[Any]) -> tuple[tuple[Entry, ...], ...]:
    """The paper's figures for its CARIBOU as a row, if it has some."""
    values = {e: paper.attack_auc(attack, dataset, e) for e in epsilons}
    if not any(values.values()):
        return ()
    shown = [values.get(epsilon) for epsilon in _epsilons(records)]
    return ((Entry(OF_THE_PAPER), *(Entry("" if value is None else f"{value:.3f}") for value in shown)),)


def _rows(records: Records, means: Mapping[Any, Mean]) -> tuple[tuple[Entry, ...], ...]:
    """A row per method that has a figure."""
    methods = [method for method in axis(records, "method") if any(row == method for row, _ in means)]
    return tuple((Entry(m), *(_entry(means.get((m, e))) for e in _epsilons(records))) for m in methods)


def _entry(mean: Mean | None) -> Entry:
    if mean is None:
        return Entry("")
    return Entry(mean.decimals(), mean.value, title=seed_words(mean.count), seeds=mean.count)


def _order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dataset, method, epsilon = key
    return dataset, method, epsilon != "inf", 0 if epsilon == "inf" else epsilon
