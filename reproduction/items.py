"""The tables and figures of the evaluation, each a function of the records of one experiment.

`caribou report` loads ``ITEMS`` and ``INTRODUCTION`` from here when it is given records of these experiments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from caribou.experiments.records import Record
from caribou.experiments.report.blocks import NOT_RUN, Block, Entry, Table, marked
from caribou.experiments.report.figures import curves
from caribou.experiments.report.items import Item
from caribou.experiments.report.scores import (
    ACCURACY,
    axis_curves,
    epsilon_curves,
    interval_words,
    score_table,
    settings_note,
)
from caribou.experiments.report.summary import (
    Mean,
    axis,
    figure_of,
    grouped,
    seed_words,
    seeds_of,
    value_of,
    values_by,
)
from reproduction import paper
from reproduction.attacks import audit_blocks
from reproduction.costs import dataset_title, larger_blocks, overhead_table
from reproduction.downstream import downstream_blocks
from reproduction.figures import boxes, heat_maps

Records = Sequence[Record]

INTRODUCTION = (
    "The paper's figures (small) are for its own mechanisms, data splits and settings: compare the order of methods, not single "
    "figures. Settings here are each method's defaults or were chosen on validation nodes; test accuracy never chose anything."
)


# -- accuracy ------------------------------------------------------------------------------------------------------

PUBLISHED = {
    "edge-accuracy": "mean",
    "node-accuracy": "mean",
    "node-small-degree": "top1-small-degree",
    "defaults": "mean",
}
"""The table of the paper that stands beside the means of an experiment."""


def accuracy_blocks(name: str, *, top: bool = False) -> Callable[[Records], list[Block]]:
    """The accuracy table (and, with ``top``, the one of maxima), the curves over epsilon, and accuracy against CPU seconds."""

    def build(records: Records) -> list[Block]:
        blocks: list[Block] = [accuracy_table(name, records)]
        if top:
            blocks.append(top_table(name, records))
        return [*blocks, *epsilon_curves(f"{name}-curves", records), overhead_table(name, records)]

    return build


def accuracy_table(name: str, records: Records) -> Table:
    """Mean over the seeds with its interval; beneath, the paper's figure. Best and second of each column are marked."""
    means = grouped(records, "epsilon", "method", "dataset")
    best = ", the best of 3 runs" if PUBLISHED[name].startswith("top") else ""
    caption = (
        f"{ACCURACY.caption}, {interval_words(means)} Small: the paper's figure{best}. Bold: best, underlined: second. "
        f"{settings_note(records)}{_datasets_note(axis(records, 'dataset'))}{_scope_note(records)}"
    )
    return _beside_the_paper(f"{name}-table", "Accuracy", records, means, PUBLISHED[name], caption)


def top_table(name: str, records: Records) -> Table:
    """The best of the seeds, as the paper's first table has it."""
    best = tops(records, "epsilon", "method", "dataset")
    caption = (
        f"Test accuracy in %, the best of {seeds_of(best.values())} seeds, as in the paper's first table (small). The maximum "
        "chooses a run by its test accuracy, so it flatters every method, most where the test set is small; compare means."
    )
    return _beside_the_paper(f"{name}-top", "Top accuracy", records, best, "top1", caption)


def tops(records: Iterable[Record], *names: str, measure: str = "test_accuracy") -> dict[Any, Mean]:
    """The largest value instead of the mean, without an interval: what a table of top accuracies shows."""
    found = values_by(records, names, measure)
    return {group: Mean(max(values), math.nan, len(values)) for group, values in found.items()}


def _beside_the_paper(
    name: str, title: str, records: Records, means: Mapping[Any, Mean], table: str, caption: str
) -> Table:
    return score_table(
        name,
        title,
        records,
        means,
        published=lambda method, dataset, epsilon: paper.accuracy(table, method, dataset, epsilon),
        dataset_title=dataset_title,
        caption=caption,
    )


