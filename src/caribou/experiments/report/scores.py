"""A score of methods by data set and epsilon: the table of means with intervals, and curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from caribou.experiments.records import Record
from caribou.experiments.report.blocks import NOT_RUN, PLUS_MINUS, Block, Entry, Table, marked
from caribou.experiments.report.figures import curves
from caribou.experiments.report.summary import Mean, axis, budget_words, grouped, seed_words, seeds_of
from caribou.metrics import metric_name

Records = Sequence[Record]
Published = Callable[[str, str, Any], float | None]
"""What a publication has for a method, a data set and an epsilon, in the unit of the table; None where it has nothing."""


@dataclass(frozen=True)
class Score:
    """What is compared. ``measure``: its name in records. ``axis`` and ``caption``: with its unit, for figures and tables."""

    measure: str
    title: str
    axis: str
    caption: str
    percent: bool

    def text(self, mean: Mean) -> str:
        """A mean with its interval, in the unit of the score."""
        return mean.percent() if self.percent else mean.decimals()

    def published(self, value: float | None) -> str:
        """A published figure in the same form."""
        if value is None:
            return ""
        return f"{value:.1f}" if self.percent else f"{value:.3f}"


ACCURACY = Score("test_accuracy", "Accuracy", "test accuracy, %", "Test accuracy in %", percent=True)
AUC = Score("auc", "AUC of the attack", "AUC", "AUC", percent=False)
SCORES = (ACCURACY, AUC)


def metric_score(metric: str) -> Score:
    """A metric of the test nodes as a score of tables and curves, e.g. "average_precision" or "ap".

    >>> metric_score("ap").measure
    'test_metrics/average_precision'
    """
    name = metric_name(metric)
    words = name.replace("_", " ").capitalize().replace("f1", "F1").replace("Roc auc", "ROC AUC")
    return Score(f"test_metrics/{name}", words, words, f"{words} of test nodes", percent=False)


def score_table(
    name: str,
    title: str,
    records: Records,
    means: Mapping[Any, Mean],
    score: Score = ACCURACY,
    *,
    published: Published = lambda method, dataset, epsilon: None,
    dataset_title: Callable[[str], str] = str,
    datasets: Sequence[str] | None = None,
    notes: Mapping[Any, str] | None = None,
    unranked: Mapping[Any, str] | None = None,
    caption: str = "",
) -> Table:
    """A group of rows per epsilon, a row per method, a column per data set. The best and second of a column are marked.

    ``means``: by (epsilon, method, data set). ``notes``: what an entry says on hover besides, by the same.
    ``unranked``: entries that are not compared with the others, and the sign that says so.
    ``published``: figures that stand beneath ours. ``datasets``: the columns, if their order is not that of the records.
    """
    datasets = axis(records, "dataset") if datasets is None else datasets
    groups = []
    for epsilon in axis(records, "epsilon"):
        methods = [m for m in axis(records, "method") if any((epsilon, m, d) in means for d in datasets)]
        columns = []
        for dataset in datasets:
            papers = {method: score.published(published(method, dataset, epsilon)) for method in methods}
            column = []
            for method in methods:
                key = (epsilon, method, dataset)
                entry = _entry(score, means.get(key), papers[method], (notes or {}).get(key, ""))
                if sign := (unranked or {}).get(key):
                    entry = replace(entry, text=_signed(entry.text, sign), value=None)
                column.append(entry)
            columns.append(marked(column))
        rows = [(Entry(method), *(column[k] for column in columns)) for k, method in enumerate(methods)]
        groups.append((budget_words(epsilon), tuple(rows)))
    return Table(name, title, ("method", *map(dataset_title, datasets)), tuple(groups), caption)


def _entry(score: Score, mean: Mean | None, published: str, note: str) -> Entry:
    if mean is None:
        return Entry(NOT_RUN, paper=published, title=NOT_RUN)
    title = "; ".join(filter(None, (seed_words(mean.count), note)))
    return Entry(score.text(mean), mean.value, published, title=title, seeds=mean.count)


def _signed(text: str, sign: str) -> str:
    figure, plus_minus, half = text.partition(PLUS_MINUS)
    return f"{figure}{sign}{plus_minus}{half}"


def interval_words(means: Mapping[Any, Mean]) -> str:
    """What the figures of a table are, for its caption."""
    return f"mean ± half of the 95 % interval (from 3 seeds on); seeds: {seeds_of(means.values())}."


def settings_note(records: Records) -> str:
    """For how many fits settings were searched."""
    searched = sum(bool(r.measures.get("searched")) for r in records)
    if not searched:
        return "No settings were searched."
    if searched == len(records):
        return "Settings were searched on validation nodes for all of them."
    return f"Settings were searched on validation nodes for {searched} of {len(records)} fits; the others have the defaults."


def epsilon_curves(
    name: str,
    records: Records,
    score: Score = ACCURACY,
    *,
    published: Callable[[str], Mapping[str, Mapping[Any, Mean]]] = lambda dataset: {},
    dataset_title: Callable[[str], str] = str,
    datasets: Sequence[str] | None = None,
) -> list[Block]:
    """The score over epsilon, one panel per data set, a dotted line for what has no privacy; nothing if no epsilon is finite.

    ``published``: lines of a publication, by data set. ``datasets``: the panels, if their order is not that of the records.
    """
    private = [r for r in records if r.cell["epsilon"] != "inf"]
    panels: dict[str, dict[str, Any]] = {}
    lines: dict[str, dict[str, float]] = {}
    for dataset in axis(records, "dataset") if datasets is None else datasets:
        title = dataset_title(dataset)
        panels[title] = {}
        for method in axis(private, "method"):
            here = [r for r in private if r.cell["dataset"] == dataset and r.cell["method"] == method]
            if here:
                panels[title][method] = grouped(here, "epsilon", measure=score.measure)
        if panels[title]:
            panels[title].update(published(dataset))
        free = [r for r in records if r.cell["dataset"] == dataset and r.cell["epsilon"] == "inf"]
        lines[title] = {method: m.value for method, m in grouped(free, "method", measure=score.measure).items()}
    panels = {title: methods for title, methods in panels.items() if methods}
    if not panels:
        return []
    caption = "Bars: 95 % intervals over the seeds. Dotted: without privacy (mlp: without the graph)."
    return [
        curves(
            name,
            f"{score.title} against epsilon",
            panels,
            x="epsilon",
            y=score.axis,
            lines=lines,
            percent=score.percent,
            caption=caption,
        )
    ]
