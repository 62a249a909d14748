"""What fits cost: time and memory by method and data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from caribou.experiments.records import Record
from caribou.experiments.report.blocks import NOT_RUN, Entry, Table
from caribou.experiments.report.summary import Mean, axis, grouped

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
