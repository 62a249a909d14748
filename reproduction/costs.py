"""What fits cost: time and memory by method and data set, beside the paper's, and on larger graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from caribou.experiments.records import Record
from caribou.experiments.report.blocks import Block, Entry, Table
from caribou.experiments.report.costs import ADDED, CAPTION, PublishedCost, cost_table
from caribou.experiments.report.summary import Mean, axis, budget_words, grouped, seed_words
from reproduction import paper

Records = Sequence[Record]


def dataset_title(name: str) -> str:
    """The name of a data set as the title of a column; a stand-in is called one, a generated graph is told by its size.

    >>> dataset_title("csbm:nodes=169343,features=128")
    'generated, 169,343 nodes'
    """
    options = dict(part.split("=") for part in name.partition(":")[2].split(",") if "=" in part)
    if name.startswith("csbm") and int(options.get("nodes", 0)) >= 10_000:
        return f"generated, {int(options['nodes']):,} nodes"
    return f"{name} (stands in for Facebook)" if name in paper.STAND_INS else name


def overhead_table(name: str, records: Records) -> Table:
    """CPU seconds and memory of a fit by data set and method, beside the paper's; accuracy points per CPU second."""
    published = {
        "cpu_seconds": PublishedCost(
            "paper: a third of its time for 3 runs", lambda m, d: _third(paper.overhead("seconds_3_runs", m, d))
        ),
        ADDED: PublishedCost("paper: on its GPU", lambda m, d: paper.overhead("max_memory_mb", m, d)),
    }
    caption = (
        f"{CAPTION} The paper's figures are from a GPU, at ε = 1 and K = 20: they compare methods with each other, not with "
        "ours."
    )
    return cost_table(name, records, published=published, dataset_title=dataset_title, caption=caption)


def _third(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 3


# -- larger graphs -------------------------------------------------------------------------------------------------


def larger_blocks(records: Records) -> list[Block]:
    """One row per data set, method and epsilon: accuracy, time and memory; the paper has accuracies on Reddit2 only."""
    names = ("dataset", "method", "epsilon")
    scores = grouped(records, *names)
    costs = {
        measure: grouped(records, *names, measure=measure) for measure in ("cpu_seconds", "peak_mb", "peak_mb_before")
    }
    groups = []
    for dataset in axis(records, "dataset"):
        rows = [_larger_row(key, scores[key], costs) for key in scores if key[0] == dataset]
        groups.append((_size_words(dataset), tuple(rows)))
    head = ("method", "accuracy, %", "CPU minutes", "peak memory, GB", "of which before the fit, GB")
    caption = (
        "One thread. Peak memory is that of the process: libraries, data and fit. Generated graphs have the size of the real "
        "ones; their accuracies say nothing about those. The paper has accuracies on Reddit2, and neither times nor memory: "
        f"edge level {_reddit('edge')}; node level {_reddit('node')}."
    )
    return [Table("larger-graph", "Time and memory of one fit", head, tuple(groups), caption)]


def _larger_row(key: tuple[Any, ...], score: Mean, costs: Mapping[str, Mapping[Any, Mean]]) -> tuple[Entry, ...]:
    _, method, epsilon = key
    free = method == "mlp"  # it reads no edge and is the same at every epsilon
    figures = [
        Entry("" if measured is None else f"{measured.value / unit:.1f}")
        for measure, unit in (("cpu_seconds", 60), ("peak_mb", 1000), ("peak_mb_before", 1000))
        for measured in [costs[measure].get(key)]
    ]
    name = method if free else f"{method}, {budget_words(epsilon)}"
    return Entry(name), Entry(score.percent(), title=seed_words(score.count)), *figures


def _size_words(dataset: str) -> str:
    """A data set with its size, from its name or from the table of data sets."""
    from caribou.datasets.csbm import block_model
    from caribou.datasets.table import PUBLIC

    if dataset in PUBLIC:
        spec = PUBLIC[dataset]
        name, sizes = dataset, (spec.nodes, spec.edges // 2, spec.features, spec.classes)
    elif dataset.startswith("csbm"):
        model = block_model(dataset.partition(":")[2], {})
        name, sizes = "generated", (model.nodes, model.edges, model.features, model.classes)
    else:
        return dataset
    words = ("nodes", "edges", "features", "classes")
    return f"{name}: " + ", ".join(f"{size:,} {word}" for size, word in zip(sizes, words, strict=True))


def _reddit(unit: str) -> str:
    return ", ".join(f"{accuracy} at ε = {epsilon}" for epsilon, accuracy in paper.REDDIT2[unit].items())
