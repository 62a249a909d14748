"""Figures that the paper's evaluation alone has: boxes over settings, heat maps and bars, with the paper's beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from caribou.experiments.report.blocks import PAPER, Figure
from caribou.experiments.report.figures import Series, figure, mean_columns, style
from caribou.experiments.report.summary import Mean
from caribou.pages.palette import COLOURS, OTHER_COLOUR, family
from caribou.pages.pictures import GROUND

MIN_SPAN = 5
"""A scale of colours spans at least this, so that chance does not look like an effect. [percentage points]"""
OURS, THEIRS = "#fed7aa", "#e5e7eb"
"""Boxes of ours and of the paper's."""

HATCHES = ("", "///", "...", "xxx", "---")
"""Bars of one family differ by these."""


@dataclass(frozen=True)
class Boxes:
    """One panel, by the value on its axis; shares.

    settings: CARIBOU, a value per setting. mean: over the settings, with its interval over seeds. gap: a line.
    paper_settings, paper_gap: what the paper has.
    """

    settings: Mapping[Any, Sequence[float]] = field(default_factory=dict)
    mean: Series = field(default_factory=dict)
    gap: Series = field(default_factory=dict)
    paper_settings: Mapping[Any, Sequence[float]] = field(default_factory=dict)
    paper_gap: Series = field(default_factory=dict)

    @property
    def places(self) -> dict[Any, int]:
        """Where each value stands on the axis."""
        found = {*self.settings, *self.gap, *self.paper_settings, *self.paper_gap}
        return {value: k for k, value in enumerate(sorted(found))}

    @property
    def shares(self) -> list[float]:
        """Every value of the panel."""
        spread = [v for values in (*self.settings.values(), *self.paper_settings.values()) for v in values]
        return [*spread, *(mean.value for line in (self.gap, self.paper_gap) for mean in line.values())]


def number(value: float) -> str:
    """A value on an axis.

    >>> number(4), number(float("inf"))
    ('4', '∞')
    """
    return "∞" if value == math.inf else f"{value:g}"


def boxes(name: str, title: str, panels: Mapping[str, Boxes], *, x: str, guessing: float, caption: str = "") -> Figure:
    """One panel per key, all on one scale: boxes over settings, GAP as a line, the paper's beside ours, and what guessing has."""
    shares = [guessing, *(share for panel in panels.values() for share in panel.shares)]
    low, high = 100 * min(shares) - 1, 100 * max(shares) + 1

    def draw(axes: Sequence[Any]) -> None:
        for ax, (title_of_panel, panel) in zip(axes, panels.items(), strict=False):
            places = panel.places
            _spread(ax, panel.paper_settings, places, 0.2, THEIRS, COLOURS["mlp"])
            _spread(ax, panel.settings, places, -0.2, OURS, COLOURS["caribou"])
            xs = sorted(panel.mean)
            widths = [0.0 if math.isnan(panel.mean[v].half_width) else 100 * panel.mean[v].half_width for v in xs]
            ax.errorbar(
                [places[v] - 0.2 for v in xs], [100 * panel.mean[v].value for v in xs], yerr=widths, linestyle="",
                marker="D", markersize=3, color=COLOURS["caribou"], linewidth=1,
            )  # fmt: skip
            for label, line in (("gap", panel.gap), (f"gap, {PAPER}", panel.paper_gap)):
                if line:
                    at = sorted(line)
                    stroke = "--" if line is panel.paper_gap else "-"
                    ys = [100 * line[v].value for v in at]
                    ax.plot([places[v] for v in at], ys, label=label, linestyle=stroke, **style(label))
            ax.plot([], [], color=OURS, linewidth=6, label="caribou, a value per setting; mean and 95 % interval")
            if panel.paper_settings:
                ax.plot([], [], color=THEIRS, linewidth=6, label=f"caribou, {PAPER}")
            ax.axhline(100 * guessing, linestyle=":", linewidth=1.2, color=OTHER_COLOUR, label="guessing")
            ax.set_ylim(low, high)
            ax.set_xticks(list(places.values()), [number(v) for v in places])
            ax.set_title(title_of_panel)
            ax.set_xlabel(x)
        axes[0].set_ylabel("test accuracy, %")

    words = []
    for title_of_panel, panel in panels.items():
        medians = ", ".join(f"{x} {number(v)}: {100 * median(s):.0f}" for v, s in sorted(panel.settings.items()))
        line = ", ".join(f"{number(v)}: {100 * m.value:.0f}" for v, m in sorted(panel.gap.items()))
        words.append(f"{title_of_panel}: medians of caribou by {medians or 'not run'}; gap {line or 'not run'}")
    return figure(name, title, len(panels), draw, f"{title}. {'; '.join(words)}", _box_rows(panels, x), caption)


def _spread(
    ax: Any, spread: Mapping[Any, Sequence[float]], places: Mapping[Any, int], shift: float, face: str, edge: str
) -> None:
    values = sorted(spread)
    if not values:
        return
    ax.boxplot(
        [[100 * v for v in spread[value]] for value in values],
        positions=[places[value] + shift for value in values],
        widths=0.34,
        patch_artist=True,
        boxprops={"facecolor": face, "edgecolor": edge, "linewidth": 0.7},
        whiskerprops={"linewidth": 0.7},
        capprops={"linewidth": 0.7},
        medianprops={"color": edge},
        flierprops={"markersize": 2},
        manage_ticks=False,
    )


