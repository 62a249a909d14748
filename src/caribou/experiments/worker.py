"""What a process that measures cells has imported before it is forked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import caribou.model.estimator
import caribou.tuning  # noqa: F401
from caribou.experiments.encoders import ENCODERS, PRIORS, Charge, FitFolder
from caribou.experiments.measures import measure
from caribou.models.encoder import kept_encoders


def measure_on_one_thread(
    cell: Mapping[str, Any], data_dir: Path | None, encoders: Path, settings_file: Path | None = None
) -> dict[str, Any]:
    """Measure a cell with one thread, whatever the machine has; ``encoders``: the folder of those that cells have fitted."""
    torch.set_num_threads(1)
    charge = Charge()
    with kept_encoders(FitFolder(encoders, ENCODERS, charge), FitFolder(encoders, PRIORS, charge)):
        return charged(measure(cell, data_dir, settings_file), charge)


def charged(measures: dict[str, Any], charge: Charge) -> dict[str, Any]:
    """The measures with what the encoders of other cells had cost; ``shared_cpu_seconds`` of the CPU seconds are theirs.

    >>> charged({"seconds": 1.0, "cpu_seconds": 1.0, "peak_mb": 200.0}, Charge(4.0, 3.5, 300.0))
    {'seconds': 5.0, 'cpu_seconds': 4.5, 'peak_mb': 300.0, 'shared_cpu_seconds': 3.5}
    """
    if not charge.cpu_seconds or "cpu_seconds" not in measures:
        return measures
    memory = {"peak_mb": max(measures["peak_mb"], round(charge.peak_mb, 1))} if "peak_mb" in measures else {}
    return {
        **measures,
        "seconds": round(measures["seconds"] + charge.seconds, 3),
        "cpu_seconds": round(measures["cpu_seconds"] + charge.cpu_seconds, 3),
        **memory,
        "shared_cpu_seconds": round(charge.cpu_seconds, 3),
    }
