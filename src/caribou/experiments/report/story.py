"""What a report begins with: the score against epsilon, a small panel per data set, and what it comes to in sentences.

A panel has a line per method. Features alone, which read no edge, are the line to beat; a publication's lines are dashed.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from caribou.experiments.records import Record
from caribou.experiments.report.figures import is_published, mean_columns
from caribou.experiments.report.scores import ACCURACY, Score
from caribou.experiments.report.summary import MIN_SEEDS, Mean, axis, grouped
from caribou.pages.palette import COLOURS, MARKERS, OTHER_COLOUR, family
from caribou.pages.pictures import Line, LineChart

Series = Mapping[Any, Mean]
FEATURES_ALONE = "mlp"
"""The family of methods that read no edge."""
MOST_LINES = 8
"""More lines cannot be told apart in a small panel: the tables below have the rest."""


@dataclass(frozen=True)
class Panel:
    """One data set. ``group``: what panels stand under one heading; ``lines``: by label, each by epsilon."""

    group: str
    dataset: str
    lines: Mapping[str, Series]


@dataclass(frozen=True)
class Story:
    """All panels, and the score that they show."""

    panels: tuple[Panel, ...]
    score: Score = ACCURACY
    caption: str = ""

    @property
    def factor(self) -> float:
        """From a mean to what is shown."""
        return 100 if self.score.percent else 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The lines of all panels, each once."""
        return tuple(dict.fromkeys(label for panel in self.panels for label in panel.lines))

    @property
    def groups(self) -> dict[str, list[Panel]]:
        """The panels by their heading."""
        found: dict[str, list[Panel]] = {}
        for panel in self.panels:
            found.setdefault(panel.group, []).append(panel)
        return found

    def sentences(self, group: str) -> list[str]:
        """On how many data sets each method is above features alone, and above published lines: counted, by means.

        At the smallest and at the largest epsilon. A published line is compared with nothing but ours: it is of other splits.
        """
        panels = self.groups[group]
        measured = [label for label in self.labels if not is_published(label)]
        rivals = {label: label for label in self.labels if is_published(label)}
        rivals |= {label: "features alone" for label in measured if family(label) == FEATURES_ALONE}
        found = []
        for label in measured:
            for rival, words in reversed(rivals.items()):
                counts = [count for at in self._ends(panels) if (count := _counted(panels, label, rival, at))]
                if counts and family(label) != FEATURES_ALONE:
                    found.append(f"{label}: above {words} on {' and on '.join(counts)}.")
        return found

    def _ends(self, panels: Sequence[Panel]) -> list[Any]:
        epsilons = sorted({epsilon for panel in panels for line in panel.lines.values() for epsilon in line})
        return list(dict.fromkeys([epsilons[0], epsilons[-1]])) if epsilons else []

    def to_csv(self) -> str:
        """What is drawn, as plain figures."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            ("group", "panel", "line", "epsilon", self.score.axis, "half width of the 95 % interval", "seeds")
        )
        for panel in self.panels:
            for label, line in panel.lines.items():
                for epsilon in sorted(line):
                    row = (f"{epsilon:g}", *mean_columns(line[epsilon], self.factor))
                    writer.writerow((panel.group, panel.dataset, label, *row))
        return out.getvalue()

    def charts(self) -> dict[str, LineChart]:
        """A picture per panel, by the name of its place."""
        return {f"story-{k}": self._chart(panel) for k, panel in enumerate(self.panels)}

    def _chart(self, panel: Panel) -> LineChart:
        epsilons = sorted({epsilon for line in panel.lines.values() for epsilon in line})
        drawn = "; ".join(
            f"{label} " + ", ".join(f"{e:g}: {self.factor * line[e].value:.3g}" for e in sorted(line))
            for label, line in panel.lines.items()
        )
        lines = tuple(_line(label, self._points(line)) for label, line in panel.lines.items())
        words = f"{self.score.title} by epsilon on {panel.dataset}. {drawn}"
        return LineChart(words, "epsilon", self.score.axis, lines, log="x", ticks=tuple(epsilons), legend=False)

    def _points(self, line: Series) -> list[list[float]]:
        found = []
        for epsilon in sorted(line):
            mean = line[epsilon]
            value, half = self.factor * mean.value, self.factor * mean.half_width
            known = mean.count >= MIN_SEEDS and not math.isnan(half)
            found.append([epsilon, value, value - half, value + half] if known else [epsilon, value])
        return found


def _line(label: str, points: list[list[float]]) -> Line:
    style = "--" if is_published(label) else ":" if family(label) == FEATURES_ALONE else "-"
    return Line(label, points, COLOURS.get(family(label), OTHER_COLOUR), style, MARKERS.get(family(label), ""))


def _counted(panels: Sequence[Panel], label: str, rival: str, epsilon: Any) -> str:
    """On how many data sets the mean of one line is above that of another; empty where nothing can be compared."""
    lines = [(panel.lines.get(label, {}), panel.lines.get(rival, {})) for panel in panels]
    pairs = [
        (mine[epsilon].value, other[epsilon].value) for mine, other in lines if epsilon in mine and epsilon in other
    ]
    if not pairs:
        return ""
    return f"{sum(mine > other for mine, other in pairs)} of {len(pairs)} data sets at ε = {epsilon:g}"


def general_story(
    records: Mapping[str, Sequence[Record]], score: Score = ACCURACY, titles: Mapping[str, str] | None = None
) -> Story | None:
    """The story of any experiments with methods, data sets and at least two finite epsilons; None where there is none.

    ``titles``: of experiments by name, for the headings.
    """
    panels: list[Panel] = []
    for name, found in records.items():
        usable = [r for r in found if {"method", "dataset", "epsilon"} <= set(r.cell) and not _is_sweep(r)]
        for dataset in axis(usable, "dataset"):
            here = [r for r in usable if r.cell["dataset"] == dataset]
            lines = lines_of(here, axis(here, "method"), score)
            if len({epsilon for line in lines.values() for epsilon in line}) > 1:
                panels.append(
                    Panel((titles or {}).get(name, name), str(dataset), dict(list(lines.items())[:MOST_LINES]))
                )
    if not panels:
        return None
    caption = (
        "Lines: means over the seeds. Bars: 95 % intervals, from 3 seeds on. Dotted: features alone, without any edge."
    )
    return Story(tuple(panels), score, caption)


def _is_sweep(record: Record) -> bool:
    return "sweep" in record.cell


def lines_of(records: Sequence[Record], methods: Sequence[str], score: Score = ACCURACY) -> dict[str, dict[Any, Mean]]:
    """The score of methods by epsilon. What reads no private edge and has no epsilon is level over all of them."""
    finite = [e for e in axis(records, "epsilon") if e != "inf"]
    found: dict[str, dict[Any, Mean]] = {}
    for method in methods:
        means = grouped([r for r in records if r.cell["method"] == method], "epsilon", measure=score.measure)
        line = {epsilon: mean for epsilon, mean in means.items() if epsilon != "inf"}
        if not line and "inf" in means and family(method) == FEATURES_ALONE:
            line = dict.fromkeys(finite, means["inf"])
        if line:
            found[method] = line
    return found
