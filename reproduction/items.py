"""The tables and figures of the evaluation: what each is made of, and how.

`caribou reproduce` and `caribou report` load ``ITEMS`` and ``INTRODUCTION`` from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from caribou.experiments.records import Record
from caribou.experiments.report.blocks import NOT_RUN, PAPER, Block, Entry, Figure, Table, marked
from caribou.experiments.report.figures import curves
from caribou.experiments.report.page import ByExperiment, Item
from caribou.experiments.report.scores import (
    ACCURACY,
    epsilon_curves,
    interval_words,
    score_table,
    settings_note,
)
from caribou.experiments.report.summary import (
    Mean,
    axis,
    budget_words,
    figure_of,
    grouped,
    mean_of,
    seed_words,
    seeds_of,
    value_of,
    values_by,
)
from reproduction import paper
from reproduction.attacks import audit_blocks
from reproduction.costs import larger_blocks, overhead_blocks
from reproduction.depth import depth_blocks
from reproduction.designs import design_blocks
from reproduction.downstream import downstream_blocks
from reproduction.figures import Map, heat_maps
from reproduction.rows import (
    DAGGER,
    DAGGER_NOTE,
    dataset_title,
    datasets_note,
    delta_note,
    expanded,
    labelled,
    method_of,
    notes,
    of_the_paper,
    on_paper_graphs,
    row_label,
    settings_words,
)

Records = Sequence[Record]

INTRODUCTION = (
    "CARIBOU alone stands for the paper's method: at the authors' own settings of each table cell, and at settings chosen on "
    "validation nodes of our splits. What we changed in it has rows of its own, which end in “ours”. “paper” marks the "
    "published figures. They are for the paper's own mechanisms and data splits: compare the order of methods, not single "
    "figures. Hover over an entry for the settings of its fits. Test accuracy chose nothing, except where a title says so."
)


# -- accuracy ------------------------------------------------------------------------------------------------------


def tops_blocks(records: ByExperiment) -> list[Block]:
    """PU-1: the best of the seeds at both units, and chains at the paper's size by the paper's rule."""
    blocks: list[Block] = []
    for name, level in (("edge-accuracy", "edge"), ("node-accuracy", "node")):
        if records.get(name):
            blocks.append(top_table(f"pu-1-{level}", f"Top accuracy, {level} level", records[name], "top1"))
            blocks += _published_curves(f"pu-1-{level}-curves", _best_seeds(records[name]), "top1")
    if records.get("chain-tops"):
        blocks.append(chain_tops_table(records["chain-tops"]))
    return blocks


def means_blocks(records: ByExperiment) -> list[Block]:
    """PU-3: means at both units with their intervals, and their curves over epsilon."""
    blocks: list[Block] = []
    for name, level in (("edge-accuracy", "edge"), ("node-accuracy", "node")):
        if records.get(name):
            blocks.append(mean_table(f"pu-3-{level}", f"Mean accuracy, {level} level", records[name], "mean"))
            blocks += _published_curves(f"pu-3-{level}-curves", records[name])
    return blocks


def small_degree_blocks(records: ByExperiment) -> list[Block]:
    """PU-2: the best of the seeds beside the paper's, and the means."""
    found = records["node-small-degree"]
    top = top_table("pu-2", "Top accuracy, degrees cut to 10 or 5", found, "top1-small-degree")
    means = mean_table("pu-2-means", "Mean accuracy, degrees cut to 10 or 5", found, "")
    return [top, *_published_curves("pu-2-curves", _best_seeds(found), "top1-small-degree"), means]


def defaults_blocks(records: ByExperiment) -> list[Block]:
    """The defaults: means and curves."""
    found = records["defaults"]
    return [mean_table("defaults", "Mean accuracy", found, "mean"), *_published_curves("defaults-curves", found)]


def mean_table(name: str, title: str, records: Records, table: str) -> Table:
    """Mean over the seeds with its interval, and the figure of a table of the paper. Best and second of a column are marked."""
    rows, moved = on_paper_graphs(labelled(records))
    means = grouped(rows, "epsilon", "method", "dataset")
    theirs = f" “{PAPER}”: its own means." if table else ""
    caption = (
        f"{ACCURACY.caption}, {interval_words(means)}{theirs} Bold: best, underlined: second. "
        f"{settings_note(records)} {_notes(records)}"
    )
    return _beside_the_paper(name, title, rows, means, table, axis(records, "dataset"), moved, caption)


