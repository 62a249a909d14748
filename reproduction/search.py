"""Hyper-parameter search on public benchmarks: every setting of a declared space, on validation nodes that its fit never saw.

For each seed the validation nodes are halved at random, by a public seed. One half stays with the method, which may stop early or
fit a head on it. The other half becomes test nodes for the fit and is scored after it. Labels of test nodes are removed before
anything is fitted, so no selection can depend on them. Every method has a space of the same size and the same seeds.

Nothing here is private and nothing is accounted for: on your own graph use `caribou.model.tuning`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from caribou import __version__
from caribou.errors import CaribouError, InputError
from caribou.experiments.grid import read_toml
from caribou.experiments.records import append_line, archive_of, read_lines
from caribou.graph import Graph, Split
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import fit, method_info
from caribou.metrics import Metrics
from caribou.model.tuning import Space, combinations
from caribou.privacy.budget import Budget
from caribou.privacy.documents import json_number
from caribou.randomness import Streams
from reproduction.pack import read_archive
from reproduction.tuned import TunedSettings

SETTINGS = "settings"
"""The one key of a space that lists its settings."""


@dataclass(frozen=True)
class Trial:
    """One fit of one setting. ``accuracy``: the ``metric`` on held-out validation nodes; None if the method refused (``error``).

    ``cpu_seconds`` leaves out an encoder that was kept from an earlier trial.
    """

    method: str
    dataset: str
    epsilon: float
    settings: Mapping[str, Any]
    seed: int
    accuracy: float | None
    cpu_seconds: float
    version: str = __version__
    error: str = ""
    metric: str = "accuracy"

    @property
    def key(self) -> tuple[str, str, float, str, int, str, str]:
        """A trial with the same key need not be run again."""
        settings = json.dumps(self.settings, sort_keys=True)
        return self.method, self.dataset, self.epsilon, settings, self.seed, self.version, self.metric

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self) | {"epsilon": json_number(self.epsilon)})


@dataclass(frozen=True)
class Study:
    """A hyper-parameter search: a method on a data set at an epsilon, every setting tried with these seeds, by a metric."""

    method: str
    dataset: str
    epsilon: float
    seeds: tuple[int, ...]
    metric: str = "accuracy"

    @property
    def budget(self) -> Budget:
        """Of one trial."""
        return Budget(self.epsilon, None, method_info(self.method).unit)


# -- spaces --------------------------------------------------------------------------------------------------------


def read_spaces(folder: str | os.PathLike[str]) -> dict[str, Space]:
    """The search space of every method, ``<method>.toml`` in ``folder``; all must have the same number of settings."""
    files = sorted(Path(folder).glob("*.toml"))
    if not files:
        state = "which has none" if Path(folder).is_dir() else "which does not exist"
        raise InputError(
            f"spaces must be a folder of search spaces, <method>.toml, got {str(Path(folder).absolute())!r}, {state}"
        )
    spaces: dict[str, Space] = {file.stem: read_toml(file, "space") for file in files}
    sizes = {name: len(settings_of(name, space)) for name, space in spaces.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise InputError(f"spaces must all have the same number of settings, got {listed}")
    return spaces


def settings_of(name: str, space: Space) -> list[dict[str, Any]]:
    """All settings of a space, the defaults first; the defaults must be among them.

    A space is the product of its lists, or a list of ``settings`` where a product would be too large.

    >>> settings_of("gap-edp", {"settings": [{"hops": 2}, {}]})
    [{}, {'hops': 2}]
    """
    info = method_info(name)
    listed = _listed(space[SETTINGS]) if SETTINGS in space else combinations(name, space, {})
    is_default = [info.create(**settings) == info.create() for settings in listed]
    if sum(is_default) != 1:
        raise InputError(f"the space of {name} must hold the defaults once, got {sum(is_default)} times")
    first = is_default.index(True)
    return [listed[first], *listed[:first], *listed[first + 1 :]]


def _listed(settings: Any) -> list[dict[str, Any]]:
    if not isinstance(settings, list | tuple) or not all(isinstance(one, Mapping) for one in settings):
        raise InputError(f"settings of a space must be a list of tables, got {settings!r}")
    return [dict(one) for one in settings]


# -- trials --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A graph for fits, and the nodes to score with their labels, which that graph does not have."""

    graph: Graph
    scored: np.ndarray
    truth: np.ndarray