def _scope_note(records: Records) -> str:
    """What a reader of the table must know about single methods."""
    mixed = sum(r.cell["method"] == "caribou-edp" and bool(figure_of(r.measures, "settings/votes")) for r in records)
    mixture = (
        f" In {mixed} fits of caribou-edp a part of the budget went to votes, which the paper does not have."
        if mixed
        else ""
    )
    names = ("settings/degree_cap", "settings/declared_degree")
    declared = any(figure_of(r.measures, name) is not None for r in records for name in names)
    scope = (
        " Where degrees are cut or declared, the epsilon is that of nodes up to this degree, in every graph; a node of larger "
        "degree pays more (certificates: private by degree)."
        if declared
        else ""
    )
    return mixture + scope


def _datasets_note(datasets: Sequence[str]) -> str:
    stand_in = " Berkeley13 stands in for the paper's Facebook graph." if set(datasets) & set(paper.STAND_INS) else ""
    chains = (
        " chain-s:75 has 75 chains per class, the paper's 3; the others likewise, 25 times as many."
        if any(":75" in d for d in datasets)
        else ""
    )
    return stand_in + chains


# -- depth ---------------------------------------------------------------------------------------------------------


CHAIN_GUESSING = 0.5
"""Chains have two classes, equally often."""


def _seeds(records: Records) -> str:
    return seed_words(len({r.cell["seed"] for r in records}))


def depth_boxes(records: Records) -> list[Block]:
    """CRV-K and CRV-epsilon: boxes of CARIBOU over its settings, GAP as a line."""
    blocks: list[Block] = []
    for by, of, title in (
        ("hops", "epsilon", "Accuracy against depth"),
        ("epsilon", "hops", "Accuracy against epsilon"),
    ):
        for dataset in axis(records, "dataset"):
            here = [r for r in records if r.cell["dataset"] == dataset]
            ours = [r for r in here if r.cell["method"].startswith("caribou")]
            theirs = [r for r in here if r.cell["method"].startswith("gap")]
            panels = {}
            for value in axis(here, of):
                spread: dict[Any, list[float]] = {}
                for record in ours:
                    if value_of(record.cell, of) == value:
                        spread.setdefault(value_of(record.cell, by), []).append(record.measures["test_accuracy"])
                line = grouped([r for r in theirs if value_of(r.cell, of) == value], by)
                panels[f"{dataset}, {of} {value:g}"] = (spread, line)
            slug = f"chain-depth-{by}-{dataset.partition(':')[0]}"
            caption = (
                "Boxes: caribou-edp over C_L, alpha1 and beta (quartiles, whiskers to 1.5 times their distance), features as "
                f"messages, degree floor 2, {_seeds(ours)} each. Line: gap-edp, means over {_seeds(theirs)}."
            )
            words = "hops K" if by == "hops" else by
            blocks.append(
                boxes(slug, f"{title} on {dataset}", panels, x=words, guessing=CHAIN_GUESSING, caption=caption)
            )
    return blocks


def depth_lines(name: str, title: str, caption: str = "") -> Callable[[Records], list[Block]]:
    """Accuracy over K, one panel per data set, one line per method and epsilon."""

    def build(records: Records) -> list[Block]:
        settings = "" if not caption else f" {caption}"
        words = f"Means over {_seeds(records)} with their 95 % intervals; guessing has 50 % on chains.{settings}"
        return [axis_curves(name, title, records, "hops", x="hops K", caption=words)]

    return build


NOISE_LINES = {
    "linear": "linear_noise_multiplier",
    "caribou, the paper's formula": "rdp_noise_multiplier",
    "caribou, exact": "noise_multiplier",
}