def top_table(name: str, title: str, records: Records, table: str) -> Table:
    """The best of the seeds, as the paper's first table has it."""
    rows, moved = on_paper_graphs(labelled(records))
    best = tops(rows, "epsilon", "method", "dataset")
    caption = (
        f"{ACCURACY.caption}, the best of {seeds_of(best.values())} seeds, as in the paper. The maximum chooses a run by its "
        f"test accuracy, so it flatters every method, most where the test set is small; compare means. {_notes(records)}"
    )
    return _beside_the_paper(name, title, rows, best, table, axis(records, "dataset"), moved, caption)


def tops(records: Iterable[Record], *names: str, measure: str = "test_accuracy") -> dict[Any, Mean]:
    """The largest value instead of the mean, without an interval: what a table of top accuracies shows."""
    found = values_by(records, names, measure)
    return {group: Mean(max(values), math.nan, len(values)) for group, values in found.items()}


def _beside_the_paper(
    name: str,
    title: str,
    rows: Records,
    means: Mapping[Any, Mean],
    table: str,
    datasets: Sequence[str],
    moved: frozenset[tuple[str, str]],
    caption: str,
) -> Table:
    def published(label: str, dataset: str, epsilon: Any) -> float | None:
        return paper.accuracy(table, method_of(label), dataset, epsilon) if of_the_paper(label) else None

    columns = {r.cell["dataset"] for r in rows}
    return score_table(
        name,
        title,
        rows,
        means,
        published=published,
        dataset_title=dataset_title,
        datasets=[dataset for dataset in datasets if dataset in columns],
        notes=notes(rows, "epsilon", "method", "dataset"),
        unranked={key: DAGGER for key in means if key[1:] in moved},
        caption=f"{caption} {DAGGER_NOTE}" if moved else caption,
    )


def _published_curves(name: str, records: Records, table: str = "mean") -> list[Block]:
    """Curves over epsilon, with CARIBOU and GAP of a table of the paper beside ours."""
    methods = [m for m in axis(records, "method") if m.startswith(("caribou", "gap")) and not m.endswith("-inf")]

    def published(dataset: str) -> dict[str, dict[Any, Mean]]:
        lines = {}
        for method in methods:
            found = {e: paper.accuracy(table, method, dataset, e) for e in paper.EPSILONS}
            lines[f"{method}, {PAPER}"] = {e: Mean(v / 100, math.nan, 0) for e, v in found.items() if v is not None}
        return {label: line for label, line in lines.items() if line}

    rows, _ = on_paper_graphs(labelled(records))
    columns = {r.cell["dataset"] for r in rows}
    datasets = [dataset for dataset in axis(records, "dataset") if dataset in columns]
    figures = epsilon_curves(name, rows, published=published, dataset_title=dataset_title, datasets=datasets)
    if table == "mean":
        return figures
    caption = "The best of the seeds. Dotted: without privacy. Hollow: the paper's."
    return [replace(figure, title="Top accuracy against epsilon", caption=caption) for figure in figures]


def _best_seeds(records: Records) -> list[Record]:
    """Of the seeds of each row, data set and epsilon the record with the best test accuracy."""
    best: dict[Any, Record] = {}
    for record in records:
        key = (row_label(record), record.cell["dataset"], record.cell["epsilon"])
        if key not in best or record.measures["test_accuracy"] > best[key].measures["test_accuracy"]:
            best[key] = record
    return list(best.values())


def _notes(records: Records) -> str:
    """What a reader of the table must know about data sets and single methods."""
    names = ("settings/degree_cap", "settings/declared_degree")
    declared = any(figure_of(r.measures, name) is not None for r in records for name in names)
    scope = (
        " Where degrees are cut or declared, the epsilon is that of nodes up to this degree, in every graph; a node of larger "
        "degree pays more (certificates: private by degree)."
        if declared
        else ""
    )
    return " ".join(filter(None, (datasets_note(axis(records, "dataset")), delta_note(records), scope.strip())))


