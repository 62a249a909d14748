"""The authors' settings as files: complete, in step with what was published, and settings that our methods take."""

from __future__ import annotations

import pytest
from reproduction.authors import FOLDER, OURS, files
from reproduction.paper import rows_of

from caribou.experiments.grid import SCALES, read_experiment
from caribou.experiments.hyperparameters import read_settings, tuned_settings
from caribou.methods import method_info


@pytest.mark.parametrize(("path", "content"), files().items(), ids=[path.name for path in files()])
def test_a_file_is_what_is_written_from_the_published_numbers(path, content: str) -> None:
    assert path.read_text(encoding="utf-8") == content, "run: python -m reproduction.authors"


def test_every_published_cell_has_an_entry() -> None:
    names = {"mean": "authors-mean", "top_1": "authors-top"}
    rows = rows_of("settings.csv")
    for row in rows:
        name = "authors-small-degree" if row["max_degree"] in ("5", "10") else names[row["row"]]
        for dataset in OURS[row["dataset"]]:
            tuned = tuned_settings(row["method"], dataset, float(row["epsilon"]), FOLDER / f"{name}.toml")
            assert tuned.settings["hops"] == int(row["hops"])
            assert tuned.settings["contraction"] == float(row["contraction"])
            assert tuned.settings.get("degree_cap") == (int(row["max_degree"]) if "small" in name else None)
    entries = sum(len(read_settings(FOLDER / f"authors-{name}.toml")) for name in ("mean", "top", "small-degree"))
    assert entries == sum(len(OURS[row["dataset"]]) for row in rows)


def test_our_methods_take_them() -> None:
    for name in ("mean", "top", "small-degree"):
        for tuned in read_settings(FOLDER / f"authors-{name}.toml"):
            method_info(tuned.method).create(**tuned.settings)


@pytest.mark.parametrize(("name", "figure"), [("chain-depth", "depth"), ("heatmaps", "heat map")])
def test_every_point_of_a_figure_is_in_a_sweep(name: str, figure: str) -> None:
    cells = read_experiment(FOLDER / f"{name}.toml").cells(SCALES[1])
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