def noise_blocks(records: Records) -> list[Block]:
    """The table of noise scales beside the paper's, and the figure."""
    deltas, contractions, hops = axis(records, "delta"), axis(records, "contraction"), axis(records, "hops")
    by_cell = {(r.cell["delta"], r.cell["contraction"], r.cell["hops"]): r.measures for r in records}
    groups = []
    for delta in deltas:
        for contraction in contractions:
            rows = []
            for label, key, published in (
                ("linear composition, Rényi, by the paper's formula", "linear_noise_multiplier", paper.NOISE["linear"]),
                ("convergent, Rényi, by the paper's formula", "rdp_noise_multiplier", paper.NOISE["convergent"]),
                ("convergent, exact: what releases use", "noise_multiplier", {}),
            ):
                row = [Entry(label)]
                for K in hops:
                    value = by_cell.get((delta, contraction, K), {}).get(key)
                    same = (delta, contraction) == (1e-3, 0.9)
                    shown = f"{published[K]:.2f}" if same and K in published else ""
                    row.append(Entry(NOT_RUN) if value is None else Entry(f"{value:.2f}", value, shown))
                rows.append(tuple(row))
            groups.append((f"δ = {delta:g}, C_L = {contraction:g}", tuple(rows)))
    table = Table(
        "noise-table", "Noise per unit of sensitivity, ε = 4", ("accounting", *(f"K = {K}" for K in hops)), tuple(groups),
        "All computed here; small: what the paper's table prints (order 6, δ = 0.001, C_L = 0.9 only).",
    )  # fmt: skip
    panels = {}
    for delta in deltas:
        lines = {}
        for label, key in NOISE_LINES.items():
            chosen = [r for r in records if r.cell["delta"] == delta and r.cell["contraction"] == 0.9]
            lines[label] = grouped(chosen, "hops", measure=key)
        panels[f"δ = {delta:g}"] = lines
    figure = curves(
        "noise-figure",
        "Noise against depth, C_L = 0.9",
        panels,
        x="hops K",
        y="noise per unit of sensitivity",
        percent=False,
        caption="ε = 4. Standard deviation of the noise by unit of sensitivity; computed, nothing is fitted.",
    )
    return [table, figure]


def failure_blocks(records: Records) -> list[Block]:
    """GAP and CARIBOU by depth, beside the paper's row for GAP."""
    hops = axis(records, "hops")
    means = grouped(records, "method", "hops")
    rows = []
    for method in axis(records, "method"):
        row = [Entry(method)]
        for K in hops:
            mean = means.get((method, K))
            shown = f"{paper.FAILURE[K]:.1f}" if method == "gap-edp" and K in paper.FAILURE else ""
            row.append(Entry(NOT_RUN) if mean is None else Entry(mean.percent(), mean.value, shown))
        rows.append(tuple(row))
    caption = "Test accuracy in %. Small: the paper's figure for its GAP, which protects directed entries."
    table = Table(
        "failure-table", "Depth on Cora, ε = 4", ("method", *(f"K = {K}" for K in hops)), (("", tuple(rows)),), caption
    )
    return [table]


# -- settings ------------------------------------------------------------------------------------------------------


def degree_blocks(records: Records) -> list[Block]:
    """Accuracy over the maximum degree, one panel per data set and epsilon."""
    panels: dict[str, dict[str, Any]] = {}
    for dataset in axis(records, "dataset"):
        for epsilon in axis(records, "epsilon"):
            here = [r for r in records if (r.cell["dataset"], r.cell["epsilon"]) == (dataset, epsilon)]
            lines: dict[str, list[Record]] = {}
            for record in here:
                share = value_of(record.cell, "graph_share")
                label = record.cell["method"] + ("" if share is None else f", graph share {share:g}")
                lines.setdefault(label, []).append(record)
            panels[f"{dataset}, ε = {epsilon:g}"] = {
                label: grouped(found, "degree_cap") for label, found in lines.items()
            }
    caption = "caribou-ndp gives the graph nothing by default at these budgets: its line is flat."
    return [curves("degree", "Accuracy against the maximum degree", panels, x="maximum degree", caption=caption)]