def chain_tops_table(records: Records) -> Table:
    """Chains at the paper's size: the best run of the whole grid by test accuracy, beside what does not choose by it."""
    rows = labelled(expanded(records))
    datasets, methods = axis(records, "dataset"), axis(rows, "method")
    groups = []
    for epsilon in axis(rows, "epsilon"):
        lines = []
        for method in methods:
            runs = {d: _runs(rows, epsilon, method, d) for d in datasets}
            if not any(runs.values()):
                continue
            for words, entry in (
                ("the best run by test accuracy, the paper's rule", _best_run),
                ("mean of all runs", _mean_run),
                ("the setting chosen on validation nodes, mean", _validated_run),
            ):
                row = [Entry(f"{method}: {words}")]
                for dataset in datasets:
                    shown = entry(runs[dataset])
                    if entry is _best_run and of_the_paper(method):
                        value = paper.accuracy("top1", method_of(method), dataset, epsilon)
                        shown = replace(shown, paper=ACCURACY.published(value))
                    row.append(shown)
                lines.append(tuple(row))
        groups.append((budget_words(epsilon), tuple(lines)))
    caption = (
        "Test accuracy in %. Chains have 32 to 100 test nodes, one of which is 1 to 3 points. The best run over grid and seeds "
        "chooses by test accuracy, as the paper does; the two rows below do not."
    )
    head = ("method", *map(dataset_title, datasets))
    return Table("pu-1-chains", "Chains at the paper's size, by the paper's rule", head, tuple(groups), caption)


def _runs(rows: Records, epsilon: Any, method: str, dataset: str) -> list[Record]:
    wanted = (epsilon, method, dataset)
    return [r for r in rows if (r.cell["epsilon"], r.cell["method"], r.cell["dataset"]) == wanted]


def _best_run(runs: Records) -> Entry:
    if not runs:
        return Entry(NOT_RUN)
    best = max(runs, key=lambda run: run.measures["test_accuracy"])
    note = f"{len(runs)} runs; {settings_words(best.cell.get('settings', {}))}"
    return Entry(f"{100 * best.measures['test_accuracy']:.1f}", best.measures["test_accuracy"], title=note)


def _mean_run(runs: Records) -> Entry:
    if not runs:
        return Entry(NOT_RUN)
    value = sum(run.measures["test_accuracy"] for run in runs) / len(runs)
    return Entry(f"{100 * value:.1f}", value, title=f"{len(runs)} runs")


def _validated_run(runs: Records) -> Entry:
    """The setting with the best mean validation accuracy over the seeds, and its mean test accuracy."""
    settings = {settings_words(run.cell.get("settings", {})) for run in runs}
    if not settings:
        return Entry(NOT_RUN)
    found = {s: [run for run in runs if settings_words(run.cell.get("settings", {})) == s] for s in sorted(settings)}
    best = max(found, key=lambda s: sum(run.measures["val_accuracy"] for run in found[s]) / len(found[s]))
    mean = mean_of([run.measures["test_accuracy"] for run in found[best]])
    return Entry(mean.percent(), mean.value, title=f"{seed_words(mean.count)}; {best}", seeds=mean.count)


# -- depth ---------------------------------------------------------------------------------------------------------


def depth_lines(name: str, title: str, caption: str = "") -> Callable[[ByExperiment], list[Block]]:
    """Accuracy over K, one panel per data set, one line per row and epsilon."""

    def build(records: ByExperiment) -> list[Block]:
        found = [r for some in records.values() for r in expanded(some)]
        seeds = seed_words(len({r.cell["seed"] for r in found}))
        words = f"Means over {seeds} with their 95 % intervals; guessing has 50 % on chains. {caption}".rstrip()
        return [depth_curves(name, title, labelled(found), words)]

    return build


def depth_curves(name: str, title: str, records: Records, caption: str = "") -> Figure:
    """Accuracy over the number of hops, one panel per data set, one line per method and epsilon."""
    panels: dict[str, dict[str, Any]] = {}
    for dataset in axis(records, "dataset"):
        here = [r for r in records if r.cell["dataset"] == dataset]
        lines = {}
        for method in axis(here, "method"):
            for epsilon in axis([r for r in here if r.cell["method"] == method], "epsilon"):
                some = [r for r in here if (r.cell["method"], r.cell["epsilon"]) == (method, epsilon)]
                label = method if epsilon == "inf" else f"{method}, ε = {epsilon:g}"
                lines[label] = grouped(some, "hops")
        panels[dataset] = lines
    return curves(name, title, panels, x="hops K", y=ACCURACY.axis, log=False, caption=caption)


