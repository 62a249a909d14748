"""Experiments are data: what a file expands to, and what is wrong with a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from caribou.errors import InputError
from caribou.experiments.grid import filtered, read_experiment

GRID = """
title = "A table"
kind = "train"
[[grid]]
method = ["votes-edp", "gap-edp"]
dataset = ["cora", "photo"]
epsilon = [1, "inf"]
seeds = 2
set.hops = [1, 2]
set.hidden = [[16]]
[[grid]]
method = "mlp"
dataset = "cora"
epsilon = "inf"
seeds = [7]
chosen = true
[scale.smoke]
dataset = ["chain-s"]
seeds = 1
set.hops = [3]
set.other = [1]
[scale.full]
grids = [1]
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "table.toml"
    file.write_text(text)
    return file


def test_a_grid_is_the_product_of_its_axes(tmp_path: Path) -> None:
    experiment = read_experiment(written(tmp_path, GRID))
    cells = experiment.cells("laptop")
    assert len(cells) == 2 * 2 * 2 * 2 * 2 + 1
    assert cells[0] == {
        "kind": "train", "method": "votes-edp", "dataset": "cora", "epsilon": 1, "seed": 0,
        "settings": {"hops": 1, "hidden": [16]},
    }  # fmt: skip
    assert cells[-1] == {
        "kind": "train", "method": "mlp", "dataset": "cora", "epsilon": "inf", "seed": 7, "chosen": True,
    }  # fmt: skip


def test_scales_replace_axes_and_choose_grids(tmp_path: Path) -> None:
    experiment = read_experiment(written(tmp_path, GRID))
    smoke = experiment.cells("smoke")
    assert {cell["dataset"] for cell in smoke} == {"chain-s"}
    assert {cell["seed"] for cell in smoke} == {0}
    assert [cell.get("settings") for cell in smoke] == [{"hops": 3, "hidden": [16]}] * 4 + [None]
    assert [cell["method"] for cell in experiment.cells("full")] == ["mlp"]
    with pytest.raises(InputError, match="scale must be one of smoke, laptop, full, got 'huge'"):
        experiment.cells("huge")


def test_filters(tmp_path: Path) -> None:
    cells = read_experiment(written(tmp_path, GRID)).cells("laptop")
    assert len(filtered(cells, ["dataset=cora", "epsilon=inf", "hops=2"])) == 4
    assert len(filtered(cells, ["method=mlp", "method=gap-edp"])) == 17
    with pytest.raises(InputError, match=r"filter: dataset must be one of cora, .*got 'nothing'"):
        filtered(cells, ["dataset=cora", "dataset=nothing"])
    with pytest.raises(InputError, match="filter must be name=value"):
        filtered(cells, ["cora"])
    with pytest.raises(InputError, match="filter must name an axis"):
        filtered(cells, ["colour=red"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('title = "A table"', ""), "title must be text, got None"),
        (("seeds = 2", "seeds = 0"), "seeds must be a number >= 1"),
        (("grids = [1]", "grids = [2]"), r"grids must number the grids 0 \.\. 1, got 2"),
        (('title = "A table"', "title = "), "must be TOML"),
    ],
)
def test_bad_files(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_experiment(written(tmp_path, GRID.replace(*change))).cells("laptop")
