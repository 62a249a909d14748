"""The tables of attacks: AUCs by data set, method and epsilon, beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from caribou.reports import paper
from caribou.reports.blocks import Block, Entry, Table
from caribou.reports.summary import Mean, axis, grouped
from caribou.results import Record

Records = Sequence[Record]

WAYS = {
    "cached": "one release answers all queries: what a certificate covers",
    "fixed": "a new release per query with the same noise, which then cancels: no certificate covers it",
    "fresh": "a new release per query with fresh noise, each of which is paid for",
}
"""How the queries of LinkTeller draw their noise, in words; see `caribou.audit.access`."""
CONTROLS = {
    "auc": "the attack",
    "details/same_query_auc": "control: all nodes queried in the full graph",
    "details/class_auc": "control: the class of a node alone, without a model",
}
PRIVATE = (1, 2, 4, 8, 16, 32)
BLACK_BOX = "black box"
RATES = ("0.01", "0.1")
OF_THE_PAPER = "Small: the paper's figure for its CARIBOU."
SEEDS = "AUC, mean ± half of the 95 % interval over seeds (from 3 on); 0.5 is guessing."


def audit_blocks(records: Records) -> list[Block]:
    """One table per attack that was made."""
    made = {"linkteller": linkteller_table, "gmia": gmia_table, "lira": lira_table}
    found = {attack: [r for r in records if r.cell["attack"] == attack] for attack in made}
    return [table(found[attack]) for attack, table in made.items() if found[attack]]


def linkteller_table(records: Records) -> Table:
    """A group per data set and way to query, a row per method, a column per epsilon."""
    groups = []
    for dataset in axis(records, "dataset"):
        here = [r for r in records if r.cell["dataset"] == dataset]
        for way, words in WAYS.items():
            names = [way, BLACK_BOX] if way == "fixed" else [way]
            means: dict[Any, Mean] = {}
            for name in names:
                means |= grouped(here, "method", "epsilon", measure=f"details/ways/{name}/auc")
            # The paper does not say how two queries draw noise; its figures below 1/2 are like those of fresh noise.
            published: Sequence[Any] = {"fixed": ("inf",), "fresh": PRIVATE}.get(way, ())
            if means:
                shown = {e: paper.attack_auc("linkteller", dataset, e) for e in published}
                groups.append((f"{dataset}: {words}", _rows(records, means, shown)))
    caption = (
        f"{SEEDS} All pairs of 500 nodes. {OF_THE_PAPER} gcn: the attack as published, on a plain GCN. "
        "caribou-inf sends features as messages."
    )
    return Table("audit-linkteller", "LinkTeller: which nodes are joined", _head(records), tuple(groups), caption)


def gmia_table(records: Records) -> Table:
    """A group per data set and control."""
    groups = []
    for dataset in axis(records, "dataset"):
        here = [r for r in records if r.cell["dataset"] == dataset]
        for measure, words in CONTROLS.items():
            means = grouped(here, "method", "epsilon", measure=measure)
            epsilons: Sequence[Any] = ("inf", *PRIVATE) if measure == "auc" else ()
            shown = {e: paper.attack_auc("g-mia", dataset, e) for e in epsilons}
            groups.append((f"{dataset}: {words}", _rows(records, means, shown)))
    caption = f"{SEEDS} Trained on a subgraph, tested on the full graph. {OF_THE_PAPER}"
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
            row = [Entry(f"{key[1]}, ε = {key[2]}"), _entry(areas[key])]
            for rate in RATES:
                row += [_entry(rates[rate].get(key)), Entry(f"{limits[rate][key].value:.3f}")]
            rows.append(tuple(row))
        groups.append((dataset, tuple(rows)))
    head = ["method", "AUC"]
    for rate in RATES:
        head += [f"TPR at FPR {rate}", "allowed"]
    caption = (
        f"{SEEDS} TPR: true positive rate at a false positive rate; allowed: the largest that the certificate permits. "
        "-ndp: nodes, -edp: edges. Whether a target is in was decided by coins: a rate beyond the allowed one would "
        "speak against the certificate."
    )
    return Table("audit-lira", "Likelihood ratios: who is in", tuple(head), tuple(groups), caption)


def _head(records: Records) -> tuple[str, ...]:
    return ("method", *(f"ε = {'∞' if epsilon == 'inf' else epsilon}" for epsilon in _epsilons(records)))


def _epsilons(records: Records) -> list[Any]:
    """Without privacy first, as in the paper's table."""
    found = axis(records, "epsilon")
    return [*(e for e in found if e == "inf"), *(e for e in found if e != "inf")]


def _rows(
    records: Records, means: Mapping[Any, Mean], published: Mapping[Any, float | None]
) -> tuple[tuple[Entry, ...], ...]:
    """A row per method that has a figure; the paper's stand under those of CARIBOU."""
    rows = []
    for method in sorted({method for method, _ in means}, key=axis(records, "method").index):
        row = [Entry(method)]
        for epsilon in _epsilons(records):
            value = published.get(epsilon) if method.startswith("caribou") else None
            row.append(_entry(means.get((method, epsilon)), "" if value is None else f"{value:.3f}"))
        rows.append(tuple(row))
    return tuple(rows)


def _entry(mean: Mean | None, published: str = "") -> Entry:
    if mean is None:
        return Entry("")
    return Entry(mean.decimals(), mean.value, published, title=f"{mean.runs} seeds")


def _order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dataset, method, epsilon = key
    return dataset, method, epsilon != "inf", 0 if epsilon == "inf" else epsilon
