"""What the page of the paper's evaluation begins with: ours, the paper's and features alone, for every data set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from caribou.experiments.records import Record
from caribou.experiments.report.blocks import PAPER
from caribou.experiments.report.story import Panel, Series, Story, lines_of
from caribou.experiments.report.summary import Mean, axis, successes
from reproduction import paper
from reproduction.rows import AUTHORS, VALIDATED, dataset_title, labelled, on_paper_graphs

LEVELS = {
    "edge-accuracy": ("Edge level: one link is protected", "edp", "mlp"),
    "node-accuracy": ("Node level: one node with all its data is protected", "ndp", "mlp-dp"),
}
"""By experiment: the heading, the ending of methods, and features alone."""
OURS, RUN_HERE, FEATURES, PAPERS = "votes, ours", "caribou, run here", "mlp, features alone", f"caribou, {PAPER}"
"""The lines of a panel."""
CAPTION = (
    "Mean test accuracy against ε. Bars: 95 % intervals over the seeds, from 3 on. “votes, ours” is our own method. “caribou, "
    "run here” is the paper's method with a bound that holds for every graph: at settings validated on our splits, or at its "
    "authors' settings where none were searched. “caribou, paper” is what the paper prints, for its own splits. Dotted: "
    "features alone, without any link."
)


def story(records: Mapping[str, Sequence[Record]]) -> Story | None:
    """Panels of both units; None where nothing of them was run."""
    panels: list[Panel] = []
    for name, (group, ending, features) in LEVELS.items():
        found = successes(records.get(name, ()))
        rows, _ = on_paper_graphs(labelled([r for r in found if r.cell.get("chosen") != "authors-top"]))
        titles = {
            f"votes-{ending}": OURS,
            f"caribou-{ending}, {AUTHORS}": RUN_HERE,
            f"caribou-{ending}, {VALIDATED}": RUN_HERE,  # the later one counts: the fairer of the two
            features: FEATURES,
        }
        columns = {r.cell["dataset"] for r in rows}
        for dataset in sorted((d for d in axis(found, "dataset") if d in columns), key=_place):
            here = [r for r in rows if r.cell["dataset"] == dataset]
            measured = lines_of(here, list(titles))
            lines = {titles[method]: line for method, line in measured.items()}
            published = {e: paper.accuracy("mean", f"caribou-{ending}", dataset, e) for e in paper.EPSILONS}
            theirs = {e: Mean(v / 100, math.nan, 0) for e, v in published.items() if v is not None}
            if theirs:
                lines[PAPERS] = theirs
            if measured:
                panels.append(Panel(group, dataset_title(dataset), lines))
    return Story(tuple(panels), caption=CAPTION) if panels else None


def real_panels(records: Mapping[str, Sequence[Record]], experiment: str) -> dict[str, Mapping[str, Series]]:
    """The panels of one unit whose graphs are real, by title; chains are generated."""
    found = story({experiment: records.get(experiment, ())})
    return {} if found is None else {p.dataset: p.lines for p in found.panels if not p.dataset.startswith("Chain")}


def _place(dataset: str) -> int:
    """The paper's order of data sets; what it does not have comes last."""
    name = paper.paper_dataset(dataset)
    return paper.DATASETS.index(name) if name in paper.DATASETS else len(paper.DATASETS)
