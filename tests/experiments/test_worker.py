"""A process that measures cells: one thread, encoders from the folder, and their cost charged to whoever uses them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from caribou.errors import InputError
from caribou.experiments.encoders import Charge
from caribou.experiments.worker import charged, measure_on_one_thread

CELL = {"kind": "train", "method": "caribou-inf", "dataset": "csbm:nodes=80", "epsilon": "inf", "seed": 0}


@pytest.mark.usefixtures("quick_encoder")
def test_a_second_cell_takes_the_encoder_of_the_first_and_is_charged_for_it(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    try:
        first, second = (measure_on_one_thread(CELL, None, tmp_path) for _ in range(2))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(1)
    (kept,) = tmp_path.iterdir()
    assert kept.suffix == ".npz"
    assert "shared_cpu_seconds" not in first
    assert second["shared_cpu_seconds"] > 0
    assert second["cpu_seconds"] >= second["shared_cpu_seconds"]
    assert second["test_accuracy"] == first["test_accuracy"]


def test_what_is_charged_is_added_to_time_and_is_at_least_the_peak_of_memory() -> None:
    measures = {"seconds": 1.0, "cpu_seconds": 0.5, "peak_mb": 400.0, "auc": 0.5}
    found = charged(measures, Charge(2.0, 1.5, 300.04))
    assert found == {"seconds": 3.0, "cpu_seconds": 2.0, "peak_mb": 400.0, "auc": 0.5, "shared_cpu_seconds": 1.5}
    assert charged(measures, Charge(2.0, 1.5, 450.04))["peak_mb"] == 450.0
    assert charged(measures, Charge()) is measures
    assert charged({"noise": 1.0}, Charge(2.0, 1.5, 300.0)) == {"noise": 1.0}


def test_a_cell_that_makes_no_sense_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="kind must be one of"):
        measure_on_one_thread({"kind": "nonsense"}, None, tmp_path)
