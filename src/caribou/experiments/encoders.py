"""Encoders of a run's cells, fitted once: at edge level every method and every epsilon starts from the same public encoder.

A cell that uses one again is charged what fitting it took when it was fitted, so that time and memory are those of the whole fit.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou._files import atomic_file
from caribou.memory import peak_mb
from caribou.models.encoder import Encoder, Key, Prior


@dataclass
class Charge:
    """What the encoders that were used again had cost: seconds, CPU seconds, and the peak memory of the process in MB."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0


@dataclass
class EncoderFolder:
    """Encoders as files of a folder that the processes of a run share, by what they were fitted on; see `kept_encoders`."""

    folder: Path
    charge: Charge = field(default_factory=Charge)
    _own: dict[str, Prior] = field(default_factory=dict)
    _began: tuple[float, float] = (0.0, 0.0)

    def __contains__(self, key: Key) -> bool:
        name = file_name(key)
        found = name in self._own or (self.folder / name).exists()
        self._began = (time.perf_counter(), time.process_time())  # if it is not there, it is fitted from now on
        return found

    def __getitem__(self, key: Key) -> Prior:
        name = file_name(key)
        if name not in self._own:
            with np.load(self.folder / name, allow_pickle=False) as file:
                arrays = dict(file)
            wall, cpu, peak = arrays.pop("cost")
            self.charge.seconds += float(wall)
            self.charge.cpu_seconds += float(cpu)
            self.charge.peak_mb = max(self.charge.peak_mb, float(peak))
            probabilities, accuracy = arrays.pop("probabilities"), float(arrays.pop("validation_accuracy"))
            left_out = arrays.pop("left_out", None)
            self._own[name] = Prior(probabilities, accuracy, Encoder.from_arrays(arrays), left_out)
        return self._own[name]

    def __setitem__(self, key: Key, prior: Prior) -> None:
        wall, cpu = self._began
        cost = np.array([time.perf_counter() - wall, time.process_time() - cpu, peak_mb() or 0.0])
        name = file_name(key)
        self._own[name] = prior
        arrays: dict[str, Any] = {
            "cost": cost,
            "probabilities": prior.probabilities,
            "validation_accuracy": np.array(prior.validation_accuracy),
            **({} if prior.left_out is None else {"left_out": prior.left_out}),
            **prior.encoder.to_arrays(),
        }
        # A run may outlive its temporary folder, which systems and people clean up: then the encoder is fitted again.
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.folder / name) as temporary:  # another cell sees the whole file or none
            np.savez(temporary, **arrays)


@lru_cache(maxsize=2)
def file_name(key: Key) -> str:
    """A digest of all that an encoder is fitted on: features, labels, split, seed, widths, folds, objective; no edge is read.

    Features are hashed where they lie: a copy would show in the peak memory of the cell.
    """
    graph, streams, hidden, folds, objective = key
    x = graph.features
    digest = hashlib.sha256(
        repr((streams.seed, hidden, folds, objective, x.shape, str(x.dtype), sp.issparse(x))).encode()
    )
    for part in (x.indptr, x.indices, x.data) if sp.issparse(x) else (x,):
        digest.update(hashlib.sha256(np.ascontiguousarray(part).data).digest())
    split, labels = graph.for_learning(public=True)
    for array in (np.array(labels), split.train, split.val, split.test):
        digest.update(hashlib.sha256(np.asarray(array).astype("<i8").tobytes()).digest())
    return f"{digest.hexdigest()[:40]}.npz"