def _box_rows(panels: Mapping[str, Boxes], x: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = [("panel", "line", x, "test accuracy, %", "half width of the 95 % interval", "seeds")]
    for title, panel in panels.items():
        for label, spread in (("caribou, one setting", panel.settings), (f"caribou, {PAPER}", panel.paper_settings)):
            rows += [(title, label, number(v), f"{100 * s:.4g}", "", "") for v in sorted(spread) for s in spread[v]]
        for label, line in (
            ("caribou, mean over settings", panel.mean), ("gap", panel.gap), (f"gap, {PAPER}", panel.paper_gap),
        ):  # fmt: skip
            rows += [(title, label, number(v), *mean_columns(line[v], 100)) for v in sorted(line)]
    return rows


# -- heat maps -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Map:
    """One panel: values of a parameter (rows) by epsilon (columns), with what stands in each place."""

    parameter: str
    dataset: str
    rows: Sequence[Any]
    columns: Sequence[Any]
    means: Mapping[Any, Mean]
    scale: str
    """Panels of one scale share their colours."""


def heat_maps(name: str, title: str, maps: Sequence[Map], caption: str = "") -> Figure:
    """One panel per map, two in a row: ours, and the paper's beside it."""
    scales: dict[str, list[float]] = {}
    for panel in maps:
        scales.setdefault(panel.scale, []).extend(100 * mean.value for mean in panel.means.values())

    def draw(axes: Sequence[Any]) -> None:
        for ax, panel in zip(axes, maps, strict=False):
            rows, columns, means = panel.rows, panel.columns, panel.means
            grid = [[100 * means[r, c].value if (r, c) in means else float("nan") for c in columns] for r in rows]
            low = min(scales[panel.scale])
            high = max(*scales[panel.scale], low + MIN_SPAN)
            image = ax.imshow(grid, aspect="auto", vmin=low, vmax=high)
            ax.figure.colorbar(image, ax=ax)
            for i, row in enumerate(grid):
                for j, value in enumerate(row):
                    if not math.isnan(value):
                        colour = "black" if value > (low + high) / 2 else "white"
                        ax.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=7, color=colour)
            ax.set_xticks(range(len(columns)), [f"{c:g}" for c in columns])
            ax.set_yticks(range(len(rows)), [f"{r:g}" for r in rows])
            ax.set_xlabel("epsilon")
            ax.set_ylabel(panel.parameter)
            ax.set_title(f"{panel.parameter} on {panel.dataset}")
            ax.grid(visible=False)

    words = "; ".join(
        f"{panel.parameter} on {panel.dataset}: "
        + ", ".join(f"{r:g} at epsilon {c:g}: {100 * m.value:.1f}" for (r, c), m in panel.means.items())
        for panel in maps
    )
    data: list[tuple[Any, ...]] = [
        ("data set", "parameter", "value", "epsilon", "test accuracy, %", "half width of the 95 % interval", "seeds")
    ]
    for panel in maps:
        for (r, c), mean in panel.means.items():
            data.append((panel.dataset, panel.parameter, f"{r:g}", f"{c:g}", *mean_columns(mean, 100)))
    alternative = f"{title}, test accuracy in %. {words}"
    return figure(name, title, len(maps), draw, alternative, data, caption, legend=False, across=2)


# -- bars ----------------------------------------------------------------------------------------------------------


def bars(name: str, title: str, panels: Mapping[str, Mapping[str, Mapping[str, float]]], caption: str = "") -> Figure:
    """One panel per measure, a group of bars per data set, a bar per method; logarithmic."""

    def draw(axes: Sequence[Any]) -> None:
        for ax, (panel, methods) in zip(axes, panels.items(), strict=False):
            datasets = list(dict.fromkeys(dataset for values in methods.values() for dataset in values))
            width = 0.8 / max(1, len(methods))
            families: dict[str, int] = {}
            for k, (method, values) in enumerate(methods.items()):
                places = [datasets.index(dataset) + (k + 0.5) * width - 0.4 for dataset in values]
                hatch = HATCHES[families.setdefault(family(method), 0) % len(HATCHES)]
                families[family(method)] += 1
                colour = style(method)["color"]
                ax.bar(places, list(values.values()), width, label=method, color=colour, hatch=hatch, edgecolor=GROUND)
            ax.set_yscale("log")
            ax.set_xticks(range(len(datasets)), datasets, rotation=60, ha="right", fontsize=7)
            ax.set_title(panel)
            ax.grid(visible=False, axis="x")

    words = "; ".join(
        f"{panel}: " + "; ".join(f"{m} " + ", ".join(f"{d} {v:.3g}" for d, v in values.items()) for m, values in ms.items())
        for panel, ms in panels.items()
    )  # fmt: skip
    data: list[tuple[Any, ...]] = [("panel", "method", "data set", "value")]
    for panel, methods in panels.items():
        data += [(panel, method, d, f"{v:.4g}") for method, values in methods.items() for d, v in values.items()]
    return figure(name, title, len(panels), draw, f"{title}. {words}", data, caption, across=2)