def held_out(graph: Graph, seed: int) -> HeldOut:
    """Half of the validation nodes are to be scored, and are among the test nodes for the fits.

    >>> from caribou.datasets import load
    >>> graph = load("csbm:nodes=100", seed=0)
    >>> half = held_out(graph, seed=0)
    >>> graph.split.sizes, half.graph.split.sizes, len(half.scored)
    ((70, 10, 20), (70, 5, 25), 5)
    """
    split, labels = graph.for_learning()
    order = Streams(seed).generator("held-out validation nodes").permutation(split.val)
    scored = np.sort(order[: (len(order) + 1) // 2])
    test = np.sort(np.concatenate([split.test, scored]))
    hidden = np.array(labels)
    hidden[test] = -1
    kept = Split(split.train, np.setdiff1d(split.val, scored), test)
    scored = scored[labels[scored] >= 0]
    return HeldOut(replace(graph, labels=hidden, split=kept), scored, labels[scored])


def run_trial(study: Study, settings: Mapping[str, Any], seed: int, data: HeldOut) -> Trial:
    """Fit and score; a refusal is recorded."""
    method = method_info(study.method).create(**settings)
    noise = NoiseSource.seeded(seed)  # nothing is released, and figures can be had again
    start = time.process_time()
    accuracy, error = None, ""
    try:
        fitted = fit(method, data.graph, study.budget, Streams(seed), noise)
        value = Metrics(fitted.probabilities[data.scored], data.truth).value(study.metric)
        accuracy = 0.0 if math.isnan(value) else value  # nothing to measure on these nodes
    except CaribouError as refusal:
        error = str(refusal)
    seconds = round(time.process_time() - start, 2)
    return replace(_planned(study, settings, seed), accuracy=accuracy, cpu_seconds=seconds, error=error)


def _planned(study: Study, settings: Mapping[str, Any], seed: int) -> Trial:
    return Trial(study.method, study.dataset, study.epsilon, settings, seed, None, 0.0, metric=study.metric)


def run_trials(
    study: Study,
    space: Space,
    data: Callable[[str, int], HeldOut],
    done: Iterable[Trial] = (),
    record: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """All trials of a study; those in ``done`` are not run again, each new one goes to ``record`` at once.

    ``data``: (data set, seed) -> `held_out`; where it returns the same object, kept encoders are used again.
    """
    known = {trial.key: trial for trial in done}
    trials = []
    for seed in study.seeds:
        for settings in settings_of(study.method, space):
            key = _planned(study, settings, seed).key
            if key not in known:
                known[key] = run_trial(study, settings, seed, data(study.dataset, seed))
                record(known[key])
            trials.append(known[key])
    return trials


# -- files of trials -----------------------------------------------------------------------------------------------


def read_trials(file: Path) -> list[Trial]:
    """All trials of a journal, archived and live; none if there is none.

    ``file``: the live one, ``<data set>.jsonl``. A line that a killed search cut off is left out: its trial is run again.
    """
    entries = read_archive(archive_of(file))
    for line in read_lines(file):
        with contextlib.suppress(json.JSONDecodeError):
            entries.append(json.loads(line))
    return [Trial(**(entry | {"epsilon": float(entry["epsilon"])})) for entry in entries]


def append_trial(file: Path, trial: Trial) -> None:
    """Add a trial; it is on the disk when this returns."""
    append_line(file, trial.to_json())


# -- best settings -------------------------------------------------------------------------------------------------------


def best_settings(study: Study, trials: Sequence[Trial]) -> TunedSettings:
    """The setting with the best mean over the seeds; the defaults win a tie, then who stands first in the space.

    A setting that was refused for any seed is not taken; if all were, this is an error with the refusal.
    """
    by_setting: dict[str, list[Trial]] = {}
    for trial in trials:  # in the order of the space, the defaults first
        by_setting.setdefault(json.dumps(trial.settings, sort_keys=True), []).append(trial)
    means = {key: _mean([t.accuracy for t in group]) for key, group in by_setting.items()}
    best = max(means, key=lambda key: means[key])  # the first of equals
    if math.isinf(means[best]):
        raise InputError(f"{study.method} must run on {study.dataset} to be searched, got: {trials[0].error}")
    default = next(iter(means.values()))
    return TunedSettings(
        study.method,
        study.dataset,
        study.epsilon,
        by_setting[best][0].settings,
        round(means[best], 4),
        None if math.isinf(default) else round(default, 4),
        len(means),
        study.seeds,
        __version__,
        study.metric,
    )


def _mean(accuracies: Sequence[float | None]) -> float:
    known = [a for a in accuracies if a is not None]
    return math.fsum(known) / len(known) if len(known) == len(accuracies) else -math.inf
