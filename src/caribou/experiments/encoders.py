"""Encoders and priors of a run's cells, fitted once: at edge level every epsilon starts from the same public fit.

A cell that uses one again is charged what fitting it took when it was fitted, so that time and memory are those of the whole fit.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.sparse as sp

from caribou._files import atomic_file
from caribou.graph import Graph
from caribou.memory import peak_mb
from caribou.models.class_prior import ClassPrior
from caribou.models.encoder import Encoder, Key, Prior, PriorKey

K = TypeVar("K")
V = TypeVar("V")


@dataclass
class Charge:
    """What the encoders that were used again had cost: seconds, CPU seconds, and the peak memory of the process in MB."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0


@dataclass(frozen=True)
class Form(Generic[K, V]):
    """How one kind of fit is kept: what names its file, and its arrays."""

    name: Callable[[K], str]
    to_arrays: Callable[[V], dict[str, Any]]
    from_arrays: Callable[[dict[str, np.ndarray]], V]


@dataclass
class FitFolder(Generic[K, V]):
    """Fits as files of a folder that the processes of a run share, by what they were fitted on; see `kept_encoders`."""

    folder: Path
    form: Form[K, V]
    charge: Charge = field(default_factory=Charge)
    _own: dict[str, V] = field(default_factory=dict)
    _began: tuple[float, float] = (0.0, 0.0)

    def __contains__(self, key: K) -> bool:
        name = self.form.name(key)
        found = name in self._own or (self.folder / name).exists()
        self._began = (time.perf_counter(), time.process_time())  # if it is not there, it is fitted from now on
        return found

    def __getitem__(self, key: K) -> V:
        name = self.form.name(key)
        if name not in self._own:
            with np.load(self.folder / name, allow_pickle=False) as file:
                arrays = dict(file)
            wall, cpu, peak = arrays.pop("cost")
            self.charge.seconds += float(wall)
            self.charge.cpu_seconds += float(cpu)
            self.charge.peak_mb = max(self.charge.peak_mb, float(peak))
            self._own[name] = self.form.from_arrays(arrays)
        return self._own[name]

    def __setitem__(self, key: K, value: V) -> None:
        wall, cpu = self._began
        cost = np.array([time.perf_counter() - wall, time.process_time() - cpu, peak_mb() or 0.0])
        name = self.form.name(key)
        self._own[name] = value
        # A run may outlive its temporary folder, which systems and people clean up: then the encoder is fitted again.
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.folder / name) as temporary:  # another cell sees the whole file or none
            np.savez(temporary, cost=cost, **self.form.to_arrays(value))


def _encoder_arrays(prior: Prior) -> dict[str, Any]:
    return {
        "probabilities": prior.probabilities,
        "validation_accuracy": np.array(prior.validation_accuracy),
        **({} if prior.left_out is None else {"left_out": prior.left_out}),
        **prior.encoder.to_arrays(),
    }


def _encoder_of(arrays: dict[str, np.ndarray]) -> Prior:
    probabilities, accuracy = arrays.pop("probabilities"), float(arrays.pop("validation_accuracy"))
    left_out = arrays.pop("left_out", None)
    return Prior(probabilities, accuracy, Encoder.from_arrays(arrays), left_out)


def _prior_of(arrays: dict[str, np.ndarray]) -> tuple[ClassPrior, np.ndarray]:
    probabilities = arrays.pop("probabilities")
    return ClassPrior.from_arrays(arrays), probabilities


@lru_cache(maxsize=2)
def encoder_name(key: Key) -> str:
    """A digest of all that an encoder is fitted on: features, labels, split, seed, widths, folds, objective; no edge is read."""
    graph, streams, hidden, folds, objective = key
    return _file_name(graph, (streams.seed, hidden, folds, objective))


@lru_cache(maxsize=2)
def prior_name(key: PriorKey) -> str:
    """A digest of all that a class prior is fitted on: features, labels, split, seed, weights of the classes; no edge is read."""
    graph, seed, class_weight = key
    return _file_name(graph, ("prior", seed, class_weight))


def _file_name(graph: Graph, settings: tuple[Any, ...]) -> str:
    """Features are hashed where they lie: a copy would show in the peak memory of the cell."""
    x = graph.features
    digest = hashlib.sha256(repr((*settings, x.shape, str(x.dtype), sp.issparse(x))).encode())
    for part in (x.indptr, x.indices, x.data) if sp.issparse(x) else (x,):
        digest.update(hashlib.sha256(np.ascontiguousarray(part).data).digest())
    split, labels = graph.for_learning(public=True)
    for array in (np.array(labels), split.train, split.val, split.test):
        digest.update(hashlib.sha256(np.asarray(array).astype("<i8").tobytes()).digest())
    return f"{digest.hexdigest()[:40]}.npz"


ENCODERS: Form[Key, Prior] = Form(encoder_name, _encoder_arrays, _encoder_of)
PRIORS: Form[PriorKey, tuple[ClassPrior, np.ndarray]] = Form(
    prior_name, lambda fit: {"probabilities": fit[1], **fit[0].to_arrays()}, _prior_of
)
