"""The authors' settings: complete, in step with what was published, and settings that our methods take."""

from __future__ import annotations

import pytest
from reproduction.authors import OURS, TABLES, settings
from reproduction.paper import rows_of

from caribou.experiments.grid import SCALES, read_experiment
from caribou.experiments.reproduction import require
from caribou.methods import method_info


def test_every_published_cell_has_an_entry() -> None:
    names = {"mean": "authors-mean", "top_1": "authors-top"}
    rows = rows_of("settings.csv")
    for row in rows:
        name = "authors-small-degree" if row["max_degree"] in ("5", "10") else names[row["row"]]
        for dataset in OURS[row["dataset"]]:
            found = settings(name)[row["method"], dataset, float(row["epsilon"])]
            assert found["hops"] == int(row["hops"])
            assert found["contraction"] == float(row["contraction"])
            assert found.get("degree_cap") == (int(row["max_degree"]) if "small" in name else None)
            method_info(row["method"]).create(**found)
    assert sum(len(settings(name)) for name in TABLES) == sum(len(OURS[row["dataset"]]) for row in rows)


@pytest.mark.parametrize(("name", "figure"), [("chain-depth", "depth"), ("heatmaps", "heat map")])
def test_every_point_of_a_figure_is_in_a_sweep(name: str, figure: str) -> None:
    cells = read_experiment(require().experiments / f"{name}.toml").cells(SCALES[1])
    swept = {
        (cell["method"], cell["dataset"], str(cell["epsilon"]), *settings.values())
        for cell in cells
        for settings in cell["sweep"]
    }
    rows = [row for row in rows_of("curves.csv") if row["figure"].startswith(figure)]
    assert rows
    for row in rows:
        method = f"{row['method']}-{'inf' if row['epsilon'] == 'inf' else 'edp'}"
        layer = (int(row["hops"]), *(float(row[n]) for n in ("beta", "alpha1", "contraction") if row[n]))
        for dataset in OURS[row["dataset"]]:
            assert (method, dataset, row["epsilon"], *layer) in swept
