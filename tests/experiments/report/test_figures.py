"""Figures: no two lines look alike, published ones look published, and what was drawn is in the data."""

from __future__ import annotations

import csv
import math

from caribou.experiments.report.figures import curves, styles
from caribou.experiments.report.summary import Mean


def test_lines_of_one_figure_differ() -> None:
    labels = [*(f"gap-edp, ε = {e}" for e in (1, 2, 4, 8, 16, 32)), "gap-inf"]
    for group in (labels, ["linear", "caribou, exact", "caribou, the paper's formula"]):
        looks = styles(group)
        assert len({(look["color"], look["marker"], look["linestyle"]) for look in looks.values()}) == len(group)


def test_the_data_of_curves_are_what_is_drawn() -> None:
    lines = {
        "gap-edp": {1: Mean(0.5, 0.02, 3), 4: Mean(0.625, math.nan, 1)},
        "gap-edp, paper": {1: Mean(0.75, math.nan, 0)},
    }
    figure = curves("f", "F", {"Cora": lines}, x="epsilon", lines={"Cora": {"mlp": 0.4}})
    rows = list(csv.reader(figure.to_csv().splitlines()))
    assert rows[0] == ["panel", "line", "epsilon", "test accuracy, %", "half width of the 95 % interval", "seeds"]
    assert rows[1:] == [
        ["Cora", "gap-edp", "1", "50", "2", "3"],
        ["Cora", "gap-edp", "4", "62.5", "", "1"],
        ["Cora", "gap-edp, paper", "1", "75", "", ""],
        ["Cora", "mlp", "", "40", "", ""],
    ]
