"""Accuracy against epsilon for every data set: ours, the paper's and features alone, for pictures and pages of the site."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from caribou.experiments.records import Record
from caribou.experiments.report.blocks import PAPER
from caribou.experiments.report.figures import Series
from caribou.experiments.report.summary import Mean, axis, grouped, successes
from reproduction import paper
from reproduction.rows import AUTHORS, VALIDATED, dataset_title, labelled, on_paper_graphs

LEVELS = {"edge-accuracy": ("edp", "mlp"), "node-accuracy": ("ndp", "mlp-dp")}
"""By experiment: the ending of methods, and features alone."""
OURS, RUN_HERE, FEATURES, PAPERS = "votes, ours", "caribou, run here", "mlp, features alone", f"caribou, {PAPER}"
"""The lines of a panel."""


def panels(records: Mapping[str, Sequence[Record]], experiment: str) -> dict[str, dict[str, Series]]:
    """The lines of every data set of one unit, by its title, in the paper's order.

    "caribou, run here" is the paper's method with a bound that holds for every graph: at settings validated on our splits, or at
    its authors' settings where none were searched.
    """
    ending, features = LEVELS[experiment]
    found = successes(records.get(experiment, ()))
    rows, _ = on_paper_graphs(labelled([r for r in found if r.cell.get("chosen") != "authors-top"]))
    titles = {
        f"votes-{ending}": OURS,
        f"caribou-{ending}, {AUTHORS}": RUN_HERE,
        f"caribou-{ending}, {VALIDATED}": RUN_HERE,  # the later one counts: the fairer of the two
        features: FEATURES,
    }
    columns = {r.cell["dataset"] for r in rows}
    made: dict[str, dict[str, Series]] = {}
    for dataset in sorted((d for d in axis(found, "dataset") if d in columns), key=_place):
        here = [r for r in rows if r.cell["dataset"] == dataset]
        lines: dict[str, Series] = {
            title: line
            for method, title in titles.items()
            if (line := _line([r for r in here if r.cell["method"] == method], here))
        }
        published = {e: paper.accuracy("mean", f"caribou-{ending}", dataset, e) for e in paper.EPSILONS}
        theirs = {e: Mean(v / 100, math.nan, 0) for e, v in published.items() if v is not None}
        if lines:
            made[dataset_title(dataset)] = lines | ({PAPERS: theirs} if theirs else {})
    return made


def real_panels(records: Mapping[str, Sequence[Record]], experiment: str) -> dict[str, dict[str, Series]]:
    """Those whose graphs are real; chains are generated."""
    return {title: lines for title, lines in panels(records, experiment).items() if not title.startswith("Chain")}


def _line(own: Sequence[Record], here: Sequence[Record]) -> Series:
    """Accuracy of a method by epsilon. What reads no private edge and has no epsilon is level over all of the data set's."""
    means = grouped(own, "epsilon")
    line = {epsilon: mean for epsilon, mean in means.items() if epsilon != "inf"}
    if line or "inf" not in means:
        return line
    return dict.fromkeys((e for e in axis(here, "epsilon") if e != "inf"), means["inf"])


def _place(dataset: str) -> int:
    """The paper's order of data sets; what it does not have comes last."""
    name = paper.paper_dataset(dataset)
    return paper.DATASETS.index(name) if name in paper.DATASETS else len(paper.DATASETS)
