"""Figures: no two lines look alike."""

from __future__ import annotations

from caribou.experiments.report.figures import styles


def test_lines_of_one_figure_differ() -> None:
    labels = [*(f"gap-edp, ε = {e}" for e in (1, 2, 4, 8, 16, 32)), "gap-inf"]
    for group in (labels, ["linear", "caribou, exact", "caribou, the paper's formula"]):
        looks = styles(group)
        assert len({(look["color"], look["marker"], look["linestyle"]) for look in looks.values()}) == len(group)
