"""What fits cost: time and memory by method and data set, beside the paper's, and on larger graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from caribou.experiments.records import Record
from caribou.experiments.report.blocks import NOT_RUN, Block, Entry, Figure, Table
from caribou.experiments.report.summary import Mean, axis, budget_words, grouped, seed_words
from reproduction import paper
from reproduction.figures import bars
from reproduction.rows import dataset_title, datasets_note, labelled, method_of, of_the_paper, short_title

Records = Sequence[Record]
ADDED = "added_mb"
"""The measure that is computed here: by how much the fit raised the peak memory of its process."""
CAPTION = (
    "One process and one thread per fit, means over all budgets and seeds; a public encoder that cells share is charged "
    "to each; libraries that a fit loads count as its memory."
)
COSTS = {
    "cpu_seconds": ("CPU seconds of one fit", "{:.2f}"),
    ADDED: ("memory that the fit added to its process, MB", "{:.0f}"),
    "peak_mb": ("peak memory of the process, MB, libraries and data included", "{:.0f}"),
}
"""Title and form of a measure."""


@dataclass(frozen=True)
class PublishedCost:
    """What a publication has for a method and a data set, and how it is to be read beside ours."""

    words: str
    value: Callable[[str, str], float | None]


def cost_table(
    name: str,
    records: Records,
    *,
    published: Mapping[str, PublishedCost] | None = None,
    dataset_title: Callable[[str], str] = str,
    datasets: Sequence[str] | None = None,
    caption: str = CAPTION,
) -> Table:
    """CPU seconds and memory of a fit by data set and method.

    ``published``: by measure. ``datasets``: the columns, if their order is not that of the records.
    """
    records = [with_added_memory(record) for record in records]
    columns = axis(records, "dataset") if datasets is None else datasets
    groups = [_group(records, columns, measure, (published or {}).get(measure)) for measure in COSTS]
    head = ("method", *map(dataset_title, columns))
    return Table(f"{name}-cost", "Time and memory", head, tuple(group for group in groups if group[1]), caption)


def with_added_memory(record: Record) -> Record:
    """The record with the measure ADDED, if it knows the peak before and after."""
    after, before = record.measures.get("peak_mb"), record.measures.get("peak_mb_before")
    if after is None or before is None:
        return record
    return replace(record, measures={**record.measures, ADDED: after - before})


def _group(
    records: Records, datasets: Sequence[str], measure: str, published: PublishedCost | None
) -> tuple[str, tuple[tuple[Entry, ...], ...]]:
    title, form = COSTS[measure]
    means = grouped(records, "method", "dataset", measure=measure)
    if not means:
        return title, ()
    rows = []
    for method in axis(records, "method"):
        row = [Entry(method)]
        for dataset in datasets:
            value = None if published is None else published.value(method, dataset)
            row.append(_entry(means.get((method, dataset)), form, "" if value is None else form.format(value)))
        rows.append(tuple(row))
    return title if published is None else f"{title} ({published.words})", tuple(rows)


def _entry(mean: Mean | None, form: str, published: str) -> Entry:
    if mean is None:
        return Entry(NOT_RUN)
    return Entry(form.format(mean.value), mean.value, published, title=f"{mean.count} fits")


# -- beside the paper's -------------------------------------------------------------------------------------------

PER_RUN = "seconds of one run in the paper, on its GPU"
PAPER_MEMORY = "MB in the paper, on its GPU"


def overhead_blocks(name: str) -> Callable[[Records], list[Block]]:
    """Time and memory of a fit: the table, and bars of ours and of the paper's."""

    def build(records: Records) -> list[Block]:
        rows = [with_added_memory(record) for record in labelled(records)]
        datasets = axis(records, "dataset")
        return [overhead_table(name, rows, datasets), overhead_bars(f"{name}-figure", rows, datasets)]

    return build


def overhead_table(name: str, records: Records, datasets: Sequence[str]) -> Table:
    """CPU seconds and memory of a fit by data set and row, beside the paper's; accuracy points per CPU second."""
    published = {
        "cpu_seconds": PublishedCost("paper: a third of its time for 3 runs", lambda row, d: _paper_seconds(row, d)),
        ADDED: PublishedCost("paper: on its GPU", lambda row, d: _paper_memory(row, d)),
    }
    caption = (
        f"{CAPTION} ε = 1 and K = 20 as in the paper, whose figures are from a GPU: they compare methods with each other, not "
        f"with ours. {datasets_note(datasets)}"
    )
    return cost_table(
        name, records, published=published, dataset_title=dataset_title, datasets=datasets, caption=caption
    )