NOISE_LINES = {
    "linear": "linear_noise_multiplier",
    "caribou, the paper's formula": "rdp_noise_multiplier",
    "caribou, exact": "noise_multiplier",
}


def noise_blocks(by_experiment: ByExperiment) -> list[Block]:
    """The table of noise scales beside the paper's, and the figure."""
    records = by_experiment["noise-depth"]
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
        "noise", "Noise per unit of sensitivity, ε = 4", ("accounting", *(f"K = {K}" for K in hops)), tuple(groups),
        "All computed here; the paper's table has order 6, δ = 0.001 and C_L = 0.9 only.",
    )  # fmt: skip
    panels = {}
    for delta in deltas:
        lines: dict[str, dict[Any, Mean]] = {}
        for label, key in NOISE_LINES.items():
            chosen = [r for r in records if r.cell["delta"] == delta and r.cell["contraction"] == 0.9]
            lines[label] = grouped(chosen, "hops", measure=key)
        if delta == 1e-3:
            for label, name in (("linear", "linear"), ("caribou", "convergent")):
                values = {K: Mean(v, math.nan, 0) for K, v in paper.NOISE[name].items() if K in hops}
                lines[f"{label}, {PAPER}"] = values
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


def failure_blocks(by_experiment: ByExperiment) -> list[Block]:
    """GAP and CARIBOU by depth, beside the paper's row for GAP."""
    records = labelled(by_experiment["failure"])
    hops, (dataset, *_) = axis(records, "hops"), axis(records, "dataset")
    means = grouped(records, "method", "hops")
    rows, lines = [], {}
    for method in axis(records, "method"):
        row = [Entry(method)]
        for K in hops:
            mean = means.get((method, K))
            shown = f"{paper.FAILURE[K]:.1f}" if method == "gap-edp" and K in paper.FAILURE else ""
            entry = Entry(NOT_RUN) if mean is None else Entry(mean.percent(), mean.value, shown, seeds=mean.count)
            row.append(entry)
        rows.append(tuple(row))
        lines[method] = {K: means[method, K] for K in hops if (method, K) in means}
    lines[f"gap-edp, {PAPER}"] = {K: Mean(v / 100, math.nan, 0) for K, v in paper.FAILURE.items() if K in hops}
    title = f"Depth on {dataset_title(dataset)}, ε = 4"
    seeds = seeds_of(means.values())
    caption = f"Test accuracy in %, means over {seeds} seeds. The paper's GAP protects directed entries."
    table = Table("failure", title, ("method", *(f"K = {K}" for K in hops)), (("", tuple(rows)),), caption)
    return [table, curves("failure-figure", title, {title: lines}, x="hops K", caption=caption)]


# -- settings ------------------------------------------------------------------------------------------------------


def degree_blocks(by_experiment: ByExperiment) -> list[Block]:
    """Accuracy over the maximum degree: a table and a figure with one panel per data set and epsilon."""
    records = [_with_share(r) for r in labelled(by_experiment["degree"])]
    degrees = axis(records, "degree_cap")
    panels, groups = {}, []
    for dataset in axis(by_experiment["degree"], "dataset"):
        for epsilon in axis(records, "epsilon"):
            here = [r for r in records if (r.cell["dataset"], r.cell["epsilon"]) == (dataset, epsilon)]
            title = f"{dataset_title(dataset)}, {budget_words(epsilon)}"
            means = grouped(here, "method", "degree_cap")
            methods = axis(here, "method")
            panels[title] = {m: {d: means[m, d] for d in degrees if (m, d) in means} for m in methods}
            groups.append((title, tuple((Entry(m), *(_plain(means.get((m, d))) for d in degrees)) for m in methods)))
    caption = (
        "Test accuracy in %, degrees cut to D; ε is that of nodes up to D. The paper prints this as a figure without its values. "
        f"{datasets_note(axis(records, 'dataset'))}"
    )
    head = ("method", *(f"D = {degree:g}" for degree in degrees))
    return [
        Table("crv-d", "Accuracy by maximum degree", head, tuple(groups), caption),
        curves("crv-d-figure", "Accuracy against the maximum degree", panels, x="maximum degree", caption=caption),
    ]


