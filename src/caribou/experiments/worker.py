"""A process that measures one cell. What it imports here is there before it is forked.

Encoders and priors of a run's cells are fitted once: at edge level every epsilon starts from the same public fit. A cell that
uses one again is charged what fitting it took when it was fitted, so that time and memory are those of the whole fit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch

import caribou.model.estimator
import caribou.model.tuning  # noqa: F401
from caribou.experiments.measures import measure
from caribou.graph import Graph
from caribou.machine.files import atomic_file
from caribou.machine.memory import peak_mb
from caribou.models.encoder import kept_fits


@dataclass
class Charge:
    """What the fits that were used again had cost: seconds, CPU seconds, and the peak memory of the process in MB."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0


@dataclass
class SharedFits:
    """Fits as files of a folder that the processes of a run share, by what they were fitted on (`kept_fits`)."""

    folder: Path
    charge: Charge = field(default_factory=Charge)
    _own: dict[str, Any] = field(default_factory=dict)
    _began: tuple[float, float] = (0.0, 0.0)

    def _file(self, key: tuple[Any, ...]) -> Path:
        return self.folder / f"{fit_name(key)}.joblib"

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        self._began = (time.perf_counter(), time.process_time())  # if it is not there, it is fitted from now on
        return fit_name(key) in self._own or self._file(key).exists()

    def __getitem__(self, key: tuple[Any, ...]) -> Any:
        name = fit_name(key)
        if name not in self._own:
            cost, self._own[name] = joblib.load(self._file(key))
            self.charge.seconds += cost.seconds
            self.charge.cpu_seconds += cost.cpu_seconds
            self.charge.peak_mb = max(self.charge.peak_mb, cost.peak_mb)
        return self._own[name]

    def __setitem__(self, key: tuple[Any, ...], value: Any) -> None:
        wall, cpu = self._began
        cost = Charge(time.perf_counter() - wall, time.process_time() - cpu, peak_mb() or 0.0)
        self._own[fit_name(key)] = value
        # A run may outlive its temporary folder, which systems and people clean up: then it is fitted again.
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(self._file(key)) as temporary:  # another cell sees the whole file or none
            joblib.dump((cost, value), temporary)


@lru_cache(maxsize=4)
def fit_name(key: tuple[Any, ...]) -> str:
    """A digest of all that an encoder or a prior is fitted on: features, labels, split, settings. No edge is read."""
    graph: Graph = key[0]
    split, labels = graph.for_learning(public=True)
    read = (graph.features, np.array(labels), graph.num_classes, split.train, split.val, split.test, repr(key[1:]))
    return str(joblib.hash(read))


def measure_on_one_thread(
    cell: Mapping[str, Any], data_dir: Path | None, shared: Path, folder: Path = Path()
) -> dict[str, Any]:
    """Measure a cell with one thread, whatever the machine has.

    ``shared``: the folder of fits that cells share. ``folder``: of the experiment, where files of the user are.
    """
    torch.set_num_threads(1)
    fits = SharedFits(shared)
    with kept_fits(fits):
        return charged(measure(cell, data_dir, folder), fits.charge)


def charged(measures: dict[str, Any], charge: Charge) -> dict[str, Any]:
    """The measures with what the fits of other cells had cost; ``shared_cpu_seconds`` of the CPU seconds are theirs.

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