def heat_blocks(records: Records) -> list[Block]:
    """CRV-H: accuracy over epsilon and one parameter of the layer at a time."""
    panels = {}
    for dataset in axis(records, "dataset"):
        for parameter, words in (("contraction", "C_L"), ("alpha1", "alpha1"), ("beta", "beta")):
            here = [r for r in records if r.cell["dataset"] == dataset and parameter in r.cell.get("settings", {})]
            if here:
                means = grouped(here, parameter, "epsilon")
                panels[words, dataset] = (axis(here, parameter), axis(here, "epsilon"), means)
    caption = (
        f"Test accuracy of caribou-edp in %, {_seeds(records)}, features as messages, K = 4, degree floor 2; the other two "
        "parameters have their defaults. All panels of a data set have one scale of colours."
    )
    return [heat_maps("heat-maps", "Parameters of the contractive layer", panels, caption)] if panels else []


def allocation_blocks(records: Records) -> list[Block]:
    """Accuracy by how the budget is split."""
    groups = []
    for method in axis(records, "method"):
        here = [r for r in records if r.cell["method"] == method]
        columns = [(d, e) for d in axis(here, "dataset") for e in axis(here, "epsilon")]
        words = [replace(r, cell={**r.cell, "split": _settings_words(r.cell)}) for r in here]
        means = grouped(words, "split", "dataset", "epsilon")
        splits = list(dict.fromkeys(_settings_words(r.cell) for r in here))
        found = [marked([_plain(means.get((split, *column))) for split in splits]) for column in columns]
        rows = [(Entry(split), *(column[k] for column in found)) for k, split in enumerate(splits)]
        head = ("split", *(f"{d}, ε = {e:g}" for d, e in columns))
        groups.append(Table(f"allocation-{method}", method, head, (("", tuple(rows)),), "Test accuracy in %."))
    return list(groups)


def _plain(mean: Mean | None) -> Entry | None:
    return None if mean is None else Entry(mean.percent(), mean.value)


def _settings_words(cell: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in cell.get("settings", {}).items())


ITEMS = (
    Item(
        "edge-accuracy",
        "Accuracy under edge-level privacy",
        "PU-1, PU-3; OV-E",
        accuracy_blocks("edge-accuracy", top=True),
    ),
    Item(
        "node-accuracy",
        "Accuracy under node-level privacy",
        "PU-1, PU-3; OV-N",
        accuracy_blocks("node-accuracy", top=True),
    ),
    Item("node-small-degree", "Smaller degrees at node level", "PU-2", accuracy_blocks("node-small-degree")),
    Item("defaults", "The defaults, without any search", "added", accuracy_blocks("defaults")),
    Item("chain-depth", "Depth and budget on chains", "CRV-K, CRV-ε", depth_boxes),
    Item(
        "chain-depth-public",
        "Depth without privacy",
        "figure of non-private depth",
        depth_lines(
            "depth-public",
            "Accuracy against depth, no privacy",
            "caribou-inf: features as messages, C_L = 1, degree floor 2.",
        ),
    ),
    Item(
        "motivation",
        "Why linear composition fails on chains",
        "motivating experiments",
        depth_lines("motivation", "GAP on chains of 8 nodes"),
    ),
    Item("degree", "Maximum degree", "CRV-D", degree_blocks),
    Item("heatmaps", "Parameters of the layer", "CRV-H", heat_blocks),
    Item("audit", "Attacks", "table of privacy auditing", audit_blocks),
    Item("larger-graph", "Larger graphs", "table of Reddit2", larger_blocks),
    Item("noise-depth", "Noise against depth", "table and figure of noise scales", noise_blocks),
    Item("failure", "Divergent noise", "table of the failure case", failure_blocks),
    Item("allocation", "How one budget is split", "added", allocation_blocks),
    Item("downstream", "Link prediction and graph classification", "added", downstream_blocks),
)