def _with_share(record: Record) -> Record:
    """The record with the part of the budget that the graph gets in its row, where its cell sets it."""
    share = value_of(record.cell, "graph_share")
    if share is None:
        return record
    return replace(record, cell={**record.cell, "method": f"{record.cell['method']}, graph share {share:g}"})


HEAT_MAPS = {
    "contraction": ("heat map C_L", "C_L"),
    "alpha1": ("heat map alpha_1", "α₁"),
    "beta": ("heat map beta", "β"),
}
"""Parameters of the layer: the paper's figure, and the letter."""


def heat_blocks(by_experiment: ByExperiment) -> list[Block]:
    """CRV-H: accuracy over epsilon and one parameter of the layer at a time, ours and the paper's side by side."""
    records = expanded(by_experiment["heatmaps"])
    blocks: list[Block] = []
    for dataset in axis(records, "dataset"):
        here = [r for r in records if r.cell["dataset"] == dataset]
        maps, groups, epsilons = [], [], axis(here, "epsilon")
        for parameter, (figure, letter) in HEAT_MAPS.items():
            theirs = {
                (p.settings[parameter], p.epsilon): p for p in paper.points(figure, dataset) if p.epsilon in epsilons
            }
            ours, exact = _map(here, parameter, theirs)
            if not ours:
                continue
            values = sorted({value for value, _ in ours})
            published = {key: Mean(p.accuracy / 100, math.nan, 0) for key, p in theirs.items()}
            scale, title = f"{dataset} {letter}", dataset_title(dataset)
            maps.append(Map(letter, title, values, epsilons, ours, scale))
            if published:
                rows = sorted({value for value, _ in published})
                maps.append(Map(letter, f"{title}, {PAPER}", rows, epsilons, published, scale))
            lines = [
                (Entry(f"{value:g}"), *(_plain(ours.get((value, e)), theirs.get((value, e))) for e in epsilons))
                for value in values
            ]
            at = (
                "at the authors' own settings of each entry"
                if exact
                else "over the settings that were run with this value"
            )
            groups.append((f"{letter}, {at}", tuple(lines)))
        seeds = seed_words(len({r.cell["seed"] for r in here}))
        caption = f"Test accuracy of caribou-edp in %, {seeds}. Panels of one parameter share their colours."
        slug = f"crv-h-{dataset.replace(':', '-')}"
        head = ("value", *map(budget_words, epsilons))
        title = f"Parameters of the contractive layer on {dataset_title(dataset)}"
        blocks += [Table(slug, title, head, tuple(groups), caption), heat_maps(f"{slug}-figure", title, maps, caption)]
    return blocks


def _map(records: Records, parameter: str, points: Mapping[Any, paper.Point]) -> tuple[dict[Any, Mean], bool]:
    """Means by (value, epsilon), and whether they are at the authors' own settings of each entry.

    They are where these were run; else they are over all settings with this value.
    """
    found: dict[Any, list[Record]] = {}
    for record in records:
        if (value := value_of(record.cell, parameter)) is not None:
            found.setdefault((float(value), record.cell["epsilon"]), []).append(record)
    exact = {key: [r for r in found.get(key, ()) if _has(r, point.settings)] for key, point in points.items()}
    exact = {key: some for key, some in exact.items() if some}
    means = {
        key: mean_of([r.measures["test_accuracy"] for r in some]) for key, some in sorted((exact or found).items())
    }
    return means, bool(exact)


def _has(record: Record, settings: Mapping[str, float]) -> bool:
    return all(value_of(record.cell, name) == value for name, value in settings.items())


def allocation_blocks(by_experiment: ByExperiment) -> list[Block]:
    """Accuracy by how the budget is split."""
    records = by_experiment["allocation"]
    groups = []
    for method in axis(records, "method"):
        here = [r for r in records if r.cell["method"] == method]
        columns = [(d, e) for d in axis(here, "dataset") for e in axis(here, "epsilon")]
        words = [replace(r, cell={**r.cell, "split": settings_words(r.cell.get("settings", {}))}) for r in here]
        means = grouped(words, "split", "dataset", "epsilon")
        splits = list(dict.fromkeys(r.cell["split"] for r in words))
        found = [
            marked([_plain(means[split, *c]) if (split, *c) in means else None for split in splits]) for c in columns
        ]
        rows = [(Entry(split), *(column[k] for column in found)) for k, split in enumerate(splits)]
        head = ("split", *(f"{dataset_title(d)}, {budget_words(e)}" for d, e in columns))
        groups.append(Table(f"allocation-{method}", method, head, (("", tuple(rows)),), "Test accuracy in %."))
    return list(groups)


