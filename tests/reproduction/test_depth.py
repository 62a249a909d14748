"""Depth and budget on chains: the settings of a box, the interval over seeds, and the paper's values beside them."""

from __future__ import annotations

import pytest
from reproduction.depth import depth_blocks

from caribou.experiments.records import OK, Record
from caribou.experiments.report.blocks import Figure, Table
from caribou.experiments.report.summary import mean_of
from reproduction import paper

SWEEP = [{"hops": hops, "beta": beta, "alpha1": 1.0, "contraction": 0.9} for hops in (1, 10) for beta in (1.0, 10.0)]


def swept(method: str, epsilon: object, seed: int, sweep: list[dict], accuracies: list[float]) -> Record:
    cell = {"kind": "sweep", "method": method, "dataset": "chain-s", "epsilon": epsilon, "seed": seed, "sweep": sweep}
    return Record("chain-depth", cell, OK, {"test_accuracies": accuracies, "val_accuracies": accuracies})


RECORDS = {
    "chain-depth": [
        *(swept("caribou-edp", 4, s, SWEEP, [0.5 + s / 100, 0.6 + s / 100, 0.7, 0.8]) for s in range(3)),
        *(swept("gap-edp", 4, s, [{"hops": 1}, {"hops": 10}], [0.55, 0.65]) for s in range(3)),
        swept("caribou-inf", "inf", 0, SWEEP[:1], [0.9]),
    ],
}


def test_a_row_of_means_over_settings_with_the_interval_over_seeds() -> None:
    table, figure = depth_blocks("crv-eps", by="hops", of="epsilon")(RECORDS)
    assert isinstance(table, Table)
    assert table.head == ("", "K = 1", "K = 10")
    groups = {title: {row[0].text: row[1:] for row in rows} for title, rows in table.groups}
    ours, gap = groups["ε = 4"]["CARIBOU, mean over settings"], groups["ε = 4"]["GAP"]
    assert ours[0].text == mean_of([0.55, 0.56, 0.57]).percent()
    theirs = [p.accuracy for p in paper.points("depth", "chain-s") if (p.epsilon, p.settings["hops"]) == (4, 10)]
    assert len(theirs) == 5
    assert ours[1].paper == f"{sum(theirs) / 5:.1f}"
    assert (gap[1].text, gap[1].paper) == ("65.0 ± 0.0", "50.0")
    assert groups["ε = ∞"]["CARIBOU, mean over settings"][0].text == "90.0"
    assert isinstance(figure, Figure)
    drawn = [row for row in figure.data if row[0].endswith("ε = 4") and row[2] == "10"]
    assert [row[3] for row in drawn if row[1] == "caribou, one setting"] == ["70", "80"]
    assert sorted(float(row[3]) for row in drawn if row[1] == "caribou, paper") == pytest.approx(sorted(theirs))


def test_the_other_figure_has_a_panel_per_depth() -> None:
    table, figure = depth_blocks("crv-k", by="epsilon", of="hops")(RECORDS)
    assert isinstance(table, Table)
    assert [title for title, _ in table.groups] == ["K = 1", "K = 10"]
    assert table.head == ("", "ε = 4", "ε = ∞")
    assert isinstance(figure, Figure)
    assert {row[0] for row in figure.data[1:]} == {
        "Chain-S, the paper's size, K = 1",
        "Chain-S, the paper's size, K = 10",
    }