def overhead_bars(name: str, records: Records, datasets: Sequence[str]) -> Figure:
    """Ours and the paper's in panels side by side: what can be compared is the order of methods in each."""
    panels: dict[str, dict[str, dict[str, float]]] = {}
    for measure, title, theirs, words in (
        ("cpu_seconds", "CPU seconds of one fit here", _paper_seconds, PER_RUN),
        (ADDED, "MB that the fit added here", _paper_memory, PAPER_MEMORY),
    ):
        means = grouped(records, "method", "dataset", measure=measure)
        panels[title], panels[words] = {}, {}
        for row in axis(records, "method"):
            for dataset in datasets:
                label = short_title(dataset)
                if (row, dataset) in means and means[row, dataset].value > 0:
                    panels[title].setdefault(row, {})[label] = means[row, dataset].value
                if (value := theirs(row, dataset)) is not None:
                    panels[words].setdefault(f"{method_of(row)}", {})[label] = value
    shown = {title: methods for title, methods in panels.items() if methods}
    return bars(
        name, "Time and memory, ours and the paper's", shown, "Logarithmic; read the order of methods in each panel."
    )


def _paper_seconds(row: str, dataset: str) -> float | None:
    return _third(_published(row, "seconds_3_runs", dataset))


def _paper_memory(row: str, dataset: str) -> float | None:
    return _published(row, "max_memory_mb", dataset)


def _published(row: str, metric: str, dataset: str) -> float | None:
    return paper.overhead(metric, method_of(row), dataset) if of_the_paper(row) else None


def _third(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 3


# -- larger graphs -------------------------------------------------------------------------------------------------


def larger_blocks(records: Records) -> list[Block]:
    """One row per data set, method and epsilon: accuracy, time and memory; the paper has accuracies on Reddit2 only."""
    datasets, records = axis(records, "dataset"), labelled(records)
    names = ("dataset", "method", "epsilon")
    scores = grouped(records, *names)
    costs = {
        measure: grouped(records, *names, measure=measure) for measure in ("cpu_seconds", "peak_mb", "peak_mb_before")
    }
    groups = []
    for dataset in datasets:
        rows = [_larger_row(key, scores[key], costs) for key in scores if key[0] == dataset]
        groups.append((_size_words(dataset), tuple(rows)))
    head = ("method", "accuracy, %", "CPU minutes", "peak memory, GB", "of which before the fit, GB")
    caption = (
        "One thread. Peak memory is that of the process: libraries, data and fit. Generated graphs have the size of the real "
        "ones; their accuracies say nothing about those. The paper has accuracies on Reddit2, and neither times nor memory: "
        f"edge level {_reddit('edge')}; node level {_reddit('node')}."
    )
    panels = {
        words: _bars_of(costs[measure], unit)
        for words, measure, unit in (("CPU minutes", "cpu_seconds", 60), ("peak memory, GB", "peak_mb", 1000))
    }
    title = "Time and memory of one fit"
    return [Table("larger", title, head, tuple(groups), caption), bars("larger-figure", title, panels, "One thread.")]


def _bars_of(means: Mapping[Any, Mean], unit: float) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for (dataset, method, _), mean in means.items():
        found.setdefault(method, {}).setdefault(short_title(dataset), mean.value / unit)
    return found


def _larger_row(key: tuple[Any, ...], score: Mean, costs: Mapping[str, Mapping[Any, Mean]]) -> tuple[Entry, ...]:
    _, method, epsilon = key
    free = method == "mlp"  # it reads no edge and is the same at every epsilon
    figures = [
        Entry("" if measured is None else f"{measured.value / unit:.1f}")
        for measure, unit in (("cpu_seconds", 60), ("peak_mb", 1000), ("peak_mb_before", 1000))
        for measured in [costs[measure].get(key)]
    ]
    name = method if free else f"{method}, {budget_words(epsilon)}"
    return Entry(name), Entry(score.percent(), title=seed_words(score.count), seeds=score.count), *figures


def _size_words(dataset: str) -> str:
    """A data set with its size, from its name or from the table of data sets."""
    from caribou.datasets.generated import generator
    from caribou.datasets.table import PUBLIC

    if dataset in PUBLIC:
        spec = PUBLIC[dataset]
        name, sizes = dataset, (spec.nodes, spec.edges // 2, spec.features, spec.classes)
    elif dataset.startswith("csbm"):
        model = generator(dataset)
        name, sizes = "generated", (model.nodes, model.edges, model.features, model.classes)
    else:
        return dataset
    words = ("nodes", "edges", "features", "classes")
    return f"{name}: " + ", ".join(f"{size:,} {word}" for size, word in zip(sizes, words, strict=True))


def _reddit(unit: str) -> str:
    return ", ".join(f"{accuracy} at ε = {epsilon}" for epsilon, accuracy in paper.REDDIT2[unit].items())