def _plain(mean: Mean | None, point: paper.Point | None = None) -> Entry:
    published = "" if point is None else f"{point.accuracy:.1f}"
    if mean is None:
        return Entry(NOT_RUN, paper=published)
    note = seed_words(mean.count) + ("" if point is None else f"; {settings_words(point.settings)}")
    return Entry(mean.percent(), mean.value, published, title=note, seeds=mean.count)


# -- the list ------------------------------------------------------------------------------------------------------


def _no_means(cell: Mapping[str, Any]) -> bool:
    return cell.get("chosen") != "authors-mean"


def _no_tops(cell: Mapping[str, Any]) -> bool:
    return cell.get("chosen") != "authors-top"


def _at_edge_level(cell: Mapping[str, Any]) -> bool:
    return not _at_node_level(cell)


def _at_node_level(cell: Mapping[str, Any]) -> bool:
    return str(cell["method"]).endswith(("-ndp", "-dp"))


def _only(name: str, build: Callable[[Records], Sequence[Block]]) -> Callable[[ByExperiment], Sequence[Block]]:
    return lambda records: build(records[name])


ACCURACIES = ("edge-accuracy", "node-accuracy")
DEPTHS = ("chain-depth",)

ITEMS = (
    Item(
        "pu-1", "Top accuracy", "Table: top accuracy, EDP and NDP", (*ACCURACIES, "chain-tops"), tops_blocks, _no_means
    ),
    Item(
        "pu-2",
        "Top accuracy at small degrees",
        "Table: top accuracy for NDP, degrees 10 and 5",
        ("node-small-degree",),
        small_degree_blocks,
    ),
    Item("pu-3", "Mean accuracy", "Table: mean accuracy, EDP and NDP", ACCURACIES, means_blocks, _no_tops),
    Item(
        "crv-eps",
        "Accuracy by depth, a panel per ε",
        "Figure: ablation study of K",
        DEPTHS,
        depth_blocks("crv-eps", by="hops", of="epsilon"),
    ),
    Item(
        "crv-k",
        "Accuracy by ε, a panel per depth",
        "Figure: ablation study of ε",
        DEPTHS,
        depth_blocks("crv-k", by="epsilon", of="hops"),
    ),
    Item("crv-d", "Accuracy by maximum degree", "Figure: ablation study of the degree", ("degree",), degree_blocks),
    Item("crv-h", "Parameters of the layer", "Figure: accuracy under C_L, α₁ and β", ("heatmaps",), heat_blocks),
    Item(
        "ov-e",
        "Time and memory, edge level",
        "Tables: execution time and memory for EDP",
        ("overhead",),
        _only("overhead", overhead_blocks("ov-e")),
        _at_edge_level,
    ),
    Item(
        "ov-n",
        "Time and memory, node level",
        "Tables: execution time and memory for NDP",
        ("overhead",),
        _only("overhead", overhead_blocks("ov-n")),
        _at_node_level,
    ),
    Item("aud", "Attacks", "Table: auditing via LinkTeller and G-MIA", ("audit",), _only("audit", audit_blocks)),
    Item("noise", "Noise against depth", "Table and figure: noise under different K", ("noise-depth",), noise_blocks),
    Item("failure", "Divergent noise", "Table: divergent noise allocation", ("failure",), failure_blocks),
    Item("larger", "Larger graphs", "Table: Reddit2", ("larger-graph",), _only("larger-graph", larger_blocks)),
    Item("table-1", "Designs compared", "Table I: private GNNs", ACCURACIES, design_blocks, _no_means),
    Item(
        "motivation",
        "Motivating study",
        "Figure: motivating experiments",
        ("motivation",),
        depth_lines("motivation", "GAP on Chain-S by depth"),
    ),
    Item("defaults", "The defaults, without any search", "added", ("defaults",), defaults_blocks),
    Item("allocation", "How one budget is split", "added", ("allocation",), allocation_blocks),
    Item(
        "downstream",
        "Link prediction and graph classification",
        "added",
        ("downstream",),
        _only("downstream", downstream_blocks),
    ),
)
