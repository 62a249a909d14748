"""Figures that the paper's evaluation alone has: boxes over settings, and heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from caribou.experiments.report.blocks import Figure
from caribou.experiments.report.figures import COLOURS, Series, figure, style
from caribou.experiments.report.summary import Mean

MIN_SPAN = 5
"""A scale of colours spans at least this, so that chance does not look like an effect. [percentage points]"""


def boxes(
    name: str,
    title: str,
    panels: Mapping[str, tuple[Mapping[Any, Sequence[float]], Series]],
    *,
    x: str,
    guessing: float,
    caption: str = "",
) -> Figure:
    """One panel per key, all on one scale: boxes over settings (in share), a line of means beside them, and what guessing has."""
    shares = [
        v for spread, line in panels.values() for s in (*spread.values(), [m.value for m in line.values()]) for v in s
    ]
    low, high = 100 * min([guessing, *shares]) - 1, 100 * max([guessing, *shares]) + 1

    def draw(axes: Sequence[Any]) -> None:
        for ax, (panel, (spread, line)) in zip(axes, panels.items(), strict=False):
            places = {value: k for k, value in enumerate(sorted({*spread, *line}))}
            values = sorted(spread)
            ax.boxplot(
                [[100 * v for v in spread[value]] for value in values],
                positions=[places[value] for value in values],
                widths=0.55,
                patch_artist=True,
                boxprops={"facecolor": "#fed7aa", "edgecolor": COLOURS["caribou"]},
                medianprops={"color": COLOURS["caribou"]},
                flierprops={"markersize": 2},
                manage_ticks=False,
            )
            if line:
                xs = sorted(line)
                ax.plot([places[v] for v in xs], [100 * line[v].value for v in xs], label="gap", **style("gap"))
            ax.plot([], [], color=COLOURS["caribou"], linewidth=6, alpha=0.5, label="caribou, over settings")
            ax.axhline(100 * guessing, linestyle=":", linewidth=1.2, color="#374151", label="guessing")
            ax.set_ylim(low, high)
            ax.set_xticks(list(places.values()), [f"{v:g}" for v in places])
            ax.set_title(panel, fontsize=10)
            ax.set_xlabel(x)
            ax.grid(alpha=0.25)
        axes[0].set_ylabel("test accuracy, %")

    words = []
    for panel, (spread, line) in panels.items():
        medians = ", ".join(f"{x} {v:g}: {100 * sorted(s)[len(s) // 2]:.0f}" for v, s in sorted(spread.items()))
        beside = ", ".join(f"{v:g}: {100 * m.value:.0f}" for v, m in sorted(line.items()))
        words.append(f"{panel}: medians of caribou by {medians}; gap {beside or 'not run'}")
    return figure(name, title, len(panels), draw, f"{title}. {'; '.join(words)}", caption)


def heat_maps(
    name: str,
    title: str,
    panels: Mapping[tuple[str, str], tuple[Sequence[Any], Sequence[Any], Mapping[Any, Mean]]],
    caption: str = "",
) -> Figure:
    """One panel per (parameter, data set): rows, columns and means by (row, column). A data set has one scale of colours."""
    scales: dict[str, list[float]] = {}
    for (_, dataset), (_, _, means) in panels.items():
        scales.setdefault(dataset, []).extend(100 * mean.value for mean in means.values())

    def draw(axes: Sequence[Any]) -> None:
        for ax, ((parameter, dataset), (rows, columns, means)) in zip(axes, panels.items(), strict=False):
            grid = [[100 * means[r, c].value if (r, c) in means else float("nan") for c in columns] for r in rows]
            low = min(scales[dataset])
            high = max(*scales[dataset], low + MIN_SPAN)
            image = ax.imshow(grid, aspect="auto", cmap="viridis", vmin=low, vmax=high)
            ax.figure.colorbar(image, ax=ax)
            for i, row in enumerate(grid):
                for j, value in enumerate(row):
                    colour = "black" if value > (low + high) / 2 else "white"
                    ax.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=7, color=colour)
            ax.set_xticks(range(len(columns)), [f"{c:g}" for c in columns])
            ax.set_yticks(range(len(rows)), [f"{r:g}" for r in rows])
            ax.set_xlabel("epsilon")
            ax.set_ylabel(parameter)
            ax.set_title(f"{parameter} on {dataset}", fontsize=10)

    words = "; ".join(
        f"{parameter} on {dataset}: "
        + ", ".join(f"{r:g} at epsilon {c:g}: {100 * m.value:.1f}" for (r, c), m in means.items())
        for (parameter, dataset), (_, _, means) in panels.items()
    )
    return figure(name, title, len(panels), draw, f"{title}, test accuracy in %. {words}", caption, legend=False)
