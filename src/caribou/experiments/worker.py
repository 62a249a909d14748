"""What a process that measures cells has imported before it is forked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import caribou.models
import caribou.tuning  # noqa: F401
from caribou.experiments.measures import measure


def measure_on_one_thread(cell: Mapping[str, Any], data_dir: Path | None) -> dict[str, Any]:
    """Measure a cell with one thread, whatever the machine has."""
    torch.set_num_threads(1)
    return measure(cell, data_dir)
