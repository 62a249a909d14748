"""What is measured in a cell, by kind. Each measure is a function of the cell, a folder of data sets and that of the experiment.

Data sets of experiments count as public and nothing is released, so the noise comes from a seed that is derived from the cell:
a cell can be measured again, with the same result. (A certificate of such a fit is void, and says so.)
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from caribou.errors import InputError
from caribou.experiments import reproduction
from caribou.experiments.records import cell_key
from caribou.machine.memory import peak_mb

Cell = Mapping[str, Any]
Measure = Callable[[Cell, Path | None, Path], dict[str, Any]]


def measure(cell: Cell, data_dir: Path | None, folder: Path = Path()) -> dict[str, Any]:
    """Measure one cell in this process. ``folder``: of the experiment, where files of the user are."""
    kind, known = str(cell.get("kind")), KINDS
    if (paper := reproduction.find()) is not None:
        known = {**known, **paper.module("measures").KINDS}
    if kind not in known:
        raise InputError(f"kind must be one of {', '.join(known)}, got {kind!r}")
    return known[kind](cell, data_dir, folder)


def fit_and_score(cell: Cell, data_dir: Path | None, folder: Path = Path()) -> dict[str, Any]:
    """Fit a method; accuracies, metrics of the test nodes, epsilon spent, seconds and memory of the fit."""
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.metrics import METRICS
    from caribou.model.estimator import Model, accuracy, metrics_of
    from caribou.privacy.documents import json_number

    graph = graph_of(cell, data_dir, folder)
    model = Model(str(cell["method"]), budget_of(cell), seed=int(cell["seed"]), **settings_of(cell))
    cost = Meter()
    model.fit(graph, noise=NoiseSource.seeded(noise_seed(cell)))
    spent = cost.read()
    probabilities = model.predict_proba()
    test = metrics_of(probabilities, graph, "test")
    return {
        "test_accuracy": json_number(accuracy(probabilities, graph, "test")),
        "val_accuracy": json_number(accuracy(probabilities, graph, "val")),
        "test_metrics": {name: json_number(test.value(name)) for name in METRICS},
        "epsilon_spent": json_number(model.certificate.epsilon_spent),
        "settings": dict(model.settings),
        "searched": cell.get("chosen") is True and _chosen(cell).tried > 0,
        **spent,
    }


def graph_of(cell: Cell, data_dir: Path | None, folder: Path = Path()) -> Any:
    """The graph that a cell names, split by its seed. A file of the user lies where the settings do, beside the experiment."""
    from caribou.datasets import load
    from caribou.experiments.own_data import is_own, read_own

    name, seed = str(cell["dataset"]), int(cell["seed"])
    if not is_own(name):
        return load(name, data_dir=data_dir, seed=seed)
    return read_own(name, folder, seed=seed, unit=budget_of(cell).unit)


PAPER_DELTA = "paper"
"""As ``delta`` of a cell: the constant that the paper uses for the cell's public data set."""


def budget_of(cell: Cell) -> Any:
    """The budget that a cell names: epsilon (a number or "inf"), delta, and the unit of its method or its own."""
    from caribou.datasets import published_delta
    from caribou.methods import method_info
    from caribou.privacy.budget import Budget

    unit = method_info(str(cell["method"])).unit if "method" in cell else cell.get("unit", "edge")
    delta = cell.get("delta")
    if delta == PAPER_DELTA:
        delta = published_delta(str(cell["dataset"]))
    return Budget(math.inf if cell["epsilon"] == "inf" else cell["epsilon"], delta, unit)


def settings_of(cell: Cell) -> dict[str, Any]:
    """The settings of a cell: what the paper's evaluation chose for it, if it says so, then its own."""
    own = dict(cell.get("settings", {}))
    return {**_chosen(cell).settings, **own} if cell.get("chosen") else own


def _chosen(cell: Cell) -> Any:
    return reproduction.require().module("tuned").settings_of(cell, budget_of(cell).epsilon)


def noise_seed(cell: Cell) -> int:
    """A seed for the noise of a cell, different for different cells."""
    digest = hashlib.sha256(b"caribou experiment noise|" + cell_key(cell).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 12  # seeds have at most 53 bits


class Meter:
    """Wall and CPU seconds of this process since the meter was made, and its largest memory before and by now."""

    def __init__(self) -> None:
        self._before, self._wall, self._cpu = peak_mb(), time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """As a record holds them, without memory where the system does not tell it. [s, MB]"""
        now = peak_mb()
        memory = {} if now is None else {"peak_mb": round(now, 1), "peak_mb_before": round(self._before or 0.0, 1)}
        return {
            "seconds": round(time.perf_counter() - self._wall, 3),
            "cpu_seconds": round(time.process_time() - self._cpu, 3),
            **memory,
        }


KINDS: Mapping[str, Measure] = {"train": fit_and_score}
"""What any experiment can measure. The paper's evaluation adds kinds of its own (``reproduction/measures.py``)."""
