"""CRV-ε and CRV-K: accuracy of CARIBOU and GAP on chains by depth and budget, ours beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from caribou.experiments.records import Record
from caribou.experiments.report.blocks import NOT_RUN, Block, Entry, Table
from caribou.experiments.report.page import ByExperiment
from caribou.experiments.report.summary import Mean, axis, grouped, mean_of, seed_words, value_of
from reproduction import paper
from reproduction.figures import Boxes, boxes, number
from reproduction.rows import dataset_title, datasets_note, expanded, labelled

Records = Sequence[Record]

CHAIN_GUESSING = 0.5
"""Chains have two classes, equally often."""


def depth_blocks(name: str, *, by: str, of: str) -> Callable[[ByExperiment], list[Block]]:
    """For each data set a table and a figure over ``by``, with a panel per value of ``of`` ("hops", "epsilon")."""

    def build(records: ByExperiment) -> list[Block]:
        found = [r for some in records.values() for r in expanded(some)]
        blocks: list[Block] = []
        for dataset in axis(found, "dataset"):
            here = [r for r in found if r.cell["dataset"] == dataset]
            panels = {}
            for value in sorted({_at(r, of) for r in here}):
                panels[value] = _panel(here, dataset, by, of, value)
            blocks += _shown(f"{name}-{dataset.replace(':', '-')}", dataset, here, panels, by, of)
        return blocks

    return build


def _at(record: Record, axis_name: str) -> float:
    """A value on an axis; no privacy stands at infinity."""
    value = value_of(record.cell, axis_name)
    return math.inf if value == "inf" else float(value)


def _panel(records: Records, dataset: str, by: str, of: str, value: float) -> Boxes:
    here = [r for r in records if _at(r, of) == value]
    ours = [r for r in here if r.cell["method"].startswith("caribou")]
    theirs = [r for r in here if r.cell["method"].startswith("gap")]
    places = sorted({_at(r, by) for r in here})
    settings, means, gap = {}, {}, {}
    for place in places:
        some = [r for r in ours if _at(r, by) == place]
        if some:
            settings[place] = [mean.value for mean in _by_setting(some).values()]
            means[place] = mean_of([mean.value for mean in grouped(some, "seed").values()])
        line = [r.measures["test_accuracy"] for r in theirs if _at(r, by) == place]
        if line:
            gap[place] = mean_of(line)
    published = {method: _published(dataset, method, by, of, value, places) for method in ("caribou", "gap")}
    paper_gap = {place: Mean(sum(s) / len(s), math.nan, 0) for place, s in published["gap"].items()}
    return Boxes(settings, means, gap, published["caribou"], paper_gap)


def _by_setting(records: Records) -> dict[str, Mean]:
    """The mean over the seeds of each setting."""
    found: dict[str, list[float]] = {}
    for record in records:
        settings = sorted(record.cell.get("settings", {}).items())
        found.setdefault(str((record.cell["method"], settings)), []).append(record.measures["test_accuracy"])
    return {setting: mean_of(values) for setting, values in found.items()}


def _published(
    dataset: str, method: str, by: str, of: str, value: float, places: Sequence[float]
) -> Mapping[float, list[float]]:
    """The paper's values at the places of a panel, as shares."""
    found: dict[float, list[float]] = {}
    for point in paper.points("depth", dataset, method):
        at = {"epsilon": math.inf if point.epsilon == "inf" else point.epsilon, "hops": point.settings["hops"]}
        if at[of] == value and at[by] in places:
            found.setdefault(at[by], []).append(point.accuracy / 100)
    return found


WORDS = {"hops": "hops K", "epsilon": "epsilon"}


def _title(of: str, value: float) -> str:
    return f"K = {number(value)}" if of == "hops" else f"ε = {number(value)}"


def _shown(slug: str, dataset: str, records: Records, panels: Mapping[float, Boxes], by: str, of: str) -> list[Block]:
    places = sorted({place for panel in panels.values() for place in panel.places})
    ours = [r for r in records if r.cell["method"].startswith("caribou")]
    rows = ", ".join(axis(labelled(ours), "method")) or "caribou"
    seeds = seed_words(len({r.cell["seed"] for r in records}))
    head = ("", *(_title(by, place) for place in places))
    groups = []
    for value, panel in panels.items():
        paper_mean = {place: sum(s) / len(s) for place, s in panel.paper_settings.items()}
        paper_gap = {place: mean.value for place, mean in panel.paper_gap.items()}
        lines = [
            (Entry(title), *(_entry(line.get(place), published.get(place)) for place in places))
            for title, line, published in (
                ("CARIBOU, mean over settings", panel.mean, paper_mean),
                ("GAP", panel.gap, paper_gap),
            )
            if line or published
        ]
        groups.append((_title(of, value), tuple(lines)))
    caption = (
        f"Test accuracy in %, {seeds}. CARIBOU ({rows}): at each depth and ε the settings of the grid, the mean over "
        "them with its 95 % interval over seeds. The paper's boxes are its five best settings of each by test "
        f"accuracy, on 32 to 60 test nodes. {datasets_note([dataset])}"
    )
    what = "Accuracy by depth" if by == "hops" else "Accuracy by ε"
    title = f"{what} on {dataset_title(dataset)}"
    figures = {f"{dataset_title(dataset)}, {_title(of, value)}": panel for value, panel in panels.items()}
    return [
        Table(slug, title, head, tuple(groups), caption),
        boxes(f"{slug}-figure", title, figures, x=WORDS[by], guessing=CHAIN_GUESSING, caption=caption),
    ]


def _entry(mean: Mean | None, published: float | None) -> Entry:
    shown = "" if published is None else f"{100 * published:.1f}"
    if mean is None:
        return Entry(NOT_RUN, paper=shown)
    return Entry(mean.percent(), mean.value, shown, title=seed_words(mean.count), seeds=mean.count)
